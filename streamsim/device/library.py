"""Device profiles in TOML files: the shipped profiles and the user's own, front ends, and the forms of all files.

In a shipped profile, every number has a source. The user's profiles are in :func:`own_folder`.
"""

import os
import warnings
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from streamsim.device.profile import CALLS, IN_LOOPS, RETIRED, TIMES, Device, FrontEnd, Recorder
from streamsim.errors import InputError, Notice
from streamsim.files import dump_toml, parse_toml, read_bytes, write_text
from streamsim.program import Layers, Point, ScheduleFile, WorkloadFile, WorkloadKernel
from streamsim.text import LARGEST_TOML_BYTES, one_line, shown

SUFFIX = ".toml"
SHIPPED = files("streamsim.device")
PROFILES = SHIPPED / "profiles"


def device_names() -> list[str]:
    """Return the names of the shipped profiles, in alphabetical order."""
    return sorted(file.name.removesuffix(SUFFIX) for file in PROFILES.iterdir() if file.name.endswith(SUFFIX))


def own_folder() -> Path:
    """Return the folder of the user's own profiles: ``streamsim/devices`` in the system's configuration folder."""
    from click import get_app_dir  # loaded with the commands, where Ctrl-C is expected

    return Path(get_app_dir("streamsim"), "devices")


def own_device_names() -> list[str]:
    """Return the names of the profiles in :func:`own_folder`, except names of shipped profiles, alphabetically."""
    try:
        names = {file.name.removesuffix(SUFFIX) for file in own_folder().iterdir() if file.name.endswith(SUFFIX)}
    except OSError:  # there is no such folder
        return []
    return sorted(names - set(device_names()))


def digest_of(device: Device) -> str:
    """Return a digest, 16 hexadecimal digits, of all numbers and rules that predictions take from a profile."""
    words = ("name", "description", "sources", "link")
    numbers = [getattr(device, field) for field in device.__struct_fields__ if field not in words]
    return sha256(msgspec.json.encode(numbers)).hexdigest()[:16]


# Files


def read_device(path: str | os.PathLike[str]) -> Device:
    """Read the device profile in a TOML file. Raises InputError naming the file, the field and the value.

    Warns with a :class:`streamsim.errors.Notice` if the file has numbers that profiles no longer use.
    """
    return parse_device(read_bytes(path, LARGEST_TOML_BYTES), one_line(str(path)))


def write_device(device: Device, path: str | os.PathLike[str]) -> None:
    """Save ``device`` as TOML. Raises InputError when the file cannot be written."""
    write_text(dump_device(device), path)


def dump_device(device: Device) -> str:
    """Return ``device`` as TOML text."""
    return dump_toml(device)


def parse_device(text: str | bytes, where: str = "device") -> Device:
    """Return the profile in the TOML ``text``. Raises InputError whose message begins with ``where``."""
    retired: list[str] = []

    def prepared(plain: dict[str, Any]) -> dict[str, Any]:
        kept, names = without_retired(plain)
        retired.extend(names)
        return kept

    device = parse_toml(text.encode() if isinstance(text, str) else text, Device, "device", where, prepared=prepared)
    if retired:
        warnings.warn(f"{where}: {', '.join(retired)}: no longer part of a profile, left out", Notice, stacklevel=2)
    return device


