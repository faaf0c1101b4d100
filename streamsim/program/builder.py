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
from itertools import accumulate
from typing import Any, NoReturn

import msgspec

from streamsim.errors import InputError
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
