"""Traces of kernels side by side, tick by tick, by hand."""

import pytest
from strategies import d2h, kernel, make_device
from traces import spans

from streamsim.device import KernelCost
from streamsim.program import Kernel

# -- kernels ----------------------------------------------------------------------------------------------------------


def test_no_kernel_is_shorter_than_the_floor() -> None:
    assert spans(make_device(floor=5), kernel(1, 2), kernel(1, 9)) == [(0, 5), (5, 14)]


def test_small_kernels_run_side_by_side_while_there_is_room() -> None:
    # Halves of the card: two at a time; the third when there is room again. At most one: one after another.
    ops = [kernel(s, 10, fill=0.5) for s in (1, 2, 3)]
    assert spans(make_device(concurrent_kernels=16), *ops) == [(0, 10), (0, 10), (10, 20)]
    assert spans(make_device(concurrent_kernels=1), *ops) == [(0, 10), (10, 20), (20, 30)]


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


def test_kernels_that_few_threads_keep_busy_share_the_card_by_their_warps() -> None:
    # Of 80 threads one has 30 and can use all of the card, the other 10 and can use half: they get 3/4 and 1/4, whoever
    # came first. 12 at 3/4 take 16 ticks, and 8 at 1/2, which is 4 in all, 16 as well.
    device = make_device(concurrent_kernels=16, resident_threads=80)
    many, few = kernel(1, 12, fill=1.0, threads=30), kernel(2, 8, fill=0.5, threads=10)
    assert spans(device, many, few) == spans(device, few, many) == [(0, 16), (0, 16)]
    # What one cannot use goes to the others: the many use 1/4 until 12, the few 3/4, which is 9 of their 15 by then.
    many, few = kernel(1, 12, fill=0.25, threads=30), kernel(2, 15, fill=1.0, threads=10)
    assert spans(device, many, few) == [(0, 12), (0, 18)]
    # Of 40 threads beside 60 there is room for 20: 1/4 until 16, when the 12 of the first are done; of 12 8 are left.
    assert spans(device, kernel(1, 12, fill=1.0, threads=60), kernel(2, 12, fill=1.0, threads=40)) == [(0, 16), (0, 24)]
    # Of 80 threads each that keep less than the card busy the earlier takes what it can: the other has 1/4 until 10,
    # 2.5 of its 5, and then 1/2.
    first, second = kernel(1, 10, fill=0.75, threads=80), kernel(2, 10, fill=0.5, threads=80)
    assert spans(device, first, second) == [(0, 10), (0, 15)]


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


def test_what_leaves_the_card_is_the_floor_and_the_rest_by_threads_and_never_all() -> None:
    found = [DRAINS.drain_s(n, 80, floor_s) * 1e9 for floor_s in (0.0, 4e-9, 20e-9) for n in (20, 40, 80, 400)]
    assert found == pytest.approx([2.5, 5, 10, 10, 5.5, 7, 10, 10, 10, 10, 10, 10])
    # A card of 16 threads: a launch of 16 takes 10, 2 at full pace. So of one of 8, 4 ticks would leave the card, and
    # it takes no more: one is left to work.
    cost = KernelCost("drains", 0, (8, 16, 32), (4e-9, 10e-9, 12e-9))
    device = make_device(kernels=(cost,), resident_threads=16)
    assert device.occupancy(full(1, 8)).drain_s == pytest.approx(3e-9)
    assert spans(device, full(1, 8), full(2, 8)) == [(0, 4), (1, 5)]


def test_no_part_leaves_the_card_where_its_threads_are_unknown_or_copies_and_kernels_take_turns() -> None:
    for device in (
        make_device(kernels=(DRAINS,), floor=4),
        make_device(kernels=(DRAINS,), floor=4, resident_threads=80, copy_engines=0),
    ):
        assert device.occupancy(full(1)).drain_s == 0
        assert spans(device, full(1), full(2)) == [(0, 50), (50, 100)]
