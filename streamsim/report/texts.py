"""Results as texts: tables with the same words everywhere, titles, time lines in letters, and rows as CSV."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import msgspec
import rich.table
from rich.box import SIMPLE
from rich.table import Table as RichTable
from rich.text import Text

from streamsim.errors import counted, one_line, printable, to_cell
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_seconds
from streamsim.timeline import Timeline

LONGEST_CELL = 120  # characters of a text from a file
Row = tuple[str, ...]
Fact = tuple[str, str | float, str]  # an amount that is a number: seconds


class Table(msgspec.Struct, frozen=True):
    """Rows of texts in groups. ``heads``: names of the columns, or none. ``right``: columns of numbers.

    In a terminal the columns ``whole`` are not broken into lines, and ``widths`` are the relative widths of columns (0:
    as wide as its cells).
    """

    title: str
    groups: tuple[tuple[Row, ...], ...]
    heads: Row = ()
    right: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()
    widths: tuple[int, ...] = ()

    def __rich__(self) -> rich.table.Table:
        """Return the table for the terminal."""
        title = Text(printable(self.title), "table.title") if self.title else None
        found = RichTable(title=title, title_justify="left", show_header=bool(self.heads), box=SIMPLE)
        for k in range(self._columns):
            found.add_column(
                self.heads[k] if self.heads else "",
                justify="right" if k in self.right else "left",
                no_wrap=k in self.whole,
                ratio=self.widths[k] or None if self.widths else None,
            )
        for group in self.groups:
            for row in group:
                found.add_row(*(Text(printable(cell)) for cell in row))
            found.add_section()
        return found

    @property
    def _columns(self) -> int:
        return len(self.heads) or max((len(row) for group in self.groups for row in group), default=0)

    def markdown(self) -> str:
        """Return the table as Markdown; its title is a line in bold."""
        heads = self.heads or ("",) * self._columns
        ends = ("---:" if k in self.right else "---" for k in range(self._columns))
        rows = [heads, tuple(ends), *(row for group in self.groups for row in group)]
        lines = [f"| {' | '.join(map(in_markdown, row))} |" for row in rows]
        return "\n".join([f"**{in_markdown(self.title)}**", "", *lines] if self.title else lines)

    def html(self) -> str:
        """Return the table as HTML: the first cell of a row is its head."""
        heads = "".join(self._cell(k, head, " scope='col'") for k, head in enumerate(self.heads))
        bodies = "".join(f"<tbody>{''.join(map(self._row, group))}</tbody>" for group in self.groups)
        caption = f"<caption>{in_html(self.title)}</caption>" if self.title else ""
        return f"<table>{caption}{f'<thead><tr>{heads}</tr></thead>' if heads else ''}{bodies}</table>"

    def _row(self, row: Row) -> str:
        cells = (self._cell(k, text, "" if k else " scope='row'") for k, text in enumerate(row))
        return f"<tr>{''.join(cells)}</tr>"

    def _cell(self, column: int, text: str, scope: str) -> str:
        tag = "th" if scope and text else "td"
        aligned = " class='number'" if column in self.right else ""
        return f"<{tag}{scope if text else ''}{aligned}>{in_html(text)}</{tag}>"


def facts(title: str, groups: Iterable[Iterable[Fact | Row]], within: float = 0.0) -> Table:
    """Return a table of facts: name, amount, remark. Groups without rows are left out.

    ``within``: the relative error of amounts that are numbers, if known.
    """
    found = (tuple(tuple(_words(cell, within) for cell in row) for row in group) for group in groups)
    return Table(title, tuple(group for group in found if group), right=frozenset({1}))


def _words(cell: str | float, within: float) -> str:
    return cell if isinstance(cell, str) else format_seconds(cell, within)


def cut(row: Row) -> Row:
    """Return a row whose long cells, such as names from files, are cut to one line of 120 characters."""
    return tuple(one_line(cell, LONGEST_CELL) for cell in row)


def in_html(text: str) -> str:
    """Return ``text`` as HTML shows it: no markup, and no control characters."""
    return escape(printable(text))


def in_markdown(cell: str) -> str:
    """Return a text that is no markup there, on one line."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", printable(" ".join(cell.split())))


