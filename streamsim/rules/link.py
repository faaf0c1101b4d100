"""The link between host and card: two directions that slow each other down while both move bytes.

Pure arithmetic on whole ticks and fixed-point bytes. A copy's bytes flow at its own rate while its
direction has the link alone and at its shared rate while the other direction flows too, so partial
overlap slows only the overlapping part and bytes are conserved.
"""

NEVER = 1 << 62


class Flow:
    """One direction: ``left`` units to move, flowing from the tick ``begins`` on (NEVER: no copy).

    ``alone`` or ``shared`` of them a tick; ``then`` will be left when the next flow ends.
    """

    def __init__(self) -> None:
        self.begins = NEVER
        self.left = self.then = self.alone = self.shared = 1


class Link:
    """The two flows, whose units were ``left`` at the tick ``since``: when one of them ended last."""

    def __init__(self, there: Flow, back: Flow) -> None:
        self._there, self._back = there, back
        self.since = 0

    def next_end(self) -> int:
        """When the next flow ends if none starts or finishes before, or NEVER; notes what will be left ``then``."""
        first, second = self._there, self._back
        if first.begins > second.begins:
            first, second = second, first
        since, begins, left = self.since, first.begins, first.left
        if begins > since:
            since = begins
            if since == NEVER:
                return NEVER
        both, other = second.begins, second.left
        if both > since:
            end = since - -left // first.alone
            if end <= both:
                first.then, second.then = 0, other
                return end
            left -= (both - since) * first.alone
            since = both
        ticks = -(-left // first.shared)
        if ticks * second.shared > other:
            ticks = -(-other // second.shared)
        first.then = left - ticks * first.shared
        second.then = other - ticks * second.shared
        return since + ticks
