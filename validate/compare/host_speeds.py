"""The speed of the host beside the programs of a front end, and the misses that it explains."""

import math
import statistics
from collections.abc import Iterable
from typing import NamedTuple

from streamsim_validate.compare.rows import DEVICE_BOUND, HOST_BOUND, Row

GOALS = {DEVICE_BOUND: (0.02, 0.08), HOST_BOUND: (0.08, 0.25)}  # errors: median, 95th percentile
TWO_SPEEDS = 1.2  # two speeds are at least this factor apart
FEW = 0.1  # a speed of its own has a larger share of the rounds than this
MOVED = 1.15  # the host changed its speed if it did by this factor from before a program until after it


class HostSpeeds(NamedTuple):
    """The time of calls beside the programs of a front end, over the calibrated time: 2 is half as fast.

    - ``low``, ``high``: the 10th and the 90th percentile of ``n`` rounds.
    - ``two``: if there are two speeds, (median, number of rounds) of each.
    - ``misses``: the number of ``programs`` whose error is beyond the goal for the 95th percentile.
    - ``of_host``: misses that are within the goals at the speed at which they were issued.
    - ``while_moving``: other misses during which the host changed its speed.
    """

    n: int
    low: float
    high: float
    two: tuple[tuple[float, int], ...]
    programs: int
    misses: int
    of_host: int
    while_moving: int

    @property
    def apart(self) -> float:
        """The slower speed over the faster; 1 if there is one."""
        return self.two[1][0] / self.two[0][0] if self.two else 1.0


def host_speeds(rows: Iterable[Row]) -> HostSpeeds | None:
    """Return the speeds beside the programs of one front end; None if none was measured."""
    programs = list(rows)
    speeds = sorted(speed for row in programs for speed in row.speeds if speed > 0)
    if not speeds:
        return None
    missed = [row for row in programs if abs(row.error) > GOALS[row.klass][1]]
    of_host = [row for row in missed if abs(row.at_speed_error) <= GOALS[row.klass][1]]
    moving = [row for row in missed if row not in of_host and _has_moved(row)]
    tenths = statistics.quantiles(speeds, n=10, method="inclusive") if len(speeds) > 1 else [speeds[0]] * 9
    counts = len(programs), len(missed), len(of_host), len(moving)
    return HostSpeeds(len(speeds), tenths[0], tenths[-1], _two_speeds(speeds), *counts)


def _has_moved(row: Row) -> bool:
    return len(row.speeds) > 1 and max(row.speeds) > MOVED * min(row.speeds)


def _two_speeds(speeds: list[float]) -> tuple[tuple[float, int], ...]:
    """Return (median, number) below and above the middle between the fastest and the slowest, of ascending speeds."""
    fast, slow = (speeds[round(share * (len(speeds) - 1))] for share in (FEW / 2, 1 - FEW / 2))
    middle = math.sqrt(fast * slow)
    sides = [[s for s in speeds if s <= middle], [s for s in speeds if s > middle]]
    if min(map(len, sides)) <= FEW * len(speeds):
        return ()
    medians = [statistics.median(side) for side in sides]
    return tuple(zip(medians, map(len, sides), strict=True)) if medians[1] >= TWO_SPEEDS * medians[0] else ()
