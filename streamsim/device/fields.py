"""Declarations of a profile's fields: limits, ties to other fields, and values with an effect switched off.

The declaration of a field stands beside it, in its ``Annotated`` type. Code that checks or changes profiles reads the
declarations and names no field. A new field therefore needs one line, in its table. The ending of a number's name is
its unit: ``_bytes_per_s``, ``_bytes`` or ``_s``. A count has no unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as declared
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

    - ``least``, ``most``: limits of a number, if they are not those of its unit.
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

    least: int | None = None
    most: int | None = None
    at_least: tuple[str, ...] = ()
    at_most: tuple[str, ...] = ()
    gives_way: bool = False
    off: Mapping[str, float | str | SameAs] = declared(default_factory=dict)
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
        origin, of = get_origin(self.kind), get_args(self.kind)
        if self.kind is int:
            check_whole(self.name, value, *self._limits)
        elif self.kind is float:
            check_number(self.name, value, *self._limits)
        elif origin is Literal:
            check_choice(self.name, value, of)
        elif origin is tuple:
            check_tuple(self.name, value, of[0], *([int] if of[0] is float else []))
        elif isinstance(kind := dict if origin is dict else self.kind, type):
            check_is(self.name, value, kind)

    def within(self, value: float) -> float:
        """Return the rate or time nearest to ``value`` that a profile may hold."""
        least, most = self._limits
        return float(max(least, min(value, most)))

    def tied(self, values: Mapping[str, Any]) -> Any:
        """Return the field's value in a table's ``values``, moved to the nearest limit that its ties set."""
        value, spec = values[self.name], self.spec
        value = min([value, *(values[name] for name in spec.at_most)])
        return max([value, *(values[name] for name in spec.at_least)])

    @property
    def _limits(self) -> tuple[Any, Any]:
        rate, time = (SLOWEST_BYTES_PER_S, FASTEST_BYTES_PER_S), (0.0, LONGEST_S)
        least, most = (0, LARGEST_BYTES) if self.kind is int else rate if self.unit == RATE else time
        spec = self.spec
        return least if spec.least is None else spec.least, most if spec.most is None else spec.most


@lru_cache
def fields_of(table: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the fields of a profile's table, in the order of their declaration."""
    found = []
    for one in msgspec.structs.fields(table):
        kind, spec = get_args(one.type) if get_origin(one.type) is Annotated else (one.type, NO_SPEC)
        found.append(Field(one.name, spec, kind, one.default))
    return tuple(found)


class ProfileTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """A table of a profile. It checks every field's type, limits and ties against its declaration."""

    def __post_init__(self) -> None:
        fields, values = fields_of(type(self)), msgspec.structs.asdict(self)
        for field in fields:
            field.check(values[field.name])
        for field in fields:
            value, nearest = values[field.name], field.tied(values)
            if value != nearest and not field.spec.gives_way:
                below = value < nearest
                ties = field.spec.at_least if below else field.spec.at_most
                other = next(name for name in ties if values[name] == nearest)
                word, remedy = ("below", "least") if below else ("above", "most")
                raise InputError(f"{field.name} = {value:g}: {word} {other} = {nearest:g}; give at {remedy} that")


def restored(table: type[ProfileTable], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values``, of every field of a table, with each value moved to the nearest limit that its ties set."""
    found = dict(values)
    for field in fields_of(table):
        if not field.spec.gives_way:
            found[field.name] = field.tied(found)
    return found
