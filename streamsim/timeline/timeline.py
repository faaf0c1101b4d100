"""Time lines: the times of every op of a schedule, from a simulation or from a measured run."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import msgspec

from streamsim.device import Device, known_within
from streamsim.displayed import Displayed
from streamsim.program import (
    Copy,
    HostOp,
    HostWork,
    Kernel,
    Op,
    RecordedTimes,
    RecordEvent,
    Schedule,
    Synchronize,
    WaitEvent,
    WaitThread,
)
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_seconds, short


class Span(msgspec.Struct, frozen=True):
    """The times of one op, in seconds from the host's first call.

    - ``op``: its index in the schedule; ``label``: a word for it, such as "H2D".
    - ``engine``: the engine's name, or None for an event or host call.
    - ``issued_s``, ``returned_s``: the host's call began and returned.
    - ``ready_s``: the card had the op, and its dependences were done.
    - ``start_s``, ``end_s``: the op occupied its engine from start to end.
    """

    op: int
    label: str
    engine: str | None
    stream: int | None
    issued_s: float
    returned_s: float
    ready_s: float
    start_s: float
    end_s: float


class Track(msgspec.Struct, frozen=True):
    """Recorded spans that belong to no op, such as moves of unified memory's pages, in ticks, one after the other."""

    name: str
    start: array[int]
    end: array[int]

    @property
    def busy_s(self) -> float:
        """Seconds of all spans together."""
        return (sum(self.end) - sum(self.start)) / TICKS_PER_S


class Timeline(Displayed, msgspec.Struct, frozen=True, eq=False):
    """The times of every op of a schedule, in whole ticks (nanoseconds) from the host's first call.

    Iteration and ``spans`` give a :class:`Span`, in seconds, for each op. The columns are arrays of int64, 41 bytes an
    op together, with one entry for each op of ``schedule.ops``. A time that does not exist or is unknown is -1.

    - ``engine``: index in ``engine_names``; -1 for an event or host call.
    - ``issued``, ``returned``: the host's call began and returned.
    - ``ready``: the card had the op, and its dependences were done; -1 in a measured time line.
    - ``start``, ``end``: the op occupied its engine from start to end.

    ``device``: the device of the prediction; None for a measured time line. ``tracks``: recorded spans beside those of
    the ops, up to the makespan.
    """

    schedule: Schedule
    engine_names: tuple[str, ...]
    engine: array[int]
    issued: array[int]
    returned: array[int]
    ready: array[int]
    start: array[int]
    end: array[int]
    device: Device | None = None
    tracks: tuple[Track, ...] = ()

    def __len__(self) -> int:
        return len(self.schedule.ops)

    def __repr__(self) -> str:
        where = "" if self.device is None else f" on {self.device.name}"
        took = format_seconds(self.makespan_s, self.known_within)
        return short(f"Timeline({len(self)} ops, {took}{where})")

    @property
    def known_within(self) -> float:
        """The relative error of the times if the profile's latencies are assumed: 0.10 is 10 %; else 0."""
        return known_within(self.device)

    @property
    def makespan_s(self) -> float:
        """Seconds from the host's first call until the last op on the card has ended (0 if there is none)."""
        return (
            max((end for end, engine in zip(self.end, self.engine, strict=True) if engine >= 0), default=0)
            / TICKS_PER_S
        )

    @property
    def host_s(self) -> float:
        """Seconds from the host's first call until its last call has returned."""
        return max(self.returned) / TICKS_PER_S

    @property
    def calls_return_s(self) -> float:
        """Seconds until the host has issued everything: the time measured without a wait for the card at the end."""
        return max(0, self.launched) / TICKS_PER_S

    @property
    def launched(self) -> int:
        """The tick at which the calls that issue work have returned, or a graph's launch has handed over all its nodes.

        0 or less: they took no time, or the time is unknown.
        """
        handed = (t for t, op in zip(self.returned, self.schedule.ops, strict=True) if not isinstance(op, HostOp))
        return max(handed, default=0)

    @property
    def spans(self) -> list[Span]:
        """The :class:`Span` of each op, in issue order."""
        return list(self)

    def __iter__(self) -> Iterator[Span]:
        names = (*self.engine_names, None)  # index -1: no engine
        for i, op in enumerate(self.schedule.ops):
            times = (
                column[i] / TICKS_PER_S for column in (self.issued, self.returned, self.ready, self.start, self.end)
            )
            yield Span(i, label(op), names[self.engine[i]], op.stream, *times)

    @property
    def busy_s(self) -> dict[str, float]:
        """Seconds that each engine was busy, by its name."""
        return {
            name: sum(end - start for start, end in self._intervals(k)) / TICKS_PER_S
            for k, name in enumerate(self.engine_names)
        }

    @property
    def utilisation(self) -> dict[str, float]:
        """Busy time of each engine over the makespan, 0 to 1, by its name (0 if nothing ran)."""
        makespan_s = self.makespan_s
        return {name: busy / makespan_s if makespan_s else 0.0 for name, busy in self.busy_s.items()}

    @property
    def overlap_s(self) -> float:
        """Seconds during which at least two engines were busy."""
        edges: list[tuple[int, int]] = []
        for k in range(len(self.engine_names)):
            for start, end in self._intervals(k):
                edges += ((start, 1), (end, -1))
        edges.sort()
        overlap = busy = since = 0
        for at, change in edges:
            if busy >= 2:
                overlap += at - since
            busy, since = busy + change, at
        return overlap / TICKS_PER_S

    def _intervals(self, engine: int) -> list[tuple[int, int]]:
        """Return the merged busy intervals of an engine, (start, end) in ticks."""
        own = sorted([(s, e) for s, e, k in zip(self.start, self.end, self.engine, strict=True) if k == engine])
        merged: list[tuple[int, int]] = []
        since = until = own[0][0] if own else 0
        for start, end in own:
            if start > until:
                merged.append((since, until))
                since = start
            until = max(until, end)
        if own:
            merged.append((since, until))
        return merged


