"""Patterns: the ways people cut a workload into chunks and issue it, each as a Schedule.

Chunk i of N runs in stream i mod S. Copies name their buffers, so a schedule can be checked for races and
replayed with its output verified. Host and device arrays hold the whole workload, except for ``ring``,
whose device buffers hold one chunk each and are used again.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, get_args

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

    ``kernels`` run one after another on each chunk. Raises InputError naming the field.
    """

    elements: int
    inputs: tuple[int, ...] = (4,)
    outputs: tuple[int, ...] = (4,)
    kernels: tuple[WorkloadKernel, ...] = (WorkloadKernel(duration_s=1e-3),)
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


def chunk_bounds(elements: int, chunks: int) -> list[tuple[int, int]]:
    """First element and count of each chunk: equal chunks, the last one smaller where N does not divide.

    Raises InputError when there are more chunks than elements.
    """
    check_whole("chunks", chunks, 1, LARGEST_COUNT)
    if chunks > elements:
        raise InputError(f"chunks = {chunks}: more chunks than elements ({elements}); use at most {elements}")
    size, over = divmod(elements, chunks)
    if over and (size + 1) * (chunks - 1) < elements:
        size += 1  # all but the last of size + 1, the last with what is left
        return [(i * size, min(size, elements - i * size)) for i in range(chunks)]
    return [(i * size + min(i, over), size + (i < over)) for i in range(chunks)]


class _Array(NamedTuple):
    """An input or output array: its host buffer, its device buffers used in turn, bytes per element."""

    host: str
    device: tuple[str, ...]
    n_bytes: int


class _Arrays:
    """The buffers of a workload, and the ops of a chunk on them.

    ``slots``: device buffers used in turn, each of ``slot_elements``; None: one for the whole workload.
    """

    def __init__(
        self, workload: Workload, memory: HostMemory, slots: int | None = None, slot_elements: int = 0
    ) -> None:
        self.workload = workload
        self.memory = memory
        self.slots = slots
        self.device_elements = workload.elements if slots is None else slot_elements
        self.inputs = self._arrays("in", workload.inputs)
        self.outputs = self._arrays("out", workload.outputs)

    def _arrays(self, prefix: str, sizes: tuple[int, ...]) -> list[_Array]:
        def device(name: str) -> tuple[str, ...]:
            return (name,) if self.slots is None else tuple(f"{name}_{slot}" for slot in range(self.slots))

        return [_Array(f"h_{prefix}{k}", device(f"d_{prefix}{k}"), n) for k, n in enumerate(sizes)]

    def buffers(self) -> tuple[Buffer, ...]:
        found: list[Buffer] = []
        for array in self.inputs + self.outputs:
            found.append(Buffer(array.host, array.n_bytes * self.workload.elements, self.memory))
            found += [Buffer(name, array.n_bytes * self.device_elements, "device") for name in array.device]
        return tuple(found)

    def on_device(self, arrays: list[_Array], chunk: int, first: int, count: int) -> tuple[Region, ...]:
        if self.slots is None:
            return tuple([Region(name[0], n * first, n * count) for _, name, n in arrays])
        slot = chunk % self.slots
        return tuple([Region(names[slot], 0, n * count) for _, names, n in arrays])

    def copies(
        self, direction: Direction, device: tuple[Region, ...], first: int, stream: int, blocking: bool
    ) -> list[Op]:
        arrays = self.inputs if direction == "h2d" else self.outputs
        return [
            Copy(direction, region.bytes, stream, Region(name, n * first, region.bytes), region, blocking)
            for (name, _, n), region in zip(arrays, device, strict=True)
        ]

    def kernels(self, reads: tuple[Region, ...], writes: tuple[Region, ...], count: int, stream: int) -> list[Op]:
        """The kernels of a chunk of ``count`` elements; with no output array the last input is worked on in place."""
        share = count / self.workload.elements
        targets = writes or reads[-1:]
        ops: list[Op] = []
        for kernel in self.workload.kernels:
            chunk_s = None if kernel.duration_s is None else kernel.duration_s * share
            ops.append(Kernel(stream, kernel.name, count, kernel.parameter, chunk_s, kernel.fill, reads, targets))
        return ops


class Chunk(NamedTuple):
    """The ops of one chunk, stage by stage."""

    number: int
    stream: int
    h2d: list[Op]
    kernels: list[Op]
    d2h: list[Op]


def _chunks(arrays: _Arrays, bounds: list[tuple[int, int]], streams: int, blocking: bool = False) -> Iterator[Chunk]:
    for i, (first, count) in enumerate(bounds):
        stream = 1 + i % streams
        reads = arrays.on_device(arrays.inputs, i, first, count)
        writes = arrays.on_device(arrays.outputs, i, first, count)
        yield Chunk(
            i,
            stream,
            arrays.copies("h2d", reads, first, stream, blocking),
            arrays.kernels(reads, writes, count, stream),
            arrays.copies("d2h", writes, first, stream, blocking),
        )


def _check_streams(streams: int) -> None:
    check_whole("streams", streams, 1, LARGEST_COUNT)


def _schedule(arrays: _Arrays, ops: list[Op], streams: int, launch: Launch, name: str, events: int = 0) -> Schedule:
    return Schedule(
        ops=(*ops, Synchronize()),
        streams=NON_BLOCKING * streams,
        buffers=arrays.buffers(),
        events=events,
        launch=launch,
        name=name,
    )


