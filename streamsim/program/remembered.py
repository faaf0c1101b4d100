"""A memory of what is made of schedules, for when it is asked for again: the same programs on one device after another.

A comparison predicts each program at several speeds of its host, an interval on each of its draws, and a calibration
seeks the numbers with which some forty probes take what was measured. An explanation makes many changes of one program.
"""

from __future__ import annotations

from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from streamsim.program.schedule import Schedule

MOST_OPS = 256_000  # of all schedules in a memory: a lowered one takes some 400 bytes an op, its dependences 1 or 2 kB
MOST = 64  # schedules in a memory

Made = TypeVar("Made")
Values = ParamSpec("Values")


class Memory(Generic[Made]):
    """The latest things that were made of schedules, by a key: of ``MOST`` schedules, and of ``MOST_OPS`` ops in all.

    What is made of a larger schedule is not kept. Nobody may change what is kept.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Made, int]] = {}  # with the ops; the one used longest ago first
        self._ops = 0  # of all; each schedule counts as MOST_OPS / MOST at least
        self._lock = Lock()

    def of(self, key: Hashable, make: Callable[[], tuple[Made, int]]) -> Made:
        """Return what is kept by ``key``, else what ``make`` gives: it, and the number of ops that it holds."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found
                return found[0]
        made, ops = make()
        ops = max(ops, MOST_OPS // MOST)
        with self._lock:
            if ops <= MOST_OPS and key not in self._kept:
                self._kept[key] = made, ops
                self._ops += ops
                while self._ops > MOST_OPS:
                    self._ops -= self._kept.pop(next(iter(self._kept)))[1]
        return made


class _Same:
    """A schedule that equals itself alone: to hash and compare one op by op takes as long as looking at it anew."""

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def __hash__(self) -> int:
        return id(self.schedule)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.schedule is other.schedule


def remembered(make: Callable[Concatenate[Schedule, Values], Made]) -> Callable[Concatenate[Schedule, Values], Made]:
    """Return ``make``, a function of a schedule and of hashable values, with a :class:`Memory` of its own."""
    memory = Memory[Made]()

    @wraps(make)
    def remembering(schedule: Schedule, /, *values: Values.args, **named: Values.kwargs) -> Made:
        key = _Same(schedule), values, *named.items()
        return memory.of(key, lambda: (make(schedule, *values, **named), len(schedule.ops)))

    return remembering
