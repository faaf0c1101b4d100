"""A tuning that is interrupted, and goes on: nothing is measured twice, and what is found is the same."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tuned import WORK, Cards, Spy, a_task, ctrl_c_on, ticking

from streamsim import Config
from streamsim.errors import InputError
from streamsim_validate.records import journal_path, read_record
from streamsim_validate.records.files import read_journal
from streamsim_validate.records.record import Entry
from streamsim_validate.run import Tuned, tune
from streamsim_validate.suites import sincos


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Cards:
    """Makes such cards."""
    return partial(ticking, monkeypatch)


def ctrl_c_at_call(number: int) -> Callable[[str, tuple[object, ...]], None]:
    """Ctrl-C at that call to the card."""
    left = number

    def press(_name: str, _arguments: tuple[object, ...]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    return press


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tuned, int]:
    """What an uninterrupted tuning finds, and how many calls to the card it makes."""
    with pytest.MonkeyPatch.context() as patch:
        gpu, cuda = ticking(patch)
        found = tune(a_task(tmp_path_factory.mktemp("whole")), gpu)
        return found, len(cuda.log)


@examples(15)
@given(at=st.floats(0, 1))
@example(at=0.96875)
def test_interrupted_at_any_call_it_resumes_and_finds_what_it_would_have_found(
    tmp_path_factory: pytest.TempPathFactory, whole: tuple[Tuned, int], at: float
) -> None:
    """What is in the journal is not measured again, but one of the two side by side with the other one."""
    found, calls = whole
    task = a_task(tmp_path_factory.mktemp("stopped"))
    with pytest.MonkeyPatch.context() as patch:
        gpu, cuda = ticking(patch)
        cuda.fail_at = ctrl_c_at_call(1 + int(at * (calls - 1)))
        with pytest.raises(KeyboardInterrupt):
            tune(task, gpu)
        lines = read_journal(journal_path(task.output))
        finished = {line.key for line in lines if isinstance(line, Entry) and is_complete(line)}
        spy = Spy(ticking(patch)[0])
        assert tune(task, spy.gpu, runner=spy) == found
    side_by_side = {key for key in finished if key.startswith("again: ")}
    assert not (finished - side_by_side if len(side_by_side) == 1 else finished) & set(spy.asked)
    assert len(spy.asked) == len(set(spy.asked))
    (run,) = read_record(task.output).runs
    keys = [entry.key for entry in run.entries]
    assert len(keys) == len(set(keys))
    assert finished <= set(keys)


def is_complete(entry: Entry) -> bool:
    return len(entry.wall_s) == (9 if entry.key.startswith("again: ") else 3)


@pytest.mark.parametrize("step", range(5))
def test_interrupted_between_two_measurements_nothing_is_measured_twice(
    tmp_path: Path, card: Cards, whole: tuple[Tuned, int], step: int
) -> None:
    """Four programs, then two of them side by side."""

    def stop(_what: str, done: int, _of_all: int) -> None:
        steps.append(done)
        if len(steps) == step + 1:
            raise KeyboardInterrupt

    steps: list[int] = []
    task = a_task(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        tune(task, card()[0], stop)
    before = read_journal(journal_path(task.output))
    assert len([line for line in before if isinstance(line, Entry)]) == step
    spy = Spy(card()[0])
    assert tune(task, spy.gpu, runner=spy) == whole[0]
    assert len(spy.asked) == 4 - step + 2
    assert len(read_record(task.output).runs) == 1


def test_what_is_measured_and_not_yet_written_is_written_by_the_next_call(
    tmp_path: Path, card: Cards, whole: tuple[Tuned, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = a_task(tmp_path)

    def full(*_: object) -> NoReturn:
        raise InputError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("streamsim_validate.run.tuning.finish", full)
        with pytest.raises(InputError, match="no space left"):
            tune(task, card()[0])
    gpu, cuda = card()
    assert tune(task, gpu) == whole[0]
    assert cuda.log == []
    bounds = [run.finished for run in read_record(task.output).runs]
    assert len(bounds) == 1
    assert bounds[0]


def test_more_budget_goes_on_from_what_was_measured(tmp_path: Path, card: Cards) -> None:
    task = a_task(tmp_path, budget=2)
    with pytest.raises(KeyboardInterrupt):
        tune(task, card()[0], ctrl_c_on("side by side"))
    spy = Spy(card()[0])
    found = tune(replace(task, budget=4), spy.gpu, runner=spy)
    assert len(found.tried) == 4
    assert len([key for key in spy.asked if not key.startswith("again: ")]) == 2


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"workload": sincos(600, WORK)}, "another workload was tuned"),
        ({"configs": (Config(chunks=2, memory="pageable"),)}, "another workload was tuned"),
        ({"kernels": ("mine.cu",)}, "the files of --kernels are not what they were"),
    ],
    ids=("workload", "memory", "kernels"),
)
def test_another_tasks_journal_is_refused(tmp_path: Path, card: Cards, what: dict[str, Any], said: str) -> None:
    if "kernels" in what:
        (tmp_path / "mine.cu").write_text("mine")
        what = {"kernels": (str(tmp_path / "mine.cu"),)}
    task = a_task(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        tune(task, card()[0], ctrl_c_on("side by side"))
    before = journal_path(task.output).read_bytes()
    gpu, cuda = card()
    with pytest.raises(InputError, match=said):
        tune(a_task(tmp_path, **what), gpu)
    assert journal_path(task.output).read_bytes() == before
    assert cuda.log == []


def test_a_journal_whose_programs_are_built_otherwise_now_is_refused(
    tmp_path: Path, card: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = a_task(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        tune(task, card()[0], ctrl_c_on("side by side"))
    monkeypatch.setattr("streamsim_validate.run.tuning.digest", lambda _: "another")
    with pytest.raises(InputError, match="has measured another schedule '"):
        tune(task, card()[0])
