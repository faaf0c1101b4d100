"""The best way to issue the steps of a program: by hand, never slower than it is, and what ``whatif`` says of it."""

from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import NS, d2h, h2d, kernel, make_device, program

from streamsim.advice import what_if
from streamsim.model import simulate
from streamsim.program import (
    Buffer,
    Copy,
    HostWork,
    Op,
    Region,
    Schedule,
    Synchronize,
)
from streamsim.search import best_program
from streamsim.transform import changes as make

DEVICE = make_device()


def loop(steps: int, size: int, work: int, *between: Op, memory: str = "pinned") -> Schedule:
    """Copies of ``size`` bytes in and back, ``work`` ticks between them, and what the host does after each step."""
    ops: list[Op] = []
    for k in range(steps):
        there, back = (Region("host", at * size, size) if memory == "pageable" else None for at in (2 * k, 2 * k + 1))
        ops += (Copy("h2d", size, 1, there), kernel(1, work), Copy("d2h", size, 1, back), *between)
    buffers = (Buffer("host", 2 * steps * size, "pageable"),) if memory == "pageable" else ()
    return program(*ops, Synchronize(), streams=1, buffers=buffers)


def test_streams_and_pieces_by_hand() -> None:
    """Eight steps of 40 + 80 + 40 in one stream: 1,280. Kernels bind: 640, and one copy in before, one back behind.

    Whole steps over two streams: 40 + 640 + 40. In 16, 32 and 64 chunks those copies are 20, 10 and 5: 680, 660, 650.
    128 chunks bring less than 1 % more, and end the search; 64 of them are within 1 % of it.
    """
    found = best_program(loop(8, 40, 80), DEVICE, independent=True)
    assert found.compared["before"].more["chunks"] == 8
    assert round(found.compared["before"].makespan_s / NS) == 8 * 160
    assert found.simplest.words == "--chunks 64 --streams 2"
    assert round(found.simplest.makespan_s / NS) == 640 + 2 * 5


def test_what_is_not_shown_is_not_tried() -> None:
    """Unless the user says so: then the copies of the next step come beside this step's work, and that is all."""
    found = best_program(loop(8, 40, 80), DEVICE)
    assert found.simplest.words == "--prefetch 1"
    assert round(found.simplest.makespan_s / NS) == 40 + 8 * 120
    (why,) = found.not_tried
    assert why.startswith("if your steps are independent: ")


def test_what_keeps_steps_apart_is_changed_with_them_and_only_if_it_must() -> None:
    """Pageable copies hold the host, and so does a wait after each step: then streams overlap nothing."""
    found = best_program(loop(8, 40, 80, Synchronize(), memory="pageable"), DEVICE, independent=True, most_chunks=8)
    assert found.simplest.words == "--pin --drop-sync --streams 2"
    pinned = best_program(loop(8, 40, 80), DEVICE, independent=True, most_chunks=8)
    assert pinned.simplest.words == "--streams 2"


def test_a_program_that_cannot_gain_is_left_as_it_is() -> None:
    """The host works for 1,000 between steps of 60: nothing that is issued otherwise ends 1 % sooner."""
    found = best_program(loop(6, 10, 40, HostWork(1000 * NS)), DEVICE, independent=True)
    assert found.simplest.config.changes == ()
    assert found.simplest.words == "the program unchanged"


def test_a_single_upload_kernel_and_download_is_a_chunk_that_is_cut() -> None:
    """1,024 + 1,024 + 1,024 in one stream. In 64 chunks all overlap but two copies of 16; 128 gain less than 1 %."""
    found = best_program(program(h2d(1, 1024), kernel(1, 1024), d2h(1, 1024)), DEVICE, independent=True)
    assert (found.compared["before"].more["chunks"], round(found.compared["before"].makespan_s / NS)) == (1, 3 * 1024)
    assert found.simplest.words == "--chunks 128 --streams 3"
    assert round(found.simplest.makespan_s / NS) == 1024 + 2 * 8


programs = st.builds(
    lambda steps, size, work, waits, host, memory: loop(
        steps, size, work, *[Synchronize(stream=1)] * waits, HostWork(host * NS), memory=memory
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
    schedule: Schedule, device: object, independent: bool
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


@examples(10)
@given(programs, cards)
def test_of_whole_steps_no_way_is_overlooked_by_more_than_a_tenth(schedule: Schedule, device: object) -> None:
    """Every number of streams up to the steps and every depth, one by one, beside what was found."""
    found = best_program(schedule, device, True, most_chunks=1)  # type: ignore[arg-type]
    fixed = (make.pin(), make.make_async(), make.drop_sync())
    several = [(*fixed, make.streams(count)) for count in range(1, 7)]
    several += [(*fixed, make.prefetch(depth)) for depth in range(1, 6)]
    times = [what_if(schedule, device, changes, True).together.takes_s for changes in several]  # type: ignore[arg-type]
    assert found.best.makespan_s <= 1.1 * min(times)