def serial(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned") -> Schedule:
    """The program people start from: blocking copies, one chunk after another, nothing overlaps."""
    arrays = _Arrays(workload, memory)
    ops: list[Op] = []
    for chunk in _chunks(arrays, chunk_bounds(workload.elements, chunks), 1, blocking=True):
        ops += (*chunk.h2d, *chunk.kernels, *chunk.d2h)
    return _schedule(arrays, ops, 1, "live", f"serial N={chunks}")


def depth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """For each chunk in turn: its H2D copies, its kernels, its D2H copies."""
    _check_streams(streams)
    arrays = _Arrays(workload, memory)
    ops: list[Op] = []
    for chunk in _chunks(arrays, chunk_bounds(workload.elements, chunks), streams):
        ops += (*chunk.h2d, *chunk.kernels, *chunk.d2h)
    return _schedule(arrays, ops, streams, launch, f"depth-first N={chunks} S={streams}")


def one_stream(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned", launch: Launch = "live") -> Schedule:
    """Asynchronous, but all in one stream: nothing overlaps on the card."""
    return depth_first(workload, chunks, 1, memory, launch)


def breadth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Stage by stage: the H2D copies of all chunks, then all kernels, then all D2H copies."""
    _check_streams(streams)
    arrays = _Arrays(workload, memory)
    cut = list(_chunks(arrays, chunk_bounds(workload.elements, chunks), streams))
    ops = [op for stage in ("h2d", "kernels", "d2h") for chunk in cut for op in getattr(chunk, stage)]
    return _schedule(arrays, ops, streams, launch, f"breadth-first N={chunks} S={streams}")


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
    _check_streams(streams)
    bounds = chunk_bounds(workload.elements, chunks)
    buffers = min(buffers, chunks)
    arrays = _Arrays(workload, memory, slots=buffers, slot_elements=max(count for _, count in bounds))
    ops: list[Op] = []
    across = buffers % streams != 0  # chunks i and i - buffers run in different streams
    for chunk in _chunks(arrays, bounds, streams):
        if across and chunk.number >= buffers:
            ops.append(WaitEvent(chunk.number - buffers, chunk.stream))
        ops += (*chunk.h2d, *chunk.kernels, *chunk.d2h)
        if across and chunk.number + buffers < chunks:
            ops.append(RecordEvent(chunk.number, chunk.stream))
    events = max(0, chunks - buffers) if across else 0
    return _schedule(arrays, ops, streams, launch, f"ring N={chunks} S={streams} K={buffers}", events)


def prefetch(
    workload: Workload, chunks: int, buffers: int = 2, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Copy batch i + 1 beside the kernels of batch i, as a training or inference loop does.

    Stream 1 copies in, stream 2 runs the kernels, stream 3 copies out; ``buffers`` batches fit on the card.
    Events: 3i when batch i is on the card, 3i + 1 when its kernels have run, 3i + 2 when its output is back.
    """
    check_whole("buffers", buffers, 1, LARGEST_COUNT)
    bounds = chunk_bounds(workload.elements, chunks)
    slots = min(buffers, chunks)
    arrays = _Arrays(workload, memory, slots=slots, slot_elements=max(count for _, count in bounds))
    copy_in, compute, copy_out = 1, 2, 3
    inputs = [_prefetch_input(arrays, i, bound, slots, copy_in) for i, bound in enumerate(bounds)]
    ops: list[Op] = list(inputs[0])
    for i, (first, count) in enumerate(bounds):
        if i + 1 < chunks and slots > 1:
            ops += inputs[i + 1]
        reads = arrays.on_device(arrays.inputs, i, first, count)
        writes = arrays.on_device(arrays.outputs, i, first, count)
        ops.append(WaitEvent(3 * i, compute))
        if i >= slots and workload.outputs:
            ops.append(WaitEvent(3 * (i - slots) + 2, compute))
        ops += (*arrays.kernels(reads, writes, count, compute), RecordEvent(3 * i + 1, compute))
        if workload.outputs:
            ops.append(WaitEvent(3 * i + 1, copy_out))
            ops += arrays.copies("d2h", writes, first, copy_out, blocking=False)
            ops.append(RecordEvent(3 * i + 2, copy_out))
        if i + 1 < chunks and slots == 1:
            ops += inputs[i + 1]
    return _schedule(arrays, ops, 3, launch, f"prefetch N={chunks} K={slots}", 3 * chunks)


def _prefetch_input(arrays: _Arrays, batch: int, bound: tuple[int, int], slots: int, stream: int) -> list[Op]:
    first, count = bound
    ops: list[Op] = []
    if batch >= slots:
        ops.append(WaitEvent(3 * (batch - slots) + 1, stream))
    ops += arrays.copies("h2d", arrays.on_device(arrays.inputs, batch, first, count), first, stream, blocking=False)
    return [*ops, RecordEvent(3 * batch, stream)]


def serialized(schedule: Schedule) -> Schedule:
    """The same copies and kernels one at a time, each waited for: what the schedule would take without overlap."""
    ops: list[Op] = []
    for op in schedule.ops:
        if isinstance(op, Copy | Kernel):
            ops += (msgspec.structs.replace(op, stream=1), Synchronize(stream=1))
    if not ops:
        ops = [Synchronize()]
    return Schedule(tuple(ops), ("non-blocking",), schedule.buffers, name=f"{schedule.name} serialised".strip())


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
