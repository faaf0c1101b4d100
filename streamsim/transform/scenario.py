"""Programs on a device, with their sources: the values that changes take and return."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from streamsim.checks import check_is
from streamsim.device import Device
from streamsim.program import Config, Layers, Offload, Schedule, Workload
from streamsim.transform.ops import is_work


class Scenario(NamedTuple):
    """A schedule on a device."""

    schedule: Schedule
    device: Device


class Source(msgspec.Struct, frozen=True):
    """The workload and the configuration that a schedule was made from."""

    workload: Workload
    config: Config

    def __post_init__(self) -> None:
        check_is("workload", self.workload, Workload)
        check_is("config", self.config, Config)


class LayersSource(msgspec.Struct, frozen=True):
    """The layers and the configuration that a schedule was made from. A layer is streamed whole and never cut."""

    layers: Layers
    config: Offload

    def __post_init__(self) -> None:
        check_is("layers", self.layers, Layers)
        check_is("config", self.config, Offload)


Origin = Source | LayersSource


class Case(NamedTuple):
    """A schedule on a device.

    - ``source``: what the schedule was made from; None if that is unknown.
    - ``first``: the schedule before all changes, which may show more of what chunks share; None if nothing changed.
    - ``origins``: of each copy and kernel, the ops of ``first`` that it does: several of a merged one.
    """

    schedule: Schedule
    device: Device
    source: Origin | None = None
    first: Schedule | None = None
    origins: tuple[tuple[int, ...], ...] = ()

    @property
    def scenario(self) -> Scenario:
        """Return the schedule and the device alone."""
        return Scenario(self.schedule, self.device)

    @property
    def pipeline(self) -> Source | None:
        """Return the source if it is a workload, else None."""
        return self.source if isinstance(self.source, Source) else None

    def issued(self, schedule: Schedule, does: Iterable[Collection[int]] | None = None) -> Case:
        """Return another schedule on the same device, without a source.

        ``does``: of each of its copies and kernels, the ops of this schedule that it does; None: one each, in order.
        """
        works = [i for i, op in enumerate(self.schedule.ops) if is_work(op)]
        origins = dict(zip(works, self.origins or ((i,) for i in works), strict=True))
        if does is None:
            does = [(i,) for i in works]
        found = (tuple(chain.from_iterable(map(origins.__getitem__, some))) for some in does)
        return Case(schedule, self.device, None, self.first or self.schedule, tuple(found))

    def with_options(self, **options: Any) -> Case:
        """Return the source's workload with other options. Raises InputError if they do not go together."""
        assert isinstance(self.source, Source)
        source = Source(self.source.workload, replace(self.source.config, **options))
        schedule = source.config.schedule(source.workload)
        return Case(schedule, self.device, source)
