"""Why a schedule takes longer than its lower bound: the lost time, split over named causes.

A cause is removed by changing the schedule or the device (:mod:`streamsim.analysis.losses`), and the model
says what is left. So every figure is simulated, and none is read off the time line, where one delay hides another.

**Which bound.** Much of what loses time also raises the lower bound of the schedule as it stands (``lower_bound``
counts pageable copies at the pageable rate, and latencies, and host calls). Here the bound is that of the *work*: the
busiest engine's bytes at the rate of pinned memory alone on the link, or its kernels' own time, with nothing else in
the way, or as the schedule stands where that is less: what kernels leave each other of the card as they are launched,
they do not without launches. It is the same whichever causes are removed, so what is lost is always lost against it:
``bound_s``.
What the schedule's own bound lies above it (``own_bound_s``) is lost as well.

**How causes share.** Asynchronous copies help little while pageable memory still holds the host, and the other way
round: what a cause costs depends on which others are still there. Let v(A) be the makespan once the causes A are
removed, or only some of them where that is faster (nobody applies a remedy that hurts; so v never grows with A). Each
cause gets its Shapley value: the mean, over all orders in which the causes that are present can be removed one after
another, of what its own removal gains. That split adds up, treats causes alike and gives nothing to one that never
matters (L. S. Shapley, "A value for n-person games", 1953). Some orders make no sense and are left out (U. Faigle,
W. Kern, "The Shapley value for cooperative games under precedence constraints", 1992), by :data:`BEHIND`: streams and
connections are to blame for what is left once the ops are issued in the best order, which costs nothing to try, and the
cost of calls for what is left without single slow ones. With
k causes it takes at most 2^k simulations: k is 3 to 6, and a hundred ops simulate in two milliseconds. Above ``BUDGET``
ops simulated in all, the mean is over two orders only, that of :data:`CAUSES` (from the program to the device) and its
reverse: 2 k simulations, and the parts still add up.

**Fill and drain** is what is then left above the bound, with every other cause removed: nothing stands between
the chunks but their number. More chunks show their worth only without the costs of an op, so this cause always
goes last.

Parts are whole ticks and add up to the whole gap exactly.

**What to change** is another question than what has lost most: a change may cost what it gains elsewhere. So changes
are made and simulated (:mod:`streamsim.advice.engine`). Under each cause stands the best of those that are tried
against it. Where nothing can be done about a cause, its row says what it would be worth if it were gone.

**In the bound itself** lies what no other schedule of the same work on the card avoids: ``limits``, from ``bound_s``
down to ``even_s``, the time that each engine would take if the work were spread evenly over those that it uses and
every stream had engines to itself (what people expect of streams). With W the busy time of each of n engines and U
that of its busiest stream, the bound is max W, the mean of W is what is left without imbalance, and each engine then
gives (W - U) / n to its ops that queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from streamsim.advice.engine import WORTH, Advice, Trial, advise
from streamsim.analysis import CAUSES, Key, Removals, split_of
from streamsim.collector import collector_off
from streamsim.device import Device, as_device, known_within, link_words
from streamsim.displayed import Result, attributes
from streamsim.errors import InputError, short
from streamsim.program import Schedule, check_schedule
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_seconds
from streamsim.timeline import Timeline
from streamsim.transform import Origin, Work

MOST_OPS = 300_000  # of a schedule: a minute and a half, and two gigabytes
NEGLIGIBLE = 0.02  # of the makespan: where less is lost above the bound, the bound is what there is to explain
THIRDS = 3  # the largest cause is named, too, if it costs three times what the first change saves
# Nobody changes these by another program of the same work.
FIXED: frozenset[Key] = frozenset(("duplex", "same-direction", "full-kernels", "unbalanced"))
# Of these all is tried that can be done, where anything can be tried.
TRIED: frozenset[Key] = frozenset(
    ("issue-order", "needless-order", "connections", "many-streams", "small-chunks", "few-chunks")
)


@dataclass(frozen=True, slots=True)
class Loss:
    """What a cause costs, and what to do about it. ``ticks``: its part of the lost time, in nanoseconds.

    - ``worth_s``: by how much the makespan would shrink without the cause, in seconds; None if that is unknown.
    - ``best``: of the changes tried against it without a condition, the fastest; ``assuming``: one with a condition
      that gains more, or at all.
    """

    cause: Key
    ticks: int
    worth_s: float | None
    best: Trial | None = None
    assuming: Trial | None = None

    def __repr__(self) -> str:
        lost, gain = format_seconds(self.lost_s), format_seconds(self.gain_alone_s)
        return short(f"Loss({self.title}: {lost} lost; {gain} gained alone by: {self.remedy})")

    @property
    def made(self) -> bool:
        """Return True if ``gain_alone_s`` is that of a change that has been made."""
        return self.best is not None

    @property
    def gain_alone_s(self) -> float:
        """By how much the makespan shrinks with the best change alone, in seconds; without one, ``worth_s``, or 0."""
        return self.worth_s or 0.0 if self.best is None else self.best.saved_s()

    @property
    def remedy(self) -> str:
        """The best change in words, or why there is none."""
        if self.best is not None:
            return self.best.text + "; does not help alone" * (self.best.gain <= 1)
        if self.assuming is not None:
            return "none without an assumption"
        return f"no change removes it: {CAUSES[self.cause].meaning}"

    @property
    def lost_s(self) -> float:
        """Its part of the lost time in seconds."""
        return self.ticks / TICKS_PER_S

    @property
    def title(self) -> str:
        """The cause in words."""
        return CAUSES[self.cause].title

    def remedies(self, within: float = 0.0, least_s: float = 0.0) -> str:
        """Return the remedy with its gain, or what the cause costs; and a change with a condition.

        ``within``: the relative error of the times, if known. The change with a condition gains ``least_s`` or more.
        """
        gained_s, of_cause = self.gain_alone_s, "gains {}" if self.made else "without it {} less"
        words = self.remedy + (f" ({of_cause.format(format_seconds(gained_s, within))})" if gained_s > 0 else "")
        if self.assuming is None or self.assuming.saved_s() < least_s:
            return words
        gains = format_seconds(self.assuming.saved_s(), within)
        more = f"if {self.assuming.condition}: {self.assuming.text} (gains {gains})"
        return f"{words}; {more}" if self.made else more

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and strings; None for a gain that is unknown."""
        under = self.assuming
        return {
            **attributes(self, "cause", "title", "lost_s", "made", "remedy"),
            "gain_alone_s": self.worth_s if self.best is None else self.gain_alone_s,
            "assumes": under.condition if under else "",
            "assuming_remedy": under.text if under else "",
            "assuming_gain_alone_s": under.saved_s() if under else 0.0,
        }


