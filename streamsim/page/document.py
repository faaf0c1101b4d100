"""One page as an HTML document: words and tables that need no script, and data from which the viewer draws pictures.

Every name and number is escaped. The page's own policy lets only the viewer in it run, and nothing else load.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from streamsim.errors import InputError
from streamsim.files import write_bytes
from streamsim.page.losses import Losses, losses_html
from streamsim.page.maps import Map, map_data
from streamsim.page.timelines import Shown, line_data
from streamsim.report import Table, in_html
from streamsim.text import format_seconds, one_line

STYLES = ("style.css",)
PLACE = re.compile("@(policy|title|style|script|body|data)@")
SCRIPTS = ("numbers.js", "timeline.js", "chart.js", "view.js", "told.js", "map.js", "start.js")
MOST_OPS = 1_000_000  # of all time lines: tens of megabytes, and seconds to draw
POLICY = "default-src 'none'; script-src '{script}'{runs}; style-src '{style}'; base-uri 'none'; form-action 'none'"
WITH_PYTHON = " 'wasm-unsafe-eval'; worker-src blob:"  # Python is WebAssembly, in a worker made of the page's own text
BUTTONS = (("in", "Zoom in"), ("out", "Zoom out"), ("all", "Show all"), ("path", "Critical path"))
KEYS = (
    "Wheel or + and -: zoom. Drag or Shift with an arrow: move. Arrows: from op to op. Enter: to the op that it"
    " waited for. c: critical path. 0: all. Esc: nothing selected."
)
READ_LINE = "Arrow keys go from op to op. A table of the ops stands below."
READ_MAP = "Map of the times. Arrow keys go from cell to cell. A table of the cells stands below."
HINT = "Point at an op to read about it. Click it to follow what it waited for."


class Page(msgspec.Struct, frozen=True):
    """The contents of a page, from top to bottom.

    - ``headline``: figures, each with a few words. ``advice``: a sentence below them.
    - ``lines``: time lines on one scale. ``notes``: the assumptions.
    - ``command``: the command that made the page; empty if no command did.
    """

    title: str
    headline: tuple[tuple[str, str], ...] = ()
    advice: str = ""
    losses: Losses | None = None
    map: Map | None = None
    lines: tuple[Shown, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    command: str = ""

    def html(self) -> str:
        """Return the page as one HTML document."""
        _check_size(self)
        of_map = () if self.map is None else tuple(self.map.lines.values())
        data: dict[str, Any] = {"lines": [line_data(line) for line in self.lines + of_map], "map": None}
        if self.map is not None:
            data["map"] = map_data(self.map, len(self.lines))
        body = [
            *_head(self),
            "" if self.losses is None else losses_html(self.losses),
            "" if self.map is None else _map(),
            lines_html(self.lines) if self.lines else "",
            *(f"<section class='scroll'>{table.html()}</section>" for table in self.tables),
            *_foot(self),
        ]
        return document_of(self.title, body, data)


def _check_size(page: Page) -> None:
    """Raise InputError for more ops than a browser can show."""
    ops = sum(len(line.timeline) for line in page.lines)
    if ops > MOST_OPS:
        raise InputError(f"--page: {ops:,} ops are more than the {MOST_OPS:,} that a page shows; use fewer chunks")


def write_page(page: Page, path: str | os.PathLike[str]) -> None:
    """Write ``page`` as one file for a browser. Raises InputError if it cannot be written."""
    write_bytes(page.html().encode(errors="backslashreplace"), path)  # escapes the halves of characters


def document_of(
    title: str, body: Iterable[str], data: dict[str, Any], more: tuple[str, ...] = (), runs: str = ""
) -> str:
    """Return an HTML document with the viewer, which finds its ``data`` in it.

    ``more``: files of the viewer that most pages lack. ``runs``: the sources that the policy allows beside the viewer.
    """
    encoded = msgspec.json.encode(data).decode().replace("<", "\\u003c")  # no "</script>" inside
    inside = "\n".join(filter(None, body))
    return _with(_viewer(more, runs), title=in_html(one_line(title)), body=f"<main>\n{inside}\n</main>", data=encoded)


@cache
def _viewer(more: tuple[str, ...], runs: str) -> str:
    """Return a page without contents: its style, its script, and the policy that lets only these two run."""
    style, script = map(viewer_text, (STYLES, SCRIPTS + more))
    policy = POLICY.format(script=_digest(script), style=_digest(style), runs=runs)
    return _with(viewer_text(("page.html",)), policy=policy, style=style, script=script)


def viewer_text(names: Iterable[str]) -> str:
    """Return some files of the viewer, one after the other."""
    folder = files("streamsim.page").joinpath("viewer")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _with(template: str, **parts: str) -> str:
    """Return ``template`` with each ``@name@`` replaced by its part. A ``@name@`` inside a part stays."""
    return PLACE.sub(lambda match: parts.get(match[1], match[0]), template)


def _digest(content: str) -> str:
    """Return the digest by which a content security policy names the content of an element."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _head(page: Page) -> list[str]:
    return [
        f"<header><h1>{in_html(one_line(page.title))}</h1></header>",
        headline_html(page.headline) if page.headline else "",
        f"<p>{in_html(page.advice)}</p>" if page.advice else "",
        "<noscript><p>The pictures need JavaScript. Every number stands in the tables below.</p></noscript>",
    ]


