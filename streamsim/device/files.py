"""Device profiles in TOML files: ``streamsim schema device`` prints their form as a JSON Schema."""

import os
import warnings
from typing import Any

from streamsim.device.profile import RETIRED, Device
from streamsim.errors import Notice
from streamsim.files import dump_toml, parse_toml, read_bytes, write_text
from streamsim.text import LARGEST_TOML_BYTES, one_line


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
