"""One small exact trace for each effect, worked by hand in the comment above it.

Ticks and bytes: on the plain device a copy of n bytes lasts n ticks, and nothing else costs anything.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import strategies as card
from strategies import d2h, h2d, kernel, link, make_device, program

from streamsim.device.kernel_costs import KernelCost
from streamsim.model import simulate
from streamsim.program.schedule import Copy, Kernel, Op, RecordEvent, Region, Schedule, Synchronize, WaitEvent

if TYPE_CHECKING:
    from streamsim.device.profile import Device

IDEAL = make_device()


def spans(device: Device, *ops: Op, **more: object) -> list[tuple[int, int]]:
    """(start, end) of every copy and kernel."""
    timeline = simulate(program(*ops, **more), device)  # type: ignore[arg-type]
    return [(s, e) for s, e, k in zip(timeline.start, timeline.end, timeline.engine, strict=True) if k >= 0]


def durations(device: Device, *ops: Op, **more: object) -> list[int]:
    """Ticks on its engine of every copy and kernel."""
    return [end - start for start, end in spans(device, *ops, **more)]


def calls(device: Device, *ops: Op, **more: object) -> list[tuple[int, int]]:
    """(issued, returned) of every host call."""
    timeline = simulate(program(*ops, **more), device)  # type: ignore[arg-type]
    return list(zip(timeline.issued, timeline.returned, strict=True))


# -- copies and the link ----------------------------------------------------------------------------------------------


def test_a_copy_takes_its_latency_and_then_its_bytes() -> None:
    # 3 + 10 / 2 = 8; 3 + 11 / 2 = 8.5, so it holds the engine for 9 ticks; each copy pays its own latency.
    device = make_device(h2d=link(latency=3, rate=2))
    assert spans(device, h2d(1, 10), h2d(1, 11)) == [(0, 8), (8, 17)]


def test_duplex_slows_only_the_part_that_overlaps() -> None:
    # The kernel holds D2H back until 4. H2D moves 4 bytes alone and 6 at 1/2: 4 + 12 = 16. D2H has moved 6 by then
    # and moves its other 4 alone: 20.
    device = make_device(h2d=link(shared=0.5), d2h=link(shared=0.5))
    assert spans(device, h2d(1, 10), kernel(2, 4), d2h(2, 10)) == [(0, 16), (0, 4), (4, 20)]


def test_a_copy_in_its_latency_does_not_slow_the_other_direction() -> None:
    # D2H holds its engine from 0 but moves bytes from 4 on: the same arithmetic as above.
    device = make_device(h2d=link(shared=0.5), d2h=link(latency=4, shared=0.5))
    assert spans(device, h2d(1, 10), d2h(2, 10)) == [(0, 16), (0, 20)]


def test_a_copy_that_ends_as_the_other_begins_is_not_slowed() -> None:
    # 17 bytes at 2 a tick hold the engine for 9 ticks, and D2H moves bytes from 9 on, 17 of them at 2: 18.
    device = make_device(h2d=link(rate=2, shared=0.5), d2h=link(latency=9, rate=2, shared=0.5))
    assert spans(device, h2d(1, 17), d2h(2, 17)) == [(0, 9), (0, 18)]


def test_which_direction_loses_is_a_parameter_of_each() -> None:
    # H2D keeps its rate: 8. D2H moves 8 / 4 = 2 bytes meanwhile, and 6 more alone: 14.
    device = make_device(h2d=link(), d2h=link(shared=0.25))
    assert spans(device, h2d(1, 8), d2h(2, 8)) == [(0, 8), (0, 14)]


def test_one_copy_engine_per_direction() -> None:
    # Same direction: one after the other, in two streams too. Other direction: at the same time.
    assert spans(IDEAL, h2d(1, 10), h2d(2, 10), d2h(3, 10)) == [(0, 10), (10, 20), (0, 10)]


def test_one_copy_engine_serves_both_directions_one_at_a_time() -> None:
    assert spans(make_device(copy_engines=1), h2d(1, 10), d2h(2, 10), kernel(3, 5)) == [(0, 10), (10, 20), (0, 5)]


def test_no_copy_engine_means_that_copies_and_kernels_exclude_each_other() -> None:
    assert spans(make_device(copy_engines=0), h2d(1, 10), kernel(2, 5), d2h(3, 10)) == [(0, 10), (10, 15), (15, 25)]


# -- the host ---------------------------------------------------------------------------------------------------------


def test_every_call_costs_the_host_time() -> None:
    # Calls at 0, 3, 6, 11, 13, 14 (copies 3, kernel 5, record 2, wait 1, synchronise 4). The card hears of an op one
    # tick after its call has returned: 3 + 1, 6 + 1, 11 + 1.
    device = make_device(copy=3, kernel=5, record=2, wait=1, synchronize=4, submit=1)
    ops = (h2d(1, 2), h2d(2, 2), kernel(3, 4), RecordEvent(0, 3), WaitEvent(0, 1), Synchronize(stream=1))
    assert spans(device, *ops) == [(4, 6), (7, 9), (12, 16)]
    assert calls(device, *ops) == [(0, 3), (3, 6), (6, 11), (11, 13), (13, 14), (14, 18)]


def test_a_blocking_copy_holds_the_host_until_it_is_done() -> None:
    # Call 0..1, copy 1..11, the host wakes 2 later: 13. The kernel's call 13..14.
    device = make_device(copy=1, kernel=1, wake=2)
    ops = (h2d(1, 10, blocking=True), kernel(2, 5))
    assert calls(device, *ops) == [(0, 13), (13, 14)]
    assert spans(device, *ops) == [(1, 11), (14, 19)]


def pageable(direction: str, stream: int, n_bytes: int) -> Copy:
    return Copy(direction, n_bytes, stream, Region(card.PAGEABLE.name, 0, n_bytes))  # type: ignore[arg-type]


def test_pageable_copies_are_slower_and_hold_the_host() -> None:
    # Call 0..1; 2 + 100 / 0.5 = 202 ticks: 1..203; the host wakes at 206. Pinned memory would return at 1.
    slow = link(pageable_latency=2, pageable_rate=0.5)
    device = make_device(h2d=slow, d2h=slow, copy=1, wake=3, immediate_bytes=64)
    for direction in ("h2d", "d2h"):
        ops = (pageable(direction, 1, 100), h2d(2, 4))
        assert calls(device, *ops, buffers=card.BUFFERS) == [(0, 206), (206, 207)]
        assert spans(device, *ops, buffers=card.BUFFERS)[0] == (1, 203)


def test_a_small_pageable_copy_to_the_card_returns_at_once() -> None:
    # 64 bytes at most: H2D returns after its call. 65 bytes hold the host (2 + 65 / 0.5 = 132), and D2H always does.
    slow = link(pageable_latency=2, pageable_rate=0.5)
    device = make_device(h2d=slow, d2h=slow, copy=1, immediate_bytes=64)
    assert calls(device, pageable("h2d", 1, 64), buffers=card.BUFFERS) == [(0, 1)]
    assert calls(device, pageable("h2d", 1, 65), buffers=card.BUFFERS) == [(0, 133)]
    assert calls(device, pageable("d2h", 1, 8), buffers=card.BUFFERS) == [(0, 19)]


def test_pageable_memory_overlaps_nothing() -> None:
    # Two chunks in two streams: the host is held in every copy, so only the kernel of chunk 1 runs beside a copy.
    # H2D 0..8, kernel 8..16 (issued at 8); the D2H call is held from 8 until its copy ends at 24; then chunk 2: 24..48.
    ops = [op for s in (1, 2) for op in (pageable("h2d", s, 8), kernel(s, 8), pageable("d2h", s, 8))]
    expected = [(0, 8), (8, 16), (16, 24), (24, 32), (32, 40), (40, 48)]
    assert spans(IDEAL, *ops, buffers=card.BUFFERS) == expected


def test_synchronising_an_event_a_stream_and_the_device() -> None:
    # H2D 0..10, kernel 10..20. Event 0 (after the H2D): called at 0, cost 1, returns at 10 + 2. Stream 1: called at 12,
    # returns at 20 + 2. D2H of stream 2: 22..27; stream 1 is idle: called at 22, returns at 23; device: at 27 + 2.
    device = make_device(synchronize=1, wake=2)
    ops = (
        h2d(1, 10), RecordEvent(0, 1), kernel(1, 10), Synchronize(event=0), Synchronize(stream=1),
        d2h(2, 5), Synchronize(stream=1), Synchronize(),
    )  # fmt: skip
    assert calls(device, *ops)[3:] == [(0, 12), (12, 22), (22, 22), (22, 23), (23, 29)]
    assert spans(device, *ops) == [(0, 10), (10, 20), (22, 27)]


def test_synchronising_an_event_never_recorded_returns_at_once() -> None:
    assert calls(make_device(synchronize=1, wake=2), kernel(1, 9), Synchronize(event=0)) == [(0, 0), (0, 1)]


def test_a_graph_is_paid_for_once() -> None:
    # 10, then 2 for each copy, while those before it run: the first is issued at 12, and the card hears of it 1 later.
    # Other calls inside the graph are free; the synchronise is not.
    costs: dict[str, Any] = {"copy": 50, "kernel": 50, "record": 50, "wait": 50, "synchronize": 4, "submit": 1}
    device = make_device(graph_launch=10, graph_node=2, **costs)
    ops = (h2d(1, 4), RecordEvent(0, 1), WaitEvent(0, 2), kernel(2, 4), d2h(2, 4), Synchronize())
    assert spans(device, *ops, launch="graph") == [(13, 17), (17, 21), (21, 25)]
    assert calls(device, *ops, launch="graph") == [(10, 12), *[(12, 12)] * 3, (12, 14), (14, 25)]


# -- streams and events -----------------------------------------------------------------------------------------------


def test_ops_of_a_stream_run_in_order_and_streams_are_independent() -> None:
    # Stream 2's kernel is issued after stream 1's, which waits for its copy, and runs before it.
    assert spans(IDEAL, h2d(1, 10), kernel(1, 5), kernel(2, 7), d2h(1, 3)) == [(0, 10), (10, 15), (0, 7), (15, 18)]


def test_crossing_engines_costs_a_hand_over() -> None:
    # 10 + 5 = 15, 19 + 1 = 20, 24 + 7 = 31; the copy of another stream depends on nothing and pays nothing.
    device = make_device(h2d_to_kernel=5, kernel_to_kernel=1, kernel_to_d2h=7)
    ops = (h2d(1, 10), kernel(1, 4), kernel(1, 4), d2h(1, 10), h2d(2, 1))
    assert spans(device, *ops) == [(0, 10), (15, 19), (20, 24), (31, 41), (10, 11)]


@pytest.mark.parametrize(
    ("field", "first", "second"),
    [
        ("h2d_to_kernel", h2d(1, 8), kernel(1, 8)),
        ("kernel_to_d2h", kernel(1, 8), d2h(1, 8)),
        ("d2h_to_h2d", d2h(1, 8), h2d(1, 8)),
        ("h2d_to_d2h", h2d(1, 8), d2h(1, 8)),
        ("kernel_to_h2d", kernel(1, 8), h2d(1, 8)),
        ("d2h_to_kernel", d2h(1, 8), kernel(1, 8)),
        ("kernel_to_kernel", kernel(1, 8), kernel(1, 8)),
    ],
)
def test_every_pair_of_engines_has_its_own_hand_over(field: str, first: Op, second: Op) -> None:
    # 8 + 6 = 14, and only for that pair.
    one: dict[str, Any] = {field: 6}
    assert spans(make_device(**one), first, second) == [(0, 8), (14, 22)]
    others: dict[str, Any] = {f.removesuffix("_s"): 6 for f in card.HAND_OVERS if f != f"{field}_s"}
    assert spans(make_device(**others), first, second) == [(0, 8), (8, 16)]


def test_an_event_to_another_stream_costs_extra() -> None:
    # Through the event: 10 + 5 + 2 = 17; within the stream: 10 + 5 = 15 (then the compute engine is free at 16).
    device = make_device(h2d_to_kernel=5, event=2)
    ops = (h2d(1, 10), RecordEvent(0, 1), kernel(1, 1), WaitEvent(0, 2), kernel(2, 1))
    assert spans(device, *ops) == [(0, 10), (15, 16), (17, 18)]


def test_an_event_costs_more_with_every_stream_beyond_two_up_to_six() -> None:
    # The kernel of stream 2 hears of the one in stream 1 at 1 + 2, 3 ticks later for each of 1, 4 and 4 more streams.
    device = make_device(event=2, event_streams=3)
    for streams, start in ((2, 3), (3, 6), (6, 15), (9, 15)):
        others = [d2h(stream, 1) for stream in range(3, streams + 1)]
        ops = (kernel(1, 1), RecordEvent(0, 1), WaitEvent(0, 2), kernel(2, 1))
        assert spans(device, *ops, *others, streams=9)[:2] == [(0, 1), (start, start + 1)]


def test_the_first_copy_and_kernel_calls_after_a_wait_cost_more() -> None:
    # The first copy and kernel on the card at 1 + 5 = 6 and 12, the second copy at 13; it ends at 23, and 1 + 5 later
    # the next copy comes: at 29, the next kernel at 35. Copies alone: 1 a call, and none more.
    device = make_device(copy=1, kernel=1, after_wait=5)
    ops = (h2d(1, 1), kernel(2, 1), h2d(1, 10, blocking=True), h2d(1, 1), kernel(2, 1))
    assert spans(device, *ops) == [(6, 7), (12, 13), (13, 23), (29, 30), (35, 36)]
    assert spans(device, h2d(1, 1), h2d(1, 10, blocking=True), h2d(1, 1)) == [(1, 2), (2, 12), (13, 14)]


def test_a_wait_captures_the_latest_record_before_it() -> None:
    # Event 0 stands for the kernel (5), then for the copy after it (5 + 7 = 12). Stream 2 waits in between and starts
    # at 5; stream 3 waits after the second record and starts at 12; stream 4 waits before any record and starts at 0.
    one_at_a_time = (
        WaitEvent(0, 4), kernel(1, 5), RecordEvent(0, 1), WaitEvent(0, 2), h2d(1, 7), RecordEvent(0, 1),
        WaitEvent(0, 3), d2h(4, 1), d2h(2, 1), d2h(3, 1),
    )  # fmt: skip
    assert spans(IDEAL, *one_at_a_time) == [(0, 5), (5, 12), (0, 1), (5, 6), (12, 13)]


def test_waiting_on_an_event_never_recorded_does_nothing() -> None:
    assert spans(IDEAL, kernel(1, 5), WaitEvent(0, 2), h2d(2, 3)) == [(0, 5), (0, 3)]


def test_an_event_carries_what_its_stream_waited_for() -> None:
    # Stream 2 does nothing but wait for stream 1 and record: stream 3 waits for the kernel all the same.
    ops = (kernel(1, 5), RecordEvent(0, 1), WaitEvent(0, 2), RecordEvent(1, 2), WaitEvent(1, 3), h2d(3, 3))
    assert spans(IDEAL, *ops) == [(0, 5), (5, 8)]


def test_an_event_stands_for_all_that_its_stream_waited_for() -> None:
    # Stream 3 waits for kernels of two streams (0..5, 5..14) and records: stream 4, and the host, wait for both.
    join = (kernel(1, 5), RecordEvent(0, 1), kernel(2, 9), RecordEvent(1, 2), WaitEvent(0, 3), WaitEvent(1, 3))
    either = (join, (*join[:4], *join[:3:-1]))  # whichever is waited for first
    for ops in either:
        assert spans(IDEAL, *ops, RecordEvent(2, 3), WaitEvent(2, 4), h2d(4, 3))[-1] == (14, 17)
        assert calls(IDEAL, *ops, RecordEvent(2, 3), Synchronize(event=2))[-1] == (0, 14)


def test_the_legacy_stream_and_ordinary_streams_wait_for_each_other() -> None:
    # D2H of stream 0 waits for the kernel of stream 1 (10); H2D of stream 2, issued later, waits for stream 0 (14).
    ops = (kernel(1, 10), d2h(0, 4), h2d(2, 3))
    assert spans(IDEAL, *ops, kind="blocking") == [(0, 10), (10, 14), (14, 17)]


def test_non_blocking_streams_are_exempt_from_the_legacy_stream() -> None:
    assert spans(IDEAL, kernel(1, 10), d2h(0, 4), h2d(2, 3)) == [(0, 10), (0, 4), (0, 3)]


def test_a_record_in_the_legacy_stream_synchronises_too() -> None:
    assert spans(IDEAL, kernel(1, 10), RecordEvent(0, 0), h2d(2, 3), kind="blocking") == [(0, 10), (10, 13)]


def test_synchronising_an_ordinary_stream_waits_for_the_legacy_op_before() -> None:
    # "... the action is queued in the legacy stream, and then all blocking streams wait on the legacy stream."
    assert calls(IDEAL, kernel(0, 10), Synchronize(stream=1), kind="blocking") == [(0, 0), (0, 10)]
    assert calls(IDEAL, kernel(0, 10), Synchronize(stream=1)) == [(0, 0), (0, 0)]
    assert calls(IDEAL, kernel(1, 10), Synchronize(stream=0), kind="blocking") == [(0, 0), (0, 10)]


# -- hardware queues and arbitration ----------------------------------------------------------------------------------


def test_a_blocked_head_blocks_what_is_behind_it_in_its_connection() -> None:
    # The first H2D waits for its kernel until 20. One connection: the second stands behind it. Many: it goes at once.
    ops = (kernel(1, 20), h2d(1, 5), h2d(2, 5))
    assert spans(make_device(connections=1), *ops) == [(0, 20), (20, 25), (25, 30)]
    assert spans(make_device(connections=32), *ops) == [(0, 20), (20, 25), (0, 5)]


def test_a_third_stream_takes_the_connection_that_was_used_least_recently() -> None:
    # Two connections: stream 3 takes stream 1's and is blocked, stream 2 is not.
    ops = (kernel(1, 20), h2d(1, 5), h2d(2, 5), h2d(3, 5))
    assert spans(make_device(connections=2), *ops) == [(0, 20), (20, 25), (0, 5), (25, 30)]


def test_three_streams_in_turn_alternate_between_two_connections() -> None:
    # Copies of 5 in streams 1 2 3 1 2 3 come through queues A B A B A B: each finds its stream's queue taken. Stream
    # 3's first one waits for its kernel until 20, and behind it in A stream 2's second one, but not stream 1's in B.
    # 0..5, 5..10, stream 1's second 10..15; at 20 stream 3's, 25 stream 2's, and in B stream 3's second: its stream
    # is free at 25, the engine at 30.
    ops = (h2d(1, 5), h2d(2, 5), kernel(3, 20), h2d(3, 5), h2d(1, 5), h2d(2, 5), h2d(3, 5))
    found = spans(make_device(connections=2), *ops)
    assert found == [(0, 5), (5, 10), (0, 20), (20, 25), (10, 15), (25, 30), (30, 35)]


def test_a_stream_keeps_its_connection_until_another_one_takes_it() -> None:
    # Queue A has stream 1's copy, which waits for its kernel until 20; B both of stream 2's: 0..5, 5..10. Stream 3
    # takes A, used less recently, and is blocked. Stream 1 has lost A then and takes B: that is all behind its first.
    ops = (kernel(1, 20), h2d(2, 5), h2d(1, 5), h2d(2, 5), h2d(3, 5), h2d(1, 5))
    found = spans(make_device(connections=2), *ops)
    assert found == [(0, 20), (0, 5), (20, 25), (5, 10), (25, 30), (30, 35)]


def test_a_stream_takes_its_own_connection_if_nobody_has() -> None:
    # The second connection is stream 2's, though it issues first. Same-queue-first begins with the first one.
    assert spans(make_device(connections=2, copy_rule="same-queue-first"), h2d(2, 5), h2d(1, 5)) == [(5, 10), (0, 5)]


def test_no_stream_takes_a_connection_while_there_is_an_unused_one() -> None:
    # Streams 1 and 3 of two connections: stream 3's home is taken, so it goes to the other one and is not blocked.
    assert spans(make_device(connections=2), kernel(1, 20), h2d(1, 5), h2d(3, 5)) == [(0, 20), (20, 25), (0, 5)]


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


def test_a_crowded_card_slows_the_first_bytes_of_a_copy_only() -> None:
    # At 1/2 a tick instead of 1: 6 bytes of 6 take 6 ticks longer, 9 of 12 and of 30 take 9, with two and three queues
    # a third and two thirds of that.
    side = link(crowded_rate=0.5, crowded_bytes=9)
    for n_bytes, longer in ((6, (0, 2, 4, 6)), (12, (0, 3, 6, 9)), (30, (0, 3, 6, 9))):
        for queues, more in enumerate(longer, 1):
            waiting = [op for s in range(1, queues + 1) for op in (WaitEvent(0, s), kernel(s, 1))]
            ops = (h2d(6, n_bytes), RecordEvent(0, 6), *waiting)
            assert durations(make_device(h2d=side), *ops, streams=7)[0] == n_bytes + more


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


# -- kernels ----------------------------------------------------------------------------------------------------------


def test_no_kernel_is_shorter_than_the_floor() -> None:
    assert spans(make_device(floor=5), kernel(1, 2), kernel(1, 9)) == [(0, 5), (5, 14)]


def test_small_kernels_run_side_by_side_while_there_is_room() -> None:
    # Halves of the card: two at a time; the third when there is room again. At most one: one after another.
    ops = [kernel(s, 10, fill=0.5) for s in (1, 2, 3)]
    assert spans(make_device(concurrent_kernels=16), *ops) == [(0, 10), (0, 10), (10, 20)]
    assert spans(make_device(concurrent_kernels=1), *ops) == [(0, 10), (10, 20), (20, 30)]


def test_an_end_that_is_heard_of_sooner_overtakes_an_earlier_one() -> None:
    # H2D ends at 10 and hands over in 10: its kernel is ready at 20. D2H ends at 13 and hands over in 2: its kernel is
    # ready at 15, while the card is idle: 15..21. Then the other one, 21..27, and the small one behind it, 27..31.
    device = make_device(h2d_to_kernel=10, d2h_to_kernel=2, concurrent_kernels=2)
    first, second, small = (h2d(1, 10), kernel(1, 6)), d2h(2, 13), kernel(1, 4, fill=0.5)
    expected = [(0, 10), (21, 27), (0, 13), (15, 21), (27, 31)]
    assert spans(device, *first, second, kernel(2, 6), small) == expected
    assert spans(device, *first, second, RecordEvent(0, 2), WaitEvent(0, 3), kernel(3, 6), small) == expected


def test_a_copy_in_the_same_stream_overtakes_one_that_waits_for_an_event() -> None:
    # The kernel of stream 1 ends at 10; stream 3 hears of it through an event, at 10 + 10 + 15. The kernel of stream 2
    # ends at 12; its copy is ready at 22 and goes first, 5 + 4 beside the H2D that runs all the time (2 + 60).
    side = link(latency=2, duplex_latency=5)
    device = make_device(h2d=side, d2h=side, kernel_to_d2h=10, event=15)
    ops = (kernel(1, 10), RecordEvent(0, 1), WaitEvent(0, 3), d2h(3, 4), kernel(2, 2), d2h(2, 4), h2d(4, 60))
    assert spans(device, *ops) == [(0, 10), (35, 44), (10, 12), (22, 31), (0, 62)]


def test_a_call_that_comes_sooner_overtakes_an_op_that_waits_for_its_hand_over() -> None:
    # H2D ends at 10; its kernel is ready at 40. The host waits for the second copy, 10..13, and then issues the kernel
    # of stream 3: 14..24, while the first one is still on its way.
    device = make_device(h2d_to_kernel=30, concurrent_kernels=2, kernel=1)
    ops = (h2d(1, 10), kernel(1, 6), h2d(2, 3, blocking=True), kernel(3, 10, fill=0.5))
    assert spans(device, *ops) == [(0, 10), (40, 46), (10, 13), (14, 24)]


def test_no_more_kernels_side_by_side_than_the_card_can_hold() -> None:
    ops = [kernel(s, 10, fill=0.1) for s in (1, 2, 3)]
    assert spans(make_device(concurrent_kernels=2), *ops) == [(0, 10), (0, 10), (10, 20)]


def test_a_later_kernel_gets_what_earlier_ones_leave_over() -> None:
    # The first fills 3/4 until 10. The second, 10 ticks at 1/2 of the card (5 in all), gets 1/4: 2.5 done by 10, and
    # the rest at 1/2: 5 more.
    device = make_device(concurrent_kernels=16)
    assert spans(device, kernel(1, 10, fill=0.75), kernel(2, 10, fill=0.5)) == [(0, 10), (0, 15)]
    # The second could fill the card: 1/2 for 10 ticks, the other 5 alone.
    assert spans(device, kernel(1, 10, fill=0.5), kernel(2, 10)) == [(0, 10), (0, 15)]
    # 1/4 until 4, 1/2 until 8, and one that could fill the card: it gets 1/4 until 4, 1/2 until 8, then all. Of its
    # 10 ticks, 1 is done at 4 and 3 at 8: 15.
    crowd = (kernel(1, 4, fill=0.25), kernel(2, 8, fill=0.5), kernel(3, 10))
    assert spans(device, *crowd) == [(0, 4), (0, 8), (0, 15)]
    # A kernel that fills the card leaves nothing.
    assert spans(device, kernel(1, 10), kernel(2, 10, fill=0.5)) == [(0, 10), (10, 20)]


def test_a_kernel_of_few_threads_takes_a_whole_wave_and_leaves_room() -> None:
    # A launch of two waves of 80 threads takes 1280 ticks. No part takes less than a quarter of a wave's 640, 160: that
    # is what a sixteenth takes, an eighth of a wave. Its work is 80 ticks of the card, so it keeps half of that busy,
    # and two run at a time.
    device = make_device(resident_threads=80, concurrent_kernels=16)
    parts = [kernel(s, 80, share=1 / 16, threads=10) for s in (1, 2, 3)]
    assert spans(device, *parts) == [(0, 160), (0, 160), (160, 320)]
    # From there on in a line: 1120 ticks more for the other 15/16, so half of it 7/15 of them more.
    assert spans(device, kernel(1, 640, share=1 / 2, threads=80)) == [(0, 160 + 1120 * 7 // 15 + 1)]  # and 2/3
    # Whole, it takes its time; half a wave fills half of the card, unless more is said.
    assert spans(device, kernel(1, 9, elements=80), kernel(2, 5, elements=160)) == [(0, 9), (9, 14)]
    assert spans(device, kernel(1, 9, elements=40), kernel(2, 9, elements=40)) == [(0, 9), (0, 9)]
    assert spans(device, kernel(1, 9, elements=40, fill=1.0), kernel(2, 9, elements=40)) == [(0, 9), (9, 18)]


def test_a_launch_with_a_duration_is_its_floor_and_the_rest() -> None:
    # 4 of 40 ticks are the launch itself: a half takes 4 + 36 / 2. The card is free for others in the last 4 of each.
    device = make_device(resident_threads=80, concurrent_kernels=16, floor=4)
    assert spans(device, kernel(1, 20, share=0.5)) == [(0, 22)]
    assert spans(device, kernel(1, 40), kernel(2, 40)) == [(0, 40), (36, 76)]
    assert spans(device, kernel(1, 40), kernel(1, 40)) == [(0, 40), (40, 80)]
    # The floor is the least that any takes.
    assert spans(device, kernel(1, 1, share=0.5)) == [(0, 4)]


def test_a_kernel_signals_the_copies_at_its_own_end_or_at_that_of_its_run() -> None:
    # Kernels 0..10 and 10..20 issued back to back. Each signals: D2H of stream 1 at 10. As a run: at 20.
    ops = (kernel(1, 10), kernel(2, 10), d2h(1, 5), d2h(2, 5))
    assert spans(make_device(connections=1), *ops) == [(0, 10), (10, 20), (10, 15), (20, 25)]
    run = make_device(connections=1, kernel_signal="run")
    assert spans(run, *ops) == [(0, 10), (10, 20), (20, 25), (25, 30)]
    # A copy issued in between ends the run.
    assert spans(run, kernel(1, 10), d2h(1, 5), kernel(2, 10), d2h(2, 5)) == [(0, 10), (10, 15), (10, 20), (20, 25)]


def test_a_run_has_ended_when_all_its_kernels_have() -> None:
    # The kernel issued last ends first (4): no copy may start before the other one has ended (10).
    device = make_device(connections=1, kernel_signal="run", concurrent_kernels=16)
    ops = (kernel(1, 10, fill=0.5), kernel(2, 4, fill=0.5), d2h(1, 5), d2h(2, 5))
    assert spans(device, *ops) == [(0, 10), (0, 4), (10, 15), (15, 20)]


def test_a_named_kernel_takes_its_time_from_the_profile() -> None:
    # 4 elements: as the first point, 5. 8 + 4 = 12 elements: half-way from 5 to 7. 32 + 16: 11 + 16 x (4 / 16).
    cost = KernelCost("table", 7, (8, 16, 32), (5e-9, 7e-9, 11e-9))
    device = make_device(kernels=(cost,))
    ops = [Kernel(1, "table", n, 7) for n in (4, 8, 12, 16, 24, 32, 48)]
    ends = [5, 5, 6, 7, 9, 11, 15]
    assert [e - s for s, e in spans(device, *ops)] == ends


def test_a_named_kernel_keeps_busy_what_its_elements_need() -> None:
    # The slope is 1/4 tick an element: 10 elements need 2.5 of the 5 ticks, half of the card, so two run side by side.
    cost = KernelCost("table", 7, (10, 20, 40), (5e-9, 5e-9, 10e-9))
    device = make_device(kernels=(cost,), concurrent_kernels=16)
    assert spans(device, *(Kernel(s, "table", 10, 7) for s in (1, 2, 3))) == [(0, 5), (0, 5), (5, 10)]


def test_few_threads_do_not_keep_the_whole_card_busy() -> None:
    # A card of 80 threads. A launch of 10 takes 10 ticks, of 80 in all 40 ticks, and every 10 more add 4 ticks: at its
    # full pace the card needs 4 ticks for 10. A launch of 80 leaves the card to others for its last 40 - 32 = 8 ticks,
    # one of 20 for a quarter of that: 2. Its 16 - 2 = 14 ticks for 20 elements, 8 at full pace, are a pace of 4/7 with
    # 20 threads; one of 10 works 10 - 1 = 9 ticks, a pace of 4/9. Of two of 10 side by side the first has that, the
    # other the 4/7 - 4/9 that are left, 8/7 of its 4 by 9, and then 4/9 of the card: done at 9 + 45/7, in the 16th
    # tick, it ends 1 later.
    cost = KernelCost("table", 7, (10, 20, 80, 160), (10e-9, 16e-9, 40e-9, 72e-9))
    device = make_device(kernels=(cost,), concurrent_kernels=16, resident_threads=80)
    assert [cost.pace(n, 80, 0.0) for n in (10, 20)] == pytest.approx([4 / 9, 4 / 7])
    assert cost.pace(80, 80, 0.0) == 1
    kernels = [Kernel(s, "table", 10, 7) for s in range(1, 9)]
    assert spans(device, kernels[0]) == [(0, 10)]
    assert spans(device, *kernels[:2]) == [(0, 10), (0, 17)]
    # Kernels that come later do not slow these two: what they add to the pace is theirs.
    found = spans(device, *kernels[:8], streams=8)
    assert found[:2] == [(0, 10), (0, 17)]
    # The card is at its full pace with 80 threads only: it needs more than 32 ticks for the 80 elements.
    assert found[-1][1] > 32


def test_a_kernel_has_no_less_than_its_own_threads_add() -> None:
    # A card of 80 threads. Launches of 10 and of 80 take 40 ticks, and 10 elements 4 at full pace. One of 80 leaves the
    # card to others for 8 ticks, so 10 go at 4/39 and 20 at 8/38 of the full pace. Beside a kernel on an eighth of the
    # card, 10 threads' worth, 8/38 - 1/8 are left, less than 4/39; but a launch of 10 adds 8/38 - 4/39, which is more:
    # it takes its 40 ticks.
    cost = KernelCost("table", 7, (10, 80, 160), (40e-9, 40e-9, 72e-9))
    device = make_device(kernels=(cost,), concurrent_kernels=16, resident_threads=80)
    assert [cost.pace(n, 80, 0.0) for n in (10, 20)] == pytest.approx([4 / 39, 8 / 38])
    assert spans(device, kernel(1, 100, fill=1 / 8), Kernel(2, "table", 10, 7)) == [(0, 100), (0, 40)]


# A card of 80 threads needs 1/2 tick an element. A launch of 80 takes 50, 10 more than its elements' 40: 4 of them, the
# floor, is the launch itself, and the other 6 pass until the last threads end. All 10 leave the card to others.
DRAINS = KernelCost("drains", 0, (80, 160), (50e-9, 90e-9))
DRAINING = make_device(kernels=(DRAINS,), concurrent_kernels=16, resident_threads=80, floor=4)


def full(stream: int, elements: int = 80) -> Kernel:
    """A launch of that cost."""
    return Kernel(stream, "drains", elements)


def test_a_kernels_last_part_leaves_the_card_to_others() -> None:
    # Alone it takes its time, and so do two in one stream.
    assert spans(DRAINING, full(1)) == [(0, 50)]
    assert spans(DRAINING, full(1), full(1)) == [(0, 50), (50, 100)]
    # In two streams the second starts 10 before the first ends, in three each 40 after the one before it; the stream
    # goes on at the end: the copies back.
    two = full(1), full(2), d2h(1, 5), d2h(2, 5)
    assert spans(DRAINING, *two) == [(0, 50), (40, 90), (50, 55), (90, 95)]
    assert spans(DRAINING, full(1), full(2), full(3)) == [(0, 50), (40, 90), (80, 130)]
    # Stream 1's second kernel is ready at 50, when stream 2's works, from 40 to 80.
    assert spans(DRAINING, full(1), full(2), full(1)) == [(0, 50), (40, 90), (80, 130)]
    # Three waves: 240 elements take 90 + 80 / 2 = 130, of which the last 10 again.
    assert spans(DRAINING, full(1, 240), full(2)) == [(0, 130), (120, 170)]
    # Of a kernel with a duration it is the floor, 4.
    assert spans(DRAINING, kernel(1, 20), full(2), kernel(3, 20)) == [(0, 20), (16, 66), (56, 76)]


def test_kernels_whose_work_is_done_do_not_count_as_running() -> None:
    # One at a time: the next starts when the work is done, too.
    one = msgspec.structs.replace(DRAINING.compute, concurrent_kernels=1)
    device = msgspec.structs.replace(DRAINING, compute=one)
    assert spans(device, full(1), full(2), full(3)) == [(0, 50), (40, 90), (80, 130)]
    # 40 elements take 50 as well: 20 of work, and 4 + 6 / 2 = 7 leave the card. So they work 43 on 20/43 of it. Two
    # side by side leave 3/43: a third has done 3 by 43, and the other 17 after 17 x 43/20 = 36.55 more: in all 80.
    halves = [full(s, 40) for s in (1, 2, 3)]
    assert spans(DRAINING, *halves) == [(0, 50), (0, 50), (0, 87)]
    # Two at a time: the third starts at 43, when both are done.
    two = msgspec.structs.replace(DRAINING.compute, concurrent_kernels=2)
    assert spans(msgspec.structs.replace(DRAINING, compute=two), *halves) == [(0, 50), (0, 50), (43, 93)]


def test_what_leaves_the_card_is_the_floor_and_the_rest_by_threads_and_never_all() -> None:
    found = [DRAINS.drain_s(n, 80, floor_s) * 1e9 for floor_s in (0.0, 4e-9, 20e-9) for n in (20, 40, 80, 400)]
    assert found == pytest.approx([2.5, 5, 10, 10, 5.5, 7, 10, 10, 10, 10, 10, 10])
    # A card of 16 threads: a launch of 16 takes 10, 2 at full pace. So of one of 8, 4 ticks would leave the card, and
    # it takes no more: one is left to work.
    cost = KernelCost("drains", 0, (8, 16, 32), (4e-9, 10e-9, 12e-9))
    device = make_device(kernels=(cost,), resident_threads=16)
    assert device.kernel_drain_s(full(1, 8)) == pytest.approx(3e-9)
    assert spans(device, full(1, 8), full(2, 8)) == [(0, 4), (1, 5)]


def test_no_part_leaves_the_card_where_its_threads_are_unknown_or_copies_and_kernels_take_turns() -> None:
    for device in (
        make_device(kernels=(DRAINS,), floor=4),
        make_device(kernels=(DRAINS,), floor=4, resident_threads=80, copy_engines=0),
    ):
        assert device.kernel_drain_s(full(1)) == 0
        assert spans(device, full(1), full(2)) == [(0, 50), (50, 100)]


def test_a_kernel_that_ends_is_seen_before_the_card_chooses() -> None:
    # At 40 the card turns to stream 2's 14 ticks, 10 of them work. At 50 that work and stream 1's first kernel end: its
    # second, issued before stream 3's, goes first.
    ops = full(1), kernel(2, 14), full(1), full(3)
    assert spans(DRAINING, *ops) == [(0, 50), (40, 54), (50, 100), (90, 140)]
    # Stream 2's kernel will be ready at 39 + 15 = 54, as is known at 40. But stream 1's next one is before, at 50.
    device = msgspec.structs.replace(
        DRAINING, hand_over=msgspec.structs.replace(DRAINING.hand_over, h2d_to_kernel_s=15e-9)
    )
    assert spans(device, full(1), full(1), h2d(2, 39), full(2)) == [(0, 50), (50, 100), (0, 39), (90, 140)]


def test_calls_take_longer_from_eight_streams_on() -> None:
    # A copy's call takes 2 ticks, a kernel's 3. Of up to four streams nothing more; of 5 to 7 neither; of 8 to 15 one
    # tick more, of 16 to 31 two. A record's call takes 1 whatever there is, and so do the calls in a graph, nothing.
    device = make_device(copy=2, kernel=3, record=1, streams=1)
    for streams, more in ((1, 0), (4, 0), (7, 0), (8, 1), (15, 1), (16, 2)):
        ops = [op for s in range(1, streams + 1) for op in (h2d(s, 1), kernel(s, 1), RecordEvent(0, s))]
        schedule = program(*ops, streams=streams)
        calls = [2 + more, 3 + more, 1] * streams
        assert list(simulate(schedule, device).issued) == [0, *accumulate(calls)][:-1]
        assert set(simulate(msgspec.structs.replace(schedule, launch="graph"), device).issued) == {0}


# -- a whole pipeline -------------------------------------------------------------------------------------------------


def test_two_chunks_with_everything_on() -> None:
    # Calls: copies 1, kernels 2 ticks: H2D1 0..1, K1 1..3, D2H1 3..4, H2D2 4..5, K2 5..7, D2H2 7..8; submit 1. H2D1:
    # ready 2, latency 1, 8 bytes: 2..11 (alone). H2D2: ready 6, engine free at 11: flows from 12. K1: 11 + 3 = 14..20.
    # D2H1: 20 + 2 = 22, flows from 23. H2D2 alone until 20: 11..20. K2: 20 + 3 = 23..29. D2H1 alone: 22..31. D2H2:
    # ready 31, 31..40. With a copy of 16 bytes in stream 3 issued last (call 8..9, ready 10, engine free at 20): flows
    # from 21; D2H1 flows from 23: by then 2 bytes alone; then 1/2 a tick each. D2H1's 8 bytes: 16 ticks, 39. H2D3 has
    # moved 2 + 8 = 10 by 39. D2H2 starts at 39 and flows from 40: H2D3 moves 1 more alone, and its last 5 at 1/2: 50.
    # D2H2 has moved 5 by 50, and 3 more alone: 53.
    duplex = link(latency=1, shared=0.5)
    device = make_device(h2d=duplex, d2h=duplex, copy=1, kernel=2, submit=1, h2d_to_kernel=3, kernel_to_d2h=2)
    chunk = [op for s in (1, 2) for op in (h2d(s, 8), kernel(s, 6), d2h(s, 8))]
    assert spans(device, *chunk) == [(2, 11), (14, 20), (22, 31), (11, 20), (23, 29), (31, 40)]
    assert spans(device, *chunk, h2d(3, 16)) == [(2, 11), (14, 20), (22, 39), (11, 20), (23, 29), (39, 53), (20, 50)]


def test_stream_and_queue_of_the_legacy_stream() -> None:
    # The legacy stream uses stream 1's connection: its copy stands behind stream 1's blocked one, not stream 2's. And
    # with two it is no third stream: stream 1 still owns its queue, and stream 2 is free to go.
    ops = (kernel(1, 20), h2d(1, 5), h2d(0, 5))
    assert spans(make_device(connections=2), *ops) == [(0, 20), (20, 25), (25, 30)]
    assert spans(make_device(connections=2), kernel(2, 20), h2d(2, 5), h2d(0, 5)) == [(0, 20), (20, 25), (0, 5)]
    both = (kernel(1, 20), h2d(1, 5), h2d(2, 5), h2d(0, 5), h2d(2, 5))
    assert spans(make_device(connections=2), *both) == [(0, 20), (20, 25), (0, 5), (25, 30), (5, 10)]


def test_a_schedule_is_not_changed_by_its_simulation() -> None:
    schedule = program(h2d(1, 4), kernel(1, 4))
    assert simulate(schedule, IDEAL).schedule is schedule
    assert schedule == Schedule((h2d(1, 4), kernel(1, 4)), ("non-blocking",) * 4)
