"""The one engine of advice: changes of a program, made and simulated, each alone and then together.

**What is tried.** Each change of :mod:`streamsim.advice.rows` alone; then pairs of the best of each kind; then, from
the fastest of these, one change more as long as that gains. Changes that gain nothing beside the others are left out
again. So changes are found that pay only together: more chunks may be slower in one issue order and faster in another.

**What comes first.** A change that gains less than ``WORTH`` of the time is not worth it. Of changes that save nearly
as much (``NEAR``) as the best, the fewest and easiest come first, with their condition. Changes with a ``STRONG``
condition come first only where no others are worth it: somebody must know that steps are independent or can be cut, or
that a step makes the same calls each time.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from streamsim import transform
from streamsim.advice.rows import Values, changes_to_try
from streamsim.analysis import Key, lower_bound
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, as_device, known_within
from streamsim.displayed import Result, attributes
from streamsim.errors import InputError, short
from streamsim.program import Loop, Schedule, check_schedule
from streamsim.races import check, repaired
from streamsim.text import format_ratio, format_seconds, format_share
from streamsim.timeline import Timeline

WORTH = 0.03  # of the time: what gains less is not worth a change
NEAR = 0.05  # changes that take so much longer than the best, but save half of what it saves, save nearly as much
HALF = 0.5
STRONG = transform.TO_BE_SAID | {transform.SAME_CALLS}
MUCH_MORE = 0.1  # of the time: what saves so much more than the first changes is told beside them
LEAST_MORE = 0.01  # of the time: one change more must gain it, and one that does not is left out
SHAPES = {("--chunks",), ("--streams",)}  # that are tried in pairs, too
SEEDS = 8  # changes of which pairs are made
BUDGET_OPS = 60_000  # simulated, of programs with several changes
MANY, FEW = 100, 10  # programs simulated of one schedule to advise, or with the changes that are asked for; about
USUAL = Values()
AND_WAITS = "add the waits that its races lack"
OF_PINNED = (
    "pinned memory is expensive to allocate: allocate it once, before the loop; where the data comes from elsewhere,"
    " count the host's copy into it"
)


@dataclass(frozen=True, slots=True)
class Trial(transform.Changed):
    """A changed program, simulated.

    - ``changes``: those that were asked for, whether they change something or not.
    - ``takes_s``: its time, of a training loop that of a steady step; ``gain``: the time before over this one.
    - ``against``: the cause of lost time against which a single change is tried.
    """

    changes: tuple[transform.Change, ...] = ()
    takes_s: float = 0.0
    gain: float = 1.0
    against: Key | None = None

    @property
    def change(self) -> str:
        """The changes as options, as they are asked for; "as it is" for none."""
        return " ".join(change.option for change in self.changes) or "as it is"

    @property
    def binds(self) -> str:
        """What sets the lower bound of the program."""
        return lower_bound(*self.work[:2]).bound_by

    @property
    def is_strong(self) -> bool:
        """Return True if somebody must know of a condition that no recording or schedule shows that it holds."""
        return bool(STRONG & set(self.assumes))

    @property
    def simplicity(self) -> tuple[int, list[int], float]:
        """A sort key, the lowest for the fewest changes, then for the smallest numbers in them, then for the time."""
        numbers = [int(word) for word in self.options if word.isdecimal()]
        return len(self.changes), numbers, self.takes_s

    def saved_s(self) -> float:
        """Return by how much the time shrinks, in seconds."""
        return self.takes_s * (self.gain - 1)

    def words(self, within: float = 0.0) -> str:
        """Return the condition, the changes and the gain. ``within``: the relative error of times, if known."""
        condition = f"if {self.condition}: " if self.condition else ""
        return f"{condition}{self.text}: {format_ratio(self.gain, within)} as fast"

    def to_json(self) -> dict[str, Any]:
        """Return what a command says first, as plain numbers and strings."""
        return {"words": self.text, "options": list(self.options), "gain": self.gain, "condition": self.condition}


class Advice(Result, msgspec.Struct, frozen=True):
    """What changes bring to a program.

    - ``before``: the program without changes; ``alone``: single changes, the easiest first; ``together``: several.
    - ``device``: the name of the device; ``known_within``: the relative error of the times if the profile's latencies
      are assumed: 0.10 is 10 %; else 0.
    """

    before: Trial
    alone: tuple[Trial, ...]
    together: tuple[Trial, ...]
    device: str
    known_within: float = 0.0

    def __repr__(self) -> str:
        return short(f"Advice({self.words})")

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All that was tried, single changes first."""
        return (*self.alone, *self.together)

    @property
    def first(self) -> Trial | None:
        """The changes to make first: the fewest and easiest that save nearly as much as the best; None: none pays.

        Changes with a strong condition come first only if no others are worth it.
        """
        before_s = self.before.takes_s
        for is_strong in (False, True):
            trials = [trial for trial in self.trials if trial.is_strong == is_strong]
            most_s = max((trial.saved_s() for trial in trials), default=0.0)
            if most_s and most_s >= WORTH * before_s:
                least_s = max(WORTH * before_s, HALF * most_s, most_s - NEAR * (before_s - most_s))
                near = [trial for trial in trials if trial.saved_s() >= least_s]
                return min(near, key=lambda trial: len(trial.changes))  # of as many the easiest, which is tried first
        return None

    @property
    def fastest(self) -> Trial | None:
        """The fastest trial without a condition, however little it gains; None if none gains anything."""
        return _fastest(trial for trial in self.trials if trial.gain > 1 and not trial.condition)

    @property
    def words(self) -> str:
        """What to change first, in a sentence, and what brings clearly more; or that nothing is worth changing."""
        first, within, before_s = self.first, self.known_within, self.before.takes_s
        if first is None:
            return f"nothing is worth changing: {self.most}"
        said = [first.words(within)]
        if first.condition and self.fastest and self.fastest.saved_s() >= WORTH * before_s:
            said.append(f"without that, {self.fastest.words(within)}")
        strong = _fastest(trial for trial in self.trials if trial.is_strong)
        if strong and strong.saved_s() >= first.saved_s() + MUCH_MORE * before_s:
            said.append(strong.words(within))
        return "; ".join(said)

    @property
    def most(self) -> str:
        """What the fastest trial without a condition gains, in words."""
        best, before_s = self.fastest, self.before.takes_s
        if best is None:
            return "no change helps"
        share = best.saved_s() / before_s
        percent = "under 0.1%" if share < 1e-3 else format_share(share, self.known_within)
        gain = f"{format_seconds(best.saved_s(), self.known_within)} ({percent})"
        return f"no change gains more than {gain}: {best.text}"

    def _json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "takes_s": self.before.takes_s,
            "first": self.first and self.first.to_json(),
            "advice": self.words,
            "tried": [{**trial.to_json(), "takes_s": trial.takes_s} for trial in self.trials],
        }


