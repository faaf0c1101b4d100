"""Recorders: what a profiler takes of the host's own time, as a ratio of recorded over plain.

As a ratio it carries over from host to host: a fast host records faster, too. A profile may have those of its own host;
where it has none, those of ``recorders.toml`` count.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from streamsim.checks import check_is, check_number
from streamsim.errors import InputError
from streamsim.files.documents import parse_toml

if TYPE_CHECKING:
    from streamsim.device.profile import Device

SHIPPED = files("streamsim.device") / "recorders.toml"
LARGEST_RATIO = 10.0
PYTORCH, SHAPES, STACK, CALLS = "pytorch", "pytorch-shapes", "pytorch-stack", "calls"
RECORDERS = (PYTORCH, SHAPES, STACK, CALLS)


class Recorder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A profiler. ``ratio``: the host's own time recorded over plain; ``backward``: of programs with a backward pass.

    ``least``, ``most``: between which both lie.
    ``source``: where the ratio comes from, as in a profile's ``sources``.
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
    """The recorder of that name: the profile's own, or else the shipped one."""
    return device.recorders.get(name) or _shipped()[name]


def _shipped() -> dict[str, Recorder]:
    return parse_toml(SHIPPED.read_bytes(), _Shipped, "recorders", SHIPPED.name).recorders
