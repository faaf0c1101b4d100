"""The parts of an explained makespan: the busiest engine alone, then what each cause has lost, the largest first."""

import msgspec

from streamsim.advice import Explanation
from streamsim.analysis import BUSIEST_ENGINE

BOUND_COLOUR = "#8C8775"
# Of losses in turn: 3 to 1 on white and on dark paper, dark enough for both and light enough for a black number.
LOSS_COLOURS = ("#C74B47", "#3295EE", "#A36E09", "#A366CD", "#6FA326", "#C35AA4", "#15A6A0", "#CF630D")


class Part(msgspec.Struct, frozen=True):
    """A part of the makespan: its ``title``, and its ``remedy`` in words."""

    title: str
    seconds: float
    colour: str
    remedy: str


class Losses(msgspec.Struct, frozen=True):
    """Parts that add up to the makespan. ``within``: the relative error of the times; 0 if it is unknown."""

    parts: tuple[Part, ...]
    within: float = 0.0

    @property
    def whole_s(self) -> float:
        """The makespan, in seconds."""
        return sum(part.seconds for part in self.parts)


def losses_of(explanation: Explanation) -> Losses:
    """Return the time of the busiest engine alone, and the time that each cause loses above it."""
    within = explanation.known_within
    bound = f"these ops take the {explanation.bound_by} this long, even if it never waits"
    lost = sorted((loss for loss in explanation.losses if loss.ticks > 0), key=lambda loss: -loss.ticks)
    parts = (
        Part(loss.title, loss.lost_s, LOSS_COLOURS[k % len(LOSS_COLOURS)], loss.remedies(within))
        for k, loss in enumerate(lost)
    )
    return Losses((Part(BUSIEST_ENGINE, explanation.bound_s, BOUND_COLOUR, bound), *parts), within)
