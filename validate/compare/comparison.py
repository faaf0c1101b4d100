"""A record against the model: rows of measured and predicted times, the statistics of their errors, the answer.

Errors are signed and relative to the median of the samples: +0.02 is a prediction 2 % too long.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from streamsim.answer import Answer, Pictures
from streamsim.displayed import Result
from streamsim.errors import short
from streamsim.report import Table
from streamsim.text import format_seconds

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
    language. ``at_speed_s``: the time predicted with calls at the speed at which the program was issued.
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

    def plain(self) -> dict[str, Any]:
        """Return the row as JSON and CSV hold it: units are in the names, errors in percent."""
        found = in_percent(self, "error", "wall_error")
        return {"status": "ok", "class": found.pop("klass"), **found}


Error = Callable[[Row], float]
FRONT_END = "front end"  # the groups of programs by the language that they are written in
EVERYTHING = "all but pageable"  # the group of all schedules that can overlap
WITHIN = 0.01  # a pick that is slower than the best measured by no more than this is as good
GOOD_CHOICE = 0.05  # and the same for programs
STATISTICS = ("median", "p95", "worst")  # of absolute errors


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


class Coverage(msgspec.Struct, frozen=True):
    """Shares of ``n`` measured medians inside their intervals, below, above; widths relative to the prediction."""

    n: int
    inside: float
    below: float
    above: float
    mean_width: float
    median_width: float


class Comparison(Result, msgspec.Struct, frozen=True):
    """A record against the model: a row for every schedule measured, or the reason why there is none."""

    card: str
    suite: str
    device: str
    rows: tuple[Row, ...]
    unpredicted: tuple[Absent, ...]
    unmeasured: tuple[Absent, ...]

    def __repr__(self) -> str:
        return short(f"Comparison({self.card}, {self.suite}: {len(self.rows)} rows, {self.device})")

    def _answer(self) -> Answer:
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
        errors = {name: lambda row, name=name: row.formulas_s[name] / row.measured_s - 1 for name in names}
        return {name: self.by_class(error) for name, error in errors.items()}

    def margin(self, group: str = EVERYTHING) -> tuple[str, float]:
        """Return the formula with the smallest median error in a group, and this error over the model's."""
        medians = {name: groups[group].median for name, groups in self.formulas.items()}
        best = min(medians, key=lambda name: medians[name])
        own = self.summaries["class"][group].median
        return best, medians[best] / own if own else math.inf

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
    def figures(self) -> dict[str, float]:
        """The shares that a tolerance may name.

        - ``p95 device-bound``: a statistic of the absolute errors of a class, a pattern, an effect, ``8 connections``,
          or ``8 connections host-bound``; without a group, of everything except pageable memory.
        - ``choice``: the worst cost of following the model's choices; ``median choice`` and ``p95 choice`` exist too.
        - ``unpredicted``: the share of the measured schedules that the profile could not predict.
        """
        groups = {name: summary for kind in self.summaries.values() for name, summary in kind.items()}
        if choices := self.choices:
            groups["choice"] = summarise([choice.regret for choice in choices])
        found = {f"{of} {name}": getattr(summary, of) for name, summary in groups.items() for of in STATISTICS}
        found |= {of: found[f"{of} {EVERYTHING}"] for of in STATISTICS if EVERYTHING in groups}
        found |= {"choice": found["worst choice"]} if choices else {}
        absent = len(self.unpredicted)
        return {**found, "unpredicted": absent / (absent + len(self.rows)) if absent else 0.0}

    @property
    def known_within(self) -> float:
        """0: the times are measured, and the errors are those of the predictions."""
        return 0.0

    def _json(self) -> dict[str, Any]:
        return {
            "card": self.card,
            "suite": self.suite,
            "device": self.device,
            "summaries": {kind: _plain(groups) for kind, groups in self.summaries.items()},
            "wall": _plain(self.by_class(attrgetter("wall_error"))),
            "formulas": {name: _plain(groups) for name, groups in self.formulas.items()},
            "at_speed": _plain(self.by_front_end(attrgetter("at_speed_error"))),
            "choice": {"workloads": [in_percent(choice, "regret") for choice in self.choices]},
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


# The answer


FEW_ABSENT = 5  # schedules without a prediction or a measurement that are listed
FIGURES = ("n", "median", "p95", "worst", "bias", "noise")


def _sections(comparison: Comparison, covered: Mapping[str, Coverage], most: int) -> Iterator[Table | str]:
    """Yield the summary, then the ``most`` worst predicted schedules, then the other tables."""
    yield from _class_table(comparison)
    if comparison.front_ends:
        yield errors_table("wall time, by front end", comparison.by_front_end())
        yield errors_table("with calls as fast as each shows", comparison.by_front_end(attrgetter("at_speed_error")))
    if covered:
        yield _coverage_table(covered)
    if not comparison.front_ends:
        yield from _choice_summary("choice", comparison.choices, WITHIN)
    for name in comparison.front_ends:
        yield from _choice_summary(f"choice, {name}", comparison.choices_of(name), GOOD_CHOICE)
    yield from _absent("not predicted", comparison.unpredicted)
    yield from _absent("not measured", comparison.unmeasured)
    yield from _schedules("the worst predicted, pageable memory left out", comparison.worst(most))
    said = {"class", FRONT_END} | ({"connections"} if len({row.connections for row in comparison.rows}) == 1 else set())
    for kind, groups in comparison.summaries.items():
        if kind not in said and len(groups) > 1:  # a single group is the whole
            yield errors_table(f"model, by {kind}", groups)


def table_of(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], words: Iterable[int] = (0,)) -> Table:
    """Return a table of one group. ``words``: the columns that hold no numbers."""
    return Table(title, (tuple(map(tuple, rows)),), tuple(heads), frozenset(range(len(heads))) - set(words))


