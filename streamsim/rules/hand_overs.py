"""The kinds of ops, and the time from the end of an op until an op that waits for it may start."""

from collections.abc import Sequence

H2D, D2H, KERNEL, NOTHING = 0, 1, 2, 3  # kinds of ops; NOTHING goes to no engine
KINDS = 4

PAIR, MANY = 2, 6  # a program's streams delay hand-overs from the third on; more than six delay them no further


def crossing(hand_overs: Sequence[int], before: int, after: int, crosses: int) -> int:
    """Return the ticks from an op of the kind ``before`` to one of the kind ``after``.

    ``hand_overs``: ticks for each pair of kinds, row by row, within a stream, and then from stream to stream.
    ``crosses``: 1 from stream to stream, else 0.
    """
    return hand_overs[(crosses * KINDS + before) * KINDS + after]


def heard(ended: int, hand_over: int, comes: int) -> int:
    """Return the tick at which an op that comes to the card at ``comes`` hears of an op that ended at ``ended``.

    An op that waited hears ``hand_over`` ticks after the end. An op that comes later hears at the end itself.
    """
    return ended + hand_over if comes < ended else ended


def in_the_way(streams: int) -> int:
    """Return the number of streams that delay a hand-over, in a program that issues op by op over ``streams``."""
    return min(max(streams, PAIR), MANY) - PAIR
