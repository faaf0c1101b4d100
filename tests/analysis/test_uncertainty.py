"""Intervals: closed forms of what is drawn, draws that are devices, queues renamed without changing who shares one."""

import itertools
import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    BYTE_PER_TICK,
    COST,
    LATENCIES,
    NS,
    d2h,
    devices,
    h2d,
    kernel,
    link,
    make_device,
    plan,
    schedules,
)

from streamsim import load_device
from streamsim.analysis import intervals
from streamsim.cli import main
from streamsim.device import Device, FrontEnd, number_names, with_front_end
from streamsim.lowering import lower
from streamsim.model import simulate
from streamsim.program import RecordEvent, Schedule, WaitEvent

Z95 = 1.6448536269514722  # 95 % of a standard normal lie below
DENSITY95 = math.exp(-(Z95**2) / 2) / math.sqrt(2 * math.pi)


def with_spread(device: Device, **spread: float) -> Device:
    return msgspec.structs.replace(device, spread={name.replace("__", "."): value for name, value in spread.items()})


def all_spread(device: Device, value: float) -> Device:
    return msgspec.structs.replace(device, spread=dict.fromkeys(number_names(device), value))


def z_tolerance(samples: int) -> float:
    """Four standard errors of the 5 % and 95 % quantiles of so many normal samples: sqrt(p (1 - p) / n) / density."""
    return 4 * math.sqrt(0.05 * 0.95 / samples) / DENSITY95


# What is drawn


@given(devices(copy_rule="issue-order", kernel_rule="ready-order"), schedules())
def test_without_spread_all_that_is_drawn_is_the_prediction(device: Device, schedule: Schedule) -> None:
    predicted_s = simulate(schedule, device).makespan_s
    assert set(intervals.drawn_times_s([schedule], all_spread(device, 0.0), samples=20).flat) == {predicted_s}


def test_a_copy_whose_bandwidth_is_uncertain_takes_a_lognormal_time() -> None:
    # n / (b exp(s z)) with z normal: its quantiles are n / b exp(-s z_q). 5 % and 95 % of z: -+1.6449.
    n_bytes, sigma, samples = 10_000_000, 0.2, 2000
    device = with_spread(make_device(), h2d__bandwidth_bytes_per_s=sigma)
    found = intervals.interval(plan(h2d(1, n_bytes)), device, samples)
    alone_s = n_bytes / BYTE_PER_TICK
    assert math.log(found.low_s / alone_s) / sigma == pytest.approx(-Z95, abs=z_tolerance(samples))
    assert math.log(found.high_s / alone_s) / sigma == pytest.approx(Z95, abs=z_tolerance(samples))


def test_numbers_are_drawn_independently_of_each_other() -> None:
    # Two copies of a million ticks each in one stream, both lognormal with s = 0.1: the variances of a sum add.
    device = make_device(h2d=link(1_000_000), d2h=link(1_000_000))
    device = with_spread(device, h2d__latency_s=0.1, d2h__latency_s=0.1)
    times = np.array(
        [simulate(plan(h2d(1, 1), d2h(1, 1)), drawn).makespan_s for drawn in intervals.draws(device, 2000)]
    )
    variance = 2 * math.exp(0.01) * (math.exp(0.01) - 1)  # of exp(0.1 z), twice, in (million ticks) squared
    assert times.var() / 1e-6 == pytest.approx(variance, rel=4 * math.sqrt(2 / 2000) * 1.2)


def test_all_kernels_and_all_calls_are_drawn_by_one_factor_each() -> None:
    """A host that is slow is slow in its bare calls and those of a front end."""
    library = FrontEnd(2e-6, 3e-6, 0.0, 0.0, 0.0, 5e-6, "measured: by hand", spread=0.2)
    bare = make_device(kernels=(COST, msgspec.structs.replace(COST, parameter=8)), floor=3, copy=2000, kernel=3000)
    bare = with_spread(bare, host__copy_s=0.2, host__kernel_s=0.2, compute__kernels=0.3)
    device = with_front_end(msgspec.structs.replace(bare, front_ends={"mine": library}), "mine")
    for drawn in (*intervals.draws(device, 20), *intervals.draws(bare, 20)):
        factor = drawn.compute.floor_s / (3 * NS)
        for cost in drawn.compute.kernels:
            assert cost.duration_s == pytest.approx([seconds * factor for seconds in COST.duration_s])
        assert drawn.host.kernel_s / drawn.host.copy_s == pytest.approx(1.5)
        assert drawn.host.enter_s / drawn.host.copy_s == pytest.approx(2.5 if drawn.host.enter_s else 0)
    assert len({(drawn.host.copy_s, drawn.compute.floor_s) for drawn in intervals.draws(device, 20)}) == 20


