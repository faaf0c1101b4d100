"""Answers for a browser: as a page, and in a notebook. Words and tables need no script; pictures are drawn by one."""

import os
from collections.abc import Iterable
from html import escape
from typing import Any

from msgspec.structs import replace

from streamsim.answer.document import Answer, Pictures
from streamsim.errors import InputError
from streamsim.files import write_bytes
from streamsim.page import document_of, headline_html, line_data, lines_html, losses_html, map_data, map_html
from streamsim.report import Table, in_html
from streamsim.text import one_line

MOST_OPS = 1_000_000  # of all time lines: tens of megabytes, and seconds to draw
NO_SCRIPT = "<noscript><p>The pictures need JavaScript. Every number stands in the tables below.</p></noscript>"


def write_page(answer: Answer, path: str | os.PathLike[str]) -> None:
    """Write ``answer`` as one file for a browser. Raises InputError if it cannot be written."""
    write_bytes(page_of(answer).encode(errors="backslashreplace"), path)  # escapes the halves of characters


def page_of(answer: Answer) -> str:
    """Return ``answer`` as one HTML document. Raises InputError for more ops than a browser can show."""
    pictures, facts = answer.pictures(), () if answer.facts is None else answer.facts.groups
    rest = () if answer.facts is None or not facts[1:] else (replace(answer.facts, groups=facts[1:]),)
    made_by = ("<p class='soft'>The command that made this page:</p>", f"<pre>{in_html(answer.command)}</pre>")
    body = [
        f"<header><h1>{in_html(one_line(answer.title))}</h1></header>",
        headline_html(facts[0]) if facts else "",
        *map(_part, (*answer.verdict, *answer.warnings)),
        NO_SCRIPT,
        *_drawn(pictures),
        *map(_part, (*rest, *answer.tables)),
        *_section("Assumed, and how the page was made", map(_part, answer.notes), made_by if answer.command else ()),
        *_section("More", map(_part, answer.more)),
    ]
    return document_of(answer.title, body, _data(pictures))


def notebook_of(answer: Answer) -> str:
    """Return ``answer`` for a notebook: its words and tables, and below them the pictures in a frame of their own."""
    words = "".join(map(_part, (answer.title, *answer.parts(everything=True))))
    pictures = answer.pictures()
    if pictures == Pictures():
        return words
    inside = escape(document_of(answer.title, _drawn(pictures), _data(pictures)))
    frame = 'sandbox="allow-scripts" width="100%" style="border:0;height:80vh"'
    return f'{words}<iframe title="{in_html(answer.title)}" {frame} srcdoc="{inside}"></iframe>'


def _part(part: Any) -> str:
    """Return a table or a sentence as HTML; nothing for what is drawn."""
    if isinstance(part, Table):
        return f"<section class='scroll' tabindex='0'>{part.html()}</section>"
    return f"<p>{in_html(part)}</p>" if isinstance(part, str) else ""


def _section(title: str, *parts: Iterable[str]) -> list[str]:
    inside = [part for some in parts for part in some]
    return [f"<section><h2>{title}</h2>", *inside, "</section>"] if inside else []


def _drawn(pictures: Pictures) -> list[str]:
    return [
        "" if pictures.losses is None else losses_html(pictures.losses),
        "" if pictures.map is None else map_html(pictures.map),
        lines_html(pictures.lines, pictures.changes) if pictures.lines else "",
    ]


def _data(pictures: Pictures) -> dict[str, Any]:
    """Return what the viewer draws. Raises InputError for more ops than it can."""
    lines = pictures.lines + pictures.changes
    ops = sum(len(line.timeline) for line in lines)
    if ops > MOST_OPS:
        raise InputError(f"--page: {ops:,} ops are more than the {MOST_OPS:,} that a page shows; use fewer chunks")
    of_map = () if pictures.map is None else tuple(pictures.map.lines.values())
    return {
        "lines": [line_data(line) for line in lines + of_map],
        "map": None if pictures.map is None else map_data(pictures.map, len(lines)),
    }
