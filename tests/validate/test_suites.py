"""Laws of the suites."""

import random
from functools import cache
from types import SimpleNamespace
from typing import ClassVar

import msgspec
import numpy as np
import pytest

import streamsim_validate.suites as suites
from streamsim.device import load_device
from streamsim.model import simulate
from streamsim.program import Copy, Schedule, Workload, depth_first
from streamsim_validate.gpu import buffers_of
from streamsim_validate.gpu.kernels import PERIOD
from streamsim_validate.gpu.memory import run_reference
from streamsim_validate.records import Recipe, digest
from streamsim_validate.suites import (
    CONNECTIONS,
    MI,
    MOST_BYTES,
    random_recipes,
    suite,
)

STANDARD = {connections: suite("standard", connections) for connections in CONNECTIONS}


@cache
def schedules() -> dict[str, Schedule]:
    return {recipe.key: recipe.schedule() for recipes in STANDARD.values() for recipe in recipes}


def test_no_chunk_begins_where_the_host_data_repeats() -> None:
    """Else two chunks exchanged would look alike."""
    offsets = {
        op.host.offset for schedule in schedules().values() for op in schedule.ops if isinstance(op, Copy) and op.host
    }
    assert not [offset for offset in offsets if offset and offset % (4 * PERIOD) == 0]


def test_however_a_workload_is_cut_its_output_is_that_of_the_program_in_one_chunk() -> None:
    """Kernels here work element by element, so a pattern that leaves a chunk out, or mixes two up, gives another."""
    for recipe in (*STANDARD[8][::3], *STANDARD[32]):
        if recipe.workload.outputs and (recipe.workload.elements or 0) <= MI:
            (want,) = run_reference(depth_first(recipe.workload, 1, 1)).values()
            (found,) = run_reference(schedules()[recipe.key]).values()
            assert np.array_equal(found.bytes, want.bytes), recipe.key


# Laws of the suite that is drawn from a seed.


RECIPES = random_recipes(1, 400)


@cache
def drawn_schedules() -> list[Schedule]:
    return [recipe.schedule() for recipe in RECIPES]


def keys(seed: int, count: int) -> list[str]:
    return [recipe.key for recipe in random_recipes(seed, count)]


def test_a_seed_names_its_schedules_and_a_smaller_count_the_first_of_them() -> None:
    assert keys(1, 400) == [recipe.key for recipe in RECIPES]
    assert keys(1, 30) == [recipe.key for recipe in RECIPES[:30]]
    assert not set(keys(2, 200)) & {recipe.key for recipe in RECIPES}


def test_only_the_generator_that_python_promises_to_keep_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """``random()`` alone: choice, shuffle and the like may draw otherwise in another Python."""

    class Only:
        made: ClassVar[list[int]] = []

        def __init__(self, seed: int) -> None:
            self.made.append(seed)
            self.random = random.Random(seed).random

    expected = keys(1, 30)
    monkeypatch.setattr(suites, "random", SimpleNamespace(Random=Only))
    assert keys(1, 30) == expected
    assert Only.made == [1]


def test_every_case_is_another_one_and_is_rebuilt_from_a_record() -> None:
    assert len({recipe.key for recipe in RECIPES}) == len(RECIPES)
    assert len({digest(schedule) for schedule in drawn_schedules()}) == len(RECIPES)
    for recipe, schedule in zip(RECIPES, drawn_schedules(), strict=True):
        again = msgspec.json.decode(msgspec.json.encode(recipe), type=Recipe)
        assert again == recipe
        assert again.schedule() == schedule


def test_a_key_names_whatever_sets_workloads_apart() -> None:
    """Of two workloads under one name the outputs of one would be expected of the other."""

    def plain(workload: Workload) -> bytes:
        return msgspec.json.encode(workload)

    workloads = {plain(recipe.workload) for recipe in RECIPES}
    assert len({recipe.key.partition(" of ")[2] for recipe in RECIPES}) == len(workloads)
    timed = next(recipe for recipe in RECIPES if recipe.workload.kernels[0].duration_s is not None)
    kernel = timed.workload.kernels[0]
    for change in ({"duration_s": kernel.duration_s + 1e-9}, {"fill": 0.125}, {"name": "other"}):  # type: ignore[operator]
        kernels = (msgspec.structs.replace(kernel, **change), *timed.workload.kernels[1:])
        workload = msgspec.structs.replace(timed.workload, kernels=kernels)
        assert msgspec.structs.replace(timed, workload=workload).key != timed.key


def test_where_kernels_work_element_by_element_the_output_is_that_of_one_chunk() -> None:
    for recipe, schedule in zip(RECIPES[:100], drawn_schedules(), strict=False):
        if recipe.workload.outputs and recipe.effect == "named kernels" and recipe.workload.work < MI:
            want = run_reference(depth_first(recipe.workload, 1, 1)).values()
            found = run_reference(schedule).values()
            assert all(np.array_equal(a.bytes, b.bytes) for a, b in zip(found, want, strict=True)), recipe.key


def test_it_fits_a_small_card_and_is_soon_measured() -> None:
    """At most 15 ms of copies and kernels one after another; on top of them what chunks of few threads take longer."""
    h200 = load_device("h200")
    for recipe, schedule in zip(RECIPES, drawn_schedules(), strict=True):
        need = buffers_of(schedule)
        for on_card in (True, False):
            assert sum(size for key, size in need.items() if (key.memory == "device") == on_card) <= MOST_BYTES
        if len(schedule) < 150:
            assert simulate(schedule, h200).makespan_s < 20e-3, recipe.key
