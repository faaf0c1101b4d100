"""Traces of hardware queues and arbitration, tick by tick, by hand."""

import pytest
from strategies import d2h, h2d, kernel, link, make_device, program
from traces import IDEAL, spans

from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import Copy, Kernel, Op, RecordEvent, WaitEvent


def durations(device: Device, *ops: Op, **more: object) -> list[int]:
    """Ticks on its engine of every copy and kernel."""
    return [end - start for start, end in spans(device, *ops, **more)]


# -- hardware queues and arbitration ----------------------------------------------------------------------------------


def test_a_blocked_head_blocks_what_is_behind_it_in_its_connection() -> None:
    # The first H2D waits for its kernel until 20. One connection: the second stands behind it. Many: it goes at once.
    ops = (kernel(1, 20), h2d(1, 5), h2d(2, 5))
    assert spans(make_device(connections=1), *ops) == [(0, 20), (20, 25), (25, 30)]
    assert spans(make_device(connections=32), *ops) == [(0, 20), (20, 25), (0, 5)]


def test_a_head_whose_hand_over_lasts_is_started_when_it_is_over_though_nothing_else_happens_then() -> None:
    # Copies in until 20 and 40, their kernels ready 50 ticks later, side by side with room for both: at 70 the first
    # leaves the one queue, and the head behind it, which came at 40, is to be started at 90, in the middle of it.
    device = make_device(connections=1, concurrent_kernels=16, h2d_to_kernel=50)
    ops = (h2d(1, 20), h2d(2, 20), kernel(1, 60, fill=0.3), kernel(2, 60, fill=0.3))
    assert spans(device, *ops) == [(0, 20), (20, 40), (70, 130), (90, 150)]


def test_three_streams_in_turn_alternate_between_two_connections() -> None:
    # Copies of 5 in streams 1 2 3 1 2 3 come through queues A B A B A B: each finds its stream's queue taken. Stream
    # 3's first one waits for its kernel until 20, and behind it in A stream 2's second one, but not stream 1's in B.
    # 0..5, 5..10, stream 1's second 10..15; at 20 stream 3's, 25 stream 2's, and in B stream 3's second: its stream
    # is free at 25, the engine at 30.
    ops = (h2d(1, 5), h2d(2, 5), kernel(3, 20), h2d(3, 5), h2d(1, 5), h2d(2, 5), h2d(3, 5))
    found = spans(make_device(connections=2), *ops)
    assert found == [(0, 5), (5, 10), (0, 20), (20, 25), (10, 15), (25, 30), (30, 35)]


def test_no_stream_takes_a_connection_while_there_is_an_unused_one() -> None:
    # Streams 1 and 3 of two connections: stream 3's home is taken, so it goes to the other one and is not blocked.
    assert spans(make_device(connections=2), kernel(1, 20), h2d(1, 5), h2d(3, 5)) == [(0, 20), (20, 25), (0, 5)]


# Two connections, A and B, and kernels of 5 in streams 1 2 3 1 2 1 1 3, of which the first of 3 waits for a copy until
# 20. Kernels go in ready order, one at a time.
TWO_QUEUES = make_device(connections=2, kernel_rule="ready-order")
RUNS: tuple[Copy | Kernel, ...] = (h2d(3, 20), *(kernel(stream, 5) for stream in (1, 2, 3, 1, 2, 1, 1, 3)))


def test_in_a_graph_kernels_behind_kernels_of_their_stream_stand_in_no_queue() -> None:
    # The first of each stream come through A, B and A: stream 3's stands behind stream 1's. The others are ready as the
    # one before them ends. 0 and 5 the first of 1 and 2, 10 and 15 their second (ready at 5 and 10), 20 the third of 1
    # (at 15) before the first of 3 (at 20), 30 the fourth of 1 (at 25) before the second of 3 (at 30): they alternate.
    starts = (0, 0, 5, 25, 10, 15, 20, 30, 35)
    assert [start for start, _ in spans(TWO_QUEUES, *RUNS, launch="graph")] == list(starts)


