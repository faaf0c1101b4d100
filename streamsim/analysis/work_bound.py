"""The bound of the work: no way to cut a workload and to issue it is faster on a device.

A schedule has a bound of its own (:mod:`streamsim.analysis.bounds`), the bound as issued. It holds for that schedule
alone: fewer chunks pay fewer latencies, more chunks fill the pipeline sooner. Here the bound holds for every number of
chunks and streams, every order and every ring of buffers. Memory, launch and front end are those that were asked for.

**For one number of chunks** an engine ends no sooner than ``head + work + tail``. ``head``: the calls and the chain of
ops before its first op, with what the first call of each kind takes longer. ``work``: all of its ops one after another,
or side by side as far as the card has room. ``tail``: the chain of ops behind its last op. The link and the host are
bounded in the same way. Hand-overs, events, crowds, other dearer calls and waits only delay ops, and are left out.

**For a range of numbers of chunks** each part is taken where it is least: latencies and calls at the fewest chunks, the
chains of a chunk at the most chunks. A kernel's time for a share of the work, divided by that share, is least at one of
few shares (:func:`streamsim.device.kernel_costs.bends`); all its launches together take at least that.

**For all numbers** the range with the least bound is halved, until that range is narrow. Its bound is then the least of
all, so it holds for all numbers.

The clock rounds each op to whole nanoseconds, and no rounding is counted here. So a program of N launches may come out
below the bound by N / 2 nanoseconds.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.analysis.bounds import CHAIN, ENGINE_WORDS, HOST, LINK, Bound, Flow, duplex_bound
from streamsim.analysis.kernel_bound import KernelBound
from streamsim.checks import MOST_CHUNKS
from streamsim.device import Device, as_device
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
from streamsim.program import ALIGN_BYTES, Copy, Direction, HostMemory, Kernel, Launch, Part, Workload
from streamsim.rules import TICKS_PER_S, ticks

CLOSE = 64  # ranges of fewer numbers than their first over this are not halved
DIRECTIONS: tuple[Direction, ...] = ("h2d", "d2h")


def work_bound(
    workload: Workload, device: Device | str | Path, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Bound:
    """Bound what ``workload`` takes on ``device`` however it is cut and issued, from such memory, by such a launch.

    ``device``: a Device, or the name or file of one. Raises InputError for an unknown device, and when it has no cost
    for a kernel of the workload.
    """
    device = as_device(device)
    work = _Work(workload, device, memory == "pageable", launch)
    most, first = min(MOST_CHUNKS, workload.most_chunks), 1
    ranges: list[tuple[float, int, int]] = []
    while first <= most:
        last = min(2 * first - 1, most)
        heappush(ranges, (max(work.bounds(first, last).values()), first, last))
        first = last + 1
    while (found := ranges[0])[2] - found[1] > found[1] // CLOSE:
        _, first, last = heappop(ranges)
        middle = (first + last) // 2
        for part in ((first, middle), (middle + 1, last)):
            heappush(ranges, (max(work.bounds(*part).values()), *part))
    _, first, last = ranges[0]
    return _named(work.bounds(first, last), work.busiest(first, last))


def chunk_bounds(
    workload: Workload, device: Device, chunks: Iterable[int], memory: HostMemory = "pinned", launch: Launch = "live"
) -> dict[int, int]:
    """Return ticks, by number of chunks, that no program of so many chunks beats, whatever the clock rounds."""
    work = _Work(workload, device, memory == "pageable", launch)
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


class _Direction:
    """The copies of one direction: those of each chunk, and those that are made once. Times are in ticks."""

    def __init__(self, rate: Rate, arrays: Sequence[int], elements: int | None, once: Sequence[int]) -> None:
        self._rate, self._arrays, self._elements = rate, arrays, elements
        self.latency = rate.latency[0]
        self.of_chunk, self.calls_once = len(arrays), len(once)
        self.once = self.of_sizes(once)
        self._flowing = self.of_sizes((*arrays, *once)) - self.latency * (len(arrays) + len(once))

    def __bool__(self) -> bool:
        return self.of_chunk + self.calls_once > 0

    def of_sizes(self, sizes: Sequence[float]) -> float:
        """Copies of so many bytes each, one after another."""
        return sum(self.latency + n * (1 << BYTE_BITS) / self._rate.alone for n in sizes)

    def copies(self, chunks: int) -> int:
        """How many copies so many chunks or more make at least."""
        return self.calls_once + sum(chunks if self._elements else min(chunks, _pieces(n)) for n in self._arrays)

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


class _Chain(NamedTuple):
    """By kind of op, the ticks before the first op of that kind starts, and those behind the work of the last one.

    ``whole``: when the chunk could be back if it were the first to be issued.
    """

    whole: float
    head: dict[int, float]
    tail: dict[int, float]


class _Chunk(NamedTuple):
    """What the copies in, the launches and the copies back of any chunk take at least, in ticks.

    ``calls``: of its launches, on the host.
    """

    calls: int
    kernels: float
    into: float = 0.0
    back: float = 0.0


class _Work:
    """A workload on a device. Every number of chunks is asked of it; times are in ticks."""

    def __init__(self, workload: Workload, device: Device, is_pageable: bool, launch: Launch) -> None:
        self._workload, self._device = workload, device
        into, back = (rate_of(device, way, 1, is_pageable, launch) for way in DIRECTIONS)
        self._into = _Direction(into, workload.input_bytes, workload.elements, workload.h2d_once)
        self._back = _Direction(back, workload.output_bytes, workload.elements, workload.d2h_once)
        calls = call_ticks(launch, device)
        self._copy_call = calls[Copy]
        self._kernel_calls = [kernel_call(calls, kernel.name) for kernel in workload.kernels]
        self._begins = ticks(device.host.submit_s) + ticks(device.host.graph_launch_s) * (launch == "graph")
        self._surcharges = surcharges_of(launch, device, bool(self._into or self._back), bool(workload.kernels))
        self._begins += self._surcharges.enter
        self._firsts = self._first_calls()
        self._cards = [device]
        if launch == "graph" and workload.launches_of_chunk > 1:  # a launch behind another one may have no floor
            self._cards.append(replace(device, compute=replace(device.compute, floor_s=0.0)))
        (whole,) = workload.cut(1)
        launches = [workload.launch(kernel, whole) for kernel in workload.kernels]
        is_exact = workload.elements is not None
        self._kernels = [[KernelBound(card, one, is_exact) for card in self._cards] for one in launches]
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
        chain = self._chain(self._least_chunk(first, last))
        found = {HOST: self._host(first, last)}
        for name, kinds, work in self._engines(first, last):
            found[ENGINE_WORDS[name]] = chain.head[kinds[0]] + work + chain.tail[kinds[-1]]
        if self._device.copy_engines.count == 2 and self._into and self._back:
            idle = chain.tail[H2D], chain.head[D2H] - chain.head[H2D]
            flows = self._into.flow(first, idle[0]), self._back.flow(first, idle[1])
            found[LINK] = chain.head[H2D] + duplex_bound(*flows)
        return found | {CHAIN: self._chain(self._first_chunk(last)).whole}

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
        works = area = 0.0
        for kernel, cards in zip(self._workload.kernels, self._kernels, strict=True):
            if kernel.per == "item":
                fewest, most = max(kernel.launches, first), kernel.launches + last
                found = [card.of_items(kernel, fewest, most) for card in cards]
            else:
                found = [card.over(share, kernel.launches) for card in cards]
            works += min(one.works for one in found)
            area += min(one.area for one in found)
        return max(area, works / beside) if alone and beside > 1 else works

    def _most_share(self, chunks: int) -> float:
        """The most of the work that a chunk has if there are so many of them or more."""
        if self._workload.elements:
            return -(-self._units // chunks) / self._units
        if self._units < chunks:
            return 1 / chunks
        return min(1.0, -(-self._units // chunks) / (self._units - 1)) if self._units > 1 else 1.0

    def _least_chunk(self, first: int, last: int) -> _Chunk:
        """The least of all chunks, in every program of ``first`` to ``last`` of them."""
        workload = self._workload
        if first == last:
            parts, cut = workload.cut(first), workload.in_chunks(first)
            into, back = ([min(column) for column in zip(*sizes, strict=True)] for sizes in _columns(parts))
            kernels = sum(
                kernel.launches * min(self._alone(cut.launch(kernel, part)) for part in parts) for kernel in cut.kernels
            )
        else:  # the last of N chunks of U pieces has at least U / N - N of them
            share = max(0.0, (self._fewest // last - last) / self._fewest)
            into, back = ([share * n for n in arrays] for arrays in (workload.input_bytes, workload.output_bytes))
            kernels = self._shortest(share, last)
        calls = self._launch_calls(last)
        if last > self._fewest:  # some chunks may lack an array
            return _Chunk(calls, kernels)
        return _Chunk(calls, kernels, self._into.of_sizes(into), self._back.of_sizes(back))

    def _first_chunk(self, chunks: int) -> _Chunk:
        """The first one of at most so many chunks: it has its part of every array, and no chunk has more."""
        into, back = (
            [n / chunks for n in arrays] for arrays in (self._workload.input_bytes, self._workload.output_bytes)
        )
        kernels, calls = self._shortest(1 / chunks, chunks), self._launch_calls(chunks)
        return _Chunk(calls, kernels, self._into.of_sizes(into), self._back.of_sizes(back))

    def _shortest(self, share: float, chunks: int) -> int:
        """All launches of a chunk that has at least this share of the work; of at most so many chunks."""
        return sum(
            kernel.launches * min(card.shortest(0.0 if kernel.per == "item, cut" else share) for card in cards)
            for kernel, cards in zip(self._workload.in_chunks(chunks).kernels, self._kernels, strict=True)
        )

    def _launch_calls(self, chunks: int) -> int:
        """Ticks of the calls that launch the kernels of one of at most so many chunks."""
        kernels = self._workload.in_chunks(chunks).kernels
        return sum(kernel.launches * call for kernel, call in zip(kernels, self._kernel_calls, strict=True))

    def _alone(self, launch: Kernel) -> int:
        return max(1, min(ticks(card.kernel_use(launch).alone_s) for card in self._cards))

    def _chain(self, chunk: _Chunk) -> _Chain:
        """What lies before and behind the ops of each kind: calls of the host, and the chain of a chunk."""
        begins = self._begins + self._copy_call * self._into.calls_once
        issued = begins + ticks(self._workload.host_work_s)
        calls = [self._copy_call] * self._into.of_chunk, self._kernel_calls, [self._copy_call] * self._back.of_chunk
        head_in = self._begins + self._copy_call if self._into.calls_once else issued + sum(calls[0][:1])
        head_in += self._firsts[H2D]
        called = issued + sum(calls[0]) + self._firsts[H2D] + self._firsts[KERNEL]
        head_kernel: float = called + sum(calls[1][:1])
        if self._into:
            head_kernel = max(head_kernel, head_in + self._into.once + chunk.into)
        head_back = max(called + chunk.calls + sum(calls[2][:1]) + self._firsts[D2H], head_kernel + chunk.kernels)
        back = chunk.back + self._back.once
        drain = min(card.drain for card in self._kernels[-1]) if self._kernels else 0
        head = {H2D: head_in, KERNEL: head_kernel, D2H: head_back}
        return _Chain(head_back + back, head, {H2D: chunk.kernels + back, KERNEL: drain + back, D2H: 0.0})

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


def _columns(parts: Sequence[Part]) -> Iterator[list[tuple[int, ...]]]:
    """Bytes of the inputs, and of the outputs, of each part."""
    yield [part.inputs for part in parts]
    yield [part.outputs for part in parts]
