"""What the tests of laws ask of schedules and time lines."""

import oracle
import strategies as card

from streamsim.program import Kernel, Schedule
from streamsim.timeline import Timeline

# Three kernels that could fill the card, and one of a quarter of its threads: see card.COST.
DRAINING = card.plan(*(Kernel(1 + i, "table", n, 7) for i, n in enumerate((16, 24, 16, 4))))


def makespan(timeline: Timeline) -> int:
    """In ticks."""
    return max((end for end, engine in zip(timeline.end, timeline.engine, strict=True) if engine >= 0), default=0)


def works(schedule: Schedule) -> list[int]:
    """Indices of the copies and kernels."""
    return [i for i, op in enumerate(schedule.ops) if oracle.is_work(op)]
