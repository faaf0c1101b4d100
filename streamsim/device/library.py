"""Device profiles in TOML files: the shipped profiles and the user's own, by name; and the forms of all files.

In a shipped profile, every number has a source. The user's profiles are in :func:`own_folder`.
"""

import os
import sys
import warnings
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from streamsim.device.profile import RETIRED, Device
from streamsim.errors import InputError, Notice
from streamsim.files import dump_toml, parse_toml, read_bytes, write_text
from streamsim.program import Layers, Point, ScheduleFile, WorkloadFile, WorkloadKernel
from streamsim.text import LARGEST_TOML_BYTES, one_line, shown

SUFFIX = ".toml"
PROFILES = files("streamsim.device") / "profiles"


def device_names() -> list[str]:
    """Return the names of the shipped profiles, in alphabetical order."""
    return sorted(file.name.removesuffix(SUFFIX) for file in PROFILES.iterdir() if file.name.endswith(SUFFIX))


def own_folder() -> Path:
    """Return the folder of the user's own profiles: ``streamsim/devices`` in the system's configuration folder."""
    if given := os.environ.get("XDG_CONFIG_HOME"):
        base = Path(given)
    elif sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path.home() / ".config"
    return base / "streamsim" / "devices"


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
