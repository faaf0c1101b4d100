"""Laws of the suites."""

from functools import cache

import numpy as np

from streamsim.program import Copy, Kernel, RecordEvent, Schedule, WaitEvent, depth_first
from streamsim_validate.gpu.kernels import PERIOD, find_kernel, widths_of
from streamsim_validate.gpu.memory import buffers_of
from streamsim_validate.gpu.reference import run_reference
from streamsim_validate.records.recipe import relay, stages
from streamsim_validate.suites import CONNECTIONS, KI, MI, sincos, suite

STANDARD = {connections: suite("standard", connections) for connections in CONNECTIONS}
USUAL = STANDARD[8]


@cache
def schedules() -> dict[str, Schedule]:
    return {recipe.key: recipe.schedule() for recipes in STANDARD.values() for recipe in recipes}


def test_standard_covers_what_it_should() -> None:
    elements = {recipe.workload.work for recipe in USUAL}
    assert (min(elements), max(elements)) == (256 * KI, 64 * MI)
    assert any(recipe.workload.work % int(recipe.arguments["chunks"]) for recipe in USUAL)
    chunks = {int(recipe.arguments["chunks"]) for recipe in USUAL}
    assert (min(chunks), max(chunks)) == (1, 128)
    streams = {len(schedule.streams) for schedule in schedules().values()}
    assert {1, 2, 4, 8, 16, 32} <= streams
    assert max(streams) == 32
    patterns = {recipe.pattern for recipe in USUAL}
    assert {"depth-first", "breadth-first", "ring", "prefetch", "serial", "legacy"} <= patterns
    assert {2, 3, 4} <= {recipe.arguments["buffers"] for recipe in USUAL if recipe.pattern == "ring"}
    assert any(len(recipe.workload.kernels) > 1 for recipe in USUAL if recipe.pattern == "prefetch")
    assert {kernel.name for recipe in USUAL for kernel in recipe.workload.kernels} == {
        "sincos",
        "vector_add",
        "copy",
        "sleep",
    }
    assert {"pageable", "blocking", "legacy", "graph", "events", "quarter output", "no output", "vector add"} <= {
        recipe.effect for recipe in USUAL
    }
    assert any(recipe.workload.inputs == (16,) and recipe.workload.outputs == (4,) for recipe in USUAL)
    assert any(recipe.workload.outputs == () for recipe in USUAL)


def test_every_kernel_can_be_replayed() -> None:
    kernels = {op for schedule in schedules().values() for op in schedule.ops if isinstance(op, Kernel)}
    for kernel in kernels:
        widths_of(find_kernel(kernel), kernel)


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


def test_it_fits_a_small_card() -> None:
    for schedule in schedules().values():
        need = buffers_of(schedule)
        assert sum(size for key, size in need.items() if key.memory == "device") <= 512 * MI
        assert sum(size for key, size in need.items() if key.memory != "device") <= 512 * MI


def test_quick_touches_every_effect_with_few_schedules() -> None:
    quick = suite("quick")
    assert 25 <= len(quick) <= 45
    assert {recipe.effect for recipe in quick} >= {recipe.effect for recipe in USUAL} - {"size"}
    assert all(recipe.workload.work <= 16 * MI for recipe in quick)


def test_stages_worked_by_hand() -> None:
    """Two chunks, one lane: copies in on stream 1, kernels on 2, copies out on 3; events 0, 2 arrive, 1, 3 leave."""
    ops = stages(sincos(8, 1), 2, 1).ops[:-1]
    found = [(type(op).__name__, op.stream, getattr(op, "event", None)) for op in ops]
    chunk = [
        ("Copy", 1),
        ("RecordEvent", 1),
        ("WaitEvent", 2),
        ("Kernel", 2),
        ("RecordEvent", 2),
        ("WaitEvent", 3),
        ("Copy", 3),
    ]
    assert [entry[:2] for entry in found] == chunk * 2
    assert [event for _, _, event in found if event is not None] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_relay_makes_each_kernel_wait_for_the_one_before() -> None:
    ops = relay(sincos(9, 1), 3, 3).ops
    assert [(op.event, op.stream) for op in ops if isinstance(op, WaitEvent)] == [(0, 2), (1, 3)]
    assert [(op.event, op.stream) for op in ops if isinstance(op, RecordEvent)] == [(0, 1), (1, 2), (2, 3)]
