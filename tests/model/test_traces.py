"""One small exact trace for each effect, worked by hand in the comment above it.

Ticks and bytes: on the plain device a copy of n bytes lasts n ticks, and nothing else costs anything.
"""

from typing import Any

import strategies as card
from strategies import NS, d2h, h2d, kernel, link, make_device, plan
from traces import IDEAL, spans

from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import Copy, HostWork, Op, RecordEvent, Region, Synchronize, WaitEvent


def calls(device: Device, *ops: Op, **more: object) -> list[tuple[int, int]]:
    """(issued, returned) of every host call."""
    timeline = simulate(plan(*ops, **more), device)  # type: ignore[arg-type]
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


def test_in_a_graph_kernels_follow_each_other_at_a_gap() -> None:
    # A launch takes 10 at least. In a graph the one behind the copy does, and those behind it take their 3 and 2 more,
    # whether a part of a launch or not.
    device = make_device(floor=10, graph_gap=2)
    ops = (h2d(1, 4), kernel(1, 3), kernel(1, 3), kernel(1, 3, elements=1), kernel(1, 3, share=0.5))
    assert spans(device, *ops) == [(0, 4), (4, 14), (14, 24), (24, 34), (34, 44)]
    assert spans(device, *ops, launch="graph") == [(0, 4), (4, 14), (14, 19), (19, 24), (24, 29)]
    # So do longer ones: 12 and 2. An event between two kernels, or a copy, and it is a launch by itself again.
    long = (kernel(1, 3), kernel(1, 12), kernel(1, 12, elements=1), RecordEvent(0, 1), kernel(1, 3))
    assert spans(device, *long, launch="graph") == [(0, 10), (10, 24), (24, 38), (38, 48)]


def test_a_graph_is_paid_for_once() -> None:
    # 10, then 2 for each copy, while those before it run: the first is issued at 12, and the card hears of it 1 later.
    # Other calls inside the graph are free; the synchronise is not.
    costs: dict[str, Any] = {"copy": 50, "kernel": 50, "record": 50, "wait": 50, "synchronize": 4, "submit": 1}
    device = make_device(graph_launch=10, graph_node=2, **costs)
    ops = (h2d(1, 4), RecordEvent(0, 1), WaitEvent(0, 2), kernel(2, 4), d2h(2, 4), Synchronize())
    assert spans(device, *ops, launch="graph") == [(13, 17), (17, 21), (21, 25)]
    assert calls(device, *ops, launch="graph") == [(10, 12), *[(12, 12)] * 3, (12, 14), (14, 25)]


# -- streams and events -----------------------------------------------------------------------------------------------


def test_crossing_engines_costs_a_hand_over() -> None:
    # 10 + 5 = 15, 19 + 1 = 20, 24 + 7 = 31; the copy of another stream depends on nothing and pays nothing.
    device = make_device(h2d_to_kernel=5, kernel_to_kernel=1, kernel_to_d2h=7)
    ops = (h2d(1, 10), kernel(1, 4), kernel(1, 4), d2h(1, 10), h2d(2, 1))
    assert spans(device, *ops) == [(0, 10), (15, 19), (20, 24), (31, 41), (10, 11)]


def test_an_op_that_comes_when_all_has_ended_that_it_waits_for_starts_at_once() -> None:
    # The copy ends at 10. A kernel that comes at 9 hears of it 5 later, in another stream 7; one that comes at 10 or 12
    # starts as it comes.
    for call, start, through_event in ((9, 15, 17), (10, 10, 10), (12, 12, 12)):
        device = make_device(h2d_to_kernel=5, event=2, kernel=call)
        assert spans(device, h2d(1, 10), kernel(1, 1)) == [(0, 10), (start, start + 1)]
        other = (h2d(1, 10), RecordEvent(0, 1), WaitEvent(0, 2), kernel(2, 1))
        assert spans(device, *other) == [(0, 10), (through_event, through_event + 1)]


def test_an_event_costs_more_with_every_stream_beyond_two_up_to_six() -> None:
    # The kernel of stream 2 hears of the one in stream 1 at 1 + 2, 3 ticks later for each of 1, 4 and 4 more streams.
    device = make_device(event=2, event_streams=3)
    for streams, start in ((2, 3), (3, 6), (6, 15), (9, 15)):
        others = [d2h(stream, 1) for stream in range(3, streams + 1)]
        ops = (kernel(1, 1), RecordEvent(0, 1), WaitEvent(0, 2), kernel(2, 1))
        assert spans(device, *ops, *others, streams=9)[:2] == [(0, 1), (start, start + 1)]


def test_a_kernel_behind_a_kernel_waits_longer_with_every_stream_beyond_two_up_to_six() -> None:
    # The second kernel of stream 1 starts at 1 + 2, 3 ticks later for each of 1, 4, 4 more streams with kernels; what
    # follows an op of another kind in its stream, and a copy behind a copy, no later. Streams of copies are in no way.
    device = make_device(kernel_to_kernel=2, event_streams=3)
    for streams, start in ((1, 3), (2, 3), (3, 6), (6, 15), (9, 15)):
        others = [kernel(stream, 1, fill=1 / 16) for stream in range(2, streams + 1)]
        chain = (kernel(1, 1, fill=1 / 16), kernel(1, 1), h2d(1, 1), h2d(1, 1), kernel(1, 1))
        found = spans(device, *chain, *others, streams=9)[:5]
        assert found == [(0, 1), *((start + n, start + n + 1) for n in range(4))]
        copies = [d2h(stream, 1) for stream in range(2, streams + 1)]
        assert spans(device, *chain, *copies, streams=9)[1] == (3, 4)


