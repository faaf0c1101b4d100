"""A builder of schedules, used like CuPy or CUDA: handles stand for streams, events and memory.

    p = Program()
    x, h = p.device("x", "64MiB"), p.pinned("x.host", "64MiB")
    load, work = p.stream(), p.stream()
    load.copy_in(x, h)
    loaded = load.record()
    work.wait(loaded)
    work.kernel("0.57ms", writes=x)
    p.synchronize()
    schedule = p.schedule()

Every call appends one op to the program. :meth:`Program.schedule` returns the ops so far as a :class:`Schedule`, which
checks the program as a whole. A builder can make every schedule. Sizes are numbers of bytes or text such as
``"64MiB"``. Times are seconds or text such as ``"0.57ms"``. A handle works only in its own program; in another one it
raises InputError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, cycle
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec

from streamsim.collector import collector_off
from streamsim.errors import InputError
from streamsim.program.loops import TURN, ChunkLoop, Issue, Prepare, Record, Stage, Step, Turns
from streamsim.program.schedule import (
    LEGACY_STREAM,
    Buffer,
    Copy,
    HostWork,
    Kernel,
    Launch,
    MemoryKind,
    Op,
    RecordEvent,
    Region,
    Schedule,
    StreamKind,
    Synchronize,
    WaitEvent,
)
from streamsim.program.workload import Workload
from streamsim.text import parse_bytes, parse_count, parse_seconds, parse_share, short, shown


class Memory(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The bytes of a buffer of a program: all of them, or a slice, ``x[0:1024]`` or ``x["1MiB":]``.

    ``kind``: the memory is on the device, or on the host, pinned or pageable. No reference cycle goes through a Memory.
    """

    _program: Program
    region: Region
    kind: MemoryKind

    @property
    def bytes(self) -> int:
        """The number of bytes."""
        return self.region.bytes

    def __getitem__(self, wanted: slice) -> Memory:
        """Return the bytes ``start .. stop``. Raises InputError for a step, and for bytes beyond the ends."""
        region = self.region
        if not isinstance(wanted, slice) or wanted.step is not None:
            what = f"{region.buffer}[{shown(wanted)}]"
            raise InputError(f"{what}: expected a slice of bytes without a step, as x[0:1024]")
        start, stop = _size(wanted.start), _size(wanted.stop)
        start, stop = 0 if start is None else start, region.bytes if stop is None else stop
        if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= region.bytes:
            raise InputError(
                f"{region.buffer}[{shown(wanted.start)}:{shown(wanted.stop)}]: expected whole numbers of bytes, the"
                f" smaller first, from 0 to {region.bytes}"
            )
        return Memory(self._program, Region(region.buffer, region.offset + start, stop - start), self.kind)

    def cut(self, sizes: Sequence[int]) -> list[Memory | None]:
        """Return consecutive pieces with these numbers of bytes, None for 0 bytes. Raises InputError beyond the end."""
        try:
            total = sum(sizes)
        except TypeError:
            raise InputError(f"sizes = {shown(sizes)}: expected the bytes of each piece, as [{self.bytes}]") from None
        if total > self.region.bytes:
            raise InputError(f"{self}: cannot be cut into {total} bytes")
        program, name, kind = self._program, self.region.buffer, self.kind
        starts = accumulate(sizes, initial=self.region.offset)
        return [
            Memory(program, Region(name, start, size), kind) if size else None
            for start, size in zip(starts, sizes, strict=False)
        ]

    def __repr__(self) -> str:
        region = self.region
        return short(f"{region.buffer}[{region.offset}:{region.offset + region.bytes}] ({self.kind})")


class Event:
    """An event of a program: :meth:`Stream.record` makes and records one, :meth:`Stream.wait` waits for it."""

    __slots__ = ("_program", "number")

    def __init__(self, program: Program, number: int) -> None:
        self._program = program
        self.number = number

    def synchronize(self) -> None:
        """Let the host wait for the event's latest record."""
        self._program._ops.append(Synchronize(event=self.number))

    def __repr__(self) -> str:
        return f"event {self.number}"


