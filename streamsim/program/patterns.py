"""Patterns: the ways people cut a workload into chunks and issue it, each as a Schedule.

Chunk i of N runs in stream i mod S. Copies name their buffers, so a schedule can be checked for races and
replayed with its output verified. Host and device arrays hold the whole workload, except for ``ring`` and
``prefetch``, whose device buffers hold one chunk each and are used again. What the host does before it issues a chunk
goes before the first call for it. Arrays that are copied once go before the first chunk, in
stream 1, for which the others wait, and back after the last one, when stream 1 has waited for the others.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from streamsim.program.builder import Program
from streamsim.program.config import ROLES, Config, HostMemory, Order, ring_config
from streamsim.program.schedule import Copy, HostWork, Kernel, Schedule, StreamKind, Synchronize, check_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamsim.program.builder import Memory, Stream
    from streamsim.program.schedule import Launch, Op
    from streamsim.program.workload import Workload

T = TypeVar("T")
NON_BLOCKING: tuple[StreamKind, ...] = ("non-blocking",)
HOST_WORK = "host work"  # before a chunk


class _Array(NamedTuple):
    """An array on the card and on the host: all of it, and the piece that each chunk has of it (None: nothing)."""

    card: Memory
    host: Memory
    on_card: list[Memory | None]
    on_host: list[Memory | None]


class _Pipeline:
    """A workload put into a program: its memory, and what is copied and run for each of its chunks.

    What depends on no stream is worked out once for all chunks: a schedule of many costs little more than its ops.
    """

    def __init__(self, workload: Workload, config: Config) -> None:
        self.program = Program()
        self._workload, self._config, self._is_blocking = workload, config, config.is_blocking
        cut = workload.in_chunks(config.chunks)
        self._parts = cut.cut(config.chunks)
        inputs = self._arrays("in", [part.inputs for part in self._parts], config.slots)
        outputs = self._arrays("out", [part.outputs for part in self._parts], config.slots)
        self._once_in = [self._array(f"once_in{k}", [n]) for k, n in enumerate(workload.h2d_once)]
        self._once_out = self._arrays("once_out", [part.d2h_once for part in self._parts])
        self._copies_in, self._copies_out = self._pieces(inputs), self._pieces(outputs)
        self._host_s = self._spread([workload.host_s(part) for part in self._parts])
        self._kernels = self._spread([list(map(_arguments, cut.launches(part))) for part in self._parts])
        tables = [array.card for array in self._once_in]
        self._reads = [[*pieces, *tables] for pieces in self._on_card(inputs)]
        # With no output array the last input is worked on in place.
        self._writes = self._on_card([*outputs, *self._once_out] or inputs[-1:])

    def _arrays(self, prefix: str, sizes: list[tuple[int, ...]], slots: int | None = None) -> list[_Array]:
        """The arrays of which each part has so many bytes."""
        columns = zip(*self._spread(sizes), strict=True)
        return [self._array(f"{prefix}{k}", column, slots) for k, column in enumerate(columns)]

    def _array(self, name: str, sizes: Sequence[int], slots: int | None = None) -> _Array:
        """An array of which the chunks have so many bytes, ``slots`` of them at a time on the card (None: all)."""
        program, whole = self.program, sum(sizes)
        host = (program.pageable if self._config.is_pageable else program.pinned)(f"h_{name}", whole)
        if slots is None:
            cards = [program.device(f"d_{name}", whole)]
            on_card = cards[0].cut(sizes)
        else:
            cards = [program.device(f"d_{name}_{slot}", max(sizes)) for slot in range(slots)]
            heads = {size: [card[:size] for card in cards] if size else [None] * slots for size in set(sizes)}
            on_card = [heads[size][slot] for slot, size in zip(cycle(range(slots)), sizes, strict=False)]
        return _Array(cards[0], host, on_card, host.cut(sizes))

    def _spread(self, values: Sequence[T]) -> list[T]:
        """For each chunk what its part has."""
        return [value for value, part in zip(values, self._parts, strict=True) for _ in range(part.many)]

    def _pieces(self, arrays: Sequence[_Array]) -> list[list[tuple[Memory, Memory]]]:
        """For each chunk the pieces that it has, on the card and on the host."""
        if not arrays:
            return [[]] * self._config.chunks
        columns = [zip(array.on_card, array.on_host, strict=True) for array in arrays]
        return [[(card, host) for card, host in row if card and host] for row in zip(*columns, strict=True)]

    def _on_card(self, arrays: Sequence[_Array]) -> list[list[Memory]]:
        """For each chunk the pieces that it has on the card."""
        if not arrays:
            return [[]] * self._config.chunks
        return [[card for card in row if card] for row in zip(*[array.on_card for array in arrays], strict=True)]

    def used(self, streams: Sequence[Stream]) -> Sequence[Stream]:
        """Those of the streams that chunks take turns over."""
        return streams[: self._config.chunks]

    def streams(self, count: int) -> list[Stream]:
        """So many new streams."""
        return [self.program.stream() for _ in range(count)]

    def turns(self, streams: Sequence[Stream]) -> Iterator[tuple[int, Stream]]:
        """Every chunk and its stream."""
        return zip(range(self._config.chunks), cycle(streams), strict=False)

    def begin(self, chunk: int) -> None:
        """What the host does before it issues a chunk."""
        if self._host_s[chunk]:
            self.program.host_work(self._host_s[chunk], HOST_WORK)

    def stages(self) -> list[Callable[[int, Stream], None]]:
        """What there is to issue of a chunk: copies in, kernels, copies out."""
        work = self._workload
        known = ((work.inputs, self.copy_in), (work.kernels, self.run), (work.outputs, self.copy_out))
        return [stage for has, stage in known if has]

    def copy_in(self, chunk: int, stream: Stream) -> None:
        """The H2D copies of a chunk."""
        for card, host in self._copies_in[chunk]:
            stream.copy_in(card, host, blocking=self._is_blocking)

    def run(self, chunk: int, stream: Stream) -> None:
        """The kernels of a chunk."""
        for arguments in self._kernels[chunk]:
            stream.kernel(**arguments, reads=self._reads[chunk], writes=self._writes[chunk])

    def has_output(self, chunk: int) -> bool:
        """Whether there is anything to copy back."""
        return bool(self._copies_out[chunk])

    def copy_out(self, chunk: int, stream: Stream) -> None:
        """The D2H copies of a chunk."""
        for card, host in self._copies_out[chunk]:
            stream.copy_out(host, card, blocking=self._is_blocking)

    def copy_in_once(self, streams: Sequence[Stream]) -> None:
        """The arrays that are copied once to the card in the first of the streams, and the others' wait for them."""
        first, *others = streams
        for array in self._once_in:
            first.copy_in(array.card, array.host, blocking=self._is_blocking)
        if others and (self._once_in or self._once_out):  # of the event's number those of the last copies follow
            loaded = self.program.event()
            if self._once_in:
                first.record(loaded)
                for stream in others:
                    stream.wait(loaded)

    def copy_out_once(self, streams: Sequence[Stream]) -> None:
        """The first stream's wait for the others, and the arrays that are copied back once."""
        if not self._once_out:
            return
        first, *others = streams
        for stream in others:
            first.wait(stream.record())
        for array in self._once_out:
            first.copy_out(array.host, array.card, blocking=self._is_blocking)

    def schedule(self, name: str, is_cut: bool = True) -> Schedule:
        """The program, at whose end the host waits for the card."""
        self.program.synchronize()
        whole = self._workload.loaded_once(self._config.chunks)
        unchunked = serial(whole, 1, self._config.memory) if is_cut else None
        return self.program.schedule(name, launch=self._config.launch, unchunked=unchunked)


