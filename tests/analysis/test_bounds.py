"""Lower bounds and published formulas: laws on random schedules and devices, and numbers worked by hand.

LAW. The bound never exceeds the makespan, whatever the engines choose. Verified on random schedules and devices with
every effect on and off, and on the patterns over the shipped profiles.
LAW. In one stream nothing is left to choose: the bound is the makespan, to the tick.
"""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MS_KERNEL, PAGEABLE, d2h, devices, draining, h2d, kernel, link, make_device, program, schedules

from streamsim.analysis.bounds import (
    CHAIN,
    HOST,
    LINK,
    Flow,
    best_practices,
    bound_of,
    duplex_bound,
    gomez_luna,
    gomez_luna_streams,
    ideal_pipeline,
    lower_bound,
    napkin,
    published_of,
    simple_multi_copy,
    stages_of,
    van_werkhoven,
    van_werkhoven_transfer,
)
from streamsim.device.kernel_costs import KernelCost
from streamsim.device.library import device_names, load_device
from streamsim.device.profile import Device
from streamsim.lowering.lowered import lower
from streamsim.model import simulate
from streamsim.program.patterns import breadth_first, depth_first, one_stream, prefetch, ring, serial
from streamsim.program.schedule import Copy, Kernel, Op, RecordEvent, Region, Schedule, Synchronize, WaitEvent
from streamsim.program.workload import Workload, WorkloadKernel

NS = 1e-9


def ticks(seconds: float) -> int:
    """Whole nanoseconds, the nearest."""
    return round(seconds / NS)


# --- the laws -------------------------------------------------------------------------------------------------------


