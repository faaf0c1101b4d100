"""How causes share what they have lost together: each its Shapley value, as :mod:`streamsim.analysis.explain` says."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from streamsim.analysis.bounds import ENGINE_WORDS, Bound, lower_bound
from streamsim.analysis.causes import BEHIND, Key
from streamsim.analysis.removals import Removals
from streamsim.rules import ticks


class Split(NamedTuple):
    """The time of a schedule: the bound of its work, ``floor`` in ticks, and the ``parts`` of the causes above it.

    ``bound_by``: the engine that sets the bound; ``own_s``: the lower bound of the schedule as it stands.
    """

    parts: dict[Key, int]
    floor: int
    bound_by: str
    own_s: float


def split_of(removals: Removals) -> Split:
    """What each cause that is present has lost, in ticks; the parts and the floor add up to the makespan."""
    values = shares_of(removals)
    best, own, everything = removals.best(), lower_bound(*removals.case), removals.scenario(frozenset(removals.present))
    work = _work_s(own, lower_bound(*everything))
    bound_by = max(ENGINE_WORDS.values(), key=work.__getitem__)
    floor = min(best, *map(ticks, (work[bound_by], own.seconds)))
    filled = max(floor, min(best, removals.with_enough_blocks(everything)))
    values |= {"few-blocks": Fraction(best - filled), "few-chunks": Fraction(filled - floor)}
    return Split(_whole(values, removals.makespan - floor), floor, bound_by, own.seconds)


def _work_s(own: Bound, without_causes: Bound) -> dict[str, float]:
    """What the work takes each engine, seconds; neither bound is the lower one of every schedule.

    Without its latencies a kernel has no launch, in which others have the card.
    """
    both = own.each, without_causes.each
    return {name: min(each.get(name, 0.0) for each in both) for name in ENGINE_WORDS.values()}


def _whole(parts: dict[Key, Fraction], whole: int) -> dict[Key, int]:
    """``parts`` in whole ticks that still add up to ``whole``: rounded down, the largest remainders up."""
    rounded = {key: int(part) for key, part in parts.items()}
    missing = whole - sum(rounded.values())
    for key in sorted(parts, key=lambda key: rounded[key] - parts[key])[:missing]:
        rounded[key] += 1
    return rounded


def shares_of(removals: Removals) -> dict[Key, Fraction]:
    """What each cause that is present has lost, in ticks: together the makespan less ``removals.best()``."""
    if removals.is_exact:
        return mean_gains(removals.present, _shortest(removals))
    orders = in_turn(removals.present), in_turn(removals.present[::-1])
    for order in orders:
        for k in range(len(order)):
            removals.time(frozenset(order[: k + 1]))
    forth, back = (_gains(removals, order) for order in orders)
    return {key: Fraction(forth[key] + back[key], 2) for key in removals.present}


def _shortest(removals: Removals) -> dict[int, int]:
    """By mask over ``removals.present``: the shortest makespan with these causes removed, or only some of them.

    Only masks that can be reached: none has a cause without the one that it is BEHIND.
    """
    keys, found = removals.present, dict[int, int]()
    for mask in range(1 << len(keys)):
        removed = frozenset(key for k, key in enumerate(keys) if mask >> k & 1)
        if all(BEHIND[key] in removed for key in removed & set(BEHIND) if BEHIND[key] in keys):
            smaller = (found[mask ^ 1 << k] for k in range(len(keys)) if mask >> k & 1 and mask ^ 1 << k in found)
            found[mask] = min([removals.time(removed), *smaller])
    return found


def mean_gains(keys: Sequence[Key], v: dict[int, int]) -> dict[Key, Fraction]:
    """The mean, over all ways from no cause removed to all, of what each of ``keys`` gains when its turn comes.

    ``v`` by mask over them, for the masks that can be reached. A step is on as many ways as lead to it times
    as many as lead on.
    """
    steps = [(mask, k) for mask in v for k in range(len(keys)) if not mask >> k & 1 and mask | 1 << k in v]
    to: Counter[int] = Counter({0: 1})
    for mask, k in sorted(steps):
        to[mask | 1 << k] += to[mask]
    onward: Counter[int] = Counter({(1 << len(keys)) - 1: 1})
    for mask, k in sorted(steps, reverse=True):
        onward[mask] += onward[mask | 1 << k]
    gains = dict.fromkeys(keys, Fraction(0))
    for mask, k in steps:
        gains[keys[k]] += Fraction(to[mask] * onward[mask | 1 << k], onward[0]) * (v[mask] - v[mask | 1 << k])
    return gains


def in_turn(keys: Sequence[Key]) -> list[Key]:
    """``keys`` in this order, but each after the one that it is BEHIND."""
    found: list[Key] = []
    for key in keys:
        if BEHIND.get(key) in keys and BEHIND[key] not in found:
            found.append(BEHIND[key])
        if key not in found:
            found.append(key)
    return found


def _gains(removals: Removals, order: Sequence[Key]) -> dict[Key, int]:
    """What each cause gains when they are removed in this order; the last one also what another order reached."""
    gains, shortest = dict[Key, int](), removals.makespan
    for k, key in enumerate(order):
        time = removals.best() if k + 1 == len(order) else min(shortest, removals.time(frozenset(order[: k + 1])))
        gains[key], shortest = shortest - time, time
    return gains
