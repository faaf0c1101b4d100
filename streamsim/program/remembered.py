"""A memory for results made of schedules, because the same programs are predicted on one device after another.

A comparison predicts each program at several speeds of its host, and an interval predicts it for each draw. A
calibration predicts some forty probes until it finds the numbers that give their measured times. An explanation makes
many changes of one program.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import Concatenate, Generic, ParamSpec, TypeVar

from streamsim.program.schedule import Schedule

MOST_OPS = 256_000  # ops of all schedules in a memory; lowered, each takes some 400 bytes, its dependences 1 or 2 kB
MOST = 64  # schedules in a memory

Made = TypeVar("Made")
Values = ParamSpec("Values")


class ResultCache(Generic[Made]):
    """The latest results made of schedules, by key: of at most ``MOST`` schedules and ``MOST_OPS`` ops in all.

    Results of a larger schedule are not kept. Kept results must not be changed.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Made, int]] = {}  # results and their ops, the least recently used first
        self._ops = 0  # of all results; each counts as MOST_OPS / MOST or more
        self._lock = Lock()

    def of(self, key: Hashable, make: Callable[[], tuple[Made, int]]) -> Made:
        """Return the result kept under ``key``, else the one that ``make`` returns together with its number of ops."""
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


def remembered(make: Callable[Concatenate[Schedule, Values], Made]) -> Callable[Concatenate[Schedule, Values], Made]:
    """Return ``make``, a function of a schedule and of hashable values, with a :class:`ResultCache` of its own."""
    memory = ResultCache[tuple[Made, Schedule]]()

    @wraps(make)
    def remembering(schedule: Schedule, /, *values: Values.args, **named: Values.kwargs) -> Made:
        # By identity: hashing ops takes as long as the result. A kept schedule keeps its id.
        key = id(schedule), values, *named.items()
        return memory.of(key, lambda: ((make(schedule, *values, **named), schedule), len(schedule.ops)))[0]

    return remembering
