"""Values that show themselves: as the command line's answer, in a notebook, as a page for a browser, and as JSON."""

from __future__ import annotations

import os
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar

from msgspec import to_builtins


class Displayed:
    """A value that ``print`` shows as a table, and a notebook as a table with its picture."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Return the answer of the command line, as text."""
        return str(_room().text_of(_room().answer_of(self)))

    def page(self, path: str | os.PathLike[str]) -> None:
        """Write a page with all of it, one HTML file for a browser. Raises InputError when it cannot be written."""
        _room().write_page(_room().answer_of(self), path)

    def _repr_html_(self) -> str:
        return str(_room().notebook_of(_room().answer_of(self)))


class Result(Displayed):
    """A value that is an object in JSON, too. ``schema_version`` is raised where a key changes its meaning."""

    __slots__ = ()
    schema_version: ClassVar[int] = 1

    @property
    def known_within(self) -> float:
        """The relative error of the times if the profile's latencies are assumed: 0.10 is 10 %; else 0."""
        raise NotImplementedError

    def to_json(self, inputs: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return plain numbers and strings; units are in the names. ``inputs``: what was asked."""
        said = {"schema_version": self.schema_version, **self._json(), "known_within": self.known_within or None}
        plain: dict[str, Any] = to_builtins(said if inputs is None else {**said, "inputs": inputs})
        return plain

    def _json(self) -> dict[str, Any]:
        """Return what the object holds; values of any kind become plain."""
        raise NotImplementedError


def attributes(value: Any, *names: str) -> dict[str, Any]:
    """Return attributes of ``value`` by their names, in the order of ``names``."""
    return {name: attrgetter(name)(value) for name in names}


def _room() -> Any:
    """Return the room of answers, which is above all rooms of values: found by its name when somebody looks."""
    return import_module("streamsim.answer")
