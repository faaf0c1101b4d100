"""Tables of results: one value, shown in the terminal, on a page, in a notebook and in Markdown with the same words."""

import re
from collections.abc import Iterable
from html import escape

import msgspec
import rich.table
from rich.box import SIMPLE
from rich.table import Table as RichTable
from rich.text import Text

from streamsim.text import format_seconds, one_line, printable

LONGEST_CELL = 120  # characters of a text from a file
Row = tuple[str, ...]
Fact = tuple[str, str | float, str]  # an amount that is a number: seconds


class Table(msgspec.Struct, frozen=True):
    """Rows of texts in groups. ``heads``: names of the columns, or none. ``right``: columns of numbers.

    In a terminal the columns ``whole`` are not broken into lines, ``widths`` are the relative widths of columns (0: as
    wide as its cells), and ``colours`` those of cells that are one of its words.
    """

    title: str
    groups: tuple[tuple[Row, ...], ...]
    heads: Row = ()
    right: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()
    widths: tuple[int, ...] = ()
    colours: dict[str, str] = {}

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
                found.add_row(*map(self._in_terminal, row))
            found.add_section()
        return found

    @property
    def _columns(self) -> int:
        return len(self.heads) or max((len(row) for group in self.groups for row in group), default=0)

    def _in_terminal(self, cell: str) -> Text:
        return Text(printable(cell), self.colours.get(cell, ""))

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
