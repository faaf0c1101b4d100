"""What the model misses: the rule by hand, and the quantiles of Student's t with two degrees of freedom."""

import math

import numpy as np
import pytest
from strategies import d2h, h2d, kernel, program

from streamsim.analysis import MISSED_S, missed, standard_misses
from streamsim.program import RecordEvent, WaitEvent

DRAWS = 100_000


def test_a_miss_by_hand() -> None:
    """Of three copies and kernels in 300 times MISSED_S a standard miss is a tenth; events and waits are none."""
    ops = (h2d(1, 10), RecordEvent(0, 1), WaitEvent(0, 2), kernel(2, 10), d2h(2, 10))
    times_s = np.array([300 * MISSED_S] * 3 + [1200 * MISSED_S])
    found = missed(program(*ops, streams=2), times_s, np.array([0.0, 1.0, -2.0, 1.0]))
    assert found.tolist() == pytest.approx([1, math.exp(0.1), math.exp(-0.2), math.exp(0.05)])


def test_nothing_is_missed_of_what_takes_no_time_or_does_nothing() -> None:
    wild = np.array([-1e9, 1.0, 1e9])
    assert missed(program(h2d(1, 10)), np.zeros(3), wild).tolist() == [1, 1, 1]
    assert missed(program(RecordEvent(0, 1)), np.ones(3), wild).tolist() == [1, 1, 1]


def test_a_factor_stays_a_number() -> None:
    found = missed(program(h2d(1, 10)), np.full(2, 1e-300), np.array([-1e300, 1e300]))
    assert np.all(np.isfinite(found))
    assert np.all(found > 0)


@pytest.mark.parametrize("p", [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
def test_standard_misses_have_heavy_tails(p: float) -> None:
    """The quantile of Student's t with two degrees of freedom is (2 p - 1) / sqrt(2 p (1 - p)), 2.92 for 0.95.

    Its density there is (2 + q^2)^(-3/2); four standard errors are allowed.
    """
    q = (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    error = math.sqrt(p * (1 - p) / DRAWS) * (2 + q * q) ** 1.5
    found = standard_misses(np.random.default_rng(1), DRAWS)
    assert float(np.quantile(found, p)) == pytest.approx(q, abs=4 * error)
