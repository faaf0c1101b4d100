"""What loses time, and what an explanation says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from streamsim.displayed import Displayed
from streamsim.rules.clock import S_PER_TICK
from streamsim.text.quantities import format_seconds
from streamsim.text.shown import short

if TYPE_CHECKING:
    from streamsim.analysis.counterfactual import Scenario
    from streamsim.timeline.timeline import Timeline

SCHEMA_VERSION = 1
NEGLIGIBLE = 0.02  # of the makespan: where less is lost above the bound, the bound is what there is to explain

Key = Literal[
    "pageable-memory",
    "legacy-stream",
    "host-waits",
    "issue-order",
    "needless-order",
    "copied-once",
    "connections",
    "many-streams",
    "host-work",
    "slow-calls",
    "host-issue",
    "small-chunks",
    "duplex",
    "few-chunks",
    "same-direction",
    "full-kernels",
    "unbalanced",
]
KEYS: tuple[Key, ...] = get_args(Key)


class Cause(NamedTuple):
    """Something that loses time, for people. ``otherwise``: what there is to say where no remedy can be made."""

    title: str
    otherwise: str


CAUSES: dict[Key, Cause] = {
    "pageable-memory": Cause("pageable host memory", "pin the host memory"),
    "legacy-stream": Cause("legacy default stream", "issue its ops in non-blocking streams"),
    "host-waits": Cause("synchronising or blocking call", "allocate and free outside of the pipeline"),
    "issue-order": Cause("issue order", "the data allows no other order"),
    "needless-order": Cause("wait that serialises", "give independent chunks streams and buffers of their own"),
    "copied-once": Cause(
        "copied once, before or after all chunks", "keep it on the card from run to run, or copy each chunk its part"
    ),
    "connections": Cause("more streams than connections", "the card has no more hardware queues"),
    "many-streams": Cause("more streams than pay", "chunks are not in streams of their own"),
    "host-work": Cause("work of the host between its calls", "do it beforehand, or in another thread"),
    "slow-calls": Cause("single calls that hold the host", "make them once before"),
    "host-issue": Cause("host issue cost", "its calls cannot be captured in a graph; issue fewer and larger ops"),
    "small-chunks": Cause(
        "chunks too small (latencies, hand-overs, kernel floor)", "these ops cannot be merged; issue larger ones"
    ),
    "duplex": Cause("duplex contention", "both directions share the link, whatever the schedule; move fewer bytes"),
    "few-chunks": Cause("too few chunks (fill and drain)", "these ops cannot be cut finer"),
    "same-direction": Cause(
        "same-direction copies that queue", "one direction carries one copy at a time, in any stream; move fewer bytes"
    ),
    "full-kernels": Cause(
        "kernels that fill the card", "those that fill the card cannot run side by side; make the kernels faster"
    ),
    "unbalanced": Cause(
        "unbalanced pipeline (little to overlap with)", "the others hide behind the longest stage; shorten that"
    ),
}
LIMITS: tuple[Key, ...] = ("same-direction", "full-kernels", "unbalanced")
LAST: Key = "few-chunks"
BEHIND: dict[Key, Key] = {"needless-order": "issue-order", "connections": "issue-order"}  # removed after it


@dataclass(frozen=True, slots=True)
class Loss:
    """What a cause costs, and what to do about it. ``ticks``: its part of the lost time, in nanoseconds.

    ``gain_alone_s``: by how much the makespan shrinks, in seconds, when the ``remedy`` alone is done; simulated. Below
    zero where it would cost time. ``remedied``: the schedule and the device with the remedy done; None where nothing
    can be done: then ``gain_alone_s`` is what it would be worth if this cause could be removed.
    """

    cause: Key
    ticks: int
    gain_alone_s: float
    remedy: str
    remedied: Scenario | None = None

    def __repr__(self) -> str:
        lost, gain = format_seconds(self.lost_s), format_seconds(self.gain_alone_s)
        return short(f"Loss({self.title}: {lost} lost; {gain} gained alone by: {self.remedy})")

    @property
    def helps(self) -> bool:
        """Whether the remedy can be done and gains something alone."""
        return self.remedied is not None and self.gain_alone_s > 0

    @property
    def made(self) -> bool:
        """Whether ``gain_alone_s`` is that of a change that has been made."""
        return self.remedied is not None

    @property
    def lost_s(self) -> float:
        """Its part of the lost time in seconds."""
        return self.ticks * S_PER_TICK

    @property
    def title(self) -> str:
        """The cause in words."""
        return CAUSES[self.cause].title


@dataclass(frozen=True, slots=True)
class Explanation(Displayed):
    """Where the time of a schedule goes. Times in seconds.

    ``losses``: what is lost above ``bound_s``, the lower bound of the work (set by ``bound_by``): together makespan -
    bound. The largest gain of a remedy comes first, what cannot be remedied last. ``limits``: what lies in the bound
    itself, down to ``even_s``. ``own_bound_s``: the lower bound of the schedule as it stands. ``is_exact``: the split
    is over all orders of removal, not over two. ``simulations``: how many it took. ``is_racy``: the schedule has races,
    so what its data needs is uncertain.
    ``link``: what link was assumed, and how well it is known.
    """

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

    def __repr__(self) -> str:
        took, lost = format_seconds(self.makespan_s), format_seconds(self.gap_s)
        return short(f"Explanation({took} on {self.device}, {lost} of it lost; {self.advice})")

    @property
    def gap_s(self) -> float:
        """What is lost: the makespan less the bound of the work."""
        return sum(loss.ticks for loss in self.losses) * S_PER_TICK

    @property
    def first(self) -> Loss | None:
        """The cause whose remedy gains most when it alone is done. None where none gains anything."""
        return next((loss for loss in self.losses if loss.helps), None)

    @property
    def largest(self) -> Loss | None:
        """The cause that has lost most; or, where next to nothing is lost, the largest limit."""
        is_lost = self.gap_s >= NEGLIGIBLE * self.makespan_s
        return max((is_lost and self.losses) or self.limits or self.losses, key=lambda loss: loss.ticks, default=None)

    @property
    def advice(self) -> str:
        """What to do first, in a sentence; or, where no single change helps, what limits the schedule."""
        if self.first is not None:
            return f"{self.first.title}: {self.first.remedy}"
        if self.largest is None:
            return "nothing is lost"
        return f"no single change helps; what limits it is {self.largest.title}"

    def to_json(self, inputs: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plain numbers and strings; units are in the names. ``inputs``: what was asked."""
        return {
            "schema_version": SCHEMA_VERSION,
            "makespan_s": self.makespan_s,
            "bound_s": self.bound_s,
            "bound_by": self.bound_by,
            "own_bound_s": self.own_bound_s,
            "even_s": self.even_s,
            "gap_s": self.gap_s,
            "first": self.first.cause if self.first else None,
            "advice": self.advice,
            "losses": [_loss_json(loss) for loss in self.losses],
            "limits": [_loss_json(loss) for loss in self.limits],
            "simulations": self.simulations,
            "exact": self.is_exact,
            "racy": self.is_racy,
            "link": self.link,
            "inputs": inputs or {"schedule": self.timeline.schedule.name, "device": self.device},
        }


def _loss_json(loss: Loss) -> dict[str, Any]:
    names = ("cause", "title", "lost_s", "gain_alone_s", "made", "remedy")
    return {name: getattr(loss, name) for name in names}
