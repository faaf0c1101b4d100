"""What kernels cost: the measured times of one over its elements, and what a part of a launch takes of the whole's."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import msgspec

from streamsim.checks import LARGEST_BYTES, LEAST_SHARE, LONGEST_S, check_number, check_whole
from streamsim.device.fields import Table
from streamsim.errors import InputError

SHORTEST_KERNEL_S = 1e-9


class KernelCost(Table, frozen=True):
    """Measured time alone on the card of the kernel ``name`` with ``parameter``, over its elements.

    Linear between the points and, by the slope of the last two, beyond; constant below the first.
    """

    name: str
    parameter: int
    elements: tuple[int, ...]
    duration_s: tuple[float, ...]

    def __post_init__(self) -> None:
        Table.__post_init__(self)
        if len(self.elements) < 2 or len(self.elements) != len(self.duration_s):
            raise InputError(f"elements = {self.elements!r}: expected at least two, as many as duration_s")
        if any(b <= a for a, b in zip((0, *self.elements), self.elements, strict=False)):
            raise InputError(f"elements = {self.elements!r}: expected positive and increasing")
        check_whole("elements", self.elements[-1], 1, LARGEST_BYTES)
        for value in self.duration_s:
            check_number("duration_s", value, SHORTEST_KERNEL_S, LONGEST_S)
        if self.duration_s[-1] <= self.duration_s[-2]:
            raise InputError(f"duration_s = {self.duration_s!r}: expected the last above the one before it")

    def at(self, elements: int) -> float:
        """Seconds alone on the card for ``elements``."""
        xs, ys = self.elements, self.duration_s
        if elements <= xs[0]:
            return ys[0]
        i = min(bisect_right(xs, elements), len(xs) - 1)
        return ys[i - 1] + (ys[i] - ys[i - 1]) * (elements - xs[i - 1]) / (xs[i] - xs[i - 1])

    @property
    def s_per_element(self) -> float:
        """Seconds per element with the card full: the slope of the last two points."""
        return (self.duration_s[-1] - self.duration_s[-2]) / (self.elements[-1] - self.elements[-2])

    def drain_s(self, threads: int, full: int, floor_s: float) -> float:
        """Seconds of a launch of so many threads, on a card of ``full`` > 0, that leave the card to other launches.

        What a launch of ``full`` takes beyond its elements' time at the full pace: of it the launch itself, up to
        ``floor_s``, whatever the threads, and the rest, until the last of the threads end, in proportion to them.
        """
        whole_s = max(0.0, self.at(full) - full * self.s_per_element)
        launch_s = min(floor_s, whole_s)
        return launch_s + (whole_s - launch_s) * min(1.0, threads / full)

    def pace(self, threads: int, full: int, floor_s: float) -> float:
        """Share of its full pace (1 / ``s_per_element``) that a card of ``full`` threads goes at with some on it.

        Read off the time of one launch of so many elements, 0 < ``threads`` <= ``full``, less what of it leaves the
        card to others: see :meth:`drain_s`.
        """
        works_s = self.at(threads) - self.drain_s(threads, full, floor_s)
        return min(1.0, threads * self.s_per_element / max(works_s, 1e-12))


@lru_cache(maxsize=64)
def paces(cost: KernelCost, full: int, floor_s: float, steps: int) -> tuple[float, ...]:
    """The pace of a card of ``full`` threads with 1 .. ``steps`` ``steps``-ths of them in use: see KernelCost.pace."""
    return tuple(cost.pace(full * step // steps, full, floor_s) for step in range(1, steps + 1))


# A part of a launch


# Below an eighth of a wave of the card's threads the time of a launch falls no more: there it is a quarter of a wave's.
# From there to the whole launch it is a line. See docs/evidence.md for the kernels that this was judged on.
LEAST_THREADS, LEAST_TIME = 1 / 8, 1 / 4


def part_s(
    whole_s: float, share: float, waves: float, floor_s: float, parts: Sequence[tuple[float, float]] = ()
) -> float:
    """Seconds that ``share`` of a launch takes of which the time of the whole is known, and that of ``parts`` of it.

    ``waves``: how often its threads fill the card (0: not known, and then as often as one likes). ``floor_s``: what any
    launch takes. ``parts``: (share, seconds), ascending. What is beyond the floor lies on lines through what is known,
    and below the smallest part as that part's own parts do, by the rule above, or on the line through it and a larger
    one where that is more. A part that takes more than its share of the next one takes what all do up to an eighth of a
    wave, or until that is their share; one of ``LEAST_SHARE``, a latency, what is left where there is no work.
    """
    (least, least_s), *more = known = [(part, max(0.0, took_s - floor_s)) for part, took_s in (*parts, (1.0, whole_s))]
    if share <= least:
        found_s = by_rule_s = least_s * _part_of(share / least, waves * least)
        for larger in reversed(more):
            found_s += _weight(least, larger[0]) * (_on_a_line(share, known[0], larger) - found_s)
        return floor_s + max(by_rule_s, found_s)
    one, other = next(pair for pair in pairwise(known) if share <= pair[1][0])
    until = _alike_until(one, other, waves)
    return floor_s + (one[1] if share <= until else _on_a_line(share, (max(one[0], until), one[1]), other))


def bends(whole_s: float, waves: float, floor_s: float, parts: Sequence[tuple[float, float]] = ()) -> list[float]:
    """Shares between which :func:`part_s` is a straight line, and below which time over share falls with the share."""
    known = [(part, max(0.0, took_s - floor_s)) for part, took_s in (*parts, (1.0, whole_s))]
    untils = (_alike_until(one, other, waves) for one, other in pairwise(known))
    return [*(share for share, _ in known), *(until for until in untils if 0 < until < 1)]


def _alike_until(one: tuple[float, float], other: tuple[float, float], waves: float) -> float:
    """Up to which share all take what the part ``one`` does; ``other``: the next larger part; less their floor."""
    is_part = waves and one[0] > LEAST_SHARE and other[1]  # else a latency
    return min(LEAST_THREADS / waves, other[0] * one[1] / other[1]) if is_part else one[0]


def _weight(one: float, other: float) -> float:
    """What the line through two parts counts for: all where one is twice the other; nothing where they are the same."""
    return min(1.0, 2 * (1 - one / other))


def _part_of(share: float, waves: float) -> float:
    """What ``share`` of a launch of so many waves takes of the whole's time, both beyond the floor."""
    if not waves:
        return share
    knee = LEAST_THREADS / waves
    return 1.0 if knee >= 1 else _on_a_line(max(share, knee), (knee, LEAST_TIME / _of_a_wave(waves)), (1.0, 1.0))


