"""The rule for the error that the model has even with the right numbers of a card: intervals draw from it.

The shorter the copies and kernels, the more of the time lies between them, where the model knows least. Over the
schedules of the suite random the logarithm of measured over predicted scatters as Student's t with two degrees of
freedom (most schedules are met closely, a few are far off), times the root of :data:`MISSED_S` over the mean time of a
copy or kernel. Both numbers are the likeliest ones of the first three random records of an H100 and of an H200, beside
what the spread of their calibrations explains; each card alone, either class alone, and exponents that are left free
give the same within a tenth. docs/evidence.md judges them on other records.
"""

import numpy as np
from numpy.typing import NDArray

from streamsim.program import Copy, Kernel, Schedule

Array = NDArray[np.float64]

MISSED_S = 4.1e-9
FREEDOM = 2.0
MOST_POWER = 50.0  # of e: a larger factor is cut to it


def missed(schedule: Schedule, times_s: Array, standard: Array) -> Array:
    """Factors, shape (n,), by which measured times of ``schedule`` differ from predictions of ``times_s`` seconds.

    ``standard``: misses as :func:`standard_misses` draws them, shape (n,). What takes no time is not missed.
    """
    of_its_time = np.divide(MISSED_S * works_in(schedule), times_s, out=np.zeros_like(times_s), where=times_s > 0)
    with np.errstate(over="ignore"):
        return np.exp(np.clip(np.sqrt(of_its_time) * standard, -MOST_POWER, MOST_POWER))


def works_in(schedule: Schedule) -> int:
    """How many copies and kernels it has."""
    return sum(isinstance(op, Copy | Kernel) for op in schedule.ops)


def standard_misses(generator: np.random.Generator, samples: int) -> Array:
    """So many misses, shape (samples,), of copies and kernels that take ``MISSED_S`` each."""
    return generator.standard_t(FREEDOM, samples)
