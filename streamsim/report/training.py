"""Tables of the gains of changes of a training loop."""

from streamsim.report.tables import Row, Table
from streamsim.text import format_ratio, rounded
from streamsim.training import LoopAdvice, LoopRow


def loop_table(found: LoopAdvice) -> Table:
    """Return the loops, the loop as it is first: time of a step, samples a second, gain, and what it waits for."""
    counted = "batches" if found.rows[0].loop.batch == 1 else "samples"  # of a recording whose --batch is not given
    heads = ("loop", "ms a step", f"{counted} a second", "gain", "waits for")
    rows = tuple(_cells(row, found.known_within) for row in found.rows)
    return Table("", (rows,), heads, frozenset({1, 2, 3}))


def _cells(row: LoopRow, within: float) -> Row:
    gain = format_ratio(row.gain, within) if row.title != "as it is" else ""
    step_ms, samples = rounded(row.step_s * 1e3, within), row.samples_per_s
    samples = rounded(samples, within) if within else samples
    return row.title, f"{step_ms:g}", f"{samples:,.0f}", gain, ", ".join(row.binds)
