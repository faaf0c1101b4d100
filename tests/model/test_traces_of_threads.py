"""What host threads do besides, by hand: work between calls, calls that say what they cost, waits for each other."""

import pytest
from strategies import NS, d2h, h2d, kernel, make_device, plan

from streamsim.analysis import lower_bound
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import (
    HostWork,
    Synchronize,
    WaitThread,
)
from streamsim.timeline import critical_path

ONE_STREAM = {"streams": 1}


def test_the_next_call_comes_after_the_hosts_work() -> None:
    """A copy's call of 2 ticks at 0, work of 7, a kernel's call of 3: it returns at 12, and the kernel runs till 17."""
    device = make_device(copy=2, kernel=3)
    timeline = simulate(plan(h2d(1, 4), HostWork(7 * NS, "load"), kernel(2, 5)), device)
    assert (list(timeline.issued), list(timeline.returned)) == ([0, 2, 9], [2, 9, 12])
    assert (timeline.start[2], timeline.end[2]) == (12, 17)
    assert timeline.spans[1].label == "load"


def test_a_call_costs_what_its_op_says_and_nothing_more() -> None:
    """By the profile: 2 ticks, 4 after a wait and 8 to enter a stream. The second copy says 3 and costs 3.

    It has entered the stream and is the first copy since a wait all the same, so the third one costs 2.
    """
    device = make_device(copy=2, kernel=1, after_wait=4, enter=8)
    ops = h2d(1, 4), Synchronize(call_s=6 * NS), h2d(2, 4, call_s=3 * NS), h2d(2, 4), kernel(2, 1)
    timeline = simulate(plan(*ops), device)
    costs = [back - begin for begin, back in zip(timeline.issued, timeline.returned, strict=True)]
    assert costs == [2 + 4 + 8, 6, 3, 2, 1 + 4]


def test_a_wait_for_nothing_does_not_let_the_engines_choose() -> None:
    """All calls are free, so both copies are there at the tick 0, whatever the host waits for between them.

    The engine turns to the queue of stream 1 before that of stream 4. The first copy back is that of stream 1, from 0
    to 10; then its kernel of 30 runs beside the other copy, and all is over at 40, where the other order takes 50.
    """
    device = make_device(copy_rule="same-queue-first")
    timeline = simulate(plan(d2h(4, 10), Synchronize(stream=2), d2h(1, 10), kernel(1, 30)), device)
    assert list(timeline.end) == [20, 0, 10, 40]


def test_threads_issue_beside_each_other_and_streams_keep_the_order_of_the_list() -> None:
    """Thread 1 works for 10 ticks first, so its kernel, of stream 1, comes at 11; thread 0's copy at 2.

    The second copy of thread 0 stands behind the kernel in stream 1: called at 2, back at 4, it starts when that ends.
    """
    device = make_device(copy=2, kernel=1)
    ops = h2d(1, 4), HostWork(10 * NS, thread=1), kernel(1, 5, thread=1), h2d(1, 4)
    timeline = simulate(plan(*ops), device)
    assert list(timeline.issued) == [0, 0, 10, 2]
    assert list(timeline.returned) == [2, 10, 11, 4]
    assert list(timeline.start)[2:] == [11, 16]
    assert [step.op for step in critical_path(timeline)] == [2, 3]


def test_a_thread_waits_until_another_has_come_so_far() -> None:
    """Thread 1 waits for what thread 0 has called before: the synchronisation, which returns at 2 + 4 + 1.

    What thread 0 does behind that (9 ticks) does not hold it. Its own next wait is for nobody's calls: it goes on.
    """
    device = make_device(copy=2, kernel=1, wake=1)
    ops = (
        h2d(1, 4),
        Synchronize(stream=1),
        WaitThread(0, thread=1),
        HostWork(9 * NS),
        kernel(2, 5, thread=1),
        WaitThread(7, thread=1),
    )
    timeline = simulate(plan(*ops), device)
    assert list(timeline.issued) == [0, 2, 0, 7, 7, 8]
    assert list(timeline.returned) == [2, 7, 7, 16, 8, 8]
    assert timeline.end[4] == 13
    assert [(step.op, step.because) for step in critical_path(timeline)] == [(0, "host"), (4, "host")]
    assert lower_bound(timeline.schedule, device).seconds == pytest.approx(13 * NS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HostWork(-1.0), "duration_s = -1.0: expected"),
        (lambda: HostWork(1.0, 5), "name = 5: expected"),  # type: ignore[arg-type]
        (lambda: WaitThread(1, thread=1), "other = 1: a thread need not wait for itself"),
        (lambda: WaitThread(0, thread=4096), "thread = 4096: expected a whole number from 0 to 1023"),
        (lambda: h2d(1, 4, call_s=-1.0), "call_s = -1.0: expected"),
        (lambda: plan(HostWork(1.0), h2d(1, 4), launch="graph"), r"ops\[0\]: the host can wait or work only after"),
        (lambda: plan(h2d(1, 4, call_s=1.0), launch="graph"), r"ops\[0\].call_s = 1.0: the launch of a graph"),
        (lambda: plan(h2d(1, 4, thread=1), launch="graph"), r"ops\[0\].thread = 1: a graph is launched by one"),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        make()  # type: ignore[operator]
