"""The bound of the work: no way to cut a workload and to issue it is faster on a device.

A schedule has a bound of its own (:mod:`streamsim.analysis.bounds`), the bound as issued. It holds for that schedule
alone: fewer chunks pay fewer latencies, more chunks fill the pipeline sooner. Here the bound holds for every number of
chunks and streams, every order and every ring of buffers. Memory, launch and front end are those that were asked for.

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
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.analysis.bounds import CHAIN, ENGINE_WORDS, HOST, LINK, Bound, Flow, duplex_bound
from streamsim.checks import LARGEST_BYTES, LEAST_FILL, MOST_CHUNKS
from streamsim.device import Device, Occupancy, as_device, bends
from streamsim.lowering import (
    BYTE_BITS,
    D2H,
    ENGINES,
    H2D,
    KERNEL,
    Rate,
    call_ticks,
    kernel_call,
    rate_of,
    surcharges_of,
)
from streamsim.program import ALIGN_BYTES, Copy, Direction, HostMemory, Kernel, Launch, Workload, WorkloadKernel
from streamsim.rules import FULL_CARD, TICKS_PER_S, ticks

NARROW = 64  # ranges of fewer numbers than their first over this are not halved
DIRECTIONS: tuple[Direction, ...] = ("h2d", "d2h")
FEW = 64  # threads of a chunk: fewer are rounded so much that nothing is said of them
CLOSE = 1e-6  # of an element: what a share times all elements may be off by
OFF_BY = 1 + 1 / (2 * FEW)  # by what rounding changes the number of threads at most


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
    rounded = {n: n * (workload.in_chunks(n).launches_of_chunk + workload.has_host_work) / 2 for n in chunks}
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

    def __init__(self, rate: Rate, arrays: Sequence[int], elements: int | None, once: Sequence[int]) -> None:
        self._rate, self.arrays, self._elements = rate, arrays, elements
        self.latency = rate.latency[0]
        self.calls_once = len(once)
        self.once = self.of_sizes(once)
        self._flowing = self.of_sizes((*arrays, *once)) - self.latency * (len(arrays) + len(once))

    def __bool__(self) -> bool:
        return len(self.arrays) + self.calls_once > 0

    def of_sizes(self, sizes: Sequence[float]) -> float:
        """Copies of so many bytes each, one after another."""
        return sum(self.latency + n * (1 << BYTE_BITS) / self._rate.alone for n in sizes)

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
        own = self.kernel.in_chunks(chunks)
        is_known = own.per != "item, cut" and self._is_sound(share)
        alone_s = (self._use(card, share).alone_s if is_known else card.compute.floor_s for card in self._cards)
        return own.launches * max(1, ticks(min(alone_s)))

    @property
    def _width_loss(self) -> float:
        return self._cards[0].compute.concurrent_kernels / (2 * FULL_CARD)  # widths are whole units of the card

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
            use = self._use(card, share)
            own = max(0.0, (use.alone_s - use.drain_s) * TICKS_PER_S) / has
            works = min(works, own)
            area = min(area, own, use.alone_s * use.share * TICKS_PER_S / has)
        return works, max(0.0, area) * (1 - self._width_loss)

    def _elements(self, share: float) -> int:
        return max(1, int(share * self._whole.elements + CLOSE))

    def _use(self, card: Device, share: float) -> Occupancy:
        return card.occupancy(self._part(share))

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
        into, back = (rate_of(device, way, 1, is_pageable, launch) for way in DIRECTIONS)
        self._into = _Copies(into, workload.input_bytes, workload.elements, workload.h2d_once)
        self._back = _Copies(back, workload.output_bytes, workload.elements, workload.d2h_once)
        calls = call_ticks(launch, device)
        self._copy_call = calls[Copy]
        self._kernel_calls = [kernel_call(calls, kernel.name) for kernel in workload.kernels]
        self._begins = ticks(device.host.submit_s) + ticks(device.host.graph_launch_s) * (launch == "graph")
        self._surcharges = surcharges_of(launch, device, bool(self._into or self._back), bool(workload.kernels))
        self._begins += self._surcharges.enter
        self._firsts = self._first_calls()
        cards = [device]
        if launch == "graph" and workload.launches_of_chunk > 1:  # a launch behind another one may have no floor
            cards.append(replace(device, compute=replace(device.compute, floor_s=0.0)))
        (whole,) = workload.cut(1)
        is_exact = workload.elements is not None
        self._kernels = [_Launches(one, workload.launch(one, whole), cards, is_exact) for one in workload.kernels]
        arrays = (*workload.input_bytes, *workload.output_bytes)
        self._units = workload.elements or _pieces(max(arrays, default=0))
        self._fewest = workload.elements or min(map(_pieces, arrays), default=MOST_CHUNKS)

    def _first_calls(self) -> dict[int, int]:
        """By kind of op the ticks that the first call for one takes beyond its own, in every program."""
        more = self._surcharges
        each = more.first_on_stream + more.turn
        found = {H2D: each + more.after_wait, KERNEL: each + more.after_wait + more.first_launch, D2H: each}
        has = {H2D: bool(self._into), KERNEL: bool(self._workload.kernels), D2H: bool(self._back)}
        return {kind: taken * has[kind] for kind, taken in found.items()}

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
        names, engine_of = ENGINES[self._device.copy_engines.count]
        has = {H2D: bool(self._into), KERNEL: bool(self._kernels), D2H: bool(self._back)}
        for engine, name in enumerate(names):
            kinds = [kind for kind in has if has[kind] and engine_of[kind] == engine]
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
        launches = [one.launches for one in self._workload.in_chunks(chunks).kernels]
        launch_calls = sum(many * call for many, call in zip(launches, self._kernel_calls, strict=True))
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
