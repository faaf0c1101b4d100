"""When an engine hears of another: it looks for the other's signal at intervals.

A signal falls anywhere between two looks, so hand-overs from one engine to another are spread evenly around their
mean, over the interval. That matters where ops of several streams wait for each other: an engine that is free early
gains nothing by a short wait, and loses by a long one.

Which wait an op has is not known ahead. The model gives the ops of each kind the points of an even sequence in turn,
the multiples of an irrational number: what is late and what is early evens out sooner than if drawn at random, and the
first of each kind is the mean. The numbers are powers of the root of x**4 = x + 1, with which the points of the three
kinds are spread evenly together too, or an op that waits long would always hand over to one that waits long. (The
R-sequence, http://extremelearning.com.au/unreasonable-effectiveness-of-quasirandom-sequences/.)
"""

from __future__ import annotations

from array import array
from itertools import count

INTERVAL = 1 << 16  # the points are this fine
STEPS = (53685, 43977, 36025)  # of copies there and back and of kernels: 1 / root, 1 / root**2 and 1 / root**3 of it


def late_ticks(look: int, kind: int, number: int) -> int:
    """How much later than in the mean, ``look`` ticks lying between two looks, the op ``number`` of a kind hears."""
    return look * ((INTERVAL // 2 + number * STEPS[kind]) % INTERVAL) // INTERVAL - look // 2


def late_of_each(look: int, kinds: bytearray) -> array[int]:
    """:func:`late_ticks` of each op; 0 for those that are no copies or kernels."""
    late = array("q", bytes(8 * len(kinds)))
    if look:
        numbers = [count() for _ in STEPS]
        for op, kind in enumerate(kinds):
            if kind < len(STEPS):
                late[op] = late_ticks(look, kind, next(numbers[kind]))
    return late


def crossing_ticks(mean: int, late: int) -> int:
    """A hand-over of ``mean`` ticks that is so late: never before the signal, and as late at most as early."""
    return mean + max(-mean, min(mean, late))
