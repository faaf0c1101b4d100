"""Under which cause a remedy is listed: the one whose part it removes most.

A change that is tried against one cause may remove another one: kernels that leave the legacy default stream because
their chunks are dealt out to new streams cost no more of what that stream costs. So where a remedy gains more than its
cause has lost, the lost time of the schedule with the remedy is split like that of the schedule without it, and the
difference says what it has removed.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from streamsim.analysis.advice import NEAR
from streamsim.analysis.causes import CAUSES, Assuming, Key, Loss
from streamsim.analysis.remedies import Remedy
from streamsim.analysis.removals import Removals
from streamsim.analysis.shapley import split_of
from streamsim.rules import TICKS_PER_S

LEAST = 0.01  # of the makespan: a remedy that gains less stays where it was tried
MOST_OPS = 20_000  # of a schedule that is split once more


class _Tried(NamedTuple):
    """A remedy and what it gains, in ticks."""

    gain: int
    remedy: Remedy


def losses_of(removals: Removals, parts: dict[Key, int]) -> Iterator[Loss]:
    """For each cause of ``parts``, which are in ticks: what it has lost, and its best remedies."""
    tried = {
        key: [_Tried(removals.makespan - removals.run(r.scenario), r) for r in removals.remedies.of(key)]
        for key in parts
    }
    shown, assumed = (
        {key: [one for one in some if bool(one.remedy.assumes) == assumes] for key, some in tried.items()}
        for assumes in (False, True)
    )
    homes, homes_assumed = _move(removals, parts, shown), _move(removals, parts, assumed)
    for key, ticks in parts.items():
        home = homes.get(key, None if assumed[key] else homes_assumed.get(key))
        yield _loss(removals, key, ticks, shown[key], assumed[key], home)


def _move(removals: Removals, parts: dict[Key, int], tried: dict[Key, list[_Tried]]) -> dict[Key, Key]:
    """Move remedies that gain more than their cause's part to the cause of which they remove most; say which to which.

    Where that is decides the best remedy of a cause.
    """
    homes: dict[Key, Key] = {}
    for key, some in tried.items():
        best = _best(some)
        if best is not None and best.gain > max(parts[key], LEAST * removals.makespan):
            home = _home(removals, key, best.remedy, parts)
            if home != key:
                homes[key] = home
    moved = {key: [one for one in tried[key] if one.gain > parts[key]] for key in homes}
    for key, home in homes.items():
        tried[key] = [one for one in tried[key] if one not in moved[key]]
        tried[home] = tried[home] + moved[key]
    return homes


def _home(removals: Removals, key: Key, remedy: Remedy, parts: dict[Key, int]) -> Key:
    """The cause of which a remedy removes most; ``key``, against which it was tried, if it removes nearly as much."""
    if len(remedy.scenario.schedule) > MOST_OPS:
        return key
    after = Removals(remedy.scenario, is_exact=False)
    left = split_of(after).parts
    removals.simulations += after.simulations
    removed = {cause: part - left.get(cause, 0) for cause, part in parts.items()}
    most = max(removed, key=lambda cause: (removed[cause], parts[cause]))
    return key if removed[key] >= NEAR * removed[most] > 0 else most


def _best(tried: Sequence[_Tried]) -> _Tried | None:
    return max(tried, key=lambda one: one.gain, default=None)  # of equals the simplest


def _loss(
    removals: Removals, key: Key, ticks: int, shown: Sequence[_Tried], assumed: Sequence[_Tried], home: Key | None
) -> Loss:
    best, under = _best(shown), _best(assumed)
    known = max(0, best.gain) if best else 0
    assuming = None
    if under is not None and under.gain > known:
        assuming = Assuming(under.remedy.assumes, under.remedy.text, under.gain / TICKS_PER_S, under.remedy.scenario)
    if best is not None:
        text = best.remedy.text + "; does not help alone" * (best.gain <= 0)
        return Loss(key, ticks, best.gain / TICKS_PER_S, text, best.remedy.scenario, assuming)
    if home is not None:
        why = f"what helps stands under {CAUSES[home].title}"
    elif under is not None:
        why = "none without an assumption" if assuming else f"{under.remedy.text}; does not help alone"
    elif removals.remedies.has_any(key):
        why = "what would help has no room on the card"
    else:
        why = f"cannot be removed: {CAUSES[key].otherwise}"
    return Loss(key, ticks, removals.worth_s(key), why, None, assuming)
