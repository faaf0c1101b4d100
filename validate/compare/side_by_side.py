"""Several comparisons beside each other: the errors of each class and the worst schedules, a column for each record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim_validate.compare.comparison import FRONT_END, PAGEABLE
from streamsim_validate.compare.tables import WITHIN, title

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streamsim_validate.compare.comparison import Comparison, Row, Summary

NAME_WIDTH, WIDTH = 30, 32
NOTHING = "-"


def side_by_side(comparisons: Mapping[str, Comparison], most: int) -> str:
    """Return the comparisons by name as one text: the records, their errors by group, and the ``most`` worst schedules.

    A schedule is as bad as the largest of its absolute errors in any of the records.
    """
    names = [f"{number}: {name}" for number, name in enumerate(comparisons, 1)]
    sections = [
        [f"{name}: {title(comparison)}" for name, comparison in zip(names, comparisons.values(), strict=True)],
        [*_errors(list(comparisons.values()))],
        [*_worst(list(comparisons.values()), most)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _errors(comparisons: list[Comparison]) -> Iterator[str]:
    groups = [{**c.summaries["class"], **c.summaries.get(FRONT_END, {})} for c in comparisons]
    heading = f"{'n':>6} {'median':>7} {'p95':>7} {'worst':>7}"
    yield f"{'':<{NAME_WIDTH}}" + "".join(f"{number:>{WIDTH}}" for number in range(1, 1 + len(comparisons)))
    yield f"{'model, by class':<{NAME_WIDTH}}" + f"{heading:>{WIDTH}}" * len(comparisons)
    for name in dict.fromkeys(name for own in groups for name in own):
        yield f"  {name:<{NAME_WIDTH - 2}}" + "".join(f"{_cell(own.get(name)):>{WIDTH}}" for own in groups)
    for what, cells in (
        (f"choice within {WITHIN:.0%}", map(_choice, comparisons)),
        ("not predicted", (str(len(c.unpredicted)) for c in comparisons)),
        ("not measured", (str(len(c.unmeasured)) for c in comparisons)),
    ):
        yield f"{what:<{NAME_WIDTH}}" + "".join(f"{cell:>{WIDTH}}" for cell in cells)


def _cell(summary: Summary | None) -> str:
    if summary is None:
        return NOTHING
    return f"{summary.n:>6} {summary.median:7.2%} {summary.p95:7.2%} {summary.worst:7.2%}"


def _choice(comparison: Comparison) -> str:
    choices = comparison.choices
    return f"{sum(choice.regret <= WITHIN for choice in choices)} of {len(choices)}" if choices else NOTHING


def _worst(comparisons: list[Comparison], most: int) -> Iterator[str]:
    rows: list[dict[tuple[int, str], Row]] = [
        {(row.connections, row.key): row for row in c.rows if row.klass != PAGEABLE} for c in comparisons
    ]
    everyone = dict.fromkeys(key for own in rows for key in own)
    worst = sorted(everyone, key=lambda key: -max(abs(own[key].error) for own in rows if key in own))[:most]
    if worst:
        heads = "".join(f"{number:>8}" for number in range(1, 1 + len(comparisons)))
        yield f"{heads}  conn.  the worst predicted, pageable memory left out"
    for key in worst:
        errors = "".join(f"{own[key].error:+8.1%}" if key in own else f"{NOTHING:>8}" for own in rows)
        yield f"{errors}  {key[0]:>5}  {key[1]}"
