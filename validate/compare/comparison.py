"""A record against the model: rows of measured and predicted times, the statistics of their errors, the choices.

Errors are signed and relative to the median of the samples: +0.02 is a prediction 2 % too long.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from streamsim.answer import Answer
from streamsim.displayed import Result
from streamsim.text import short

PERCENT = 100
DEVICE_BOUND, HOST_BOUND, BLOCKING, PAGEABLE = CLASSES = ("device-bound", "host-bound", "blocking", "pageable")


def in_percent(one: msgspec.Struct, *properties: str) -> dict[str, Any]:
    """Return the fields of ``one``, then its ``properties``, by name.

    A float without a unit in its name is a share: it is given in percent, and its name ends with ``_percent``.
    """
    found = {name: attrgetter(name)(one) for name in (*one.__struct_fields__, *properties)}
    shares = {name for name, value in found.items() if isinstance(value, float) and not name.endswith("_s")}
    return {f"{k}_percent" if k in shares else k: v * PERCENT if k in shares else v for k, v in found.items()}


class Row(msgspec.Struct, frozen=True):
    """A schedule, measured and predicted. Times in seconds, medians of the samples.

    - ``noise``: half the distance between the quartiles of ``measured_s``, over its median.
    - ``wall_s``, ``issue_s``: the whole program's time on the host's clock, and the part of it that issuing took.
    - ``formulas_s``: the published predictors, by name.
    - ``workload``: the work that is cut into chunks; "" for a user's own schedule.
    - ``simplicity``: the smaller, the simpler.

    All times of a program in a language are wall times, and ``issue_s`` is the time of its calls. ``front_end`` is the
    language. ``speeds``: the times of its calls beside each run, over the calibrated times. ``at_speed_s``: the time
    predicted with calls at the speed at which the program was issued.
    """

    key: str
    connections: int
    klass: str
    pattern: str
    effect: str
    workload: str
    measured_s: float
    noise: float
    predicted_s: float
    wall_s: float
    wall_predicted_s: float
    issue_s: float
    formulas_s: dict[str, float]
    simplicity: tuple[int, ...] = ()
    front_end: str = ""
    speeds: tuple[float, ...] = ()
    at_speed_s: float = 0.0

    @property
    def error(self) -> float:
        """The signed relative error of the prediction."""
        return self.predicted_s / self.measured_s - 1

    @property
    def wall_error(self) -> float:
        """The signed relative error of the predicted time of the whole program."""
        return self.wall_predicted_s / self.wall_s - 1

    @property
    def at_speed_error(self) -> float:
        """The signed relative error of ``at_speed_s``."""
        return self.at_speed_s / self.measured_s - 1

    def formula_error(self, name: str) -> float:
        """Return the signed relative error of a published formula."""
        return self.formulas_s[name] / self.measured_s - 1

    def plain(self) -> dict[str, Any]:
        """Return the row as JSON and CSV hold it: units are in the names, errors in percent."""
        return {
            "key": self.key,
            "connections": self.connections,
            "status": "ok",
            "class": self.klass,
            "pattern": self.pattern,
            "effect": self.effect,
            "measured_s": self.measured_s,
            "predicted_s": self.predicted_s,
            "error_percent": self.error * PERCENT,
            "noise_percent": self.noise * PERCENT,
            "wall_s": self.wall_s,
            "wall_predicted_s": self.wall_predicted_s,
            "wall_error_percent": self.wall_error * PERCENT,
            "issue_s": self.issue_s,
            "formulas_s": self.formulas_s,
            **({"front_end": self.front_end, "at_speed_s": self.at_speed_s} if self.front_end else {}),
        }


Error = Callable[[Row], float]
FRONT_END = "front end"  # the groups of programs by the language that they are written in
EVERYTHING = "all but pageable"  # the group of all schedules that can overlap
WITHIN = 0.01  # a pick that is slower than the best measured by no more than this is as good
GOOD_CHOICE = 0.05  # and the same for programs


class Absent(msgspec.Struct, frozen=True):
    """A schedule that is not compared, and why."""

    key: str
    connections: int
    reason: str


class Summary(msgspec.Struct, frozen=True):
    """Absolute errors of ``n`` schedules; ``bias`` is the median of the signed ones, ``noise`` of the rows' own."""

    n: int
    median: float
    p95: float
    worst: float
    bias: float
    noise: float
    worst_key: str


class Choice(msgspec.Struct, frozen=True):
    """The cost of following the model for one workload: its pick among the measured configurations.

    If predictions are equal, the simplest is picked, as ``streamsim best`` does. ``noise``: the noise of the pick's
    time.
    """

    workload: str
    connections: int
    picked: str
    best: str
    picked_s: float
    best_s: float
    noise: float

    @property
    def regret(self) -> float:
        """The relative excess over the best measured time: 0.1 is 10 % slower."""
        return self.picked_s / self.best_s - 1


