"""Runs: a plan measured on an emulated card, interrupted, resumed, finished; and the process that does it."""

import subprocess
import sys
from itertools import count
from pathlib import Path

import msgspec
import pytest
from fake_gpu.cuda import fake_gpu
from stand_in import environment

from streamsim import program
from streamsim.errors import InputError
from streamsim_validate import records, suites
from streamsim_validate.calibrate import Samples, fits, read_samples
from streamsim_validate.gpu import Gpu
from streamsim_validate.run import Plan, campaign, run
from streamsim_validate.run.campaign import measure_plan, planned, with_profiles
from streamsim_validate.suites import sincos

RECORDED = Path(__file__).parents[2] / "validate" / "campaigns" / "records" / "calibration-h200.samples.gz"
SCHEDULES = (
    program.depth_first(sincos(500, 2), 4, 2),
    program.ring(sincos(500, 2), 5, 3, 2),
    program.depth_first(sincos(700, 1), 1, 1),
)


def a_plan(tmp_path: Path, repeats: int = 3) -> Plan:
    return Plan(str(tmp_path / "r.json.gz"), schedules=SCHEDULES, repeats=repeats)


@pytest.mark.usefixtures("fitting_once")
def test_schedules_are_measured_and_recorded(tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    samples = read_samples(RECORDED)
    measure_plan(plan, 8, fake_gpu()[0], lambda _: samples)
    record = records.finish(records.journal_path(plan.output), plan.output, with_profiles)
    assert records.read_record(plan.output) == record
    (session,) = record.runs
    assert (session.connections, session.repeats) == (8, 3)
    assert session.profile("before") == session.profile("after") == fits.fit(samples)
    for kept in (session.samples, session.samples_after):
        assert msgspec.convert(kept, Samples) == samples
    assert {entry.build() for entry in session.entries} == set(SCHEDULES)
    assert all(len(entry.wall_s) == len(entry.device_s) == len(entry.issue_s) == 3 for entry in session.entries)
    assert all(entry.verified and entry.status == "ok" for entry in session.entries)


@pytest.mark.fault
def test_an_interrupted_run_is_resumed_where_it_stopped(tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    gpu, cuda = fake_gpu()
    timed = count(1)

    def press(name: str, _arguments: tuple[object, ...]) -> None:
        if name == "eventElapsedTime" and next(timed) == 2 * len(SCHEDULES) + 7:  # warm-up, then in the third round
            raise KeyboardInterrupt

    cuda.fail_at = press
    with pytest.raises(KeyboardInterrupt):
        measure_plan(plan, 8, gpu, None)
    first = [
        line for line in records.read_journal(records.journal_path(plan.output)) if isinstance(line, records.Entry)
    ]
    assert sum(len(entry.wall_s) for entry in first) == 6

    measure_plan(plan, 8, fake_gpu()[0], None)
    before = records.journal_path(plan.output).read_bytes()
    gpu, cuda = fake_gpu()
    measure_plan(plan, 8, gpu, None)  # nothing is measured twice
    assert (records.journal_path(plan.output).read_bytes(), cuda.log) == (before, [])
    record = records.finish(records.journal_path(plan.output), plan.output)
    entries = [entry for _, entry in record.measured()]
    assert sorted(entry.key for entry in entries) == sorted(item.key for item in planned(plan, 8))
    assert {len(entry.wall_s) for entry in entries} == {3}


@pytest.mark.parametrize(
    "now",
    [
        (msgspec.structs.replace(SCHEDULES[0], ops=SCHEDULES[0].ops[:3]), *SCHEDULES[1:]),  # of the same name
        SCHEDULES[1:],
    ],
    ids=("another", "fewer"),
)
def test_a_journal_of_other_schedules_is_not_resumed(tmp_path: Path, now: tuple[program.Schedule, ...]) -> None:
    """Or the times of one schedule would be reported as another's."""
    plan = a_plan(tmp_path)
    measure_plan(plan, 8, fake_gpu()[0], None)
    before = records.journal_path(plan.output).read_bytes()
    with pytest.raises(InputError, match="has measured another schedule '1: depth-first N=4 S=2'"):
        measure_plan(msgspec.structs.replace(plan, schedules=now), 8, fake_gpu()[0], None)
    assert records.journal_path(plan.output).read_bytes() == before
    measure_plan(msgspec.structs.replace(plan, schedules=now), 1, fake_gpu()[0], None)  # those of others stand apart


def test_a_run_that_has_measured_all_is_ended_by_the_next_call(tmp_path: Path) -> None:
    """Ctrl-C in the second calibration: the next call takes that, and nothing else."""
    plan, samples = a_plan(tmp_path), read_samples(RECORDED)
    taken = iter((samples, None, samples))

    def take_samples(_: Gpu) -> Samples:
        found = next(taken)
        if found is None:
            raise KeyboardInterrupt
        return found

    with pytest.raises(KeyboardInterrupt):
        measure_plan(plan, 8, fake_gpu()[0], take_samples)
    assert not any(
        isinstance(line, records.RunEnds) for line in records.read_journal(records.journal_path(plan.output))
    )
    measure_plan(plan, 8, fake_gpu()[0], take_samples)
    lines = records.read_journal(records.journal_path(plan.output))
    assert [type(line) for line in lines if isinstance(line, records.RunBegins | records.RunEnds)] == [
        records.RunBegins,
        records.RunEnds,
    ]
    assert sum(isinstance(line, records.Entry) for line in lines) == len(SCHEDULES)


def test_samples_that_cannot_be_fitted_lose_no_measurement(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan, samples = a_plan(tmp_path), read_samples(RECORDED)
    short = Samples(samples.card, samples.date, samples.rows[1:])
    measure_plan(plan, 8, fake_gpu()[0], lambda _: short)
    (session,) = records.finish(records.journal_path(plan.output), plan.output, with_profiles).runs
    assert session.before is session.after is None
    assert len(session.entries) == len(SCHEDULES)
    assert "no profile: calibration: no chain 'h2d 65536 x8'" in capfd.readouterr().err


def test_a_run_of_drawn_schedules_says_how_to_draw_them_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed and count stand in the record; the same journal goes on, that of another seed does not."""
    monkeypatch.setattr(suites, "MOST_BYTES", 1 << 20)
    plan = Plan(str(tmp_path / "r.json.gz"), suite="random", seed=5, count=2, repeats=1)
    measure_plan(plan, 8, fake_gpu()[0], None)
    with pytest.raises(InputError, match="has measured another schedule"):
        measure_plan(msgspec.structs.replace(plan, seed=6), 8, fake_gpu()[0], None)
    (session,) = records.finish(records.journal_path(plan.output), plan.output).runs
    again = planned(msgspec.structs.replace(plan, seed=session.seed, count=session.count), 8)
    assert {entry.key: entry.build() for entry in session.entries} == {item.key: item.schedule for item in again}


def test_a_race_is_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring without its waits."""
    monkeypatch.setattr(campaign.hardware, "import_cupy", lambda: pytest.fail("CuPy was asked for"))
    ops = tuple(op for op in SCHEDULES[1] if not isinstance(op, program.WaitEvent))
    racy = msgspec.structs.replace(SCHEDULES[1], ops=ops, name="racy")
    with pytest.raises(InputError, match=r"^racy: race: ops\[\d+\] .* wait for it in stream .* mend it first"):
        run(msgspec.structs.replace(a_plan(tmp_path), schedules=(SCHEDULES[0], racy)))
    assert list(tmp_path.iterdir()) == []


# The command


def test_the_whole_way_from_the_command_to_the_record(tmp_path: Path) -> None:
    """The real command and its processes, on an emulated card that each finds in place of one of CuPy's."""
    program.write_schedule(SCHEDULES[0], tmp_path / "s.json")
    (tmp_path / "mine.cu").write_text('extern "C" __global__ void mine(const Arrays a) {}')
    arguments = ["--no-calibrate", "--repeats", "2", "--connections", "8", "--connections", "1", "-o", "r.json.gz"]
    line = [sys.executable, "-m", "streamsim_validate", "run", "s.json", "--kernels", "mine.cu", *arguments]
    done = subprocess.run(line, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "r.json.gz: 2 schedules measured on Emulated"
    record = records.read_record(tmp_path / "r.json.gz")
    assert [(session.connections, entry.build()) for session, entry in record.measured()] == [
        (8, SCHEDULES[0]),
        (1, SCHEDULES[0]),
    ]
    assert not records.journal_path(tmp_path / "r.json.gz").exists()
