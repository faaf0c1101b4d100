"""What it takes from the end of an op until one that waits for it may start."""

from collections.abc import Sequence

KINDS = 4  # of ops: copies there and back, kernels, and what occupies no engine


def crossing(hand_overs: Sequence[int], before: int, after: int, event: int) -> int:
    """Ticks from an op of the kind ``before`` to one of the kind ``after``.

    ``hand_overs``: of each pair of kinds, row by row. ``event``: what an event adds, 0 within a stream.
    """
    return hand_overs[before * KINDS + after] + event