class Stream:
    """A stream of a program. Each method issues one op. Raises InputError for a handle of another program."""

    __slots__ = ("_ops", "_program", "kind", "number")

    def __init__(self, program: Program, number: int, kind: StreamKind) -> None:
        self._program = program
        self._ops = program._ops
        self.number = number
        self.kind = kind

    def copy_in(
        self, to: Memory | int | str | None = None, source: Memory | int | str | None = None, *, blocking: bool = False
    ) -> None:
        """Copy to the device memory ``to`` from the host memory ``source``.

        A side may be a size or None. It is then memory that no other op uses, pinned on the host. ``blocking``: the
        host waits until the copy is done. Raises InputError if the sides differ in size or are other kinds of memory.
        """
        device, host = self._region("to", to, True), self._region("source", source, False)
        size = device.bytes if device and host else _bytes(to, source)
        self._ops.append(Copy("h2d", size, self.number, host, device, blocking))

    def copy_out(
        self, to: Memory | int | str | None = None, source: Memory | int | str | None = None, *, blocking: bool = False
    ) -> None:
        """Copy to the host memory ``to`` from the device memory ``source``; see :meth:`copy_in`."""
        host, device = self._region("to", to, False), self._region("source", source, True)
        size = host.bytes if device and host else _bytes(to, source)
        self._ops.append(Copy("d2h", size, self.number, host, device, blocking))

    def kernel(
        self,
        duration: float | str | None = None,
        name: str = "kernel",
        *,
        elements: int | str = 0,
        parameter: int = 0,
        fill: float | str | None = None,
        reads: Memory | Sequence[Memory] = (),
        writes: Memory | Sequence[Memory] = (),
        threads: int | str = 0,
        share: float | str = 1.0,
        parts: Iterable[tuple[float | str, float | str]] = (),
    ) -> None:
        """Launch a kernel that takes ``duration`` alone on the card, in seconds or as text.

        Without a duration, the device's table gives the time of the kernel ``name`` for its ``elements`` and
        ``parameter``. ``reads`` and ``writes``: the device memory that the kernel uses. The other arguments are fields
        of :class:`Kernel`.
        """
        self._ops.append(
            Kernel(
                self.number,
                name,
                parse_count(elements, "elements") if isinstance(elements, str) else elements,
                parameter,
                parse_seconds(duration, "duration") if isinstance(duration, str) else duration,
                parse_share(fill, "fill") if isinstance(fill, str) else fill,
                self._touched("reads", reads) if reads else (),
                self._touched("writes", writes) if writes else (),
                parse_share(share, "share") if isinstance(share, str) else share,
                parse_count(threads, "threads") if isinstance(threads, str) else threads,
                tuple(map(_part, parts)) if parts else (),
            )
        )

    def record(self, event: Event | None = None) -> Event:
        """Record ``event`` (default: a new one), which completes when all earlier ops of the stream have. Return it."""
        event = self._program.event() if event is None else self._own(event)
        self._ops.append(RecordEvent(event.number, self.number))
        return event

    def wait(self, event: Event) -> None:
        """Let later ops of the stream wait for the event's latest record before this call, if there is one."""
        self._ops.append(WaitEvent(self._own(event).number, self.number))

    def synchronize(self) -> None:
        """Let the host wait for the stream."""
        self._ops.append(Synchronize(stream=self.number))

    def _own(self, event: Event) -> Event:
        if not isinstance(event, Event):
            raise InputError(f"event = {shown(event)}: expected an event, as record() gives it")
        if event._program is not self._program:
            raise InputError(f"{event}: of another program; record one in a stream of this program")
        return event

    def _region(self, field: str, memory: Memory | int | str | None, is_on_card: bool) -> Region | None:
        """Return the bytes of ``memory``, or None for a size. Raises InputError for memory that cannot be used here."""
        if type(memory) is not Memory:
            return None if memory is None or isinstance(memory, int | str) else _no_memory(field, memory)
        if memory._program is not self._program:
            raise InputError(f"{field} = {memory}: of another program; declare it in this program")
        if (memory.kind == "device") is not is_on_card:
            raise InputError(f"{field} = {memory}: expected {'device' if is_on_card else 'pinned or pageable'} memory")
        return memory.region

    def _touched(self, field: str, memory: Memory | Sequence[Memory]) -> tuple[Region, ...]:
        some: Sequence[Any] = memory if isinstance(memory, list | tuple) else (memory,)
        return tuple([self._region(field, one, True) or _no_memory(field, one) for one in some])

    def __repr__(self) -> str:
        return f"stream {self.number} ({self.kind if self.number else 'legacy default'})"


