"""A comparison as a page to look at: the errors by class, the worst schedules, and two time lines on one scale."""

from collections.abc import Sequence

from streamsim.device import Device
from streamsim.page import Page, Shown
from streamsim_validate.compare.comparison import Comparison
from streamsim_validate.compare.predictions import time_lines
from streamsim_validate.compare.rows import Row
from streamsim_validate.compare.tables import WORST, errors_table, schedules_table, title
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
        tables=(errors_table("model, by class", by_class, title(comparison)), schedules_table(WORST, worst)),
        notes=(f"{len(comparison.rows):,} rows, profile {comparison.device}",),
    )


def _lines(record: Record, worst: Sequence[Row], device: Device | None) -> tuple[Shown, ...]:
    pairs = [(row, *time_lines(record, row, device)) for row in worst]
    for row, predicted, measured in pairs:
        if measured is not None:
            words = f"{row.key}, {row.connections} connections"
            return Shown(f"measured, traced: {words}", measured), Shown(f"predicted: {words}", predicted)
    return tuple(Shown(f"predicted: {row.key}", predicted) for row, predicted, _ in pairs[:1])
