"""A program written as with CuPy or CUDA: handles for streams, events and memory in place of numbers and names.

    p = Program()
    x, h = p.device("x", "64MiB"), p.pinned("x.host", "64MiB")
    load, work = p.stream(), p.stream()
    load.copy_in(x, h)
    loaded = load.record()
    work.wait(loaded)
    work.kernel("0.57ms", writes=x)
    p.synchronize()
    schedule = p.schedule()

Every call appends one op to the program; :meth:`Program.schedule` gives what has been issued so far as a
:class:`Schedule`, which checks what only the whole can tell. All that a schedule can say can be said so. Sizes are
numbers of bytes or text such as ``"64MiB"``, times seconds or text such as ``"0.57ms"``. Handles know their program:
to use one in another program is an InputError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.errors import InputError
from streamsim.program.schedule import (
    LEGACY_STREAM,
    Buffer,
    Copy,
    Kernel,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
)
from streamsim.text.quantities import parse_bytes, parse_count, parse_seconds, parse_share
from streamsim.text.shown import LONGEST_REPR, one_line, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamsim.program.schedule import Direction, Launch, Op, StreamKind
    from streamsim.program.schedule import Memory as MemoryKind

ON_CARD = "device"


class Memory:
    """Bytes of a buffer of a program: all of them, or those of a slice, ``x[0:1024]`` or ``x["1MiB":]``."""

    __slots__ = ("_program", "kind", "region")

    def __init__(self, program: Program, region: Region, kind: MemoryKind) -> None:
        self._program = program
        self.region = region
        self.kind = kind

    @property
    def bytes(self) -> int:
        """How many they are."""
        return self.region.bytes

    def __getitem__(self, wanted: slice) -> Memory:
        """The bytes ``start .. stop`` of these. Raises InputError for a step and beyond the ends."""
        region = self.region
        if not isinstance(wanted, slice) or wanted.step is not None:
            raise InputError(f"{region.buffer}[{shown(wanted)}]: expected a slice of bytes without a step, as x[0:1024]")
        start, stop = _bytes(wanted.start, 0), _bytes(wanted.stop, region.bytes)
        if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= region.bytes:
            raise InputError(
                f"{region.buffer}[{shown(wanted.start)}:{shown(wanted.stop)}]: expected whole numbers of bytes, the"
                f" smaller first, from 0 to {region.bytes}"
            )
        return Memory(self._program, Region(region.buffer, region.offset + start, stop - start), self.kind)

    def __repr__(self) -> str:
        region = self.region
        return one_line(f"{region.buffer}[{region.offset}:{region.offset + region.bytes}] ({self.kind})", LONGEST_REPR)


class Event:
    """An event of a program: :meth:`Stream.record` makes and records one, :meth:`Stream.wait` waits for it."""

    __slots__ = ("_program", "number")

    def __init__(self, program: Program, number: int) -> None:
        self._program = program
        self.number = number

    def synchronize(self) -> None:
        """The host waits for the event's latest record."""
        self._program._ops.append(Synchronize(event=self.number))

    def __repr__(self) -> str:
        return f"event {self.number}"