class Drift(msgspec.Struct, frozen=True):
    """The moves during a run, relative to the profile before it.

    - ``changes``: of the profile's numbers, by dotted name, until after the run.
    - ``calls``: the smallest and the largest move of the host's calls over the ``groups`` for which it is known.
    - ``links``: the 5th, 50th and 95th percentile of the time of copies both ways at once beside the samples, over the
      calibrated time; empty if not measured.
    """

    connections: int
    changes: dict[str, float]
    groups: int = 0
    calls: tuple[float, float] = (0.0, 0.0)
    links: tuple[float, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the drift as JSON holds it."""
        return {
            "connections": self.connections,
            "changes_percent": {name: change * PERCENT for name, change in self.changes.items()},
            "groups": self.groups,
            "calls_percent": {"host": [move * PERCENT for move in self.calls]} if self.groups else {},
            "link_times": self.links,
        }


class Comparison(Result, msgspec.Struct, frozen=True):
    """A record against the model: a row for every schedule measured, or the reason why there is none."""

    card: str
    suite: str
    device: str
    rows: tuple[Row, ...]
    unpredicted: tuple[Absent, ...]
    unmeasured: tuple[Absent, ...]
    drift: tuple[Drift, ...]

    def __repr__(self) -> str:
        return short(f"Comparison({self.card}, {self.suite}: {len(self.rows)} rows, {self.device})")

    def _answer(self) -> Answer:
        from streamsim_validate.compare.tables import comparison_answer  # which needs this module

        return comparison_answer(self)

    @property
    def summaries(self) -> dict[str, dict[str, Summary]]:
        """The errors by class, by front end of programs, by connections and class, by pattern, by effect.

        Pageable memory is in groups of its own only.
        """
        others = [row for row in self.rows if row.klass != PAGEABLE]
        effects = {row.effect for row in others}
        by_effect = [row for row in self.rows if row.klass != PAGEABLE or row.effect not in effects]
        by_front_end = {FRONT_END: self.by_front_end()} if self.front_ends else {}
        return {
            "class": self.by_class(),
            **by_front_end,
            "connections": {
                **_summaries(others, lambda row: f"{row.connections} connections"),
                **_summaries(others, lambda row: f"{row.connections} connections {row.klass}"),
            },
            "pattern": _summaries(others, lambda row: row.pattern),
            "effect": _summaries(by_effect, lambda row: row.effect),
        }

    def by_class(self, error: Error = attrgetter("error")) -> dict[str, Summary]:
        """Return the errors by class, and of all classes except pageable memory."""
        others = [row for row in self.rows if row.klass != PAGEABLE]
        return {
            **_summaries(self.rows, lambda row: row.klass, error),
            **_summaries(others, lambda _: EVERYTHING, error),
        }

    @property
    def front_ends(self) -> tuple[str, ...]:
        """The front ends of the programs, in the order in which they were measured; none for replays."""
        return tuple(dict.fromkeys(row.front_end for row in self.rows if row.front_end))

    def by_front_end(self, error: Error = attrgetter("error")) -> dict[str, Summary]:
        """Return the errors of programs by front end and class."""
        found: dict[str, Summary] = {}
        for name in self.front_ends:
            own = [row for row in self.rows if row.front_end == name]
            found |= _summaries(own, lambda row: f"{row.front_end} {row.klass}", error)
        return found

    @property
    def formulas(self) -> dict[str, dict[str, Summary]]:
        """The errors of each published formula by class; none for programs."""
        names = self.rows[0].formulas_s if self.rows else ()
        return {name: self.by_class(lambda row, name=name: row.formula_error(name)) for name in names}  # type: ignore[misc]

    def margin(self, group: str = EVERYTHING) -> tuple[str, float]:
        """Return the formula with the smallest median error in a group, and this error over the model's."""
        medians = {name: groups[group].median for name, groups in self.formulas.items()}
        best = min(medians, key=lambda name: medians[name])
        own = self.summaries["class"][group].median
        return best, medians[best] / own if own else math.inf

    def speeds_of(self, front_end: str) -> tuple[float, ...]:
        """Return the 10th and the 90th percentile of the time of calls beside a front end's programs.

        They are over the calibrated time: 2 is half as fast. Empty if not measured.
        """
        speeds = [speed for row in self.rows if row.front_end == front_end for speed in row.speeds if speed > 0]
        if not speeds:
            return ()
        tenths = statistics.quantiles(speeds, n=10, method="inclusive") if len(speeds) > 1 else speeds
        return tenths[0], tenths[-1]

    @property
    def choices(self) -> list[Choice]:
        """The model's, one for each workload and number of connections measured in at least two configurations."""
        groups: defaultdict[tuple[int, str], list[Row]] = defaultdict(list)
        for row in self.rows:
            if row.workload:
                groups[row.connections, row.workload].append(row)
        return [choose(rows) for rows in groups.values() if len(rows) > 1]

    def choices_of(self, front_end: str) -> list[Choice]:
        """Return the model's choice for each workload of a front end."""
        return [choice for choice in self.choices if choice.workload.startswith(f"{front_end}: ")]

    def worst(self, most: int) -> list[Row]:
        """Return the rows with the largest absolute errors, pageable memory left out."""
        others = (row for row in self.rows if row.klass != PAGEABLE)
        return sorted(others, key=lambda row: -abs(row.error))[:most]

    @property
    def known_within(self) -> float:
        """0: the times are measured, and the errors are those of the predictions."""
        return 0.0

    def _json(self) -> dict[str, Any]:
        choices, summaries = self.choices, self.summaries
        of_programs = {
            "at_speed": _plain(self.by_front_end(attrgetter("at_speed_error"))),
            "host_speeds": {name: self.speeds_of(name) for name in self.front_ends},
        }
        return {
            "card": self.card,
            "suite": self.suite,
            "device": self.device,
            "summaries": {kind: _plain(groups) for kind, groups in summaries.items()},
            "wall": _plain(self.by_class(attrgetter("wall_error"))),
            "formulas": {name: _plain(groups) for name, groups in self.formulas.items()},
            "margins": {
                group: {"best_formula": name, "its_median_over_the_models": times if math.isfinite(times) else None}
                for group in summaries["class"]
                if self.formulas
                for name, times in [self.margin(group)]
            },
            **(of_programs if self.front_ends else {}),
            "choice": {
                "n": len(choices),
                "within_1_percent_percent": share_within(choices, WITHIN) * PERCENT if choices else None,
                "worst_percent": max(choice.regret for choice in choices) * PERCENT if choices else None,
                "workloads": [in_percent(choice, "regret") for choice in choices],
            },
            "drift": [drift.plain() for drift in self.drift],
            "unpredicted": self.unpredicted,
            "unmeasured": self.unmeasured,
            "schedules": [row.plain() for row in self.rows],
        }


def _plain(groups: Mapping[str, Summary]) -> dict[str, dict[str, Any]]:
    return {name: in_percent(summary) for name, summary in groups.items()}


# Statistics


def summarise(errors: Sequence[float], keys: Sequence[str] = (), noises: Sequence[float] = ()) -> Summary:
    """Summarise signed errors; ``keys`` name them. At least one."""
    sizes = [abs(error) for error in errors]
    worst = max(range(len(sizes)), key=sizes.__getitem__)
    return Summary(
        n=len(sizes),
        median=statistics.median(sizes),
        p95=percentile95(sizes),
        worst=sizes[worst],
        bias=statistics.median(errors),
        noise=statistics.median(noises) if noises else 0.0,
        worst_key=keys[worst] if keys else "",
    )


def percentile95(values: Sequence[float]) -> float:
    """Return the value that 95 % of ``values`` do not exceed, linear between neighbours."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _summaries(
    rows: Iterable[Row], group: Callable[[Row], str], error: Error = attrgetter("error")
) -> dict[str, Summary]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[group(row)].append(row)
    ranks = {name: rank for rank, name in enumerate(CLASSES)}
    return {
        name: summarise([error(row) for row in members], [row.key for row in members], [row.noise for row in members])
        for name, members in sorted(groups.items(), key=lambda item: (ranks.get(item[0], 0), -len(item[1])))
    }


def choose(rows: Sequence[Row]) -> Choice:
    """Return the choice of the configuration of one workload that is predicted to be the fastest.

    If predictions are equal, the simplest is picked, as by :mod:`streamsim.search.best`; if these are equally simple,
    the slowest.
    """
    picked = min(rows, key=lambda row: (row.predicted_s, row.simplicity, -row.measured_s))
    best = min(rows, key=lambda row: row.measured_s)
    return Choice(
        picked.workload, picked.connections, picked.key, best.key, picked.measured_s, best.measured_s, picked.noise
    )


def share_within(choices: Sequence[Choice], limit: float) -> float:
    """Return the share of the choices whose pick is slower than the best measured by no more than ``limit``."""
    return sum(choice.regret <= limit for choice in choices) / len(choices)
