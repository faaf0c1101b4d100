"""Patterns: the ways people cut a workload into chunks and issue it, each as a Schedule.

Chunk i of N runs in stream i mod S. Copies name their buffers, so a schedule can be checked for races and
replayed with its output verified. Host and device arrays hold the whole workload, except for ``ring``,
whose device buffers hold one chunk each and are used again.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, cycle, repeat
from typing import Literal, NamedTuple, TypeVar, get_args

import msgspec

from streamsim.errors import InputError
from streamsim.schedule import (
    LARGEST_BYTES,
    LARGEST_COUNT,
    LONGEST_S,
    Buffer,
    Copy,
    Direction,
    Kernel,
    Launch,
    Op,
    RecordEvent,
    Region,
    Schedule,
    StreamKind,
    Synchronize,
    WaitEvent,
    check_number,
    check_whole,
)

Order = Literal["depth-first", "breadth-first", "serial"]
HostMemory = Literal["pinned", "pageable"]
T = TypeVar("T")
NON_BLOCKING: tuple[StreamKind, ...] = ("non-blocking",)


class WorkloadKernel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A kernel over all elements: ``duration_s`` alone on the card, or by the profile's cost of ``name``."""

    name: str = "kernel"
    duration_s: float | None = None
    parameter: int = 0
    fill: float = 1.0

    def __post_init__(self) -> None:
        if self.duration_s is not None:
            check_number("duration_s", self.duration_s, 1e-9, LONGEST_S)
        check_number("fill", self.fill, 1e-6, 1.0)
        check_whole("parameter", self.parameter, 0, LARGEST_BYTES)


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``elements``, each of ``inputs`` bytes in every input array and ``outputs`` bytes in every output array.

    ``kernels`` run one after another on each chunk. What is not given is not there; one of them must be. Raises
    InputError naming the field.
    """

    elements: int
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    kernels: tuple[WorkloadKernel, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        check_whole("elements", self.elements, 1, LARGEST_BYTES)
        for field in ("inputs", "outputs"):
            for k, n_bytes in enumerate(getattr(self, field)):
                check_whole(f"{field}[{k}]", n_bytes, 1, LARGEST_COUNT)
                check_whole(f"{field}[{k}] * elements", n_bytes * self.elements, 1, LARGEST_BYTES)
        if not (self.inputs or self.outputs or self.kernels):
            raise InputError("inputs, outputs, kernels: a workload needs at least one of them")

    @property
    def h2d_bytes(self) -> int:
        """Bytes copied to the card in all."""
        return sum(self.inputs) * self.elements

    @property
    def d2h_bytes(self) -> int:
        """Bytes copied back in all."""
        return sum(self.outputs) * self.elements


def chunk_counts(elements: int, chunks: int) -> tuple[int, int, int]:
    """(m, a, b): the first m chunks have a elements each, the others b; equal, or the last one smaller.

    Where that would leave the last chunk nothing, they differ by one. Raises InputError when there are more
    chunks than elements.
    """
    check_whole("chunks", chunks, 1, LARGEST_COUNT)
    if chunks > elements:
        raise InputError(f"chunks = {chunks}: more chunks than elements ({elements}); use at most {elements}")
    size, over = divmod(elements, chunks)
    if over and (size + 1) * (chunks - 1) < elements:
        return chunks - 1, size + 1, elements - (chunks - 1) * (size + 1)
    return over, size + 1, size


def chunk_bounds(elements: int, chunks: int) -> list[tuple[int, int]]:
    """First element and count of each chunk: see :func:`chunk_counts`."""
    larger, a, b = chunk_counts(elements, chunks)
    return [(i * a, a) for i in range(larger)] + [(larger * a + i * b, b) for i in range(chunks - larger)]


def chunk_duration_s(duration_s: float | None, count: int, elements: int) -> float | None:
    """The share of a kernel's duration over all ``elements`` that a chunk of ``count`` takes."""
    return None if duration_s is None else duration_s * (count / elements)


