"""The document that every command and value answers with, and its renderers, which know no command.

In a terminal, a file or a pipe, names in files are other people's text: every control character in them is escaped, and
``[...]`` in them is no markup. In a browser, words and tables need no script; pictures are drawn by one.
"""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, TextIO

import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from streamsim import page
from streamsim.errors import InputError, one_line, printable
from streamsim.files import write_bytes
from streamsim.report import Losses, Table, gantt, in_html, in_markdown
from streamsim.timeline import Timeline

USUAL_COLUMNS, LEAST_COLUMNS = 80, 20  # a narrower terminal is one whose width is not known, such as COLUMNS=0
WIDEST = 1000  # columns of a table that nothing cuts
SKETCH_COLUMNS = 100  # where no terminal says how many there are
LEGEND = "The stream served most; ':' busy for less than half of the column, '.' idle."
MOST_OPS = 1_000_000  # of all time lines: tens of megabytes, and seconds to draw
NO_SCRIPT = "<noscript><p>The pictures need JavaScript. Every number stands in the tables below.</p></noscript>"


class Pictures(msgspec.Struct, frozen=True):
    """What a browser draws: the losses by cause, a map of many configurations, time lines on one scale.

    ``changes``: time lines of other changes, one of which may take the place of the first line.
    """

    losses: Losses | None = None
    map: page.Map | None = None
    lines: tuple[page.Shown, ...] = ()
    changes: tuple[page.Shown, ...] = ()

    @classmethod
    def of(cls, timelines: Mapping[str, Timeline]) -> "Pictures":
        """Return the pictures of time lines by their names."""
        return cls(lines=tuple(page.Shown(name, timeline) for name, timeline in timelines.items()))


class Answer(msgspec.Struct, frozen=True):
    """The contents of an answer, from top to bottom.

    - ``title``: the work and the device. ``verdict``: the answer in sentences, each with its condition.
    - ``warnings``: sentences that say why the answer may be wrong.
    - ``facts``: rows of name, amount, remark. Their first group is the headline.
    - ``sketch``: the time line that a terminal draws in letters.
    - ``tables``, with sentences and time lines between them; ``notes``: what is assumed.
    - ``more``: tables and sentences that a terminal shows only with ``--all``.
    - ``pictures``: makes what a browser draws, when it is asked for.
    - ``data``: the same for programs, as plain numbers and strings; ``rows``: rows of CSV, where rows
      are the answer.
    - ``command``: the command that was called; empty if no command was.
    """

    title: str
    verdict: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: Table = Table("", ())
    sketch: Timeline | None = None
    tables: tuple[str | Table | Timeline, ...] = ()
    notes: tuple[str, ...] = ()
    more: tuple[str | Table, ...] = ()
    pictures: Callable[[], Pictures] = Pictures
    data: dict[str, Any] = {}
    rows: Sequence[dict[str, Any]] = ()
    command: str = ""

    def parts(self, everything: bool = False) -> Iterator[str | Table | Timeline]:
        """Yield what is below the title, in the order in which it is read. ``everything``: with ``more``."""
        yield from (*self.verdict, *self.warnings)
        yield from ([self.facts] if self.facts.groups else [])
        yield from ([] if self.sketch is None else [self.sketch])
        yield from (*self.tables, *self.notes, *(self.more if everything else ()))


# In a terminal


class Terminal(Console):
    """A console that shows each text as it is, without its control characters: a text is one line.

    Rich asks for every string, in a table too, what it looks like. A ``rich.text.Text`` it takes without asking, so a
    ``Text`` holds words of our own.
    """

    def __init__(self, file: TextIO | None = None, **how: Any) -> None:
        super().__init__(file=file, highlight=False, markup=False, emoji=False, **how)
        if self.width < LEAST_COLUMNS:
            self.width = USUAL_COLUMNS

    def render_str(self, text: str, **how: Any) -> Text:
        """Return ``text`` as it may be shown."""
        return super().render_str(printable(text), **how)


