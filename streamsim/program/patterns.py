"""Patterns: the ways people cut a workload into chunks and issue it, each as a Schedule.

Chunk i of N runs in stream i mod S. Copies name their buffers, so a schedule can be checked for races and
replayed with its output verified. Host and device arrays hold the whole workload, except for ``ring``,
whose device buffers hold one chunk each and are used again. Arrays that are copied once go before the first chunk, in
stream 1, for which the others wait, and back after the last one, when stream 1 has waited for the others.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, cycle
from typing import NamedTuple, TypeVar

import msgspec

from streamsim.program.config import Config, HostMemory, Order, ring_config
from streamsim.program.schedule import (
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
)
from streamsim.program.workload import Workload

T = TypeVar("T")
NON_BLOCKING: tuple[StreamKind, ...] = ("non-blocking",)

Column = list[Op | None]  # what each chunk has of something; None: this one has nothing of it
Regions = list[Region | None]


class _Array(NamedTuple):
    """An array: its host buffer, its device buffers used in turn, and the bytes of each chunk's piece of it."""

    host: str
    device: tuple[str, ...]
    sizes: list[int]
    in_turn: bool

    def buffers(self, memory: HostMemory) -> list[Buffer]:
        whole = sum(self.sizes)
        on_card = max(self.sizes) if self.in_turn else whole
        return [Buffer(self.host, whole, memory), *(Buffer(name, on_card, "device") for name in self.device)]

    def on_host(self) -> Regions:
        """The stretch of each piece."""
        offsets = accumulate(self.sizes, initial=0)
        return [Region(self.host, at, size) if size else None for at, size in zip(offsets, self.sizes, strict=False)]

    def on_card(self) -> Regions:
        if not self.in_turn:
            offsets = accumulate(self.sizes, initial=0)
            return [Region(self.device[0], at, n) if n else None for at, n in zip(offsets, self.sizes, strict=False)]
        return [Region(name, 0, n) if n else None for name, n in zip(cycle(self.device), self.sizes, strict=False)]

    def copies(self, direction: Direction, streams: Iterable[int], blocking: bool = False) -> Column:
        """A copy of each piece."""
        rows = zip(self.sizes, streams, self.on_host(), self.on_card(), strict=False)
        return [Copy(direction, n, stream, host, card, blocking) if n else None for n, stream, host, card in rows]


class _Stages(NamedTuple):
    """The ops of all chunks in columns: a column for each array copied or kernel run, a row for each chunk."""

    h2d: list[Column]
    kernels: list[Column]
    d2h: list[Column]


