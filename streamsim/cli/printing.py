"""JSON, CSV and files on standard output."""

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from streamsim.text.shown import as_unicode

if TYPE_CHECKING:
    from rich.console import Console

MARKDOWN = "streamsim.markdown"  # whether tables are Markdown, among what a click context knows
WIDEST = 1000  # columns of a table that nothing cuts


def print_json(value: dict[str, Any]) -> None:
    """One object; numbers that JSON lacks are an error. File names are text, whatever the locale."""
    print(json.dumps(_as_unicode(value), indent=2, allow_nan=False))


def _as_unicode(value: Any) -> Any:
    if isinstance(value, str):
        return as_unicode(value)
    if isinstance(value, dict):
        return {_as_unicode(name): _as_unicode(item) for name, item in value.items()}
    return list(map(_as_unicode, value)) if isinstance(value, list | tuple) else value


def with_assumed(value: dict[str, Any], assumed: Sequence[str]) -> dict[str, Any]:
    """The same with what is assumed, if there is such."""
    return {**value, "assumed": assumed} if assumed else value


def open_console() -> "Console":
    """Return where tables go, as wide as the terminal.

    Into a file or pipe lines go whole, or as wide as COLUMNS says, without blanks at their ends; with
    ``--format markdown`` as Markdown.
    """
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(MARKDOWN):
        from streamsim.cli.consoles import Markdown

        return Markdown(highlight=False, width=WIDEST, color_system=None)
    if not sys.stdout.isatty():
        from streamsim.cli.consoles import Piped

        return Piped(highlight=False, width=None if "COLUMNS" in os.environ else WIDEST)
    from rich.console import Console

    return Console(highlight=False)


def print_data(data: bytes) -> None:
    """What belongs into a file: in UTF-8, whatever the terminal can show."""
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    else:  # text kept in memory
        sys.stdout.write(data.decode())


def print_csv(rows: list[dict[str, Any]]) -> None:
    """One line for each row, under a line of names."""
    from streamsim.report.text import to_csv

    sys.stdout.write(to_csv(rows))
