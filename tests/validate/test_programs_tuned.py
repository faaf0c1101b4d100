"""Tuning of programs in a language: what it finds, interrupted and resumed, and what fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fake_arrays import CALL_S, MINE, ROUND_S, Card, installed
from fake_cuda import Launch, fake_gpu
from strategies import make_device

from streamsim import Config, Workload, WorkloadKernel
from streamsim.code import Language
from streamsim.errors import InputError
from streamsim.search import candidates, default_grid
from streamsim.text import one_line
from streamsim_validate.cli import main
from streamsim_validate.cli import tune as cli
from streamsim_validate.compare import compare
from streamsim_validate.gpu import Gpu
from streamsim_validate.records import journal_path, read_record, recipe_of
from streamsim_validate.run import Planned, Task, Tuned, measure, tune
from streamsim_validate.run.programs import ProgramRun, Programs, PythonRunner
from streamsim_validate.run.tuning import FEW, MANY, MORE

PYTHON: tuple[Language, ...] = ("cupy", "pytorch")
KERNEL_S = 20e-6
WORKLOAD = Workload(1024, (4,), (4,), (WorkloadKernel(duration_s=KERNEL_S),))
DEVICE = make_device(copy=200, kernel=100)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Card:
    return installed(monkeypatch)


def a_task(
    tmp_path: Path, workload: Workload = WORKLOAD, budget: int = 4, language: Language = "cupy", **more: Any
) -> Task:
    configs = tuple(candidates(workload, DEVICE, default_grid(8, 4)))
    given: dict[str, Any] = {"configs": configs, "device": DEVICE, "repeats": 3, "language": language} | more
    return Task(str(tmp_path / "tuned.json.gz"), workload, budget=budget, **given)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("language", PYTHON)
def test_programs_are_tuned_with_kernels_that_take_what_was_said(tmp_path: Path, language: Language) -> None:
    """Of 1024 floats and a call, 19 rounds take 20.5 us and 18 take 19.4. Nothing overlaps here: one chunk is best."""
    task = a_task(tmp_path, budget=6, language=language)
    found = tune(task, fake_gpu()[0])
    assert found.kernels is not None
    assert found.kernels.work == 19
    assert found.kernels.said_s == pytest.approx(KERNEL_S)
    assert found.kernels.measured_s == pytest.approx(19 * 1024 * ROUND_S + CALL_S)
    (kernel,) = found.workload.kernels
    assert kernel.duration_s == pytest.approx(found.kernels.measured_s)
    assert found.found.chunks == 1 < found.picked.chunks
    assert found.is_sure
    record = read_record(task.output)
    assert record.suite == f"tune as {language}"
    (run,) = record.runs
    keys = [entry.key for entry in run.entries]
    assert f"stand-in of {FEW} rounds" in keys
    assert f"stand-in of {MANY} rounds, {1 + MORE} times" in keys
    for entry in run.entries:
        assert (entry.device_s, entry.issue_s, entry.verified) == ((), (), True)
        assert len(entry.wall_s) >= 3


@pytest.mark.usefixtures("library")
def test_wall_times_of_programs_are_not_compared_as_replays(tmp_path: Path) -> None:
    task = a_task(tmp_path, budget=1)
    tune(task, fake_gpu()[0])
    with pytest.raises(InputError, match="'tune as cupy' on Emulated has wall times of programs alone"):
        compare(read_record(task.output), DEVICE)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("language", PYTHON)
def test_kernels_of_ones_own_are_timed_and_tuned(tmp_path: Path, language: Language) -> None:
    """What was said of them is far off; the model predicts with what they take."""
    mine = tmp_path / "mine.py"
    mine.write_text(MINE[language])
    found = tune(a_task(tmp_path, language=language, kernels=(str(mine),)), fake_gpu()[0])
    assert found.kernels is not None
    assert tuple(found.kernels) == pytest.approx((0, KERNEL_S, 7 * 1024 * ROUND_S + CALL_S))
    assert sum(kernel.duration_s or 0 for kernel in found.workload.kernels) == pytest.approx(found.kernels.measured_s)
    keys = [entry.key for entry in read_record(tmp_path / "tuned.json.gz").runs[0].entries]
    assert keys[:2] in (["kernels", f"kernels, {1 + MORE} times"], [f"kernels, {1 + MORE} times", "kernels"])


def found_in(folder: Path, stops: int | None = None) -> tuple[Tuned, int]:
    """What tuning finds, and how many programs were run; Ctrl-C in that of the number."""
    with pytest.MonkeyPatch.context() as patch:
        installed(patch)
        run, last, runs = PythonRunner.run, 0, count()

        def counted(self: PythonRunner, *arguments: Any) -> ProgramRun:
            nonlocal last
            last = next(runs)
            if last == stops:
                raise KeyboardInterrupt
            return run(self, *arguments)

        patch.setattr(PythonRunner, "run", counted)
        return tune(a_task(folder, budget=3), fake_gpu()[0]), last + 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tuned, int]:
    return found_in(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("at", [0.2, 0.8])
def test_interrupted_a_tuning_of_programs_finds_what_it_would_have_found(
    tmp_path: Path, whole: tuple[Tuned, int], at: float
) -> None:
    """Ctrl-C in one of the programs that are run: while rounds are sought, candidates measured, or again."""
    stops = round(at * (whole[1] - 1))
    with pytest.raises(KeyboardInterrupt):
        found_in(tmp_path, stops)
    resumed, rest = found_in(tmp_path)
    assert resumed == whole[0]
    assert rest <= whole[1] - stops + 5  # of two programs in three turns each, those before it are run again
    keys = [entry.key for run in read_record(tmp_path / "tuned.json.gz").runs for entry in run.entries]
    assert len(keys) == len(set(keys))


# What fails


class Scripted:
    """A runner of which each program takes its chunks in microseconds, or what ``fails`` raises."""

    has_own = True

    def __init__(self, fails: Callable[[Config], None] = lambda _: None, verified: bool = True) -> None:
        self.fails, self.verified = fails, verified

    def run(self, item: Planned, repeats: int) -> ProgramRun:
        self.fails(item.config)
        wall_s = 1e-6 * item.config.chunks + 2e-5 * item.times
        return ProgramRun(self.verified, (1e-6,) * repeats, (wall_s,) * repeats)

    def close(self) -> None:
        """Nothing."""


def scripted(gpu: Gpu | None = None, **more: Any) -> Programs:
    return Programs(gpu or fake_gpu()[0], {"cupy": Scripted(**more)})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA out of memory.\nTried to allocate"),
        MemoryError("Out of memory"),
        TypeError("kernels() takes"),
    ],
)
def test_a_program_that_fails_is_left_out_with_the_reason(tmp_path: Path, error: Exception) -> None:
    def fails(config: Config) -> None:
        if config.chunks == 4:
            raise error

    found = tune(a_task(tmp_path), fake_gpu()[0], runner=scripted(fails=fails))
    assert len(found.tried) == 4
    assert found.left_out
    assert all(words.startswith("4 chunks") for words in found.left_out)
    reason = one_line(f"failed: {type(error).__name__}: {error}")
    assert all(why == reason for why in found.left_out.values())


def test_output_that_is_not_verified_is_no_time(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^kernels: failed: its output is not that of the serial program; its time"):
        tune(a_task(tmp_path), fake_gpu()[0], runner=scripted(verified=False))


def test_side_by_side_programs_run_in_turns() -> None:
    """Three rounds of both, however their order is shuffled."""
    order: list[int] = []
    recipes = [recipe_of(Config(chunks=n), WORKLOAD, "any") for n in (1, 2)]
    items = [Planned(str(n), recipe.schedule(), recipe, "cupy") for n, recipe in enumerate(recipes, 1)]
    kept = measure(items, scripted(fails=lambda config: order.append(config.chunks)), 9)
    assert [sorted(order[k : k + 2]) for k in (0, 2, 4)] == [[1, 2]] * 3
    assert len(order) == 6
    assert [(entry.key, len(entry.wall_s)) for entry in kept] == [("1", 9), ("2", 9)]


# The command


SMALL = ["--h2d", "64KiB", "--kernel", "20us", "--d2h", "64KiB", "--max-chunks", "4", "--max-streams", "2"]
PROGRAMS = 1 + 3 * 2 * 2  # one chunk, and 2, 3 or 4 of them on one or two streams in two orders
QUICK = [*SMALL, "--budget", "3", "--repeats", "2", "-o", "t.json.gz"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def open_on(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """The command finds an emulated card."""

    @contextmanager
    def opened(_number: int) -> Iterator[Gpu]:
        yield fake_gpu(**more)[0]

    monkeypatch.setattr(cli, "open_gpu", opened)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    open_on(monkeypatch)


@pytest.mark.usefixtures("card")
def test_the_json_is_one_object_of_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *QUICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == 1
    assert (found["device"], found["record"], found["candidates"]) == ("h200", "t.json.gz", PROGRAMS)
    assert len(found["tried"]) == 3
    first = found["tried"][0]
    assert {name: first[name] for name in found["picked"]} == found["picked"]
    assert min(tried["predicted_s"] for tried in found["tried"]) == first["predicted_s"]
    assert found["gain_low"] <= found["gain"] <= found["gain_high"]
    assert found["gain"] == pytest.approx(found["picked_s"] / found["found_s"])
    assert found["is_sure"] is (found["gain_low"] > 1)
    assert 0 <= found["promise"] < 1
    assert found["left_out"] == {}
    assert found["workload"]["inputs"] == [65536]


def test_interrupted_it_says_how_to_go_on_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    presses = iter([False, True])

    def press(launch: Launch) -> None:
        if launch.elements < 1 << 16 and next(presses, False):
            raise KeyboardInterrupt

    open_on(monkeypatch, kernels={"streamsim_spin": press})
    assert main(["tune", *QUICK]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert journal_path("t.json.gz").exists()
    open_on(monkeypatch)
    assert main(["tune", *QUICK]) == 0
    assert "going on from t.json.gz.journal" in capsys.readouterr().err


# Programs in a language


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(
    ("more", "suite", "device"),
    [
        ([], "tune as pytorch", "h200:pytorch"),
        (["--as", "calls"], "tune", "h200"),
        (["--as", "cupy"], "tune as cupy", "h200:cupy"),
        (["--front-end", "calls"], "tune as pytorch", "h200"),
    ],
)
def test_the_workloads_front_end_is_what_is_measured_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str], suite: str, device: str
) -> None:
    installed(monkeypatch)
    Path("w.toml").write_text('inputs = ["64KiB"]\nkernels = ["20us"]\nfront_end = "pytorch"\n')
    options = ["--max-chunks", "2", "--budget", "2", "--repeats", "2", "-o", "t.json.gz", "--json"]
    assert main(["tune", "w.toml", *options, *more]) == 0
    assert json.loads(capsys.readouterr().out)["device"] == device
    assert read_record("t.json.gz").suite == suite


def test_without_nvcc_it_says_so_before_the_card_is_opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "open_gpu", lambda _: pytest.fail("opens the card"))
    monkeypatch.setenv("PATH", "")
    assert main(["tune", *QUICK, "--as", "cuda-c++"]) == 2
    assert "--as cuda-c++: no nvcc to compile it with" in capsys.readouterr().err
