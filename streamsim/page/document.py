"""Pages as HTML documents: a body that needs no script, and data from which the viewer draws pictures.

Every name and number is escaped. The page's own policy lets only the viewer in it run, and nothing else load.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from streamsim.page.maps import Map
from streamsim.page.timelines import Shown
from streamsim.report import KINDS, Row, in_html
from streamsim.text import one_line

STYLES = ("style.css",)
PLACE = re.compile("@(policy|title|style|script|body|data)@")
SCRIPTS = ("numbers.js", "timeline.js", "chart.js", "view.js", "told.js", "map.js", "start.js")
POLICY = "default-src 'none'; script-src '{script}'{runs}; style-src '{style}'; base-uri 'none'; form-action 'none'"
WITH_PYTHON = " 'wasm-unsafe-eval'; worker-src blob:"  # Python is WebAssembly, in a worker made of the page's own text
BUTTONS = (("in", "Zoom in"), ("out", "Zoom out"), ("all", "Show all"))
SWITCHES = (("path", "Critical path"), ("names", "Colours by name"))
FIND = "Find an op by its name; Enter goes to the next one"
KEYS = (
    "In a picture that you have clicked: wheel, two fingers, + and -: zoom. Drag or Shift with an arrow: move. Arrows:"
    " from op to op. Enter: to the op that it waited for. l: to its call and back. c: critical path. 0: all. Esc:"
    " nothing selected."
)
READ_LINE = "Arrow keys go from op to op. A table of the ops stands below."
SCALE = (
    "\u2605 <b></b> <span class='ramp'></span> <b></b>. Solid line: within 1 % of the best. Dashed line: within 5 %."
    " A cell without a program of its own is a part of its neighbour at the left or below; an empty one has none."
)
HINT = "Point at an op to read about it. Click it to follow what it waited for."


def document_of(
    title: str, body: Iterable[str], data: dict[str, Any], more: tuple[str, ...] = (), runs: str = ""
) -> str:
    """Return an HTML document with the viewer, which finds its ``data`` in it.

    ``more``: files of the viewer that most pages lack. ``runs``: the sources that the policy allows beside the viewer.
    """
    encoded = msgspec.json.encode({**data, "kinds": KINDS}).decode().replace("<", "\\u003c")  # no "</script>" inside
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


def headline_html(rows: Iterable[Row]) -> str:
    """Return facts as large figures: rows of name, amount, remark."""
    words = [(amount, ": ".join(filter(None, (name, *remark)))) for name, amount, *remark in rows]
    figures = (f"<div><dt>{in_html(figure)}</dt><dd>{in_html(said)}</dd></div>" for figure, said in words)
    return f"<dl class='headline'>{''.join(figures)}</dl>"


def lines_html(lines: Sequence[Shown], changes: Sequence[Shown] = ()) -> str:
    """Return the HTML in which the viewer draws some time lines on one scale.

    ``changes``: others, each of which a button puts in the place of the first.
    """
    heading = "Time line" if len(lines) == 1 else "Time lines, on one scale"
    buttons = "".join(
        f"<button data-line='{k}' aria-pressed='{'false' if k else 'true'}'>{in_html(line.title)}</button>"
        for k, line in ((0, lines[0]), *enumerate(changes, len(lines)))
    )
    choice = f"<div class='tools' role='group' aria-label='Changes'>{buttons}</div>" if changes else ""
    return f"<section class='lines'><h2>{heading}</h2>{choice}{_view(lines)}</section>"


def _view(lines: Sequence[Shown | None]) -> str:
    """Return the HTML around pictures: buttons, legend, a place for each picture and for an op's words, and tables."""
    buttons = [f"<button data-do='{name}'>{words}</button>" for name, words in BUTTONS]
    switches = [f"<button data-do='{name}' aria-pressed=false>{words}</button>" for name, words in SWITCHES]
    find = f"<input type=search placeholder='Find an op' aria-label='{FIND}' title='{FIND}'>"
    return "\n".join(
        (
            f"<div class='tools'>{''.join(buttons + switches)}{find}</div>",
            "<ul class='legend'></ul>",
            *(_picture("" if line is None else line.title) for line in lines),
            f"<div class='told' aria-live='polite' data-hint='{HINT}'><p class='soft'>{HINT}</p></div>",
            f"<p class='keys no-print'>{KEYS}</p>",
            *(_ops("" if line is None else line.name) for line in lines),
        )
    )


def _picture(title: str) -> str:
    title = in_html(title)
    return (
        f"<div class='line'><h3>{title}</h3>"
        f'<div class="picture" tabindex="0" role="group" aria-label="Time line. {title}. {READ_LINE}"'
        f" data-read='{READ_LINE}'><canvas aria-hidden='true'></canvas><div class='tip' hidden></div></div></div>"
    )


def _ops(name: str) -> str:
    return (
        f"<details class='ops no-print'><summary>Table of the ops: {in_html(one_line(name))}</summary>"
        "<p><button>The 100 before</button> <button>The next 100</button></p>"
        "<div class='scroll' tabindex='0'></div></details>"
    )


def map_html(found: Map) -> str:
    """Return the HTML in which the viewer draws a map, and below it the time line of a cell."""
    names = [column.name for column in found.columns]
    axes = (_choice("axis", words, names, axis) for words, axis in zip(("across", "up"), found.axes, strict=True))
    held = (_choice("held", one.name, ("the best of all", *one.texts), 0) for one in found.columns)
    return "\n".join(
        (
            f"<section class='map'><h2>Map of the times</h2><div class='tools'>{''.join((*axes, *held))}</div>",
            f"<p class='scale soft'>{SCALE}</p>",
            "<div class='grid scroll' tabindex='0'></div>",
            "<div class='told' aria-live='polite'></div>",
            f"<div class='cell' hidden>{_view([None])}</div></section>",
        )
    )


def _choice(kind: str, words: str, options: Sequence[str], now: int) -> str:
    """Return the HTML of a list of options, the one at place ``now`` selected."""
    inside = "".join(
        f"<option{' selected' if k == now else ''}>{in_html(one)}</option>" for k, one in enumerate(options)
    )
    name = in_html(words)
    return f"<label>{name} <select data-{kind} aria-label='{name}' autocomplete='off'>{inside}</select></label>"