class Stream:
    """A stream of a program. Each method issues one op into it."""

    __slots__ = ("_ops", "_program", "kind", "number")

    def __init__(self, program: Program, number: int, kind: StreamKind) -> None:
        self._program = program
        self._ops = program._ops
        self.number = number
        self.kind = kind

    def copy_in(
        self, to: Memory | int | str | None = None, source: Memory | None = None, *, blocking: bool = False
    ) -> None:
        """Copy to the card: ``to`` device memory from ``source`` on the host, as many bytes as they are.

        Where one of them is not given, or ``to`` is a size, the copy touches memory of its own there. ``blocking``
        holds the host until it is done. Raises InputError when the two differ in size or lie on the wrong side.
        """
        self._copy("h2d", to, source, blocking)

    def copy_out(
        self, to: Memory | int | str | None = None, source: Memory | None = None, *, blocking: bool = False
    ) -> None:
        """Copy from the card: ``to`` host memory from ``source`` on the device; the rest as for :meth:`copy_in`."""
        self._copy("d2h", to, source, blocking)

    def _copy(
        self, direction: Direction, to: Memory | int | str | None, source: Memory | None, blocking: bool
    ) -> None:
        there = self._region("to", to, direction == "h2d") if isinstance(to, Memory) else None
        here = None if source is None else self._region("source", source, direction == "d2h")
        named = there or here
        size = _bytes(to, 0) if there is None and to is not None else named.bytes if named is not None else None
        if size is None:
            raise InputError("to = None: a copy needs memory or a size, such as 64MiB")
        host, device = (here, there) if direction == "h2d" else (there, here)
        self._ops.append(Copy(direction, size, self.number, host, device, blocking))

    def kernel(
        self,
        duration: float | str | None = None,
        name: str = "kernel",
        *,
        elements: int | str = 0,
        parameter: int = 0,
        fill: float | str | None = None,
        reads: Memory | Iterable[Memory] = (),
        writes: Memory | Iterable[Memory] = (),
        threads: int | str = 0,
        share: float | str = 1.0,
        parts: Iterable[tuple[float | str, float | str]] = (),
    ) -> None:
        """Launch a kernel that takes ``duration`` alone on the card, in seconds or as text.

        Without a duration the device's table says what the kernel of that ``name`` takes for its ``elements`` and
        ``parameter``. ``reads`` and ``writes``: the device memory that it touches. The rest as for :class:`Kernel`.
        """
        self._ops.append(
            Kernel(
                self.number,
                name,
                parse_count(elements, "elements") if isinstance(elements, str) else elements,
                parameter,
                parse_seconds(duration, "duration") if isinstance(duration, str) else duration,
                parse_share(fill, "fill") if isinstance(fill, str) else fill,
                self._regions("reads", reads),
                self._regions("writes", writes),
                parse_share(share, "share") if isinstance(share, str) else share,
                parse_count(threads, "threads") if isinstance(threads, str) else threads,
                tuple(map(_part, parts)) if parts else (),
            )
        )

    def record(self, event: Event | None = None) -> Event:
        """Record ``event``, a new one unless it is given: it completes when all before it in the stream has."""
        event = self._program.event() if event is None else self._own(event)
        self._ops.append(RecordEvent(event.number, self.number))
        return event

    def wait(self, event: Event) -> None:
        """What comes later in the stream waits for the event's latest record before this call, if there is one."""
        self._ops.append(WaitEvent(self._own(event).number, self.number))

    def synchronize(self) -> None:
        """The host waits for the stream."""
        self._ops.append(Synchronize(stream=self.number))

    def _own(self, event: Event) -> Event:
        if not isinstance(event, Event):
            raise InputError(f"event = {shown(event)}: expected an event, as record() gives it")
        if event._program is not self._program:
            raise InputError(f"{event}: of another program; record one in a stream of this program")
        return event

    def _region(self, field: str, memory: Memory, is_on_card: bool) -> Region:
        if not isinstance(memory, Memory):
            raise InputError(f"{field} = {shown(memory)}: expected memory, as Program.device() and pinned() give it")
        if memory._program is not self._program:
            raise InputError(f"{field} = {memory}: of another program; declare it in this program")
        if (memory.kind == ON_CARD) is not is_on_card:
            raise InputError(f"{field} = {memory}: expected {'device' if is_on_card else 'pinned or pageable'} memory")
        return memory.region

    def _regions(self, field: str, memory: Memory | Iterable[Memory]) -> tuple[Region, ...]:
        if isinstance(memory, Memory):
            return (self._region(field, memory, True),)
        return tuple([self._region(field, one, True) for one in memory]) if memory else ()

    def __repr__(self) -> str:
        return f"stream {self.number} ({self.kind if self.number else 'legacy default'})"


class Program:
    """A program as the host issues it, op by op; see above."""

    def __init__(self) -> None:
        self._ops: list[Op] = []
        self._kinds: list[StreamKind] = []
        self._buffers: dict[str, Buffer] = {}
        self._events = 0

    def stream(self, *, blocking: bool = False) -> Stream:
        """A new stream, non-blocking unless it is said: a ``blocking`` one synchronises with the legacy stream."""
        kind: StreamKind = "blocking" if blocking else "non-blocking"
        self._kinds.append(kind)
        return Stream(self, len(self._kinds), kind)

    @property
    def legacy_stream(self) -> Stream:
        """CUDA's legacy default stream, stream 0."""
        return Stream(self, LEGACY_STREAM, "blocking")

    def event(self) -> Event:
        """A new event, not yet recorded. Mostly :meth:`Stream.record` makes it."""
        self._events += 1
        return Event(self, self._events - 1)

    def device(self, name: str, size: int | str) -> Memory:
        """A new buffer of ``size`` on the card. Raises InputError for a name that another buffer has."""
        return self._buffer(name, size, "device")

    def pinned(self, name: str, size: int | str) -> Memory:
        """A new buffer in pinned (page-locked) host memory; the rest as for :meth:`device`."""
        return self._buffer(name, size, "pinned")

    def pageable(self, name: str, size: int | str) -> Memory:
        """A new buffer in pageable host memory; the rest as for :meth:`device`."""
        return self._buffer(name, size, "pageable")

    def _buffer(self, name: str, size: int | str, kind: MemoryKind) -> Memory:
        buffer = Buffer(name, parse_bytes(size, f"size of {name}") if isinstance(size, str) else size, kind)
        if name in self._buffers:
            raise InputError(f"name = {name!r}: another buffer has this name; rename one")
        self._buffers[name] = buffer
        return Memory(self, Region(name, 0, buffer.bytes), kind)

    def synchronize(self) -> None:
        """The host waits for the whole device."""
        self._ops.append(Synchronize())

    def schedule(self, name: str = "", *, launch: Launch = "live", unchunked: Schedule | None = None) -> Schedule:
        """What has been issued so far, as a value; the arguments as for :class:`Schedule`.

        Raises InputError when nothing has been issued, and for ``launch="graph"`` when it cannot be captured.
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


def _bytes(size: int | str | None, default: int) -> int:
    if isinstance(size, str):
        return parse_bytes(size, "size", least=0)
    return default if size is None else size


def _part(part: tuple[float | str, float | str]) -> tuple[float, float]:
    share, seconds = part
    return (
        parse_share(share, "part") if isinstance(share, str) else share,
        parse_seconds(seconds, "part") if isinstance(seconds, str) else seconds,
    )
