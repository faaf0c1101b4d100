"""A device profile with some of its numbers changed: what a sweep, ``--set`` and what-if questions simulate on.

A number has a dotted name, ``h2d.bandwidth_bytes_per_s``; without its unit it is as good, ``h2d.bandwidth``; and
``link`` in place of a direction stands for both. A number that depends on another one follows it unless it is changed
too: the rates beside the other direction and on a crowded card in proportion to the bandwidth, the latencies there by
as much as the latency, and pageable memory never gets ahead of pinned memory.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from streamsim.checks import LARGEST_BYTES
from streamsim.device.library import as_device
from streamsim.device.profile import FASTEST_BYTES_PER_S, LATENCIES, SLOWER, Device, LinkDirection
from streamsim.errors import InputError
from streamsim.text.quantities import parse_bandwidth, parse_bytes, parse_count, parse_seconds
from streamsim.text.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    Part = TypeVar("Part", bound=msgspec.Struct)
    Value = float | str

DIRECTIONS = ("h2d", "d2h")
BOTH = "link"  # in place of a direction: of both
UNITS = ("_bytes_per_s", "_bytes", "_s")
ELSEWHERE = {"connections": "--connections", "memory_bytes": "--memory-limit"}  # numbers with an option of their own
AS_SET = "assumed: as set"
CALLS = ("copy_s", "kernel_s", "streams_s", "after_wait_s", "record_s", "wait_s", "graph_launch_s", "graph_node_s")
RATES = tuple(field for field in LinkDirection.__struct_fields__ if field.endswith("_bytes_per_s"))


# Names


def names(device: Device) -> dict[str, Value]:
    """Every number and rule of the profile that can be changed, by its dotted name (those of ``link`` are H2D's)."""
    parts = {name: getattr(device, name) for name in device.__struct_fields__} | {BOTH: device.h2d}
    found = (
        (f"{name}.{field}", getattr(part, field))
        for name, part in parts.items()
        if isinstance(part, msgspec.Struct)
        for field in part.__struct_fields__
    )
    return {name: value for name, value in found if isinstance(value, int | float | str)}


def full_name(device: Device, name: str) -> str:
    """The dotted name that ``name`` stands for, ``link.`` left as it is. Raises InputError when there is none."""
    known = names(device)
    wanted = name.strip().lower()
    if wanted in known:
        return wanted
    short = {_short(full): full for full in known}
    if wanted in short:
        return short[wanted]
    if wanted in ELSEWHERE:
        raise InputError(f"{shown(name)}: is not set so; use {ELSEWHERE[wanted]}")
    nearest = get_close_matches(wanted, [*short, *known], n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else "; see streamsim devices show"
    raise InputError(f"{shown(name)}: no number or rule of a device profile{hint}")


def _short(name: str) -> str:
    return next((name.removesuffix(unit) for unit in UNITS if name.endswith(unit)), name)


def current(device: Device, name: str) -> Value:
    """The value of a name. Raises InputError when the profile has no such number or rule."""
    return names(device)[full_name(device, name)]


def _targets(name: str) -> tuple[str, ...]:
    part, _, field = name.partition(".")
    return tuple(f"{direction}.{field}" for direction in DIRECTIONS) if part == BOTH else (name,)


# Values as text


def parser_of(device: Device, name: str) -> Callable[[str, str], float] | None:
    """What reads a value of ``name``, given its text and the name for its errors; None: it is a word."""
    name = full_name(device, name)
    if isinstance(current(device, name), str):
        return None
    if name.endswith("_bytes_per_s"):
        return parse_bandwidth
    if name.endswith("_s"):
        return parse_seconds
    parse = parse_bytes if name.endswith("_bytes") else parse_count
    return partial(parse, least=0, most=LARGEST_BYTES)


def split_setting(text: str, example: str) -> tuple[str, str]:
    """``"h2d.latency=1us"`` -> its name and its value. Raises InputError without a ``=``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"set = {shown(text)}: expected {example}")
    return name.strip(), value.strip()


def parse_settings(device: Device, texts: Iterable[str]) -> dict[str, Value]:
    """``["h2d.bandwidth=51GB/s"]`` -> values by full names. Raises InputError naming the setting."""
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


# Changes


def changed(device: Device | str | Path, numbers: Mapping[str, Any]) -> Device:
    """``device``, or the one of that name, with other values of the named numbers and of those that follow; see above.

    Raises InputError for an unknown device, an unknown name, one that stands for the same number as another, and a bad
    value.
    """
    device = as_device(device)
    if not numbers:
        return device
    given: dict[str, Any] = {}
    for name, value in numbers.items():
        for target in _targets(full_name(device, name)):
            if target in given:
                raise InputError(f"{target}: set twice; keep one")
            given[target] = value
    followers = _followers(device, given)
    parts: dict[str, dict[str, Any]] = {}
    for name, value in {**followers, **given}.items():
        part, _, field = name.partition(".")
        parts.setdefault(part, {})[field] = value
    set_numbers = (name for name, value in given.items() if not isinstance(value, str))
    sources = dict.fromkeys(followers, f"{AS_SET}, in step with what was set") | dict.fromkeys(set_numbers, AS_SET)
    link = f"{device.link} as changed" if device.link and parts.keys() & set(DIRECTIONS) else device.link
    replaced = {part: _replaced(device, part, new) for part, new in parts.items()}
    return msgspec.structs.replace(device, sources={**device.sources, **sources}, link=link, **replaced)


def _replaced(device: Device, part: str, new: dict[str, Any]) -> msgspec.Struct:
    try:
        found: msgspec.Struct = msgspec.structs.replace(getattr(device, part), **new)
        return found
    except InputError as error:
        raise InputError(f"{part}.{error}") from None


def _followers(device: Device, numbers: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for direction in DIRECTIONS:
        link = getattr(device, direction)
        found |= _rates(direction, link, numbers) | _latencies(direction, link, numbers)
    return {name: value for name, value in found.items() if name not in numbers}


def _rates(direction: str, link: LinkDirection, numbers: Mapping[str, Any]) -> dict[str, float]:
    bandwidth = numbers.get(f"{direction}.bandwidth_bytes_per_s")
    if bandwidth is None:
        return {}
    found = {
        f"{direction}.{slower}": bandwidth * (getattr(link, slower) / link.bandwidth_bytes_per_s) for slower in SLOWER
    }
    if link.pageable_bandwidth_bytes_per_s > bandwidth:
        found[f"{direction}.pageable_bandwidth_bytes_per_s"] = bandwidth
    return found


def _latencies(direction: str, link: LinkDirection, numbers: Mapping[str, Any]) -> dict[str, float]:
    """What the longer latencies of a direction are when shorter ones are changed."""
    found: dict[str, float] = {}
    for longer in dict.fromkeys(longer for longer, _ in LATENCIES):
        given = {**found, **numbers}
        shorter = {less: f"{direction}.{less}" for more, less in LATENCIES if more == longer}
        changes_s = [given[name] - getattr(link, less) for less, name in shorter.items() if name in given]
        if changes_s:
            least_s = max(given.get(name, getattr(link, less)) for less, name in shorter.items())
            found[f"{direction}.{longer}"] = max(getattr(link, longer) + max(changes_s), least_s)  # a sum is rounded
    latency_s = numbers.get(f"{direction}.latency_s", 0.0)
    if latency_s > link.pageable_latency_s:
        found[f"{direction}.pageable_latency_s"] = latency_s
    return found


def with_memory_limit(device: Device, limit: int | None) -> Device:
    """``device`` with no more memory than ``limit`` bytes (None: as it is)."""
    if limit is None or (device.memory_bytes is not None and device.memory_bytes <= limit):
        return device
    sources = {**device.sources, "memory_bytes": "assumed: what the memory limit allows"}
    return msgspec.structs.replace(device, memory_bytes=limit, sources=sources)


# What if


def with_faster_link(device: Device, factor: float) -> Device:
    """Every rate of both directions ``factor`` times as high."""
    return msgspec.structs.replace(device, h2d=_times(device.h2d, RATES, factor), d2h=_times(device.d2h, RATES, factor))


def with_faster_calls(device: Device, factor: float) -> Device:
    """Every call that issues work ``factor`` times as fast."""
    return msgspec.structs.replace(device, host=_times(device.host, CALLS, 1 / factor))


def _times(part: Part, fields: Sequence[str], factor: float) -> Part:
    numbers = {field: min(getattr(part, field) * factor, FASTEST_BYTES_PER_S) for field in fields}
    return msgspec.structs.replace(part, **numbers)
