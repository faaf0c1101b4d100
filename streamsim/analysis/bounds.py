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
from collections.abc import Iterable, Sequence
from functools import cache
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

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

    ``bound_by``: what sets it, in words for people. ``each``: the bound of every resource of a schedule, in seconds.
    """

    seconds: float
    bound_by: str
    each: dict[str, float] = {}

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
    counts, (chain, is_calls, arrivals, last) = Counter(lowered.cost), _walked(lowered)
    amounts = [(cost, counts[index]) for index, cost in enumerate(lowered.costs)]
    host, engines = chain if is_calls else last, dict[str, int]()
    for engine, name in enumerate(lowered.engine_names):
        own = [(cost, count) for cost, count in amounts if lowered.engine_of[cost.kind] == engine]
        if own:
            first = min(arrivals[cost.kind] for cost, _ in own)
            busy = _busy(own, lowered.device.compute.concurrent_kernels if name == "compute" else 1)
            engines[ENGINE_WORDS[name]] = first + busy
            host = max(host, first + busy if first > busy else 0)
    copies = [(cost, count) for cost, count in amounts if cost.kind in (H2D, D2H)]
    link = 0
    if len(lowered.engine_names) == 3 and copies:
        there, back = (_flow([one for one in copies if one[0].kind == kind]) for kind in (H2D, D2H))
        link = min(arrivals[cost.kind] for cost, _ in copies) + math.floor(duplex_bound(there, back))
    each = {HOST: host, **engines, LINK: link, CHAIN: chain}
    bound_by = max(each, key=lambda name: each[name])  # the first of equals
    return Bound(each[bound_by] / TICKS_PER_S, bound_by, {name: tick / TICKS_PER_S for name, tick in each.items()})


Amounts = Sequence[tuple[lowering.OpCost, int]]  # shapes of ops, and how many there are of each


def _busy(own: Amounts, most: int) -> int:
    """Return the ticks that an engine works: its ops one after another, or ``most`` of its kernels side by side.

    Kernels share the card by the part that they fill. While a kernel drains others may work; behind the last to work
    there is a drain that none hides.
    """
    busy = sum(cost.busy * count for cost, count in own)
    if most > 1:
        area = sum(cost.busy * cost.fill * count for cost, count in own)
        busy = max(-(-area // FULL_CARD), -(-busy // most))
    return busy + min(cost.drain for cost, _ in own)


def _walked(lowered: lowering.Lowered) -> tuple[int, bool, dict[int, int], int]:
    """Return when the last op could end if every engine were free at once and ran any number of ops, in ticks.

    And whether host calls take most of the chain of dependences until then; when the card has the first op of each
    kind, and the last op, if no call waits for the card.

    One pass in issue order, in which dependences only point forwards; the host issues and waits on the way. Once a
    thread has waited its calls may come later than here, and what they issue may find all ended that it waits for: no
    hand-over is counted then.
    """
    n, kind = len(lowered.kind), lowered.kind
    durations = [cost.duration for cost in lowered.costs]
    end, calls_in = [0] * n, [0] * n  # each op's chain: when it ends, and the ticks of host calls in it
    first, last = dict[int, int](), 0
    predecessors, crossing = lowered.predecessors(), lowered.crossing
    # How far each thread has come, the ticks of calls in its chain, and how far it would be without waits.
    threads = dict.fromkeys(lowered.threads, (lowered.launch, lowered.launch, lowered.launch))
    waited: set[int] = set()  # the threads that have waited
    returned: list[tuple[int, int, int]] = []  # as ``threads``, of every segment
    for segment in lowered.segments:
        now, calls, free = threads[segment.thread]
        for op in range(segment.first, segment.last):
            call = lowered.call[op]
            now, calls, free = now + call, calls + call, free + call
            if kind[op] == NOTHING:
                continue
            arrives, comes, in_chain = free + lowered.submit, now + lowered.submit, calls
            first[kind[op]], last = min(first.get(kind[op], arrives), arrives), max(last, arrives)
            start = comes
            for earlier in sorted(predecessors(op)):
                hand_over = 0 if segment.thread in waited else crossing(earlier, op)
                released = release_tick(end[earlier], hand_over, comes)
                if released > start:
                    start, in_chain = released, calls_in[earlier]
            end[op], calls_in[op] = start + durations[lowered.cost[op]], in_chain
        if segment.waits_for or segment.behind != lowering.NO_SEGMENT:
            waited.add(segment.thread)
        awaited = max(segment.waits_for, key=end.__getitem__, default=-1)
        if awaited >= 0 and end[awaited] + lowered.wake > now:
            now, calls = end[awaited] + lowered.wake, calls_in[awaited]
        if segment.behind != lowering.NO_SEGMENT:
            now, calls = max((now, calls), returned[segment.behind][:2], key=itemgetter(0))
            free = max(free, returned[segment.behind][2])
        threads[segment.thread] = now, calls, free
        returned.append(threads[segment.thread])
    latest = max(range(n), key=end.__getitem__)
    return end[latest], 2 * calls_in[latest] > end[latest], first, last


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
    work = _Work(workload, as_device(device), memory, launch)
    first, last = 1, min(MOST_CHUNKS, workload.most_chunks)
    ranges: list[tuple[float, int, int]] = []
    while last - first > first // NARROW:
        middle = math.isqrt(first * last)
        for part in ((first, middle), (middle + 1, last)):
            heappush(ranges, (work.bound(*part)[0], *part))
        _, first, last = heappop(ranges)
    bound, bound_by = work.bound(first, last)
    return Bound(math.floor(bound + 1e-6) / TICKS_PER_S, bound_by)  # in whole ticks


def chunk_bounds(
    workload: Workload, device: Device, chunks: Iterable[int], memory: HostMemory = "pinned", launch: Launch = "live"
) -> dict[int, int]:
    """Return ticks, by number of chunks, that no program of so many chunks beats, whatever the clock rounds."""
    work = _Work(workload, device, memory, launch)
    rounded = {n: n * (sum(workload.launches_in(n)) + workload.has_host_work) / 2 for n in chunks}
    return {n: math.floor((1 - 1e-6) * work.bound(n, n)[0] - rounded[n]) for n in rounded}


class _Copies:
    """The copies of one direction: those of each chunk, and those that are made once. Times are in ticks."""

    def __init__(self, rate: lowering.Rate, arrays: Sequence[int], elements: int | None, once: Sequence[int]) -> None:
        self._rate, self.arrays, self._elements = rate, arrays, elements
        self.latency, self.calls_once, self.once = rate.latency[0], len(once), 0.0
        self.once = self.of_sizes(once)
        self._flowing = self.of_sizes((*arrays, *once)) - self.latency * (len(arrays) + len(once))

    def __bool__(self) -> bool:
        return len(self.arrays) + self.calls_once > 0

    def of_sizes(self, sizes: Sequence[float]) -> float:
        """Return the time of copies of so many bytes each, one after another."""
        return sum(self.latency + n * (1 << lowering.BYTE_BITS) / self._rate.alone for n in sizes)

    def copies(self, chunks: int) -> int:
        """Return how many copies so many chunks or more make at least."""
        return self.calls_once + sum(chunks if self._elements else min(chunks, _pieces(n)) for n in self.arrays)

    def flow(self, chunks: int) -> Flow:
        """Return what the direction moves in so many chunks or more."""
        loss = 1 - self._rate.shared / self._rate.alone
        return Flow(self.latency * self.copies(chunks), self._flowing, loss, 0.0 if loss else self._flowing)


def _pieces(n_bytes: int) -> int:
    """Return how many pieces an array can be cut into, unless it has whole elements."""
    return -(-n_bytes // ALIGN_BYTES)


class _Launches:
    """The launches of a kernel. Times are in ticks, ``share`` is that of a launch in the ``whole``, over all the work.

    ``cards``: the device, and the device without a least time of launches if some come right behind others.
    ``call``: what the host takes for one. Launches that belong to items are whole. If chunks divide their number with a
    rest, they make more, and each of them takes its share of the time.
    """

    def __init__(
        self, kernel: WorkloadKernel, whole: Kernel, call: int, cards: Sequence[Device], has_elements: bool
    ) -> None:
        self.kernel, self.call, self._whole, self._cards = kernel, call, whole, cards
        self._has_elements = has_elements
        self._full = cards[0].compute.resident_threads
        self._width_loss = cards[0].compute.concurrent_kernels / (2 * FULL_CARD)  # widths are whole units of the card
        self._bends = {share for card in cards for share in self._bends_on(card)}
        self._per_share = cache(self._times_per_share)
        has_drain = whole.duration_s is not None and cards[-1].occupancy(self._part(1.0)).drain_s > 0
        self.drain = max(0, ticks(cards[-1].compute.floor_s) - 1) if has_drain else 0

    def made(self, chunks: int) -> int:
        """Return how many launches a program of so many chunks makes at least."""
        return max(self.kernel.launches, chunks) if self.kernel.per == "item" else chunks * self.kernel.launches

    def least(self, first: int, last: int, most_share: float) -> tuple[float, float]:
        """Return the least time of all launches, one after another, and of the whole card side by side.

        There are ``first`` to ``last`` chunks. Each has at most ``most_share`` of the work.
        """
        low, high = 0.0, most_share
        if self.kernel.per == "item":
            low, high = self._share_of_item(last), self.kernel.launches / self.made(first)
        elif self._whole.duration_s is None:
            high = min(1.0, math.ceil(most_share * self._whole.elements - CLOSE) / self._whole.elements)
        shares = (low, *(share for share in self._bends if low < share < high), high)
        found = [self._per_share(share) for share in shares if self._is_sound(share)]
        works, areas = zip(*found, strict=True) if found else ((0.0,), (0.0,))
        return self.kernel.launches * min(works), self.kernel.launches * min(areas)

    def chunk(self, share: float, chunks: int) -> int:
        """Return the least time of a chunk's launches over at least this share, in at most ``chunks`` chunks."""
        share = self._share_of_item(chunks) if self.kernel.per == "item" else share
        alone_s = (
            card.occupancy(self._part(share)).alone_s if self._is_sound(share) else card.compute.floor_s
            for card in self._cards
        )
        return self.kernel.launches_in(chunks) * max(1, ticks(min(alone_s)))

    def _share_of_item(self, chunks: int) -> float:
        """Return the least share of an item's time that a launch of so many chunks or fewer has."""
        return self.kernel.launches / (self.kernel.launches + chunks)

    def _is_sound(self, share: float) -> bool:
        """Return True if a chunk of such a share has anything to be timed by."""
        return share * (self._whole.duration_s or 1.0) > 1e-15

    def _times_per_share(self, share: float) -> tuple[float, float]:
        """Return the ticks of all the work if every launch has this share of it."""
        part = self._part(share)
        has, uses = share, [card.occupancy(part) for card in self._cards]
        if part.duration_s is None:  # of so many elements, which are rounded unless chunks have whole ones
            elements = part.elements
            has = elements / self._whole.elements * (1 if self._has_elements else 1 + 1 / (2 * elements))
        works = min(max(0.0, use.alone_s - use.drain_s) for use in uses) * TICKS_PER_S / has
        area = min(use.alone_s * use.share for use in uses) * TICKS_PER_S / has
        return works, min(works, area) * (1 - self._width_loss)

    def _part(self, share: float) -> Kernel:
        """Return a part in as many threads as rounding may give it: more threads are faster."""
        whole, full = self._whole, self._full
        if whole.duration_s is None:
            return replace(whole, elements=max(1, int(share * whole.elements + CLOSE)))
        duration_s, threads = whole.duration_s * share, whole.threads or whole.elements
        if self.kernel.per == "item":
            return replace(whole, duration_s=duration_s)
        least_fill = whole.fill or 1.0
        if threads and full:
            few = share * threads < FEW
            waves = threads / full * (2 / 3 if few else 1 / OFF_BY)
            least_fill = whole.fill or max(LEAST_FILL, min(1.0, waves))
            threads = LARGEST_BYTES if few else math.ceil(share * threads * OFF_BY)
        return replace(whole, fill=least_fill, duration_s=duration_s, share=share, threads=threads)

    def _bends_on(self, card: Device) -> Iterable[float]:
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
        return [n / whole.elements for n in {*cost.elements, full, *at_floor, *(n + 1 for n in at_floor)} if n]


