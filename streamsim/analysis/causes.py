"""What loses time: the causes, and what each has lost."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from streamsim.rules import TICKS_PER_S
from streamsim.text import format_seconds, listed, short
from streamsim.transform import Scenario

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
    """Something that loses time, for people.

    ``meaning``: what happens, and what can be done about it beyond the remedies that are tried. ``otherwise``: what to
    do where no remedy can be made.
    """

    title: str
    meaning: str
    otherwise: str


CAUSES: dict[Key, Cause] = {
    "pageable-memory": Cause(
        "pageable host memory",
        "pageable copies are staged and hold the host: pin the host memory",
        "pin the host memory",
    ),
    "legacy-stream": Cause(
        "legacy default stream",
        "its ops and those of blocking streams wait for each other: give every kernel and copy a non-blocking stream",
        "issue its ops in non-blocking streams",
    ),
    "host-waits": Cause(
        "synchronising or blocking call",
        "the host waits for the card before it issues more: copy asynchronously, and wait as late and as seldom as the"
        " results allow",
        "allocate and free outside of the pipeline",
    ),
    "issue-order": Cause(
        "issue order",
        "an op that must wait blocks those that were issued after it",
        "the data allows no other order",
    ),
    "needless-order": Cause(
        "wait that serialises",
        "chunks wait for each other: give independent chunks streams and buffers of their own",
        "give independent chunks streams and buffers of their own",
    ),
    "copied-once": Cause(
        "copied once, before or after all chunks",
        "all chunks wait for one copy, or one copy waits for all: keep that array on the card from run to run, or copy"
        " each chunk its part",
        "keep it on the card from run to run, or copy each chunk its part",
    ),
    "connections": Cause(
        "more streams than connections",
        "streams share a hardware queue: use fewer streams",
        "the card has no more hardware queues",
    ),
    "many-streams": Cause(
        "more streams than pay",
        "each stream makes calls and hand-overs slower",
        "chunks are not in streams of their own",
    ),
    "host-work": Cause(
        "work of the host between its calls",
        "the card waits while the host works between its calls: do that beforehand, or in another thread, or capture"
        " the steady part as a graph",
        "do it beforehand, or in another thread",
    ),
    "slow-calls": Cause(
        "single calls that hold the host",
        "a single call holds the host far longer than its like: make it once before",
        "make them once before",
    ),
    "host-issue": Cause(
        "host issue cost",
        "the host's calls set the time: issue fewer and larger ops, or capture the steady part as a graph",
        "its calls cannot be captured in a graph; issue fewer and larger ops",
    ),
    "small-chunks": Cause(
        "chunks too small (latencies, hand-overs, kernel floor)",
        "what each op costs beside its work sets the time: issue fewer and larger ops",
        "these ops cannot be merged; issue larger ones",
    ),
    "duplex": Cause(
        "duplex contention",
        "both directions share the link, whatever the schedule: move fewer bytes",
        "both directions share the link, whatever the schedule; move fewer bytes",
    ),
    "few-chunks": Cause(
        "too few chunks (fill and drain)",
        "the first copy in and the last copy out run alone: cut the work finer where it can be cut",
        "these ops cannot be cut finer",
    ),
    "same-direction": Cause(
        "same-direction copies that queue",
        "one direction carries one copy at a time, in any stream: move fewer bytes",
        "one direction carries one copy at a time, in any stream; move fewer bytes",
    ),
    "full-kernels": Cause(
        "kernels that fill the card",
        "kernels that fill the card cannot run side by side: make the kernels faster",
        "those that fill the card cannot run side by side; make the kernels faster",
    ),
    "unbalanced": Cause(
        "unbalanced pipeline (little to overlap with)",
        "the other stages hide behind the longest one: shorten that",
        "the others hide behind the longest stage; shorten that",
    ),
}
LIMITS: tuple[Key, ...] = ("same-direction", "full-kernels", "unbalanced")
LAST: Key = "few-chunks"
# Removed after it: to blame for what is then left.
BEHIND: dict[Key, Key] = {
    "needless-order": "issue-order",
    "connections": "issue-order",
    "host-issue": "slow-calls",
}


class Assuming(NamedTuple):
    """A remedy that is right only if something holds that the schedule does not show: ``assumes``, as "if" says it.

    ``gain_alone_s`` and ``remedied`` are as of a :class:`Loss`.
    """

    assumes: str
    remedy: str
    gain_alone_s: float
    remedied: Scenario

    def words(self, within: float = 0.0) -> str:
        """Return the condition, the remedy and its gain. ``within``: the relative error of times, if known."""
        return f"if {self.assumes}: {self.remedy} (gains {format_seconds(self.gain_alone_s, within)})"


class Together(NamedTuple):
    """Changes that gain more together than a single one; ``makespan_s`` and ``remedied`` are with all of them."""

    changes: tuple[str, ...]
    makespan_s: float
    remedied: Scenario

    def words(self, within: float = 0.0) -> str:
        """Return the changes and the time with all of them. ``within``: the relative error of times, if known."""
        several = f"{len(self.changes)} changes together: " if len(self.changes) > 1 else ""
        return f"{several}{listed(self.changes)}: {format_seconds(self.makespan_s, within)}"


@dataclass(frozen=True, slots=True)
class Loss:
    """What a cause costs, and what to do about it. ``ticks``: its part of the lost time, in nanoseconds.

    ``remedy``: of the changes that remove more of this cause than of any other, the one that gains most.
    ``gain_alone_s``: by how much the makespan shrinks, in seconds, when the ``remedy`` alone is done; simulated. Below
    zero where it would cost time. ``remedied``: the schedule and the device with the remedy done; None where nothing
    can be done: then ``gain_alone_s`` is what it would be worth if this cause could be removed. ``assuming``: a change
    that gains more, or at all, if something holds that the schedule does not show.
    """

    cause: Key
    ticks: int
    gain_alone_s: float
    remedy: str
    remedied: Scenario | None = None
    assuming: Assuming | None = None

    def __repr__(self) -> str:
        lost, gain = format_seconds(self.lost_s), format_seconds(self.gain_alone_s)
        return short(f"Loss({self.title}: {lost} lost; {gain} gained alone by: {self.remedy})")

    @property
    def helps(self) -> bool:
        """Return True if the remedy can be done and gains something alone."""
        return self.remedied is not None and self.gain_alone_s > 0

    @property
    def made(self) -> bool:
        """Return True if ``gain_alone_s`` is that of a change that has been made."""
        return self.remedied is not None

    @property
    def lost_s(self) -> float:
        """Its part of the lost time in seconds."""
        return self.ticks / TICKS_PER_S

    @property
    def title(self) -> str:
        """The cause in words."""
        return CAUSES[self.cause].title

    def remedies(self, within: float = 0.0) -> str:
        """Return the remedy, and what more could be done if something holds. ``within``: as of times, if known."""
        if self.assuming is None:
            return self.remedy
        more = self.assuming.words(within)
        return f"{self.remedy}; {more}" if self.made else more

    @property
    def meaning(self) -> str:
        """What happens, and what can be done about it beyond the remedies that were tried."""
        return CAUSES[self.cause].meaning
