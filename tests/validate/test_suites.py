"""Laws of the suites."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from effort import examples
from fake_gpu.arrays import CALL_S, ROUND_S, CuPyArray, Tensor, installed
from fake_gpu.card import Card
from fake_gpu.cuda import fake_gpu, plainly
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_device

from streamsim.code import LANGUAGES
from streamsim.device import LINEAR
from streamsim.program import Copy, Schedule, Synchronize, depth_first
from streamsim_validate import gpu as hardware
from streamsim_validate import records, suites
from streamsim_validate.compare import compare
from streamsim_validate.gpu.memory import PERIOD, outputs
from streamsim_validate.run import Plan, Planned, campaign, measure, programs
from streamsim_validate.run.campaign import measure_plan, planned_programs
from streamsim_validate.run.programs import ProgramJob, Programs

STANDARD = {connections: suites.suite("standard", connections) for connections in suites.CONNECTIONS}
RECIPES = suites.random_recipes(1, 400)


@cache
def drawn_schedules() -> list[Schedule]:
    return [recipe.schedule() for recipe in RECIPES]


def test_no_chunk_begins_where_the_host_data_repeats() -> None:
    """Else two chunks exchanged would look alike."""
    ops = (op for recipes in STANDARD.values() for recipe in recipes for op in recipe.schedule().ops)
    offsets = {op.host.offset for op in ops if isinstance(op, Copy) and op.host}
    assert not [offset for offset in offsets if offset and offset % (4 * PERIOD) == 0]


def is_cut_alike(recipe: records.Recipe) -> bool:
    """Whether its output, of fewer elements, is that of the program in one chunk."""
    elements = min(recipe.workload.elements or 0, 10_007)
    few = msgspec.structs.replace(recipe, workload=msgspec.structs.replace(recipe.workload, elements=elements))
    schedule, whole = few.schedule(), depth_first(few.workload, 1, 1)
    found, want = plainly(schedule), plainly(whole)
    return all(np.array_equal(found[key.name], want[key.name]) for key in outputs(whole))


def test_however_a_workload_is_cut_its_output_is_that_of_the_program_in_one_chunk() -> None:
    """Kernels here work element by element, so a pattern that leaves a chunk out, or mixes two up, gives another."""
    drawn = [recipe for recipe in RECIPES[:100] if recipe.effect == "named kernels"]
    recipes = [recipe for recipe in (*STANDARD[8][::3], *STANDARD[32], *drawn) if recipe.workload.outputs]
    assert [recipe.key for recipe in recipes if not is_cut_alike(recipe)] == []


def test_a_seed_names_its_schedules_and_a_smaller_count_the_first_of_them() -> None:
    assert suites.random_recipes(1, 30) == RECIPES[:30]
    assert not {recipe.key for recipe in suites.random_recipes(2, 200)} & {recipe.key for recipe in RECIPES}


def test_only_the_generator_that_python_promises_to_keep_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """``random()`` alone: choice, shuffle and the like may draw otherwise in another Python."""

    def only(seed: int) -> SimpleNamespace:
        return SimpleNamespace(random=random.Random(seed).random)

    monkeypatch.setattr(suites, "random", SimpleNamespace(Random=only))
    assert suites.random_recipes(1, 30) == RECIPES[:30]


def test_every_case_is_another_one_and_is_rebuilt_from_a_record() -> None:
    assert len({recipe.key for recipe in RECIPES}) == len(RECIPES)
    assert len({records.digest(schedule) for schedule in drawn_schedules()}) == len(RECIPES)
    for recipe, schedule in list(zip(RECIPES, drawn_schedules(), strict=True))[::4]:
        again = msgspec.json.decode(msgspec.json.encode(recipe), type=records.Recipe)
        assert again == recipe
        assert again.schedule() == schedule


def test_a_key_names_whatever_sets_workloads_apart() -> None:
    """Of two workloads under one name the outputs of one would be expected of the other."""
    workloads = {msgspec.json.encode(recipe.workload) for recipe in RECIPES}
    assert len({recipe.key.partition(" of ")[2] for recipe in RECIPES}) == len(workloads)


# The suite of programs


@examples(20)
@given(st.integers(0, 1 << 63), st.integers(1, 60))
def test_a_seed_gives_the_same_programs_and_more_begin_with_the_fewer(seed: int, count: int) -> None:
    found = suites.drawn_programs(seed, count)
    assert suites.drawn_programs(seed, 60)[:count] == found
    assert len({(name, drawn.of(name).key) for drawn in found for name in LANGUAGES}) == count * len(LANGUAGES)
    for drawn in found:
        plain, workload = drawn.plain.workload, drawn.recipe.workload
        assert drawn.plain.arguments == drawn.recipe.arguments
        assert {kernel.name for kernel in plain.kernels} == {records.STAND_IN}
        assert (workload.elements or 0) * workload.inputs[0] == 4 * (plain.elements or 0)
        assert (drawn.recipe.effect == LINEAR) == (workload.kernels[0].name == LINEAR)


class Emulated:
    """A library on the clock of the stand-ins: each of its calls, and each launch of a chain, is one of theirs."""

    version = "a library of nobody"

    def __init__(self, name: str, library: Card) -> None:
        self.name, self._library = name, library

    def _call(self, *_: object) -> None:
        self._library.called("call")

    copy_in = copy_out = kernel = other = linear = record = wait = synchronize = _call

    def entered(self, _turn: int) -> Any:
        self._call()
        return nullcontext()

    def chain_s(self, launch: Callable[[Any, Any], object], floats: int, length: int) -> float:
        zeros = np.zeros(floats, np.float32)
        card = self._library
        x, y = (
            CuPyArray(card, zeros.copy()) if self.name == "cupy" else Tensor(card, zeros.copy(), True) for _ in "xy"
        )
        begin_s = time.perf_counter()
        for _ in range(length):
            launch(x, y)
        card.synchronise()
        return time.perf_counter() - begin_s


class FakeLayers:
    """In place of linear layers: one operation for each, as the stand-ins count them."""

    def __init__(self, _features: int, layers: int) -> None:
        self._layers = layers

    def __call__(self, x: Any, y: Any) -> None:
        for _ in range(1 + self._layers):
            self.layer(x, y)

    def layer(self, x: Any, y: Any) -> None:
        sys.modules["torch"].special.legendre_polynomial_p(x, 3, out=y)

    last = layer


FEW_BYTES = msgspec.structs.replace(  # no link is timed here
    records.LINK_PAIR, ops=(Copy("h2d", 4096, 1), Copy("d2h", 4096, 2), Synchronize())
)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Card:
    found = installed(monkeypatch)
    monkeypatch.setattr(suites, "ELEMENTS", (2048,))
    monkeypatch.setattr(suites, "FEATURES", (32,))
    monkeypatch.setattr(suites, "WORK", (2, 3))
    monkeypatch.setattr(hardware, "installed_libraries", lambda _: [Emulated(n, found) for n in ("cupy", "pytorch")])
    monkeypatch.setattr(hardware, "LinearLayers", FakeLayers)
    monkeypatch.setattr(programs, "LINK_PAIR", FEW_BYTES)
    monkeypatch.setenv("PATH", "")  # no nvcc
    return found


def measured(items: list[Planned]) -> dict[str, records.Entry]:
    found: list[records.Entry] = []
    with closing(Programs(fake_gpu()[0])) as runner:
        assert measure(items, runner, 3, on_entry=found.append) == found
    return {entry.key: entry for entry in found}


@pytest.mark.usefixtures("library")
def test_every_program_is_verified_and_has_its_kernels_and_its_host_beside_it() -> None:
    """A launch takes a call and its rounds of its floats; a chunk's calls are three, and one enters the stream."""
    items = planned_programs(7, 14)
    found = measured(items)
    assert {item.language for item in items} == set(LANGUAGES)
    for item in items:
        entry = found[item.key]
        assert entry.program is not None
        assert entry.program.language == item.language
        if item.language == "cuda-c++":
            assert entry.status.startswith("skipped: no nvcc to compile it with; install the CUDA toolkit")
            continue
        assert (entry.status, entry.verified, len(entry.wall_s)) == ("ok", True, 3)
        assert entry.paces_s == pytest.approx((4 * CALL_S,) * 3)
        assert entry.build() == item.schedule
        assert entry.recipe is not None
        workload, chunks = entry.recipe.workload, int(entry.recipe.arguments["chunks"])
        rows = workload.elements or 0
        is_linear = workload.kernels[0].name == LINEAR
        rounds, floats = (3, workload.inputs[0] // 4) if is_linear else (workload.kernels[0].parameter, 1)
        for times, size in ((entry.program.kernels_s, rows), (entry.program.chunks_s, -(-rows // chunks))):
            expected = CALL_S + rounds * ROUND_S * size * floats
            assert times == pytest.approx((expected,) * len(workload.kernels), rel=1e-3)
        # nothing overlaps on the stand-ins: all calls but those that enter, and all rounds
        least = chunks * (2 + len(workload.kernels)) * CALL_S + len(workload.kernels) * rounds * ROUND_S * rows * floats
        assert min(entry.wall_s) >= least


@pytest.mark.usefixtures("library")
def test_an_interrupted_run_of_programs_measures_the_others_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(str(tmp_path / "r.json.gz"), suite=records.PROGRAMS, seed=7, count=4, repeats=2)
    done: list[str] = []
    one = Programs.job

    def stopped(self: Any, item: Any) -> ProgramJob:
        done.append(item.key)
        if len(done) == 6:
            raise KeyboardInterrupt
        return one(self, item)

    monkeypatch.setattr(Programs, "job", stopped)
    with pytest.raises(KeyboardInterrupt):
        measure_plan(plan, 8, fake_gpu()[0], None)
    measure_plan(plan, 8, fake_gpu()[0], None)
    record = records.finish(records.journal_path(plan.output), plan.output)
    assert len(done) == 1 + 12  # none twice
    here = [item.key for item in campaign.planned(plan, 8) if item.language != "cuda-c++"]  # there is no nvcc
    assert [entry.key for _, entry in record.measured()] == here
    assert {run.count for run in record.runs} == {4}
    found = compare(record, make_device())
    assert (len(found.rows), found.unpredicted, found.front_ends) == (8, (), ("cupy", "pytorch"))