def without_retired(profile: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a profile, as plain data, without the retired numbers, and the names of the numbers left out.

    The sources and spreads of these numbers are left out as well.
    """
    plain, dropped = dict(profile), []
    for name in RETIRED:
        part, _, field = name.partition(".")
        for table, key in ((part, field), ("sources", name), ("spread", name)):
            if isinstance(plain.get(table), dict) and key in plain[table]:
                plain[table] = {own: value for own, value in plain[table].items() if own != key}
                dropped.append(name)
    return plain, list(dict.fromkeys(dropped))


# Forms of files


KINDS: dict[str, type[msgspec.Struct]] = {
    "schedule": ScheduleFile,
    "workload": WorkloadFile,
    "layers": Layers,
    "device": Device,
}
# The types that a TOML file may hold in place of a table.
_IN_PLACE_OF_TABLE = {
    f"#/$defs/{WorkloadKernel.__name__}": ("string", "number"),
    f"#/$defs/{Point.__name__}": ("string",),
}


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a ``schedule``, ``workload``, ``layers`` or ``device`` file.

    Raises InputError for another kind.
    """
    if kind not in KINDS:
        raise InputError(f"kind = {shown(kind)}: expected one of {', '.join(KINDS)}")
    exact = msgspec.json.schema(KINDS[kind])
    return exact if kind == "schedule" else _or_text(exact)


def _or_text(node: Any) -> Any:
    """Return a schema that also allows text, such as ``"64MiB"``, for each number and kernel, as TOML files may."""
    if isinstance(node, list):
        return [_or_text(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in ("integer", "number"):
        return {**node, "type": [node["type"], "string"]}
    if other := _IN_PLACE_OF_TABLE.get(node.get("$ref", "")):
        return {"anyOf": [node, *({"type": kind} for kind in other)]}
    unchanged = ("default", "additionalProperties")  # a spread has arbitrary names, and its values must be numbers
    return {key: value if key in unchanged else _or_text(value) for key, value in node.items()}


# Front ends
#
# The library or language that a program is written in sets the host's seconds in each call. A call of an array library
# takes several times as long as the bare CUDA call that it makes. The library also has to make the call's stream the
# current one. A profile's ``host`` has the times of bare calls, made through CuPy's ``runtime``. A FrontEnd has the
# times of a library, or of compiled programs, on the same host. A profile without a front end uses the one in
# ``front_ends.toml``: the mean of the calibrated hosts.
#
# A profiler that records makes calls longer, by a ratio. A fast host also records faster, so a ratio holds on other
# hosts. A profile may have recorders measured on its own host. Without them, those of ``front_ends.toml`` count.

COMPILED = "cuda-c++"  # the front end of compiled programs; without it, a profile uses its bare calls
SEPARATOR = ":"  # between the name of a device and that of a front end

# Only bare calls and compiled programs have it. A library's calls are measured in rounds over streams: their mean
# includes the first calls on each stream.
FIRST_ON_STREAM = "first_on_stream_s"
LINEAR = "linear"  # the name of a kernel whose call is ``linear_s``


class _Shipped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    front_ends: dict[str, FrontEnd]
    recorders: dict[str, Recorder]


@cache
def _shipped() -> _Shipped:
    return parse_toml((SHIPPED / "front_ends.toml").read_bytes(), _Shipped, "front_ends", "front_ends.toml")


def shipped_front_ends() -> Mapping[str, FrontEnd]:
    """Return the shipped front ends by name, for profiles that have none of their own."""
    return MappingProxyType(_shipped().front_ends)


def recorder_of(device: Device, name: str) -> Recorder:
    """Return the recorder ``name``: the profile's own, or else the shipped one."""
    return device.recorders.get(name) or _shipped().recorders[name]


def front_end_names(device: Device) -> list[str]:
    """Return the names of all front ends for ``device``: "calls", its own front ends and the shipped ones."""
    return [CALLS, *sorted({COMPILED, *device.front_ends, *shipped_front_ends()})]


def with_front_end(device: Device, name: str) -> Device:
    """Return ``device`` with the call times of the front end ``name``, such as "cupy" or "pytorch".

    The result is named ``DEVICE:NAME``. "calls" returns ``device`` unchanged. "cuda-c++" uses the times of compiled
    programs if the profile has them, and otherwise returns ``device`` unchanged. Raises InputError for an unknown front
    end, and for a device that already has another front end's calls.
    """
    if (has := front_end_of(device)) not in (CALLS, name):
        raise InputError(
            f"front end = {shown(name)}: {device.name} has the calls of {has!r} already; name one of the two"
        )
    if name in (CALLS, has) or (name == COMPILED and COMPILED not in device.front_ends):
        return device
    found = device.front_ends.get(name) or shipped_front_ends().get(name)
    if found is None:
        known = ", ".join(front_end_names(device))
        raise InputError(f"front end = {shown(name)}: expected one of {known}")
    calls = {field: getattr(found, field) for field in TIMES if field in IN_LOOPS or getattr(found, field)}
    if name != COMPILED:
        calls[FIRST_ON_STREAM] = 0.0
    names = [f"host.{field}" for field in calls]
    return msgspec.structs.replace(
        device,
        name=f"{device.name}{SEPARATOR}{name}",
        host=msgspec.structs.replace(device.host, **calls),
        sources={**device.sources, **dict.fromkeys(names, found.source)},
        spread={**device.spread, **dict.fromkeys(names, found.spread)} if device.spread else {},
    )


def front_end_of(device: Device) -> str:
    """Return the name of the front end whose calls ``device`` has: "calls" for bare calls."""
    _, separator, name = device.name.rpartition(SEPARATOR)
    return name if separator and name in front_end_names(device) else CALLS


def written_in(device: Device, name: str) -> Device:
    """Return ``device`` with the calls of the front end that a workload names ("": none).

    A device that already has a front end's calls is returned unchanged. Raises InputError as :func:`with_front_end`.
    """
    return with_front_end(device, name.lower()) if name and front_end_of(device) == CALLS else device
