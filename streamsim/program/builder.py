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
``"64MiB"``. Times are seconds or text such as ``"0.57ms"``. Memory is a :class:`Region` of a buffer. Use it, and an
event, only in the program that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from streamsim.errors import InputError, shown
from streamsim.program import schedule as calls
from streamsim.program.schedule import Region, Schedule
from streamsim.text import parse_bytes, parse_seconds

Number = TypeVar("Number", int, float)
Side = Region | int | str | None  # of a copy: memory, or the size of memory that no other op uses


@dataclass(frozen=True, eq=False)
class Event:
    """An event of a program: :meth:`Stream.record` makes and records one, :meth:`Stream.wait` waits for it."""

    _program: Program
    number: int

    def synchronize(self) -> None:
        """Let the host wait for the event's latest record."""
        self._program._ops.append(calls.Synchronize(event=self.number))


@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """A stream of a program. Each method issues one op. Raises InputError naming the field that is wrong."""

    _program: Program
    number: int

    def copy_in(self, to: Side = None, source: Side = None, *, blocking: bool = False) -> None:
        """Copy to the device memory ``to`` from the host memory ``source``.

        A side may be a size or None. It is then memory that no other op uses, pinned on the host. ``blocking``: the
        host waits until the copy is done. Raises InputError if the sides differ in size.
        """
        self._copy("h2d", to, source, blocking)

    def copy_out(self, to: Side = None, source: Side = None, *, blocking: bool = False) -> None:
        """Copy to the host memory ``to`` from the device memory ``source``; see :meth:`copy_in`."""
        self._copy("d2h", to, source, blocking)

    def _copy(self, direction: calls.Direction, to: Side, source: Side, blocking: bool) -> None:
        sides = [side for side in (to, source) if side is not None]
        sizes = {side.bytes if isinstance(side, Region) else _read(parse_bytes, side, "size") for side in sides}
        if len(sizes) != 1:
            raise InputError(f"to, source = {shown(to)}, {shown(source)}: a copy needs one size, such as 64MiB")
        host, card = (source, to) if direction == "h2d" else (to, source)
        on_host, on_card = (None if isinstance(side, int | str) else side for side in (host, card))
        self.issue(calls.Copy(direction, sizes.pop(), self.number, on_host, on_card, blocking))

    def kernel(
        self,
        duration: float | str | None = None,
        name: str = "kernel",
        *,
        reads: Region | Sequence[Region] = (),
        writes: Region | Sequence[Region] = (),
        **fields: Any,
    ) -> None:
        """Launch a kernel that takes ``duration`` alone on the card, in seconds or as text.

        Without a duration, the device's table gives the time of the kernel ``name`` for its ``elements`` and
        ``parameter``. ``reads`` and ``writes``: the device memory that the kernel uses. ``fields``: other fields of
        :class:`Kernel`.
        """
        seconds = None if duration is None else _read(parse_seconds, duration, "duration")
        for field, used in (("reads", reads), ("writes", writes)):
            fields[field] = tuple(used) if isinstance(used, list | tuple) else (used,)
        self.issue(calls.Kernel(self.number, name, duration_s=seconds, **fields))

    def record(self, event: Event | None = None) -> Event:
        """Record ``event`` (default: a new one), which completes when all earlier ops of the stream have. Return it."""
        event = self._program.event() if event is None else event
        self.issue(calls.RecordEvent(self._number_of(event), self.number))
        return event

    def wait(self, event: Event) -> None:
        """Let later ops of the stream wait for the event's latest record before this call, if there is one."""
        self.issue(calls.WaitEvent(self._number_of(event), self.number))

    def synchronize(self) -> None:
        """Let the host wait for the stream."""
        self.issue(calls.Synchronize(stream=self.number))

    def issue(self, op: calls.Op) -> None:
        """Append an op, which names this stream, to the program."""
        self._program._ops.append(op)

    def _number_of(self, event: Event) -> int:
        if not isinstance(event, Event) or event._program is not self._program:
            raise InputError(f"event = {shown(event)}: expected an event, as record() gives it in this program")
        return event.number


class Program:
    """A program that the host issues op by op; see the top of this module."""

    def __init__(self) -> None:
        self._ops: list[calls.Op] = []
        self._kinds: list[calls.StreamKind] = []
        self._buffers: list[calls.Buffer] = []
        self._events = 0

    def stream(self, *, blocking: bool = False) -> Stream:
        """Return a new stream, non-blocking by default. A ``blocking`` stream synchronises with the legacy stream."""
        self._kinds.append("blocking" if blocking else "non-blocking")
        return Stream(self, len(self._kinds))

    @property
    def legacy_stream(self) -> Stream:
        """CUDA's legacy default stream, stream 0."""
        return Stream(self, calls.LEGACY_STREAM)

    def event(self) -> Event:
        """Return a new event, not yet recorded. :meth:`Stream.record` makes one, too."""
        self._events += 1
        return Event(self, self._events - 1)

    def device(self, name: str, size: int | str) -> Region:
        """Return a new buffer of ``size`` on the card. Two buffers of a program need two names."""
        return self.buffer(name, size, "device")

    def pinned(self, name: str, size: int | str) -> Region:
        """Return a new buffer in pinned (page-locked) host memory; see :meth:`device`."""
        return self.buffer(name, size, "pinned")

    def pageable(self, name: str, size: int | str) -> Region:
        """Return a new buffer in pageable host memory; see :meth:`device`."""
        return self.buffer(name, size, "pageable")

    def buffer(self, name: str, size: int | str, kind: calls.MemoryKind) -> Region:
        """Return a new buffer in memory of a ``kind``; see :meth:`device`."""
        buffer = calls.Buffer(name, _read(parse_bytes, size, f"size of {name}"), kind)
        self._buffers.append(buffer)
        return Region(name, 0, buffer.bytes)

    def synchronize(self) -> None:
        """Let the host wait for the whole device."""
        self._ops.append(calls.Synchronize())

    def host_work(self, duration: float | str, name: str = "") -> None:
        """Let the host do other work before its next call, for seconds or text such as ``"3ms"``."""
        self._ops.append(calls.HostWork(_read(parse_seconds, duration, "duration"), name))

    def schedule(self, name: str = "", *, launch: calls.Launch = "live", unchunked: Schedule | None = None) -> Schedule:
        """Return the ops so far as a schedule; the arguments are fields of :class:`Schedule`.

        Raises InputError if there are no ops, and for ``launch="graph"`` if the program cannot be captured.
        """
        kinds, buffers = tuple(self._kinds), tuple(self._buffers)
        return Schedule(tuple(self._ops), kinds, buffers, self._events, launch, name, unchunked)


def _read(parse: Callable[[str, str], Number], value: Number | str, field: str) -> Number:
    return parse(value, field) if isinstance(value, str) else value