def _arguments(kernel: Kernel) -> dict[str, Any]:
    """What a stream's ``kernel`` is called with, but for the memory."""
    names = ("name", "elements", "parameter", "fill", "threads", "share", "parts")
    return {"duration": kernel.duration_s, **{name: getattr(kernel, name) for name in names}}


def pattern(workload: Workload, config: Config) -> Schedule:
    """The schedule of a workload cut and issued so. Raises InputError when it cannot be."""
    config.check(workload)
    is_ring = config.buffers is not None and not config.is_prefetch
    return (_ring if is_ring else _BY_ORDER[config.order])(_Pipeline(workload, config), config)


def _serial(pipeline: _Pipeline, config: Config) -> Schedule:
    return _by_chunk(pipeline, config, f"serial N={config.chunks}", is_cut=config.chunks > 1)


def _depth_first(pipeline: _Pipeline, config: Config) -> Schedule:
    return _by_chunk(pipeline, config, f"depth-first N={config.chunks} S={config.streams}")


def _by_chunk(pipeline: _Pipeline, config: Config, name: str, is_cut: bool = True) -> Schedule:
    streams = pipeline.streams(config.streams)
    pipeline.copy_in_once(pipeline.used(streams))
    for chunk, stream in pipeline.turns(streams):
        pipeline.begin(chunk)
        pipeline.copy_in(chunk, stream)
        pipeline.run(chunk, stream)
        pipeline.copy_out(chunk, stream)
    pipeline.copy_out_once(pipeline.used(streams))
    return pipeline.schedule(name, is_cut)


