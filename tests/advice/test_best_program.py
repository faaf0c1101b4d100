"""The best way to issue the steps of a program: by hand, never slower than it is, and what ``whatif`` says of it."""

import pytest
from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import NS, d2h, h2d, kernel, make_device, plan

from streamsim import program
from streamsim.advice import what_if
from streamsim.model import simulate
from streamsim.search import best_program
from streamsim.transform import changes as make

DEVICE = make_device()


def loop(steps: int, size: int, work: int, *between: program.Op, memory: str = "pinned") -> program.Schedule:
    """Copies of ``size`` bytes in and back, ``work`` ticks between them, and what the host does after each step."""
    ops: list[program.Op] = []
    for k in range(steps):
        there, back = (
            program.Region("host", at * size, size) if memory == "pageable" else None for at in (2 * k, 2 * k + 1)
        )
        ops += (program.Copy("h2d", size, 1, there), kernel(1, work), program.Copy("d2h", size, 1, back), *between)
    buffers = (program.Buffer("host", 2 * steps * size, "pageable"),) if memory == "pageable" else ()
    return plan(*ops, program.Synchronize(), streams=1, buffers=buffers)


# The program, whether its steps are independent, and the most chunks to try; what to use, and the ticks of that.
WAYS = {
    # Steps of 40 + 80 + 40. Kernels bind: 640, and one copy in before, one back behind. Over two streams 40 + 640 + 40;
    # in 16, 32 and 64 chunks those copies are 20, 10 and 5. 128 gain less than 1 %, and end the search.
    "in pieces": (loop(8, 40, 80), True, 128, "--chunks 64 --streams 2", 640 + 2 * 5),
    # Unless steps are said to be independent, copies of the next one come beside this step's work, and that is all.
    "not shown": (loop(8, 40, 80), False, 128, "--prefetch 1", 40 + 8 * 120),
    # Pageable copies hold the host, and so does a wait after each step: then streams overlap nothing.
    "held": (loop(8, 40, 80, program.Synchronize(), memory="pageable"), True, 8, "--pin --drop-sync --streams 2", 720),
    "whole steps": (loop(8, 40, 80), True, 8, "--streams 2", 720),
    # The host works for 1,000 between steps of 60: nothing ends 1 % sooner.
    "no gain": (loop(6, 10, 40, program.HostWork(1000 * NS)), True, 128, "the program unchanged", 5060),
    # In 128 chunks all overlap but two copies of 8.
    "one step": (plan(h2d(1, 1024), kernel(1, 1024), d2h(1, 1024)), True, 128, "--chunks 128 --streams 3", 1040),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_way_to_use_by_hand(name: str) -> None:
    schedule, independent, most_chunks, words, expected = WAYS[name]
    found = best_program(schedule, DEVICE, independent, most_chunks=most_chunks).simplest
    assert (" ".join(found.options) or found.words, round(found.makespan_s / NS)) == (words, expected)


programs = st.builds(
    lambda steps, size, work, waits, host, memory: loop(
        steps, size, work, *[program.Synchronize(stream=1)] * waits, program.HostWork(host * NS), memory=memory
    ),
    st.integers(2, 4),
    st.sampled_from((1, 12, 100)),
    st.sampled_from((0, 10, 100)),
    st.integers(0, 1),
    st.sampled_from((0, 5, 400)),
    st.sampled_from(("pinned", "pageable")),
)
cards = st.builds(
    make_device,
    copy_engines=st.integers(1, 2),
    copy=st.sampled_from((0, 3)),
    kernel=st.sampled_from((0, 5, 50)),
    wait=st.sampled_from((0, 20)),
    record=st.sampled_from((0, 20)),
    event=st.sampled_from((0, 30)),
)


@examples(15)
@given(programs, cards, st.booleans())
def test_what_is_used_is_never_slower_and_takes_what_whatif_says(
    schedule: program.Schedule, device: object, independent: bool
) -> None:
    """The time is that of the changes made one after another; the program as it is takes what the model says."""
    found = best_program(schedule, device, independent, most_chunks=6, most_streams=3)  # type: ignore[arg-type]
    assert found.compared["before"].makespan_s == simulate(schedule, device).makespan_s  # type: ignore[arg-type]
    assert found.best.makespan_s <= found.simplest.makespan_s <= found.compared["before"].makespan_s
    assert found.simplest.makespan_s <= 1.01 * found.best.makespan_s
    changes = found.simplest.config.changes
    if changes:
        assert what_if(schedule, device, changes, independent).together.takes_s == found.simplest.makespan_s  # type: ignore[arg-type]
    if not independent:
        assert {"--chunks", "--streams"}.isdisjoint(found.simplest.config.options)


# Pageable copies and a wait after each step: memory, calls and streams gain only together, 48 ticks of copies.
HELD = loop(2, 12, 10, program.Synchronize(stream=1), memory="pageable")


@examples(10)
@given(programs, cards)
@example(HELD, make_device(copy_engines=1))
def test_of_whole_steps_no_way_is_overlooked_by_more_than_a_tenth(schedule: program.Schedule, device: object) -> None:
    """Every number of streams up to the steps and every depth, one by one, beside what was found."""
    found = best_program(schedule, device, True, most_chunks=1)  # type: ignore[arg-type]
    fixed = (make.PIN, make.ASYNC, make.DROP_SYNC)
    several = [(*fixed, make.streams(count)) for count in range(1, 7)]
    several += [(*fixed, make.prefetch(depth)) for depth in range(1, 6)]
    times = [what_if(schedule, device, changes, True).together.takes_s for changes in several]  # type: ignore[arg-type]
    assert found.best.makespan_s <= 1.1 * min(times)


def test_what_somebody_must_say_first_is_named_beside_the_best() -> None:
    """Over two streams the steps of 40 + 80 + 40 take 720 where copies ahead take 1,000."""
    schedule = loop(8, 40, 80)
    found = best_program(schedule, DEVICE, most_chunks=8)
    assert "your steps are independent" in found.not_tried
    assert f"{found.compared['before'].makespan_s / (720 * NS):.2f}x" in found.not_tried
    assert not best_program(schedule, DEVICE, True, most_chunks=8).not_tried
