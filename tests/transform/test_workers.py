"""Changes of training loops, and workers that load the data of any program's steps."""

from typing import Any

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import NS, h2d, kernel, make_device, plan

from streamsim.device import changed, load_device, with_memory_limit
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Copy, HostWork, Loop, Synchronize
from streamsim.transform import Change, LoopSource, Work, changed_by, enough_workers
from streamsim.transform import changes as make

MS = 1e-3
# Pinned copies run at 50 GB/s, pageable ones at 10: a batch takes 2 ms or 10.
CARD = changed(load_device("ideal"), {"h2d.bandwidth": "50GB/s", "h2d.pageable_bandwidth": "10GB/s"})
LOOP = Loop(batch=100, batch_bytes=100_000_000, step_s=20 * MS, load_s=70 * MS, reads_loss=True, has_own_pace=True)
TICKS = make_device(copy=2, kernel=3)


def of(loop: Loop) -> Work:
    return LoopSource(loop, CARD).work()


# A loop by hand, in ms a step: loading takes 70, and the copy and the step take 10 and 20 in turn. Two workers load a
# batch every 35. Four would every 17.5: the copy and the step of 30 are left. A host that does not wait for the loss
# loads or copies beside the step.


@pytest.mark.parametrize(
    ("changes", "step_ms", "words", "assumes"),
    [
        ([], 100, (), ()),
        ([make.ASYNC], 100, ("non_blocking=True",), ()),
        ([make.DROP_SYNC], 80, ("the loss read once in a while",), (make.LATER,)),
        ([make.workers(2)], 35, ("2 workers",), (make.CORES,)),
        ([make.workers(4)], 30, ("4 workers",), (make.CORES,)),
        (
            [make.DROP_SYNC, make.prefetch(1), make.workers(4)],
            20,
            ("the loss read once in a while", "a prefetcher", "4 workers"),
            (make.LATER, make.TWO_BATCHES, make.CORES),
        ),
    ],
)
def test_changes_of_a_loop_by_hand(
    changes: list[Change], step_ms: float, words: tuple[str, ...], assumes: tuple[str, ...]
) -> None:
    made = changed_by(changes, of(LOOP))
    assert made.work.seconds_of(simulate(*made.work[:2])) == pytest.approx(step_ms * MS, rel=0.01)
    assert (tuple(words for _, words in made.done), made.assumes) == (words, assumes)


def test_a_changed_loop_is_the_loop_with_other_fields_on_its_card() -> None:
    """Workers hand batches over in fresh memory, which is staged at half the card's own rate."""
    known = [make.PIN, make.ASYNC, make.prefetch(1), make.DROP_SYNC, make.workers(3), make.workers(2)]
    loop = replace(LOOP, has_own_pace=False)
    made = changed_by(known, of(loop)).work
    fields = {"is_pinned": True, "non_blocking": True, "issue": "step first", "reads_loss": False, "workers": 2}
    assert made == of(replace(loop, **fields))
    again = changed_by([make.on_device(load_device("h200"))], made).work
    assert again == LoopSource(replace(loop, **fields), load_device("h200")).work()


OTHERS = [
    *(make.OFF_LEGACY, make.WARM_CALLS, make.chunks(2), make.streams(2), make.order("depth-first")),
    *(make.DROP_WAITS, make.buffers(2), make.depth(2), make.front_end_cost(0.5, "0.5x"), make.GRAPH),
    *(make.kernels("step", 0.5, "step=0.5x"), make.STEP_GRAPHS, make.LIVE),
]


@pytest.mark.parametrize("change", OTHERS, ids=lambda change: change.option)
def test_a_change_that_a_loop_does_not_have_is_refused(change: Change) -> None:
    with pytest.raises(InputError, match=f"^{change.option}: the program is a training loop"):
        changed_by([change], of(LOOP))


def test_a_prefetcher_needs_room_for_two_batches_and_copies_one_ahead() -> None:
    small = LoopSource(LOOP, with_memory_limit(CARD, 150_000_000)).work()
    with pytest.raises(InputError, match=r"^--prefetch 1: device buffers of 200000000 bytes"):
        changed_by([make.prefetch(1)], small)
    with pytest.raises(InputError, match=r"^--prefetch 2: a training loop copies one batch ahead"):
        changed_by([make.prefetch(2)], of(LOOP))