def _fastest(trials: Iterable[Trial]) -> Trial | None:
    return min(trials, key=lambda trial: (trial.takes_s, len(trial.changes)), default=None)


def advise(
    schedule: Schedule,
    device: Device,
    source: transform.Origin | None = None,
    independent: bool = False,
    values: Values = USUAL,
    budget_ops: int = BUDGET_OPS,
) -> Advice:
    """Try changes of ``schedule`` on ``device``, alone and together.

    - ``source``: what it was made from, if that is known.
    - ``independent``: True if the steps are said to need nothing of each other, and can be cut.
    - ``values``: the values that are tried of each change; ``budget_ops``: ops to simulate with several changes.
    """
    tries = Tries(transform.Work(schedule, device, source), independent, budget_ops)
    alone = tuple(tries.alone(values))
    together = tuple(tries.together(alone, values))
    return Advice(tries.before, alone, together, device.name, known_within(device))


def loop_advice(loop: Loop, device: Device | str | Path) -> Advice:
    """Try the changes of a training loop on ``device``; their times are of a steady step.

    ``device``: a Device, or the name or file of one. Its calls are PyTorch's, unless it has another front end's. Raises
    InputError for an unknown device, and for batches that do not fit on the card.
    """
    return advise(*transform.LoopSource(loop, as_device(device)).work()[:3])


