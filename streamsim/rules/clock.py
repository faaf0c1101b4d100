"""The model's clock counts whole nanoseconds (ticks), so that equal times are exactly equal."""

import math

TICKS_PER_S = 10**9
TICKS_PER_US = 10**3
S_PER_TICK = 1e-9


def ticks(seconds: float) -> int:
    """Return the whole nanoseconds nearest to ``seconds``; a half is rounded up."""
    return math.floor(seconds * TICKS_PER_S + 0.5)
