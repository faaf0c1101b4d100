"""Recorders: profilers, and how much longer the host's own work takes while they record.

The cost is a ratio, recorded time over plain time. A fast host also records faster, so a ratio holds on other hosts.
A profile may have recorders measured on its own host. Without them, ``recorders.toml`` counts.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from streamsim.checks import check_is, check_number
from streamsim.errors import InputError
from streamsim.files import parse_toml

if TYPE_CHECKING:
    from streamsim.device.profile import Device

SHIPPED = files("streamsim.device") / "recorders.toml"
LARGEST_RATIO = 10.0
PYTORCH, SHAPES, STACK, CALLS = "pytorch", "pytorch-shapes", "pytorch-stack", "calls"
RECORDERS = (PYTORCH, SHAPES, STACK, CALLS)


class Recorder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cost of a profiler: ratios of the host's own time, recorded over plain, from 1 to 10.

    ``ratio`` holds for programs without a backward pass, ``backward`` for programs with one. Both lie between ``least``
    and ``most``. ``source``: the origin of the ratios, as in a profile's ``sources``.
    """

    ratio: float
    backward: float
    least: float
    most: float
    source: str

    def __post_init__(self) -> None:
        for name in ("least", "most", "ratio", "backward"):
            value = getattr(self, name)
            check_number(name, value, 1.0, LARGEST_RATIO)
            if not self.least <= value <= self.most:
                raise InputError(f"{name} = {value:g}: expected it from least = {self.least:g} to most = {self.most:g}")
        check_is("source", self.source, str)


class _Shipped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    recorders: dict[str, Recorder]


def recorder_of(device: Device, name: str) -> Recorder:
    """Return the recorder ``name``: the profile's own, or else the shipped one."""
    return device.recorders.get(name) or _shipped()[name]


def _shipped() -> dict[str, Recorder]:
    return parse_toml(SHIPPED.read_bytes(), _Shipped, "recorders", SHIPPED.name).recorders
