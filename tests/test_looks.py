"""Hand-overs spread over the interval of an engine's looks: laws of the sequence itself."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsim.model.looks import crossing_ticks, late_of_each, late_ticks

KINDS = (0, 1, 2)  # copies there and back, kernels
LOOK = 1 << 16


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_is_the_mean_and_none_is_off_by_more_than_half_an_interval(kind: int) -> None:
    late = [late_ticks(LOOK, kind, number) for number in range(5000)]
    assert late[0] == 0
    assert min(late_ticks(LOOK, kind, number) for number in range(2 * LOOK)) == -LOOK // 2  # every point is met
    assert max(map(abs, late)) <= LOOK // 2


@pytest.mark.parametrize("kind", KINDS)
def test_of_every_two_behind_the_first_one_is_as_late_as_the_other_is_early(kind: int) -> None:
    # So the lateness of any program never sums to more than half an interval: drawn at random, to 0.29 sqrt(n) of them.
    sums = list(accumulate(late_ticks(LOOK, kind, number) for number in range(5001)))
    assert set(sums[::2]) == {0}
    assert max(map(abs, sums)) <= LOOK // 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_points_are_spread_evenly(kind: int) -> None:
    # Of any 100 ops, 9 to 16 are in each eighth of the interval. Of 100 drawn at random it would be 12.5 +- 3.3.
    place = [(late_ticks(LOOK, kind, number) + LOOK // 2) * 8 // LOOK for number in range(2000)]
    for begin in range(0, 1900, 50):
        counts = [place[begin : begin + 100].count(eighth) for eighth in range(8)]
        assert min(counts) >= 9
        assert max(counts) <= 16


@pytest.mark.parametrize(("kind", "other"), [(0, 1), (0, 2), (1, 2)])
def test_ops_of_two_kinds_are_not_late_together(kind: int, other: int) -> None:
    # Correlated by less than 1 %: drawn at random, 2500 pairs and their mirror images scatter by 2 %.
    products = [late_ticks(LOOK, kind, n) * late_ticks(LOOK, other, n) for n in range(5000)]
    assert abs(sum(products) / len(products)) < 0.01 * LOOK**2 / 12


@given(st.integers(0, 10**13), st.integers(0, 10**13))
def test_no_op_hears_before_the_signal_nor_later_than_twice_the_mean(mean: int, late: int) -> None:
    early, behind = crossing_ticks(mean, -late), crossing_ticks(mean, late)
    assert 0 <= early <= mean <= behind <= 2 * mean
    assert early + behind == 2 * mean  # so the mean of what is spread evenly is the mean


def test_each_kind_is_counted_by_itself_and_calls_are_not() -> None:
    kinds = bytearray((0, 2, 3, 0, 1, 2))
    counted = [(0, 0), (2, 0), None, (0, 1), (1, 0), (2, 1)]
    assert list(late_of_each(100, kinds)) == [0 if one is None else late_ticks(100, *one) for one in counted]
    assert list(late_of_each(0, kinds)) == [0] * 6
