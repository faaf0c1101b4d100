"""Training loops: the time of a step by hand, and laws of what changes bring."""

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import d2h, h2d, kernel, make_device, plan

from streamsim.advice import loop_advice
from streamsim.device import Device, changed, load_device, with_memory_limit
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Copy, Kernel, Loop, Synchronize
from streamsim.races import check
from streamsim.transform import LoopSource, enough_workers, loop_of, waits_for

MS = 1e-3


def card() -> Device:
    """The ideal device: no latency, calls that cost nothing. Pinned copies run at 50 GB/s, pageable ones at 10."""
    rates = {f"{d}.bandwidth": "50GB/s" for d in ("h2d", "d2h")} | {
        f"{d}.pageable_bandwidth": "10GB/s" for d in ("h2d", "d2h")
    }
    return changed(load_device("ideal"), rates)


def seconds_a_step(loop: Loop, device: Device) -> float:
    case = LoopSource(loop, device).work()
    return case.seconds_of(simulate(*case[:2]))


LOOP = Loop(batch=100, batch_bytes=100_000_000, step_s=20 * MS)  # 10 ms pageable, 2 ms pinned


# By hand, in ms a step: a batch of 100 MB takes 10 ms from pageable memory, 2 from pinned, and a step 20.
#   in turn, pageable: 10 + 20; pinned: 2 + 20; the same in one stream without blocking
#   a prefetcher, pinned: the copy runs beside the step: 20
#   a prefetcher, pageable, copy first: the host stages for 10 before it issues the step, which the card waits for: 30
#   a prefetcher, pageable, step first: the host stages beside the step: 20
#   what workers load is staged at half that pace, for 20 ms: 20 + 20; a batch every 50 ms from 4 workers of 200 each
#   the training process loads 5 ms: in turn and blocking 5 + 10 + 20 where the loss is read; without it the load runs
#   beside the step: 10 + 20


@pytest.mark.parametrize(
    ("fields", "wanted_ms"),
    [
        ({}, 30),
        ({"is_pinned": True}, 22),
        ({"is_pinned": True, "non_blocking": True}, 22),
        ({"is_pinned": True, "non_blocking": True, "issue": "copy first"}, 20),
        ({"is_pinned": True, "non_blocking": True, "issue": "step first"}, 20),
        ({"non_blocking": True, "issue": "copy first"}, 30),
        ({"non_blocking": True, "issue": "step first"}, 20),
        ({"load_s": 120 * MS, "workers": 4}, 40),
        ({"load_s": 200 * MS, "workers": 4}, 50),
        ({"load_s": 5 * MS, "reads_loss": True}, 35),
        ({"load_s": 5 * MS}, 30),
        ({"is_pinned": True, "issue_s": 50 * MS}, 52),
    ],
)
def test_a_step_by_hand(fields: dict[str, object], wanted_ms: float) -> None:
    loop = replace(LOOP, **fields, comes_pinned=True)
    assert seconds_a_step(loop, card()) == pytest.approx(wanted_ms * MS, rel=0.01)


def test_what_a_loop_waits_for_by_hand() -> None:
    def binds(**fields: object) -> tuple[str, ...]:
        return waits_for(LoopSource(replace(LOOP, **fields), card()).work())

    assert binds() == ("the step", "the copy")  # they take turns
    assert binds(is_pinned=True, non_blocking=True, issue="step first") == ("the step",)
    assert binds(load_s=400 * MS, workers=4) == ("loading",)
    # of 11 workers that load for 200 ms each, a batch comes every 18.2 ms, and a step takes 20
    fast: dict[str, object] = {"is_pinned": True, "non_blocking": True, "issue": "step first", "comes_pinned": True}
    assert binds(load_s=200 * MS, workers=11, **fast) == ("loading", "the step")
    assert binds(batch_bytes=1_000_000_000, is_pinned=True, non_blocking=True, issue="step first")[0] != "the step"


