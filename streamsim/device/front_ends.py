"""Front ends and recorders: what calls cost in the language of a program, and under a profiler.

The library or language that a program is written in sets the host's seconds in each call. A call of an array library
takes several times as long as the bare CUDA call that it makes. The library also has to make the call's stream the
current one. A profile's ``host`` has the times of bare calls, made through CuPy's ``runtime``. A FrontEnd has the
times of a library, or of compiled programs, on the same host. A profile without a front end uses the one in
``front_ends.toml``: the mean of the calibrated hosts.

A profiler that records makes calls longer, by a ratio. A fast host also records faster, so a ratio holds on other
hosts. A profile may have recorders measured on its own host. Without them, those of ``front_ends.toml`` count.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import msgspec

from streamsim.device.profile import CALLS, IN_LOOPS, TIMES, Device, FrontEnd, RecorderCost
from streamsim.errors import InputError
from streamsim.files import parse_toml
from streamsim.text import shown

COMPILED = "cuda-c++"  # the front end of compiled programs; without it, a profile uses its bare calls
SEPARATOR = ":"  # between the name of a device and that of a front end

# Only bare calls and compiled programs have it. A library's calls are measured in rounds over streams: their mean
# includes the first calls on each stream.
FIRST_ON_STREAM = "first_on_stream_s"
LINEAR = "linear"  # the name of a kernel whose call is ``linear_s``


class _Shipped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    front_ends: dict[str, FrontEnd]
    recorders: dict[str, RecorderCost]


@cache
def _shipped() -> _Shipped:
    return parse_toml(
        (files("streamsim.device") / "front_ends.toml").read_bytes(), _Shipped, "front_ends", "front_ends.toml"
    )


def shipped_front_ends() -> Mapping[str, FrontEnd]:
    """Return the shipped front ends by name, for profiles that have none of their own."""
    return MappingProxyType(_shipped().front_ends)


def recorder_of(device: Device, name: str) -> RecorderCost:
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
