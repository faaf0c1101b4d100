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

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec.structs import replace

from streamsim.collector import collector_off
from streamsim.errors import InputError
from streamsim.program.loops import TURN, ChunkLoop, Issue, Prepare, RecordStep, Stage, Step, Turns
from streamsim.program.schedule import (
    LEGACY_STREAM,
    Buffer,
    Copy,
    Direction,
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
from streamsim.text import parse_bytes, parse_seconds, short, shown

Number = TypeVar("Number", int, float)


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
        name, whole = self.region.buffer, self.region.bytes
        if not isinstance(wanted, slice) or wanted.step is not None:
            raise InputError(f"{name}[{shown(wanted)}]: expected a slice of bytes without a step, as x[0:1024]")
        start, stop = (
            parse_bytes(end, "size", least=0) if isinstance(end, str) else usual if end is None else end
            for end, usual in ((wanted.start, 0), (wanted.stop, whole))
        )
        if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= whole:
            raise InputError(
                f"{name}[{shown(wanted.start)}:{shown(wanted.stop)}]: expected whole numbers of bytes, the smaller"
                f" first, from 0 to {whole}"
            )
        return Memory(self._program, Region(name, self.region.offset + start, stop - start), self.kind)

    def __repr__(self) -> str:
        region = self.region
        return short(f"{region.buffer}[{region.offset}:{region.offset + region.bytes}] ({self.kind})")


Side = Memory | int | str | None  # of a copy: memory, or the size of memory that no other op uses


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

    def copy_in(self, to: Side = None, source: Side = None, *, blocking: bool = False) -> None:
        """Copy to the device memory ``to`` from the host memory ``source``.

        A side may be a size or None. It is then memory that no other op uses, pinned on the host. ``blocking``: the
        host waits until the copy is done. Raises InputError if the sides differ in size or are other kinds of memory.
        """
        card, host = self._region("to", to, True), self._region("source", source, False)
        self._ops.append(Copy("h2d", _one_size(to, source), self.number, host, card, blocking))

    def copy_out(self, to: Side = None, source: Side = None, *, blocking: bool = False) -> None:
        """Copy to the host memory ``to`` from the device memory ``source``; see :meth:`copy_in`."""
        host, card = self._region("to", to, False), self._region("source", source, True)
        self._ops.append(Copy("d2h", _one_size(to, source), self.number, host, card, blocking))

    def kernel(
        self,
        duration: float | str | None = None,
        name: str = "kernel",
        *,
        reads: Memory | Sequence[Memory] = (),
        writes: Memory | Sequence[Memory] = (),
        **fields: Any,
    ) -> None:
        """Launch a kernel that takes ``duration`` alone on the card, in seconds or as text.

        Without a duration, the device's table gives the time of the kernel ``name`` for its ``elements`` and
        ``parameter``. ``reads`` and ``writes``: the device memory that the kernel uses. ``fields``: other fields of
        :class:`Kernel`.
        """
        seconds = None if duration is None else _read(parse_seconds, duration, "duration")
        fields |= {"reads": self._touched("reads", reads), "writes": self._touched("writes", writes)}
        self._ops.append(Kernel(self.number, name, duration_s=seconds, **fields))

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

    def _region(self, field: str, memory: Side, is_on_card: bool) -> Region | None:
        """Return the bytes of ``memory``, or None for a size. Raises InputError for memory that cannot be used here."""
        if not isinstance(memory, Memory):
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
        return self.buffer(name, size, "device")

    def pinned(self, name: str, size: int | str) -> Memory:
        """Return a new buffer in pinned (page-locked) host memory; see :meth:`device`."""
        return self.buffer(name, size, "pinned")

    def pageable(self, name: str, size: int | str) -> Memory:
        """Return a new buffer in pageable host memory; see :meth:`device`."""
        return self.buffer(name, size, "pageable")

    def buffer(self, name: str, size: int | str, kind: MemoryKind) -> Memory:
        """Return a new buffer in memory of a ``kind``; see :meth:`device`."""
        buffer = Buffer(name, _read(parse_bytes, size, f"size of {name}"), kind)
        if name in self._buffers:
            raise InputError(f"name = {name!r}: another buffer has this name; rename one")
        self._buffers[name] = buffer
        return Memory(self, Region(name, 0, buffer.bytes), kind)

    def synchronize(self) -> None:
        """Let the host wait for the whole device."""
        self._ops.append(Synchronize())

    def host_work(self, duration: float | str, name: str = "") -> None:
        """Let the host do other work before its next call, for seconds or text such as ``"3ms"``."""
        self._ops.append(HostWork(_read(parse_seconds, duration, "duration"), name))

    def schedule(self, name: str = "", *, launch: Launch = "live", unchunked: Schedule | None = None) -> Schedule:
        """Return the ops so far as a schedule; the arguments are fields of :class:`Schedule`.

        Raises InputError if there are no ops, and for ``launch="graph"`` if the program cannot be captured.
        """
        buffers = tuple(self._buffers.values())
        return Schedule(tuple(self._ops), tuple(self._kinds), buffers, self._events, launch, name, unchunked)

    def __repr__(self) -> str:
        return f"Program({len(self._ops)} ops, {len(self._kinds)} streams, {len(self._buffers)} buffers)"


def _read(parse: Callable[[str, str], Number], value: Number | str, field: str) -> Number:
    return parse(value, field) if isinstance(value, str) else value


def _no_memory(field: str, given: object) -> NoReturn:
    raise InputError(f"{field} = {shown(given)}: expected memory, as Program.device() and Program.pinned() give it")


def _one_size(to: Side, source: Side) -> int:
    """Return the bytes of a copy: the given size, or the size of its memory."""
    sizes = [
        side.bytes if isinstance(side, Memory) else _read(parse_bytes, side, "size")
        for side in (to, source)
        if side is not None
    ]
    if not sizes or sizes[0] != sizes[-1]:
        raise InputError(f"to = {shown(to)}, source = {shown(source)}: a copy needs one size, such as 64MiB")
    return sizes[0]


# Pipelines: workloads cut into chunks and issued by a loop.
#
# Copies name their buffers, so that a schedule can be checked for races and replayed with its output verified. Host and
# device arrays hold the whole workload, unless chunks use buffers in turn. Arrays that are copied once go in before the
# first chunk, in the loop's first stream, for which the other streams wait. They go back after the last chunk.

T = TypeVar("T")
HOST_WORK = "host work"  # before a chunk
Piece = tuple[Region, Region]  # of an array: on the card, and on the host


class _ChunkedProgram:
    """The program of a workload, while it is issued: what each chunk copies and runs, and which events are recorded."""

    def __init__(self, workload: Workload, loop: ChunkLoop, turns: Turns, is_pageable: bool, is_blocking: bool) -> None:
        self.program, self._loop, self._turns, self._is_blocking = Program(), loop, turns, is_blocking
        self._memory: MemoryKind = "pageable" if is_pageable else "pinned"
        cut = workload.in_chunks(turns.chunks)
        self._parts = cut.cut(turns.chunks)
        inputs = self._arrays("in", [part.inputs for part in self._parts], turns.slots)
        outputs = self._arrays("out", [part.outputs for part in self._parts], turns.slots)
        self._once_in = _whole("once_in", workload.h2d_once)
        for k, n in enumerate(workload.h2d_once):
            self._array(f"once_in{k}", [n])
        sums = self._arrays("once_out", [part.d2h_once for part in self._parts])
        self._once_out = _whole("once_out", workload.d2h_once)
        self._host_s = self._each([workload.host_s(part) for part in self._parts])
        self._launches = self._each([list(cut.kernels_of(part)) for part in self._parts])
        self._into, self._back = self._pieces(inputs), self._pieces(outputs)
        # Without an output array, kernels write the last input.
        self._written = self._pieces([*outputs, *sums] or inputs[-1:])
        self._recorded: set[int] = set()

    def _each(self, values: Sequence[T]) -> list[T]:
        """Return the value of each chunk's part, chunk by chunk."""
        return [value for value, part in zip(values, self._parts, strict=True) for _ in range(part.many)]

    def _arrays(
        self, prefix: str, sizes: Sequence[tuple[int, ...]], slots: int | None = None
    ) -> list[list[Piece | None]]:
        """Declare the arrays of which each part has these bytes."""
        columns = zip(*self._each(sizes), strict=True)
        return [self._array(f"{prefix}{k}", column, slots) for k, column in enumerate(columns)]

    def _array(self, name: str, sizes: Sequence[int], slots: int | None = None) -> list[Piece | None]:
        """Declare an array whose chunks have these bytes, and return the piece of each chunk.

        ``slots``: the chunks that the card holds at a time, in buffers of their own; None: all, in one buffer.
        """
        starts = [*accumulate(sizes, initial=0)]
        self.program.buffer(f"h_{name}", starts[-1], self._memory)
        if slots is None:
            self.program.device(f"d_{name}", starts[-1])
            places = [(f"d_{name}", start) for start in starts]
        else:
            for slot in range(slots):
                self.program.device(f"d_{name}_{slot}", max(sizes))
            places = [(f"d_{name}_{i % slots}", 0) for i in range(len(sizes))]
        return [
            (Region(*place, size), Region(f"h_{name}", start, size)) if size else None
            for place, start, size in zip(places, starts, sizes, strict=False)
        ]

    def _pieces(self, arrays: Sequence[list[Piece | None]]) -> list[list[Piece]]:
        """Return the pieces of each chunk."""
        return [[piece for array in arrays if (piece := array[i])] for i in range(self._turns.chunks)]

    def issue(self) -> None:
        """Issue the program: what is copied once, and all passes over the chunks. At its end the host waits for all."""
        loop, turns, chunks, behind = self._loop, self._turns, self._turns.chunks, self._turns.ahead
        streams = [self.program.stream().number for _ in loop.roles or range(turns.streams)]
        first, *others = streams[:chunks]
        recorded = (turns.recorded(step) for step in loop.steps if isinstance(step, RecordStep))
        self.program._events = max(recorded, default=0) * len(loop.events)
        self._copy_in_once(first, [] if loop.roles else others)
        for bodies in loop.passes:
            for i in range(chunks + behind * any(body.follows for body in bodies)):
                for body in bodies:
                    chunk = i - behind if body.follows else i
                    if 0 <= chunk < chunks and (self._back[chunk] or not body.needs_output):
                        self._issue_body(body.steps, chunk)
        if loop.ends:
            first, *others = [streams[k] for k in loop.ends]
        self._copy_out_once(first, others)
        self.program.synchronize()

    def _issue_body(self, steps: Sequence[Step], chunk: int) -> None:
        ops, turns = self.program._ops, self._turns
        for step in steps:
            if isinstance(step, Prepare):
                if self._host_s[chunk]:
                    self.program.host_work(self._host_s[chunk], HOST_WORK)
                continue
            stream = 1 + (chunk % turns.streams if step.stream == TURN else step.stream)
            if isinstance(step, Issue):
                ops += self._stage(step.stage, chunk, stream)
            elif isinstance(step, RecordStep):
                if chunk < turns.recorded(step):
                    event = self._event(step.event, chunk)
                    ops.append(RecordEvent(event, stream))
                    self._recorded.add(event)
            else:
                event = self._event(step.event, chunk - turns.distance(step.before))
                if event in self._recorded:
                    ops.append(WaitEvent(event, stream))

    def _event(self, name: str, chunk: int) -> int:
        """Return the number of a chunk's event; negative before the first chunk."""
        return chunk * len(self._loop.events) + self._loop.events.index(name)

    def _stage(self, stage: Stage, chunk: int, stream: int) -> list[Op]:
        if stage != "run":
            is_in = stage == "copy in"
            return self._copies("h2d" if is_in else "d2h", (self._into if is_in else self._back)[chunk], stream)
        reads = tuple([card for card, _ in (*self._into[chunk], *self._once_in)])
        writes = tuple([card for card, _ in self._written[chunk]])
        kernels = [(replace(op, stream=stream, reads=reads, writes=writes), n) for op, n in self._launches[chunk]]
        return [op for kernel, launches in kernels for op in [kernel] * launches]

    def _copies(self, direction: Direction, pieces: Sequence[Piece], stream: int) -> list[Op]:
        return [Copy(direction, card.bytes, stream, host, card, self._is_blocking) for card, host in pieces]

    def _copy_in_once(self, first: int, others: Sequence[int]) -> None:
        """Copy the arrays of ``h2d_once`` to the card in the first stream, and let the other streams wait for them."""
        self.program._ops += self._copies("h2d", self._once_in, first)
        if others and (self._once_in or self._once_out):  # the events of the last copies have later numbers
            loaded = self.program.event().number
            if self._once_in:
                self.program._ops += [RecordEvent(loaded, first), *(WaitEvent(loaded, stream) for stream in others)]

    def _copy_out_once(self, first: int, others: Sequence[int]) -> None:
        """Let the first stream wait for the others, and copy the arrays of ``d2h_once`` back."""
        for stream in others if self._once_out else ():
            event = self.program.event().number
            self.program._ops += [RecordEvent(event, stream), WaitEvent(event, first)]
        self.program._ops += self._copies("d2h", self._once_out, first)


def _whole(prefix: str, sizes: Sequence[int]) -> list[Piece]:
    """Return whole arrays, which have these bytes."""
    return [(Region(f"d_{prefix}{k}", 0, n), Region(f"h_{prefix}{k}", 0, n)) for k, n in enumerate(sizes)]


@collector_off()  # nothing that is made here becomes garbage before the end
def program_of(workload: Workload, loop: ChunkLoop, turns: Turns, is_pageable: bool, is_blocking: bool) -> Program:
    """Return the program of a workload, cut and issued by ``loop``; at its end the host waits for the card."""
    pipeline = _ChunkedProgram(workload, loop, turns, is_pageable, is_blocking)
    pipeline.issue()
    return pipeline.program
