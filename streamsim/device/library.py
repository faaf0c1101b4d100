"""The library of device profiles: the shipped profiles and the user's own, by name.

Each shipped profile is a TOML file in which every number has a source. The user's profiles are in :func:`own_folder`.
"""

import os
import sys
from difflib import get_close_matches
from hashlib import sha256  # most commands do without
from importlib.resources import files
from pathlib import Path

import msgspec

from streamsim.device.files import parse_device, read_device
from streamsim.device.front_ends import COMPILED, SEPARATOR, with_front_end
from streamsim.device.profile import Device
from streamsim.errors import InputError
from streamsim.text import shown

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


def load_device(name_or_path: str | Path) -> Device:
    """Load a device profile by its name or from a TOML file.

    A shipped profile's name comes first, in upper or lower case, then the name of one of the user's own profiles, then
    a path. ``h200:cupy`` is the profile ``h200`` with the calls of CuPy programs: :mod:`streamsim.device.front_ends`.
    Raises InputError for an unknown name (listing the known names and the nearest one) and for a bad file.
    """
    if names_front_end(name_or_path):
        card, _, front_end = str(name_or_path).rpartition(SEPARATOR)
        return with_front_end(load_device(card), front_end.lower())
    name = str(name_or_path).lower()
    if name in device_names():
        file = f"{name}{SUFFIX}"
        return parse_device((PROFILES / file).read_bytes(), file)
    path = Path(name_or_path)
    if str(name_or_path) in own_device_names() and not os.path.isfile(path):
        return read_device(own_folder() / f"{name_or_path}{SUFFIX}")
    if path.suffix != SUFFIX and not os.path.isfile(path):
        raise InputError(_unknown(str(name_or_path)))
    return read_device(path)


def digest_of(device: Device) -> str:
    """Return a digest, 16 hexadecimal digits, of all numbers and rules that predictions take from a profile."""
    words = ("name", "description", "sources", "link")
    numbers = [getattr(device, field) for field in device.__struct_fields__ if field not in words]
    return sha256(msgspec.json.encode(numbers)).hexdigest()[:16]


def names_front_end(name_or_path: str | Path) -> bool:
    """Return True if the name ends in a front end, such as ``h200:cupy``."""
    _, separator, front_end = str(name_or_path).rpartition(SEPARATOR)
    is_name = front_end.isidentifier() or front_end.lower() == COMPILED
    return bool(separator) and is_name and not os.path.isfile(name_or_path)


def as_device(device: Device | str | Path) -> Device:
    """Return ``device`` if it is a Device, else load the profile of this name or path with :func:`load_device`.

    Raises InputError for anything else, and as :func:`load_device` does.
    """
    if isinstance(device, Device):
        return device
    if isinstance(device, str | Path):
        return load_device(device)
    raise InputError(f"device = {shown(device)}: expected a Device, the name of one or the path of its file")


def _unknown(name: str) -> str:
    names = [*device_names(), *own_device_names()]
    nearest = get_close_matches(name.lower(), names, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return f"device = {shown(name)}: neither a shipped profile ({', '.join(names)}) nor a file{hint}"
