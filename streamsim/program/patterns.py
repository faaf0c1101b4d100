"""Patterns: the usual ways to cut a workload into chunks and to issue them, each as a Schedule.

Chunk i of N runs in stream i mod S. The loops are in :mod:`streamsim.program.loops`, the memory in
:mod:`streamsim.program.pipeline`.
"""

import msgspec

from streamsim.program.config import Config, HostMemory, ring_config
from streamsim.program.loops import Order
from streamsim.program.schedule import (
    Copy,
    HostWork,
    Kernel,
    Launch,
    Op,
    Schedule,
    StreamKind,
    Synchronize,
    check_schedule,
)
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
    """Return the schedule that the command's options describe. Raises InputError if they do not go together."""
    return Config(order, chunks, streams, buffers, memory, launch).schedule(workload)


def serial(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned") -> Schedule:
    """Return the program that most people begin with: blocking copies, chunk by chunk, without overlap."""
    return Config("serial", chunks, memory=memory).schedule(workload)


def depth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Return the program that issues chunk by chunk: H2D copies, kernels, D2H copies."""
    return Config("depth-first", chunks, streams, None, memory, launch).schedule(workload)


def one_stream(workload: Workload, chunks: int = 1, memory: HostMemory = "pinned", launch: Launch = "live") -> Schedule:
    """Return an asynchronous program in one stream: nothing overlaps on the card."""
    return depth_first(workload, chunks, 1, memory, launch)


def breadth_first(
    workload: Workload, chunks: int, streams: int, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Return the program that issues stage by stage: all H2D copies, then all kernels, then all D2H copies."""
    return Config("breadth-first", chunks, streams, None, memory, launch).schedule(workload)


def ring(
    workload: Workload,
    chunks: int,
    buffers: int,
    streams: int | None = None,
    memory: HostMemory = "pinned",
    launch: Launch = "live",
) -> Schedule:
    """Return a depth-first program with ``buffers`` device buffers of one chunk each (2: double buffering).

    Chunk i uses the buffer of chunk i - ``buffers`` again, and waits until the ops of that chunk have ended: by stream
    order if both run in one stream, otherwise by an event. Default of ``streams``: ``buffers``.
    """
    return ring_config(chunks, buffers, streams, memory, launch).schedule(workload)


def prefetch(
    workload: Workload, chunks: int, buffers: int = 2, memory: HostMemory = "pinned", launch: Launch = "live"
) -> Schedule:
    """Return the program that copies batch i + 1 beside the kernels of batch i, as training and inference loops do.

    Stream 1 copies in, stream 2 runs the kernels, stream 3 copies out. The card holds ``buffers`` batches. Event 3i:
    batch i is on the card; 3i + 1: its kernels have run; 3i + 2: its output is back. Arrays that are copied once go in
    before the first batch, and out behind the last batch's kernels.
    """
    return Config("prefetch", chunks, 1, buffers, memory, launch).schedule(workload)


def serialized(schedule: Schedule) -> Schedule:
    """Return the same copies, kernels and host work one by one: in one stream, with blocking copies.

    Its time is the time of the schedule without overlap, cut in the same way.
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
