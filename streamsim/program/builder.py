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
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from streamsim.errors import InputError, short, shown
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
from streamsim.text import parse_bytes, parse_seconds

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


@dataclass(frozen=True, eq=False)
class Event:
    """An event of a program: :meth:`Stream.record` makes and records one, :meth:`Stream.wait` waits for it."""

    _program: Program
    number: int

    def synchronize(self) -> None:
        """Let the host wait for the event's latest record."""
        self._program._ops.append(Synchronize(event=self.number))

    def __repr__(self) -> str:
        return f"event {self.number}"


@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """A stream of a program. Each method issues one op. Raises InputError for a handle of another program."""

    _program: Program
    number: int
    kind: StreamKind

    def copy_in(self, to: Side = None, source: Side = None, *, blocking: bool = False) -> None:
        """Copy to the device memory ``to`` from the host memory ``source``.

        A side may be a size or None. It is then memory that no other op uses, pinned on the host. ``blocking``: the
        host waits until the copy is done. Raises InputError if the sides differ in size or are other kinds of memory.
        """
        card, host = self._side("to", to, True), self._side("source", source, False)
        self._issue(Copy("h2d", _one_size(to, source), self.number, host, card, blocking))

    def copy_out(self, to: Side = None, source: Side = None, *, blocking: bool = False) -> None:
        """Copy to the host memory ``to`` from the device memory ``source``; see :meth:`copy_in`."""
        host, card = self._side("to", to, False), self._side("source", source, True)
        self._issue(Copy("d2h", _one_size(to, source), self.number, host, card, blocking))

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
        for field, used in (("reads", reads), ("writes", writes)):
            some = used if isinstance(used, list | tuple) else (used,)
            fields[field] = tuple([self._region(field, memory) for memory in some])
        self._issue(Kernel(self.number, name, duration_s=seconds, **fields))

    def record(self, event: Event | None = None) -> Event:
        """Record ``event`` (default: a new one), which completes when all earlier ops of the stream have. Return it."""
        event = self._program.event() if event is None else event
        self._issue(RecordEvent(self._recorded(event), self.number))
        return event

    def wait(self, event: Event) -> None:
        """Let later ops of the stream wait for the event's latest record before this call, if there is one."""
        self._issue(WaitEvent(self._recorded(event), self.number))

    def synchronize(self) -> None:
        """Let the host wait for the stream."""
        self._issue(Synchronize(stream=self.number))

    def _issue(self, op: Op) -> None:
        self._program._ops.append(op)

    def _own(self, field: str, handle: Memory | Event) -> None:
        if handle._program is not self._program:
            raise InputError(f"{field} = {handle}: of another program; make it in this one")

    def _recorded(self, event: Event) -> int:
        if not isinstance(event, Event):
            raise InputError(f"event = {shown(event)}: expected an event, as record() gives it")
        self._own("event", event)
        return event.number

    def _side(self, field: str, side: Side, is_on_card: bool) -> Region | None:
        return None if side is None or isinstance(side, int | str) else self._region(field, side, is_on_card)

    def _region(self, field: str, memory: object, is_on_card: bool = True) -> Region:
        """Return the bytes of ``memory``. Raises InputError for what is no memory, or cannot be used here."""
        if not isinstance(memory, Memory):
            expected = "expected memory, as Program.device() and Program.pinned() give it"
            raise InputError(f"{field} = {shown(memory)}: {expected}")
        self._own(field, memory)
        if (memory.kind == "device") is not is_on_card:
            raise InputError(f"{field} = {memory}: expected {'device' if is_on_card else 'pinned or pageable'} memory")
        return memory.region


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


def _read(parse: Callable[[str, str], Number], value: Number | str, field: str) -> Number:
    return parse(value, field) if isinstance(value, str) else value


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