class Program:
    """A program that the host issues op by op; see the top of this module."""

    def __init__(self) -> None:
        self._ops: list[Op] = []
        self._kinds: list[StreamKind] = []
        self._buffers: dict[str, Buffer] = {}
        self._events = 0

    def stream(self, *, blocking: bool = False) -> Stream:
        """Return a new stream, non-blocking by default. A ``blocking`` stream synchronises with the legacy stream."""
        kind: StreamKind = "blocking" if blocking else "non-blocking"
        self._kinds.append(kind)
        return Stream(self, len(self._kinds), kind)

    @property
    def legacy_stream(self) -> Stream:
        """CUDA's legacy default stream, stream 0."""
        return Stream(self, LEGACY_STREAM, "blocking")

    def event(self) -> Event:
        """Return a new event, not yet recorded. :meth:`Stream.record` makes one, too."""
        self._events += 1
        return Event(self, self._events - 1)

    def device(self, name: str, size: int | str) -> Memory:
        """Return a new buffer of ``size`` on the card. Raises InputError for a name that another buffer has."""
        return self._buffer(name, size, "device")

    def pinned(self, name: str, size: int | str) -> Memory:
        """Return a new buffer in pinned (page-locked) host memory; see :meth:`device`."""
        return self._buffer(name, size, "pinned")

    def pageable(self, name: str, size: int | str) -> Memory:
        """Return a new buffer in pageable host memory; see :meth:`device`."""
        return self._buffer(name, size, "pageable")

    def _buffer(self, name: str, size: int | str, kind: MemoryKind) -> Memory:
        buffer = Buffer(name, parse_bytes(size, f"size of {name}") if isinstance(size, str) else size, kind)
        if name in self._buffers:
            raise InputError(f"name = {name!r}: another buffer has this name; rename one")
        self._buffers[name] = buffer
        return Memory(self, Region(name, 0, buffer.bytes), kind)

    def synchronize(self) -> None:
        """Let the host wait for the whole device."""
        self._ops.append(Synchronize())

    def host_work(self, duration: float | str, name: str = "") -> None:
        """Let the host do other work before its next call, for seconds or text such as ``"3ms"``."""
        self._ops.append(HostWork(parse_seconds(duration, "duration") if isinstance(duration, str) else duration, name))

    def schedule(self, name: str = "", *, launch: Launch = "live", unchunked: Schedule | None = None) -> Schedule:
        """Return the ops so far as a schedule; the arguments are fields of :class:`Schedule`.

        Raises InputError if there are no ops, and for ``launch="graph"`` if the program cannot be captured.
        """
        return Schedule(
            ops=tuple(self._ops),
            streams=tuple(self._kinds),
            buffers=tuple(self._buffers.values()),
            events=self._events,
            launch=launch,
            name=name,
            unchunked=unchunked,
        )

    def __repr__(self) -> str:
        return f"Program({len(self._ops)} ops, {len(self._kinds)} streams, {len(self._buffers)} buffers)"


def _no_memory(field: str, given: object) -> NoReturn:
    raise InputError(f"{field} = {shown(given)}: expected memory, as Program.device() and Program.pinned() give it")


def _bytes(to: Memory | int | str | None, source: Memory | int | str | None) -> int:
    """Return the bytes of a copy: the given size, or the size of its memory."""
    sizes = [
        parse_bytes(side) if isinstance(side, str) else side for side in (to, source) if isinstance(side, int | str)
    ]
    if len(sizes) == 2 and sizes[0] != sizes[1]:
        raise InputError(f"to = {shown(to)}, source = {shown(source)}: a copy has one size; give it once")
    for side in (*sizes, source, to):
        if side is not None:
            return side.bytes if isinstance(side, Memory) else side  # type: ignore[return-value]  # no text is left
    raise InputError("to = None, source = None: a copy needs memory or a size, such as 64MiB")


def _size(size: int | str | None) -> int | None:
    return parse_bytes(size, "size", least=0) if isinstance(size, str) else size


def _part(part: tuple[float | str, float | str]) -> tuple[float, float]:
    if not isinstance(part, list | tuple) or len(part) != 2:
        raise InputError(f"parts: {shown(part)}: expected a share and its time, as (0.5, '9us')")
    share, seconds = part
    return (
        parse_share(share, "part") if isinstance(share, str) else share,
        parse_seconds(seconds, "part") if isinstance(seconds, str) else seconds,
    )