# Titles: what ran, spelled out, and where

NUMBERS = {"N": "chunk", "S": "stream", "K": "buffer"}  # in the names of schedules: depth-first N=16 S=4
NUMBER = re.compile(r" (?:([NSK])|(chunk|stream|buffer)s?)=(\d+)\b")  # or of recipes: depth-first chunks=16 streams=4
UNNAMED = "schedule"


def spelled_out(name: str) -> str:
    """Return the name of a schedule with its numbers in words: ``depth-first, 16 chunks, 4 streams``."""

    def words(found: re.Match[str]) -> str:
        return f", {counted(int(found[3]), found[2] or NUMBERS[found[1]])}"

    return one_line(NUMBER.sub(words, name or UNNAMED).replace(" launch=graph", ", as a graph"))


def title_of(timeline: Timeline) -> str:
    """Return what ran, and on which device, or that it was measured."""
    where = "measured" if timeline.device is None else f"on {one_line(timeline.device.name)}"
    return f"{spelled_out(timeline.schedule.name)}, {where}"


# Time lines in letters

IDLE, PARTLY, LANE = ".", ":", "#"
SLIVER = 0.02  # of a column: less than this is not shown
STREAM_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


def gantt(timeline: Timeline, width: int = 100) -> str:
    """Return a Gantt chart as text: one row for each engine and lane, ``width`` columns in all, and a time axis below.

    Each character is the stream that the engine serves most in that column: 0 to 9, then a to z, then again from 0.
    ``:`` is an engine busy for less than half of the column, ``.`` an idle engine. ``#`` is a lane's span.
    """
    spans: dict[str, list[tuple[str, int, int]]] = {name: [] for name in timeline.engine_names}
    ops = zip(timeline.schedule.ops, timeline.engine, timeline.start, timeline.end, strict=True)
    for op, engine, start, end in ops:
        if engine >= 0 and op.stream is not None:
            letter = STREAM_LETTERS[op.stream % len(STREAM_LETTERS)]
            spans[timeline.engine_names[engine]].append((letter, start, end))
    spans |= {lane.name: [(LANE, *at) for at in zip(lane.start, lane.end, strict=True)] for lane in timeline.tracks}
    margin = max(map(len, spans)) + 2
    columns = max(20, width - margin)
    per_tick = columns / timeline.makespan_s / TICKS_PER_S if timeline.makespan_s else 0.0
    last = format_seconds(timeline.makespan_s, timeline.known_within)
    lines = [f"{name:<{margin}}{_row(of_row, columns, per_tick)}" for name, of_row in spans.items()]
    return "\n".join([*lines, f"{'':<{margin}}0{last:>{columns - 1}}"])


def _row(spans: Iterable[tuple[str, int, int]], columns: int, per_tick: float) -> str:
    """Return the characters of a row: the letter that fills most of each column."""
    cells: list[dict[str, float]] = [{} for _ in range(columns)]
    for letter, *ticks in spans:
        start, end = (tick * per_tick for tick in ticks)
        for column in range(min(int(start), columns - 1), min(int(end) + 1, columns)):
            share = min(end, column + 1) - max(start, column)
            cells[column][letter] = cells[column].get(letter, 0.0) + share
    return "".join(map(_character, cells))


def _character(cell: dict[str, float]) -> str:
    busy = sum(cell.values())
    if busy < 0.5:
        return PARTLY if busy > SLIVER else IDLE
    return max(cell, key=lambda letter: cell[letter])


# For programs


def to_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return ``rows`` as CSV with a header: nested tables are ``outer.inner`` columns, "; " separates a list."""
    flat = [_flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in flat for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: to_cell(value) for name, value in row.items()} for row in flat)
    return text.getvalue()


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = "; ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return found