def headline_html(headline: Iterable[tuple[str, str]]) -> str:
    """Return figures, each with a few words."""
    figures = (f"<div><dt>{in_html(figure)}</dt><dd>{in_html(words)}</dd></div>" for figure, words in headline)
    return f"<dl class='headline'>{''.join(figures)}</dl>"


def _foot(page: Page) -> list[str]:
    found = [f"<p>{in_html(note)}</p>" for note in page.notes]
    if page.command:
        found += ["<p class='soft'>The command that made this page:</p>", f"<pre>{in_html(page.command)}</pre>"]
    return ["<section><h2>Assumed, and how the page was made</h2>", *found, "</section>"] if found else []


def lines_html(lines: tuple[Shown, ...]) -> str:
    """Return the HTML in which the viewer draws some time lines on one scale."""
    numbers = " ".join(map(str, range(len(lines))))
    heading = "Time line" if len(lines) == 1 else "Time lines, on one scale"
    places = [(line.name, format_seconds(line.timeline.makespan_s, line.timeline.known_within)) for line in lines]
    return f"<section class='lines' data-lines='{numbers}'><h2>{heading}</h2>{_view(places)}</section>"


def _view(places: Sequence[tuple[str, str]]) -> str:
    """Return the HTML around pictures: buttons, legend, a place for each picture and for an op's words, and tables."""
    buttons = "".join(
        f"<button data-do='{name}'{' aria-pressed=false' if name == 'path' else ''}>{words}</button>"
        for name, words in BUTTONS
    )
    return "\n".join(
        (
            f"<div class='tools'>{buttons}</div>",
            "<ul class='legend'></ul>",
            *(_picture(*place) for place in places),
            f"<div class='told' aria-live='polite' data-hint='{HINT}'><p class='soft'>{HINT}</p></div>",
            f"<p class='keys no-print'>{KEYS}</p>",
            *(_ops(name) for name, _ in places),
        )
    )


def _picture(name: str, took: str) -> str:
    title = in_html(one_line(f"{name}: {took}"))
    return f"<div class='line'><h3>{title}</h3>{_canvas(f'Time line. {title}. {READ_LINE}', READ_LINE)}</div>"


def _canvas(label: str, read: str = "") -> str:
    """Return the HTML of a picture. ``read``: the end of its ``label``, which the viewer keeps for other pictures."""
    return (
        f'<div class="picture" tabindex="0" role="group" aria-label="{label}" data-read="{read}">'
        "<canvas aria-hidden='true'></canvas><div class='tip' hidden></div></div>"
    )


def _ops(name: str) -> str:
    return (
        f"<details class='ops no-print'><summary>Table of the ops: {in_html(one_line(name))}</summary>"
        "<p><button>The 100 before</button> <button>The next 100</button></p><div class='scroll'></div></details>"
    )


def _map() -> str:
    """Return the HTML in which the viewer draws a map, and below it the time line of a cell."""
    return "\n".join(
        (
            "<section class='map'><h2>Map of the times</h2>",
            "<div class='tools'></div>",
            _canvas(READ_MAP),
            "<p class='scale soft'></p>",
            "<details class='cells no-print'><summary>Table of the cells</summary><div class='scroll'></div></details>",
            "<div class='told' aria-live='polite'><p class='soft'>Click a cell to read about it.</p></div>",
            f"<div class='cell' hidden>{_view([('', '')])}</div></section>",
        )
    )
