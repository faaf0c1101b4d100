"""Traces of hardware queues and arbitration, tick by tick, by hand."""

import pytest
from strategies import d2h, h2d, kernel, link, make_device, plan
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


# The engine is busy with the first copy until 10. Meanwhile stream 1's copy becomes ready at 8, stream 2's at 0.
CONTEST = (h2d(4, 10), kernel(1, 8), h2d(1, 5), h2d(2, 5))


def test_issue_order_takes_the_ready_head_issued_first() -> None:
    assert spans(make_device(copy_rule="issue-order"), *CONTEST) == [(0, 10), (0, 8), (10, 15), (15, 20)]


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
    timeline = simulate(plan(*(h2d(1 + i % 4, 40) for i in range(32))), device)
    order = [i for stream in range(4) for i in range(stream, 32, 4)]
    assert [timeline.start[i] for i in order] == [1 + 40 * n for n in range(32)]


def test_a_copy_takes_longer_beside_one_in_the_other_direction() -> None:
    # H2D starts at 0, alone: 2 + 10. D2H starts at 1 beside it: 5 + 4 = 9, so 1..10. The next H2D starts at 12, alone.
    # (1 tick a call: H2D at 1..13, D2H at 2..11, H2D at 13..25)
    side = link(latency=2, duplex_latency=5)
    device = make_device(h2d=side, d2h=side, copy=1)
    assert spans(device, h2d(1, 10), d2h(2, 4), h2d(1, 10)) == [(1, 13), (2, 11), (13, 25)]


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


@pytest.mark.parametrize("ops", [
    (h2d(1, 10), kernel(3, 10), kernel(1, 5), kernel(2, 5)),
    (kernel(3, 10), h2d(1, 10), kernel(1, 5), kernel(2, 5)),
])  # fmt: skip
def test_everything_that_ends_at_a_tick_is_seen_before_an_engine_chooses(ops: tuple[Op, ...]) -> None:
    # At 10 the engine becomes free and stream 1's kernel becomes ready, whichever is noticed first: issue order takes
    # it, though stream 2's kernel has been ready since 0.
    assert spans(IDEAL, *ops) == [(0, 10), (0, 10), (10, 15), (15, 20)]
