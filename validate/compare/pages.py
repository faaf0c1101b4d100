"""A comparison as a page to look at: the errors by class, the worst schedules, and two time lines on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.page.document import Page
from streamsim.page.timelines import Shown
from streamsim.report.tables import Table
from streamsim.text.quantities import format_seconds
from streamsim_validate.compare.predictions import time_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.device.profile import Device
    from streamsim_validate.compare.comparison import Comparison, Row
    from streamsim_validate.records import Record

MOST = 10  # schedules that are listed


def comparison_page(
    comparison: Comparison, most: int = MOST, record: Record | None = None, device: Device | None = None
) -> Page:
    """Return the page of a comparison with the ``most`` worst schedules.

    With the ``record`` that it is of, it has the time lines of the worst one whose time line was measured, or else of
    the worst one. ``device`` as for :func:`time_lines`.
    """
    worst = comparison.worst(most)
    by_class = comparison.summaries["class"]
    return Page(
        title=f"{comparison.card}, {comparison.suite}: measured and predicted",
        headline=tuple((f"{summary.median:.2%}", f"median error, {name}") for name, summary in by_class.items()),
        lines=() if record is None else _lines(record, worst, device),
        tables=(_errors(comparison), _schedules(worst)),
        notes=(f"{len(comparison.rows):,} rows, profile {comparison.device}",),
    )


def _lines(record: Record, worst: Sequence[Row], device: Device | None) -> tuple[Shown, ...]:
    pairs = [(row, *time_lines(record, row, device)) for row in worst]
    for row, predicted, measured in pairs:
        if measured is not None:
            words = f"{row.key}, {row.connections} connections"
            return Shown(f"measured, traced: {words}", measured), Shown(f"predicted: {words}", predicted)
    return tuple(Shown(f"predicted: {row.key}", predicted) for row, predicted, _ in pairs[:1])


def _errors(comparison: Comparison) -> Table:
    heads = ("model, by class", "n", "median", "p95", "worst", "bias", "noise", "the worst one")
    rows = (
        (name, f"{s.n:,}", *(f"{x:.2%}" for x in (s.median, s.p95, s.worst, s.bias, s.noise)), s.worst_key)
        for name, s in comparison.summaries["class"].items()
    )
    return Table("errors", (tuple(rows),), heads, frozenset(range(1, 7)))


def _schedules(worst: Sequence[Row]) -> Table:
    heads = ("schedule", "measured", "predicted", "error", "noise", "class", "connections")
    rows = (
        (
            row.key,
            format_seconds(row.measured_s),
            format_seconds(row.predicted_s),
            f"{row.error:+.1%}",
            f"{row.noise:.1%}",
            row.klass,
            str(row.connections),
        )
        for row in worst
    )
    return Table("the worst predicted, pageable memory left out", (tuple(rows),), heads, frozenset({1, 2, 3, 4}))
