"""Matching what a profiler saw to the ops of a schedule."""

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsim.errors import InputError
from streamsim.program import Copy, Kernel, Schedule, breadth_first, depth_first
from streamsim_validate.gpu.profiler import INSTALL, is_available, match
from streamsim_validate.records.record import COMPUTE, D2H, H2D, Activity
from streamsim_validate.suites import sincos

SCHEDULE = Schedule(
    (Copy("h2d", 8, 1), Kernel(1, duration_s=1e-6), Copy("d2h", 4, 2), Copy("h2d", 8, 2)), ("blocking",) * 2
)
IDS = [7, 70, 71]  # of the legacy stream, and of streams 1 and 2
SEEN = [
    Activity(H2D, 1000, 1010, 8, 70),
    Activity(COMPUTE, 1012, 1030, 0, 70),
    Activity(D2H, 1001, 1005, 4, 71),
    Activity(H2D, 1010, 1018, 8, 71),
]


def test_ops_are_matched_by_stream_in_order_whatever_the_order_of_the_records() -> None:
    for seed in range(5):
        shuffled = random.Random(seed).sample(SEEN, len(SEEN))
        timeline = match(SCHEDULE, shuffled, IDS)
        spans = [(span.engine, round(span.start_s * 1e9), round(span.end_s * 1e9)) for span in timeline]
        assert spans == [("h2d", 0, 10), ("compute", 12, 30), ("d2h", 1, 5), ("h2d", 10, 18)]
        assert timeline.makespan_s == pytest.approx(30e-9)
        assert timeline.device is None


def _run_one_by_one(schedule: Schedule, streams: bool = True) -> list[Activity]:
    activities = []
    for at, op in enumerate(schedule.ops):
        stream = op.stream or 0 if streams else at
        if isinstance(op, Copy):
            activities.append(Activity(H2D if op.direction == "h2d" else D2H, 10 * at, 10 * at + 5, op.bytes, stream))
        elif isinstance(op, Kernel):
            activities.append(Activity(COMPUTE, 10 * at, 10 * at + 5, 0, stream))
    return activities


@given(st.integers(1, 9), st.integers(1, 5), st.booleans())
def test_a_run_in_issue_order_is_matched_op_by_op(chunks: int, streams: int, deep: bool) -> None:
    """In a graph too, whose streams are the driver's: alike ops that run in issue order keep their places."""
    schedule = (depth_first if deep else breadth_first)(sincos(100, 1), chunks, streams)
    for activities, ids in (
        (_run_one_by_one(schedule), list(range(streams + 1))),
        (_run_one_by_one(schedule, streams=False), None),
    ):
        timeline = match(schedule, activities, ids)
        starts = [start for start, engine in zip(timeline.start, timeline.engine, strict=True) if engine >= 0]
        assert starts == [10 * i for i in range(len(schedule.ops) - 1)]


@pytest.mark.parametrize(
    ("activities", "message"),
    [
        (SEEN[:-1], r"has not seen ops\[3\]"),
        ([*SEEN, Activity(H2D, 2000, 2010, 8, 70)], "has seen 1 copies or kernels that are not the schedule's"),
        ([*SEEN[:3], Activity(H2D, 1010, 1018, 16, 71)], r"has seen another op than ops\[3\]"),
    ],
)
def test_another_programs_records_are_refused(activities: list[Activity], message: str) -> None:
    with pytest.raises(InputError, match=message):
        match(SCHEDULE, activities, IDS)


def test_without_the_profiler_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupti", None)
    assert not is_available()
    assert "pip install '.[cupti]'" in INSTALL
