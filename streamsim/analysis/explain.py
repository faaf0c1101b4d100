"""Why a schedule takes longer than its lower bound: the lost time, split over named causes.

A cause is removed by changing the schedule or the device (:mod:`streamsim.analysis.counterfactual`), and the model
says what is left. So every figure is simulated, and none is read off the time line, where one delay hides another.

**Which bound.** Much of what loses time also raises the lower bound of the schedule as it stands (``lower_bound``
counts pageable copies at the pageable rate, and latencies, and host calls). Here the bound is that of the *work*: the
busiest engine's bytes at the rate of pinned memory alone on the link, or its kernels' own time, with nothing else in
the way. It is the same whichever causes are removed, so what is lost is always lost against it: ``bound_s``.
What the schedule's own bound lies above it (``own_bound_s``) is lost as well.

**How causes share.** Asynchronous copies help little while pageable memory still holds the host, and the other way
round: what a cause costs depends on which others are still there. Let v(A) be the makespan once the causes A are
removed, or only some of them where that is faster (nobody applies a remedy that hurts; so v never grows with A). Each
cause gets its Shapley value: the mean, over all orders in which the causes that are present can be removed one after
another, of what its own removal gains. That split adds up, treats causes alike and gives nothing to one that never
matters (L. S. Shapley, "A value for n-person games", 1953). Some orders make no sense and are left out (U. Faigle,
W. Kern, "The Shapley value for cooperative games under precedence constraints", 1992), by :data:`BEHIND`: streams and
connections are to blame for what is left once the ops are issued in the best order, which costs nothing to try. With
k causes it takes at most 2^k simulations: k is 3 to 6, and a hundred ops simulate in two milliseconds. Above ``BUDGET``
ops simulated in all, the mean is over two orders only, that of :data:`CAUSES` (from the program to the device) and its
reverse: 2 k simulations, and the parts still add up.

**Fill and drain** is what is then left above the bound, with every other cause removed: nothing stands between
the chunks but their number. More chunks show their worth only without the costs of an op, so this cause always
goes last.

Parts are whole ticks and add up to the whole gap exactly.

**What to do first** is another question than what has lost most: a remedy may cost what it gains elsewhere. So for
each cause the changes that can be made are made (:mod:`streamsim.analysis.remedies`: other orders, chunks, streams,
buffers), each simulated alone, and the best of them is the remedy of its row. Rows are ordered by what that gains;
behind them come the causes that nothing can be done about, with what it would be worth if they were gone. Each such
figure is again that of a simulation, of a schedule that can be had (``Loss.remedied``) or of a counterfactual.

**In the bound itself** lies what no other schedule of the same work on the card avoids: ``limits``, from ``bound_s``
down to ``even_s``, the time that each engine would take if the work were spread evenly over those that it uses and
every stream had engines to itself (what people expect of streams). With W the busy time of each of n engines and U
that of its busiest stream, the bound is max W, the mean of W is what is left without imbalance, and each engine then
gives (W - U) / n to its ops that queue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from streamsim.analysis import counterfactual as without
from streamsim.analysis.bounds import ENGINE_WORDS, lower_bound
from streamsim.analysis.counterfactual import Case, Rework
from streamsim.analysis.remedies import MADE, Remedies, Source
from streamsim.device.assumptions import link_words
from streamsim.device.library import as_device
from streamsim.device.profile import MOST_CONNECTIONS
from streamsim.model import simulate
from streamsim.program.schedule import Copy, Kernel, Schedule
from streamsim.rules.clock import S_PER_TICK
from streamsim.text.quantities import format_seconds
from streamsim.text.shown import short

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from streamsim.device.profile import Device
    from streamsim.timeline.timeline import Timeline

SCHEMA_VERSION = 1
BUDGET = 20_000  # ops simulated for an exact split; beyond, two orders
NEGLIGIBLE = 0.02  # of the makespan: where less is lost above the bound, the bound is what there is to explain

Key = Literal[
    "pageable-memory",
    "legacy-stream",
    "host-waits",
    "issue-order",
    "needless-order",
    "connections",
    "many-streams",
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
    "connections": Cause("more streams than connections", "the card has no more hardware queues"),
    "many-streams": Cause("more streams than pay", "chunks are not in streams of their own"),
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
    remedied: Case | None = None

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
class Explanation:
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


def explain(schedule: Schedule, device: Device | str | Path, source: Source | None = None) -> Explanation:
    """Split the time that ``schedule`` on ``device`` loses over its causes, and make the remedies.

    ``source``: the workload and the configuration that it was made from, if they are known. Raises InputError for
    an unknown device, and when it has no cost for a kernel that the schedule names, or no room for its buffers.
    """
    device = as_device(device)
    device.check_room(schedule.device_bytes)
    lab = _Lab(Case(schedule, device), source)
    values = _split(lab)
    best = lab.best()
    bound = lower_bound(*lab.case(frozenset(lab.present)))
    bound_by = max(ENGINE_WORDS.values(), key=lambda name: bound.each.get(name, 0.0))
    own = lower_bound(schedule, device).seconds
    floor = min(best, *map(_ticks, (bound.each.get(bound_by, 0.0), own)))
    values[LAST] = Fraction(best - floor)
    losses = {key: 0 for key in KEYS if key in MADE} | _whole(values, lab.makespan - floor)
    even, limits = _limits(lab, floor)
    return Explanation(
        timeline=lab.timeline,
        device=device.name,
        makespan_s=lab.makespan * S_PER_TICK,
        bound_s=floor * S_PER_TICK,
        bound_by=bound_by,
        own_bound_s=own,
        even_s=even * S_PER_TICK,
        losses=_ranked(lab, losses),
        limits=_ranked(lab, limits),
        simulations=lab.simulations,
        is_exact=lab.is_exact,
        is_racy=lab.is_racy,
        link=link_words(device, bool(schedule.pageable_names)),
    )


def _ticks(seconds: float) -> int:
    return round(seconds / S_PER_TICK)


def _ranked(lab: _Lab, parts: dict[Key, int]) -> tuple[Loss, ...]:
    """The causes that have lost something or whose remedy gains something; the largest gain of a remedy first."""
    found = [lab.loss(key, ticks) for key, ticks in parts.items() if ticks or key in MADE]
    return tuple(
        sorted(
            (loss for loss in found if loss.ticks or loss.helps),
            key=lambda loss: (not loss.made, -loss.gain_alone_s, -loss.ticks, KEYS.index(loss.cause)),
        )
    )


def _whole(parts: dict[Key, Fraction], whole: int) -> dict[Key, int]:
    """``parts`` in whole ticks that still add up to ``whole``: rounded down, the largest remainders up."""
    ticks = {key: int(part) for key, part in parts.items()}
    missing = whole - sum(ticks.values())
    for key in sorted(parts, key=lambda key: ticks[key] - parts[key])[:missing]:
        ticks[key] += 1
    return ticks


class _Lab:
    """Simulates a schedule on a device without some of the causes that are present in it."""

    def __init__(self, case: Case, source: Source | None = None) -> None:
        self._case = case
        self._ops = len(case.schedule.ops)
        self._rework = Rework(case.schedule)
        self.is_racy = self._rework.is_racy
        self._remedies = Remedies(case, self._rework, source)
        self._order = next(iter(self._rework.orders), None)
        self._most = MOST_CONNECTIONS
        self._known: dict[frozenset[Key], int] = {}
        self._programs: dict[tuple[frozenset[Key], str | None, int], Schedule] = {}
        self.loads = _loads(case)
        self.simulations = 0
        self.timeline = self._simulate(case)
        self.makespan = self._known[frozenset()] = _ticks(self.timeline.makespan_s)
        self.present = [key for key in KEYS if key in _IS_PRESENT and self._is_present(key)]
        self._choose()
        self.is_exact = self._ops << len(self.present) <= BUDGET

    def _is_present(self, key: Key) -> bool:
        if key == "needless-order":
            return self._rework.has_needless_order
        return bool(self._rework.orders) if key == "issue-order" else _IS_PRESENT[key](self._case)

    def _choose(self) -> None:
        """Of the orders of issue, and of the numbers of streams, take what helps most alone, then with all removed."""
        everything = frozenset(self.present)
        if len(self._rework.orders) > 1:
            orders = list(self._rework.orders)
            self._order = self._best("_order", orders, frozenset(("issue-order",)), everything)
        connections = self._case.device.connections
        if "needless-order" in self.present and 1 < connections < MOST_CONNECTIONS:
            numbers = [connections, MOST_CONNECTIONS]
            self._most = self._best("_most", numbers, frozenset(("needless-order",)), everything)

    def _best(self, field: str, choices: Sequence[Any], *removed: frozenset[Key]) -> Any:
        times = {}
        for choice in choices:
            setattr(self, field, choice)
            times[choice] = [self._run(self.case(keys)) for keys in removed]
        return min(choices, key=times.__getitem__)

    def time(self, removed: frozenset[Key]) -> int:
        """The makespan in ticks without the causes ``removed``."""
        known = self._known.get(removed)
        if known is None:
            known = self._known[removed] = self._run(self.case(removed))
        return known

    def best(self) -> int:
        """The shortest makespan that any removal has reached."""
        self.time(frozenset(self.present))
        return min(self._known.values())

    def loss(self, key: Key, ticks: int) -> Loss:
        """What a cause has lost, with the best of its remedies, made."""
        tried = [(self._run(remedy.case), remedy) for remedy in self._remedies.of(key)]
        if not tried:
            gain = self.makespan - self._alone(key)
            return Loss(key, ticks, gain * S_PER_TICK, f"cannot be removed: {CAUSES[key].otherwise}")
        took, (text, case) = min(tried, key=itemgetter(0))  # of equals the simplest
        gain = self.makespan - took
        return Loss(key, ticks, gain * S_PER_TICK, text if gain > 0 else f"{text}; does not help alone", case)

    def _alone(self, key: Key) -> int:
        """The makespan in ticks without one cause, or with its limit out of the way."""
        if key in self.present:
            return self.time(frozenset((key,)))
        return self._run(self._without_limit(key)) if key in LIMITS else self.makespan

    def case(self, removed: frozenset[Key]) -> Case:
        """The schedule and the device without the causes ``removed``."""
        schedule, device = self._program(removed), self._case.device
        if "pageable-memory" in removed:
            schedule = without.pinned(schedule)
        for key, change in _DEVICE_CHANGES.items():
            device = change(device) if key in removed else device
        case = Case(schedule, device)
        return without.without_latencies(case) if "small-chunks" in removed else case

    def _program(self, removed: frozenset[Key]) -> Schedule:
        """The schedule with other calls, order and streams; made once for all devices."""
        key = removed & _PROGRAM, self._order, self._most
        made = self._programs.get(key)
        if made is None:
            made = self._programs[key] = self._changed(removed)
        return made

    def _changed(self, removed: frozenset[Key]) -> Schedule:
        schedule, holds = self._case.schedule, "host-waits" not in removed
        if not removed & {"needless-order", "issue-order"}:
            schedule = schedule if holds else without.without_host_waits(schedule)
            return without.without_legacy_stream(schedule) if "legacy-stream" in removed else schedule
        schedule = schedule if holds else without.unblocked(schedule)
        schedule = without.legacy_apart(schedule) if "legacy-stream" in removed else schedule
        order = self._order if "issue-order" in removed else None
        if "needless-order" in removed:
            return self._rework.unordered(schedule, order, holds, self._most)
        assert order is not None
        return self._rework.reordered(schedule, order, holds)

    def _without_limit(self, key: Key) -> Case:
        if key == "full-kernels":
            return without.without_width(self._case)
        mean = sum(load.busy for load in self.loads.values()) / len(self.loads)
        factors = {}
        for kind, engine in zip(("h2d", "d2h", "kernel"), _ENGINES[self._case.device.copy_engines.count], strict=True):
            load = self.loads.get(engine, _Load(1.0, 1.0))
            queued = 1.0 if engine == "compute" else load.busiest / load.busy
            factors[kind] = mean / load.busy if key == "unbalanced" else queued
        return Case(without.scaled(*self._case, factors), self._case.device)

    def _run(self, case: Case) -> int:
        return _ticks(self._simulate(case).makespan_s)

    def _simulate(self, case: Case) -> Timeline:
        self.simulations += 1
        return simulate(*case)


def _has_duplex(case: Case) -> bool:
    directions = {op.direction for op in case.schedule.ops if isinstance(op, Copy)}
    return (
        len(directions) == case.device.copy_engines.count == 2
        and without.without_duplex_loss(case.device) != case.device
    )


def _has_host_costs(case: Case) -> bool:
    return without.without_host_costs(case.device) != case.device


def _has_latencies(case: Case) -> bool:
    return without.without_latencies(case) != case


_IS_PRESENT: dict[Key, Callable[[Case], bool]] = {
    "pageable-memory": without.has_pageable,
    "legacy-stream": without.has_legacy,
    "host-waits": without.has_host_waits,
    "issue-order": bool,  # these two are asked of the Rework
    "needless-order": bool,
    "connections": without.has_few_connections,
    "host-issue": _has_host_costs,
    "small-chunks": _has_latencies,
    "duplex": _has_duplex,
}
_PROGRAM: frozenset[Key] = frozenset(("legacy-stream", "host-waits", "issue-order", "needless-order"))
_DEVICE_CHANGES: dict[Key, Callable[[Device], Device]] = {
    "connections": without.all_connections,
    "host-issue": without.without_host_costs,
    "duplex": without.without_duplex_loss,
}


# The split


def _split(lab: _Lab) -> dict[Key, Fraction]:
    """What each cause that is present has lost, in ticks: together the makespan less ``lab.best()``."""
    if lab.is_exact:
        return _mean_gains(lab.present, _shortest(lab))
    orders = _in_turn(lab.present), _in_turn(lab.present[::-1])
    for order in orders:
        for k in range(len(order)):
            lab.time(frozenset(order[: k + 1]))
    forth, back = (_gains(lab, order) for order in orders)
    return {key: Fraction(forth[key] + back[key], 2) for key in lab.present}


def _shortest(lab: _Lab) -> dict[int, int]:
    """By mask over ``lab.present``: the shortest makespan with these causes removed, or only some of them.

    Only masks that can be reached: none has a cause without the one that it is BEHIND.
    """
    keys, found = lab.present, dict[int, int]()
    for mask in range(1 << len(keys)):
        removed = frozenset(key for k, key in enumerate(keys) if mask >> k & 1)
        if all(BEHIND[key] in removed for key in removed & set(BEHIND) if BEHIND[key] in keys):
            smaller = (found[mask ^ 1 << k] for k in range(len(keys)) if mask >> k & 1 and mask ^ 1 << k in found)
            found[mask] = min([lab.time(removed), *smaller])
    return found


def _mean_gains(keys: Sequence[Key], v: dict[int, int]) -> dict[Key, Fraction]:
    """The mean, over all ways from no cause removed to all, of what each of ``keys`` gains when its turn comes.

    ``v`` by mask over them, for the masks that can be reached. A step is on as many ways as lead to it times
    as many as lead on.
    """
    steps = [(mask, k) for mask in v for k in range(len(keys)) if not mask >> k & 1 and mask | 1 << k in v]
    to: Counter[int] = Counter({0: 1})
    for mask, k in sorted(steps):
        to[mask | 1 << k] += to[mask]
    onward: Counter[int] = Counter({(1 << len(keys)) - 1: 1})
    for mask, k in sorted(steps, reverse=True):
        onward[mask] += onward[mask | 1 << k]
    gains = dict.fromkeys(keys, Fraction(0))
    for mask, k in steps:
        gains[keys[k]] += Fraction(to[mask] * onward[mask | 1 << k], onward[0]) * (v[mask] - v[mask | 1 << k])
    return gains


def _in_turn(keys: Sequence[Key]) -> list[Key]:
    """``keys`` in this order, but each after the one that it is BEHIND."""
    found: list[Key] = []
    for key in keys:
        if BEHIND.get(key) in keys and BEHIND[key] not in found:
            found.append(BEHIND[key])
        if key not in found:
            found.append(key)
    return found


def _gains(lab: _Lab, order: Sequence[Key]) -> dict[Key, int]:
    """What each cause gains when they are removed in this order; the last one also what another order reached."""
    gains, shortest = dict[Key, int](), lab.makespan
    for k, key in enumerate(order):
        time = lab.best() if k + 1 == len(order) else min(shortest, lab.time(frozenset(order[: k + 1])))
        gains[key], shortest = shortest - time, time
    return gains


# What lies in the bound itself


class _Work(NamedTuple):
    """The bare work of an op on its engine: ``busy`` of the engine's time, ``alone`` by itself, in seconds."""

    engine: str
    stream: int
    busy: float
    alone: float


