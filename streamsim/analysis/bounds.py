"""Lower bounds, in time: of a schedule as it is issued, and of the work however it is cut and issued.

**As issued.** No run of this schedule is faster, whatever order the engines choose. Another schedule of the same work
may well be faster: fewer chunks pay fewer latencies, more chunks fill the pipeline sooner.

**Of the work.** The bound holds for every number of chunks and streams, every order and every ring of buffers. Memory,
launch and front end are those that were asked for.

**For one number of chunks** an engine ends no sooner than ``head + work + tail``. ``head``: the calls and the chain of
ops before its first op, with what the first call of each kind takes longer. ``work``: all of its ops one after another,
or side by side as far as the card has room. ``tail``: the chain of ops behind its last op. The link and the host are
bounded in the same way. Hand-overs, events, crowds, other dearer calls and waits only delay ops, and are left out.

**For a range of numbers of chunks** each part is taken where it is least: latencies and calls at the fewest chunks, the
chains of a chunk at the most chunks. A kernel's time for a share of the work is made of straight lines over the share.
Between two bends of such a line, time over share is least at one of the bends. All launches together have all the work,
and take at least the least of the shares that they may have.

**For all numbers** the range with the least bound is halved, until that range is narrow. Its bound is then the least of
all, so it holds for all numbers.

The clock rounds each op to whole nanoseconds, and no rounding is counted here. So a program of N launches may come out
below the bound by N / 2 nanoseconds.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from streamsim import lowering
from streamsim.device import Device, as_device, bends
from streamsim.errors import LARGEST_BYTES, LEAST_FILL, MOST_CHUNKS
from streamsim.program import ALIGN_BYTES, Copy, HostMemory, Kernel, Launch, Schedule, Workload, WorkloadKernel
from streamsim.rules import D2H, FULL_CARD, H2D, KERNEL, NOTHING, TICKS_PER_S, release_tick, ticks
from streamsim.text import format_seconds

ENGINE_WORDS = {
    "h2d": "H2D copy engine",
    "d2h": "D2H copy engine",
    "copy": "copy engine",
    "compute": "compute engine",
    "gpu": "copies and kernels in turn",
}
BOUND_OF_WORK, BOUND_AS_ISSUED, BUSIEST_ENGINE = "bound of the work", "bound as issued", "busiest engine alone"
LINK, HOST, CHAIN = "link, both directions", "host issue", "longest chain"
NARROW = 64  # ranges of fewer numbers than their first over this are not halved
FEW = 64  # threads of a chunk: fewer are rounded so much that nothing is said of them
CLOSE = 1e-6  # of an element: what a share times all elements may be off by
OFF_BY = 1 + 1 / (2 * FEW)  # by what rounding changes the number of threads at most


class Bound(msgspec.Struct, frozen=True):
    """Something takes no less than ``seconds`` on a device: a schedule, or every way to cut and issue a workload.

    ``bound_by``: what sets it, in words for people. ``each``: the bound of every resource by itself, in seconds.
    """

    seconds: float
    bound_by: str
    each: dict[str, float]

    def __repr__(self) -> str:
        return f"Bound({format_seconds(self.seconds)} by {self.bound_by})"


def bound_json(name: str, bound: Bound | None) -> dict[str, float | str | None]:
    """A bound as JSON has it, under its name; None: it is not known."""
    found = (None, None) if bound is None else (bound.seconds, bound.bound_by)
    return dict(zip((f"{name}_bound_s", f"{name}_bound_by"), found, strict=True))


def lower_bound(schedule: Schedule, device: Device | str | Path) -> Bound:
    """Bound the makespan of this schedule as it is issued: by its engines, the link, the host and the longest chain.

    ``device``: a Device, or the name or file of one. Linear time. Raises InputError for an unknown device, and when it
    has no cost for a kernel that the schedule names.
    """
    return bound_of(lowering.lower(schedule, as_device(device)))


def bound_of(lowered: lowering.Lowered) -> Bound:
    """:func:`lower_bound` of a schedule that is lowered for its device already."""
    counts = Counter(lowered.cost)
    amounts = [(cost, counts[index]) for index, cost in enumerate(lowered.costs)]
    (chain, is_calls), arrivals = _longest_chain(lowered), _arrivals(lowered)
    engines = list(_engine_work(lowered, amounts, arrivals))
    called_late = max((arrival + busy for _, arrival, busy in engines if arrival > busy), default=0)
    last = max((tick for tick, kind in zip(arrivals, lowered.kind, strict=True) if kind != NOTHING), default=0)
    ticks = {
        HOST: max(called_late, chain if is_calls else last),
        **{ENGINE_WORDS[name]: arrival + busy for name, arrival, busy in engines},
        LINK: _link_work(lowered, amounts, arrivals),
        CHAIN: chain,
    }
    bound_by = max(ticks, key=lambda name: ticks[name])  # the first of equals
    return Bound(ticks[bound_by] / TICKS_PER_S, bound_by, {name: tick / TICKS_PER_S for name, tick in ticks.items()})


Amounts = Sequence[tuple[lowering.OpCost, int]]  # shapes of ops, and how many there are of each


def _longest_chain(lowered: lowering.Lowered) -> tuple[int, bool]:
    """Return when the last op could end if every engine were free at once and ran any number of ops.

    And True if host calls take most of the chain of dependences until then.

    One pass in issue order, in which dependences only point forwards; the host issues and waits on the way. Once a
    thread has waited its calls may come later than here, and what they issue may find all ended that it waits for: no
    hand-over is counted then.
    """
    n, kind = len(lowered.kind), lowered.kind
    durations = [cost.duration for cost in lowered.costs]
    end, calls_in = [0] * n, [0] * n  # each op's chain: when it ends, and the ticks of host calls in it
    predecessors, crossing = lowered.predecessors(), lowered.crossing
    threads = dict.fromkeys(lowered.threads, (lowered.launch, lowered.launch))  # the same when each has come so far
    waited: set[int] = set()  # the threads that have waited
    returned: list[tuple[int, int]] = []  # the same of every segment
    for segment in lowered.segments:
        now, calls = threads[segment.thread]
        for op in range(segment.first, segment.last):
            call = lowered.call[op]
            now += call
            calls += call
            if kind[op] == NOTHING:
                continue
            comes, in_chain = now + lowered.submit, calls
            start = comes
            for earlier in sorted(predecessors(op)):
                hand_over = 0 if segment.thread in waited else crossing(earlier, op)
                released = release_tick(end[earlier], hand_over, comes)
                if released > start:
                    start, in_chain = released, calls_in[earlier]
            end[op], calls_in[op] = start + durations[lowered.cost[op]], in_chain
        if segment.waits_for or segment.behind != lowering.NO_SEGMENT:
            waited.add(segment.thread)
        last = max(segment.waits_for, key=end.__getitem__, default=-1)
        if last >= 0 and end[last] + lowered.wake > now:
            now, calls = end[last] + lowered.wake, calls_in[last]
        if segment.behind != lowering.NO_SEGMENT and returned[segment.behind][0] > now:
            now, calls = returned[segment.behind]
        threads[segment.thread] = now, calls
        returned.append((now, calls))
    latest = max(range(n), key=end.__getitem__)
    return end[latest], 2 * calls_in[latest] > end[latest]


def _arrivals(lowered: lowering.Lowered) -> list[int]:
    """For every op the tick at which the card has it if no call ever waits for the card."""
    returned: list[int] = []
    now = dict.fromkeys(lowered.threads, lowered.launch)
    for segment in lowered.segments:
        before = now[segment.thread]
        returned += islice(accumulate(lowered.call[segment.first : segment.last], initial=before), 1, None)
        if segment.behind != lowering.NO_SEGMENT:
            returned[-1] = max(returned[-1], returned[lowered.segments[segment.behind].last - 1])
        now[segment.thread] = returned[-1]
    return [tick + lowered.submit for tick in returned]


def _first_arrival(lowered: lowering.Lowered, arrivals: Sequence[int], *kinds: int) -> int:
    """None of the ops of these kinds can be on the card before this tick."""
    return min(tick for tick, kind in zip(arrivals, lowered.kind, strict=True) if kind in kinds)


def _engine_work(
    lowered: lowering.Lowered, amounts: Amounts, arrivals: Sequence[int]
) -> Iterator[tuple[str, int, int]]:
    """Each engine, the tick at which the first of its ops can be on the card, and the ticks of all one after another.

    Kernels share the card by the part that they fill, and at most ``concurrent_kernels`` of them run at once. While a
    kernel drains others may work; behind the last to work there is a drain that none hides.
    """
    most = lowered.device.compute.concurrent_kernels
    for engine, name in enumerate(lowered.engine_names):
        kinds = [kind for kind, its_engine in enumerate(lowered.engine_of) if its_engine == engine]
        own = [(cost, count) for cost, count in amounts if cost.kind in kinds]
        if own:
            busy = sum(cost.busy * count for cost, count in own)
            if name == "compute":
                area = sum(cost.busy * cost.fill * count for cost, count in own)
                side_by_side = max(-(-area // FULL_CARD), -(-busy // most))
                busy = (busy if most == 1 else side_by_side) + min(cost.drain for cost, _ in own)
            yield name, _first_arrival(lowered, arrivals, *kinds), busy


def _link_work(lowered: lowering.Lowered, amounts: Amounts, arrivals: Sequence[int]) -> int:
    """Ticks that both directions together need on a link on which they slow each other down."""
    if len(lowered.engine_names) < 3 or not any(cost.kind in (H2D, D2H) for cost, _ in amounts):
        return 0
    there, back = (_flow([(cost, count) for cost, count in amounts if cost.kind == kind]) for kind in (H2D, D2H))
    return _first_arrival(lowered, arrivals, H2D, D2H) + math.floor(duplex_bound(there, back))


class Flow(msgspec.Struct, frozen=True):
    """What one direction of a link has to move, in any unit of time.

    ``latency``: in all, during which no bytes flow. ``alone``: the time its bytes take with the link to
    themselves; ``immune`` of it by copies that the other direction does not slow down. ``loss``: the share of
    its rate (0..1) that it loses while the other direction flows too.
    """

    latency: float
    alone: float
    loss: float
    immune: float = 0.0


def _flow(copies: Amounts) -> Flow:
    times = [(cost.rate, cost.units * count / cost.rate.alone) for cost, count in copies]
    loss = max((1 - rate.shared / rate.alone for rate, _ in times), default=0.0)
    immune = sum(time for rate, time in times if rate.shared == rate.alone)
    latency = sum(cost.rate.latency[0] * count for cost, count in copies)
    return Flow(latency, sum(time for _, time in times), loss, immune)


def duplex_bound(there: Flow, back: Flow) -> float:
    """Find the shortest time in which both directions can move what they have to.

    Let c be the time during which both directions flow. A direction that moves A units, at the rate r alone
    and s < r while the other flows, needs A = r (t - c) + s c, so it flows for t(c) = A/r + c (1 - s/r); what
    it moves by copies that are not slowed down may lie in c for nothing. Then for every c >= 0

        T >= L1 + t1(c),   T >= L2 + t2(c)       each direction's latencies and bytes take their time in turn
        T >= t1(c) + t2(c) - c                   the time during which at least one direction flows

    The first two grow with c. The third falls with c as long as overlap pays. All are convex and piecewise
    linear, so the smallest of their maximum lies at a corner or where two of them cross: a linear program
    in two unknowns, T and c.
    """

    def lines(c: float) -> tuple[float, float, float]:
        t1, t2 = (f.alone + f.loss * max(0.0, c - f.immune) for f in (there, back))
        return there.latency + t1, back.latency + t2, t1 + t2 - c

    corners = sorted({0.0, there.immune, back.immune})
    beyond = corners[-1] + there.latency + there.alone + back.latency + back.alone + 1.0
    candidates = [0.0]
    for low, high in zip(corners, (*corners[1:], beyond), strict=True):
        candidates.append(high)
        at_low, at_high = lines(low), lines(high)
        for a, b in zip(at_low[:2], at_high[:2], strict=True):  # where the third line crosses one of the others
            gap_low, gap_high = at_low[2] - a, at_high[2] - b
            if gap_low > 0 > gap_high:
                candidates.append(low + (high - low) * gap_low / (gap_low - gap_high))
    return min(max(lines(c)) for c in candidates)


# Of the work


def work_bound(
    workload: Workload, device: Device | str | Path, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Bound:
    """Bound what ``workload`` takes on ``device`` however it is cut and issued, from such memory, by such a launch.

    ``device``: a Device, or the name or file of one. Raises InputError for an unknown device, and when it has no cost
    for a kernel of the workload.
    """
    device = as_device(device)
    work = _WorkBounds(workload, device, memory == "pageable", launch)
    first, last = 1, min(MOST_CHUNKS, workload.most_chunks)
    ranges: list[tuple[float, int, int]] = []
    while last - first > first // NARROW:
        middle = math.isqrt(first * last)
        for part in ((first, middle), (middle + 1, last)):
            heappush(ranges, (max(work.bounds(*part).values()), *part))
        _, first, last = heappop(ranges)
    return _named(work.bounds(first, last), work.busiest(first, last))


def chunk_bounds(
    workload: Workload, device: Device, chunks: Iterable[int], memory: HostMemory = "pinned", launch: Launch = "live"
) -> dict[int, int]:
    """Return ticks, by number of chunks, that no program of so many chunks beats, whatever the clock rounds."""
    work = _WorkBounds(workload, device, memory == "pageable", launch)
    rounded = {n: n * (sum(workload.launches_in(n)) + workload.has_host_work) / 2 for n in chunks}
    return {n: math.floor((1 - 1e-6) * max(work.bounds(n, n).values()) - rounded[n]) for n in rounded}


def _named(bounds: dict[str, float], busiest: float) -> Bound:
    """The bound in seconds. If no engine is busy for half of it, the chain of a chunk sets it."""
    bound_by = max(bounds, key=lambda name: bounds[name])
    least = bounds[bound_by]
    if bound_by != HOST and 2 * busiest < least:
        bound_by = CHAIN
        bounds = {**bounds, CHAIN: least}
    each = {name: math.floor(bound + 1e-6) / TICKS_PER_S for name, bound in bounds.items()}  # in whole ticks
    return Bound(each[bound_by], bound_by, each)


class _Copies:
    """The copies of one direction: those of each chunk, and those that are made once. Times are in ticks."""

    def __init__(self, rate: lowering.Rate, arrays: Sequence[int], elements: int | None, once: Sequence[int]) -> None:
        self._rate, self.arrays, self._elements = rate, arrays, elements
        self.latency = rate.latency[0]
        self.calls_once = len(once)
        self.once = self.of_sizes(once)
        self._flowing = self.of_sizes((*arrays, *once)) - self.latency * (len(arrays) + len(once))

    def __bool__(self) -> bool:
        return len(self.arrays) + self.calls_once > 0

    def of_sizes(self, sizes: Sequence[float]) -> float:
        """Copies of so many bytes each, one after another."""
        return sum(self.latency + n * (1 << lowering.BYTE_BITS) / self._rate.alone for n in sizes)

    def copies(self, chunks: int) -> int:
        """How many copies so many chunks or more make at least."""
        return self.calls_once + sum(chunks if self._elements else min(chunks, _pieces(n)) for n in self.arrays)

    def work(self, chunks: int) -> float:
        """All copies one after another."""
        return self.latency * self.copies(chunks) + self._flowing

    def flow(self, chunks: int, idle: float) -> Flow:
        """What the direction moves, in a window ``idle`` ticks of which it cannot use."""
        loss = 1 - self._rate.shared / self._rate.alone
        return Flow(idle + self.latency * self.copies(chunks), self._flowing, loss, 0.0 if loss else self._flowing)


def _pieces(n_bytes: int) -> int:
    """How many pieces an array can be cut into, unless it has whole elements."""
    return -(-n_bytes // ALIGN_BYTES)


class _Launches:
    """Bounds on what the launches of a kernel take, in ticks.

    - ``cards``: the device, and the device without a least time of launches if some come right behind others.
    - ``whole``: a launch over all the work. ``is_exact``: chunks have whole elements; else their numbers are rounded.
    """

    def __init__(self, kernel: WorkloadKernel, whole: Kernel, cards: Sequence[Device], is_exact: bool) -> None:
        self.kernel, self._whole, self._cards, self._is_exact = kernel, whole, cards, is_exact
        self._full = cards[0].compute.resident_threads
        self._width_loss = cards[0].compute.concurrent_kernels / (2 * FULL_CARD)  # widths are whole units of the card
        shares = {share for card in cards for share in self._bends(card)}
        self._least = {share: self._per_share(share) for share in shares if self._is_sound(share)}
        launch_s = min(card.compute.floor_s if card.occupancy(self._part(1.0)).drain_s else 0.0 for card in cards)
        self.drain = max(0, ticks(launch_s) - 1) if whole.duration_s is not None else 0

    def least(self, first: int, last: int, most_share: float) -> tuple[float, float]:
        """Return the least ticks of all launches, one after another, and of the whole card side by side.

        There are ``first`` to ``last`` chunks. Each has at most ``most_share`` of the work.
        """
        kernel, whole = self.kernel, self._whole
        if kernel.per == "item":
            return self._least_of_items(max(kernel.launches, first), kernel.launches + last)
        if whole.duration_s is None:
            most_share = min(1.0, math.ceil(most_share * whole.elements - CLOSE) / whole.elements)
        found = [least for share, least in self._least.items() if share <= most_share]
        found += [self._per_share(most_share)] if self._is_sound(most_share) else []
        works, area = (kernel.launches * min(column) for column in zip(*found, strict=True)) if found else (0.0, 0.0)
        return works, area

    def _least_of_items(self, fewest: int, most: int) -> tuple[float, float]:
        """Return the least of ``fewest`` to ``most`` whole launches."""
        seconds, works = self.kernel.duration_s or 0.0, math.inf
        for card in self._cards:
            floor_s, drain_s = card.compute.floor_s, card.occupancy(self._part(1.0)).drain_s
            works = min(works, max(0.0, seconds - most * floor_s) if drain_s else max(seconds, fewest * floor_s))
        threads = self.kernel.threads
        fill = self.kernel.fill or (min(1.0, threads / self._full) if threads and self._full else 1.0)
        return works * TICKS_PER_S, works * TICKS_PER_S * fill * (1 - self._width_loss)

    def of_chunk(self, share: float, chunks: int) -> int:
        """Return the least ticks of a chunk's launches over at least this share, in at most ``chunks`` chunks."""
        is_known = self.kernel.per == "chunk" and self._is_sound(share)
        alone_s = (
            card.occupancy(self._part(share)).alone_s if is_known else card.compute.floor_s for card in self._cards
        )
        return self.kernel.launches_in(chunks) * max(1, ticks(min(alone_s)))

    def _is_sound(self, share: float) -> bool:
        """Return True if a chunk of such a share has anything to be timed by."""
        return share * (self._whole.duration_s or 1.0) > 1e-15 and share <= 1

    def _per_share(self, share: float) -> tuple[float, float]:
        """Return the ticks of all the work if every launch has this share of it."""
        has = share
        if self._whole.duration_s is None:
            elements = self._elements(share)
            has = elements / self._whole.elements * (1 if self._is_exact else 1 + 1 / (2 * elements))
        works = area = math.inf
        for card in self._cards:
            use = card.occupancy(self._part(share))
            own = max(0.0, (use.alone_s - use.drain_s) * TICKS_PER_S) / has
            works = min(works, own)
            area = min(area, own, use.alone_s * use.share * TICKS_PER_S / has)
        return works, max(0.0, area) * (1 - self._width_loss)

    def _elements(self, share: float) -> int:
        return max(1, int(share * self._whole.elements + CLOSE))

    def _part(self, share: float) -> Kernel:
        """Return a part in as many threads as rounding may give it: more threads are faster."""
        whole, full = self._whole, self._full
        if whole.duration_s is None:
            return replace(whole, elements=self._elements(share))
        threads, least_fill = whole.threads or whole.elements, whole.fill or 1.0
        if threads and full:
            few = share * threads < FEW
            waves = threads / full * (2 / 3 if few else 1 / OFF_BY)
            least_fill = whole.fill or max(LEAST_FILL, min(1.0, waves))
            threads = LARGEST_BYTES if few else math.ceil(share * threads * OFF_BY)
        return replace(whole, fill=least_fill, duration_s=whole.duration_s * share, share=share, threads=threads)

    def _bends(self, card: Device) -> list[float]:
        """Return the shares between which the time of a launch is a straight line."""
        whole, full, floor_s = self._whole, self._full, card.compute.floor_s
        if whole.duration_s is not None:
            waves = (whole.threads or whole.elements) / full * OFF_BY if full else 0.0
            return bends(whole.duration_s, waves, floor_s, whole.parts)
        cost = card.cost_of(whole)
        at_floor = {
            int(a + (b - a) * (floor_s - shorter) / (longer - shorter))
            for (a, shorter), (b, longer) in pairwise(zip(cost.elements, cost.duration_s, strict=True))
            if shorter < floor_s < longer
        }
        found = {*cost.elements, full, *at_floor, *(n + 1 for n in at_floor)}
        return [n / whole.elements for n in found if 0 < n <= whole.elements]