def test_in_a_live_program_they_do() -> None:
    # A has 1 3 2 3 and B 2 1 1 1: of stream 1 the kernels behind the first come through B, of stream 2 through A, and
    # stand there behind the one that waits. 0 the first in A, 5 and 10 the first two in B, 15 the third (ready at 15).
    # At 20 the second in A and the fourth in B are ready; the first was issued before. 25 the third in A (at 10), 30
    # the fourth in B (at 20), 35 that in A (at 25).
    starts = (0, 0, 5, 20, 10, 25, 15, 30, 35)
    assert [start for start, _ in spans(TWO_QUEUES, *RUNS)] == list(starts)


@pytest.mark.parametrize(
    "between", [RecordEvent(0, 1), WaitEvent(0, 1), d2h(1, 1)], ids=["an event", "a wait", "a copy"]
)
def test_a_copy_or_an_event_ends_a_run(between: Op) -> None:
    # A has the first kernels of streams 1 and 3, B that of stream 2, which waits for its copy until 20. The second of
    # stream 1 goes at 10, when the engine is free; or it comes through B, since stream 3 has taken A, and stands there
    # behind the one that waits. Nobody waits for the event, and nothing was recorded before.
    ops = (h2d(2, 20), kernel(1, 5), kernel(2, 5), kernel(3, 5))
    device = make_device(connections=2)
    found = [spans(device, *ops, *more, kernel(1, 5), launch="graph") for more in ((), (between,))]
    assert [one[:4] for one in found] == [[(0, 20), (0, 5), (20, 25), (5, 10)]] * 2
    assert [one[-1] for one in found] == [(10, 15), (25, 30)]


def test_a_run_takes_no_queue_from_anybody() -> None:
    # Stream 1's other kernels do not use A, so that it is the one used least recently when stream 3 comes: it stands
    # behind the first of stream 1, which waits until 20, and not, as in a live program, behind that of stream 2.
    ops = (h2d(1, 20), kernel(1, 5), kernel(2, 5), kernel(1, 5), kernel(1, 5), kernel(3, 5))
    device = make_device(connections=2)
    assert spans(device, *ops, launch="graph")[1:] == [(20, 25), (0, 5), (25, 30), (30, 35), (35, 40)]
    assert spans(device, *ops)[1:] == [(20, 25), (0, 5), (25, 30), (30, 35), (5, 10)]


def test_same_queue_first_counts_a_run_to_the_queue_of_its_first_kernel() -> None:
    # A has the first kernels of streams 1 and 3, B that of stream 2. A's turn begins at 0. At 5 its next head goes,
    # issued before the second of stream 1; at 10 that; at 15 the second of stream 3; and only then it is B's turn.
    device = make_device(connections=2, kernel_rule="same-queue-first")
    ops = [kernel(stream, 5) for stream in (1, 2, 3, 1, 3)]
    assert spans(device, *ops, launch="graph") == [(0, 5), (20, 25), (5, 10), (10, 15), (15, 20)]


def test_a_connection_has_a_queue_for_each_engine() -> None:
    # The blocked H2D does not block the D2H of the same connection.
    assert spans(make_device(connections=1), kernel(1, 20), h2d(1, 5), d2h(2, 5)) == [(0, 20), (20, 25), (0, 5)]


# The engine is busy with the first copy until 10. Meanwhile stream 1's copy becomes ready at 8, stream 2's at 0.
CONTEST = (h2d(4, 10), kernel(1, 8), h2d(1, 5), h2d(2, 5))


def test_issue_order_takes_the_ready_head_issued_first() -> None:
    assert spans(make_device(copy_rule="issue-order"), *CONTEST) == [(0, 10), (0, 8), (10, 15), (15, 20)]


def test_issue_order_does_not_wait_for_a_head_that_is_not_ready() -> None:
    # At 10 stream 1's copy is not ready (20): the engine takes what is.
    assert spans(IDEAL, h2d(4, 10), kernel(1, 20), h2d(1, 5), h2d(2, 5)) == [(0, 10), (0, 20), (20, 25), (10, 15)]


def test_ready_order_takes_the_head_that_became_ready_first() -> None:
    device = make_device(copy_rule="ready-order")
    assert spans(device, *CONTEST) == [(0, 10), (0, 8), (15, 20), (10, 15)]
    # Ready at the same tick, 8: issue order decides.
    tie = (h2d(4, 10), kernel(1, 8), RecordEvent(0, 1), WaitEvent(0, 2), h2d(2, 5), h2d(1, 5))
    assert spans(device, *tie) == [(0, 10), (0, 8), (10, 15), (15, 20)]