def test_batches_that_do_not_fit_are_refused_and_a_second_one_is_not_advised() -> None:
    small = with_memory_limit(card(), 150_000_000)
    with pytest.raises(InputError, match="smaller batches"):
        loop_advice(replace(LOOP, batch_bytes=200_000_000), small)
    with pytest.raises(InputError, match="smaller batches"):
        loop_advice(replace(LOOP, issue="copy first"), small)
    assert not any("prefetcher" in trial.text for trial in loop_advice(LOOP, small).trials)
    assert any("prefetcher" in trial.text for trial in loop_advice(LOOP, card()).trials)


loops = st.builds(
    Loop,
    batch=st.integers(1, 512),
    batch_bytes=st.integers(1_000_000, 500_000_000),
    step_s=st.floats(1e-3, 0.2),
    load_s=st.sampled_from([0.0, 1e-3, 20e-3, 300e-3]),
    workers=st.integers(0, 8),
    issue_s=st.sampled_from([0.0, 5e-3]),
    is_pinned=st.booleans(),
    non_blocking=st.booleans(),
    reads_loss=st.booleans(),
    issue=st.sampled_from(["in turn", "copy first", "step first"]),
)


@examples(60)
@given(loops)
def test_no_loop_races_and_every_step_has_its_batch(loop: Loop) -> None:
    schedule = loop.schedule(6, 1e-3)
    assert [finding for finding in check(schedule) if finding.rule == "race"] == []
    copies = [op for op in schedule.ops if isinstance(op, Copy)]
    steps = [op for op in schedule.ops if isinstance(op, Kernel)]
    assert len(copies) == len(steps) == 6
    assert all(copy.bytes == loop.batch_bytes for copy in copies)
    assert [copy.device for copy in copies] == [step.reads[0] for step in steps]


@examples(40)
@given(loops)
def test_what_comes_first_is_worth_it_and_leaves_the_step_as_it_is(loop: Loop) -> None:
    """Steps need each other's weights: no change puts two side by side."""
    found = loop_advice(loop, "h200")
    assert found.before.takes_s == pytest.approx(seconds_a_step(loop, load_device("h200")))
    assert found.first is None or found.first.gain >= 1.03
    for trial in found.trials:
        assert trial.gain == pytest.approx(found.before.takes_s / trial.takes_s)
        source = trial.work.source
        assert isinstance(source, LoopSource)
        assert (source.loop.step_s, source.loop.load_s) == (loop.step_s, loop.load_s)
        steps = [op for op in trial.work.schedule.ops if isinstance(op, Kernel)]
        assert len({op.stream for op in steps}) == 1


@examples(40)
@given(loops)
def test_enough_workers_are_enough_and_one_fewer_is_not(loop: Loop) -> None:
    device = load_device("h200")
    fast = replace(loop, is_pinned=True, non_blocking=True, issue="step first", reads_loss=False)
    count = enough_workers(LoopSource(fast, device).work())
    without_s = seconds_a_step(replace(fast, load_s=0.0, workers=fast.period_workers), device)
    assert fast.load_s / max(1, count) <= without_s * (1 + 1e-6) or count == 256
    if count > max(1, loop.workers):
        assert fast.load_s / (count - 1) > without_s * (1 - 1e-6)


def test_a_program_in_which_no_step_copies_a_batch_and_runs_a_kernel_is_refused() -> None:
    ops = kernel(1, 5), h2d(1, 4), d2h(1, 4), Synchronize()
    with pytest.raises(InputError, match="no step has a copy to the card and a kernel"):
        loop_of(plan(*ops), make_device())


@examples(60)
@given(loops, st.integers(6, 8))
def test_the_program_of_a_loop_shows_the_loop(loop: Loop, steps: int) -> None:
    """Nothing of a recording is assumed: what a loop issues says its batch, its copies, its step and its order."""
    loop = replace(loop, workers=0, issue_s=0.0)
    found = loop_of(loop.schedule(steps, 0.0), card(), loop.batch)
    assert found.load_s == pytest.approx(loop.load_s, abs=1e-8)
    assert found.step_s == pytest.approx(loop.step_s, abs=1e-8)
    read = replace(found, load_s=loop.load_s, step_s=loop.step_s, comes_pinned=False, has_own_pace=False)
    assert read == loop
    assert found.comes_pinned == loop.is_pinned
