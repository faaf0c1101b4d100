"""Device profiles by name: shipped ones, those in TOML files, and those made from a card's name.

In a shipped profile, every number has a source.

**Front ends.** The library or language that a program is written in sets the host's seconds in each call. A call of an
array library takes several times as long as the bare CUDA call that it makes, and the library also has to make the
call's stream the current one. A profile's ``host`` has the times of bare calls. A FrontEnd has the times of a library,
or of compiled programs, on the same host. A profile without a front end uses the one in ``assumed.toml``: the mean
of the calibrated hosts.

**Cards without a profile.** A card's name shows the generation of PCIe, the lanes, and the threads that a
multiprocessor holds (``assumed.toml``). The rates of pinned copies follow from the link. They are assumed, and the
profile's sources say so. Numbers that need a calibration (latencies, hand-overs, the host) are those of the other
profiles without one.
"""

import os
import re
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from streamsim.device.profile import RETIRED, Device, with_values
from streamsim.device.tables import CALLS, DIRECTIONS, IN_LOOPS, TIMES, FrontEnd
from streamsim.errors import InputError, Notice, shown
from streamsim.files import parse_toml, toml_of
from streamsim.program import Layers, LoopFile, ScheduleFile, WorkloadFile, WorkloadKernel

COMPILED = "cuda-c++"  # the front end of compiled programs; without it, a profile uses its bare calls
SEPARATOR = ":"  # between the name of a device and that of a front end
LINEAR = "linear"  # the name of a kernel whose call is ``linear_s``
SUFFIX = ".toml"
SHIPPED = files("streamsim.device")
PROFILES = SHIPPED / "profiles"

PATTERN = "t4"  # a profile of published figures, for all numbers that do not depend on the card
LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}  # by generation of PCIe
PAGEABLE_SHARE = 0.5  # rate of pageable copies over that of pinned copies
IN_FLIGHT_S = 1.75e-6  # the bytes in flight are those that the link carries in this time
_LINK = re.compile(r"PCIe gen ([1-6]) x(\d+)")
# Words that make another card of it behind a model's number.
VARIANTS = "ti|super|laptop|max|mobile|d|nvl|ada|gx"
MAKERS = ("nvidia", "geforce", "tesla", "gpu", "amd", "graphics")  # words that a profile's name does without


class Generation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cards of one generation with one link.

    - ``names``: a regular expression for their names. The last generation has every name, and no link.
    - ``threads``: those that a multiprocessor holds (0: unknown).
    - ``beside``: the rate beside the other direction over the rate alone, H2D and D2H, if it is known.
    """

    names: str
    words: str
    link: str
    threads: int
    beside: tuple[float, float] | None = None


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The assumed rates of pinned copies over a link, and the reason."""

    h2d_bytes_per_s: float
    d2h_bytes_per_s: float
    why: str


