"""How crowded a card is: while kernels wait for copies in several hardware queues, copies begin later."""

CROWD = 4  # hardware queues with kernels that wait: more of them crowd a card no further


def level(waiting: int, queues: int) -> int:
    """0 (nobody waits, or in one queue only) to ``CROWD - 1``, with so many kernels that wait in so many queues."""
    return max(0, min(waiting, queues, CROWD) - 1)