class _Work:
    """A workload on a device. Every number of chunks is asked of it; times are in ticks."""

    def __init__(self, workload: Workload, device: Device, memory: HostMemory, launch: Launch) -> None:
        self._workload, self._device = workload, device
        into, back = (lowering.rate_of(device, way, 1, memory == "pageable", launch) for way in ("h2d", "d2h"))
        self._into = _Copies(into, workload.input_bytes, workload.elements, workload.h2d_once)
        self._back = _Copies(back, workload.output_bytes, workload.elements, workload.d2h_once)
        cards, calls = [device], lowering.call_ticks(launch, device)
        if launch == "graph" and sum(workload.launches_in(1)) > 1:  # a launch behind another one may have no floor
            cards.append(replace(device, compute=replace(device.compute, floor_s=0.0)))
        self._copy_call = calls[Copy]
        (part,), has_elements = workload.cut(1), workload.elements is not None
        launches = zip(workload.kernels, workload.kernels_of(part), strict=True)
        self._kernels = [
            _Launches(kernel, whole, lowering.kernel_call(calls, kernel.name), cards, has_elements)
            for kernel, (whole, _) in launches
        ]
        has = {H2D: bool(self._into), KERNEL: bool(self._kernels), D2H: bool(self._back)}
        more = lowering.surcharges_of(launch, device, has[H2D] or has[D2H], has[KERNEL])
        self._begins = ticks(device.host.submit_s) + more.enter
        self._begins += ticks(device.host.graph_launch_s) if launch == "graph" else 0
        # By kind of op the ticks that the first call for one takes beyond its own, in every program.
        each = more.first_on_stream + more.turn
        firsts = {H2D: each + more.after_wait, KERNEL: each + more.after_wait + more.first_launch, D2H: each}
        self._firsts = {kind: first * has[kind] for kind, first in firsts.items()}
        names, engine_of = lowering.ENGINES[device.copy_engines.count]
        kinds = {name: [kind for kind in has if has[kind] and engine_of[kind] == i] for i, name in enumerate(names)}
        self._kinds = {ENGINE_WORDS[name]: own for name, own in kinds.items() if own}  # in a chunk's order
        arrays = (*workload.input_bytes, *workload.output_bytes)
        self._units = workload.elements or _pieces(max(arrays, default=0))
        self._fewest = workload.elements or min(map(_pieces, arrays), default=MOST_CHUNKS)

    def bound(self, first: int, last: int) -> tuple[float, str]:
        """Return what no program of ``first`` to ``last`` chunks is faster than, and what sets it.

        If no engine works for half of it, the chain of a chunk sets it.
        """
        head, tail, _ = self._ends(self._least_share(first, last), last, last <= self._fewest)
        flows = {H2D: self._into.flow(first), D2H: self._back.flow(first)}
        found, works = {HOST: self._host(first, last)}, dict[str, float]()
        for name, kinds in self._kinds.items():
            works[name] = sum(flow.latency + flow.alone for kind, flow in flows.items() if kind in kinds)
            if KERNEL in kinds:
                works[name] += self._kernel_work(first, last, is_alone=kinds == [KERNEL])
            found[name] = head[kinds[0]] + works[name] + tail[kinds[-1]]
        if self._device.copy_engines.count == 2 and self._into and self._back:
            idle = {H2D: tail[H2D], D2H: head[D2H] - head[H2D]}
            there, back = (replace(flow, latency=flow.latency + idle[kind]) for kind, flow in flows.items())
            found[LINK] = head[H2D] + duplex_bound(there, back)
        *_, found[CHAIN] = self._ends(1 / last, last)
        bound_by = max(found, key=lambda name: found[name])
        is_chain = bound_by != HOST and 2 * max(works.values(), default=0.0) < found[bound_by]
        return found[bound_by], CHAIN if is_chain else bound_by

    def _ends(
        self, share: float, chunks: int, has_all: bool = True
    ) -> tuple[dict[int, float], dict[int, float], float]:
        """Return by kind of op the ticks before its first op starts, and those behind the work of its last one.

        And when the chunk could be back if it were the first to be issued. They are calls of the host, and the chain of
        a chunk of at most so many, which has at least this ``share`` of the work; ``has_all``: and of each array.
        """
        call, firsts = self._copy_call, self._firsts
        into, back = (
            way.of_sizes([share * n for n in way.arrays]) if has_all else 0.0 for way in (self._into, self._back)
        )
        kernels = sum(kernel.chunk(share, chunks) for kernel in self._kernels)
        launch_calls = [kernel.call * kernel.kernel.launches_in(chunks) for kernel in self._kernels]
        issued = self._begins + call * self._into.calls_once + ticks(self._workload.host_work_s)
        head_in = firsts[H2D] + call + (self._begins if self._into.calls_once else issued)
        called = issued + call * len(self._into.arrays) + firsts[H2D] + firsts[KERNEL]
        head_kernel: float = called + sum(kernel.call for kernel in self._kernels[:1])
        if self._into:
            head_kernel = max(head_kernel, head_in + self._into.once + into)
        head_back = max(called + sum(launch_calls) + call * bool(self._back) + firsts[D2H], head_kernel + kernels)
        back += self._back.once
        drain = self._kernels[-1].drain if self._kernels else 0
        tail: dict[int, float] = {H2D: kernels + back, KERNEL: drain + back, D2H: 0}
        return {H2D: head_in, KERNEL: head_kernel, D2H: head_back}, tail, head_back + back

    def _kernel_work(self, first: int, last: int, is_alone: bool) -> float:
        """Return what the kernels take of their engine: one by one, or side by side if they have it to themselves."""
        share, beside = self._most_share(first), self._device.compute.concurrent_kernels
        works, area = map(sum, zip(*(kernel.least(first, last, share) for kernel in self._kernels), strict=True))
        return max(area, works / beside) if is_alone and beside > 1 else works

    def _most_share(self, chunks: int) -> float:
        """Return the most of the work that a chunk has if there are so many of them or more."""
        if self._units < max(2, chunks):
            return 1 / chunks
        whole = self._units if self._workload.elements else self._units - 1  # the last piece may be smaller
        return min(1.0, -(-self._units // chunks) / whole)

    def _least_share(self, first: int, last: int) -> float:
        """Return the least of the work and of each array that a chunk has, in every program of so many chunks.

        Of N chunks of U pieces, the last one has at least U / N - N; and each has an element, if the work has any.
        """
        if first < last:
            return max(self._workload.elements is not None, self._fewest // last - last) / self._fewest
        arrays = (*self._into.arrays, *self._back.arrays)
        cuts = ((part.share, (*part.inputs, *part.outputs)) for part in self._workload.cut(first))
        return min(min([share, *(n / whole for n, whole in zip(cut, arrays, strict=True))]) for share, cut in cuts)

    def _host(self, first: int, last: int) -> float:
        """Return all calls, what the host does between them, and the last op of the program."""
        calls = self._copy_call * (self._into.copies(first) + self._back.copies(first))
        calls += sum(kernel.call * kernel.made(first) for kernel in self._kernels)
        works = (first * self._workload.host_work_s + self._workload.host_load_s) * TICKS_PER_S
        ends = self._back.latency if self._back and (last <= self._fewest or self._back.calls_once) else 0.0
        return self._begins + sum(self._firsts.values()) + calls + works + ends
