"""The published formulas, by hand."""

import pytest
from strategies import (
    MS_KERNEL,
    NS,
    link,
    make_device,
    ticks,
)

from streamsim.analysis import (
    best_practices,
    gomez_luna,
    napkin,
    published_of,
    simple_multi_copy,
    stages_of,
    van_werkhoven,
    van_werkhoven_transfer,
)
from streamsim.device import load_device
from streamsim.model import simulate
from streamsim.program import Workload, WorkloadKernel, depth_first, one_stream

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


def test_gomez_luna_adds_the_streams_to_the_dominant_stage() -> None:
    # transfers 6 and 2, kernel 4, 0.04 a stream: 8 + 4 / 10 + 10 * 0.04, and no number of streams is better: 4 / n +
    # 0.04 n is smallest where both parts are equal
    assert gomez_luna(6, 4, 2, 10, 0.04) == pytest.approx(8.8)
    assert all(gomez_luna(6, 4, 2, n, 0.04) >= 8.8 for n in range(1, 100))


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
