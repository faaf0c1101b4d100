"""The rows of a sweep as a short table: what they have in common above it, numbers rounded, the fastest if many."""

from collections.abc import Sequence
from typing import Any

from streamsim.report.tables import Table
from streamsim.search import RESULTS, WITHIN
from streamsim.text import counted, format_bytes, format_change, format_ratio, format_seconds, unit_of

MOST_ROWS = 40
VALUE = "makespan_s"


def value_order(value: Any) -> tuple[int, Any]:
    """Return the sort key of a value: None (no ring of buffers) first, then numbers, then words."""
    if value is None:
        return 0, 0
    return (2, value) if isinstance(value, str) else (1, value)


def column_words(column: str) -> str:
    """Return the name of a column without its unit."""
    return column.removesuffix(unit_of(column))


def value_words(column: str, value: Any) -> str:
    """Return a value of a column in words, with its unit."""
    if value is None or isinstance(value, str):
        return "all" if value is None else value
    if column.endswith("_per_s"):
        return f"{value / 1e9:.4g} GB/s"
    if column.endswith("_s"):
        return format_seconds(value)
    return format_bytes(value) if "_bytes" in column else f"{value:g}"


def common_words(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line that says what all rows have in common; none if nothing is. There is at least one row."""
    varying = _varying(rows)
    common = [
        f"{column_words(name)} {value_words(name, value)}"
        for name in _told(rows)
        if (value := rows[0][name]) is not None and name not in varying
    ]
    return [f"all with {', '.join(common)}"] if common else []


def sweep_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the rows, in their order if there are at most 40, else the 40 fastest; at least one row.

    The table has no column for what all rows have in common; :func:`common_words` says it.
    """
    varying = _varying(rows)
    best_s = min(row[VALUE] for row in rows)
    roughly = max(row[WITHIN] or 0.0 for row in rows)
    few = len(rows) <= MOST_ROWS
    shown = rows if few else sorted(rows, key=lambda row: float(row[VALUE]))[:MOST_ROWS]
    title = counted(len(rows), "row") if few else f"the {MOST_ROWS} fastest of {len(rows):,} rows"
    heads = (*map(column_words, varying), "time", "above the best", "speed-up")
    found = tuple(
        (
            *(value_words(name, row[name]) for name in varying),
            format_seconds(row[VALUE], row[WITHIN] or 0.0),
            format_change(row[VALUE] / best_s - 1 if best_s else 0.0, roughly),
            format_ratio(row["speedup"], row[WITHIN] or 0.0),
        )
        for row in shown
    )
    return Table(title, (found,), heads, frozenset(range(len(heads))))


def _varying(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [name for name in _told(rows) if len({row[name] for row in rows}) > 1]


def _told(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the columns that say what was predicted; connections that every device has of its own are left out."""
    cards = {row["device"] for row in rows}
    own = len(cards) > 1 and len(cards) == len({(row["device"], row["connections"]) for row in rows})
    return [name for name in rows[0] if name not in RESULTS and not (own and name == "connections")]
