"""When everything happened: the result of a simulation, or of a measured run of the same schedule."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from streamsim.schedule import Copy, Kernel, Op, Schedule, Synchronize

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from streamsim.model.program import Program

S_PER_TICK = 1e-9
Because = Literal["start", "host", "stream", "event", "engine"]


@dataclass(frozen=True, slots=True)
class Span:
    """One op on its engine, or (``engine`` is None) an event or host call; times in seconds.

    ``issued_s`` and ``returned_s``: the host's call began and returned. ``ready_s``: the card had the op and
    everything it depends on. ``start_s`` .. ``end_s``: it occupied its engine.
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


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the critical path: the op, and what its start waited for last."""

    op: int
    because: Because


@dataclass(frozen=True, eq=False)
class Timeline:
    """When every op of a schedule was issued, became ready, started and ended, in whole ticks (ns).

    Columns are arrays of int64 indexed like ``schedule.ops``; -1 where there is nothing (a measured
    time line has no ``ready``, an event or host call has no engine). 48 bytes an op.
    """

    schedule: Schedule
    engine_names: tuple[str, ...]
    engine: array[int]
    issued: array[int]
    returned: array[int]
    ready: array[int]
    start: array[int]
    end: array[int]
    program: Program | None = None

    def __len__(self) -> int:
        return len(self.schedule.ops)

    @property
    def makespan_s(self) -> float:
        """From the host's first call until the last op on the card has ended (0 if there is none)."""
        return (
            max((end for end, engine in zip(self.end, self.engine, strict=True) if engine >= 0), default=0) * S_PER_TICK
        )

    @property
    def host_s(self) -> float:
        """Until the host's last call has returned."""
        return max(self.returned) * S_PER_TICK

    @property
    def launched(self) -> int:
        """Tick by which the launch of a graph has handed all over; 0 or less: in no time, or not known."""
        handed = (t for t, op in zip(self.returned, self.schedule.ops, strict=True) if not isinstance(op, Synchronize))
        return max(handed, default=0)

    @property
    def spans(self) -> list[Span]:
        """One :class:`Span` for each op, in issue order."""
        return list(self)

    def __iter__(self) -> Iterator[Span]:
        names = (*self.engine_names, None)  # index -1: no engine
        for i, op in enumerate(self.schedule.ops):
            times = (
                column[i] * S_PER_TICK for column in (self.issued, self.returned, self.ready, self.start, self.end)
            )
            yield Span(i, label(op), names[self.engine[i]], op.stream, *times)

    @property
    def busy_s(self) -> dict[str, float]:
        """Seconds that each engine had something to do."""
        return {name: _length(self._intervals(k)) * S_PER_TICK for k, name in enumerate(self.engine_names)}

    @property
    def utilisation(self) -> dict[str, float]:
        """Busy time of each engine over the makespan, 0..1 (0 where nothing ran)."""
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
        return overlap * S_PER_TICK

    def _intervals(self, engine: int) -> list[tuple[int, int]]:
        """The merged busy intervals of an engine, in ticks."""
        merged: list[tuple[int, int]] = []
        for start, end in sorted(
            (s, e) for s, e, k in zip(self.start, self.end, self.engine, strict=True) if k == engine
        ):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


def _length(intervals: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in intervals)


def label(op: Op) -> str:
    """What an op is, in a word or two."""
    if isinstance(op, Copy):
        return "H2D" if op.direction == "h2d" else "D2H"
    if isinstance(op, Kernel):
        return op.name
    if isinstance(op, Synchronize):
        return "synchronise " + (
            f"event {op.event}" if op.event is not None else "device" if op.stream is None else "stream"
        )
    return f"{type(op).__struct_config__.tag} event {op.event}"


def critical_path(timeline: Timeline) -> list[Step]:
    """The chain of ops, first to last, that sets the makespan: each waited for the one before it.

    ``because`` says for what: the engine was busy (or its queue blocked), the op before it in the stream,
    an event of another stream, the host's call, or nothing (``start``). Needs a predicted time line.
    """
    return _CriticalPath(timeline).steps()


class _CriticalPath:
    def __init__(self, timeline: Timeline) -> None:
        assert timeline.program is not None, "a measured time line does not know why"
        self.t = timeline
        self.program = timeline.program
        self._before: dict[int, list[int]] = {}
        for op, after in enumerate(self.program.after):
            if after >= 0:
                self._before.setdefault(after, []).append(op)
        for op, others in self.program.also.items():
            for other in others:
                self._before.setdefault(other, []).append(op)
        self._on_engine = [
            sorted((i for i, e in enumerate(timeline.engine) if e == k), key=lambda i: (self._leaves(i), i))
            for k in range(len(timeline.engine_names))
        ]

    def steps(self) -> list[Step]:
        on_engine = (i for i, engine in enumerate(self.t.engine) if engine >= 0)
        op: int | None = max(on_engine, key=lambda i: (self.t.end[i], i), default=None)
        path: list[Step] = []
        while op is not None:
            earlier, because = self._cause(op)
            path.append(Step(op, because))
            op = earlier
        return path[::-1]

    def _cause(self, op: int) -> tuple[int | None, Because]:
        if self.t.start[op] > self.t.ready[op]:
            ahead = self._ahead(op)
            if ahead is not None and self.t.start[ahead] == self.t.start[op]:
                return ahead, "engine"  # the head that blocked its queue; they started side by side
            previous = self._last_that_left(op)
            if previous is not None:
                return previous, "engine"
        before = max(self._before.get(op, ()), key=lambda i: self._release(i, op), default=None)
        if before is not None and self._release(before, op) >= self.t.ready[op]:
            ops = self.t.schedule.ops
            return before, "stream" if ops[before].stream == ops[op].stream else "event"
        return self._host_waited_for(op)

    def _release(self, before: int, op: int) -> int:
        return self.t.end[before] + self.program.crossing(before, op)

    def _ahead(self, op: int) -> int | None:
        """The op before it in its hardware queue, if any."""
        queue, engine = self.program.queue, self.t.engine
        same = (i for i in range(op - 1, -1, -1) if engine[i] == engine[op] and queue[i] == queue[op])
        return next(same, None)

    def _leaves(self, op: int) -> int:
        """The tick from which the op's engine is free for others."""
        return self.t.end[op] - self.program.shape_of(op).drain

    def _last_that_left(self, op: int) -> int | None:
        ops = self._on_engine[self.t.engine[op]]
        k = bisect_right(ops, self.t.start[op], key=self._leaves)
        return ops[k - 1] if k else None

    def _host_waited_for(self, op: int) -> tuple[int | None, Because]:
        """The op whose end let the host go on to issue ``op``; None if the host never waited."""
        segments = self.program.segments
        for k in reversed(range(bisect_right(segments, op, key=lambda segment: segment.last))):
            segment = segments[k]
            if segment.waits_for:
                last = max(segment.waits_for, key=lambda i: (self.t.end[i], i))
                if self.t.end[last] + self.program.wake >= self.t.returned[segment.last - 1]:
                    return last, "host"
        return None, "start" if self.t.start[op] == 0 else "host"
