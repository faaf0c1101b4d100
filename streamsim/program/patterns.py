"""Patterns: the ways people cut a workload into chunks and issue it, each as a Schedule.

Chunk i of N runs in stream i mod S. See :mod:`streamsim.program.loops` for the loops, and
:mod:`streamsim.program.pipeline` for the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from streamsim.program.config import Config, HostMemory, ring_config
from streamsim.program.schedule import Copy, HostWork, Kernel, Schedule, StreamKind, Synchronize, check_schedule

if TYPE_CHECKING:
    from streamsim.program.loops import Order
    from streamsim.program.schedule import Launch, Op
    from streamsim.program.workload import Workload

NON_BLOCKING: tuple[StreamKind, ...] = ("non-blocking",)


def build(
    workload: Workload,
    order: Order = "depth-first",
    chunks: int = 1,
    streams: int = 1,
    buffers: int | None = None,
    memory: HostMemory = "pinned",
    launch: Launch = "live",
) -> Schedule:
    """The schedule that the command's options describe. Raises InputError when they do not go together."""
    return Config(order, chunks, streams, buffers, memory, launch).schedule(workload)


def serial(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned") -> Schedule:
    """The program people start from: blocking copies, one chunk after another, nothing overlaps."""
    return Config("serial", chunks, memory=memory).schedule(workload)


def depth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """For each chunk in turn: its H2D copies, its kernels, its D2H copies."""
    return Config("depth-first", chunks, streams, None, memory, launch).schedule(workload)


def one_stream(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned", launch: Launch = "live") -> Schedule:
    """Asynchronous, but all in one stream: nothing overlaps on the card."""
    return depth_first(workload, chunks, 1, memory, launch)


def breadth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Stage by stage: the H2D copies of all chunks, then all kernels, then all D2H copies."""
    return Config("breadth-first", chunks, streams, None, memory, launch).schedule(workload)


def ring(
    workload: Workload,
    chunks: int,
    buffers: int,
    streams: int | None = None,
    memory: HostMemory = "pinned",
    launch: Launch = "live",
) -> Schedule:
    """Depth-first with ``buffers`` device buffers of one chunk each (2: double buffering).

    Chunk i uses the buffer of chunk i - k again, so it waits until that chunk's work on it has ended: by
    stream order where both run in one stream, by an event otherwise. ``streams`` defaults to ``buffers``.
    """
    return ring_config(chunks, buffers, streams, memory, launch).schedule(workload)


def prefetch(
    workload: Workload, chunks: int, buffers: int = 2, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Copy batch i + 1 beside the kernels of batch i, as a training or inference loop does.

    Stream 1 copies in, stream 2 runs the kernels, stream 3 copies out; ``buffers`` batches fit on the card.
    Events: 3i when batch i is on the card, 3i + 1 when its kernels have run, 3i + 2 when its output is back. What is
    copied once goes before the first batch, and behind the last batch's kernels.
    """
    return Config("prefetch", chunks, 1, buffers, memory, launch).schedule(workload)


def serialized(schedule: Schedule) -> Schedule:
    """The same copies, kernels and host work one by one: in one stream, with blocking copies, as in :func:`serial`.

    That is what the schedule would take without overlap, cut as it is.
    """
    check_schedule("schedule", schedule)
    ops: list[Op] = []
    for op in schedule.ops:
        if isinstance(op, Copy):
            ops.append(msgspec.structs.replace(op, stream=1, blocking=True))
        elif isinstance(op, Kernel):
            ops.append(msgspec.structs.replace(op, stream=1))
        elif isinstance(op, HostWork):
            ops.append(op)
    name = f"{schedule.name} one by one".strip()
    return Schedule((*ops, Synchronize()), NON_BLOCKING, schedule.buffers, name=name)
