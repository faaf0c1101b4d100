"""Kernel costs: measured times of a kernel over its elements, and the time of a part of a launch."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec.structs import replace

from streamsim.checks import LARGEST_BYTES, LEAST_SHARE, LONGEST_S, SHORTEST_KERNEL_S, check_number, check_whole
from streamsim.device.fields import ProfileTable
from streamsim.errors import InputError


class KernelCost(ProfileTable, frozen=True):
    """The measured time of the kernel ``name`` with ``parameter`` over its elements, alone on the card.

    The time is linear between the measured points, and constant below the first one. Beyond the last point it goes on
    with the slope of the last two. Raises InputError for points that do not increase.
    """

    name: str
    parameter: int
    elements: tuple[int, ...]
    duration_s: tuple[float, ...]

    def __post_init__(self) -> None:
        ProfileTable.__post_init__(self)
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
        """Return the seconds for ``elements``, alone on the card."""
        xs, ys = self.elements, self.duration_s
        if elements <= xs[0]:
            return ys[0]
        i = min(bisect_right(xs, elements), len(xs) - 1)
        return ys[i - 1] + (ys[i] - ys[i - 1]) * (elements - xs[i - 1]) / (xs[i] - xs[i - 1])

    @property
    def s_per_element(self) -> float:
        """The seconds per element on a full card: the slope of the last two points."""
        return (self.duration_s[-1] - self.duration_s[-2]) / (self.elements[-1] - self.elements[-2])

    def drain_s(self, threads: int, full: int, floor_s: float) -> float:
        """Return the seconds of a launch of ``threads`` in which the card, of ``full`` > 0 threads, is free for others.

        A launch of ``full`` threads takes longer than its elements do at the full pace. Up to ``floor_s`` of that
        excess is the launch itself, whatever its threads. The rest passes until the last threads end, in proportion to
        the threads.
        """
        whole_s = max(0.0, self.at(full) - full * self.s_per_element)
        launch_s = min(floor_s, whole_s)
        return launch_s + (whole_s - launch_s) * min(1.0, threads / full)

    def pace(self, threads: int, full: int, floor_s: float) -> float:
        """Return the pace of a card of ``full`` threads with ``threads`` of them in use, 0 < ``threads`` <= ``full``.

        The pace is a share of the full pace, 1 / ``s_per_element``. It follows from the time of one launch of
        ``threads`` elements without its :meth:`drain_s`.
        """
        work_s = self.at(threads) - self.drain_s(threads, full, floor_s)
        return min(1.0, threads * self.s_per_element / max(work_s, 1e-12))


@lru_cache(maxsize=64)
def paces(cost: KernelCost, full: int, floor_s: float, steps: int) -> tuple[float, ...]:
    """Return the paces of a card of ``full`` threads with 1 .. ``steps`` ``steps``-ths of them in use.

    See :meth:`KernelCost.pace`.
    """
    return tuple(cost.pace(full * step // steps, full, floor_s) for step in range(1, steps + 1))


# A part of a launch


# A wave is as many threads as fill the card. A launch of an eighth of a wave or less takes a quarter of a wave's time.
# From there to the whole launch the time is a straight line. docs/tried.md has other limits that were tried.
LEAST_THREADS, LEAST_TIME = 1 / 8, 1 / 4


def part_s(
    whole_s: float, share: float, waves: float, floor_s: float, parts: Sequence[tuple[float, float]] = ()
) -> float:
    """Return the seconds that ``share`` of a launch takes; the whole takes ``whole_s``.

    - ``waves``: how many times the threads of the whole launch fill the card (0: unknown; then no wave is too small).
    - ``floor_s``: the seconds that any launch takes. The rules below are for the seconds beyond this floor.
    - ``parts``: known times of parts of the launch, as (share, seconds), ascending.

    Between known parts, the time lies on the line through them. The smaller of two parts may take more than its share
    of the larger one. Then all parts up to an eighth of a wave take as long as the smaller one, or up to the share at
    which that time is their share of the larger one. A part of ``LEAST_SHARE`` is a latency: the time without any work.
    Below the smallest known part, the time follows the rule above for that part's own parts, or the line through it and
    a larger part where that is longer.
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
    """Return the shares between which :func:`part_s` is a straight line.

    Below the smallest of them, the time divided by the share falls with a growing share.
    """
    known = [(part, max(0.0, took_s - floor_s)) for part, took_s in (*parts, (1.0, whole_s))]
    untils = (_alike_until(one, other, waves) for one, other in pairwise(known))
    return [*(share for share, _ in known), *(until for until in untils if 0 < until < 1)]


