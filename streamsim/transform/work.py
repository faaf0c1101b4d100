"""Programs on a device, with their sources: the values that changes take and return."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from streamsim.device import Device, with_values, written_in
from streamsim.errors import Checked
from streamsim.program import Config, Kernel, Layers, Loop, Offload, Schedule, Workload
from streamsim.rules import S_PER_TICK
from streamsim.timeline import Timeline
from streamsim.transform.ops import is_work

# Workers hand batches over in shared memory, whose pages the training process touches first. On an H100's host, such
# memory was staged at 3.4 GB/s, and memory touched before at 6.7 GB/s. It was pinned as slowly.
FIRST_TOUCH_PACE = 0.5  # share of the pageable rate


class Source(Checked, frozen=True):
    """The workload and the configuration that a schedule was made from."""

    workload: Workload
    config: Config


class LayersSource(Checked, frozen=True):
    """The layers and the configuration that a schedule was made from. A layer is streamed whole and never cut."""

    layers: Layers
    config: Offload


class LoopSource(Checked, frozen=True):
    """The training loop that a schedule was made from, and the card without what the loop does to its host's times."""

    loop: Loop
    card: Device

    def with_fields(self, **fields: Any) -> LoopSource:
        """Return the loop with other fields on the same card."""
        return LoopSource(replace(self.loop, **fields), self.card)

    @property
    def device(self) -> Device:
        """The card with PyTorch's calls, or its own front end's, and the rate at which its host stages the batches."""
        device = written_in(self.card, "pytorch")
        if not self.loop.workers or self.loop.has_own_pace:
            return device
        pace = device.h2d.pageable_bandwidth_bytes_per_s * FIRST_TOUCH_PACE
        return with_values(device, {"h2d.pageable_bandwidth_bytes_per_s": pace})

    @property
    def staging_s(self) -> float:
        """The seconds to copy a batch into pinned memory, at the rate at which the host stages pageable copies."""
        return self.loop.batch_bytes / self.device.h2d.pageable_bandwidth_bytes_per_s

    def work(self, steps: int = 0) -> Work:
        """Return the program of some steps; 0: of enough to measure the second half.

        Raises NoRoomError for batches that do not fit on the card.
        """
        loop, device = self.loop, self.device
        device.check_room(loop.slots * loop.batch_bytes, "use smaller batches, or a card with more memory")
        steps = steps or 2 * loop.warm_steps + 1  # behind the last one no batch is loaded
        return Work(loop.schedule(steps, self.staging_s), device, self)


Origin = Source | LayersSource | LoopSource


class Work(NamedTuple):
    """A program on a device.

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
    def pipeline(self) -> Source | None:
        """Return the source if it is a workload, else None."""
        return self.source if isinstance(self.source, Source) else None

    def seconds_of(self, timeline: Timeline) -> float:
        """Return the measured seconds of the schedule's time line: of a training loop from step to step once warm."""
        if not isinstance(self.source, LoopSource):
            return timeline.makespan_s
        ends = [timeline.end[i] for i, op in enumerate(self.schedule.ops) if isinstance(op, Kernel)]
        warm = self.source.loop.warm_steps
        return (ends[2 * warm - 1] - ends[warm - 1]) * S_PER_TICK / warm

    def issued(self, schedule: Schedule, does: Iterable[Collection[int]] | None = None) -> Work:
        """Return another schedule on the same device, without a source.

        ``does``: of each of its copies and kernels, the ops of this schedule that it does; None: one each, in order.
        """
        works = [i for i, op in enumerate(self.schedule.ops) if is_work(op)]
        origins = self.origins or tuple((i,) for i in works)
        if does is not None:
            of = dict(zip(works, origins, strict=True))
            origins = tuple(tuple(chain.from_iterable(map(of.__getitem__, some))) for some in does)
        return Work(schedule, self.device, None, self.first or self.schedule, origins)

    def with_options(self, **options: Any) -> Work:
        """Return the source's workload with other options. Raises InputError if they do not go together."""
        assert isinstance(self.source, Source)
        source = Source(self.source.workload, replace(self.source.config, **options))
        schedule = source.config.schedule(source.workload)
        return Work(schedule, self.device, source)
