"""Tables of the gains of changes of a training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.report.tables import Row, Table

if TYPE_CHECKING:
    from streamsim.training.loop import LoopAdvice, LoopRow


def loop_table(found: LoopAdvice) -> Table:
    """Return the loops, the loop as it is first: time of a step, samples a second, gain, and what it waits for."""
    heads = ("loop", "ms a step", "samples a second", "gain", "waits for")
    return Table("", (tuple(map(_cells, found.rows)),), heads, frozenset({1, 2, 3}))


def _cells(row: LoopRow) -> Row:
    gain = f"{row.gain:.2f}x" if row.title != "as it is" else ""
    return row.title, f"{row.step_s * 1e3:.4g}", f"{row.samples_per_s:,.0f}", gain, ", ".join(row.binds)
