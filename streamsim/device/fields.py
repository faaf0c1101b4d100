"""What is declared of a field beside it: its limits, what it is tied to, and what it is without each of its effects.

Whatever checks a profile or changes it asks these declarations and names no field: a new field is one line of its
table. The unit of a number is the ending of its name: ``_bytes_per_s``, ``_bytes`` or ``_s``; a count has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from streamsim.checks import LARGEST_BYTES, LONGEST_S, check_choice, check_is, check_number, check_tuple, check_whole
from streamsim.errors import InputError
from streamsim.text.quantities import RATE, unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SLOWEST_BYTES_PER_S, FASTEST_BYTES_PER_S = 1e6, 1e15


class As(NamedTuple):
    """The value of the ``field`` of that name, in the same table."""

    field: str


@dataclass(frozen=True, eq=False)
class About:
    """What is known of a field.

    ``least``, ``most``: of a whole number. ``at_least``, ``at_most``: fields of the same table that it must not be
    below or above, declared before it. It follows a change of theirs, below by as much and above in proportion; with
    ``gives_way`` it is not held to them, and a change of theirs only pushes it along where it would pass.
    ``off``: by effect, what the field is without it. ``is_measured``: a whole number that a calibration measures, so
    that two of them have a mean. ``sped_up_with``: what has to be made faster to make it so: "link", "kernel",
    "launch". ``drawn_with``: the field of the table whose spread is its own as well.
    """

    least: int = 0
    most: int = LARGEST_BYTES
    at_least: tuple[str, ...] = ()
    at_most: tuple[str, ...] = ()
    gives_way: bool = False
    off: Mapping[str, float | str | As] = field(default_factory=dict)
    is_measured: bool = False
    sped_up_with: str = ""
    drawn_with: str = ""


NOTHING_SAID = About()


class Field(NamedTuple):
    """A field of a table: its name, what is declared of it, its type, and its default (NODEFAULT: none)."""

    name: str
    about: About
    kind: Any
    default: Any

    @property
    def unit(self) -> str:
        """That in its name: see :func:`streamsim.text.quantities.unit_of`."""
        return unit_of(self.name)

    @property
    def is_number(self) -> bool:
        """Whether it is a rate or a time: a number that scatters, and that a calibration measures."""
        return self.kind is float

    def check(self, value: object) -> None:
        """Raise InputError unless ``value`` is of its type and within its limits."""
        if self.kind is float:
            check_number(self.name, value, *self._limits)
        elif self.kind is int:
            check_whole(self.name, value, self.about.least, self.about.most)
        elif get_origin(self.kind) is Literal:
            check_choice(self.name, value, get_args(self.kind))
        elif get_origin(self.kind) is tuple:
            item = get_args(self.kind)[0]
            check_tuple(self.name, value, item, *([int] if item is float else []))
        elif isinstance(self.kind, type):
            check_is(self.name, value, self.kind)

    def within(self, value: float) -> float:
        """The nearest number that a profile may hold, of a rate or a time."""
        least, most = self._limits
        return max(least, min(value, most))

    @property
    def _limits(self) -> tuple[float, float]:
        return (SLOWEST_BYTES_PER_S, FASTEST_BYTES_PER_S) if self.unit == RATE else (0.0, LONGEST_S)


@lru_cache
def fields_of(table: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields of a table of a profile, in their order."""
    return tuple(_field(declared) for declared in msgspec.structs.fields(table))


def _field(declared: msgspec.structs.FieldInfo) -> Field:
    kind, about = declared.type, NOTHING_SAID
    if get_origin(kind) is Annotated:
        kind, about = get_args(kind)
    return Field(declared.name, about, kind, declared.default)


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """A table of a profile. Every field is checked by what is declared of it, and those that are tied by their ties."""

    def __post_init__(self) -> None:
        fields = fields_of(type(self))
        for one in fields:
            one.check(getattr(self, one.name))
        for one in fields:
            if not one.about.gives_way:
                self._check_ties(one)

    def _check_ties(self, tied: Field) -> None:
        value = getattr(self, tied.name)
        for names, word, sign in ((tied.about.at_least, "below", 1), (tied.about.at_most, "above", -1)):
            for name in names:
                other = getattr(self, name)
                if sign * value < sign * other:
                    raise InputError(
                        f"{tied.name} = {value:g}: {word} {name} = {other:g}; sharing cannot make a link faster"
                    )


def restored(table: type[Table], values: dict[str, Any]) -> dict[str, Any]:
    """``values`` of every field of a table, with those that have passed a field that they are tied to held to it."""
    found = dict(values)
    for one in fields_of(table):
        if not one.about.gives_way:
            for name in one.about.at_least:
                found[one.name] = max(found[one.name], found[name])
            for name in one.about.at_most:
                found[one.name] = min(found[one.name], found[name])
    return found
