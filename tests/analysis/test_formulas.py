"""The published formulas, by hand."""

from collections.abc import Callable

import pytest
from strategies import NS, link, make_device

from streamsim.analysis import formulas
from streamsim.device import load_device
from streamsim.lowering import lower
from streamsim.model import simulate
from streamsim.program import Workload, WorkloadKernel, depth_first

MULTI_COPY = (0.686592, 0.054848, 0.704832)  # ms of an A100's run of the sample
BY_HAND: list[tuple[Callable[..., float], tuple[float, ...], float]] = [
    *((formulas.napkin, (1, 1, 1, n), expected) for n, expected in ((4, 1.5), (1, 3), (10**9, 1))),
    *((formulas.best_practices, (*pair, 4), expected) for pair, expected in (((8, 4), 9), ((4, 8), 9), ((8, 0), 8))),
    (formulas.best_practices, (5, 5, 4), 6.25),
    (formulas.best_practices, (5, 7, 1), 12),
    *(
        (formulas.simple_multi_copy, (*MULTI_COPY, n), expected)
        for n, expected in enumerate((1.446272, 1.391424, 0.704832))
    ),
    # 4 transfers of 1000 bytes at 2 ns a byte, 10 ns of latency, 3 ns between: 10 + 8000 + 9
    *((formulas.van_werkhoven_transfer, (10, 1000, 2, 3, n), expected) for n, expected in ((4, 8019), (1, 2010))),
    # stages 4, 8 and 5 by themselves: 8 + (4 + 5) / 4; both transfers on one engine: 9 + 8 / 4; none: the sum
    *(
        (formulas.van_werkhoven, (4, 8, 5, 4, engines), expected)
        for engines, expected in ((2, 10.25), (1, 11), (0, 17))
    ),
    # transfers 6 and 2, kernel 4, 0.04 a stream: 8 + 4 / 10 + 10 * 0.04
    (formulas.gomez_luna, (6, 4, 2, 10, 0.04), 8.8),
]


@pytest.mark.parametrize(("formula", "given", "expected"), BY_HAND)
def test_the_published_formulas(formula: Callable[..., float], given: tuple[float, ...], expected: float) -> None:
    assert formula(*given) == pytest.approx(expected)


def test_the_formulas_of_a_schedule() -> None:
    # 2 inputs of 1000 bytes, 1 output of 1000, in 4 chunks: 8 H2D, 8 kernels, 4 D2H; at 1 byte a tick, latency 7. The
    # stages take 2007, 480 and 1007 ticks, the copies of 4 chunks 2028 and 1028; calls of a chunk 3 * 2 and 2 * 3
    workload = Workload(1000, (1, 1), (1,), (WorkloadKernel(duration_s=400 * NS), WorkloadKernel(duration_s=80 * NS)))
    device = make_device(h2d=link(latency=7), d2h=link(latency=7), copy=2, kernel=3)
    lowered = lower(depth_first(workload, 4, 3), device)
    expected = [3494 * 6 / 12, 3014 + 480 / 4, 2007, 2028 + 1508 / 4, 3014 + 480 / 4 + 4 * 12]
    assert list(formulas.published(lowered).values()) == pytest.approx([ticks * NS for ticks in expected])
    # a program that overlaps nothing, with kernels that were measured: 3000 ticks
    expected = [6014, 3014 + 3000, 6014, 6014, 3014 + 3000 + 12]
    found = formulas.published(lowered, 3000 * NS, overlaps=False)
    assert list(found.values()) == pytest.approx([ticks * NS for ticks in expected])


def test_the_formulas_agree_where_nothing_can_overlap() -> None:
    """One chunk on the ideal device: all of them but the asymptotic one give the serial time, which is the makespan."""
    device = load_device("ideal")
    schedule = depth_first(Workload(1 << 20, (4,), (4,), (WorkloadKernel(duration_s=100e-6),)), 1, 1)
    predictions = formulas.published(lower(schedule, device))
    serial_s = simulate(schedule, device).makespan_s
    assert predictions.pop("simpleMultiCopy") < serial_s
    assert predictions == pytest.approx(dict.fromkeys(predictions, serial_s))
