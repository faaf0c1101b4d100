"""Room for spans that run at the same time: each row of a picture or trace gets as many lanes as it needs."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from streamsim.timeline import Timeline

NO_LANE = -1


def lane_of_each_op(timeline: Timeline, row: Sequence[int]) -> array[int]:
    """Give every op a lane 0, 1, ... of its ``row[op]``: the first that is free at the op's start.

    Spans in one lane of a row never overlap. Ops that occupied no engine have NO_LANE.
    """
    lane_of = array("q", [NO_LANE]) * len(timeline)
    free_at: dict[int, list[int]] = {}  # for each row, when each of its lanes is free again
    on_card = (op for op, engine in enumerate(timeline.engine) if engine >= 0)
    for op in sorted(on_card, key=timeline.start.__getitem__):
        free = free_at.setdefault(row[op], [])
        start, lane = timeline.start[op], 0
        while lane < len(free) and free[lane] > start:
            lane += 1
        free[lane : lane + 1] = [timeline.end[op]]
        lane_of[op] = lane
    return lane_of
