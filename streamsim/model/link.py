"""The link between host and card: two directions that slow each other down while both move bytes.

Pure arithmetic on whole ticks and fixed-point bytes. A copy's bytes flow at its own rate while its
direction has the link alone and at its shared rate while the other direction flows too, so partial
overlap slows only the overlapping part and bytes are conserved.
"""

from streamsim.model.program import Shape

IDLE = 1 << 62


class Flow:
    """One direction: the units ``left`` to move, which flow from the tick ``begins`` on (IDLE: no copy)."""

    __slots__ = ("alone", "begins", "left", "other", "settled", "shared")

    def __init__(self) -> None:
        self.begins = IDLE
        self.settled = 0
        self.left = self.alone = self.shared = 0
        self.other: Flow = self

    def start(self, start: int, copy: Shape) -> None:
        """A copy starts at the tick ``start``, now or later; its bytes flow after its latency."""
        latency, self.alone, self.shared = copy.rate
        self.begins = self.settled = start + latency
        self.left = copy.units

    def finish(self) -> None:
        """The copy has moved its last byte."""
        self.begins = IDLE

    def settle(self, now: int) -> None:
        """Move the bytes up to ``now``, a tick before which neither direction has started or finished."""
        since = self.settled
        if now > since and self.begins < IDLE:
            shares = self.other.begins
            if shares >= now:
                self.left -= (now - since) * self.alone
            elif shares <= since:
                self.left -= (now - since) * self.shared
            else:
                self.left -= (shares - since) * self.alone + (now - shares) * self.shared
            self.settled = now

    def due(self) -> int:
        """When the copy ends if the other direction flows for ever once it has begun; settle both first."""
        since, shares = self.settled, self.other.begins
        if shares > since:
            end = since - -self.left // self.alone
            if end <= shares:
                return end
            return shares - -(self.left - (shares - since) * self.alone) // self.shared
        return since - -self.left // self.shared


def link() -> tuple[Flow, Flow]:
    """The two directions of a link, each the other's other."""
    there, back = Flow(), Flow()
    there.other, back.other = back, there
    return there, back
