"""Time lines: the times of every op of a schedule, simulated or measured, and the ops that set the makespan."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal

import msgspec

from streamsim.device import Device, known_within
from streamsim.displayed import Displayed
from streamsim.errors import InputError, check_is, short
from streamsim.lowering import NO_OP, NO_SEGMENT, Lowered, lower
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
from streamsim.rules import TICKS_PER_S, release_tick
from streamsim.text import format_seconds


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
        tracks=tuple(Track(track.name, ticks(track.start_ns), ticks(track.end_ns)) for track in recorded.lanes),
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


Because = Literal["start", "host", "stream", "event", "engine"]
WaitCause = tuple[int | None, Because]


class PathStep(msgspec.Struct, frozen=True):
    """A step of the critical path: the index of an op, and the kind of the last thing that it waited for."""

    op: int
    because: Because


def critical_path(timeline: Timeline) -> list[PathStep]:
    """Return the chain of ops, first to last, that sets the makespan. Each op waited for the op before it.

    ``because`` is the kind of the wait:

    - "engine": the engine was busy, or a blocked queue stood before the op;
    - "stream": the op before it in its stream;
    - "event": an event of another stream;
    - "host": the host's call;
    - "start": nothing, the program began with it.

    Raises InputError for a measured time line, which does not show why an op waited.
    """
    check_is("timeline", timeline, Timeline)
    if timeline.device is None:
        raise InputError("a measured time line does not say why an op waited; simulate its schedule for that")
    return _CriticalPath(timeline, lower(timeline.schedule, timeline.device)).steps()


def causes_of(timeline: Timeline, lowered: Lowered) -> list[WaitCause | None]:
    """Return, for every op, the op that it waited for last and the kind of the wait.

    An event or host call has None instead. A copy or kernel that waited only for its host call has the op None. The
    critical path follows these causes.
    """
    path = _CriticalPath(timeline, lowered)
    return [None if engine < 0 else path.cause(op) for op, engine in enumerate(timeline.engine)]


class _CriticalPath:
    def __init__(self, timeline: Timeline, lowered: Lowered) -> None:
        self.t = timeline
        self.lowered = lowered
        self._before = lowered.predecessors()
        self._ahead = _ahead_in_queue(lowered)
        drains = [cost.drain for cost in lowered.costs]
        # The tick from which an op's engine is free for others.
        self._leaves = [end - drains[cost] for end, cost in zip(timeline.end, lowered.cost, strict=True)]
        on_engine: list[list[int]] = [[] for _ in timeline.engine_names]
        for op, engine in enumerate(timeline.engine):
            if engine >= 0:
                on_engine[engine].append(op)
        for ops in on_engine:
            ops.sort(key=self._leaves.__getitem__)  # of equals, the first issued stays first
        self._on_engine = on_engine

    def steps(self) -> list[PathStep]:
        on_engine = (i for i, engine in enumerate(self.t.engine) if engine >= 0)
        op: int | None = max(on_engine, key=lambda i: (self.t.end[i], i), default=None)
        path: list[PathStep] = []
        while op is not None:
            earlier, because = self.cause(op)
            path.append(PathStep(op, because))
            op = earlier
        return path[::-1]

    def cause(self, op: int) -> WaitCause:
        """Return the op that a copy or kernel waited for last, and the kind of the wait."""
        if self.t.start[op] > self.t.ready[op]:
            ahead = self._ahead[op]
            if ahead != NO_OP and self.t.start[ahead] == self.t.start[op]:
                return ahead, "engine"  # the op ahead blocked the queue; both started side by side
            previous = self._last_that_left(op)
            if previous is not None:
                return previous, "engine"
        before = max(self._before(op), key=lambda i: self._release(i, op), default=None)
        if before is not None and self._release(before, op) >= self.t.ready[op]:
            ops = self.t.schedule.ops
            return before, "stream" if ops[before].stream == ops[op].stream else "event"
        return self._host_waited_for(op)

    def _release(self, before: int, op: int) -> int:
        arrival = self.t.issued[op] + self.lowered.call[op] + self.lowered.submit
        return release_tick(self.t.end[before], self.lowered.crossing(before, op), arrival)

    def _last_that_left(self, op: int) -> int | None:
        """Return the op that left the engine of ``op`` last, at the start of ``op`` or before."""
        ops = self._on_engine[self.t.engine[op]]
        k = bisect_right(ops, self.t.start[op], key=self._leaves.__getitem__)
        return ops[k - 1] if k else None

    def _host_waited_for(self, op: int) -> WaitCause:
        """Return the op whose end let the host continue and issue ``op``; None if the host never waited."""
        segments, returned = self.lowered.segments, self.t.returned
        thread = self.t.schedule.ops[op].thread
        k = bisect_right(segments, op, key=lambda segment: segment.last)
        while k:
            k -= 1
            segment = segments[k]
            if segment.thread != thread:
                continue
            if segment.waits_for:
                last = max(segment.waits_for, key=lambda i: (self.t.end[i], i))
                if self.t.end[last] + self.lowered.wake >= returned[segment.last - 1]:
                    return last, "host"
            if segment.behind != NO_SEGMENT:
                other = segments[segment.behind]
                if returned[other.last - 1] >= returned[segment.last - 1]:  # this thread waited for that one
                    thread, k = other.thread, segment.behind + 1
        return None, "start" if self.t.start[op] == 0 else "host"


def _ahead_in_queue(lowered: Lowered) -> array[int]:
    """Return the op ahead of each op in its hardware queue; NO_OP if there is none, or if the op stands in no queue."""
    ahead = array("i", [NO_OP]) * len(lowered.kind)
    latest: dict[tuple[int, int], int] = {}  # by engine and queue
    for op, place in enumerate(zip(lowered.engine(), lowered.queue, strict=True)):
        if op not in lowered.runs_on:
            ahead[op] = latest.get(place, NO_OP)
            latest[place] = op
    return ahead
