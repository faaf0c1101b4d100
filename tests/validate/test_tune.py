"""Tuning on an emulated card whose clock counts its calls, so that every time is known.

What is found, what fails, and what an interrupted tuning finds when it goes on: the same, and nothing measured twice.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from fake_gpu.card import FakeError
from fake_gpu.cuda import Launch
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tuned import DEVICE, WORK, WORKLOAD, Cards, Spy, a_task, ctrl_c_on, measured_keys, ticking

from streamsim import Config, Workload, WorkloadKernel
from streamsim.errors import InputError
from streamsim.search import Grid, candidates, default_grid
from streamsim_validate.gpu.memory import SPARE_DEVICE_BYTES
from streamsim_validate.records import Entry, journal_path, read_journal, read_record, recipe_of
from streamsim_validate.run import Tuned, tune
from streamsim_validate.suites import sincos


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Cards:
    """Makes such cards."""
    return partial(ticking, monkeypatch)


def test_the_record_holds_what_was_measured_and_the_journal_is_gone(tmp_path: Path, card: Cards) -> None:
    """The budget is spent on distinct programs, the model's pick first."""
    task = a_task(tmp_path, budget=6)
    found = tune(task, card()[0])
    assert not journal_path(task.output).exists()
    record = read_record(task.output)
    (run,) = record.runs
    assert (record.suite, run.connections, run.repeats, bool(run.finished)) == ("tune", 8, 3, True)
    entries = {entry.key: entry for entry in run.entries}
    again = {f"again: {config.words}" for config in (found.picked, found.found)}
    assert [key for key in entries if key not in again] == [tried.config.words for tried in found.tried]
    assert all(len(entries[key].wall_s) == 9 for key in again)
    for tried in found.tried:
        entry = entries[tried.config.words]
        assert (entry.verified, len(entry.wall_s), sorted(entry.wall_s)[1]) == (True, 3, tried.measured_s)
        assert entry.build() == tried.config.schedule(WORKLOAD)
    assert len({tried.config for tried in found.tried}) == len(found.tried) == 6 < found.candidates
    assert found.candidates == len(task.configs)
    assert found.picked == found.tried[0].config == min(found.tried, key=lambda tried: tried.predicted_s).config
    assert found.found == min(found.tried, key=lambda tried: tried.measured_s).config
    assert found.gain_low <= found.gain <= found.gain_high
    assert found.is_sure is (found.gain_low > 1)


def test_a_budget_above_the_grid_measures_all_and_leaves_nothing_to_hope_for(tmp_path: Path, card: Cards) -> None:
    """Each call takes a microsecond: fewest calls are the fastest, one chunk."""
    task = a_task(tmp_path, budget=1000, configs=tuple(candidates(WORKLOAD, DEVICE, default_grid(4, 2))))
    found = tune(task, card()[0])
    assert {tried.config for tried in found.tried} == set(task.configs)
    assert found.promise == 0.0
    assert (found.found.chunks, found.found.streams) == (1, 1)
    assert found.picked.chunks > 1
    assert found.is_sure


CONFIGS = st.sampled_from(
    Grid((1, 2, 5), (1, 2, 3), ("depth-first", "breadth-first", "serial"), (None, 1, 2, 3), ("live", "graph")).configs(
        WORKLOAD
    )
    + Grid((1, 5), (1, 3), ("depth-first", "serial", "prefetch"), (None, 3), memory="pageable").configs(WORKLOAD)
)


@examples(30)
@given(CONFIGS, st.sampled_from([WORKLOAD, Workload(None, (64, 80), (80,), (WorkloadKernel(duration_s=1e-6),))]))
def test_a_recipe_builds_the_program_of_its_configuration(config: Config, workload: Workload) -> None:
    recipe = recipe_of(config, workload, "any")
    assert recipe.schedule() == config.schedule(workload)
    if config.order == "prefetch":
        assert recipe.simplicity[0] == 1  # behind all others
    else:
        assert recipe.simplicity == (0, *config.simplicity)


# What fails


def broken_for(*elements: int) -> dict[str, Callable[[Launch], None]]:
    """A kernel whose output is another one each time, where it has so many elements; without any, always."""
    launches = count(1)

    def wrong(launch: Launch) -> None:
        launch.compute("sincos")
        if not elements or launch.elements in elements:
            launch.writes[0][:, 0] = next(launches) % 251

    return {"streamsim_sincos": wrong}


