"""A program and where it runs: what every change takes and gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from streamsim.checks import check_is
from streamsim.program.config import Config
from streamsim.program.layers import Layers
from streamsim.program.offload import Offload
from streamsim.program.workload import Workload

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.program.schedule import Schedule


class Scenario(NamedTuple):
    """A schedule on a device."""

    schedule: Schedule
    device: Device


class Source(msgspec.Struct, frozen=True):
    """What a schedule was made from: then its chunks can be made finer or coarser exactly."""

    workload: Workload
    config: Config

    def __post_init__(self) -> None:
        check_is("workload", self.workload, Workload)
        check_is("config", self.config, Config)


class LayersSource(msgspec.Struct, frozen=True):
    """What a schedule of layers was made from: they are streamed in their order and whole, and never cut."""

    layers: Layers
    config: Offload

    def __post_init__(self) -> None:
        check_is("layers", self.layers, Layers)
        check_is("config", self.config, Offload)


Origin = Source | LayersSource
