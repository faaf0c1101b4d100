"""Declarations of a profile's fields: limits, ties to other fields, and values with an effect switched off.

The declaration of a field stands beside it, in its ``Annotated`` type. Code that checks or changes profiles reads the
declarations and names no field. A new field therefore needs one line, in its table. The ending of a number's name is
its unit: ``_bytes_per_s``, ``_bytes`` or ``_s``. A count has no unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from streamsim.checks import LARGEST_BYTES, LONGEST_S, check_choice, check_is, check_number, check_tuple, check_whole
from streamsim.errors import InputError
from streamsim.text import RATE, unit_of

SLOWEST_BYTES_PER_S, FASTEST_BYTES_PER_S = 1e6, 1e15


class SameAs(NamedTuple):
    """A reference to the value of another ``field`` of the same table, by its name."""

    field: str


@dataclass(frozen=True, eq=False)
class FieldSpec:
    """The declaration of a field.

    - ``least``, ``most``: limits of a whole number.
    - ``at_least``: fields of the same table, declared earlier, that are lower limits of this field. If one of them
      changes, this field changes by the same amount.
    - ``at_most``: fields of the same table, declared earlier, that are upper limits of this field. If one of them
      changes, this field changes in proportion.
    - ``gives_way``: a profile may break ``at_least`` and ``at_most``. A change of those fields moves this field only
      where it would otherwise break the limit.
    - ``off``: for each effect, the value of the field with that effect switched off.
    - ``is_measured``: True for a whole number that a calibration measures. Two measured numbers have a mean.
    - ``sped_up_with``: "link", "kernel" or "launch" if making that faster makes this field faster.
    - ``drawn_with``: the field of the same table whose random factor this field shares.
    """

    least: int = 0
    most: int = LARGEST_BYTES
    at_least: tuple[str, ...] = ()
    at_most: tuple[str, ...] = ()
    gives_way: bool = False
    off: Mapping[str, float | str | SameAs] = field(default_factory=dict)
    is_measured: bool = False
    sped_up_with: str = ""
    drawn_with: str = ""


NO_SPEC = FieldSpec()


class Field(NamedTuple):
    """A field of a table: its name, declaration, type and default (``msgspec.NODEFAULT``: it has no default)."""

    name: str
    spec: FieldSpec
    kind: Any
    default: Any

    @property
    def unit(self) -> str:
        """The unit in its name: see :func:`streamsim.text.quantities.unit_of`."""
        return unit_of(self.name)

    @property
    def is_number(self) -> bool:
        """True for a rate or a time: a calibration measures it, and it has a spread."""
        return self.kind is float

    def check(self, value: object) -> None:
        """Raise InputError unless ``value`` has the field's type and lies within its limits."""
        if self.kind is float:
            check_number(self.name, value, *self._limits)
        elif self.kind is int:
            check_whole(self.name, value, self.spec.least, self.spec.most)
        elif get_origin(self.kind) is Literal:
            check_choice(self.name, value, get_args(self.kind))
        elif get_origin(self.kind) is tuple:
            item = get_args(self.kind)[0]
            check_tuple(self.name, value, item, *([int] if item is float else []))
        elif isinstance(self.kind, type):
            check_is(self.name, value, self.kind)

    def within(self, value: float) -> float:
        """Return the rate or time nearest to ``value`` that a profile may hold."""
        least, most = self._limits
        return max(least, min(value, most))

    @property
    def _limits(self) -> tuple[float, float]:
        return (SLOWEST_BYTES_PER_S, FASTEST_BYTES_PER_S) if self.unit == RATE else (0.0, LONGEST_S)


@lru_cache
def fields_of(table: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the fields of a profile's table, in the order of their declaration."""
    found = []
    for declared in msgspec.structs.fields(table):
        is_spec = get_origin(declared.type) is Annotated
        kind, spec = get_args(declared.type) if is_spec else (declared.type, NO_SPEC)
        found.append(Field(declared.name, spec, kind, declared.default))
    return tuple(found)


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """A table of a profile. It checks every field's type, limits and ties against its declaration."""

    def __post_init__(self) -> None:
        fields = fields_of(type(self))
        for one in fields:
            one.check(getattr(self, one.name))
        for one in fields:
            if not one.spec.gives_way:
                self._check_ties(one)

    def _check_ties(self, tied: Field) -> None:
        value = getattr(self, tied.name)
        for names, word, sign in ((tied.spec.at_least, "below", 1), (tied.spec.at_most, "above", -1)):
            for name in names:
                other = getattr(self, name)
                if sign * value < sign * other:
                    raise InputError(
                        f"{tied.name} = {value:g}: {word} {name} = {other:g}; sharing cannot make a link faster"
                    )


def restored(table: type[Table], values: dict[str, Any]) -> dict[str, Any]:
    """Return ``values``, of every field of a table, with each value moved to the nearest limit that its ties set."""
    found = dict(values)
    for one in fields_of(table):
        if not one.spec.gives_way:
            for name in one.spec.at_least:
                found[one.name] = max(found[one.name], found[name])
            for name in one.spec.at_most:
                found[one.name] = min(found[one.name], found[name])
    return found