def errors_table(name: str, groups: Mapping[str, Summary]) -> Table:
    """Return the errors of each group, with the schedule that has the largest."""
    rows = [(group, *_figures(summary), summary.worst_key) for group, summary in groups.items()]
    return table_of("", (name, *FIGURES, "the worst one"), rows, (0, 1 + len(FIGURES)))


def _figures(s: Summary) -> tuple[str, ...]:
    return f"{s.n}", f"{s.median:.2%}", f"{s.p95:.2%}", f"{s.worst:.2%}", f"{s.bias:+.2%}", f"{s.noise:.2%}"


def _class_table(comparison: Comparison) -> Iterator[Table]:
    """Yield the errors by class, with those of the whole program and of the best formula unless they are programs."""
    groups, wall = comparison.summaries["class"], comparison.by_class(attrgetter("wall_error"))
    heads, rows = ["model, by class", *FIGURES], [[name, *_figures(summary)] for name, summary in groups.items()]
    if not comparison.front_ends:
        heads += ["wall: median / p95", "best formula"]
        for name, row in zip(groups, rows, strict=True):
            formula, times = comparison.margin(name)
            row += [f"{wall[name].median:.2%} / {wall[name].p95:.2%}", f"{times:.1f}x {formula}"]
    if groups:
        yield table_of("", heads, rows, (0, 8))


def _schedules(title: str, rows: Sequence[Row]) -> tuple[Table, ...]:
    """Return the measured and the predicted time of each schedule as a table, if there is any."""
    heads = ("schedule", "measured", "predicted", "error", "noise", "class", "connections")
    cells = [
        (
            *(row.key, format_seconds(row.measured_s), format_seconds(row.predicted_s)),
            *(f"{row.error:+.1%}", f"{row.noise:.1%}", row.klass, f"{row.connections}"),
        )
        for row in rows
    ]
    return (table_of(title, heads, cells, (0, 5)),) if rows else ()


def _coverage_table(covered: Mapping[str, Coverage]) -> Table:
    heads = ("90 % intervals, measured", "n", "inside", "below", "above", "mean width", "median width")
    rows = [
        (klass, f"{c.n}", *(f"{share:.1%}" for share in (c.inside, c.below, c.above)), *widths)
        for klass, c in covered.items()
        for widths in [(f"{c.mean_width:.2%}", f"{c.median_width:.2%}")]
    ]
    return table_of("", heads, rows)


def _choice_summary(what: str, choices: Sequence[Choice], limit: float) -> Iterator[str]:
    if choices:
        good = sum(choice.regret <= limit for choice in choices)
        yield (
            f"{what}: within {limit:.0%} of the best measured for {good} of {len(choices)} workloads"
            f" ({good / len(choices):.1%}), {max(choice.regret for choice in choices):.2%} off at worst"
        )


def _absent(what: str, absent: Sequence[Absent]) -> Iterator[Table | str]:
    """Yield the first of them; how many more there are."""
    if absent:
        rows = [(one.key, f"{one.connections}", one.reason) for one in absent[:FEW_ABSENT]]
        yield table_of("", (what, "connections", "why"), rows, (0, 2))
    if len(absent) > FEW_ABSENT:
        yield f"{what}: {len(absent) - FEW_ABSENT} more; --json has them all"


# Rows for CSV


def to_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a flat row for every schedule; ``status`` says why one has no prediction or no measurement."""
    absent = {"not predicted": comparison.unpredicted, "not measured": comparison.unmeasured}
    others = [
        {"key": one.key, "connections": one.connections, "status": f"{what}: {one.reason}"}
        for what, some in absent.items()
        for one in some
    ]
    return [*map(Row.plain, comparison.rows), *others]


def comparison_answer(
    comparison: Comparison,
    covered: Mapping[str, Coverage] | None = None,
    most: int = 10,
    pictures: Callable[[], Pictures] = Pictures,
) -> Answer:
    """Return the answer of a comparison with the ``most`` worst schedules; ``covered``: the coverage by class."""
    asked = {
        "coverage": None if covered is None else {klass: in_percent(found) for klass, found in covered.items()},
        "worst": [{"connections": row.connections, "key": row.key} for row in comparison.worst(most)],
    }
    what = f"{len(comparison.rows)} {'programs' if comparison.front_ends else 'schedules'}"
    return Answer(
        title=f"{comparison.card}, {comparison.suite}: {what}, profile {comparison.device}",
        tables=tuple(_sections(comparison, covered or {}, most)),
        more=_schedules("every schedule", comparison.rows),
        pictures=pictures,
        data={**comparison.to_json(), **asked},
        rows=to_rows(comparison),
    )
