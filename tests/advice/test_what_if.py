"""What changes bring, by hand and by the patterns: steps over streams, in pieces, prefetched; calls and memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import NS, d2h, h2d, kernel, link, make_device, pipeline_of, plan

from streamsim import program
from streamsim.advice import what_if
from streamsim.device import load_device, with_memory_limit
from streamsim.errors import NoRoomError
from streamsim.model import simulate
from streamsim.transform import Work, in_pieces, in_streams, pinned, prefetched
from streamsim.transform import changes as change

DEVICE = make_device(copy=1, kernel=1)


def ticks(schedule: program.Schedule) -> int:
    return round(simulate(schedule, make_device()).makespan_s / NS)


def loop(steps: int, *between: program.Op) -> program.Schedule:
    """Steps of 10 ticks in, 20 of work and 10 back in one stream; ``between``: what the host does after each."""
    ops = [op for _ in range(steps) for op in (h2d(1, 10), kernel(1, 20), d2h(1, 10), *between)]
    return plan(*ops, program.Synchronize(), streams=1)


# Steps


@given(st.integers(2, 12), st.integers(1, 6), st.sampled_from(("ideal", "h200", "c1060")))
def test_chunks_dealt_out_to_streams_are_the_depth_first_pattern(chunks: int, streams: int, name: str) -> None:
    """A pipeline in one stream, its steps in so many: what the pattern for that many streams takes, on any card."""
    device, workload = load_device(name), pipeline_of(12 * 65536)
    dealt = in_streams(program.depth_first(workload, chunks, 1), min(streams, chunks))
    assert (
        simulate(dealt, device).makespan_s
        == simulate(program.depth_first(workload, chunks, streams), device).makespan_s
    )


def test_steps_in_pieces_by_hand() -> None:
    """Two steps of 40 in one stream: 80. In two pieces each over two streams they overlap.

    Copies of 5 back to back, kernels of 10 that take turns: the last of four ends at 5 + 4 x 10, and is copied back.
    """
    plain = loop(2)
    device = make_device()
    assert ticks(plain) == 80
    cut, _ = in_pieces(plain, 2)
    assert [op.bytes for op in cut.ops if isinstance(op, program.Copy)] == [5] * 8
    assert [op.duration_s for op in cut.ops if isinstance(op, program.Kernel)] == [10 * NS] * 4
    assert ticks(cut) == 80
    both = what_if(plain, device, [change.chunks(4), change.streams(2)], True)
    assert round(both.together.takes_s / NS) == 5 + 4 * 10 + 5
    assert [round(outcome.takes_s / NS) for outcome in both.alone] == [80, 60]


def test_later_pieces_are_called_where_the_caches_are_warm() -> None:
    """Of kernels' calls of 9, 5, 4 in each of two steps the fast quarter ends with the second 4, of the work with 2.

    Copies have no faster ones of their kind than those behind the wait. What has a name is the program's own work: each
    of three pieces has its share of 21.
    """
    calls = (
        *(h2d(1, 10, call_s=8 * NS), program.HostWork(6 * NS), kernel(1, 20, call_s=9 * NS)),
        *(
            program.HostWork(2 * NS),
            kernel(1, 20, call_s=5 * NS),
            program.HostWork(3 * NS),
            kernel(1, 20, call_s=4 * NS),
        ),
        *(program.HostWork(21 * NS, "load"), d2h(1, 10, call_s=3 * NS)),
    )
    cut, _ = in_pieces(plan(*(*calls, program.Synchronize()) * 2, streams=1), 3)
    host_s = [op.duration_s if isinstance(op, program.HostWork) else op.call_s for op in cut.ops]
    cold, warm = (8, 6, 9, 2, 5, 3, 4, 7, 3), (8, 2, 4, 2, 4, 2, 4, 7, 3)
    assert host_s == [None if t is None else t * NS for t in (*cold, *warm, *warm, None) * 2]


def test_the_host_waits_for_all_the_streams_in_which_what_it_waited_for_now_is() -> None:
    """A step in one stream and a wait for that; its two pieces in two streams need a wait for both.

    Whole steps each in its own stream are waited for one by one, so that nothing overlaps: 3 x 40.
    """
    whole = loop(3, program.Synchronize(stream=1))
    assert ticks(in_streams(whole, 2)) == 120
    waits = [op.stream for op in in_streams(in_pieces(whole, 2)[0], 2).ops if isinstance(op, program.Synchronize)]
    assert waits == [None] * 3


@pytest.mark.parametrize("depth", [1, 2, 9])
def test_prefetched_copies_hide_behind_the_work_of_the_steps_before(depth: int) -> None:
    """Three steps of 10 + 20 + 10 take 120 in one stream; with copies ahead all but the first copy in are hidden."""
    assert ticks(loop(3)) == 120
    assert ticks(prefetched(loop(3), depth)[0]) == 100


def test_a_prefetched_copy_waits_for_the_work_of_the_step_that_had_its_buffer() -> None:
    """Copies of 10, kernels of 40: with two buffers the third copy starts when the first kernel has ended, at 50."""
    ops = [op for _ in range(4) for op in (h2d(1, 10), kernel(1, 40))]
    timeline = simulate(prefetched(plan(*ops, streams=1), 1)[0], make_device())
    copies = [timeline.start[i] for i, op in enumerate(timeline.schedule.ops) if isinstance(op, program.Copy)]
    assert copies == [0, 10, 50, 90]


def test_copies_are_prefetched_where_another_thread_makes_the_backward_pass() -> None:
    """Three steps of 10 in, 20 forward, 20 backward by a thread of its own, 5 to update: 165, of which copies are 30.

    All copies but the first are hidden. Each thread calls what it called, in the order in which it did.
    """
    tidying = program.HostWork(2 * NS, thread=1)  # up behind the step before
    backward = tidying, program.WaitThread(0, thread=1), kernel(1, 20, thread=1), program.WaitThread(1)
    ops = [op for _ in range(3) for op in (h2d(1, 10), kernel(1, 20), *backward, kernel(1, 5))]
    plain = plan(*ops, streams=1)
    ahead, _ = prefetched(plain, 1)
    assert (ticks(plain), ticks(ahead)) == (165, 145)
    kept = [op for op in ahead.ops if not isinstance(op, program.Copy | program.RecordEvent | program.WaitEvent)]
    assert kept == [op for op in ops if not isinstance(op, program.Copy)]


# Changes


def pageable() -> program.Schedule:
    """Copies of pageable memory, each followed by a synchronisation, around kernels of 20."""
    found: list[program.Op] = []
    offset = 0
    for _ in range(2):
        for direction in ("h2d", "d2h"):
            region = program.Region("host", offset, 100)
            offset += 100
            found += [program.Copy(direction, 100, 1, region), program.Synchronize(stream=1)]
            found += [kernel(1, 20)] if direction == "h2d" else []
    return plan(*found, streams=1, buffers=(program.Buffer("host", 400, "pageable"),))


def test_pinned_and_asynchronous_each_alone_and_together() -> None:
    """Pageable at half a byte a tick: 4 x 200 + 2 x 20. Pinned: 4 x 100 + 40, whatever waits.

    Asynchronous alone changes nothing, for the host is held by the staging. Together nothing is held, and one stream
    takes what its ops take.
    """
    half = link(pageable_rate=0.5)
    device = make_device(h2d=half, d2h=half)
    found = what_if(pageable(), device, [change.PIN, change.ASYNC])
    assert round(found.before.takes_s / NS) == 840
    assert [round(outcome.takes_s / NS) for outcome in found.alone] == [440, 840]
    assert round(found.together.takes_s / NS) == 440
    assert sum(isinstance(op, program.Synchronize) for op in found.work.schedule.ops) == 1
    assert found.together.gain == pytest.approx(840 / 440)
    assert "count the host's copy into it" in found.notes[0]


MIB = 1 << 20
COLD_US, WARM_US = 160.0, 80.0  # what the host did behind a staged copy, and would do behind one that is not


@pytest.mark.parametrize(
    ("n_bytes", "memory", "work_us", "left_us"),
    [
        (MIB, "pageable", (COLD_US,), (WARM_US,)),
        (MIB, "pageable", (80.0, 40.0, 80.0), (40.0, 20.0, 20.0 + 40.0)),  # of the third half is behind 160 us
        (MIB, "pageable", (1000.0,), (WARM_US + 840.0,)),
        (MIB - 1, "pageable", (COLD_US,), (COLD_US,)),
        (MIB, "pinned", (COLD_US,), (COLD_US,)),
    ],
)
def test_pinned_the_host_finds_its_caches_warm(
    n_bytes: int, memory: program.MemoryKind, work_us: tuple[float, ...], left_us: tuple[float, ...]
) -> None:
    """Of what it does behind a copy of a mebibyte or more that was staged, the first 160 us in half of their time.

    Another thread works on another core, whose caches no copy has flushed.
    """
    behind = [program.HostWork(us * 1e-6) for us in work_us]
    others = (program.HostWork(5e-6, thread=1), program.HostWork(5e-6, thread=1), kernel(1, 5, call_s=0.0))
    copied = program.Copy("h2d", n_bytes, 1, program.Region("host", 0, n_bytes))
    ops: list[program.Op] = [program.HostWork(7e-6), copied, *others, *behind, program.HostWork(9e-6)]
    schedule = plan(*ops, streams=1, buffers=(program.Buffer("host", MIB, memory),))
    found = [op.duration_s * 1e6 for op in pinned(schedule).ops if isinstance(op, program.HostWork)]
    assert found == pytest.approx([7.0, 5.0, 5.0, *left_us, 9.0])


def test_pinned_calls_of_known_cost_find_their_caches_warm() -> None:
    schedule = plan(
        program.Copy("h2d", MIB, 1, program.Region("host", 0, MIB)),
        kernel(1, 5, call_s=16e-6),
        kernel(1, 5),
        streams=1,
        buffers=(program.Buffer("host", MIB, "pageable"),),
    )
    assert [op.call_s for op in pinned(schedule).ops if isinstance(op, program.Kernel)] == [pytest.approx(8e-6), None]


def test_the_front_end_and_kernels_at_another_cost() -> None:
    """Calls of 30 and short work of 10 bind a host that issues three kernels of 5: 3 x 40 - 10 + 5, then half of it.

    Work that has a name, or is long, is not the front end's.
    """
    ops = (kernel(1, 5, call_s=30 * NS), program.HostWork(10 * NS)) * 3
    half = change.front_end_cost(0.5, "0.5x")
    found = what_if(plan(*ops), DEVICE, [half])
    assert round(found.before.takes_s / NS) == 115
    assert round(found.together.takes_s / NS) == 15 + 2 * 20 + 5
    named = program.HostWork(10 * NS, "load"), program.HostWork(2e-3), program.WaitThread(1), kernel(1, 5)
    assert what_if(plan(*named), DEVICE, [half]).together.gain == 1
    twice = what_if(plan(kernel(1, 5, name="gemm_a"), kernel(1, 7)), make_device(), [change.kernels("gemm*", 2, "x")])
    assert round(twice.together.takes_s / NS) == 17


def test_the_host_waits_at_the_end_only() -> None:
    found = what_if(loop(3, program.Synchronize()), make_device(wake=50), [change.DROP_SYNC])
    assert round(found.before.takes_s / NS) == 120 + 2 * 50
    assert round(found.together.takes_s / NS) == 120


@pytest.mark.parametrize(
    ("was", "then"), [(program.breadth_first, program.depth_first), (program.depth_first, program.breadth_first)]
)
@pytest.mark.parametrize("streams", [1, 3])
def test_in_another_order_a_pattern_is_the_pattern_of_that_order(was: Any, then: Any, streams: int) -> None:
    """Nothing is assumed for it. In the order in which it is it stays as it is."""
    schedule, meant = (pattern(pipeline_of(12 * 65536), 6, streams) for pattern in (was, then))
    name = then.__name__.replace("_", "-")
    found = what_if(schedule, DEVICE, [change.order(name)])
    assert found.work.schedule.ops == meant.ops
    assert found.together.assumes == ()
    assert what_if(meant, DEVICE, [change.order(name)]).work.schedule is meant


def test_a_change_without_room_on_the_card_is_refused() -> None:
    """A ring of 2 buffers of 4 chunks holds half of 2 x 256 KiB; each chunk's own buffers hold all of it."""
    schedule = program.ring(pipeline_of(65536), 4, 2)
    small = with_memory_limit(DEVICE, 262144)
    assert what_if(schedule, small, [change.order("depth-first")]).together.gain == 1
    with pytest.raises(NoRoomError, match=r"524288 bytes .* leave out the change"):
        what_if(schedule, small, [change.buffers(0)])


def test_a_kernels_recorded_time_holds_some_of_the_gap_that_a_graph_has() -> None:
    """Three fifths of it: 8 ticks are 5 and a gap of 5 in the graph. What was recorded in a graph holds all of it.

    The first kernel is launched by itself: 10 ticks at least.
    """
    device = make_device(floor=10, graph_gap=5)
    ops = [kernel(1, 8, call_s=call * NS) for call in (2, 2, 0)]
    case = change.GRAPH.make(Work(plan(*ops, streams=1), device))
    timeline = simulate(case.schedule, case.device)
    assert list(zip(timeline.start, timeline.end, strict=True))[:3] == [(0, 10), (10, 20), (20, 28)]
