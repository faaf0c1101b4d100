"""Changed device profiles: all changes of a profile are made here.

- numbers set by name (``--set``, a sweep);
- an effect switched off (counterfactuals);
- a device drawn from the spread of its numbers;
- the mean of two calibrations.

The declaration of a field in the profile (:class:`streamsim.device.tables.FieldSpec`) says how it changes. This module
names no field, so a new field needs no change here.

If a number changes, the numbers tied to it follow, unless they are set as well. The rates beside the other direction
and on a crowded card follow the bandwidth in proportion. Their latencies grow by as much as the latency. Pageable
memory never becomes faster than pinned memory.

A number has a dotted name, such as ``h2d.bandwidth_bytes_per_s``. The unit may be left out: ``h2d.bandwidth``.
``link`` in place of ``h2d`` or ``d2h`` stands for both directions.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from streamsim.device import tables
from streamsim.device.library import as_device
from streamsim.device.profile import LIMITED, Device, declared, tables_of, with_values
from streamsim.device.tables import DIRECTIONS, EFFECTS
from streamsim.errors import LONGEST_S, SHORTEST_KERNEL_S, InputError, limits_of, rule_of, shown
from streamsim.text import parser_for, unit_of

AS_SET = "assumed: as set"
replace = msgspec.structs.replace

Value = float | str

BOTH = "link"  # the name that stands for both directions
ELSEWHERE = {"connections": "--connections", "memory_bytes": "--memory-limit"}  # these have their own option


# Names


def names(device: Device) -> dict[str, Value]:
    """Return every number and rule of the profile that can be changed, by dotted name (``link.`` has H2D's values)."""
    parts = {**tables_of(device), BOTH: device.h2d}
    fields = (
        (f"{name}.{field}", getattr(table, field)) for name, table in parts.items() for field in table.__struct_fields__
    )
    return {name: value for name, value in fields if isinstance(value, int | float | str)}


def full_name(device: Device, name: str) -> str:
    """Return the dotted name that ``name`` stands for; ``link.`` stays. Raises InputError for an unknown name."""
    known = names(device)
    wanted = name.strip().lower()
    if wanted in known:
        return wanted
    short = {full.removesuffix(unit_of(full)): full for full in known}
    if wanted in short:
        return short[wanted]
    if wanted in ELSEWHERE:
        raise InputError(f"{shown(name)}: cannot be set here; use {ELSEWHERE[wanted]}")
    nearest = get_close_matches(wanted, [*short, *known], n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else "; see streamsim devices show"
    raise InputError(f"{shown(name)}: no number or rule of a device profile{hint}")


def targets_of(device: Device, given: Iterable[str]) -> dict[str, str]:
    """Return each full name that ``given`` stands for, with the given name that it comes from.

    Raises InputError if two names stand for the same number.
    """
    found: dict[str, str] = {}
    for name in given:
        full = full_name(device, name)
        table, _, field = full.partition(".")
        for target in [f"{direction}.{field}" for direction in DIRECTIONS] if table == BOTH else [full]:
            if target in found:
                raise InputError(f"{target}: set twice; keep one")
            found[target] = name
    return found


def current(device: Device, name: str) -> Value:
    """Return the value of the number or rule ``name``. Raises InputError if the profile has none of this name."""
    return names(device)[full_name(device, name)]


# Values as text


def parser_of(device: Device, name: str) -> Callable[[str, str], float] | None:
    """Return the function that parses a value of ``name``, or None if the value is a word.

    The function takes the text and the name for its error messages.
    """
    return None if isinstance(current(device, name), str) else parser_for(full_name(device, name))


def split_setting(text: str, example: str) -> tuple[str, str]:
    """Split ``"h2d.latency=1us"`` into its name and its value. Raises InputError without a ``=``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"set = {shown(text)}: expected {example}")
    return name.strip(), value.strip()


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """Return the text of each value by name, from texts such as ``"h2d.bandwidth=51GB/s"``; :func:`changed` reads it.

    Raises InputError naming a setting.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, value = split_setting(text, "NAME=VALUE such as h2d.bandwidth=51GB/s")
        if name in found:
            raise InputError(f"{name}: set twice; keep one")
        if "," in value or ".." in value:
            raise InputError(f"{name} = {shown(value)}: expected one value; streamsim sweep takes several")
        found[name] = value
    return found


# Set by name


def changed(device: Device | str | Path, numbers: Mapping[str, Any]) -> Device:
    """Return ``device`` with new values of the named numbers, such as ``{"h2d.latency": "3us"}``.

    Numbers that are tied to a changed one follow it: the latencies beside the other direction grow with the latency. A
    value is a number in the unit of its name, or text with a unit, as for ``--set``. ``device``: a Device, or the name
    or file of one. Raises InputError for an unknown device or name, for two names of one number, and for a bad value.
    """
    device = as_device(device)
    if not numbers:
        return device
    given = {target: _read(device, target, numbers[name]) for target, name in targets_of(device, numbers).items()}
    followers = _followers(device, given)
    found = with_values(device, {**followers, **given})
    set_numbers = (name for name, value in given.items() if not isinstance(value, str))
    sources = dict.fromkeys(followers, f"{AS_SET}, in step with what was set") | dict.fromkeys(set_numbers, AS_SET)
    is_link = any(name.partition(".")[0] in DIRECTIONS for name in given)
    link = f"{device.link} as changed" if device.link and is_link else device.link
    return replace(found, sources={**device.sources, **sources}, link=link)


def _read(device: Device, name: str, value: Any) -> Any:
    """Return the ``value`` for the number or rule ``name``, parsed if it is text. Raises InputError for a bad value."""
    parse = parser_of(device, name) if isinstance(value, str) else None
    read = value if parse is None else parse(value, name)
    try:
        rule = rule_of(next(field.type for full, _, field in declared(device) if full == name))
        rule.check(name.rpartition(".")[2], read)
    except InputError as error:
        raise InputError(f"{name.partition('.')[0]}.{error}") from None
    return read


def _followers(device: Device, given: Mapping[str, Any]) -> dict[str, float]:
    """Return the new values of the numbers tied to those given, and to each other, by full name."""
    found: dict[str, float] = {}
    for name, table, field in declared(device):
        spec, part, before = field.spec, name.partition(".")[0], msgspec.structs.asdict(table)
        ties = {tie: f"{part}.{tie}" for tie in (*spec.at_least, *spec.at_most)}
        moved = {tie: {**given, **found}[full] for tie, full in ties.items() if full in given or full in found}
        if name in given or not moved:
            continue
        value = before[field.name]
        if spec.at_most and not spec.gives_way:
            value = min(new * (value / before[tie]) for tie, new in moved.items())
        elif not spec.gives_way:
            value += max(new - before[tie] for tie, new in moved.items())
        value = float(field.tied({**before, **moved, field.name: value}))
        if not spec.gives_way or value != before[field.name]:
            found[name] = value
    return found


def with_memory_limit(device: Device, limit: int | None) -> Device:
    """Return ``device`` with at most ``limit`` bytes of memory (None: unchanged)."""
    if limit is None or (device.memory_bytes is not None and device.memory_bytes <= limit):
        return device
    sources = {**device.sources, "memory_bytes": f"assumed: {LIMITED}"}
    return replace(device, memory_bytes=limit, sources=sources)


# What if


def without(device: Device, *effects: str) -> Device:
    """Return ``device`` with the named ``EFFECTS`` switched off, one after the other.

    Raises InputError for an unknown effect.
    """
    for effect in effects:
        if effect not in EFFECTS:
            raise InputError(f"effect = {effect!r}: expected one of {', '.join(EFFECTS)}")
        off = ((name, table, field.spec.off.get(effect)) for name, table, field in declared(device))
        values = {
            name: getattr(table, str(value)) if value in table.__struct_fields__ else value
            for name, table, value in off
            if value is not None
        }
        device = with_values(device, values)
    return device


# Drawn


def multiplied(device: Device, factors: Mapping[str, float]) -> Device:
    """Return ``device`` with numbers multiplied by ``factors``, by full dotted name.

    The numbers are times, rates and kernel costs; all kernel times share one factor. Each product is moved to the
    nearest value that a profile may hold and that keeps the number's ties.
    """
    return replace(device, **{name: _multiplied(name, part, factors) for name, part in tables_of(device).items()})


def _multiplied(name: str, table: tables.ProfileTable, factors: Mapping[str, float]) -> tables.ProfileTable:
    new = msgspec.structs.asdict(table)
    for field in tables.fields_of(type(table)):
        factor = factors.get(f"{name}.{field.name}", factors.get(f"{name}.{field.spec.drawn_with}"))
        if factor is not None and field.is_number:
            least, most = limits_of(field.type)
            new[field.name] = float(max(least, min(new[field.name] * factor, most)))
        elif factor is not None and isinstance(new[field.name], tuple):
            new[field.name] = _multiplied_costs(new[field.name], factor)
        if not field.spec.gives_way:
            new[field.name] = field.tied(new)
    return replace(table, **new)


def _multiplied_costs(costs: tuple[tables.KernelCost, ...], factor: float) -> tuple[tables.KernelCost, ...]:
    """Return ``costs`` with all times multiplied by the factor nearest to ``factor`` that gives allowed times."""
    known = [seconds for cost in costs for seconds in cost.duration_s] or [1.0]
    factor = max(SHORTEST_KERNEL_S / min(known), min(factor, LONGEST_S / max(known)))

    def times(seconds: float) -> float:  # the last digit may reach beyond what a profile may hold
        return max(SHORTEST_KERNEL_S, min(seconds * factor, LONGEST_S))

    return tuple(replace(cost, duration_s=tuple(map(times, cost.duration_s))) for cost in costs)


# The mean of two


def mean_of(one: Any, other: Any) -> Any:
    """Return the mean of two calibrations of one card: of every number in them. Text and rules are those of ``one``.

    Both have the same kernels. A front end that only ``one`` has stays unchanged.
    """
    if isinstance(one, tables.ProfileTable):
        fields = {name: mean_of(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__}
        return replace(one, **fields)
    if isinstance(one, dict):
        return {name: mean_of(value, other.get(name, value)) for name, value in one.items()}
    if isinstance(one, tuple):
        return tuple(map(mean_of, one, other))
    is_number = isinstance(one, int | float) and other is not None
    return type(one)((one + other) / 2) if is_number else one