def chunk_kernel(workload: Workload, kernel: WorkloadKernel, count: int, stream: int) -> Kernel:
    """The kernel on a chunk of ``count`` elements, less the bytes that it touches."""
    duration_s = chunk_duration_s(kernel.duration_s, count, workload.elements)
    of = _launched(duration_s, count, workload.elements)
    return Kernel(stream, kernel.name, count, kernel.parameter, duration_s, kernel.fill, of_elements=of)


def _launched(duration_s: float | None, count: int, elements: int) -> int:
    """The ``of_elements`` of a kernel on a chunk."""
    return 0 if duration_s is None or count == elements else elements


class _Array(NamedTuple):
    """An input or output array: its host buffer, its device buffers used in turn, bytes per element."""

    host: str
    device: tuple[str, ...]
    n_bytes: int


class _Stages(NamedTuple):
    """The ops of all chunks in columns: a column for each array copied or kernel run, a row for each chunk."""

    h2d: list[list[Op]]
    kernels: list[list[Op]]
    d2h: list[list[Op]]


class _Chunked:
    """A workload cut into chunks: its buffers, and the ops of every chunk on them.

    ``slots``: device buffers used in turn, each of one chunk; None: one for the whole workload. Columns are made
    whole: a schedule of many chunks costs little more than its ops.
    """

    def __init__(self, workload: Workload, chunks: int, memory: HostMemory, slots: int | None = None) -> None:
        self.workload = workload
        self.memory = memory
        bounds = chunk_bounds(workload.elements, chunks)
        self.slots = None if slots is None else min(slots, chunks)
        self.first = [first for first, _ in bounds]
        self.count = [count for _, count in bounds]
        self.inputs = self._arrays("in", workload.inputs)
        self.outputs = self._arrays("out", workload.outputs)

    def _arrays(self, prefix: str, sizes: tuple[int, ...]) -> list[_Array]:
        def device(name: str) -> tuple[str, ...]:
            return (name,) if self.slots is None else tuple(f"{name}_{slot}" for slot in range(self.slots))

        return [_Array(f"h_{prefix}{k}", device(f"d_{prefix}{k}"), n) for k, n in enumerate(sizes)]

    def buffers(self) -> tuple[Buffer, ...]:
        found: list[Buffer] = []
        on_device = self.workload.elements if self.slots is None else max(self.count)
        for array in self.inputs + self.outputs:
            found.append(Buffer(array.host, array.n_bytes * self.workload.elements, self.memory))
            found += [Buffer(name, array.n_bytes * on_device, "device") for name in array.device]
        return tuple(found)

    def stages(self, streams: Sequence[list[int]], blocking: bool = False) -> _Stages:
        """The ops of all chunks; ``streams``: for each of the three stages the streams of its chunks."""
        h2d, reads = self._copies("h2d", self.inputs, streams[0], blocking)
        d2h, writes = self._copies("d2h", self.outputs, streams[2], blocking)
        return _Stages(h2d, self._kernels(reads, writes, streams[1]), d2h)

    def _copies(
        self, direction: Direction, arrays: list[_Array], streams: list[int], blocking: bool
    ) -> tuple[list[list[Op]], list[list[Region]]]:
        """For each array its copies, and the device regions that they read or write."""
        columns, regions = [], []
        for host, device, n in arrays:
            sizes = list(map({count: n * count for count in self.count}.__getitem__, self.count))  # shared numbers
            offsets = [n * first for first in self.first]
            on_host = map(Region, repeat(host), offsets, sizes)
            on_device = list(map(Region, cycle(device), offsets if self.slots is None else repeat(0), sizes))
            columns.append(list[Op](map(Copy, repeat(direction), sizes, streams, on_host, on_device, repeat(blocking))))
            regions.append(on_device)
        return columns, regions

    def _kernels(self, reads: list[list[Region]], writes: list[list[Region]], streams: list[int]) -> list[list[Op]]:
        """The launches of each kernel; with no output array the last input is worked on in place."""
        elements = self.workload.elements
        sources, targets = self.rows(reads), self.rows(writes or reads[-1:])
        columns: list[list[Op]] = []
        for name, duration_s, parameter, fill in map(msgspec.structs.astuple, self.workload.kernels):
            cost = {n: chunk_duration_s(duration_s, n, elements) for n in self.count}
            of = {n: _launched(duration_s, n, elements) for n in self.count}
            ops = zip(streams, self.count, sources, targets, strict=True)
            columns.append(
                [Kernel(s, name, n, parameter, cost[n], fill, reads, writes, of[n]) for s, n, reads, writes in ops]
            )
        return columns

    def rows(self, columns: list[list[T]]) -> list[tuple[T, ...]]:
        """What each chunk has in the columns."""
        return list(zip(*columns, strict=True)) if columns else [()] * len(self.count)


