"""Least squares whose solution has no negative number: no cost is below zero."""

import numpy as np
from numpy.typing import ArrayLike

from streamsim.errors import InputError


def non_negative(rows: ArrayLike, sums: ArrayLike) -> np.ndarray:
    """Return the ``x`` of numbers that are not negative with which ``rows @ x`` comes nearest to ``sums``.

    An unknown that is in no row is 0. The method: Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23.
    Raises InputError without SciPy.
    """
    try:
        from scipy.optimize import nnls
    except ImportError:
        raise InputError("calibration needs SciPy; pip install 'streamsim[calibrate]'") from None
    matrix = np.asarray(rows, float)
    lengths = np.linalg.norm(matrix, axis=0)  # columns in other units have other lengths: all are made alike
    told = lengths > 0
    found = np.zeros(len(lengths))
    if told.any():
        found[told] = nnls(matrix[:, told] / lengths[told], np.asarray(sums, float))[0] / lengths[told]
    return found
