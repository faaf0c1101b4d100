"""Tables and lines for people, on stdout or another stream: the one place where text is made safe to show.

Names in files are other people's text. Every control character in them is escaped here, and ``[...]`` in them is no
markup. So commands print tables and styled lines with a :class:`Terminal`, which
:func:`streamsim.cli.consoles.open_console` chooses, and plain lines with :func:`streamsim.cli.printing.tell`.
"""

from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from streamsim.text import printable

USUAL_COLUMNS, LEAST_COLUMNS = 80, 20  # a narrower terminal is one whose width is not known, such as COLUMNS=0


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