@dataclass(frozen=True, slots=True)
class Explanation(Result):
    """Where the time of a schedule goes, and what to change. Times in seconds.

    ``losses``: what is lost above ``bound_s``, the lower bound of the work (set by ``bound_by``): together makespan -
    bound, the largest first. ``limits``: what lies in the bound itself, down to ``even_s``. ``own_bound_s``: the lower
    bound of the schedule as it stands. ``tried``: the changes. ``is_exact``: the split is over all orders of removal,
    not over two. ``simulations``: how many it took. ``is_racy``: the schedule has races, so what its data needs is
    uncertain. ``link``: what link was assumed, and how well it is known.
    """

    schema_version: ClassVar[int] = 3
    timeline: Timeline
    device: str
    makespan_s: float
    bound_s: float
    bound_by: str
    own_bound_s: float
    even_s: float
    losses: tuple[Loss, ...]
    limits: tuple[Loss, ...]
    tried: Advice
    simulations: int
    is_exact: bool
    is_racy: bool
    link: str

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
    def first(self) -> Trial | None:
        """The changes to make first. None where nothing is worth changing."""
        return self.tried.first

    @property
    def largest(self) -> Loss | None:
        """The cause that has lost most; or, where next to nothing is lost, the largest limit, if any."""
        found = self.losses if self.gap_s >= NEGLIGIBLE * self.makespan_s else self.limits
        return max(found, key=lambda loss: loss.ticks, default=None)

    @property
    def advice(self) -> str:
        """What to change first, in a sentence; or what sets the time, or that nothing is worth changing."""
        first, largest, limit = self.first, self.largest, f"the {self.bound_by}"
        if largest is not None and (largest in self.limits or largest.lost_s >= WORTH * self.makespan_s):
            limit, cause = largest.title, f"{largest.title}: {CAUSES[largest.cause].meaning}"
            is_done = largest.cause in FIXED or (largest.cause in TRIED and largest.made)
            if first is None and not is_done:
                return f"{cause}; {self.tried.most}"
            if first is not None and not is_done and largest.lost_s >= THIRDS * first.saved_s():
                return f"{self.tried.words}; most is lost to {cause}"
        return self.tried.words if first is not None else f"{self.tried.words}; what limits it is {limit}"

    def _json(self) -> dict[str, Any]:
        return {
            **attributes(self, "makespan_s", "bound_s", "bound_by", "own_bound_s", "even_s", "gap_s"),
            **{name: value for name, value in self.tried.to_json().items() if name in ("first", "tried")},
            "advice": self.advice,
            "losses": [loss.to_json() for loss in self.losses],
            "limits": [loss.to_json() for loss in self.limits],
            "simulations": self.simulations,
            "exact": self.is_exact,
            "racy": self.is_racy,
            "link": self.link,
            "inputs": {"schedule": self.timeline.schedule.name, "device": self.device},
        }


