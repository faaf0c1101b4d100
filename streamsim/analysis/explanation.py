"""An explanation: where the time of a schedule goes, and what to do first."""

from dataclasses import dataclass
from typing import Any, ClassVar

from streamsim.analysis.advice import Advice, advise, best_of, largest_of
from streamsim.analysis.causes import Loss, Together
from streamsim.device import known_within
from streamsim.displayed import Result, attributes
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_seconds, short
from streamsim.timeline import Timeline

LOSS_FIELDS = (
    *("cause", "title", "lost_s", "gain_alone_s", "made", "remedy"),
    *("assumes", "assuming_remedy", "assuming_gain_alone_s"),
)


@dataclass(frozen=True, slots=True)
class Explanation(Result):
    """Where the time of a schedule goes. Times in seconds.

    ``losses``: what is lost above ``bound_s``, the lower bound of the work (set by ``bound_by``): together makespan -
    bound. The cause that is named first comes first, then the largest. ``limits``: what lies in the bound
    itself, down to ``even_s``. ``own_bound_s``: the lower bound of the schedule as it stands. ``is_exact``: the split
    is over all orders of removal, not over two. ``simulations``: how many it took. ``is_racy``: the schedule has races,
    so what its data needs is uncertain.
    ``link``: what link was assumed, and how well it is known. ``together``: the shortest list of changes that gains
    clearly more than any single one (:func:`streamsim.search.together.together`); None where it was not looked for.
    """

    schema_version: ClassVar[int] = 2
    timeline: Timeline
    device: str
    makespan_s: float
    bound_s: float
    bound_by: str
    own_bound_s: float
    even_s: float
    losses: tuple[Loss, ...]
    limits: tuple[Loss, ...]
    simulations: int
    is_exact: bool
    is_racy: bool
    link: str
    together: Together | None = None

    def __repr__(self) -> str:
        took, lost = (format_seconds(seconds, self.known_within) for seconds in (self.makespan_s, self.gap_s))
        return short(f"Explanation({took} on {self.device}, {lost} of it lost; {self.advice})")

    @property
    def known_within(self) -> float:
        """The relative error of the times if the profile's latencies are assumed: 0.10 is 10 %; else 0."""
        return known_within(self.timeline.device)

    @property
    def gap_s(self) -> float:
        """What is lost: the makespan less the bound of the work."""
        return sum(loss.ticks for loss in self.losses) / TICKS_PER_S

    @property
    def _said(self) -> Advice:
        return advise(self.losses, self.limits, self.makespan_s, self.together, self.known_within)

    @property
    def first(self) -> Loss | None:
        """The cause that is named first. None where nothing is worth changing."""
        return self._said.first

    @property
    def best(self) -> Loss | None:
        """The cause whose remedy gains most, however little. None where none gains anything."""
        return best_of(self.losses)

    @property
    def largest(self) -> Loss | None:
        """The cause that has lost most; or, where next to nothing is lost, the largest limit."""
        return largest_of(self.losses, self.limits, self.makespan_s)

    @property
    def advice(self) -> str:
        """What to do first, in a sentence; or what sets the time, or that nothing is worth changing."""
        return self._said.words

    def _json(self) -> dict[str, Any]:
        return {
            **attributes(self, "makespan_s", "bound_s", "bound_by", "own_bound_s", "even_s", "gap_s"),
            "first": self.first and self.first.cause,
            "best": self.best and self.best.cause,
            "advice": self.advice,
            "together": self.together and attributes(self.together, "changes", "makespan_s"),
            "losses": [_loss_json(loss) for loss in self.losses],
            "limits": [_loss_json(loss) for loss in self.limits],
            "simulations": self.simulations,
            "exact": self.is_exact,
            "racy": self.is_racy,
            "link": self.link,
            "inputs": {"schedule": self.timeline.schedule.name, "device": self.device},
        }


def _loss_json(loss: Loss) -> dict[str, Any]:
    under = loss.assuming
    condition = (under.assumes, under.remedy, under.gain_alone_s) if under else ("", "", 0.0)
    return {**attributes(loss, *LOSS_FIELDS[:6]), **dict(zip(LOSS_FIELDS[6:], condition, strict=True))}