def recorded_timeline(predicted: Timeline, recorded: RecordedTimes) -> Timeline:
    """Return a measured time line: the ops of ``predicted`` on the same engines, at their ``recorded`` times."""

    def ticks(column: tuple[int, ...]) -> array[int]:
        return array("q", (max(-1, time_ns * TICKS_PER_S // 10**9) for time_ns in column))

    return Timeline(
        predicted.schedule,
        predicted.engine_names,
        predicted.engine,
        ticks(recorded.issued_ns),
        ticks(recorded.returned_ns),
        array("q", [-1]) * len(predicted),
        ticks(recorded.start_ns),
        ticks(recorded.end_ns),
        tracks=tuple(Track(track.name, ticks(track.start_ns), ticks(track.end_ns)) for track in recorded.tracks),
    )


def label(op: Op) -> str:
    """Return a word or two for an op, such as "H2D" or the kernel's name."""
    if isinstance(op, Copy):
        return "H2D" if op.direction == "h2d" else "D2H"
    if isinstance(op, Kernel):
        return op.name
    if isinstance(op, Synchronize):
        what = f"event {op.event}" if op.event is not None else "device" if op.stream is None else "stream"
        return op.name or f"synchronise {what}"
    if isinstance(op, HostWork):
        return op.name or "host work"
    if isinstance(op, WaitThread):
        return f"wait for thread {op.other}"
    return f"{type(op).__struct_config__.tag} event {op.event}"


def call_name(op: Op) -> str:
    """Return the name of the CUDA call that issues an op."""
    if isinstance(op, Synchronize):
        what = "Event" if op.event is not None else "Device" if op.stream is None else "Stream"
        return op.name or f"cuda{what}Synchronize"
    if isinstance(op, HostWork | WaitThread):
        return label(op)
    return _CALLS[type(op)]


_CALLS: dict[type[Op], str] = {
    Copy: "cudaMemcpyAsync",
    Kernel: "cudaLaunchKernel",
    RecordEvent: "cudaEventRecord",
    WaitEvent: "cudaStreamWaitEvent",
}