def test_same_queue_first_drains_a_queue_before_it_turns_to_the_next() -> None:
    # 32 copies of 40 ticks, round-robin over 4 streams, one tick a call. Copy 0 starts at 1 and ends at 41, when all
    # are issued: the rest of stream 1, then all eight of stream 2, of 3, of 4; each 40 after the one before.
    device = make_device(copy_rule="same-queue-first", copy=1)
    timeline = simulate(program(*(h2d(1 + i % 4, 40) for i in range(32))), device)
    order = [i for stream in range(4) for i in range(stream, 32, 4)]
    assert [timeline.start[i] for i in order] == [1 + 40 * n for n in range(32)]


def test_same_queue_first_turns_away_from_a_blocked_queue_and_from_one_that_has_run_dry() -> None:
    # Stream 1's turn begins at 0 with two copies, the second of which waits for a kernel until 12: at 5 it is blocked,
    # so stream 2 has its turn: 5..10, and its second copy at 10..15 though stream 1's is not ready before 12.
    device = make_device(copy_rule="same-queue-first")
    ops = (h2d(1, 5), kernel(3, 12), RecordEvent(0, 3), WaitEvent(0, 1), h2d(1, 5), h2d(2, 5), h2d(2, 5))
    assert spans(device, *ops) == [(0, 5), (0, 12), (15, 20), (5, 10), (10, 15)]
    # Calls return at 3, 6 and 9: stream 1 is dry at 8, so stream 2's copy goes before stream 1's second.
    slow = make_device(copy_rule="same-queue-first", copy=3)
    assert spans(slow, h2d(1, 5), h2d(2, 5), h2d(1, 5)) == [(3, 8), (8, 13), (13, 18)]
    # While nobody else is ready the turn stays: at 8 nothing is, at 9 stream 1's second copy.
    assert spans(slow, h2d(1, 5), kernel(1, 1), h2d(1, 5), h2d(2, 5)) == [(3, 8), (8, 9), (9, 14), (14, 19)]


def test_a_copy_takes_longer_beside_one_in_the_other_direction() -> None:
    # H2D starts at 0, alone: 2 + 10. D2H starts at 1 beside it: 5 + 4 = 9, so 1..10. The next H2D starts at 12, alone.
    # (1 tick a call: H2D at 1..13, D2H at 2..11, H2D at 13..25)
    side = link(latency=2, duplex_latency=5)
    device = make_device(h2d=side, d2h=side, copy=1)
    assert spans(device, h2d(1, 10), d2h(2, 4), h2d(1, 10)) == [(1, 13), (2, 11), (13, 25)]


def test_a_copy_that_is_ready_later_goes_by_what_runs_then() -> None:
    # Stream 1's kernel ends at 10 and hands over in 10: D2H starts at 20. H2D was there when the kernel ended, but has
    # ended at 2 + 13 = 15, or just at 20: D2H is alone, 2 + 4. H2D until 2 + 28 = 30: D2H is beside it, 5 + 4. No H2D
    # at 10, but one from 16 on, 4 after the kernel of stream 2 (10..12): 2 + 10, alone as it starts; D2H is beside it.
    side = link(latency=2, duplex_latency=5)
    device = make_device(h2d=side, d2h=side, kernel_to_d2h=10, kernel_to_h2d=4)
    assert spans(device, kernel(1, 10), d2h(1, 4), h2d(2, 13)) == [(0, 10), (20, 26), (0, 15)]
    assert spans(device, kernel(1, 10), d2h(1, 4), h2d(2, 18)) == [(0, 10), (20, 26), (0, 20)]
    assert spans(device, kernel(1, 10), d2h(1, 4), h2d(2, 28)) == [(0, 10), (20, 29), (0, 30)]
    ops = (kernel(1, 10), d2h(1, 4), kernel(2, 2), h2d(2, 10))
    assert spans(device, *ops) == [(0, 10), (20, 29), (10, 12), (16, 28)]


