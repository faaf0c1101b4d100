"""Where tables go that are no terminal's: whole lines into files and pipes, and tables of Markdown."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from streamsim.page.tables import markdown, table_of

FENCE = "```"


class Piped(Console):
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
        if isinstance(thing, RichTable):
            return markdown(table_of(thing))
        text = self._trimmed(thing, **how).strip("\n")
        return f"{FENCE}text\n{text}\n{FENCE}" if "\n" in text else text.strip()
