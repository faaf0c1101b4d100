"""Lower bounds: laws on random schedules and devices, and numbers worked by hand.

LAW. The bound never exceeds the makespan, whatever the engines choose. Verified on random schedules and devices with
every effect on and off; test_work_bound.py holds it for the patterns on the shipped profiles.
LAW. In one stream nothing is left to choose: the bound is the makespan, to the tick.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    NS,
    PAGEABLE,
    d2h,
    devices,
    draining,
    h2d,
    kernel,
    link,
    make_device,
    plan,
    schedules,
    ticks,
)

from streamsim import program
from streamsim.analysis.bounds import CHAIN, HOST, LINK, Flow, duplex_bound, lower_bound
from streamsim.device import Device, KernelCost, load_device
from streamsim.model import simulate

# --- the laws -------------------------------------------------------------------------------------------------------


@given(schedules(), devices())
def test_the_bound_never_exceeds_the_makespan(schedule: program.Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    bound = lower_bound(schedule, device)
    assert bound.seconds <= timeline.makespan_s
    assert bound.seconds == max(bound.each.values())
    assert bound.each[bound.bound_by] == bound.seconds


@given(draining())
def test_the_bound_never_exceeds_the_makespan_of_kernels_that_leave_the_card(
    case: tuple[program.Schedule, Device],
) -> None:
    assert lower_bound(*case).seconds <= simulate(*case).makespan_s


@given(schedules(streams=1).filter(lambda s: all(op.stream != 0 for op in s.ops)), devices())
def test_in_one_stream_the_bound_is_the_makespan(schedule: program.Schedule, device: Device) -> None:
    assert lower_bound(schedule, device).seconds == simulate(schedule, device).makespan_s


# --- what binds, worked by hand -------------------------------------------------------------------------------------


H2D, D2H, COMPUTE = "H2D copy engine", "D2H copy engine", "compute engine"
IN_THREE = plan(h2d(1, 10), h2d(2, 10), h2d(3, 10), kernel(4, 9), kernel(4, 9), d2h(1, 4))
LOSING = link(shared=0.75)
SMALL = tuple(h2d(1 + i % 4, 4) for i in range(8))
ONE_COPY_ENGINE, NONE = make_device(copy_engines=1), make_device(copy_engines=0)
TOGETHER = plan(h2d(1, 10), d2h(2, 7), kernel(3, 12))
# A schedule, a device, the bound and bounds of single resources in ticks, and what sets it.
BOUND: dict[str, tuple[program.Schedule, Device, dict[str, int], str]] = {
    "three copies of 10 and 2 of latency": (
        IN_THREE, make_device(h2d=link(latency=2)), {"": 36, COMPUTE: 18, D2H: 4, LINK: 36}, H2D,
    ),
    "one copy engine has both directions": (TOGETHER, ONE_COPY_ENGINE, {"": 17}, "copy engine"),
    "without one all is in turn": (TOGETHER, NONE, {"": 29}, "copies and kernels in turn"),
    # 3 for each copy call, seen 2 later: H2D from 5, D2H from 8, kernels after two more calls of 1: from 9. The last
    # call returns at 3 + 3 + 1 + 1.
    "an engine starts when its first op arrives": (
        plan(h2d(1, 10), d2h(2, 10), kernel(3, 10), kernel(4, 10)), make_device(copy=3, kernel=1, submit=2),
        {"": 29, H2D: 15, D2H: 18, HOST: 10}, COMPUTE,
    ),
    # H2D 10, hand-over 3, kernel 20 | event 2, hand-over 4 | D2H 10 in another stream
    "the chain has streams, events and hand-overs": (
        plan(h2d(1, 10), kernel(1, 20), program.RecordEvent(0, 1), program.WaitEvent(0, 2), d2h(2, 10)),
        make_device(h2d_to_kernel=3, kernel_to_d2h=4, event=2), {"": 49}, CHAIN,
    ),
    # a kernel waits for a copy in until 12 in its own stream, and for a copy back until 10 that it hears of at 15
    "the longer of two ways into an op": (
        plan(h2d(1, 12), d2h(2, 10), program.RecordEvent(0, 2), program.WaitEvent(0, 1), kernel(1, 20)),
        make_device(d2h_to_kernel=5), {"": 35}, CHAIN,
    ),
    # seen 5 ticks later by the host, which then issues a kernel of 20 elsewhere
    "the host waits": (
        plan(h2d(1, 10), program.Synchronize(stream=1), kernel(2, 20)), make_device(wake=5), {"": 35}, CHAIN,
    ),
    # 8 copies of 4 in 4 streams, 10 ticks a call: the last arrives at 80 and ends at 84
    "calls are most of the chain": (plan(*SMALL), make_device(copy=10), {"": 84}, HOST),
    # 7 for the launch and 2 for the first copy, then 3 copies of 20; on the host 2 for each
    "a graph pays once": (
        plan(h2d(1, 20), h2d(2, 20), h2d(3, 20), launch="graph"), make_device(graph_launch=7, graph_node=2),
        {"": 69, HOST: 13}, H2D,
    ),
    # 400 bytes each way at 1 alone and 3/4 shared; c = time of both. Each direction flows 400 + c/4, one of them at
    # least 800 - c/2; equal at c = 533 1/3, when both have flowed all the time
    "both directions of a losing link": (
        plan(h2d(1, 400), d2h(2, 400)), make_device(h2d=LOSING, d2h=LOSING), {"": 533}, LINK,
    ),
    # the pageable copy keeps its rate for all of its 100: 100 + c/4 on the other side; 200 + c/4 - c in all, so that
    # both are 125 at c = 100
    "pageable copies are not slowed down": (
        plan(h2d(1, 100, host=program.Region(PAGEABLE.name, 0, 100)), d2h(2, 100), buffers=(PAGEABLE,)),
        make_device(h2d=LOSING, d2h=LOSING), {LINK: 125}, CHAIN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BOUND)
def test_what_binds_by_hand(what: str) -> None:
    schedule, device, expected, bound_by = BOUND[what]
    bound = lower_bound(schedule, device)
    assert {name: ticks({"": bound.seconds, **bound.each}[name]) for name in expected} == expected
    assert bound.bound_by == bound_by
    if bound_by == CHAIN:
        assert ticks(bound.seconds) == ticks(simulate(schedule, device).makespan_s)


@pytest.mark.parametrize(
    ("concurrent", "fills", "expected", "makespan"),
    [
        (1, (0.25, 0.25, 0.25, 0.25), 80, 80),  # one at a time, however small
        (16, (0.25, 0.25, 0.25, 0.25), 20, 20),  # all four at once fill the card exactly
        (16, (0.5, 0.5, 0.5, 0.5), 40, 40),  # two at once: half the card each
        (2, (0.25, 0.25, 0.25, 0.25), 40, 40),  # room for four, but two at a time
        # areas 20 + 10 + 20 + 10; in issue order the last half has the card to itself for the last 20 of 70
        (16, (1.0, 0.5, 1.0, 0.5), 60, 70),
    ],
)
def test_kernels_share_the_card(concurrent: int, fills: tuple[float, ...], expected: int, makespan: int) -> None:
    schedule = plan(*(kernel(1 + i, 20, fill=fill) for i, fill in enumerate(fills)))
    device = make_device(concurrent_kernels=concurrent)
    bound = lower_bound(schedule, device)
    assert ticks(bound.each["compute engine"]) == expected
    assert ticks(simulate(schedule, device).makespan_s) == makespan


@pytest.mark.parametrize("concurrent", [1, 16])
def test_kernels_leave_the_card_to_others_before_they_end(concurrent: int) -> None:
    # 40 ticks of work each, and 10 in which the card is free: see test_traces.DRAINS. Behind the last they are not.
    cost = KernelCost("drains", 0, (80, 160), (50 * NS, 90 * NS))
    device = make_device(kernels=(cost,), concurrent_kernels=concurrent, resident_threads=80, floor=4)
    schedule = plan(*(program.Kernel(s, "drains", 80) for s in (1, 2, 3)))
    bound = lower_bound(schedule, device)
    assert (ticks(bound.seconds), bound.bound_by) == (130, "compute engine")
    assert ticks(simulate(schedule, device).makespan_s) == 130


def test_the_chain_waits_for_fermis_run_of_kernels() -> None:
    # three kernels back to back are one run; the D2H of stream 1 waits for the 50 of stream 2 as well: 50 + 10.
    # With a signal after each: 10 + 10 + 10 + 10 in stream 1, and 50 in stream 2
    schedule = plan(h2d(1, 10), kernel(1, 10), kernel(1, 10), kernel(2, 50), d2h(1, 10))
    assert ticks(lower_bound(schedule, make_device(kernel_signal="run")).each[CHAIN]) == 60
    assert ticks(lower_bound(schedule, make_device()).each[CHAIN]) == 50


def test_a_schedule_without_work_takes_no_time_on_the_card() -> None:
    schedule = plan(program.RecordEvent(0, 1), program.Synchronize())
    assert lower_bound(schedule, load_device("h200")).seconds == 0


# --- the link -------------------------------------------------------------------------------------------------------


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    """Draw a direction with or without latencies, losses and immune copies."""
    alone = draw(st.integers(0, 60))
    loss = draw(st.sampled_from((0.0, 0.1, 0.25, 0.5, 0.6, 0.9)))
    return Flow(draw(st.integers(0, 30)), alone, loss, draw(st.integers(0, alone)))


@given(flows(), flows())
def test_the_duplex_bound_against_brute_force(there: Flow, back: Flow) -> None:
    """Try every time c of overlap in steps of a tenth: none beats the bound, and the best comes close to it."""
    step, best = 0.1, math.inf
    for c in (i * step for i in range(1301)):  # beyond all that there is to move, overlap only costs
        t1, t2 = (flow.alone + flow.loss * max(0.0, c - flow.immune) for flow in (there, back))
        best = min(best, max(there.latency + t1, back.latency + t2, t1 + t2 - c))
    bound = duplex_bound(there, back)
    assert bound <= best + 1e-9
    assert best <= bound + step


@pytest.mark.parametrize(("late", "bound_by"), [(21, HOST), (19, "D2H copy engine")])
def test_an_engine_whose_work_is_called_late_binds_less_than_the_host_that_calls_it(late: int, bound_by: str) -> None:
    """Two copies back of 10 in two streams, called after so much else; the copy in is over by then, and in no chain."""
    schedule = plan(h2d(3, 5), program.HostWork(late * NS), d2h(1, 10), d2h(2, 10))
    bound = lower_bound(schedule, make_device())
    assert (ticks(bound.seconds), bound.bound_by) == (late + 20, bound_by)
