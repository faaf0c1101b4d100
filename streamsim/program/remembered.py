"""What is made of a schedule, remembered for when it is asked for again: the same programs on one device after another.

A comparison predicts each program at several speeds of its host, an interval on each of its draws, and a calibration
seeks the numbers with which some forty probes take what was measured.
"""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamsim.program.schedule import Schedule

REMEMBERED = 64  # schedules
MOST_OPS = 4_000  # of one that is remembered: at some 400 bytes an op all of them are 100 MB at most

FEW = 3  # schedules of any size

Made = TypeVar("Made")
Values = ParamSpec("Values")


class _Same:
    """A schedule that equals itself alone: to hash and compare one op by op takes as long as looking at it anew."""

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def __hash__(self) -> int:
        return id(self.schedule)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.schedule is other.schedule


def remembered_of_few(make: Callable[[Schedule], Made]) -> Callable[[Schedule], Made]:
    """``make``, which remembers what it made of the latest ``FEW`` schedules, however large they are.

    Nobody may change what it gives.
    """

    @lru_cache(maxsize=FEW)
    def made(same: _Same) -> Made:
        return make(same.schedule)

    return wraps(make)(lambda schedule: made(_Same(schedule)))


def remembered(make: Callable[Concatenate[Schedule, Values], Made]) -> Callable[Concatenate[Schedule, Values], Made]:
    """``make``, a function of a schedule and of hashable values, which remembers what it made of the latest ones.

    Nobody may change what it gives.
    """

    @lru_cache(maxsize=REMEMBERED)
    def made(same: _Same, *values: Values.args, **named: Values.kwargs) -> Made:
        return make(same.schedule, *values, **named)

    @wraps(make)
    def remembering(schedule: Schedule, /, *values: Values.args, **named: Values.kwargs) -> Made:
        if len(schedule.ops) > MOST_OPS:
            return make(schedule, *values, **named)
        return made(_Same(schedule), *values, **named)  # type: ignore[arg-type]  # unhashable: TypeError

    return remembering