def test_several_schedules_are_predicted_on_the_same_draws() -> None:
    """Of a seed, to which more samples only add."""
    one, other, device = plan(h2d(1, 1000), d2h(2, 99)), plan(kernel(1, 500)), load_device("h200")
    found = intervals.intervals_of([one, other], device, 40, seed=7)
    assert found == [intervals.interval(one, device, 40, seed=7), intervals.interval(other, device, 40, seed=7)]
    assert found[0].low_s != intervals.interval(one, device, 40, seed=8).low_s
    assert list(intervals.draws(device, 30, seed=3))[:20] == list(intervals.draws(device, 20, seed=3))


def test_more_spread_is_a_wider_interval() -> None:
    """Of milliseconds, of which next to nothing is missed."""
    schedule = plan(h2d(1, 1_000_000_000), kernel(1, 500_000_000), d2h(1, 1_000_000_000))
    found = [intervals.interval(schedule, all_spread(load_device("ideal"), sigma), 50) for sigma in (0.01, 0.02, 0.05)]
    for narrow, wide in itertools.pairwise(found):
        assert wide.low_s < narrow.low_s <= narrow.high_s < wide.high_s


@given(devices(), st.data())
def test_what_is_drawn_is_a_device_whatever_the_spread(device: Device, data: st.DataObject) -> None:
    """Making one checks it; what a spread says nothing of, counts and zeros stay as they are."""
    values = st.sampled_from((0.0, 1e-9, 0.02, 0.5, 5.0, 1e9))
    spread = data.draw(st.dictionaries(st.sampled_from(sorted(number_names(device))), values, min_size=1))
    for drawn in intervals.draws(msgspec.structs.replace(device, spread=spread), 20, data.draw(st.integers(0, 99))):
        assert (drawn.connections, drawn.copy_engines) == (device.connections, device.copy_engines)
        for name in ("host", "hand_over"):
            was, is_now = getattr(device, name), getattr(drawn, name)
            for field in was.__struct_fields__:
                if not getattr(was, field) or f"{name}.{field}" not in spread:
                    assert getattr(is_now, field) == getattr(was, field)
        for one in (drawn.h2d, drawn.d2h):
            assert one.duplex_bandwidth_bytes_per_s <= one.bandwidth_bytes_per_s
            assert all(getattr(one, more) >= getattr(one, less) for more, less in LATENCIES)


# The order of the queues


@pytest.mark.parametrize(("other", "connections"), [(2, 32), (5, 4)])
def test_the_queues_are_served_in_any_order(other: int, connections: int) -> None:
    # Two copies of 10 ticks at tick 0, then a kernel of 1 tick behind the first and of 100 behind the second.
    # First queue first: the second copy ends at 20, its kernel at 120. Second first: 10 + 100, and then 1 more.
    # Streams 1 and 5 of 4 queues have the same home: they do not share it.
    schedule = plan(h2d(1, 10), h2d(other, 10), kernel(1, 1), kernel(other, 100), streams=other)
    device = all_spread(make_device(connections=connections, copy_rule="same-queue-first"), 0.0)
    assert set(intervals.drawn_times_s([schedule], device, samples=60).round(12).flat) == {111e-9, 120e-9}


def queues_of(schedule: Schedule, device: Device) -> list[tuple[int, int]]:
    """Engine and hardware queue of every copy and kernel."""
    found = lower(schedule, device)
    return [(engine, queue) for engine, queue in zip(found.engine(), found.queue, strict=True) if engine >= 0]


CONNECTIONS = st.sampled_from((1, 2, 3, 4, 6, 8, 32))


