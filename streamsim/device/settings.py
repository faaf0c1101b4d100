"""Names of a profile's numbers and rules, and their values as text, for ``--set`` and the axes of a sweep.

A number has a dotted name, such as ``h2d.bandwidth_bytes_per_s``. The unit may be left out: ``h2d.bandwidth``.
``link`` in place of ``h2d`` or ``d2h`` stands for both directions.
"""

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from streamsim.device.profile import RETIRED, Device, tables_of
from streamsim.errors import InputError
from streamsim.text import parser_for, shown, unit_of

Value = float | str

DIRECTIONS = ("h2d", "d2h")
BOTH = "link"  # the name that stands for both directions
_MEMORY = ("memory", "memory_bytes", "memory_limit", "memory-limit", "device_memory", "device.memory", "vram")
ELSEWHERE = {"connections": "--connections", **dict.fromkeys(_MEMORY, "--memory-limit")}  # these have their own option


# Names


def names(device: Device) -> dict[str, Value]:
    """Return every number and rule of the profile that can be changed, by dotted name (``link.`` has H2D's values)."""
    tables = tables_of(device) | {BOTH: device.h2d}
    found = (
        (f"{name}.{field}", getattr(table, field))
        for name, table in tables.items()
        for field in table.__struct_fields__
    )
    return {name: value for name, value in found if isinstance(value, int | float | str)}


def full_name(device: Device, name: str) -> str:
    """Return the dotted name that ``name`` stands for; ``link.`` stays. Raises InputError for an unknown name."""
    known = names(device)
    wanted = name.strip().lower()
    if wanted in known:
        return wanted
    short = {full.removesuffix(unit_of(full)): full for full in known}
    if wanted in short:
        return short[wanted]
    if wanted in {name.removesuffix(unit_of(name)) for name in RETIRED} | {*RETIRED}:
        raise InputError(f"{shown(name)}: is no longer part of a profile; leave it out")
    if wanted in ELSEWHERE:
        raise InputError(f"{shown(name)}: cannot be set here; use {ELSEWHERE[wanted]}")
    nearest = get_close_matches(wanted, [*short, *known], n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else "; see streamsim devices show"
    raise InputError(f"{shown(name)}: no number or rule of a device profile{hint}")


def targets(device: Device, name: str) -> tuple[str, ...]:
    """Return the full names that ``name`` stands for: two names if it begins with ``link.``, else one."""
    name = full_name(device, name)
    table, _, field = name.partition(".")
    return tuple(f"{direction}.{field}" for direction in DIRECTIONS) if table == BOTH else (name,)


def targets_of(device: Device, given: Iterable[str]) -> dict[str, str]:
    """Return each full name that ``given`` stands for, with the given name that it comes from.

    Raises InputError if two names stand for the same number.
    """
    found: dict[str, str] = {}
    for name in given:
        for target in targets(device, name):
            if target in found:
                other = found[target]
                names = "" if full_name(device, name) == full_name(device, other) else f", by {other} and {name}"
                raise InputError(f"{target}: set twice{names}; keep one")
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
    name = full_name(device, name)
    if isinstance(current(device, name), str):
        return None
    return parser_for(name)


def split_setting(text: str, example: str) -> tuple[str, str]:
    """Split ``"h2d.latency=1us"`` into its name and its value. Raises InputError without a ``=``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"set = {shown(text)}: expected {example}")
    return name.strip(), value.strip()


def parse_settings(device: Device, texts: Iterable[str]) -> dict[str, Value]:
    """Return values by full name, from texts such as ``"h2d.bandwidth=51GB/s"``. Raises InputError naming a setting."""
    found: dict[str, Value] = {}
    for text in texts:
        given, value = split_setting(text, "NAME=VALUE such as h2d.bandwidth=51GB/s")
        name = full_name(device, given)
        parse = parser_of(device, name)
        if name in found:
            raise InputError(f"{name}: set twice; keep one")
        if "," in value or ".." in value:
            raise InputError(f"{name} = {shown(value)}: expected one value; streamsim sweep takes several")
        found[name] = value if parse is None else parse(value, name)
    return found
