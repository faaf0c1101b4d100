"""Values that show themselves: as the command line's table, in a notebook, and as a page for a browser."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os


class Displayed:
    """A value that ``print`` shows as a table, and a notebook as a table with its picture."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Return the table of the command line, as text."""
        text: str = _room().text_of(self)
        return text

    def page(self, path: str | os.PathLike[str]) -> None:
        """Write a page with all of it, one HTML file for a browser. Raises InputError when it cannot be written."""
        _room().write(self, path)

    def _repr_html_(self) -> str:
        html: str = _room().html_of(self)
        return html


def _room() -> Any:
    """Return the room of pages, which is above all rooms of values: found by its name when somebody looks."""
    return import_module("streamsim.page.displays")
