"""When an engine hears of another: it looks for the other's signal at intervals.

A signal falls anywhere between two looks, so hand-overs from one engine to another are spread evenly around their
mean, over the interval. That matters where ops of several streams wait for each other: an engine that is free early
gains nothing by a short wait, and loses by a long one.

Which wait an op has is not known ahead. The model gives the ops of each kind the points of an even sequence in turn,
the multiples of an irrational number, and behind each point its mirror image: the first op of a kind has the mean, and
of every two behind it one is as late as the other is early, so that programs of a few ops are on time in the mean, too.
The numbers are square roots and the golden ratio: the multiples of such are spread the most evenly, and those of these
three evenly together, or an op that waits long would always hand over to one that waits long.
"""

from __future__ import annotations

from array import array
from itertools import count

INTERVAL = 1 << 16  # the points are this fine
STEPS = (40503, 27145, 47975)  # of copies there and back and of kernels: the golden ratio, the roots of 2 and 3


def late_ticks(look: int, kind: int, number: int) -> int:
    """How much later than in the mean, ``look`` ticks lying between two looks, the op ``number`` of a kind hears."""
    pair = (number + 1) // 2
    late = look * ((INTERVAL // 2 + pair * STEPS[kind]) % INTERVAL) // INTERVAL - look // 2
    return late if number % 2 else -late


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