class _Assumed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What profiles take that nobody calibrated: see ``assumed.toml``."""

    front_ends: dict[str, FrontEnd]
    generations: tuple[Generation, ...]
    links: dict[str, Link]


@cache
def _assumed() -> _Assumed:
    return parse_toml((SHIPPED / "assumed.toml").read_bytes(), "assumed.toml", _Assumed, "assumed")


def device_names() -> list[str]:
    """Return the names of the shipped profiles, in alphabetical order."""
    return sorted(file.name.removesuffix(SUFFIX) for file in PROFILES.iterdir() if file.name.endswith(SUFFIX))


def digest_of(device: Device) -> str:
    """Return a digest, 16 hexadecimal digits, of all numbers and rules that predictions take from a profile."""
    words = ("name", "description", "sources", "link")
    numbers = [getattr(device, field) for field in device.__struct_fields__ if field not in words]
    return sha256(msgspec.json.encode(numbers)).hexdigest()[:16]


# Files


def read_device(path: str | os.PathLike[str]) -> Device:
    """Read the device profile in a TOML file. Raises InputError naming the file, the field and the value."""
    return parse_device(*toml_of(path))


def parse_device(text: str | bytes, where: str = "device") -> Device:
    """Return the profile in the TOML ``text``. Raises InputError whose message begins with ``where``."""
    return parse_toml(text, where, Device, "device", prepared=without_retired)


def without_retired(profile: dict[str, Any]) -> dict[str, Any]:
    """Return a profile, as plain data, without the retired numbers, their sources and spreads."""
    found = {}
    for table, part in profile.items():
        prefix = "" if table in ("sources", "spread") else f"{table}."
        is_table = isinstance(part, dict)
        found[table] = {k: v for k, v in part.items() if f"{prefix}{k}" not in RETIRED} if is_table else part
    return found


# Cards by name


def load_device(name_or_path: str | Path) -> Device:
    """Load a device profile by its name or from a TOML file.

    A shipped profile's name comes first, in upper or lower case, then a path, then a card's
    name as a recording has it, such as ``NVIDIA GeForce GTX 1060``. ``h200:cupy`` is the profile ``h200`` with the
    calls of CuPy programs: :mod:`streamsim.device.library`. Raises InputError for an unknown name
    (listing the known names and the nearest one) and for a bad file.

    Warns with a :class:`streamsim.errors.Notice` if the profile is made from a card's name.
    """
    name, path = str(name_or_path), Path(name_or_path)
    if names_front_end(name):
        card, _, front_end = name.rpartition(SEPARATOR)
        return with_front_end(load_device(card), front_end.lower())
    if name.lower() in device_names():
        file = f"{name.lower()}{SUFFIX}"
        return parse_device((PROFILES / file).read_bytes(), file)
    is_file = os.path.isfile(path) or path.suffix == SUFFIX
    return read_device(path) if is_file else _card_named(name)


def _card_named(name: str) -> Device:
    """Return the profile of a card's name. Raises InputError if the name shows no card."""
    names, is_name = device_names(), Path(name).name == name and name.isprintable()
    if is_name and (profile_named(name) or generation_of(name).link):
        card = profile_of_card(name)
        if card.name not in names:
            warnings.warn(assumptions_of(card), Notice, stacklevel=3)
        return card
    nearest = get_close_matches(name.lower(), names, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise InputError(f"device = {shown(name)}: neither a shipped profile ({', '.join(names)}) nor a file{hint}")


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


def words_of(card: str) -> str:
    """Return a card's name in lower case with its model as one word: ``NVIDIA GeForce RTX 3080`` ends in rtx3080."""
    words = re.sub(r"[^a-z0-9]+", " ", card.lower()).strip()
    return re.sub(r"\b(rtx|gtx|gt) (a?\d)", r"\1\2", words)


def profile_named(card: str) -> str | None:
    """Return the name of the shipped profile of a card, or None if there is none.

    For example, ``"NVIDIA A100-SXM4-40GB"`` gives ``a100``. A variant such as ``RTX 3080 Ti`` is another card.
    """
    cards = [name for name in device_names() if not name.startswith("ideal")]
    found = [name for name in cards if re.search(_form_of(name), words_of(card))]
    return max(found, key=len, default=None)


def _form_of(profile: str) -> str:
    """Return a regular expression for the words of cards that have this shipped profile."""
    words = " ?".join(re.findall(r"[a-z]+|[0-9]+", profile))
    return rf"\b{words}\b(?!.*\b({VARIANTS})\b)"


def generation_of(card: str) -> Generation:
    """Return the generation that a card's name shows."""
    words = words_of(card)
    return next(kind for kind in _assumed().generations if re.search(kind.names, words))


def link_limit(link: str) -> float:
    """Return the raw rate of a link such as ``PCIe gen 4 x16``, bytes per second; infinite for an unknown link."""
    match = _LINK.search(link)
    return float("inf") if match is None else LANE_BYTES_PER_S[int(match[1])] * int(match[2])


def profile_of_card(card: str, multiprocessors: int = 0, memory_bytes: int = 0, copy_engines: int = 0) -> Device:
    """Return the shipped profile of a card's name, or one made from the name, with what a recording says of the card.

    ``multiprocessors``, ``memory_bytes``, ``copy_engines``: 0 if unknown.
    """
    name = profile_named(card)
    device = _made_from_name(card, multiprocessors) if name is None else load_device(name)
    sources, values, count = dict(device.sources), {}, min(copy_engines, 2)
    if memory_bytes:
        sources["memory_bytes"] = "measured: as the recording says"
        device = replace(device, memory_bytes=memory_bytes, sources=sources)
    if count not in (0, device.copy_engines.count):
        sources["copy_engines.count"] = f"measured: {copy_engines}, as the recording says"
        values["copy_engines.count"] = count
    return replace(with_values(device, values), sources=sources)


def _made_from_name(card: str, multiprocessors: int) -> Device:
    """Return a profile made from the name of a card that has none."""
    kind = generation_of(card)
    *both, why = msgspec.structs.astuple(_assumed().links[kind.link])
    pattern = load_device(PATTERN)
    values: dict[str, float | int] = {}
    sources = {name: text for name, text in pattern.sources.items() if name != "memory_bytes"}
    for k, (direction, rate) in enumerate(zip(DIRECTIONS, both, strict=True)):
        link = getattr(pattern, direction)
        loss = kind.beside[k] if kind.beside else link.duplex_bandwidth_bytes_per_s / link.bandwidth_bytes_per_s
        rates = {"": 1.0, "crowded_": 1.0, "duplex_": loss, "pageable_": PAGEABLE_SHARE}
        values |= {f"{direction}.{name}bandwidth_bytes_per_s": rate * share for name, share in rates.items()}
        values[f"{direction}.in_flight_bytes"] = round(rate * IN_FLIGHT_S)
        sources[f"{direction}.bandwidth_bytes_per_s"] = f"assumed: {why}"
    values["compute.resident_threads"] = multiprocessors * kind.threads
    threads = f"{multiprocessors} multiprocessors of {kind.threads} threads each (0: unknown)"
    sources["compute.resident_threads"] = f"assumed: {threads}"
    sources["compute.concurrent_kernels"] = "assumed: 128, as cards since Volta"
    return replace(
        with_values(replace(pattern, memory_bytes=None, sources=sources), values),
        name="-".join(word for word in words_of(card).split() if word not in MAKERS)[:40] or "unknown-card",
        description=f"{card or 'a card without a name'}: made from its name ({kind.words}), not measured",
        link=kind.link,
    )


def assumptions_of(device: Device) -> str:
    """Return the assumed rates of a profile on one line, or "" if its rates are measured or published."""
    rates = _both(device, "bandwidth_bytes_per_s")
    return f"{device.name}: nobody measured its pinned copies; {rates}" if "assumed" in rates else ""


# Front ends


def shipped_front_ends() -> Mapping[str, FrontEnd]:
    """Return the shipped front ends by name, for profiles that have none of their own."""
    return _assumed().front_ends


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
    if name != COMPILED:  # a library's calls are measured in rounds, so that their mean includes each stream's first
        calls["first_on_stream_s"] = 0.0
    names = [f"host.{field}" for field in calls]
    return replace(
        device,
        name=f"{device.name}{SEPARATOR}{name}",
        host=replace(device.host, **calls),
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


# The link that a prediction assumes, and how well it is known

BYTES_PER_GB = 1e9
PUBLISHED_WITHIN = 0.10  # how far predictions with assumed latencies were off: figures/published.py


def known_within(device: Device | None) -> float:
    """Return the relative error of predictions on ``device`` if its latencies are assumed, else 0.

    The error was seen in published cases: 0.10 is 10 %. A recorded time line has no device, and no error.
    """
    source = "" if device is None else device.sources.get("h2d.latency_s", "")
    return PUBLISHED_WITHIN if source.startswith("assumed") else 0.0


def within_words(device: Device | None) -> list[str]:
    """Return a line that says how far predictions may be off if the latencies of ``device`` are assumed, else none."""
    if device is None or not (within := known_within(device)):
        return []
    return [f"{device.name}: times may be off by {within * 100:g} %; its latencies are assumed"]


def link_words(device: Device | str | Path, pageable: bool = False) -> str:
    """Return the link's name and rates, each with the kind of its source, on one line.

    For example ``PCIe gen 4 x16; H2D 25.7, D2H 25.8 GB/s published; both at once H2D 12, ...``. An assumed rate
    has the reason behind it. With ``pageable``, the line also has the rates of pageable memory.
    """
    device = as_device(device)
    parts = [device.link] if device.link else []
    parts.append(_both(device, "bandwidth_bytes_per_s"))
    if device.copy_engines.count < 2:
        parts.append("one direction at a time")
    else:
        parts.append(f"both at once {_both(device, 'duplex_bandwidth_bytes_per_s')}")
    if pageable:
        parts.append(f"pageable {_both(device, 'pageable_bandwidth_bytes_per_s')}")
    return "; ".join(parts)


def _both(device: Device, field: str) -> str:
    there, back = (f"{getattr(link, field) / BYTES_PER_GB:.3g}" for link in (device.h2d, device.d2h))
    sources = [device.source(f"{direction}.{field}") for direction in DIRECTIONS]
    kinds = dict.fromkeys(kind for kind, _ in sources)
    reasons = dict.fromkeys(re.split("[;:,]", text)[0].strip() for kind, text in sources if kind == "assumed")
    why = f" ({' and '.join(reasons)})" if reasons else ""
    return f"H2D {there}, D2H {back} GB/s {' and '.join(kinds)}{why}"


# Forms of files


KINDS: dict[str, type[msgspec.Struct]] = {
    "schedule": ScheduleFile,
    "workload": WorkloadFile,
    "layers": Layers,
    "loop": LoopFile,
    "device": Device,
}


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a file of one of the :data:`KINDS`.

    In TOML, text such as ``"64MiB"`` may stand for each number, and text or a number for a kernel's table.
    """
    form = msgspec.json.encode(msgspec.json.schema(KINDS[kind])).decode()
    if kind != "schedule":
        form = re.sub(r'"type":"(integer|number)"', r'"type":["\1","string"]', form)
        kernel = f'{{"$ref":"#/$defs/{WorkloadKernel.__name__}"}}'
        form = form.replace(kernel, f'{{"anyOf":[{kernel},{{"type":["string","number"]}}]}}')
    plain: dict[str, Any] = msgspec.json.decode(form)
    return plain