class _Chunked:
    """A workload cut into chunks: its buffers, and the ops of every chunk on them.

    Columns are made whole: a schedule of many chunks costs little more than its ops.
    """

    def __init__(self, workload: Workload, config: Config) -> None:
        self.workload = workload
        self.memory = config.memory
        self.chunks = config.chunks
        self.launch = config.launch
        self.is_blocking = config.is_blocking
        self.parts = workload.cut(config.chunks)
        self.slots = config.slots
        self.inputs = self._arrays("in", [part.inputs for part in self.parts])
        self.outputs = self._arrays("out", [part.outputs for part in self.parts])
        self.once_in = [
            _Array(f"h_once_in{k}", (f"d_once_in{k}",), [n], False) for k, n in enumerate(workload.h2d_once)
        ]
        pieces = self._spread([part.d2h_once for part in self.parts])
        self.once_out = [
            _Array(f"h_once_out{k}", (f"d_once_out{k}",), list(sizes), False)
            for k, sizes in enumerate(zip(*pieces, strict=True))
        ]

    def _arrays(self, prefix: str, sizes: list[tuple[int, ...]]) -> list[_Array]:
        def device(name: str) -> tuple[str, ...]:
            return (name,) if self.slots is None else tuple(f"{name}_{slot}" for slot in range(self.slots))

        columns = zip(*self._spread(sizes), strict=True)
        return [
            _Array(f"h_{prefix}{k}", device(f"d_{prefix}{k}"), list(column), self.slots is not None)
            for k, column in enumerate(columns)
        ]

    def _spread(self, values: Sequence[T]) -> list[T]:
        """For each chunk what its part has."""
        return [value for value, part in zip(values, self.parts, strict=True) for _ in range(part.many)]

    def buffers(self) -> tuple[Buffer, ...]:
        arrays = (*self.inputs, *self.outputs, *self.once_in, *self.once_out)
        return tuple(buffer for array in arrays for buffer in array.buffers(self.memory))

    def stages(self, streams: Sequence[list[int]]) -> _Stages:
        """The ops of all chunks; ``streams``: for each of the three stages the streams of its chunks."""
        return _Stages(
            [array.copies("h2d", streams[0], self.is_blocking) for array in self.inputs],
            self._kernels(streams[1]),
            [array.copies("d2h", streams[2], self.is_blocking) for array in self.outputs],
        )

    def _kernels(self, streams: list[int]) -> list[Column]:
        """The launches of each kernel; with no output array the last input is worked on in place."""
        inputs = [array.on_card() for array in self.inputs]
        outputs = [array.on_card() for array in (*self.outputs, *self.once_out)]
        whole = tuple(region for array in self.once_in for region in array.on_card() if region)
        sources = [regions + whole for regions in self._present(inputs)]
        targets = self._present(outputs or inputs[-1:])
        launches = self._spread([self.workload.launches(part) for part in self.parts])
        columns: list[Column] = []
        for column in zip(*launches, strict=True):
            rows = zip(column, streams, sources, targets, strict=True)
            columns.append([_launched(kernel, stream, reads, writes) for kernel, stream, reads, writes in rows])
        return columns

    def _present(self, columns: list[Regions]) -> list[tuple[Region, ...]]:
        """The regions that each chunk has in the columns."""
        if not columns:
            return [()] * self.chunks
        return [tuple(region for region in row if region) for row in zip(*columns, strict=True)]

    def rows(self, columns: list[Column]) -> list[tuple[Op, ...]]:
        """What each chunk has in the columns."""
        if not columns:
            return [()] * self.chunks
        return [tuple(op for op in row if op) for row in zip(*columns, strict=True)]

    def before(self, streams: Sequence[int], event: int) -> list[Op]:
        """The arrays that are copied once to the card, and every other stream's wait for them."""
        if not self.once_in:
            return []
        first, *others = streams
        ops = [op for array in self.once_in for op in array.copies("h2d", [first], self.is_blocking) if op]
        if not others:
            return ops
        return [*ops, RecordEvent(event, first), *(WaitEvent(event, stream) for stream in others)]

    def after(self, streams: Sequence[int], event: int) -> list[Op]:
        """The first stream's wait for all others, and the arrays that are copied back once."""
        if not self.once_out:
            return []
        first, *others = streams
        whole = (array._replace(sizes=[sum(array.sizes)]) for array in self.once_out)
        ops = [op for array in whole for op in array.copies("d2h", [first], self.is_blocking) if op]
        joins = [(RecordEvent(event + k, s), WaitEvent(event + k, first)) for k, s in enumerate(others)]
        return [*(op for join in joins for op in join), *ops]


def _launched(kernel: Kernel, stream: int, reads: tuple[Region, ...], writes: tuple[Region, ...]) -> Kernel:
    """``kernel`` in a stream and on memory; made anew, which takes half the time of replacing these."""
    what = kernel.name, kernel.elements, kernel.parameter, kernel.duration_s, kernel.fill
    return Kernel(stream, *what, reads, writes, kernel.share, kernel.threads, kernel.parts)


def _in_turn(config: Config) -> list[int]:
    """The stream of each chunk."""
    return [1 + i % config.streams for i in range(config.chunks)]


def _schedule(
    chunked: _Chunked, ops: Iterable[Op], streams: int, name: str, events: int = 0, cut: bool = True
) -> Schedule:
    return Schedule(
        ops=(*ops, Synchronize()),
        streams=NON_BLOCKING * streams,
        buffers=chunked.buffers(),
        events=events,
        launch=chunked.launch,
        name=name,
        unchunked=serial(chunked.workload, 1, chunked.memory) if cut else None,
    )


def _over_streams(chunked: _Chunked, ops: Iterable[Op], streams: int, name: str, events: int = 0) -> Schedule:
    """A program whose chunks take turns over the streams, between what is copied once."""
    used = range(1, 1 + min(streams, chunked.chunks))
    before, after = chunked.before(used, events), chunked.after(used, events + 1)
    more = max((1 + op.event for op in (*before, *after) if isinstance(op, RecordEvent)), default=events)
    return _schedule(chunked, (*before, *ops, *after), streams, name, more)


def pattern(workload: Workload, config: Config) -> Schedule:
    """The schedule of a workload cut and issued so. Raises InputError when there are more chunks than elements."""
    chunked = _Chunked(workload, config)
    return (_ring if config.buffers is not None else _BY_ORDER[config.order])(chunked, config)


def _serial(chunked: _Chunked, config: Config) -> Schedule:
    ops = [*chunked.before([1], 0), *_by_chunk(chunked.stages([_in_turn(config)] * 3)), *chunked.after([1], 0)]
    return _schedule(chunked, ops, 1, f"serial N={config.chunks}", cut=config.chunks > 1)


