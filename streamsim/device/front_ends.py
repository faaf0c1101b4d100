"""Front ends: what a program is written in, which sets what its calls cost the host.

A call of an array library takes several times as long as the bare call that it makes in the end, and there is one more:
entering the stream that is to be the current one. A profile's ``host`` has the bare calls, as CuPy's ``runtime`` makes
them; a :class:`~streamsim.device.front_end_calls.FrontEnd` has those of a library on that host, or of compiled
programs. Where a profile has none of its own, it is taken to have those of ``front_ends.toml``, the means of the hosts
that were calibrated.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from streamsim.device.front_end_calls import IN_LOOPS, TIMES, FrontEnd
from streamsim.errors import InputError
from streamsim.files.documents import parse_toml
from streamsim.text.shown import shown

if TYPE_CHECKING:
    from streamsim.device.profile import Device

CALLS = "calls"  # the name of the bare calls
COMPILED = "cuda-c++"  # of bare calls as compiled programs make them; where a profile has none, those are its own
SEPARATOR = ":"  # between the name of a device and that of a front end
SHIPPED = files("streamsim.device") / "front_ends.toml"

# Of bare calls, compiled ones too. A library's are found in rounds over streams: a mean with the first ones.
FIRST_ON_STREAM = "first_on_stream_s"
LINEAR = "linear"  # the name of a kernel whose call is ``linear_s``


class _Shipped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    front_ends: dict[str, FrontEnd]


def shipped_front_ends() -> dict[str, FrontEnd]:
    """Those of hosts that have no calls of their own in their profile, by name."""
    return parse_toml(SHIPPED.read_bytes(), _Shipped, "front ends", SHIPPED.name).front_ends


def front_end_names(device: Device) -> list[str]:
    """What programs for ``device`` may be written in: its own front ends and the shipped ones."""
    return [CALLS, *sorted({COMPILED, *device.front_ends, *shipped_front_ends()})]


def with_front_end(device: Device, name: str) -> Device:
    """``device`` with the calls of a program that is written in ``name``: "cupy", "pytorch" or "calls", as it is.

    It is called ``device:name`` then. Programs in "cuda-c++" have bare calls, too: those of compiled programs where the
    profile has them. Raises InputError for an unknown front end.
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
    """The name of the front end whose calls ``device`` has; "calls" where it has its own."""
    _, separator, name = device.name.rpartition(SEPARATOR)
    return name if separator and name in front_end_names(device) else CALLS


def written_in(device: Device, name: str) -> Device:
    """``device`` with the calls of the front end that a workload names ("": none), unless it has another's already.

    Raises InputError as :func:`with_front_end`.
    """
    return with_front_end(device, name.lower()) if name and front_end_of(device) == CALLS else device