def test_the_first_copy_and_kernel_calls_after_a_wait_cost_more() -> None:
    # The first copy and kernel on the card at 1 + 5 = 6 and 12, the second copy at 13; it ends at 23, and 1 + 5 later
    # the next copy comes: at 29, the next kernel at 35. Copies alone: 1 a call, and none more.
    device = make_device(copy=1, kernel=1, after_wait=5)
    ops = (h2d(1, 1), kernel(2, 1), h2d(1, 10, blocking=True), h2d(1, 1), kernel(2, 1))
    assert spans(device, *ops) == [(6, 7), (12, 13), (13, 23), (29, 30), (35, 36)]
    assert spans(device, h2d(1, 1), h2d(1, 10, blocking=True), h2d(1, 1)) == [(1, 2), (2, 12), (13, 14)]


def test_a_streams_first_calls_on_each_engine_cost_more() -> None:
    # A call costs 1, the first h2d, kernel and d2h of each of two streams 4 more; events and what follows do not. The
    # launch of a graph comes to no stream's queues: 2 for each copy.
    device = make_device(copy=1, kernel=1, record=1, wait=1, first_on_stream=4, graph_node=2)
    chunk: list[Op] = [h2d(1, 1), kernel(1, 1), RecordEvent(0, 1), d2h(1, 1)]
    other: list[Op] = [WaitEvent(0, 2), kernel(2, 1), h2d(2, 1), d2h(2, 1)]
    costs = [back - begin for begin, back in calls(device, *chunk, *other, *chunk, *other)]
    assert costs == [5, 5, 1, 5, 1, 5, 5, 5, *[1] * 8]
    in_graph = [back - begin for begin, back in calls(device, *chunk, *other, launch="graph")]
    assert in_graph == [2, 0, 0, 2, 0, 0, 2, 2]


def test_a_call_that_is_not_behind_one_of_its_kind_costs_more() -> None:
    # A call costs 1, and 4 more behind another kind: copies in and out are two kinds, and so are records and waits,
    # whatever their streams; so does what follows the host's own work. The launch of a graph makes one call.
    device = make_device(copy=1, kernel=1, record=1, wait=1, synchronize=1, turn=4, graph_node=2)
    ops: list[Op] = [h2d(1, 1), h2d(2, 1), d2h(2, 1), kernel(1, 1), kernel(3, 1), RecordEvent(0, 1), RecordEvent(1, 2)]
    ops += [WaitEvent(0, 2), WaitEvent(1, 3), kernel(2, 1)]
    costs = [back - begin for begin, back in calls(device, *ops, HostWork(7 * NS), kernel(2, 1), kernel(1, 1))]
    assert costs == [5, 1, 5, 5, 1, 5, 1, 5, 1, 5, 7, 5, 1]
    assert [back - begin for begin, back in calls(device, *ops, launch="graph")] == [2, 2, 2, *[0] * 7]
    two_threads = h2d(1, 1), kernel(2, 1, thread=1), h2d(1, 1), kernel(2, 1, thread=1)
    assert [back - begin for begin, back in calls(device, *two_threads)] == [5, 5, 1, 1]


def test_the_first_launch_of_each_kernel_costs_more() -> None:
    # By name: "sum" 1 + 6 once, whatever its stream and thread; a kernel of another name again. Graphs launch nothing.
    device = make_device(kernel=1, copy=2, first_launch=6)
    ops = kernel(1, 1, name="sum"), h2d(1, 1), kernel(2, 1, name="sum"), kernel(1, 1, name="mean"), kernel(1, 1)
    costs = [back - begin for begin, back in calls(device, *ops, kernel(1, 1, name="sum", thread=1))]
    assert costs == [7, 2, 1, 7, 7, 1]
    assert [back - begin for begin, back in calls(device, *ops, launch="graph")] == [0] * 5


def test_a_wait_captures_the_latest_record_before_it() -> None:
    # Event 0 stands for the kernel (5), then for the copy after it (5 + 7 = 12). Stream 2 waits in between and starts
    # at 5; stream 3 waits after the second record and starts at 12; stream 4 waits before any record and starts at 0.
    one_at_a_time = (
        WaitEvent(0, 4), kernel(1, 5), RecordEvent(0, 1), WaitEvent(0, 2), h2d(1, 7), RecordEvent(0, 1),
        WaitEvent(0, 3), d2h(4, 1), d2h(2, 1), d2h(3, 1),
    )  # fmt: skip
    assert spans(IDEAL, *one_at_a_time) == [(0, 5), (5, 12), (0, 1), (5, 6), (12, 13)]


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


def test_synchronising_an_ordinary_stream_waits_for_the_legacy_op_before() -> None:
    # "... the action is queued in the legacy stream, and then all blocking streams wait on the legacy stream."
    assert calls(IDEAL, kernel(0, 10), Synchronize(stream=1), kind="blocking") == [(0, 0), (0, 10)]
    assert calls(IDEAL, kernel(0, 10), Synchronize(stream=1)) == [(0, 0), (0, 0)]
    assert calls(IDEAL, kernel(1, 10), Synchronize(stream=0), kind="blocking") == [(0, 0), (0, 10)]


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