def _in_turn(chunks: int, streams: int) -> list[int]:
    """The stream of each chunk."""
    check_whole("streams", streams, 1, LARGEST_COUNT)
    return [1 + i % streams for i in range(chunks)]


def _schedule(
    chunked: _Chunked, ops: Iterable[Op], streams: int, launch: Launch, name: str, events: int = 0, cut: bool = True
) -> Schedule:
    return Schedule(
        ops=(*ops, Synchronize()),
        streams=NON_BLOCKING * streams,
        buffers=chunked.buffers(),
        events=events,
        launch=launch,
        name=name,
        unchunked=serial(chunked.workload, 1, chunked.memory) if cut else None,
    )


def serial(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned") -> Schedule:
    """The program people start from: blocking copies, one chunk after another, nothing overlaps."""
    chunked = _Chunked(workload, chunks, memory)
    stages = chunked.stages([_in_turn(chunks, 1)] * 3, blocking=True)
    return _schedule(chunked, _by_chunk(stages), 1, "live", f"serial N={chunks}", cut=chunks > 1)


def depth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """For each chunk in turn: its H2D copies, its kernels, its D2H copies."""
    chunked = _Chunked(workload, chunks, memory)
    stages = chunked.stages([_in_turn(chunks, streams)] * 3)
    return _schedule(chunked, _by_chunk(stages), streams, launch, f"depth-first N={chunks} S={streams}")


def _by_chunk(stages: _Stages) -> Iterable[Op]:
    return chain.from_iterable(zip(*stages.h2d, *stages.kernels, *stages.d2h, strict=True))


def one_stream(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned", launch: Launch = "live") -> Schedule:
    """Asynchronous, but all in one stream: nothing overlaps on the card."""
    return depth_first(workload, chunks, 1, memory, launch)


def breadth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Stage by stage: the H2D copies of all chunks, then all kernels, then all D2H copies."""
    chunked = _Chunked(workload, chunks, memory)
    stages = chunked.stages([_in_turn(chunks, streams)] * 3)
    ops = chain.from_iterable(row for stage in stages for row in zip(*stage, strict=True))
    return _schedule(chunked, ops, streams, launch, f"breadth-first N={chunks} S={streams}")


def ring(
    workload: Workload,
    chunks: int,
    buffers: int,
    streams: int | None = None,
    memory: HostMemory = "pinned",
    launch: Launch = "live",
) -> Schedule:
    """Depth-first with ``buffers`` device buffers of one chunk each (2: double buffering).

    Chunk i uses the buffer of chunk i - k again, so it waits until that chunk's work on it has ended: by
    stream order where both run in one stream, by an event otherwise. ``streams`` defaults to ``buffers``.
    """
    check_whole("buffers", buffers, 1, LARGEST_COUNT)
    streams = buffers if streams is None else streams
    chunked = _Chunked(workload, chunks, memory, buffers)
    buffers = min(buffers, chunks)
    stream = _in_turn(chunks, streams)
    ops: list[Op] = []
    across = buffers % streams != 0  # chunks i and i - buffers run in different streams
    h2d, kernels, d2h = chunked.stages([stream] * 3)
    for i, row in enumerate(zip(*h2d, *kernels, *d2h, strict=True)):
        if across and i >= buffers:
            ops.append(WaitEvent(i - buffers, stream[i]))
        ops += row
        if across and i + buffers < chunks:
            ops.append(RecordEvent(i, stream[i]))
    events = max(0, chunks - buffers) if across else 0
    return _schedule(chunked, ops, streams, launch, f"ring N={chunks} S={streams} K={buffers}", events)


def prefetch(
    workload: Workload, chunks: int, buffers: int = 2, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Copy batch i + 1 beside the kernels of batch i, as a training or inference loop does.

    Stream 1 copies in, stream 2 runs the kernels, stream 3 copies out; ``buffers`` batches fit on the card.
    Events: 3i when batch i is on the card, 3i + 1 when its kernels have run, 3i + 2 when its output is back.
    """
    check_whole("buffers", buffers, 1, LARGEST_COUNT)
    chunked = _Chunked(workload, chunks, memory, buffers)
    slots = min(buffers, chunks)
    copy_in, compute, copy_out = 1, 2, 3
    stages = chunked.stages([[stream] * chunks for stream in (copy_in, compute, copy_out)])
    inputs = [_prefetch_input(copies, i, slots, copy_in) for i, copies in enumerate(chunked.rows(stages.h2d))]
    ops: list[Op] = list(inputs[0])
    for i, (kernels, outputs) in enumerate(zip(chunked.rows(stages.kernels), chunked.rows(stages.d2h), strict=True)):
        if i + 1 < chunks and slots > 1:
            ops += inputs[i + 1]
        ops.append(WaitEvent(3 * i, compute))
        if i >= slots and outputs:
            ops.append(WaitEvent(3 * (i - slots) + 2, compute))
        ops += (*kernels, RecordEvent(3 * i + 1, compute))
        if outputs:
            ops += (WaitEvent(3 * i + 1, copy_out), *outputs, RecordEvent(3 * i + 2, copy_out))
        if i + 1 < chunks and slots == 1:
            ops += inputs[i + 1]
    return _schedule(chunked, ops, 3, launch, f"prefetch N={chunks} K={slots}", 3 * chunks)


def _prefetch_input(copies: Iterable[Op], batch: int, slots: int, stream: int) -> list[Op]:
    reuse = [WaitEvent(3 * (batch - slots) + 1, stream)] if batch >= slots else []
    return [*reuse, *copies, RecordEvent(3 * batch, stream)]


def serialized(schedule: Schedule) -> Schedule:
    """The same copies and kernels one by one: in one stream, with blocking copies, as :func:`serial` issues them.

    That is what the schedule would take without overlap, cut as it is.
    """
    ops: list[Op] = []
    for op in schedule.ops:
        if isinstance(op, Copy):
            ops.append(msgspec.structs.replace(op, stream=1, blocking=True))
        elif isinstance(op, Kernel):
            ops.append(msgspec.structs.replace(op, stream=1))
    name = f"{schedule.name} one by one".strip()
    return Schedule((*ops, Synchronize()), NON_BLOCKING, schedule.buffers, name=name)


BUILDERS: dict[str, Callable[..., Schedule]] = {"depth-first": depth_first, "breadth-first": breadth_first}


def build(
    workload: Workload,
    order: Order = "depth-first",
    chunks: int = 1,
    streams: int = 1,
    buffers: int | None = None,
    memory: HostMemory = "pinned",
    launch: Launch = "live",
) -> Schedule:
    """The schedule that the command's options describe. Raises InputError when they do not go together."""
    if order not in get_args(Order):
        raise InputError(f"order = {order!r}: expected one of {', '.join(get_args(Order))}")
    if order == "serial":
        if launch == "graph":
            raise InputError("launch = 'graph': a serial program blocks the host; use another order")
        return serial(workload, chunks, memory)
    if buffers is not None:
        if order != "depth-first":
            raise InputError(f"buffers = {buffers}: a ring of buffers is issued depth-first, not {order}")
        return ring(workload, chunks, buffers, streams, memory, launch)
    return BUILDERS[order](workload, chunks, streams, memory, launch)