def test_copies_take_longer_as_kernels_wait_in_several_queues() -> None:
    # The kernels of q streams wait for the H2D copy as it starts and, with an engine of its own, the D2H copy: one
    # queue adds nothing, two and three a third and two thirds of 7 - 1 ticks to the latency of 1, four or more all.
    side = link(latency=1, crowded_latency=7)
    two, one, none = (make_device(copy_engines=n, h2d=side, d2h=side) for n in (2, 1, 0))
    queue = make_device(h2d=side, d2h=side, connections=1, copy_connections=8)
    for queues, latency in ((1, 1), (2, 3), (3, 5), (4, 7), (5, 7)):
        waiting = [op for s in range(1, queues + 1) for op in (WaitEvent(0, s), kernel(s, 1))]
        ops = (h2d(6, 50), RecordEvent(0, 6), *waiting, d2h(7, 10))
        assert durations(two, *ops, streams=7)[:: queues + 1] == [latency + 50, latency + 10]
        # After the H2D copy, on one engine, nobody waits. Nor do they where copies and kernels take turns. With one
        # connection, whatever waits does so in one queue.
        assert durations(one, *ops, streams=7)[:: queues + 1] == [latency + 50, 11]
        assert durations(none, *ops, streams=7)[:: queues + 1] == [51, 11]
        assert durations(queue, *ops, streams=7)[:: queues + 1] == [51, 11]


def test_kernels_whose_copies_have_ended_or_that_are_not_on_the_card_yet_crowd_nobody() -> None:
    # Until 5 the kernels of four streams wait for a copy; from then on only for the compute engine.
    side = link(latency=1, crowded_latency=7)
    waiting = [op for s in (1, 2, 3, 4) for op in (WaitEvent(0, s), kernel(s, 1))]
    ops = (kernel(7, 90), h2d(6, 5), RecordEvent(0, 6), *waiting)
    device = make_device(d2h=side)
    assert durations(device, *ops, d2h(5, 10), streams=7)[-1] == 17
    assert durations(device, *ops, WaitEvent(0, 5), d2h(5, 10), streams=7)[-1] == 11
    # A call takes 1 tick: the copy is on the card at 1 and starts; the kernels are still to be issued.
    slow = make_device(h2d=side, copy=1, kernel=1)
    assert durations(slow, h2d(5, 10), RecordEvent(0, 5), *waiting, streams=5)[0] == 11


def test_a_kernel_crowds_until_the_last_of_its_copies_has_ended() -> None:
    # Copies in streams 5, 4 and 1; stream 1's kernel waits for those of 5 and 1, stream 4's for its own. As the first
    # and the second copy start both kernels wait, in two queues: a third of 6 ticks on top of 1. As the third starts
    # only stream 1's does. Nothing comes behind the copy of stream 5 in its own stream.
    ops = (h2d(5, 10), RecordEvent(0, 5), h2d(4, 10), h2d(1, 10), WaitEvent(0, 1), kernel(1, 1), kernel(4, 1))
    assert durations(make_device(h2d=link(latency=1, crowded_latency=7)), *ops, streams=5)[:3] == [13, 13, 11]


def test_what_crowding_and_the_other_direction_add_grows_with_the_bytes_in_flight() -> None:
    # 9 of at most 12 bytes in flight: 1 + 9/12 (9 - 1) = 7 beside the other direction; 12 and 24 bytes: 9.
    side = link(latency=1, duplex_latency=9, in_flight=12)
    device = make_device(h2d=link(latency=1, duplex_latency=1), d2h=side)
    for n_bytes, latency in ((9, 7), (12, 9), (24, 9)):
        assert durations(device, h2d(1, 100), d2h(2, n_bytes)) == [101, latency + n_bytes]