def _alike_until(one: tuple[float, float], other: tuple[float, float], waves: float) -> float:
    """Return the share up to which all parts take as long as the part ``one``; ``other``: the next larger part.

    Both are (share, seconds beyond the floor).
    """
    is_part = waves and one[0] > LEAST_SHARE and other[1]  # else a latency
    return min(LEAST_THREADS / waves, other[0] * one[1] / other[1]) if is_part else one[0]


def _weight(one: float, other: float) -> float:
    """Return the weight of the line through parts of two shares: 0 if equal, 1 if one is at least twice the other."""
    return min(1.0, 2 * (1 - one / other))


def _part_of(share: float, waves: float) -> float:
    """Return the time of ``share`` of a launch of ``waves`` over the time of the whole, both beyond the floor."""
    if not waves:
        return share
    knee = LEAST_THREADS / waves
    return 1.0 if knee >= 1 else _on_a_line(max(share, knee), (knee, LEAST_TIME / _of_a_wave(waves)), (1.0, 1.0))


def _of_a_wave(waves: float) -> float:
    """Return the time of ``waves`` waves over the time of one wave, both beyond the floor."""
    return waves if waves >= 1 else _on_a_line(max(waves, LEAST_THREADS), (LEAST_THREADS, LEAST_TIME), (1.0, 1.0))


def _on_a_line(share: float, one: tuple[float, float], other: tuple[float, float]) -> float:
    return one[1] + (other[1] - one[1]) * (share - one[0]) / (other[0] - one[0])


def constant_s(whole_s: float, waves: float, floor_s: float, parts: Sequence[tuple[float, float]] = ()) -> float:
    """Return the seconds of a whole launch that do not depend on its work, at least ``floor_s``.

    The arguments are those of :func:`part_s`. The line through the whole and the largest known part, extended to share
    0, gives these seconds. Two things make a part less certain, and it counts for less:

    - A part of less than a wave also takes long because it has few threads. It counts in proportion to its waves.
    - A part of more than half of the launch is too near to the whole. It counts less, the larger it is, and the next
      smaller part counts for the rest.
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
    """Return ``costs`` with all times multiplied by ``factor``, and the factor used.

    The factor used is the nearest one whose times a profile may hold.
    """
    known = [seconds for cost in costs for seconds in cost.duration_s]
    if known:
        factor = max(SHORTEST_KERNEL_S / min(known), min(factor, LONGEST_S / max(known)))

    def times(seconds: float) -> float:  # the last digit may reach beyond what a profile may hold
        return max(SHORTEST_KERNEL_S, min(seconds * factor, LONGEST_S))

    return tuple(replace(cost, duration_s=tuple(map(times, cost.duration_s))) for cost in costs), factor


def mean_costs(one: Costs, other: Costs) -> Costs:
    """Return the kernels of either table; a kernel in both has the mean times at its elements in ``one``."""
    costs = {(cost.name, cost.parameter): cost for cost in other}
    means = []
    for cost in one:
        again = costs.pop((cost.name, cost.parameter), cost)
        others = again.duration_s if again.elements == cost.elements else map(again.at, cost.elements)
        means.append(replace(cost, duration_s=tuple((a + b) / 2 for a, b in zip(cost.duration_s, others, strict=True))))
    return (*means, *costs.values())
