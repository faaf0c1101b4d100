"""Where tables go: a terminal, whole lines into files and pipes, or tables of Markdown."""

import os
import sys
from typing import Any

import click

from streamsim.cli.printing import MARKDOWN
from streamsim.cli.terminal import Terminal
from streamsim.report import Table

FENCE = "```"
WIDEST = 1000  # columns of a table that nothing cuts


def open_console() -> Terminal:
    """Return where tables go, as wide as the terminal.

    Into a file or pipe lines go whole, or as wide as COLUMNS says, without blanks at their ends; with
    ``--format markdown`` as Markdown.
    """
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(MARKDOWN):
        return Markdown(width=WIDEST, color_system=None)
    if not sys.stdout.isatty():
        return Piped(width=None if "COLUMNS" in os.environ else WIDEST)
    return Terminal()


class Piped(Terminal):
    """A console whose lines have no blanks at their ends."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as rich does."""
        self.file.write(self._trimmed(*objects, **how))

    def _trimmed(self, *objects: Any, **how: Any) -> str:
        with self.capture() as captured:
            super().print(*objects, **how)
        return "\n".join(line.rstrip() for line in captured.get().split("\n"))


class Markdown(Piped):
    """A console that writes tables as Markdown does, sentences as paragraphs, and pictures in letters as code."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print one thing, and an empty line behind it."""
        for thing in objects:
            self.file.write(f"{self._written(thing, **how)}\n\n")

    def _written(self, thing: Any, **how: Any) -> str:
        if isinstance(thing, Table):
            return thing.markdown()
        text = self._trimmed(thing, **how).strip("\n")
        return f"{FENCE}text\n{text}\n{FENCE}" if "\n" in text else text.strip()