class _HeadAndTail(NamedTuple):
    """By kind of op, the ticks before the first op of that kind starts, and those behind the work of the last one.

    ``whole``: when the chunk could be back if it were the first to be issued.
    """

    whole: float
    head: dict[int, float]
    tail: dict[int, float]


class _WorkBounds:
    """A workload on a device. Every number of chunks is asked of it; times are in ticks."""

    def __init__(self, workload: Workload, device: Device, is_pageable: bool, launch: Launch) -> None:
        self._workload, self._device = workload, device
        into, back = (lowering.rate_of(device, way, 1, is_pageable, launch) for way in ("h2d", "d2h"))
        self._into = _Copies(into, workload.input_bytes, workload.elements, workload.h2d_once)
        self._back = _Copies(back, workload.output_bytes, workload.elements, workload.d2h_once)
        calls = lowering.call_ticks(launch, device)
        self._copy_call = calls[Copy]
        self._kernel_calls = [lowering.kernel_call(calls, kernel.name) for kernel in workload.kernels]
        self._begins = ticks(device.host.submit_s) + ticks(device.host.graph_launch_s) * (launch == "graph")
        more = lowering.surcharges_of(launch, device, bool(self._into or self._back), bool(workload.kernels))
        self._begins += more.enter
        # By kind of op the ticks that the first call for one takes beyond its own, in every program.
        each = more.first_on_stream + more.turn
        firsts = {H2D: each + more.after_wait, KERNEL: each + more.after_wait + more.first_launch, D2H: each}
        self._has = {H2D: bool(self._into), KERNEL: bool(workload.kernels), D2H: bool(self._back)}
        self._firsts = {kind: first * self._has[kind] for kind, first in firsts.items()}
        cards = [device]
        if launch == "graph" and sum(workload.launches_in(1)) > 1:  # a launch behind another one may have no floor
            cards.append(replace(device, compute=replace(device.compute, floor_s=0.0)))
        (whole,) = workload.cut(1)
        is_exact = workload.elements is not None
        launches = zip(workload.kernels, workload.kernels_of(whole), strict=True)
        self._kernels = [_Launches(kernel, launch, cards, is_exact) for kernel, (launch, _) in launches]
        arrays = (*workload.input_bytes, *workload.output_bytes)
        self._units = workload.elements or _pieces(max(arrays, default=0))
        self._fewest = workload.elements or min(map(_pieces, arrays), default=MOST_CHUNKS)

    def bounds(self, first: int, last: int) -> dict[str, float]:
        """No program of ``first`` to ``last`` chunks is faster than any of these, by what sets it."""
        chain = self._chain(self._least_share(first, last), last, last <= self._fewest)
        found = {HOST: self._host(first, last)}
        for name, kinds, work in self._engines(first, last):
            found[ENGINE_WORDS[name]] = chain.head[kinds[0]] + work + chain.tail[kinds[-1]]
        if self._device.copy_engines.count == 2 and self._into and self._back:
            idle = chain.tail[H2D], chain.head[D2H] - chain.head[H2D]
            flows = self._into.flow(first, idle[0]), self._back.flow(first, idle[1])
            found[LINK] = chain.head[H2D] + duplex_bound(*flows)
        return found | {CHAIN: self._chain(1 / last, last).whole}

    def busiest(self, first: int, last: int) -> float:
        """What the engine with the most to do works at least."""
        return max((work for _, _, work in self._engines(first, last)), default=0.0)

    def _engines(self, first: int, last: int) -> Iterator[tuple[str, list[int], float]]:
        """The engines that have something to do, the kinds of their ops in a chunk's order, and their work."""
        names, engine_of = lowering.ENGINES[self._device.copy_engines.count]
        for engine, name in enumerate(names):
            kinds = [kind for kind, is_there in self._has.items() if is_there and engine_of[kind] == engine]
            work = sum(way.work(first) for kind, way in ((H2D, self._into), (D2H, self._back)) if kind in kinds)
            if KERNEL in kinds:
                work += self._kernel_work(first, last, alone=kinds == [KERNEL])
            if kinds:
                yield name, kinds, work

    def _kernel_work(self, first: int, last: int, alone: bool) -> float:
        """What the kernels take of their engine: one by one, or side by side where they have it for themselves."""
        share, beside = self._most_share(first), self._device.compute.concurrent_kernels
        found = [kernel.least(first, last, share) for kernel in self._kernels]
        works, area = map(sum, zip(*found, strict=True))
        return max(area, works / beside) if alone and beside > 1 else works

    def _most_share(self, chunks: int) -> float:
        """The most of the work that a chunk has if there are so many of them or more."""
        if self._workload.elements:
            return -(-self._units // chunks) / self._units
        if self._units < chunks:
            return 1 / chunks
        return min(1.0, -(-self._units // chunks) / (self._units - 1)) if self._units > 1 else 1.0

    def _least_share(self, first: int, last: int) -> float:
        """The least of the work that a chunk has, in every program of ``first`` to ``last`` chunks."""
        arrays = (*self._into.arrays, *self._back.arrays)
        if first == last and arrays and not self._workload.elements:
            cuts = (part.inputs + part.outputs for part in self._workload.cut(first))
            return min(n / whole for cut in cuts for n, whole in zip(cut, arrays, strict=True))
        least = self._fewest // last  # without elements, the last of N chunks of U pieces has at least U / N - N
        return (least if self._workload.elements else max(0, least - last)) / self._fewest

    def _chain(self, share: float, chunks: int, has_all: bool = True) -> _HeadAndTail:
        """What lies before and behind the ops of each kind: calls of the host, and the chain of a chunk.

        The chunk has this share of the work at least, of at most ``chunks`` chunks. ``has_all``: and of each array.
        """
        into, back = (
            way.of_sizes([share * n for n in way.arrays]) if has_all else 0.0 for way in (self._into, self._back)
        )
        kernels = sum(kernel.of_chunk(share, chunks) for kernel in self._kernels)
        launches = zip(self._workload.launches_in(chunks), self._kernel_calls, strict=True)
        launch_calls = sum(many * call for many, call in launches)
        copies_in, copies_back = (self._copy_call * len(way.arrays) for way in (self._into, self._back))
        begins = self._begins + self._copy_call * self._into.calls_once
        issued = begins + ticks(self._workload.host_work_s)
        head_in = self._begins + self._copy_call if self._into.calls_once else issued + min(self._copy_call, copies_in)
        head_in += self._firsts[H2D]
        called = issued + copies_in + self._firsts[H2D] + self._firsts[KERNEL]
        head_kernel: float = called + sum(self._kernel_calls[:1])
        if self._into:
            head_kernel = max(head_kernel, head_in + self._into.once + into)
        first_back = min(self._copy_call, copies_back)
        head_back = max(called + launch_calls + first_back + self._firsts[D2H], head_kernel + kernels)
        back += self._back.once
        drain = self._kernels[-1].drain if self._kernels else 0
        head = {H2D: head_in, KERNEL: head_kernel, D2H: head_back}
        return _HeadAndTail(head_back + back, head, {H2D: kernels + back, KERNEL: drain + back, D2H: 0.0})

    def _host(self, first: int, last: int) -> float:
        """All calls, what the host does between them, and the last op of the program."""
        workload = self._workload
        launches = (
            max(kernel.launches, first) if kernel.per == "item" else first * kernel.launches
            for kernel in workload.kernels
        )
        calls = self._copy_call * (self._into.copies(first) + self._back.copies(first))
        calls += sum(many * call for many, call in zip(launches, self._kernel_calls, strict=True))
        works = (first * workload.host_work_s + workload.host_load_s) * TICKS_PER_S
        ends = self._back.latency if self._back and (last <= self._fewest or self._back.calls_once) else 0.0
        return self._begins + sum(self._firsts.values()) + calls + works + ends