class Tries:
    """Makes changes of one program and simulates them, each list of changes once."""

    def __init__(
        self, unchanged: transform.Work, independent: bool = False, budget_ops: int = 0, many: int = MANY
    ) -> None:
        self._independent, self._many = independent, many
        self.first = unchanged  # the program to change: with the waits that its races lack
        self.is_mended = transform.dependences_of(unchanged.schedule).is_racy
        if self.is_mended:
            self.first = unchanged._replace(schedule=repaired(unchanged.schedule, check(unchanged.schedule)))
        self.timeline = simulate_one_of_many(*unchanged[:2], many=many)
        self.before = Trial(unchanged, takes_s=unchanged.seconds_of(self.timeline))
        # By options.
        self._chains: dict[tuple[str, ...], transform.Changed | None] = {(): transform.Changed(self.first)}
        self._made: dict[tuple[str, ...], Trial | None] = {}
        self._left_ops = budget_ops
        self._open: dict[tuple[str, ...], bool] = {}  # kinds tried alone: True if one can be made and is not strong

    def of(self, changes: tuple[transform.Change, ...], against: Key | None = None) -> Trial | None:
        """Return the program with ``changes``, which stand in the order of making; None if they cannot be made.

        None, too, if they change nothing, or if the card has no room for the changed program.
        """
        key = _options(changes)
        if key not in self._made:
            made = self._changed(changes)
            is_of_use = made and made.options and made.work.device.has_room(made.work.schedule.device_bytes)
            self._made[key] = self.simulated(made, changes, against)[0] if made and is_of_use else None
        return self._made[key]

    def _changed(self, changes: tuple[transform.Change, ...]) -> transform.Changed | None:
        """Return the changed program; lists that begin alike share what their first changes make."""
        key = _options(changes)
        if key not in self._chains:
            was, self._chains[key] = self._changed(changes[:-1]), None
            with suppress(InputError):
                self._chains[key] = was and transform.changed(changes[-1], was)
        return self._chains[key]

    def simulated(
        self, made: transform.Changed, changes: tuple[transform.Change, ...], against: Key | None = None
    ) -> tuple[Trial, Timeline]:
        """Return what ``changes``, which are ``made``, come to, and the time line."""
        said = transform.TO_BE_SAID if self._independent else ()
        assumes = tuple(some for some in made.assumes if some not in said)
        done = (*made.done, ("", AND_WAITS)) if self.is_mended else made.done
        timeline = simulate_one_of_many(*made.work[:2], many=self._many)
        takes_s = made.work.seconds_of(timeline)
        gain = self.before.takes_s / takes_s if takes_s else 1.0
        return Trial(made.work, done, assumes, changes, takes_s, gain, against), timeline

    def alone(self, values: Values) -> Iterator[Trial]:
        """Yield each change by itself, the easiest first."""
        for key, changes in changes_to_try(self.first, values, self._independent):
            trial, kinds = self.of(changes, key), _kinds(changes)
            self._open[kinds] = self._open.get(kinds, False) or (trial is not None and not trial.is_strong)
            if trial is not None and trial.against == key:
                yield trial

    def together(self, alone: Sequence[Trial], values: Values) -> Iterator[Trial]:
        """Yield the fastest list of changes without a strong condition, and it with one change more that has one."""
        weak = [trial for trial in alone if not trial.is_strong]
        best = self._climb(weak, values) if weak else self.before
        most_s = (1 + LEAST_MORE) * best.takes_s
        near = [one for one in self._made.values() if one and not one.is_strong and one.takes_s <= most_s]
        simplest = min(near, key=lambda trial: trial.simplicity, default=best)
        strong = _best_of_each_kind(trial for trial in alone if trial.is_strong)
        further = _fastest(self._more(best, (trial.changes for trial in strong)))
        for trial in (simplest, *([best] if best is not simplest else []), *([further] if further else [])):
            if len(trial.changes) > 1 and trial.against is None:
                yield trial

    def _climb(self, alone: Sequence[Trial], values: Values) -> Trial:
        """Return the fastest list of changes found from ``alone``: pairs of them, and one change more after another.

        Changes that gain next to nothing beside the others are left out again.
        """
        pairs = combinations(_best_of_each_kind(alone)[:SEEDS], 2)
        of_pairs = (trial for one, two in pairs for trial in self._more(one, [two.changes]) if not trial.is_strong)
        best = _fastest([*alone, self.before, *of_pairs]) or self.before
        while best.changes and (more := self._one_more(best, values)) is not None:
            best = more
        most_s = best.takes_s * (1 + LEAST_MORE)
        for change in reversed(best.changes):
            less = self.of(tuple(other for other in best.changes if other is not change))
            if less is not None and not less.is_strong and less.takes_s <= most_s:
                best = less
        return best

    def _one_more(self, best: Trial, values: Values) -> Trial | None:
        """Return the fastest of the lists with one change more, or with two; None if it gains next to nothing."""
        if self._left_ops < len(best.work.schedule):
            return None
        tried = (changes for _, changes in changes_to_try(best.work, values, self._independent))
        singles = [changes for changes in tried if self._open.get(_kinds(changes), True)]
        shapes = [changes for changes in singles if _kinds(changes) in SHAPES]
        pairs = ((*one, *two) for one, two in combinations(shapes, 2) if values.in_pairs and _kinds(one) != _kinds(two))
        for several in (singles, pairs):
            more = _fastest(trial for trial in self._more(best, several) if not trial.is_strong)
            if more is not None and more.takes_s <= (1 - LEAST_MORE) * best.takes_s:
                return more
        return None

    def _more(self, trial: Trial, several: Iterable[tuple[transform.Change, ...]]) -> Iterator[Trial]:
        """Yield ``trial`` with each of ``several`` more; a change of a kind that it has takes the place of that.

        The budget of ops may end it.
        """
        for changes in several:
            if self._left_ops < len(trial.work.schedule):
                return
            before = len(self._made)
            found = self.of(transform.in_making_order((*trial.changes, *changes)))
            if len(self._made) > before:
                self._left_ops -= len((found or trial).work.schedule)
            if found is not None:
                yield found


