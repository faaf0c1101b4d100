"""A program and where it runs: what every change takes and gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

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


class Case(NamedTuple):
    """A schedule on a device, and what the schedule was made from, if that is known."""

    schedule: Schedule
    device: Device
    source: Origin | None = None

    @property
    def scenario(self) -> Scenario:
        """The schedule and the device alone."""
        return Scenario(self.schedule, self.device)

    @property
    def pipeline(self) -> Source | None:
        """The source, if that is a workload."""
        return self.source if isinstance(self.source, Source) else None

    def issued(self, schedule: Schedule) -> Case:
        """Another schedule, of which no source is known."""
        return Case(schedule, self.device)

    def with_options(self, **options: Any) -> Case:
        """The workload of the source with other options. Raises InputError for some that do not go together."""
        assert isinstance(self.source, Source)
        source = Source(self.source.workload, replace(self.source.config, **options))
        return Case(source.config.schedule(source.workload), self.device, source)
