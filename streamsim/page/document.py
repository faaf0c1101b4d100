"""Pages as HTML documents: a body that needs no script, and data from which the viewer draws pictures.

Every name and number is escaped. The page's own policy lets only the viewer in it run, and nothing else load.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from streamsim.errors import one_line
from streamsim.page.maps import Map
from streamsim.page.timelines import Shown
from streamsim.report import KINDS, Losses, Row, in_html
from streamsim.text import format_seconds, format_share

STYLES = ("style.css",)
PLACE = re.compile(r"@(\w+)@")
SCRIPTS = ("numbers.js", "timeline.js", "chart.js", "view.js", "told.js", "map.js", "start.js")
POLICY = "default-src 'none'; script-src '{script}'{runs}; style-src '{style}'; base-uri 'none'; form-action 'none'"
WITH_PYTHON = " 'wasm-unsafe-eval'; worker-src blob:"  # Python is WebAssembly, in a worker made of the page's own text
LEAST_NUMBERED = 0.025  # the least share of the bar that has room for a number
LOSSES_HEAD = (
    "<section><h2>Where the time goes</h2><p class='soft'>Amounts, not moments: a cause may lose its time in many"
    " places. Open one for its remedy.</p>"
)


def document_of(
    title: str, body: Iterable[str], data: dict[str, Any], more: tuple[str, ...] = (), runs: str = ""
) -> str:
    """Return an HTML document with the viewer, which finds its ``data`` in it.

    ``more``: files of the viewer that most pages lack. ``runs``: the sources that the policy allows beside the viewer.
    """
    encoded = msgspec.json.encode({**data, "kinds": KINDS}).decode().replace("<", "\\u003c")  # no "</script>" inside
    inside = "\n".join(filter(None, body))
    return filled(_viewer(more, runs), title=in_html(one_line(title)), body=f"<main>\n{inside}\n</main>", data=encoded)


@cache
def _viewer(more: tuple[str, ...], runs: str) -> str:
    """Return a page without contents: its style, its script, and the policy that lets only these two run."""
    style, script = map(viewer_text, (STYLES, SCRIPTS + more))
    policy = POLICY.format(script=_digest(script), style=_digest(style), runs=runs)
    return filled(viewer_text(("page.html",)), policy=policy, style=style, script=script)


def viewer_text(names: Iterable[str]) -> str:
    """Return some files of the viewer, one after the other."""
    folder = files("streamsim.page").joinpath("viewer")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def filled(template: str, **parts: str) -> str:
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


def losses_html(losses: Losses) -> str:
    """Return the bar and the causes as HTML."""
    bars, items, words, at = "", "", [], 0.0
    for number, part in enumerate(losses.parts):
        seconds, share = format_seconds(part.seconds, losses.within), part.seconds / (losses.whole_s or 1.0)
        title, fill = in_html(part.title), f'fill="{part.colour}"'
        words.append(f"{title}: {seconds}")
        bars += f'<g><title>{words[-1]}</title><rect x="{at:.3%}" width="{share:.3%}" height="100%" {fill}/>'
        if number and share > LEAST_NUMBERED:
            bars += f'<text x="{at + share / 2:.3%}" y="22" text-anchor="middle" fill="#000">{number}</text>'
        bars += "</g>"
        swatch = f'<svg viewBox="0 0 14 12" aria-hidden="true"><rect width="14" height="12" {fill}/></svg>'
        name = f"{swatch}{f'{number} ' if number else ''}{title}: <b>{seconds}</b>"
        said = f"{name}, {format_share(share, losses.within)}"
        items += f"<details><summary>{said}</summary><p>{in_html(part.remedy)}</p></details>"
        at += share
    return f'{LOSSES_HEAD}<svg class="losses" role="img" aria-label="{"; ".join(words)}">{bars}</svg>{items}</section>'


def lines_html(lines: Sequence[Shown], changes: Sequence[Shown] = ()) -> str:
    """Return the HTML in which the viewer draws some time lines on one scale.

    ``changes``: others, each of which a button puts in the place of the first.
    """
    heading = "Time line" if len(lines) == 1 else "Time lines, on one scale"
    titles = {k: line.title for k, line in ((0, lines[0]), *enumerate(changes, len(lines)))}
    choice = buttons_html("line", titles, "Changes") if changes else ""
    return f"<section class='lines'><h2>{heading}</h2>{choice}{_view(len(lines))}</section>"


def _view(count: int) -> str:
    """Return the HTML around so many pictures: buttons, legend, a place for an op's words, and tables of the ops."""
    view, picture, table = (viewer_text((f"{name}.html",)) for name in ("view", "picture", "table"))
    return filled(view, pictures=picture * count, tables=table * count)


def buttons_html(kind: str, words: Mapping[int, str], label: str) -> str:
    """Return a group of buttons, by their numbers, of which one is pressed: the first one, number 0."""
    inside = "".join(
        f"<button data-{kind}='{k}' aria-pressed='{'false' if k else 'true'}'>{in_html(said)}</button>"
        for k, said in words.items()
    )
    return f"<div class='tools' role='group' aria-label='{label}'>{inside}</div>"


def map_html(found: Map) -> str:
    """Return the HTML in which the viewer draws a map, and below it the time line of a cell."""
    names = [column.name for column in found.columns]
    axes = (
        choice_html("data-axis", words, names, names[k]) for words, k in zip(("across", "up"), found.axes, strict=True)
    )
    held = (choice_html("data-held", one.name, ("", *one.texts), "", "the best of all") for one in found.columns)
    return filled(viewer_text(("map.html",)), choices="".join((*axes, *held)), view=_view(1))


def choice_html(attribute: str, words: str, options: Iterable[str], now: str, empty: str = "") -> str:
    """Return the HTML of a list of options, of which ``now`` is selected. ``empty``: what an empty option says."""
    inside = "".join(
        f"<option value='{in_html(one)}'{' selected' if one == now else ''}>{in_html(one or empty)}</option>"
        for one in options
    )
    name = in_html(words)
    return f"<label>{name} <select {attribute} aria-label='{name}' autocomplete='off'>{inside}</select></label>"
