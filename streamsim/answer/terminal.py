"""Answers in a terminal, a file or a pipe: the one place where text is made safe to show.

Names in files are other people's text. Every control character in them is escaped here, and ``[...]`` in them is no
markup.
"""

import io
import os
import sys
from typing import Any, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from streamsim.answer.document import Answer
from streamsim.report import gantt
from streamsim.text import printable
from streamsim.timeline import Timeline

USUAL_COLUMNS, LEAST_COLUMNS = 80, 20  # a narrower terminal is one whose width is not known, such as COLUMNS=0
WIDEST = 1000  # columns of a table that nothing cuts
SKETCH_COLUMNS = 100  # where no terminal says how many there are
LEGEND = "The stream served most; ':' busy for less than half of the column, '.' idle."


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
            _sketch(part, console)
        else:
            console.print(part, soft_wrap=isinstance(part, str))


def _sketch(timeline: Timeline, console: Console) -> None:
    """Draw a time line in letters."""
    columns = console.width if console.is_terminal else min(console.width, SKETCH_COLUMNS)
    console.print(Text(gantt(timeline, columns)))  # names of engines are our own
    console.print(LEGEND, style="dim")


def text_of(answer: Answer, width: int = 120) -> str:
    """Return ``answer`` as a terminal of this width shows it, without the sketch."""
    out = io.StringIO()
    show(msgspec.structs.replace(answer, sketch=None), Piped(out, width=width, color_system=None))
    return out.getvalue().strip("\n")
