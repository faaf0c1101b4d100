"""The link between host and card: two directions that slow each other down while both move bytes.

Pure arithmetic on whole ticks and fixed-point bytes. A copy's bytes flow at its own rate while its
direction has the link alone and at its shared rate while the other direction flows too, so partial
overlap slows only the overlapping part and bytes are conserved.
"""

from streamsim.model.program import Shape

NEVER = 1 << 62


class Flow:
    """One direction: ``left`` units to move, flowing from the tick ``begins`` on (NEVER: no copy)."""

    __slots__ = ("alone", "begins", "left", "shared")

    def __init__(self) -> None:
        self.begins = NEVER
        self.left = self.alone = self.shared = 0

    def start(self, begins: int, copy: Shape) -> None:
        """A copy has started whose bytes will flow from the tick ``begins`` on."""
        self.alone, self.shared, *_ = copy.rate
        self.begins = begins
        self.left = copy.units

    def finish(self) -> None:
        """The copy has moved its last byte."""
        self.begins = NEVER


class Link:
    """The two flows, accounted for up to the tick ``_settled``."""

    def __init__(self) -> None:
        self.flows = Flow(), Flow()
        self._settled = 0

    def settle(self, now: int) -> None:
        """Move the bytes up to ``now``: before a flow starts or finishes."""
        since = self._settled
        if since == now:
            return
        self._settled = now
        first, second = self._by_begin()
        if first.begins >= now:
            return
        if first.begins > since:
            since = first.begins
        both = second.begins
        if both >= now:
            first.left -= (now - since) * first.alone
            return
        if both > since:
            first.left -= (both - since) * first.alone
            since = both
        first.left -= (now - since) * first.shared
        second.left -= (now - since) * second.shared

    def next_end(self) -> int:
        """When the next flow ends if none starts or finishes before, or NEVER; settle first."""
        since = self._settled
        first, second = self._by_begin()
        if first.begins > since:
            since = first.begins
            if since == NEVER:
                return NEVER
        both = second.begins
        if both > since:
            end = since - -first.left // first.alone
            if end <= both:
                return end
            left = first.left - (both - since) * first.alone
            since = both
        else:
            left = first.left
        end = since - -left // first.shared
        other = since - -second.left // second.shared
        return end if end < other else other

    def _by_begin(self) -> tuple[Flow, Flow]:
        there, back = self.flows
        return (there, back) if there.begins <= back.begins else (back, there)