def test_a_crowded_card_moves_bytes_more_slowly() -> None:
    # 12 bytes at 1/2 a tick take 12 ticks longer than at 1; with kernels that wait in two and three queues, a third and
    # two thirds of that. Beside the other direction it adds as much: for 12 bytes at 3/4 instead of 1 the latency is 4
    # instead of 0, in which nothing flows, so the other's 12 bytes are alone until then and take 4 + 8 / (3/4): 15.
    side = link(crowded_rate=0.5)
    for queues, latency in ((1, 0), (2, 4), (3, 8), (4, 12), (5, 12)):
        waiting = [op for s in range(1, queues + 1) for op in (WaitEvent(0, s), kernel(s, 1))]
        ops = (h2d(6, 12), RecordEvent(0, 6), *waiting)
        assert durations(make_device(h2d=side), *ops, streams=7)[0] == latency + 12
    both = make_device(h2d=link(shared=0.75), d2h=link(shared=0.75, crowded_rate=0.75))
    waiting = [op for s in range(1, 5) for op in (WaitEvent(0, s), kernel(s, 1))]
    ops = (h2d(6, 12), RecordEvent(0, 6), *waiting, d2h(7, 12))
    found = spans(both, *ops, streams=7)
    assert (found[0], found[-1][0]) == ((0, 15), 0)


def test_in_a_graph_a_crowd_makes_copies_begin_later_but_slows_no_bytes() -> None:
    # At 1/2 a tick instead of 1 12 bytes would take 12 ticks longer. They begin up to 6 ticks later, by thirds as ever.
    side = link(latency=1, crowded_latency=7, crowded_rate=0.5)
    for queues, latency in ((1, 1), (2, 3), (3, 5), (4, 7), (5, 7)):
        waiting = [op for s in range(1, queues + 1) for op in (WaitEvent(0, s), kernel(s, 1))]
        ops = (h2d(6, 12), RecordEvent(0, 6), *waiting)
        assert durations(make_device(h2d=side), *ops, streams=7, launch="graph")[0] == latency + 12


def test_copy_engines_have_queues_of_their_own_number() -> None:
    # Four connections for kernels, two for copies: stream 3's copy stands behind stream 1's blocked one.
    ops = (kernel(1, 20), h2d(1, 5), h2d(2, 5), h2d(3, 5))
    device = make_device(connections=4, copy_connections=2)
    assert spans(device, *ops) == [(0, 20), (20, 25), (0, 5), (25, 30)]
    assert spans(make_device(connections=4), *ops) == [(0, 20), (20, 25), (0, 5), (5, 10)]
    # And stream 3's kernel does not stand behind stream 1's.
    blocked = (h2d(1, 20), kernel(1, 5), kernel(2, 5), kernel(3, 5))
    assert spans(device, *blocked) == [(0, 20), (20, 25), (0, 5), (5, 10)]


def test_one_copy_engine_has_one_set_of_connections_for_both_directions() -> None:
    # Two of them: stream 3's copy back takes the one of stream 1, whose copy waits for its kernel until 20. Each
    # direction with an engine of its own: the first copy back of all has a queue to itself.
    ops = (kernel(1, 20), h2d(1, 5), h2d(2, 5), d2h(3, 5))
    assert spans(make_device(copy_engines=1, connections=2), *ops) == [(0, 20), (20, 25), (0, 5), (25, 30)]
    assert spans(make_device(connections=2), *ops) == [(0, 20), (20, 25), (0, 5), (0, 5)]


def test_arbitration_of_kernels_has_its_own_rule() -> None:
    # Stream 1's kernel becomes ready at 8, stream 2's is ready at 0; the engine is busy until 10.
    ops = (kernel(4, 10), h2d(1, 8), kernel(1, 5), kernel(2, 5))
    assert spans(make_device(), *ops) == [(0, 10), (0, 8), (10, 15), (15, 20)]
    assert spans(make_device(kernel_rule="ready-order"), *ops) == [(0, 10), (0, 8), (15, 20), (10, 15)]


@pytest.mark.parametrize("ops", [
    (h2d(1, 10), kernel(3, 10), kernel(1, 5), kernel(2, 5)),
    (kernel(3, 10), h2d(1, 10), kernel(1, 5), kernel(2, 5)),
])  # fmt: skip
def test_everything_that_ends_at_a_tick_is_seen_before_an_engine_chooses(ops: tuple[Op, ...]) -> None:
    # At 10 the engine becomes free and stream 1's kernel becomes ready, whichever is noticed first: issue order takes
    # it, though stream 2's kernel has been ready since 0.
    assert spans(IDEAL, *ops) == [(0, 10), (0, 10), (10, 15), (15, 20)]