@collector_off()  # as in predict
def explain(schedule: Schedule, device: Device | str | Path, source: Origin | None = None) -> Explanation:
    """Split the time that ``schedule`` on ``device`` loses over its causes, and try changes.

    ``source``: what it was made from, if that is known. Raises InputError for an unknown device, when it has no cost
    for a kernel that the schedule names, or no room for its buffers, and for a schedule of more than ``MOST_OPS`` ops.
    """
    check_schedule("schedule", schedule)
    if len(schedule) > MOST_OPS:
        raise InputError(
            f"the schedule has {len(schedule)} ops: explain simulates it and its changes some thirty times, and takes"
            f" {MOST_OPS} ops at most; give fewer chunks, or a part of it"
        )
    device = as_device(device)
    device.check_room(schedule.device_bytes)
    removals = Removals(Work(schedule, device))
    split, tried = split_of(removals), advise(schedule, device, source)
    losses = [_loss(key, split.parts.get(key, 0), removals, tried.alone) for key in CAUSES]
    inside = [Loss(key, ticks, removals.worth_s(key)) for key, ticks in split.limits.items() if ticks]
    found = [loss for loss in losses if loss.ticks or (loss.best and loss.best.gain > 1) or loss.assuming]
    return Explanation(
        timeline=removals.timeline,
        device=device.name,
        makespan_s=removals.makespan / TICKS_PER_S,
        bound_s=split.floor / TICKS_PER_S,
        bound_by=split.bound_by,
        own_bound_s=split.own_s,
        even_s=(split.floor - sum(split.limits.values())) / TICKS_PER_S,
        losses=tuple(sorted(found, key=lambda loss: (-loss.ticks, -loss.gain_alone_s))),
        limits=tuple(sorted(inside, key=lambda loss: -loss.ticks)),
        tried=tried,
        simulations=removals.simulations,
        is_exact=removals.is_exact,
        is_racy=removals.is_racy,
        link=link_words(device, bool(schedule.pageable_names)),
    )


def _loss(key: Key, ticks: int, removals: Removals, alone: Sequence[Trial]) -> Loss:
    """Return what a cause has lost, and the best of the changes that were tried against it."""
    mine = [trial for trial in alone if trial.against == key]
    free, under = ([trial for trial in mine if bool(trial.condition) == is_under] for is_under in (False, True))
    best, assuming = (max(some, key=Trial.saved_s, default=None) for some in (free, under))
    if assuming is not None and assuming.saved_s() <= max(0.0, best.saved_s() if best else 0.0):
        assuming = None
    worth_s = removals.worth_s(key) if ticks and best is None else None
    return Loss(key, ticks, worth_s, best, assuming)
