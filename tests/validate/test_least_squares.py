"""Least squares without negative numbers, held to what makes a solution the best one, and to every other one."""

from itertools import chain, combinations

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from streamsim.errors import InputError
from streamsim_validate.calibrate.front_ends import non_negative

SEEDS = st.integers(0, 1 << 32)


def problem(seed: int, scales: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows and sums of costs of which some are zero or would come out negative, in units that may be far apart."""
    drawn = np.random.default_rng(seed)
    unknowns = int(drawn.integers(1, 7))
    matrix = drawn.integers(0, 5, (int(drawn.integers(unknowns, 15)), unknowns)).astype(float)
    sums = matrix @ drawn.normal(0.5, 1, unknowns) + drawn.normal(0, 0.3, len(matrix))
    return (matrix * 10.0 ** drawn.integers(-6, 6, unknowns) if scales else matrix), sums


@examples(300)
@given(SEEDS, st.booleans())
def test_no_solution_without_negative_numbers_is_nearer(seed: int, scales: bool) -> None:
    """The conditions of Karush, Kuhn and Tucker, which are necessary and sufficient, as the problem is convex.

    Of half the squared distance with respect to an unknown the slope is 0 where it is positive, and not below 0 where
    it is 0: else some more of it, or less, would come nearer.
    """
    matrix, sums = problem(seed, scales)
    found = non_negative(matrix, sums)
    lengths = np.linalg.norm(matrix, axis=0)
    used = lengths > 0
    assert (found >= 0).all()
    assert (found[~used] == 0).all()
    slope = (matrix.T @ (matrix @ found - sums))[used] / lengths[used]  # in the units of the sums
    small = 1e-9 * (1 + np.linalg.norm(sums))
    assert (slope >= -small).all()
    assert (np.abs(slope[found[used] > 0]) <= small).all()


@examples(100)
@given(SEEDS)
def test_it_is_the_best_of_every_choice_of_unknowns_that_are_zero(seed: int) -> None:
    """Some unknowns are zero; of those that are left it is the plain least squares. Every choice is tried."""
    matrix, sums = problem(seed, scales=False)
    unknowns = range(matrix.shape[1])
    least = np.linalg.norm(sums)
    for chosen in chain.from_iterable(combinations(unknowns, n) for n in range(1, len(unknowns) + 1)):
        part = matrix[:, chosen]
        each = np.linalg.lstsq(part, sums, rcond=None)[0]
        if (each >= 0).all():
            least = min(least, np.linalg.norm(part @ each - sums))
    assert np.linalg.norm(matrix @ non_negative(matrix, sums) - sums) == pytest.approx(least, abs=1e-9)


def test_without_scipy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy.optimize", None)
    with pytest.raises(InputError, match=r"^calibration needs SciPy; pip install '\.\[calibrate\]'"):
        non_negative([[1.0]], [1.0])