# Any program

loops = st.builds(
    Loop,
    batch=st.just(1),
    batch_bytes=st.integers(1_000_000, 500_000_000),
    step_s=st.floats(1e-3, 0.2),
    load_s=st.sampled_from([2e-3, 20e-3, 300e-3]),
    is_pinned=st.booleans(),
    non_blocking=st.booleans(),
    reads_loss=st.booleans(),
    issue=st.sampled_from(["in turn", "step first"]),
    comes_pinned=st.just(True),
)


@examples(60)
@given(loops, st.integers(2, 7), st.integers(1, 4))
def test_workers_of_a_schedule_are_those_of_the_loop_that_it_was_made_from(loop: Loop, steps: int, count: int) -> None:
    made = changed_by([make.workers(count)], Work(loop.schedule(steps, 0.0), CARD))
    assert made.work.schedule == replace(loop, workers=count).schedule(steps, 0.0)
    assert made.assumes == (f"{make.LOADS_ALONE} and {make.CORES}",)


@examples(60)
@given(loops, st.integers(2, 7), st.integers(1, 4))
def test_a_prefetcher_copies_what_workers_have_loaded(loop: Loop, steps: int, count: int) -> None:
    loop = replace(loop, issue="in turn")
    made = changed_by([make.workers(count), make.prefetch(1)], Work(loop.schedule(steps, 0.0), CARD))
    line, ops = simulate(*made.work[:2]), made.work.schedule.ops
    loaded = [line.returned[i] for i, op in enumerate(ops) if isinstance(op, HostWork)]
    copied = [line.start[i] for i, op in enumerate(ops) if isinstance(op, Copy)]
    assert all(then >= now for then, now in zip(copied, loaded, strict=True))


@pytest.mark.parametrize("load_ms", [10, 70, 100, 2000])
def test_enough_workers_of_a_schedule_are_those_of_the_loop(load_ms: float) -> None:
    loop = replace(LOOP, load_s=load_ms * MS)
    count = -(-load_ms // 30)  # a batch is copied and run in 30 ms
    assert enough_workers(of(loop)) == count
    assert enough_workers(Work(loop.schedule(20, 0.0), CARD)) == count
    assert enough_workers(of(replace(loop, workers=80))) == 80


def load(ticks: int, thread: int = 0, name: str = "load") -> HostWork:
    return HostWork(ticks * NS, name, thread)


STEP: tuple[Any, ...] = (h2d(1, 4), kernel(1, 5))


@pytest.mark.parametrize(
    ("ops", "refusal"),
    [
        ((load(9), *STEP), "no step is repeated"),
        ((*STEP, *STEP), "the host does no work of its own before the first copy of a step"),
        ((*STEP, load(9, name=""), *STEP), "the host does no work of its own"),  # what the front end does for a call
        ((h2d(1, 4), load(9), kernel(1, 5), *STEP), "the host does no work of its own"),
        ((*STEP, load(9, name="cudaMalloc"), *STEP), "the host does no work of its own"),
        ((*STEP, load(9), *STEP, *STEP), "the host does no work of its own"),  # once: no loading of a step
    ],
)
def test_programs_whose_host_loads_nothing_between_steps_are_refused(ops: tuple[Any, ...], refusal: str) -> None:
    schedule = plan(*ops, Synchronize())
    with pytest.raises(InputError, match=f"^--workers 2: {refusal}"):
        changed_by([make.workers(2)], Work(schedule, TICKS))
    with pytest.raises(InputError, match=refusal):
        enough_workers(Work(schedule, TICKS))


def test_workers_take_threads_that_are_free_and_leave_other_work_in_its_place() -> None:
    """Behind the last step nothing is loaded; of a step the work behind its first copy is no loading."""
    other = load(3, name="log")
    ops = (load(9), *STEP, load(2), load(3, thread=2), load(4), h2d(1, 4), other, kernel(1, 5), load(8))
    made = changed_by([make.workers(1)], Work(plan(*ops), TICKS)).work.schedule
    work = [(op.duration_s, op.thread) for op in made.ops if isinstance(op, HostWork)]
    assert work == [(9 * NS, 3), (2 * NS, 3), (3 * NS, 2), (4 * NS, 3), (3 * NS, 0), (8 * NS, 0)]