def _breadth_first(pipeline: _Pipeline, config: Config) -> Schedule:
    streams = pipeline.streams(config.streams)
    pipeline.copy_in_once(pipeline.used(streams))
    for k, stage in enumerate(pipeline.stages()):
        for chunk, stream in pipeline.turns(streams):
            if k == 0:
                pipeline.begin(chunk)
            stage(chunk, stream)
    pipeline.copy_out_once(pipeline.used(streams))
    return pipeline.schedule(f"breadth-first N={config.chunks} S={config.streams}")


def _ring(pipeline: _Pipeline, config: Config) -> Schedule:
    chunks, slots = config.chunks, config.slots or 1
    streams = pipeline.streams(config.streams)
    # Of each chunk whose buffers another one uses again, in another stream.
    done = [pipeline.program.event() for _ in range(chunks - slots)] if config.hands_buffers_over else []
    pipeline.copy_in_once(pipeline.used(streams))
    for chunk, stream in pipeline.turns(streams):
        pipeline.begin(chunk)
        if done and chunk >= slots:
            stream.wait(done[chunk - slots])
        pipeline.copy_in(chunk, stream)
        pipeline.run(chunk, stream)
        pipeline.copy_out(chunk, stream)
        if chunk < len(done):
            stream.record(done[chunk])
    pipeline.copy_out_once(pipeline.used(streams))
    return pipeline.schedule(f"ring N={chunks} S={config.streams} K={slots}")


def _prefetch(pipeline: _Pipeline, config: Config) -> Schedule:
    chunks, slots = config.chunks, config.slots or 1
    load, compute, store = pipeline.streams(ROLES)
    events = [pipeline.program.event() for _ in range(3 * chunks)]
    loaded, ran, stored = events[0::3], events[1::3], events[2::3]
    returned: set[int] = set()  # batches with something to copy back

    def copy_in(batch: int) -> None:
        pipeline.begin(batch)
        if batch >= slots:
            load.wait(ran[batch - slots])
        pipeline.copy_in(batch, load)
        load.record(loaded[batch])

    pipeline.copy_in_once([load])
    copy_in(0)
    for batch in range(chunks):
        if batch + 1 < chunks and slots > 1:
            copy_in(batch + 1)
        compute.wait(loaded[batch])
        if batch - slots in returned:
            compute.wait(stored[batch - slots])
        pipeline.run(batch, compute)
        compute.record(ran[batch])
        if pipeline.has_output(batch):
            store.wait(ran[batch])
            pipeline.copy_out(batch, store)
            store.record(stored[batch])
            returned.add(batch)
        if batch + 1 < chunks and slots == 1:
            copy_in(batch + 1)
    pipeline.copy_out_once([store, compute])
    return pipeline.schedule(f"prefetch N={chunks} K={slots}")


_BY_ORDER: dict[Order, Callable[[_Pipeline, Config], Schedule]] = {
    "serial": _serial,
    "depth-first": _depth_first,
    "breadth-first": _breadth_first,
    "prefetch": _prefetch,
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
    return pattern(workload, Config("prefetch", chunks, 1, buffers, memory, launch))


def serialized(schedule: Schedule) -> Schedule:
    """The same copies, kernels and host work one by one: in one stream, with blocking copies, as in :func:`serial`.

    That is what the schedule would take without overlap, cut as it is.
    """
    check_schedule("schedule", schedule)
    ops: list[Op] = []
    for op in schedule.ops:
        if isinstance(op, Copy):
            ops.append(msgspec.structs.replace(op, stream=1, blocking=True))
        elif isinstance(op, Kernel):
            ops.append(msgspec.structs.replace(op, stream=1))
        elif isinstance(op, HostWork):
            ops.append(op)
    name = f"{schedule.name} one by one".strip()
    return Schedule((*ops, Synchronize()), NON_BLOCKING, schedule.buffers, name=name)
