"""Measured time lines: as a record keeps them, and as a :class:`~streamsim.timeline.timeline.Timeline`."""

from array import array
from typing import NamedTuple

import msgspec

from streamsim.checks import LONGEST_S
from streamsim.errors import InputError
from streamsim.program import Copy, Kernel, Op, Schedule
from streamsim.timeline import Timeline

ENGINES = ("h2d", "d2h", "compute")
H2D, D2H, COMPUTE = range(3)
NOTHING = -1  # the engine of ops that occupy none
LONGEST_NS = round(LONGEST_S * 1e9)


class Spans(msgspec.Struct, frozen=True):
    """A measured time line: the start and the end of each copy and kernel of a schedule, in issue order.

    Nanoseconds on the card's clock since the first start. The profiler saw them in a run of its own. Tracing slows the
    host, so they show order, engines, gaps and durations, and not the time of the whole.
    """

    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.start_ns) != len(self.end_ns):
            raise InputError("timeline: start_ns and end_ns have different numbers of ops")
        times = (*self.start_ns, *self.end_ns)
        if times and not 0 <= min(times) <= max(times) <= LONGEST_NS:
            raise InputError(f"timeline: expected times from 0 to {LONGEST_NS} ns")


def spans_of(timeline: Timeline) -> Spans:
    """Return a measured time line as a record keeps it."""
    ran = [op for op, engine in enumerate(timeline.engine) if engine != NOTHING]
    return Spans(tuple(timeline.start[op] for op in ran), tuple(timeline.end[op] for op in ran))


def timeline_of(schedule: Schedule, spans: Spans) -> Timeline:
    """Return the measured time line of ``schedule`` from a record. Raises InputError if it is another schedule's."""
    columns = MeasuredColumns(schedule, 0)
    ran = [(index, *engine_of(op)) for index, op in enumerate(schedule.ops) if engine_of(op)[0] != NOTHING]
    if len(ran) != len(spans.start_ns):
        raise InputError(f"timeline: has {len(spans.start_ns)} ops where the schedule has {len(ran)}; trace it again")
    for (index, engine, size), start_ns, end_ns in zip(ran, spans.start_ns, spans.end_ns, strict=True):
        columns.put(index, Activity(engine, start_ns, end_ns, size, 0))
    return columns.timeline()


class Activity(NamedTuple):
    """A copy or kernel that ran: its engine, the card's times in ns, bytes (0 for a kernel) and CUPTI's stream."""

    engine: int
    start_ns: int
    end_ns: int
    bytes: int
    stream: int


def engine_of(op: Op) -> tuple[int, int]:
    """Return (engine, bytes) that an op occupies."""
    if isinstance(op, Copy):
        return (H2D if op.direction == "h2d" else D2H), op.bytes
    return (COMPUTE, 0) if isinstance(op, Kernel) else (NOTHING, 0)


class MeasuredColumns:
    """The columns of a measured time line, filled op by op. ``zero_ns``: its time 0 on the card's clock."""

    def __init__(self, schedule: Schedule, zero_ns: int) -> None:
        self._schedule = schedule
        self._zero = zero_ns
        n = len(schedule.ops)
        self._engine, self._start, self._end = (array("q", [NOTHING]) * n for _ in range(3))

    def put(self, op: int, activity: Activity) -> None:
        """Enter the activity of op number ``op``. Raises InputError if it is another op's."""
        engine, size = engine_of(self._schedule.ops[op])
        if (engine, size) != (activity.engine, activity.bytes):
            raise InputError(f"the profiler has seen another op than ops[{op}]: no measured time line; try again")
        self._engine[op] = engine
        self._start[op], self._end[op] = activity.start_ns - self._zero, activity.end_ns - self._zero

    def timeline(self) -> Timeline:
        """Return the time line. An op that was not entered ran on no engine."""
        unknown = array("q", [NOTHING]) * len(self._schedule.ops)
        return Timeline(self._schedule, ENGINES, self._engine, unknown, unknown, unknown, self._start, self._end)
