"""The link between host and card: its two directions slow each other down while both move bytes.

A copy's bytes begin to flow when its latency has passed. Then a number of units flows in each tick, and a smaller
number while the other direction flows too. Only the overlapping part is slower, and no byte is lost.

The latency grows with the card's level of crowding: kernels that wait for copies in several hardware queues delay them.
"""

NEVER = 1 << 62  # the tick of what does not happen, such as the begin of a flow without a copy
CROWD = 4  # hardware queues with waiting kernels; more of them crowd a card no further


def level(waiting: int, queues: int) -> int:
    """Return the level of crowding: from 0 (kernels wait in one queue at most) to ``CROWD - 1``.

    ``waiting``: kernels that wait for copies. ``queues``: hardware queues in which such kernels stand.
    """
    return max(0, min(waiting, queues, CROWD) - 1)


def ticks_for(units: int, rate: int) -> int:
    """Return the whole ticks in which ``units`` flow at ``rate`` units a tick."""
    return -(-units // rate)


def next_end(
    since: int,
    begins_a: int,
    left_a: int,
    alone_a: int,
    shared_a: int,
    begins_b: int,
    left_b: int,
    alone_b: int,
    shared_b: int,
) -> tuple[int, int, int]:
    """Return the tick at which the first of two flows ends (or NEVER), and the units that both have left then.

    No other flow starts or ends before. ``left``: units left at the tick ``since``, at which a flow ended last.
    ``begins``: the tick from which a flow moves units. ``alone``, ``shared``: units a tick, alone and beside the other.
    """
    swapped = begins_a > begins_b
    if swapped:
        begins_a, begins_b = begins_b, begins_a
        left_a, left_b = left_b, left_a
        alone_a = alone_b
        shared_a, shared_b = shared_b, shared_a
    end = NEVER
    if begins_a < NEVER:
        since = max(since, begins_a)
        if begins_b > since and (begins_b == NEVER or left_a <= (begins_b - since) * alone_a):
            end = since + ticks_for(left_a, alone_a)
            left_a = 0
        else:
            both = max(since, begins_b)
            left_a -= (both - since) * alone_a
            ticks = min(ticks_for(left_a, shared_a), ticks_for(left_b, shared_b))
            end = both + ticks
            left_a -= ticks * shared_a
            left_b -= ticks * shared_b
    if swapped:
        left_a, left_b = left_b, left_a
    return end, left_a, left_b
