"""Tables of the command line as HTML: what rich prints in the terminal stands on the page in the same words."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

import msgspec

from streamsim.text.shown import printable

if TYPE_CHECKING:
    import rich.table


class Table(msgspec.Struct, frozen=True):
    """Rows of texts in groups. ``heads``: names of the columns, or none. ``right``: columns of numbers."""

    title: str
    groups: tuple[tuple[tuple[str, ...], ...], ...]
    heads: tuple[str, ...] = ()
    right: frozenset[int] = frozenset()


def table_of(table: rich.table.Table) -> Table:
    """Return what a table of the terminal says."""
    columns = [[_plain(cell) for cell in column.cells] for column in table.columns]
    heads = tuple(_plain(column.header) for column in table.columns) if table.show_header else ()
    groups: list[list[tuple[str, ...]]] = [[]]
    for number, row in enumerate(table.rows):
        groups[-1].append(tuple(column[number] for column in columns))
        if row.end_section:
            groups.append([])
    right = frozenset(k for k, column in enumerate(table.columns) if column.justify == "right")
    return Table(_plain(table.title or ""), tuple(tuple(group) for group in groups if group), heads, right)


def rich_table(table: Table) -> rich.table.Table:
    """Return the rows for the terminal, without the title."""
    from rich.box import SIMPLE
    from rich.table import Table as RichTable
    from rich.text import Text

    found = RichTable(show_header=bool(table.heads), box=SIMPLE)
    for k in range(max((len(row) for group in table.groups for row in group), default=0)):
        found.add_column(table.heads[k] if table.heads else "", justify="right" if k in table.right else "left")
    for group in table.groups:
        for row in group:
            found.add_row(*(Text(printable(cell)) for cell in row))
        found.add_section()
    return found


def markdown(table: Table) -> str:
    """Return ``table`` as Markdown; its title is a line in bold."""
    count = max((len(row) for group in table.groups for row in group), default=0)
    heads = table.heads or ("",) * count
    ends = ("---:" if k in table.right else "---" for k in range(count))
    rows = [heads, tuple(ends), *(row for group in table.groups for row in group)]
    lines = [f"| {' | '.join(map(_in_markdown, row))} |" for row in rows]
    return "\n".join([f"**{_in_markdown(table.title)}**", "", *lines] if table.title else lines)


def _in_markdown(cell: str) -> str:
    """Return a text that is no markup there, on one line."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", printable(" ".join(cell.split())))


def _plain(cell: object) -> str:
    from rich.text import Text

    return cell.plain if isinstance(cell, Text) else str(cell)


def table_html(table: Table) -> str:
    """Return ``table`` as an HTML table: the first cell of a row is its head."""
    heads = "".join(
        f"<th scope='col'{_aligned(k in table.right)}>{in_html(head)}</th>" for k, head in enumerate(table.heads)
    )
    bodies = "".join(f"<tbody>{''.join(_row(row, table.right) for row in group)}</tbody>" for group in table.groups)
    caption = f"<caption>{in_html(table.title)}</caption>" if table.title else ""
    return f"<table>{caption}{f'<thead><tr>{heads}</tr></thead>' if heads else ''}{bodies}</table>"


def _row(row: tuple[str, ...], right: frozenset[int]) -> str:
    cells = (f"<td{_aligned(k in right)}>{in_html(cell)}</td>" for k, cell in enumerate(row[1:], 1))
    return f"<tr><th scope='row'>{in_html(row[0])}</th>{''.join(cells)}</tr>"


def _aligned(right: bool) -> str:
    return " class='number'" if right else ""


def in_html(text: str) -> str:
    """Return ``text`` as HTML shows it: no markup, and no control characters."""
    return escape(printable(text))
