"""What changes work on: single ops, and programs on a device with their sources.

An op is work on an engine, of a stage, and names its memory or does not. Ops of the legacy default stream are also put
elsewhere, in non-blocking streams.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from streamsim import program
from streamsim.device import Device, with_values, written_in
from streamsim.errors import Checked
from streamsim.rules import S_PER_TICK
from streamsim.timeline import Timeline

# Single ops

NON_BLOCKING: tuple[program.StreamKind, ...] = ("non-blocking",)
SHORT_WORK_S = 1e-3  # work of the host up to so long, without a name, is what the front end does for a call
CardOp = program.Copy | program.Kernel
WORK = {program.Copy, program.Kernel}
COPIES_IN, KERNELS, COPIES_BACK = range(3)  # the stages of a pipeline, in their order


def is_work(op: program.Op) -> bool:
    """Return True if an op runs on an engine."""
    return type(op) in WORK  # four times as fast as isinstance; millions are asked


def is_load(op: program.Op) -> bool:
    """Return True if an op copies to the card."""
    return isinstance(op, program.Copy) and op.direction == "h2d"


def working_streams(schedule: program.Schedule) -> set[int]:
    """Return the streams that have copies or kernels."""
    return {op.stream for op in schedule.ops if isinstance(op, program.Copy | program.Kernel)}


def last_work(schedule: program.Schedule) -> int:
    """Return the index of the last copy or kernel; -1 for none."""
    n = len(schedule.ops)
    return next((i for i in range(n - 1, -1, -1) if is_work(schedule.ops[i])), -1)


def names_memory(op: program.Op) -> bool:
    """Return True if an op says what it touches on the card; one that puts nothing on an engine touches nothing."""
    if isinstance(op, program.Kernel):
        return bool(op.reads or op.writes)
    return not isinstance(op, program.Copy) or op.device is not None


def is_of_a_call(op: program.Op) -> bool:
    """Return True if an op is a front end's work for a call, not the program's own: short, without a name."""
    return isinstance(op, program.HostWork) and not op.name and op.duration_s <= SHORT_WORK_S


def stage_of(op: program.Op) -> int:
    """Return the stage of a copy or kernel in a pipeline; of anything else that of kernels."""
    if isinstance(op, program.Copy):
        return COPIES_IN if op.direction == "h2d" else COPIES_BACK
    return KERNELS


def has_legacy(schedule: program.Schedule) -> bool:
    """Return True if the legacy default stream and blocking streams wait for each other."""
    used = working_streams(schedule)
    return program.LEGACY_STREAM in used and any(s and schedule.streams[s - 1] == "blocking" for s in used)


def orders_unknown(schedule: program.Schedule) -> bool:
    """Return True if the legacy default stream orders ops of other streams, and some op names no memory."""
    return has_legacy(schedule) and not all(map(names_memory, schedule.ops))


def legacy_apart(schedule: program.Schedule) -> program.Schedule:
    """Return the legacy default stream's ops in a stream of their own. An order that they lose is not kept."""
    own = len(schedule.streams) + 1
    ops = [replace(op, stream=own) if op.stream == program.LEGACY_STREAM else op for op in schedule.ops]
    return replace(schedule, ops=tuple(ops), streams=NON_BLOCKING * own)


def legacy_beside(schedule: program.Schedule) -> program.Schedule:
    """Return the legacy default stream's ops in the stream of the latest op before them in another one.

    Where ops do not name their memory, that is the order that they most likely need: a kernel behind its chunk's copy.
    Before all others they go to the stream of the first of those. All streams are non-blocking.
    """
    others = (
        op.stream
        for op in schedule.ops
        if isinstance(op, program.Copy | program.Kernel) and op.stream != program.LEGACY_STREAM
    )
    latest, ops = next(others, program.LEGACY_STREAM), list[program.Op]()
    for op in schedule.ops:
        if op.stream == program.LEGACY_STREAM:
            op = replace(op, stream=latest)
        elif isinstance(op, program.Copy | program.Kernel):
            latest = op.stream
        ops.append(op)
    return replace(schedule, ops=tuple(ops), streams=NON_BLOCKING * len(schedule.streams))


def without_legacy(schedule: program.Schedule) -> program.Schedule:
    """Return the schedule with the legacy default stream's ops elsewhere, in non-blocking streams.

    An order that the ops lose is not kept. A schedule without such ops is returned unchanged.
    """
    if program.LEGACY_STREAM not in working_streams(schedule):
        return schedule
    return legacy_beside(schedule) if orders_unknown(schedule) else legacy_apart(schedule)


# Programs

# Workers hand batches over in shared memory, whose pages the training process touches first. On an H100's host, such
# memory was staged at 3.4 GB/s, and memory touched before at 6.7 GB/s. It was pinned as slowly.
FIRST_TOUCH_PACE = 0.5  # share of the pageable rate


class Source(Checked, frozen=True):
    """The workload and the configuration that a schedule was made from."""

    workload: program.Workload
    config: program.Config


class LayersSource(Checked, frozen=True):
    """The layers and the configuration that a schedule was made from. A layer is streamed whole and never cut."""

    layers: program.Layers
    config: program.Offload


class LoopSource(Checked, frozen=True):
    """The training loop that a schedule was made from, and the card without what the loop does to its host's times."""

    loop: program.Loop
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
    - ``origins``: of each copy and kernel, the ops of ``first`` that it does, or has on the card now.
    """

    schedule: program.Schedule
    device: Device
    source: Origin | None = None
    first: program.Schedule | None = None
    origins: tuple[tuple[int, ...], ...] = ()

    @property
    def pipeline(self) -> Source | None:
        """Return the source if it is a workload, else None."""
        return self.source if isinstance(self.source, Source) else None

    def seconds_of(self, timeline: Timeline) -> float:
        """Return the measured seconds of the schedule's time line: of a training loop from step to step once warm."""
        if not isinstance(self.source, LoopSource):
            return timeline.makespan_s
        ends = [timeline.end[i] for i, op in enumerate(self.schedule.ops) if isinstance(op, program.Kernel)]
        warm = self.source.loop.warm_steps
        return (ends[2 * warm - 1] - ends[warm - 1]) * S_PER_TICK / warm

    def issued(self, schedule: program.Schedule, does: Iterable[Collection[int]] | None = None) -> Work:
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