_ENGINES = {0: ("gpu", "gpu", "gpu"), 1: ("copy", "copy", "compute"), 2: ("h2d", "d2h", "compute")}


def _bare_work(case: Case) -> list[_Work]:
    """The work of every copy and kernel at the rates of pinned memory, with no latencies."""
    there, back, compute = _ENGINES[case.device.copy_engines.count]
    schedule, device = without.without_latencies(case)
    found = []
    for op in schedule.ops:
        if isinstance(op, Copy):
            link, engine = (device.h2d, there) if op.direction == "h2d" else (device.d2h, back)
            seconds = op.bytes / link.bandwidth_bytes_per_s
            found.append(_Work(engine, op.stream, seconds, seconds))
        elif isinstance(op, Kernel):
            alone, share = device.kernel_time(op)
            found.append(_Work(compute, op.stream, alone * share, alone))
    return found


class _Load(NamedTuple):
    """What an engine has to do, and its busiest stream's part of it, in seconds."""

    busy: float
    busiest: float


def _loads(case: Case) -> dict[str, _Load]:
    """The load of each engine that is used."""
    busy: Counter[str] = Counter()
    of_stream: Counter[tuple[str, int]] = Counter()
    for work in _bare_work(case):
        busy[work.engine] += work.busy  # type: ignore[assignment]  # a Counter of seconds
        of_stream[work.engine, work.stream] += work.alone  # type: ignore[assignment]
    return {
        engine: _Load(seconds, min(seconds, max(s for (e, _), s in of_stream.items() if e == engine)))
        for engine, seconds in busy.items()
        if seconds
    }


def _limits(lab: _Lab, floor: int) -> tuple[int, dict[Key, int]]:
    """The ticks of a perfectly even load, and what raises the bound from there to ``floor``."""
    loads = lab.loads
    parts: dict[Key, int] = dict.fromkeys(LIMITS, 0)
    if len(loads) > 1:
        mean = sum(load.busy for load in loads.values()) / len(loads)
        parts["unbalanced"] = max(0, floor - _ticks(mean))
    for engine, load in loads.items():
        key: Key = "full-kernels" if engine == "compute" else "same-direction"
        parts[key] += _ticks((load.busy - load.busiest) / len(loads))
    return floor - sum(parts.values()), parts
