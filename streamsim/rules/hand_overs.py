"""What it takes from the end of an op until one that waits for it may start."""

from collections.abc import Sequence

from streamsim.rules.kinds import KINDS

PAIR, MANY = 2, 6  # streams of a program that are not in the way of hand-overs, and of which more are no further


def crossing(hand_overs: Sequence[int], before: int, after: int, crosses: int) -> int:
    """Ticks from an op of the kind ``before`` to one of the kind ``after``.

    ``hand_overs``: of each pair of kinds, row by row, within a stream, and again from stream to stream. ``crosses``: 1
    where it is from stream to stream, else 0.
    """
    return hand_overs[(crosses * KINDS + before) * KINDS + after]


def heard(ended: int, hand_over: int, comes: int) -> int:
    """When an op that comes to the card at the tick ``comes`` hears of one that has ended.

    A hand-over later where it waited for that; at once where it comes no sooner than the end.
    """
    return ended + hand_over if comes < ended else ended


def in_the_way(streams: int) -> int:
    """How many streams of a program that issues its ops one by one, over so many, are in the way of a hand-over."""
    return min(max(streams, PAIR), MANY) - PAIR
