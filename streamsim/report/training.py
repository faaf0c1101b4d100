"""What changes bring to a training loop, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from streamsim.training.loop import LoopAdvice, LoopRow


def loop_table(found: LoopAdvice) -> Table:
    """Return the loops, the loop as it is first: time of a step, samples a second, gain, and what it waits for."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    table.add_column("loop")
    for name in ("ms a step", "samples a second", "gain"):
        table.add_column(name, justify="right")
    table.add_column("waits for")
    for row in found.rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: LoopRow) -> tuple[str, ...]:
    gain = f"{row.gain:.2f}x" if row.title != "as it is" else ""
    return row.title, f"{row.step_s * 1e3:.4g}", f"{row.samples_per_s:,.0f}", gain, ", ".join(row.binds)