def test_a_failed_program_is_not_tried_again_by_a_resumed_tuning(tmp_path: Path, card: Cards) -> None:
    task = a_task(tmp_path, budget=3)
    pick = tune(replace(task, output=str(tmp_path / "sound.json.gz")), card()[0]).picked
    (part, *_) = WORKLOAD.cut(pick.chunks)
    with pytest.raises(KeyboardInterrupt):
        tune(task, card(kernels=broken_for(part.elements))[0], ctrl_c_on("side by side"))
    tried = set(measured_keys(journal_path(task.output)))
    spy = Spy(card()[0])
    found = tune(task, spy.gpu, runner=spy)
    assert not tried & set(spy.asked)
    assert len(found.tried) == 3
    assert pick.words in found.left_out
    assert all(why.startswith("failed: ") and "h_out0" in why for why in found.left_out.values())
    assert not any(one.config.chunks == pick.chunks for one in found.tried)
    assert len(list(read_record(task.output).skipped())) == len(found.left_out)


def test_what_has_no_room_is_left_out_and_a_ring_is_found(tmp_path: Path, card: Cards) -> None:
    """Whole, the arrays take 4 KB; the card has 3.5 KB free."""
    configs = tuple(candidates(WORKLOAD, DEVICE, Grid((1, 4, 8), (1, 2), buffers=(None, 2))))
    task = a_task(tmp_path, configs=configs, budget=8)
    gpu, cuda = card()
    cuda.most_device_bytes = SPARE_DEVICE_BYTES + 3500
    found = tune(task, gpu)
    assert {tried.config.buffers for tried in found.tried} == {2}
    assert all(why.startswith("skipped: ") for why in found.left_out.values())
    assert set(found.left_out) <= {config.words for config in configs if config.buffers != 2}


def test_where_all_fail_there_is_one_error_after_ten_tries_or_the_budget(tmp_path: Path, card: Cards) -> None:
    task = a_task(tmp_path, budget=3)
    spy = Spy(card(kernels=broken_for())[0])
    with pytest.raises(InputError, match=r"no candidate could be measured; \d+ chunks? on .*: failed: ") as caught:
        tune(task, spy.gpu, runner=spy)
    assert "\n" not in str(caught.value)
    assert len(spy.asked) == 10
    assert not Path(task.output).exists()
    with pytest.raises(InputError, match="no candidate could be measured"):
        tune(replace(task, budget=12), spy.gpu, runner=spy)
    assert len(spy.asked) == 12  # ten of them are in the journal


def test_a_lost_card_ends_it_and_the_next_call_leaves_that_program_out(tmp_path: Path, card: Cards) -> None:
    """A kernel that breaks the context fails every call from then on."""
    task = a_task(tmp_path, budget=3)
    pick = tune(replace(task, output=str(tmp_path / "sound.json.gz")), card()[0]).picked
    gpu, cuda = card()
    is_lost = False

    def lose(name: str, _arguments: tuple[object, ...]) -> None:
        nonlocal is_lost
        is_lost = is_lost or name == "launchKernel"
        if is_lost:
            raise FakeError("an illegal memory access was encountered")

    cuda.fail_at = lose
    with pytest.raises(InputError, match="the GPU's context is lost"):
        tune(task, gpu)
    assert measured_keys(journal_path(task.output)) == [pick.words]
    found = tune(task, card()[0])
    assert list(found.left_out) == [pick.words]
    assert found.left_out[pick.words].startswith("lost: ")
    assert found.picked != pick


# Interrupted


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
        numbers = count()

        def press(_name: str, _arguments: tuple[object, ...]) -> None:
            if next(numbers) == int(at * (calls - 1)):
                raise KeyboardInterrupt

        cuda.fail_at = press
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


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"workload": sincos(600, WORK)}, "another workload was tuned"),
        ({"configs": (Config(chunks=2, memory="pageable"),)}, "another workload was tuned"),
        ({"kernels": (__file__,)}, "the files of --kernels are not what they were"),
    ],
)
def test_another_tasks_journal_is_refused(tmp_path: Path, card: Cards, what: dict[str, Any], said: str) -> None:
    task = a_task(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        tune(task, card()[0], ctrl_c_on("side by side"))
    before = journal_path(task.output).read_bytes()
    gpu, cuda = card()
    with pytest.raises(InputError, match=said):
        tune(a_task(tmp_path, **what), gpu)
    assert (journal_path(task.output).read_bytes(), cuda.log) == (before, [])
