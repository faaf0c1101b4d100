"""The link between host and card: two directions that slow each other down while both move bytes.

A copy's bytes begin to flow when its latency has passed; then so many units flow in a tick, fewer while the other
direction flows too. Partial overlap slows only the overlapping part, and bytes are conserved.
"""

NEVER = 1 << 62  # a flow that does not begin: there is no copy


def ticks_for(units: int, rate: int) -> int:
    """Whole ticks in which at least so many units flow, at so many a tick."""
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
    """When the next of two flows ends if none starts or finishes before, or NEVER; and what both have left then.

    They have ``left`` units at the tick ``since``, the last at which one of them ended, and flow from ``begins`` on.
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