def _of_a_wave(waves: float) -> float:
    """How many times as long as one wave of threads so many take, beyond the floor."""
    return waves if waves >= 1 else _on_a_line(max(waves, LEAST_THREADS), (LEAST_THREADS, LEAST_TIME), (1.0, 1.0))


def _on_a_line(share: float, one: tuple[float, float], other: tuple[float, float]) -> float:
    return one[1] + (other[1] - one[1]) * (share - one[0]) / (other[0] - one[0])


def constant_s(whole_s: float, waves: float, floor_s: float, parts: Sequence[tuple[float, float]] = ()) -> float:
    """Seconds of a whole launch in which it does no work, however much it has; arguments as for :func:`part_s`.

    Where a line through the whole and the largest part that is known begins, ``floor_s`` at least. A part of less than
    a wave also takes long for want of threads: of it that is known to the extent that it is a wave. Of one of more than
    half, which is at odds with the whole for little, the less the nearer it is to that; the next one says the rest.
    """
    found_s = 0.0
    for share, took_s in parts:
        known = _weight(share, 1.0)
        begins_s = min(took_s, _on_a_line(0.0, (share, took_s), (1.0, whole_s))) if known else 0.0
        found_s = known * max(0.0, begins_s - floor_s) * min(1.0, waves * share) + (1 - known) * found_s
    return floor_s + found_s


# Tables of costs, changed


Costs = tuple[KernelCost, ...]


def multiplied_costs(costs: Costs, factor: float) -> tuple[Costs, float]:
    """All times by ``factor``, or as near to it as a profile may hold; and the factor that this is."""
    known = [seconds for cost in costs for seconds in cost.duration_s]
    if known:
        factor = max(SHORTEST_KERNEL_S / min(known), min(factor, LONGEST_S / max(known)))

    def times(seconds: float) -> float:  # the last digit may reach beyond what a profile may hold
        return max(SHORTEST_KERNEL_S, min(seconds * factor, LONGEST_S))

    return tuple(_with_times(cost, tuple(map(times, cost.duration_s))) for cost in costs), factor


def faster_costs(costs: Costs, factor: float) -> Costs:
    """All times over ``factor``; a kernel of which a time would then be too short for a profile stays as it is."""
    return tuple(
        cost
        if min(cost.duration_s) < SHORTEST_KERNEL_S * factor
        else _with_times(cost, tuple(seconds / factor for seconds in cost.duration_s))
        for cost in costs
    )


def mean_costs(one: Costs, other: Costs) -> Costs:
    """Of kernels in both tables the mean times at the elements of the first one, and those in either."""
    costs = {(cost.name, cost.parameter): cost for cost in other}
    means = []
    for cost in one:
        again = costs.pop((cost.name, cost.parameter), cost)
        others = again.duration_s if again.elements == cost.elements else map(again.at, cost.elements)
        means.append(_with_times(cost, tuple((a + b) / 2 for a, b in zip(cost.duration_s, others, strict=True))))
    return (*means, *costs.values())


def _with_times(cost: KernelCost, duration_s: tuple[float, ...]) -> KernelCost:
    return msgspec.structs.replace(cost, duration_s=duration_s)