@given(schedules(), devices())
def test_the_bound_never_exceeds_the_makespan(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    bound = lower_bound(schedule, device)
    assert bound.seconds <= timeline.makespan_s
    assert bound.seconds == max(bound.each.values())
    assert bound.each[bound.bound_by] == bound.seconds
    assert bound_of(lower(schedule, device)) == bound


@given(schedules(most=40, streams=6, launch="live"), devices(copy_engines=2))
def test_the_bound_never_exceeds_the_makespan_on_a_busy_link(schedule: Schedule, device: Device) -> None:
    assert lower_bound(schedule, device).seconds <= simulate(schedule, device).makespan_s


@given(draining())
def test_the_bound_never_exceeds_the_makespan_of_kernels_that_leave_the_card(case: tuple[Schedule, Device]) -> None:
    assert lower_bound(*case).seconds <= simulate(*case).makespan_s


@given(schedules(streams=1).filter(lambda s: all(op.stream != 0 for op in s.ops)), devices())
def test_in_one_stream_the_bound_is_the_makespan(schedule: Schedule, device: Device) -> None:
    assert lower_bound(schedule, device).seconds == simulate(schedule, device).makespan_s


WORKLOADS = st.builds(
    Workload,
    st.integers(1 << 10, 1 << 24),
    st.sampled_from(((4,), (4, 4), ())),
    st.sampled_from(((4,), (8,), ())),
    st.sampled_from(((WorkloadKernel(duration_s=0.5e-3),), (WorkloadKernel(duration_s=20e-6, fill=0.3),) * 2)),
)


@given(WORKLOADS, st.sampled_from(device_names()), st.integers(1, 24), st.integers(1, 6), st.data())
def test_the_bound_holds_for_the_patterns_on_the_shipped_profiles(
    workload: Workload, name: str, chunks: int, streams: int, data: st.DataObject
) -> None:
    memory: Any = data.draw(st.sampled_from(("pinned", "pageable")))
    schedule = data.draw(
        st.sampled_from(
            (
                serial(workload, chunks, memory),
                depth_first(workload, chunks, streams, memory),
                breadth_first(workload, chunks, streams, memory),
                ring(workload, chunks, streams, memory=memory),
                prefetch(workload, chunks, memory=memory),
            )
        )
    )
    device = load_device(name)
    assert lower_bound(schedule, device).seconds <= simulate(schedule, device).makespan_s


# --- what binds, worked by hand -------------------------------------------------------------------------------------


def test_a_copy_engine_binds() -> None:
    # three H2D copies of 10 with 2 ticks of latency each, in three streams, beside two short kernels: 3 x 12
    device = make_device(h2d=link(latency=2))
    schedule = program(h2d(1, 10), h2d(2, 10), h2d(3, 10), kernel(4, 9), kernel(4, 9), d2h(1, 4))
    bound = lower_bound(schedule, device)
    assert (ticks(bound.seconds), bound.bound_by) == (36, "H2D copy engine")
    assert ticks(bound.each["compute engine"]) == 18
    assert ticks(bound.each["D2H copy engine"]) == 4


def test_one_copy_engine_has_both_directions_to_do() -> None:
    schedule = program(h2d(1, 10), d2h(2, 7), kernel(3, 12))
    assert lower_bound(schedule, make_device(copy_engines=1)).bound_by == "copy engine"
    assert ticks(lower_bound(schedule, make_device(copy_engines=1)).seconds) == 17
    # no copy engine: 10 + 7 + 12 in turn
    assert lower_bound(schedule, make_device(copy_engines=0)).bound_by == "copies and kernels in turn"
    assert ticks(lower_bound(schedule, make_device(copy_engines=0)).seconds) == 29


def test_an_engine_can_start_no_sooner_than_its_first_op_arrives() -> None:
    # the host spends 3 on each copy call and the card sees it 2 later: H2D from 5, D2H from 8, kernels after two
    # more calls of 1: 3 + 3 + 1 + 2 = 9
    device = make_device(copy=3, kernel=1, submit=2)
    schedule = program(h2d(1, 10), d2h(2, 10), kernel(3, 10), kernel(4, 10))
    bound = lower_bound(schedule, device)
    names = ("H2D copy engine", "D2H copy engine", "compute engine")
    assert [ticks(bound.each[name]) for name in names] == [15, 18, 29]
    # the last call returns at 3 + 3 + 1 + 1, and is on the card 2 later
    assert ticks(bound.each[HOST]) == 10


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
    schedule = program(*(kernel(1 + i, 20, fill=fill) for i, fill in enumerate(fills)))
    device = make_device(concurrent_kernels=concurrent)
    bound = lower_bound(schedule, device)
    assert ticks(bound.each["compute engine"]) == expected
    assert ticks(simulate(schedule, device).makespan_s) == makespan


@pytest.mark.parametrize("concurrent", [1, 16])
def test_kernels_leave_the_card_to_others_before_they_end(concurrent: int) -> None:
    # 40 ticks of work each, and 10 in which the card is free: see test_traces.DRAINS. Behind the last they are not.
    cost = KernelCost("drains", 0, (80, 160), (50 * NS, 90 * NS))
    device = make_device(kernels=(cost,), concurrent_kernels=concurrent, resident_threads=80, floor=4)
    schedule = program(*(Kernel(s, "drains", 80) for s in (1, 2, 3)))
    bound = lower_bound(schedule, device)
    assert (ticks(bound.seconds), bound.bound_by) == (130, "compute engine")
    assert ticks(simulate(schedule, device).makespan_s) == 130


def test_the_chain_goes_through_streams_events_and_hand_overs() -> None:
    # H2D 10, hand-over 3, kernel 20 | event 2, hand-over 4 | D2H 10 in another stream: 10 + 3 + 20 + 4 + 2 + 10
    device = make_device(h2d_to_kernel=3, kernel_to_d2h=4, event=2)
    schedule = program(h2d(1, 10), kernel(1, 20), RecordEvent(0, 1), WaitEvent(0, 2), d2h(2, 10))
    bound = lower_bound(schedule, device)
    assert (ticks(bound.seconds), bound.bound_by) == (49, CHAIN)


def test_the_chain_is_the_longer_of_two_ways_into_an_op() -> None:
    # a kernel waits for a copy in until 12 in its own stream, and for a copy back until 10 that it hears of at 15
    device = make_device(d2h_to_kernel=5)
    schedule = program(h2d(1, 12), d2h(2, 10), RecordEvent(0, 2), WaitEvent(0, 1), kernel(1, 20))
    assert ticks(lower_bound(schedule, device).seconds) == ticks(simulate(schedule, device).makespan_s) == 35


def test_the_chain_goes_through_a_host_that_waits() -> None:
    # H2D 10 in stream 1, seen 5 ticks later by the host, which then issues a kernel of 20 elsewhere
    schedule = program(h2d(1, 10), Synchronize(stream=1), kernel(2, 20))
    bound = lower_bound(schedule, make_device(wake=5))
    assert (ticks(bound.seconds), bound.bound_by) == (35, CHAIN)


def test_the_chain_waits_for_fermis_run_of_kernels() -> None:
    # three kernels back to back are one run; the D2H of stream 1 waits for the 50 of stream 2 as well: 50 + 10.
    # With a signal after each: 10 + 10 + 10 + 10 in stream 1, and 50 in stream 2
    schedule = program(h2d(1, 10), kernel(1, 10), kernel(1, 10), kernel(2, 50), d2h(1, 10))
    assert ticks(lower_bound(schedule, make_device(kernel_signal="run")).each[CHAIN]) == 60
    assert ticks(lower_bound(schedule, make_device()).each[CHAIN]) == 50


def test_the_host_binds_when_its_calls_are_most_of_the_chain() -> None:
    # 8 copies of 4 in 4 streams, 10 ticks a call: the last arrives at 80 and ends at 84
    schedule = program(*(h2d(1 + i % 4, 4) for i in range(8)))
    bound = lower_bound(schedule, make_device(copy=10))
    assert (ticks(bound.seconds), bound.bound_by) == (84, HOST)
    # half of it is not most: a call and a copy of 10 each
    assert ticks(lower_bound(program(h2d(1, 10)), make_device(copy=10)).each[HOST]) == 10
    # the same with a call of 1: the engine's 8 x 4 from the first arrival at 1
    bound = lower_bound(schedule, make_device(copy=1))
    assert (ticks(bound.seconds), bound.bound_by) == (33, "H2D copy engine")


def test_a_graph_pays_once_before_anything_runs() -> None:
    # 7 for the launch and 2 for the first copy, then 3 copies of 10; on the host 2 for each
    schedule = program(h2d(1, 10), h2d(2, 10), h2d(3, 10), launch="graph")
    device = make_device(graph_launch=7, graph_node=2)
    assert ticks(lower_bound(schedule, device).seconds) == 39
    schedule = program(h2d(1, 20), h2d(2, 20), h2d(3, 20), launch="graph")
    assert ticks(lower_bound(schedule, device).each[HOST]) == 13


def test_a_schedule_without_work_takes_no_time_on_the_card() -> None:
    schedule = program(RecordEvent(0, 1), Synchronize())
    assert lower_bound(schedule, load_device("h200")).seconds == 0


# --- the link -------------------------------------------------------------------------------------------------------

LOSING = link(shared=0.75)


def test_both_directions_of_a_losing_link() -> None:
    # 400 bytes each way at 1 alone and 3/4 shared; c = time of both. Each direction flows 400 + c/4, one of them at
    # least 800 - c/2; equal at c = 533 1/3, when both have flowed all the time: T = 533 1/3
    schedule = program(h2d(1, 400), d2h(2, 400))
    bound = lower_bound(schedule, make_device(h2d=LOSING, d2h=LOSING))
    assert (ticks(bound.seconds), bound.bound_by) == (533, LINK)
    assert ticks(simulate(schedule, make_device(h2d=LOSING, d2h=LOSING)).makespan_s) == 534
    # from when the first copy is on the card, 3 + 2
    assert ticks(lower_bound(schedule, make_device(h2d=LOSING, d2h=LOSING, copy=3, submit=2)).each[LINK]) == 538


@pytest.mark.parametrize(
    ("there", "back", "expected"),
    [
        # no loss: the slower direction, latency included
        (Flow(5, 100, 0), Flow(0, 100, 0), 105),
        # nothing the other way
        (Flow(5, 100, 0.5), Flow(0, 0, 0.5), 105),
        # loses a quarter each: 100 + c/4 = 200 - c/2 at c = 133 1/3
        (Flow(0, 100, 0.25), Flow(0, 100, 0.25), 400 / 3),
        # loses half each: overlap gains nothing and costs nothing
        (Flow(0, 100, 0.5), Flow(0, 100, 0.5), 200),
        # loses more than half each: one after the other is as good as it gets
        (Flow(0, 100, 0.75), Flow(0, 100, 0.75), 200),
        # one loses nothing, the other half: 100 + c/2 = 200 - c/2 at c = 100, T = 150
        (Flow(0, 100, 0.5), Flow(0, 100, 0), 150),
        # short beside long: 10 fits into what the latency of the long one leaves free
        (Flow(20, 100, 0.5), Flow(0, 10, 0.5), 120),
        # half of the bytes there are immune: 50 of c cost nothing there. Beyond c = 50: 100 + (c - 50)/2 and
        # 100 + c/2 against 200 - c + (c - 50)/2 + c/2 = 175: the second reaches 175 at 150, so T = 175
        (Flow(0, 100, 0.5, 50), Flow(0, 100, 0.5), 175),
    ],
)
def test_the_duplex_bound_by_hand(there: Flow, back: Flow, expected: float) -> None:
    assert duplex_bound(there, back) == pytest.approx(expected)
    assert duplex_bound(back, there) == pytest.approx(expected)


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    """Draw a direction with or without latencies, losses and immune copies."""
    alone = draw(st.integers(0, 60))
    loss = draw(st.sampled_from((0.0, 0.1, 0.25, 0.5, 0.6, 0.9)))
    return Flow(draw(st.integers(0, 30)), alone, loss, draw(st.integers(0, alone)))


@given(flows(), flows())
def test_the_duplex_bound_against_brute_force(there: Flow, back: Flow) -> None:
    """Try every time c of overlap in steps of a tenth: none beats the bound, and the best comes close to it."""
    step = 0.1
    best = math.inf
    for i in range(int(1300 / step)):
        c = i * step
        t1 = there.alone + there.loss * max(0.0, c - there.immune)
        t2 = back.alone + back.loss * max(0.0, c - back.immune)
        best = min(best, max(there.latency + t1, back.latency + t2, t1 + t2 - c))
        if c > 130:
            break  # beyond all that there is to move, overlap only costs
    bound = duplex_bound(there, back)
    assert bound <= best + 1e-9
    assert best <= bound + step


def test_pageable_copies_are_not_slowed_down() -> None:
    # the pageable copy keeps its rate for all of its 100: 100 + c/4 on the other side; 200 + c/4 - c in all, so that
    # both are 125 at c = 100
    pageable = h2d(1, 100, host=Region(PAGEABLE.name, 0, 100))
    schedule = program(pageable, d2h(2, 100), buffers=(PAGEABLE,))
    bound = lower_bound(schedule, make_device(h2d=LOSING, d2h=LOSING))
    assert ticks(bound.each[LINK]) == 125


# --- published formulas ---------------------------------------------------------------------------------------------


def test_napkin_halves_the_serial_time_at_four_chunks() -> None:
    assert napkin(1, 1, 1, 4) == pytest.approx(1.5)
    assert napkin(1, 1, 1, 1) == pytest.approx(3)
    assert napkin(1, 1, 1, 10**9) == pytest.approx(1)


@pytest.mark.parametrize(("transfer", "kernel_s", "expected"), [(8, 4, 9), (4, 8, 9), (8, 0, 8), (5, 5, 6.25)])
def test_best_practices(transfer: float, kernel_s: float, expected: float) -> None:
    assert best_practices(transfer, kernel_s, 4) == expected
    assert best_practices(transfer, kernel_s, 1) == transfer + kernel_s


def test_simple_multi_copy_prints_these_limits() -> None:
    # an A100's run of the sample: 0.686592, 0.054848 and 0.704832 ms
    times = (0.686592, 0.054848, 0.704832)
    assert simple_multi_copy(*times, copy_engines=0) == pytest.approx(1.446272)
    assert simple_multi_copy(*times, copy_engines=1) == pytest.approx(1.391424)
    assert simple_multi_copy(*times, copy_engines=2) == pytest.approx(0.704832)


def test_van_werkhoven_counts_one_latency_and_a_gap_between_transfers() -> None:
    # 4 transfers of 1000 bytes at 2 ns a byte, 10 ns of latency, 3 ns between: 10 + 8000 + 9
    assert van_werkhoven_transfer(10, 1000, 2, 3, 4) == 8019
    assert van_werkhoven_transfer(10, 1000, 2, 3, 1) == 2010
    assert van_werkhoven(4, 8, 4, chunks=4, copy_engines=2) == 10
    assert van_werkhoven(4, 8, 4, chunks=4, copy_engines=1) == 10
    assert van_werkhoven(4, 8, 4, chunks=4, copy_engines=0) == 16
    # stages 4, 8 and 5 by themselves: 8 + (4 + 5) / 4; both transfers on one engine: 9 + 8 / 4
    assert van_werkhoven(4, 8, 5, chunks=4, copy_engines=2) == 10.25
    assert van_werkhoven(4, 8, 5, chunks=4, copy_engines=1) == 11


def test_gomez_luna_is_best_at_its_own_number_of_streams() -> None:
    # transfers 6 and 2, kernel 4, 0.04 a stream: other = 4, so n = sqrt(4 / 0.04) = 10 and 8 + 0.4 + 0.4
    assert gomez_luna_streams(6, 4, 2, 0.04) == pytest.approx(10)
    assert gomez_luna(6, 4, 2, 10, 0.04) == pytest.approx(8.8)
    assert all(gomez_luna(6, 4, 2, n, 0.04) >= 8.8 for n in range(1, 100))
    assert gomez_luna_streams(6, 4, 2, 0) == math.inf


def test_the_stages_of_a_schedule() -> None:
    # 2 inputs of 1000 bytes, 1 output of 1000, in 4 chunks: 8 H2D, 8 kernels, 4 D2H; at 1 byte a tick, latency 7
    workload = Workload(1000, (1, 1), (1,), (WorkloadKernel(duration_s=400 * NS), WorkloadKernel(duration_s=80 * NS)))
    device = make_device(h2d=link(latency=7), d2h=link(latency=7), copy=2, kernel=3)
    stages = stages_of(depth_first(workload, 4, 3), device)
    assert (stages.chunks, stages.streams, stages.copy_engines) == (4, 3, 2)
    assert [ticks(s) for s in (stages.h2d_s, stages.kernel_s, stages.d2h_s)] == [2007, 480, 1007]
    assert [ticks(s) for s in (stages.h2d_chunks_s, stages.d2h_chunks_s)] == [2000 + 4 * 7, 1000 + 4 * 7]
    assert ticks(stages.issue_s) == 3 * 2 + 2 * 3


@pytest.mark.parametrize("inputs", [(), (4,)])
@pytest.mark.parametrize("outputs", [(), (4,)])
def test_stages_that_are_not_there_take_no_time(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
    schedule = depth_first(Workload(1 << 20, inputs, outputs, (MS_KERNEL,)), 8, 2)
    stages = stages_of(schedule, load_device("h200"))
    assert stages.chunks == 8
    assert (stages.h2d_s > 0, stages.d2h_s > 0) == (bool(inputs), bool(outputs))
    assert all(0 < value < 1 for value in published_of(stages).values())


def test_the_formulas_agree_where_nothing_can_overlap() -> None:
    """One chunk on the ideal device: all of them but the asymptotic one give the serial time, which is the makespan."""
    device = load_device("ideal")
    schedule = one_stream(Workload(1 << 20, (4,), (4,), (WorkloadKernel(duration_s=100e-6),)))
    predictions = published_of(stages_of(schedule, device))
    serial_s = simulate(schedule, device).makespan_s
    assert predictions.pop("simpleMultiCopy") < serial_s
    assert predictions == pytest.approx(dict.fromkeys(predictions, serial_s))


# --- the closed form of the ideal device ----------------------------------------------------------------------------


def test_the_ideal_pipeline_by_hand() -> None:
    # equal stages, 4 chunks on 4 streams: 6 units instead of 12; on 1 stream, or on one copy engine, 12
    assert ideal_pipeline(1, 1, 1, 4, 4) == 6
    assert ideal_pipeline(1, 1, 1, 4, 1) == 12
    assert ideal_pipeline(1, 1, 1, 4, 4, copy_engines=1) == 12
    # a stream's own chunks pace it: stages 3, 1, 3 on 2 streams, 4 chunks: J = 1, max(7 + 9, 14 + 3) = 17
    assert ideal_pipeline(3, 1, 3, 4, 2) == 17


SIZE = 64  # bytes that last one tick on the ideal device
STAGE = st.integers(1, 9)


@given(STAGE, STAGE, STAGE, st.integers(1, 12), st.integers(1, 12))
def test_the_ideal_devices_run_the_closed_form(h: int, k: int, d: int, chunks: int, streams: int) -> None:
    """Depth-first, uniform chunks, exactly; and the bound is met or missed from below."""
    ops: list[Op] = []
    for chunk in range(chunks):
        stream = 1 + chunk % streams
        ops += [Copy("h2d", h * SIZE, stream), Kernel(stream, duration_s=k * NS), Copy("d2h", d * SIZE, stream)]
    schedule = program(*ops, streams=streams)
    for name, copy_engines in (("ideal", 2), ("ideal-one-copy-engine", 1)):
        makespan = max(simulate(schedule, load_device(name)).end)
        assert makespan == ideal_pipeline(h, k, d, chunks, streams, copy_engines)
        assert ticks(lower_bound(schedule, load_device(name)).seconds) <= makespan
