"""Shipped device profiles: one TOML file for each, every number in it with its source.

Profiles of one's own are found by name as well, in :func:`own_folder`.
"""

import os
import sys
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

import msgspec

from streamsim.device.files import parse_device, read_device
from streamsim.device.front_ends import COMPILED, SEPARATOR, with_front_end
from streamsim.device.profile import Device
from streamsim.errors import InputError
from streamsim.text.shown import shown

SUFFIX = ".toml"
PROFILES = files("streamsim.device") / "profiles"


def device_names() -> list[str]:
    """Names of the shipped profiles, in alphabetical order."""
    return sorted(file.name.removesuffix(SUFFIX) for file in PROFILES.iterdir() if file.name.endswith(SUFFIX))


def own_folder() -> Path:
    """Return the folder of one's own profiles: ``streamsim/devices`` where the system keeps configurations."""
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
    """Names of the profiles in :func:`own_folder`, in alphabetical order, without those of shipped profiles."""
    try:
        names = {file.name.removesuffix(SUFFIX) for file in own_folder().iterdir() if file.name.endswith(SUFFIX)}
    except OSError:  # there is no such folder
        return []
    return sorted(names - set(device_names()))


def load_device(name_or_path: str | Path) -> Device:
    """Load the shipped profile of that name (in capitals or not), else one's own, else the TOML file at that path.

    ``h200:cupy`` is the profile ``h200`` with the calls of programs in CuPy: :mod:`streamsim.device.front_ends`.
    Raises InputError for an unknown name (listing the known ones and the nearest) and for a bad file.
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
    """16 hexadecimal digits that stand for all that predictions take from a profile: another number, other digits."""
    from hashlib import sha256  # most commands do without

    words = ("name", "description", "sources", "link")
    numbers = [getattr(device, field) for field in device.__struct_fields__ if field not in words]
    return sha256(msgspec.json.encode(numbers)).hexdigest()[:16]


def names_front_end(name_or_path: str | Path) -> bool:
    """Whether it ends in the name of a front end, as ``h200:cupy`` does."""
    _, separator, front_end = str(name_or_path).rpartition(SEPARATOR)
    is_name = front_end.isidentifier() or front_end.lower() == COMPILED
    return bool(separator) and is_name and not os.path.isfile(name_or_path)


def as_device(device: Device | str | Path) -> Device:
    """``device`` itself, or what :func:`load_device` makes of a name or a path: so a name does wherever a device does.

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