# Pipelines: workloads cut into chunks and issued by a loop.
#
# Copies name their buffers, so that a schedule can be checked for races and replayed with its output verified. Host and
# device arrays hold the whole workload, unless chunks use buffers in turn. Arrays that are copied once go in before the
# first chunk, in the loop's first stream, for which the other streams wait. They go back after the last chunk.

T = TypeVar("T")
HOST_WORK = "host work"  # before a chunk


class _ChunkedArray(NamedTuple):
    """An array on the card and on the host: the whole array, and the piece of each chunk (None: no piece)."""

    card: Memory
    host: Memory
    on_card: list[Memory | None]
    on_host: list[Memory | None]


class _ChunkWork(NamedTuple):
    """The work of a chunk: the host's before it, its copies (card, host), its kernels, and the memory that they use."""

    host_s: float
    copies_in: list[tuple[Memory, Memory]]
    kernels: list[dict[str, Any]]
    copies_out: list[tuple[Memory, Memory]]
    reads: list[Memory]
    writes: list[Memory]


class _ChunkedProgram:
    """The program of a workload, while it is issued.

    What depends on no stream is worked out once for all chunks, so that a schedule of many chunks costs little more
    than its ops.
    """

    def __init__(self, workload: Workload, loop: ChunkLoop, turns: Turns, is_pageable: bool, is_blocking: bool) -> None:
        self.program, self._loop, self._turns = Program(), loop, turns
        self._is_pageable, self._is_blocking = is_pageable, is_blocking
        cut = workload.in_chunks(turns.chunks)
        self._parts = parts = cut.cut(turns.chunks)
        inputs = self._arrays("in", [part.inputs for part in parts], turns.slots)
        outputs = self._arrays("out", [part.outputs for part in parts], turns.slots)
        self._once_in = [self._array(f"once_in{k}", [n]) for k, n in enumerate(workload.h2d_once)]
        self._once_out = self._arrays("once_out", [part.d2h_once for part in parts])
        tables = [array.card for array in self._once_in]
        copies_in = self._pieces(inputs)
        # Without an output array, kernels write the last input.
        writes = self._pieces([*outputs, *self._once_out] or inputs[-1:])
        columns = (
            self._spread([workload.host_s(part) for part in parts]),
            copies_in,
            self._spread([list(map(_arguments, cut.launches(part))) for part in parts]),
            self._pieces(outputs),
            [[*(card for card, _ in pieces), *tables] for pieces in copies_in],
            [[card for card, _ in pieces] for pieces in writes],
        )
        self._chunks = list(map(_ChunkWork, *columns))
        self._streams = [self.program.stream() for _ in loop.roles or range(turns.streams)]
        self._recorded: set[tuple[str, int]] = set()  # events, by name and chunk

    def _arrays(self, prefix: str, sizes: list[tuple[int, ...]], slots: int | None = None) -> list[_ChunkedArray]:
        """Return the arrays of which each part has these bytes."""
        columns = zip(*self._spread(sizes), strict=True)
        return [self._array(f"{prefix}{k}", column, slots) for k, column in enumerate(columns)]

    def _array(self, name: str, sizes: Sequence[int], slots: int | None = None) -> _ChunkedArray:
        """Return an array whose chunks have these bytes; the card holds ``slots`` chunks at a time (None: all)."""
        program, whole = self.program, sum(sizes)
        host = (program.pageable if self._is_pageable else program.pinned)(f"h_{name}", whole)
        if slots is None:
            cards = [program.device(f"d_{name}", whole)]
            on_card = cards[0].cut(sizes)
        else:
            cards = [program.device(f"d_{name}_{slot}", max(sizes)) for slot in range(slots)]
            heads = {size: [card[:size] for card in cards] if size else [None] * slots for size in set(sizes)}
            on_card = [heads[size][slot] for slot, size in zip(cycle(range(slots)), sizes, strict=False)]
        return _ChunkedArray(cards[0], host, on_card, host.cut(sizes))

    def _spread(self, values: Sequence[T]) -> list[T]:
        """Return the value of each chunk's part, chunk by chunk."""
        return [value for value, part in zip(values, self._parts, strict=True) for _ in range(part.many)]

    def _pieces(self, arrays: Sequence[_ChunkedArray]) -> list[list[tuple[Memory, Memory]]]:
        """Return each chunk's pieces, on the card and on the host."""
        if not arrays:
            return [[]] * self._turns.chunks
        columns = [zip(array.on_card, array.on_host, strict=True) for array in arrays]
        return [[(card, host) for card, host in row if card and host] for row in zip(*columns, strict=True)]

    def issue(self) -> None:
        """Issue the program: what is copied once, and all passes over the chunks. At its end the host waits for all."""
        chunks, behind, loop = self._turns.chunks, self._turns.ahead, self._loop
        first, *others = self._streams[:chunks]
        recorded = [self._turns.recorded(step) for step in loop.steps if isinstance(step, Record)]
        self._events = [[self.program.event() for _ in loop.events] for _ in range(max(recorded, default=0))]
        self._copy_in_once(first, [] if loop.roles else others)
        for bodies in loop.passes:
            for i in range(chunks + behind * any(body.follows for body in bodies)):
                for body in bodies:
                    chunk = i - behind if body.follows else i
                    if 0 <= chunk < chunks and (self._chunks[chunk].copies_out or not body.needs_output):
                        self._issue_body(body.steps, chunk)
        if loop.ends:
            first, *others = [self._streams[k] for k in loop.ends]
        self._copy_out_once(first, others)
        self.program.synchronize()

    def _issue_body(self, steps: Sequence[Step], number: int) -> None:
        turn, chunk = self._streams[number % len(self._streams)], self._chunks[number]
        for step in steps:
            if isinstance(step, Prepare):
                if chunk.host_s:
                    self.program.host_work(chunk.host_s, HOST_WORK)
                continue
            stream = turn if step.stream == TURN else self._streams[step.stream]
            if isinstance(step, Issue):
                self._issue_stage(step.stage, chunk, stream)
            elif isinstance(step, Record):
                if number < self._turns.recorded(step):
                    stream.record(self._event(step.event, number))
                    self._recorded.add((step.event, number))
            else:
                before = step.event, number - self._turns.distance(step.before)
                if before in self._recorded:
                    stream.wait(self._event(*before))

    def _event(self, name: str, chunk: int) -> Event:
        return self._events[chunk][self._loop.events.index(name)]

    def _issue_stage(self, stage: Stage, chunk: _ChunkWork, stream: Stream) -> None:
        if stage == "copy in":
            for card, host in chunk.copies_in:
                stream.copy_in(card, host, blocking=self._is_blocking)
        elif stage == "run":
            for arguments in chunk.kernels:
                stream.kernel(**arguments, reads=chunk.reads, writes=chunk.writes)
        else:
            for card, host in chunk.copies_out:
                stream.copy_out(host, card, blocking=self._is_blocking)

    def _copy_in_once(self, first: Stream, others: Sequence[Stream]) -> None:
        """Copy the arrays of ``h2d_once`` to the card in the first stream, and let the other streams wait for them."""
        for array in self._once_in:
            first.copy_in(array.card, array.host, blocking=self._is_blocking)
        if others and (self._once_in or self._once_out):  # the events of the last copies have later numbers
            loaded = self.program.event()
            if self._once_in:
                first.record(loaded)
                for stream in others:
                    stream.wait(loaded)

    def _copy_out_once(self, first: Stream, others: Sequence[Stream]) -> None:
        """Let the first stream wait for the others, and copy the arrays of ``d2h_once`` back."""
        if not self._once_out:
            return
        for stream in others:
            first.wait(stream.record())
        for array in self._once_out:
            first.copy_out(array.host, array.card, blocking=self._is_blocking)


def _arguments(kernel: Kernel) -> dict[str, Any]:
    """Return the arguments of a stream's ``kernel``, without the memory."""
    names = ("name", "elements", "parameter", "fill", "threads", "share", "parts")
    return {"duration": kernel.duration_s, **{name: getattr(kernel, name) for name in names}}


@collector_off()  # nothing that is made here becomes garbage before the end
def program_of(workload: Workload, loop: ChunkLoop, turns: Turns, is_pageable: bool, is_blocking: bool) -> Program:
    """Return the program of a workload, cut and issued by ``loop``; at its end the host waits for the card."""
    pipeline = _ChunkedProgram(workload, loop, turns, is_pageable, is_blocking)
    pipeline.issue()
    return pipeline.program