def _depth_first(chunked: _Chunked, config: Config) -> Schedule:
    ops = _by_chunk(chunked.stages([_in_turn(config)] * 3))
    return _over_streams(chunked, ops, config.streams, f"depth-first N={config.chunks} S={config.streams}")


def _by_chunk(stages: _Stages) -> Iterable[Op]:
    return filter(None, chain.from_iterable(zip(*stages.h2d, *stages.kernels, *stages.d2h, strict=True)))


def _breadth_first(chunked: _Chunked, config: Config) -> Schedule:
    stages = chunked.stages([_in_turn(config)] * 3)
    ops = filter(None, chain.from_iterable(row for stage in stages for row in zip(*stage, strict=True)))
    return _over_streams(chunked, ops, config.streams, f"breadth-first N={config.chunks} S={config.streams}")


def _ring(chunked: _Chunked, config: Config) -> Schedule:
    chunks, slots = config.chunks, config.slots or 1
    stream, across = _in_turn(config), config.hands_buffers_over
    ops: list[Op] = []
    h2d, kernels, d2h = chunked.stages([stream] * 3)
    for i, row in enumerate(chunked.rows([*h2d, *kernels, *d2h])):
        if across and i >= slots:
            ops.append(WaitEvent(i - slots, stream[i]))
        ops += row
        if across and i + slots < chunks:
            ops.append(RecordEvent(i, stream[i]))
    events = max(0, chunks - slots) if across else 0
    return _over_streams(chunked, ops, config.streams, f"ring N={chunks} S={config.streams} K={slots}", events)


_BY_ORDER: dict[Order, Callable[[_Chunked, Config], Schedule]] = {
    "serial": _serial,
    "depth-first": _depth_first,
    "breadth-first": _breadth_first,
}


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
    return pattern(workload, Config(order, chunks, streams, buffers, memory, launch))


def serial(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned") -> Schedule:
    """The program people start from: blocking copies, one chunk after another, nothing overlaps."""
    return pattern(workload, Config("serial", chunks, memory=memory))


def depth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """For each chunk in turn: its H2D copies, its kernels, its D2H copies."""
    return pattern(workload, Config("depth-first", chunks, streams, None, memory, launch))


def one_stream(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned", launch: Launch = "live") -> Schedule:
    """Asynchronous, but all in one stream: nothing overlaps on the card."""
    return depth_first(workload, chunks, 1, memory, launch)


def breadth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Stage by stage: the H2D copies of all chunks, then all kernels, then all D2H copies."""
    return pattern(workload, Config("breadth-first", chunks, streams, None, memory, launch))


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
    return pattern(workload, ring_config(chunks, buffers, streams, memory, launch))


def prefetch(
    workload: Workload, chunks: int, buffers: int = 2, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Copy batch i + 1 beside the kernels of batch i, as a training or inference loop does.

    Stream 1 copies in, stream 2 runs the kernels, stream 3 copies out; ``buffers`` batches fit on the card.
    Events: 3i when batch i is on the card, 3i + 1 when its kernels have run, 3i + 2 when its output is back. What is
    copied once goes before the first batch, and behind the last batch's kernels.
    """
    config = ring_config(chunks, buffers, 3, memory, launch)  # its buffers; batches do not take turns over streams
    chunked, slots = _Chunked(workload, config), config.slots or 1
    copy_in, compute, copy_out = 1, 2, 3
    stages = chunked.stages([[stream] * chunks for stream in (copy_in, compute, copy_out)])
    inputs = [_prefetch_input(copies, i, slots, copy_in) for i, copies in enumerate(chunked.rows(stages.h2d))]
    ops: list[Op] = [*chunked.before([copy_in], 0), *inputs[0]]
    returned: set[int] = set()  # batches with something to copy back
    for i, (kernels, outputs) in enumerate(zip(chunked.rows(stages.kernels), chunked.rows(stages.d2h), strict=True)):
        if i + 1 < chunks and slots > 1:
            ops += inputs[i + 1]
        ops.append(WaitEvent(3 * i, compute))
        if i - slots in returned:
            ops.append(WaitEvent(3 * (i - slots) + 2, compute))
        ops += (*kernels, RecordEvent(3 * i + 1, compute))
        if outputs:
            ops += (WaitEvent(3 * i + 1, copy_out), *outputs, RecordEvent(3 * i + 2, copy_out))
            returned.add(i)
        if i + 1 < chunks and slots == 1:
            ops += inputs[i + 1]
    after = chunked.after([copy_out, compute], 3 * chunks)
    events = 3 * chunks + bool(after)
    return _schedule(chunked, (*ops, *after), 3, f"prefetch N={chunks} K={slots}", events)


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
