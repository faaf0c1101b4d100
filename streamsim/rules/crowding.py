"""How crowded a card is: while kernels wait for copies in several hardware queues, copies begin later."""

from typing import Final

CROWD: Final = 4  # hardware queues with kernels that wait: more of them crowd a card no further
# What each level costs, of the NINTHS of what the highest does where ops are issued one by one: launched together, in a
# graph, queues beyond the second cost a third of that.
NINTHS: Final = 9
COSTS: Final = {"live": (0, 3, 6, 9), "graph": (0, 3, 4, 5)}


def level(waiting: int, queues: int) -> int:
    """0 (nobody waits, or in one queue only) to ``CROWD - 1``, with so many kernels that wait in so many queues."""
    return max(0, min(waiting, queues, CROWD) - 1)