class Piped(Terminal):
    """A console whose lines have no blanks at their ends."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as rich does."""
        with self.capture() as captured:
            super().print(*objects, **how)
        self.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def open_console() -> Terminal:
    """Return where answers go, as wide as the terminal.

    Into a file or pipe lines go whole, or as wide as COLUMNS says, without blanks at their ends.
    """
    if not sys.stdout.isatty():
        return Piped(width=None if "COLUMNS" in os.environ else WIDEST)
    return Terminal()


def show(answer: Answer, console: Console, everything: bool = False) -> None:
    """Print ``answer``. ``everything``: with what stands behind ``--all``."""
    console.print(Text(printable(answer.title), "bold"), soft_wrap=True)
    for part in answer.parts(everything):
        if isinstance(part, Timeline):
            columns = console.width if console.is_terminal else min(console.width, SKETCH_COLUMNS)
            console.print(Text(gantt(part, columns)))  # names of engines are our own
            console.print(LEGEND, style="dim")
        else:
            console.print(part, soft_wrap=isinstance(part, str))


def text_of(answer: Answer, width: int = 120) -> str:
    """Return ``answer`` as a terminal of this width shows it, without the sketch."""
    out = io.StringIO()
    show(replace(answer, sketch=None), Piped(out, width=width, color_system=None))
    return out.getvalue().strip("\n")


# As Markdown: tables are tables, a sentence is a paragraph, a time line in letters is code


def markdown_of(answer: Answer, everything: bool = False) -> str:
    """Return ``answer`` as Markdown. ``everything``: with what stands behind ``--all``."""
    return "\n\n".join((f"**{in_markdown(answer.title)}**", *map(_written, answer.parts(everything)), ""))


def _written(part: str | Table | Timeline) -> str:
    if isinstance(part, Table):
        return part.markdown()
    return f"```text\n{gantt(part)}\n```" if isinstance(part, Timeline) else in_markdown(part)


# In a browser


def write_page(answer: Answer, path: str | os.PathLike[str]) -> None:
    """Write ``answer`` as one file for a browser. Raises InputError if it cannot be written."""
    write_bytes(page_of(answer).encode(errors="backslashreplace"), path)  # escapes the halves of characters


def page_of(answer: Answer) -> str:
    """Return ``answer`` as one HTML document. Raises InputError for more ops than a browser can show."""
    pictures, facts = answer.pictures(), answer.facts.groups
    rest = (replace(answer.facts, groups=facts[1:]),) if facts[1:] else ()
    made_by = ("<p class='soft'>The command that made this page:</p>", f"<pre>{in_html(answer.command)}</pre>")
    body = [
        f"<header><h1>{in_html(one_line(answer.title))}</h1></header>",
        page.headline_html(facts[0]) if facts else "",
        *map(_part, (*answer.verdict, *answer.warnings)),
        NO_SCRIPT,
        *_drawn(pictures),
        *map(_part, (*rest, *answer.tables)),
        *_section("Assumed, and how the page was made", map(_part, answer.notes), made_by if answer.command else ()),
        *_section("More", map(_part, answer.more)),
    ]
    return page.document_of(answer.title, body, _data(pictures))


def notebook_of(answer: Answer) -> str:
    """Return ``answer`` for a notebook: its words and tables, and below them the pictures in a frame of their own."""
    words = "".join(map(_part, (answer.title, *answer.parts(everything=True))))
    pictures = answer.pictures()
    if pictures == Pictures():
        return words
    inside = escape(page.document_of(answer.title, _drawn(pictures), _data(pictures)))
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
        "" if pictures.losses is None else page.losses_html(pictures.losses),
        "" if pictures.map is None else page.map_html(pictures.map),
        page.lines_html(pictures.lines, pictures.changes) if pictures.lines else "",
    ]


def _data(pictures: Pictures) -> dict[str, Any]:
    """Return what the viewer draws. Raises InputError for more ops than it can."""
    lines = pictures.lines + pictures.changes
    ops = sum(len(line.timeline) for line in lines)
    if ops > MOST_OPS:
        raise InputError(f"--page: {ops:,} ops are more than the {MOST_OPS:,} that a page shows; use fewer chunks")
    of_map = () if pictures.map is None else tuple(pictures.map.lines.values())
    return {
        "lines": [page.line_data(line) for line in lines + of_map],
        "map": None if pictures.map is None else page.map_data(pictures.map, len(lines)),
    }
