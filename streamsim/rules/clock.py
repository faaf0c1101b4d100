"""The model's clock: whole nanoseconds, on which ties are exact."""

import math

TICKS_PER_S = 10**9
TICKS_PER_US = 10**3
S_PER_TICK = 1e-9


def ticks(seconds: float) -> int:
    """Whole nanoseconds, half up."""
    return math.floor(seconds * TICKS_PER_S + 0.5)
