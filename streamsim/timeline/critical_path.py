"""The critical path of a time line: the chain of ops that sets its makespan."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Literal

import msgspec

from streamsim.checks import check_is
from streamsim.errors import InputError
from streamsim.lowering import NO_OP, NO_SEGMENT, Lowered, lower
from streamsim.rules import release_tick
from streamsim.timeline.timeline import Timeline

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
    return critical_path_of(timeline, lower(timeline.schedule, timeline.device))


def critical_path_of(timeline: Timeline, lowered: Lowered) -> list[PathStep]:
    """Return the :func:`critical_path` of a time line whose schedule is already lowered for its device."""
    return _CriticalPath(timeline, lowered).steps()


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
