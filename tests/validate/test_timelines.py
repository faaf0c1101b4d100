"""Measured time lines in records: traced after everything is measured, journalled, resumed."""

import random
from pathlib import Path

import pytest
from fake_cuda import fake_gpu
from hypothesis import given
from hypothesis import strategies as st

from streamsim.device import load_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Copy, Kernel, Schedule, Workload, WorkloadKernel, breadth_first, depth_first
from streamsim.timeline import Timeline
from streamsim_validate.gpu import Gpu, Replayer, profiler
from streamsim_validate.gpu.profiler import Activity, match
from streamsim_validate.records import (
    COMPUTE,
    D2H,
    H2D,
    Entry,
    Spans,
    Traced,
    finish,
    journal_path,
    read_journal,
    read_record,
    spans_of,
    timeline_of,
)
from streamsim_validate.run import Plan
from streamsim_validate.run.campaign import measure_plan
from streamsim_validate.suites import sincos

SCHEDULES = (depth_first(sincos(500, 2), 4, 2), depth_first(sincos(700, 1), 1, 1))


def a_plan(tmp_path: Path) -> Plan:
    return Plan(str(tmp_path / "r.json.gz"), schedules=SCHEDULES, repeats=2, timelines=True)


class Profiler:
    """Stands for the profiler: a time line in which the n-th op on an engine runs from n to n + 1 us."""

    def __init__(self, refuses: int = -1) -> None:
        self.seen: list[str] = []
        self._refuses = refuses

    def __call__(self, replayer: Replayer, _gpu: Gpu) -> Timeline:
        self.seen.append(replayer.schedule.name)
        if len(self.seen) - 1 == self._refuses:
            raise InputError("the profiler has not seen every op")
        n = sum(type(op).__name__ in ("Copy", "Kernel") for op in replayer.schedule.ops)
        return timeline_of(
            replayer.schedule, Spans(tuple(range(0, 1000 * n, 1000)), tuple(range(1000, 1000 * n + 1, 1000)))
        )


def test_a_time_line_goes_into_a_record_and_comes_back() -> None:
    schedule = depth_first(Workload(1000, (4,), (4,), (WorkloadKernel(duration_s=1e-6),)), 3, 2)
    predicted = simulate(schedule, load_device("ideal"))
    back = timeline_of(schedule, spans_of(predicted))
    for column in ("engine", "start", "end"):
        pairs = zip(getattr(predicted, column), getattr(back, column), predicted.engine, strict=True)
        assert all(was == is_now for was, is_now, engine in pairs if engine >= 0)
    assert back.makespan_s == predicted.makespan_s


def test_one_that_cannot_be_traced_stops_nothing_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, first, second = a_plan(tmp_path), Profiler(refuses=0), Profiler()
    monkeypatch.setattr(profiler, "profile", first)
    measure_plan(plan, 8, fake_gpu()[0], None)
    assert "has not seen every op" in capsys.readouterr().out
    assert len(first.seen) == 2
    monkeypatch.setattr(profiler, "profile", second)
    measure_plan(plan, 8, fake_gpu()[0], None)
    assert second.seen == first.seen[:1]
    kinds = [type(line) for line in read_journal(journal_path(plan.output))]
    assert kinds.index(Traced) > max(i for i, kind in enumerate(kinds) if kind is Entry)
    record = finish(journal_path(plan.output), plan.output)
    assert read_record(plan.output) == record
    lengths = [len(entry.timeline.start_ns) for _, entry in record.measured() if entry.timeline is not None]
    assert sorted(lengths) == [3, 12]  # a copy each way and a kernel, for one chunk and for four
    assert [len(entry.wall_s) for _, entry in record.measured()] == [2, 2]


# What a profiler saw, matched to the ops of a schedule


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
