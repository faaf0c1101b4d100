"""Maps of the rows of a sweep or a search, coloured by their times, over any two of their columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from streamsim.errors import InputError, printable
from streamsim.page.timelines import Shown, packed
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_bytes, format_seconds, unit_of

MOST_ROWS = 100_000
MOST_LINES = 64  # time lines that a page carries beside its map


class Column(msgspec.Struct, frozen=True):
    """A column of a map: its values in order as ``texts``, and the command line's option for each value."""

    name: str
    texts: tuple[str, ...]
    options: tuple[str, ...]


class Map(msgspec.Struct, frozen=True):
    """The rows of a map.

    - ``rows``: by row, the place of its value in each column. ``ticks``: the time of each row.
    - ``axes``: the columns across and up, when the page opens.
    - ``lines``: the time lines of some rows. ``first``: the row whose time line is shown when the page opens.
    - ``command``: the command that predicts a row if the row's options are added; empty if no command does.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[int, ...], ...]
    ticks: tuple[int, ...]
    axes: tuple[int, int]
    lines: dict[int, Shown]
    first: int | None
    command: str = ""


def check_rows(count: int) -> None:
    """Raise InputError for more rows than a page shows."""
    if count > MOST_ROWS:
        raise InputError(f"--page: {count:,} rows are more than the {MOST_ROWS:,} that a page shows; sweep fewer")


def map_of(
    rows: Sequence[Mapping[str, Any]],
    names: Iterable[str],
    axes: tuple[str, str],
    option: Callable[[str, Any], str],
) -> Map:
    """Return the map of ``rows``, without time lines. Its columns are ``axes``, and the others of ``names`` that vary.

    ``option`` gives the command line's option for a value of a column. Raises InputError for too many rows.
    """
    check_rows(len(rows))
    values = {name: sorted({row[name] for row in rows}, key=value_order) for name in names}
    shown = [name for name, found in values.items() if len(found) > 1 or name in axes]
    place = {name: {value: k for k, value in enumerate(values[name])} for name in shown}
    return Map(
        columns=tuple(
            Column(
                column_words(name).replace("_", " "),
                tuple(printable(value_words(name, value)) for value in values[name]),
                tuple(option(name, value) for value in values[name]),
            )
            for name in shown
        ),
        rows=tuple(tuple(place[name][row[name]] for name in shown) for row in rows),
        ticks=tuple(round(row["makespan_s"] * TICKS_PER_S) for row in rows),
        axes=(shown.index(axes[0]), shown.index(axes[1])),
        lines={},
        first=None,
    )


def spread(found: Map, kept: Iterable[int] = ()) -> list[int]:
    """Return the rows whose time lines the page carries: ``kept``, the fastest, and others evenly over the map."""
    rows = sorted(range(len(found.rows)), key=lambda row: (-found.ticks[row], -row))
    chosen = dict.fromkeys([*kept, rows[-1]])
    fastest = {tuple(found.rows[row][axis] for axis in found.axes): row for row in rows}  # the last row of each cell
    others = [fastest[cell] for cell in sorted(fastest)]
    step = max(1.0, len(others) / (MOST_LINES - len(chosen)))
    chosen |= dict.fromkeys(others[int(k * step)] for k in range(int(len(others) / step)))
    return list(chosen)[:MOST_LINES]


def map_data(found: Map, first_line: int) -> dict[str, Any]:
    """Return the map as plain numbers and texts; its time lines are numbered from ``first_line``."""
    return {
        "columns": msgspec.to_builtins(found.columns),
        "rows": len(found.rows),
        "axes": list(found.axes),
        "lines": {str(row): number for number, row in enumerate(found.lines, first_line)},
        "first": found.first,
        "command": found.command,
        "data": packed([*zip(*found.rows, strict=True), found.ticks]),
    }


# Columns and their values in words


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