@given(CONNECTIONS, CONNECTIONS, st.sampled_from((2, 1, 0)), schedules(most=40, streams=12), st.data())
def test_ops_of_renamed_streams_share_queues_as_before(
    copies: int, others: int, copy_engines: int, schedule: Schedule, data: st.DataObject
) -> None:
    device = make_device(connections=others, copy_connections=copies, copy_engines=copy_engines, kernels=(COST,))
    order = data.draw(st.permutations(range(intervals.shared_queues(device))))
    was, renamed = (queues_of(s, device) for s in (schedule, intervals.served_in_order(schedule, order)))
    assert len(set(zip(was, renamed, strict=True))) == len(set(was)) == len(set(renamed))


@given(devices(copy_rule="issue-order", kernel_rule="ready-order"), schedules(), st.data())
def test_renaming_streams_changes_nothing_where_the_order_does_not_matter(
    device: Device, schedule: Schedule, data: st.DataObject
) -> None:
    """So streams keep their kinds, their events and who shares a queue with them, the legacy stream too."""
    assert not intervals.feels_the_order(schedule, device)
    order = data.draw(st.permutations(range(intervals.shared_queues(device))))
    was, renamed = simulate(schedule, device), simulate(intervals.served_in_order(schedule, order), device)
    assert (renamed.start, renamed.end, renamed.issued) == (was.start, was.end, was.issued)


def test_a_profile_of_assumed_latencies_is_drawn_by_its_sources() -> None:
    # One copy of 10 MB at a published rate, known to 3 %: 5 % each way in 90 % of the draws, and somewhat more by what
    # the model misses. A copy of 64 bytes is latencies and calls, of which 30 % are assumed.
    long, short = (intervals.interval(plan(h2d(1, n_bytes)), "a100", samples=400) for n_bytes in (10_000_000, 64))
    assert 0.04 < (long.high_s - long.low_s) / (long.high_s + long.low_s) < 0.12
    assert (short.high_s - short.low_s) / (short.high_s + short.low_s) > 0.2


# What the model misses


def test_a_miss_by_hand() -> None:
    """Of three copies and kernels in 300 times MISSED_S a standard miss is a tenth; events and waits are none."""
    ops = (h2d(1, 10), RecordEvent(0, 1), WaitEvent(0, 2), kernel(2, 10), d2h(2, 10))
    times_s = np.array([300 * intervals.MISSED_S] * 3 + [1200 * intervals.MISSED_S])
    found = intervals.missed(plan(*ops, streams=2), times_s, np.array([0.0, 1.0, -2.0, 1.0]))
    assert found.tolist() == pytest.approx([1, math.exp(0.1), math.exp(-0.2), math.exp(0.05)])


def test_misses_have_heavy_tails() -> None:
    """The 95 % quantile of Student's t with two degrees of freedom is 0.9 / sqrt(0.095), 2.92; a normal's is 1.64.

    Its density there is (2 + q^2)^(-3/2); four standard errors are allowed.
    """
    q, samples = 0.9 / math.sqrt(2 * 0.95 * 0.05), 1000
    found = intervals.interval(plan(h2d(1, 1000)), all_spread(make_device(), 0.0), samples)
    logs = [math.log(seconds / (1000 * NS)) for seconds in (found.low_s, found.high_s)]
    error = math.sqrt(0.05 * 0.95 / samples) * (2 + q * q) ** 1.5
    scale = math.sqrt(intervals.MISSED_S / (1000 * NS))
    assert [log / scale for log in logs] == pytest.approx([-q, q], abs=4 * error)


# The command


def test_the_command_says_the_interval(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["predict", "--h2d", "1MiB", "--kernel", "20us", "--chunks", "2", "--streams", "2"]
    samples = ["--samples", "50", "--seed", "3"]
    assert main([*command, *samples, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = intervals.Interval(**said["interval"])
    assert found.low_s < said["makespan_s"] < found.high_s
    assert (found.level, found.samples, found.seed) == (0.9, 50, 3)
    assert main([*command, *samples]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert f"90% interval {found.between} 50 draws, seed 3".split() in words
