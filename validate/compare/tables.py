"""A comparison's tables and sentences, in the order in which they are printed; its rows for CSV; its page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from streamsim.answer import Answer, Pictures
from streamsim.device import Device
from streamsim.page import Shown
from streamsim.report import Table
from streamsim.text import counted, format_seconds
from streamsim_validate.compare.comparison import (
    FRONT_END,
    GOOD_CHOICE,
    PAGEABLE,
    WITHIN,
    Absent,
    Choice,
    Comparison,
    Drift,
    Row,
    Summary,
)
from streamsim_validate.compare.coverage import Coverage, Verdict
from streamsim_validate.compare.predictions import time_lines
from streamsim_validate.records import Record

FEW = 60  # schedules that are listed without being asked for
FEW_ABSENT = 5  # of those without a prediction or a measurement, likewise
NOTABLE = 0.10  # of a profile's number: said in the text
NOTHING = "-"
WORST = "the worst predicted, pageable memory left out"
FIGURES = ("n", "median", "p95", "worst", "bias", "noise")


def _sections(
    comparison: Comparison,
    verdicts: Sequence[Verdict] = (),
    covered: Mapping[str, Coverage] | None = None,
    most: int = 10,
) -> Iterator[Table | str]:
    """Yield the summary, then the ``most`` worst predicted schedules, then the other tables.

    ``covered``: the coverage by class.
    """
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
        if speeds := comparison.speeds_of(name):
            yield f"host, {name}: calls took {speeds[0]:.2f} to {speeds[1]:.2f} times as long as calibrated"
    yield from (f"{'FAILED' if v.failed else 'ok'}  {v.text}: is {v.value:.2%}" for v in verdicts)
    yield from _absent("not predicted", comparison.unpredicted)
    yield from _absent("not measured", comparison.unmeasured)
    yield from _schedules(WORST, comparison.worst(most))
    said = {"class", FRONT_END} | ({"connections"} if len({row.connections for row in comparison.rows}) == 1 else set())
    for kind, groups in comparison.summaries.items():
        if kind not in said and len(groups) > 1:  # a single group is the whole
            yield errors_table(f"model, by {kind}", groups)
    yield from _formulas(comparison)
    for drift in comparison.drift:
        yield from _drift(drift)


def title(comparison: Comparison) -> str:
    """Return what was compared, in one line."""
    what = "programs" if comparison.front_ends else "schedules"
    return f"{comparison.card}, {comparison.suite}: {len(comparison.rows)} {what}, profile {comparison.device}"


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


def _formulas(comparison: Comparison) -> Iterator[Table]:
    """Yield the median and the 95th percentile of the errors of each formula, in a column for each class."""
    if comparison.formulas:
        classes = comparison.summaries["class"]
        rows = [
            (name, *(f"{groups[group].median:.2%} / {groups[group].p95:.2%}" for group in classes))
            for name, groups in {"model": classes, **comparison.formulas}.items()
        ]
        yield table_of("", ("median / 95th percentile", *classes), rows)


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


def _drift(drift: Drift) -> Iterator[str]:
    """Yield how far the host's calls, the link and the profile's numbers moved during a run."""
    where = f"drift, {drift.connections} connections:"
    if drift.groups:
        low, high = drift.calls
        yield f"{where} the host's calls in {counted(drift.groups, 'group')}: {low:+z.0%}..{high:+z.0%}"
    if drift.links:
        low, middle, high = drift.links
        times = f"{low:.2f}..{high:.2f}, mostly {middle:.2f} times as long as calibrated"
        yield f"{where} copies both ways at once beside the samples: {times}"
    if drift.changes:
        moved = sorted((i for i in drift.changes.items() if abs(i[1]) > NOTABLE), key=lambda item: -abs(item[1]))
        names = ", ".join(f"{name} {change:+.0%}" for name, change in moved)
        yield (
            f"{where} {len(moved)} of the profile's {len(drift.changes)} numbers moved by more than {NOTABLE:.0%}"
            " during the run" + (f": {names}" if names else "")
        )


# Several records


def _side_by_side(comparisons: Mapping[str, Comparison], most: int) -> Iterator[Table | str]:
    """Yield the records by name, their errors by class, and the ``most`` worst schedules, with columns for each record.

    A schedule is as bad as the largest of its absolute errors in any of the records.
    """
    found = dict(enumerate(comparisons.values(), 1))
    for (number, one), name in zip(found.items(), comparisons, strict=True):
        yield f"{number}: {name}: {title(one)}"
    groups = {k: {**one.by_class(), **one.by_front_end()} for k, one in found.items()}
    names = dict.fromkeys(name for own in groups.values() for name in own)
    rows = [(name, f"{k}", *_figures(own[name])) for name in names for k, own in groups.items() if name in own]
    yield table_of("", ("model, by class", "record", *FIGURES), rows)
    for number, one in found.items():
        yield from _choice_summary(f"{number}: choice", one.choices, WITHIN)
        if absent := len(one.unpredicted) + len(one.unmeasured):
            yield f"{number}: {counted(absent, 'schedule')} not measured or not predicted"
    yield from _worst_of_each(list(found.values()), most)


def _worst_of_each(comparisons: Sequence[Comparison], most: int) -> Iterator[Table]:
    errors = [{(r.key, r.connections): r.error for r in c.rows if r.klass != PAGEABLE} for c in comparisons]
    everyone = dict.fromkeys(place for own in errors for place in own)
    worst = sorted(everyone, key=lambda place: -max(abs(own.get(place, 0.0)) for own in errors))[:most]
    rows = [
        (key, f"{n}", *(f"{own[key, n]:+.1%}" if (key, n) in own else NOTHING for own in errors)) for key, n in worst
    ]
    if rows:
        yield table_of(WORST, ("schedule", "connections", *map(str, range(1, 1 + len(errors)))), rows)


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


MOST = 10  # schedules that are listed


def comparison_answer(
    comparison: Comparison,
    verdicts: Sequence[Verdict] = (),
    covered: Mapping[str, Coverage] | None = None,
    most: int = MOST,
    record: Record | None = None,
    device: Device | None = None,
    data: dict[str, Any] | None = None,
) -> Answer:
    """Return the answer of a comparison with the ``most`` worst schedules; ``covered``: the coverage by class.

    With the ``record`` that it is of, a page has the time lines of the worst one whose time line was measured, or else
    of the worst one. ``device`` as for :func:`time_lines`.
    """
    every = _schedules("every schedule", comparison.rows)
    few = len(comparison.rows) <= FEW
    return Answer(
        title=title(comparison),
        tables=(*_sections(comparison, verdicts, covered, most), *(every if few else ())),
        more=() if few else every,
        pictures=Pictures if record is None else partial(_lines, record, comparison.worst(most), device),
        data=data or {},
        rows=to_rows(comparison),
    )


def _lines(record: Record, worst: Sequence[Row], device: Device | None) -> Pictures:
    pairs = [(row, *time_lines(record, row, device)) for row in worst]
    for row, predicted, measured in pairs:
        if measured is not None:
            words = f"{row.key}, {row.connections} connections"
            lines = Shown(f"measured, traced: {words}", measured), Shown(f"predicted: {words}", predicted)
            return Pictures(lines=lines)
    return Pictures(lines=tuple(Shown(f"predicted: {row.key}", predicted) for row, predicted, _ in pairs[:1]))


def comparisons_answer(comparisons: Mapping[str, Comparison], most: int, data: dict[str, Any]) -> Answer:
    """Return the answer of several comparisons by the names of their records, side by side."""
    rows = [{"record": name, **row} for name, one in comparisons.items() for row in to_rows(one)]
    return Answer(f"{len(comparisons)} records", tables=tuple(_side_by_side(comparisons, most)), data=data, rows=rows)