def _best_of_each_kind(trials: Iterable[Trial]) -> list[Trial]:
    """Return the fastest trial of each kind of changes against each cause, whatever their values; the fastest first.

    Of equally fast ones, those of more changes come first: where several things hold a program, no single one gains.
    """
    best = dict[tuple[Key | None, tuple[str, ...]], Trial]()
    for trial in sorted(trials, key=lambda trial: (trial.takes_s, -len(trial.changes))):
        best.setdefault((trial.against, _kinds(trial.changes)), trial)
    return list(best.values())


def _options(changes: Iterable[transform.Change]) -> tuple[str, ...]:
    return tuple(change.option for change in changes)


def _kinds(changes: Iterable[transform.Change]) -> tuple[str, ...]:
    return tuple(change.kind for change in changes)


# Changes that are asked for


class WhatIf(Result, msgspec.Struct, frozen=True):
    """What changes bring.

    - ``before``: the program without them; ``alone``: with each that can be made by itself; ``together``: with all.
    - ``notes``: what they cost beside.
    - ``as_it_is``, ``timeline``: the time lines without them and with all.
    """

    schema_version: ClassVar[int] = 2  # 2: chunks are those of the whole program, not of each step
    before: Trial
    alone: tuple[Trial, ...]
    together: Trial
    notes: tuple[str, ...]
    timeline: Timeline
    as_it_is: Timeline

    @property
    def work(self) -> transform.Work:
        """The program with all changes, on its device."""
        return self.together.work

    def __repr__(self) -> str:
        before, after = (format_seconds(one.takes_s, self.known_within) for one in (self.before, self.together))
        return short(f"WhatIf({self.together.change}: {before} -> {after})")

    @property
    def known_within(self) -> float:
        """The relative error of the times if a profile's latencies are assumed: 0.10 is 10 %; else 0."""
        return max(self.as_it_is.known_within, self.timeline.known_within)

    def _json(self) -> dict[str, Any]:
        device = self.as_it_is.device
        return {
            "device": device and device.name,
            "first": self.together.to_json(),
            "before": _json(self.before),
            "alone": list(map(_json, self.alone)),
            "together": _json(self.together),
            "words": [words for _, words in self.together.done],
            "assumed": self.together.assumes,
            "notes": self.notes,
        }


def _json(trial: Trial) -> dict[str, Any]:
    return {"makespan_s": trial.takes_s, **attributes(trial, "change", "gain", "binds")}


def what_if(
    schedule: Schedule,
    device: Device | str | Path,
    changes: Sequence[transform.Change],
    independent: bool = False,
    source: transform.Origin | None = None,
) -> WhatIf:
    """Simulate ``schedule`` on ``device``, with each of ``changes`` alone and with all of them, in their order.

    ``device``: a Device, or the name or file of one. ``independent``: its steps need nothing of each other and can be
    cut, whatever the schedule shows. ``source``: what the schedule was made from, if known: then a change is another
    configuration of the same work. A change that can be made only beside another one has no row of its own. Raises
    InputError if the changes cannot be made together, and NoRoomError if they need more memory than the card has.
    """
    if not changes:
        raise InputError("changes = (): nothing to change; give at least one")
    check_schedule("schedule", schedule)
    unchanged = transform.Work(schedule, as_device(device), source)
    tries = Tries(unchanged, many=FEW)

    def simulated(some: Sequence[transform.Change], independent: bool) -> tuple[Trial, Timeline]:
        made = transform.changed_by(some, tries.first, independent)
        if unchanged.device.has_room(schedule.device_bytes):
            made.work.device.check_room(made.work.schedule.device_bytes, "leave out the change that needs it")
        return tries.simulated(made, tuple(some))

    together, timeline = simulated(changes, independent)
    alone = [together] if len(changes) == 1 else []
    for change in changes if len(changes) > 1 else ():
        with suppress(InputError):  # another one makes it possible
            alone.append(simulated([change], True)[0])
    is_pinned = transform.has_pageable(schedule) and not transform.has_pageable(together.work.schedule)
    return WhatIf(tries.before, tuple(alone), together, (OF_PINNED,) * is_pinned, timeline, tries.timeline)
