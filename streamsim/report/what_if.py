"""What changes bring, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.report.recording import add_row
from streamsim.text.quantities import format_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from streamsim.analysis.what_if import Outcome, WhatIf


def what_if_table(found: WhatIf, title: str) -> Table:
    """A row for the program as it is, for each change alone and for all together; then what is assumed."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE)
    table.add_column("change")
    table.add_column("time", justify="right")
    table.add_column("gain", justify="right")
    table.add_column("what binds then")
    _add(table, found.before)
    table.add_section()
    for outcome in found.alone:
        _add(table, outcome)
    if len(found.alone) != 1 or found.alone[0].change != found.together.change:
        table.add_section()
        _add(table, found.together)
    table.add_section()
    for words, texts in (("assumed", found.assumed), ("note", found.notes)):
        for text in texts:
            table.add_row(words, "", "", text)
    return table


def _add(table: Table, outcome: Outcome) -> None:
    gain = f"{outcome.gain:.2f}x" if outcome.gain != 1 else ""
    add_row(table, outcome.change, format_seconds(outcome.makespan_s), gain, outcome.binds)
