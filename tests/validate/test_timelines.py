"""Measured time lines in records: traced after everything is measured, journalled, resumed."""

from pathlib import Path

import pytest
from fake_cuda import CARD, fake_gpu

from streamsim.device import load_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Workload, WorkloadKernel, depth_first
from streamsim.timeline import Timeline
from streamsim_validate.calibrate import Samples
from streamsim_validate.gpu import Gpu, Replayer, profiler
from streamsim_validate.records.files import Traced, finish, journal_path, read_journal, read_record
from streamsim_validate.records.record import Entry, Spans, spans_of, timeline_of
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


def test_schedules_are_traced_once_all_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "profile", Profiler())
    plan = a_plan(tmp_path)
    measure_plan(plan, 8, fake_gpu()[0], None)
    kinds = [type(line) for line in read_journal(journal_path(plan.output))]
    assert kinds.index(Traced) > max(i for i, kind in enumerate(kinds) if kind is Entry)
    record = finish(journal_path(plan.output), plan.output)
    assert read_record(plan.output) == record
    lengths = [len(entry.timeline.start_ns) for _, entry in record.measured() if entry.timeline is not None]
    assert sorted(lengths) == [3, 12]  # a copy each way and a kernel, for one chunk and for four


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
    record = finish(journal_path(plan.output), plan.output)
    assert all(entry.timeline is not None for _, entry in record.measured())
    assert [len(entry.wall_s) for _, entry in record.measured()] == [2, 2]


def test_an_interrupted_trace_loses_no_calibration_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def take(_gpu: Gpu) -> Samples:
        taken.append(len(taken))
        return Samples(CARD, "then", {})

    def interrupted(_replayer: Replayer, _gpu: Gpu) -> Timeline:
        raise KeyboardInterrupt

    plan = a_plan(tmp_path)
    monkeypatch.setattr(profiler, "profile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure_plan(plan, 8, fake_gpu()[0], take)
    assert taken == [0, 1]
    monkeypatch.setattr(profiler, "profile", Profiler())
    measure_plan(plan, 8, fake_gpu()[0], take)
    assert taken == [0, 1]
    (run_,) = finish(journal_path(plan.output), plan.output).runs
    assert run_.samples is not None
    assert run_.samples_after is not None
    assert [entry.timeline is not None for entry in run_.entries] == [True, True]


def test_a_time_line_belongs_to_the_connections_that_it_was_traced_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process fails to trace; the second, of other connections, has begun when that is tried again."""
    plan = a_plan(tmp_path)
    monkeypatch.setattr(profiler, "profile", Profiler(refuses=0))
    measure_plan(plan, 8, fake_gpu()[0], None)
    monkeypatch.setattr(profiler, "profile", Profiler())
    measure_plan(plan, 1, fake_gpu()[0], None)
    again = Profiler()
    monkeypatch.setattr(profiler, "profile", again)
    measure_plan(plan, 8, fake_gpu()[0], None)
    assert len(again.seen) == 1
    runs = finish(journal_path(plan.output), plan.output).runs
    assert [run_.connections for run_ in runs] == [8, 1]
    assert all(entry.timeline is not None for run_ in runs for entry in run_.entries)
