"""What an explanation says first: pure functions of the causes, their parts and what their remedies gain.

**A remedy comes first** if it gains a ``WORTH`` of the makespan, more than a third of what the largest cause costs,
and no more than ``FAR`` times its own cause's part: a remedy that gains far more removes something else. Of the
remedies that gain nearly as much (``NEAR``) as the best one, the one whose cause costs most comes first.

**Else the largest cause comes first**, with what it means and the best change: where something costs much and no single
change removes it, that is what to know. A cause that costs nearly as much (``NEAR``) comes in its place if, of the
changes that assume something, its change gains most. **Else nothing is worth changing**: no change gains a ``WORTH``,
and either no cause costs as much, or what the largest costs is the card's, or all was tried that can be done about it.

Changes that gain clearly more **together** than the best single one are said with it, or in place of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from streamsim.analysis.causes import Key, Loss, Together
from streamsim.rules import ticks
from streamsim.text import format_seconds, format_share

WORTH = 0.03  # of the makespan: what gains less, or costs less, is not worth a change
THIRDS = 3  # a remedy comes first if it gains more than a third of the largest cause's part
FAR = 3.0  # times its cause's part
NEAR = 0.8  # of the largest gain
NEGLIGIBLE = 0.02  # of the makespan: where less is lost above the bound, the bound is what there is to explain

# Nobody changes these by another program of the same work.
FIXED: frozenset[Key] = frozenset(("duplex", "same-direction", "full-kernels", "unbalanced"))
# Of these all is tried that can be done, where anything can be tried.
TRIED: frozenset[Key] = frozenset(
    ("issue-order", "needless-order", "connections", "many-streams", "small-chunks", "few-chunks")
)


class Advice(NamedTuple):
    """What is said first: the cause that is named (None: nothing is worth changing), and the sentence."""

    first: Loss | None
    words: str


def advise(
    losses: Sequence[Loss],
    limits: Sequence[Loss],
    makespan_s: float,
    together: Together | None = None,
    within: float = 0.0,
) -> Advice:
    """Choose what to say first, in whatever order the causes come. ``within``: the times' relative error, if known."""
    best, largest = best_of(losses), largest_of(losses, limits, makespan_s)
    if best is None and largest is None:
        return Advice(None, "nothing is lost")
    conditional = _conditional(losses, best, makespan_s)
    assuming = f"; {conditional.assuming.words(within)}" if conditional and conditional.assuming else ""
    most = _most(best, makespan_s, within)
    gain_s = best.gain_alone_s if best else 0.0
    part_s = largest.lost_s if largest in losses and largest else 0.0
    is_large, is_worth = part_s >= WORTH * makespan_s, gain_s >= WORTH * makespan_s
    chosen = _proportionate(losses, best) if THIRDS * ticks(gain_s) > ticks(part_s) else None
    if is_worth and (chosen or not is_large):
        chosen = chosen or best  # which then lowers the bound itself
        assert chosen is not None
        more = f"; better still, {together.words(within)}" if together else ""
        return Advice(chosen, f"{chosen.title}: {chosen.remedy}{more}{assuming}")
    if together is not None and largest is not None:
        alone = f"; {most}" if len(together.changes) > 1 else ""
        return Advice(largest, f"{together.words(within)}{alone}{assuming}")
    if largest is not None and is_large and (is_worth or _says_more(largest)):
        is_near = conditional is not None and conditional.lost_s >= NEAR * largest.lost_s
        named = conditional if is_near and conditional is not None else largest
        return Advice(named, f"{named.title}: {named.meaning}; {most}{assuming}")
    limit = f"; what limits it is {largest.title}" if largest else ""
    return Advice(None, f"nothing is worth changing: {most}{limit}{assuming}")


def best_of(losses: Sequence[Loss]) -> Loss | None:
    """The cause whose remedy gains most; of equals the larger one."""
    return max((loss for loss in losses if loss.helps), key=lambda loss: (loss.gain_alone_s, loss.ticks), default=None)


def largest_of(losses: Sequence[Loss], limits: Sequence[Loss], makespan_s: float) -> Loss | None:
    """The cause that has lost most; or, where next to nothing is lost, the largest limit."""
    is_lost = sum(loss.lost_s for loss in losses) >= NEGLIGIBLE * makespan_s
    return max((is_lost and losses) or limits or losses, key=lambda loss: loss.ticks, default=None)


def ordered(losses: Sequence[Loss], limits: Sequence[Loss], makespan_s: float) -> tuple[Loss, ...]:
    """The ``losses``: the one that is named first, then the largest; of equals what gains more."""
    first = advise(losses, limits, makespan_s).first
    return tuple(sorted(losses, key=lambda loss: (loss is not first, -loss.ticks, -loss.gain_alone_s)))


def _proportionate(losses: Sequence[Loss], best: Loss | None) -> Loss | None:
    """Of the remedies that gain nearly as much as the best, and not far more than their causes' parts: the largest."""
    near = [
        loss
        for loss in losses
        if best and loss.helps and NEAR * best.gain_alone_s <= loss.gain_alone_s <= FAR * loss.lost_s
    ]
    return max(near, key=lambda loss: (loss.ticks, loss.gain_alone_s), default=None)


def _says_more(largest: Loss) -> bool:
    """Return True if something may be done about the largest cause beyond the remedies that were tried."""
    return largest.cause not in FIXED and not (largest.cause in TRIED and largest.made)


def _conditional(losses: Sequence[Loss], best: Loss | None, makespan_s: float) -> Loss | None:
    """Return the cause whose change under a condition gains most; None if ``best`` gains as much without one."""
    known_s = max(best.gain_alone_s if best else 0.0, WORTH * makespan_s)
    gains = [(loss.assuming.gain_alone_s, loss) for loss in losses if loss.assuming]
    gain_s, found = max(gains, key=lambda gain: gain[0], default=(0.0, None))
    return found if gain_s > known_s else None


def _most(best: Loss | None, makespan_s: float, within: float) -> str:
    """What the best single change gains, in words."""
    if best is None:
        return "no single change helps"
    share = best.gain_alone_s / makespan_s
    percent = "under 0.1%" if share < 1e-3 else format_share(share, within)
    gain = f"{format_seconds(best.gain_alone_s, within)} ({percent})"
    return f"no single change gains more than {gain}: {best.remedy}"
