"""Configurations: values that say how to cut and issue a workload, and which choices go together; and patterns.

All code that cuts, searches, prices or bounds programs makes a :class:`Config` and asks it.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from streamsim.checks import MOST_CHUNKS, check_calls, check_choice, check_whole
from streamsim.errors import InputError
from streamsim.program.builder import program_of
from streamsim.program.loops import ISSUE_ORDERS, ChunkLoop, Turns, loop_of, stages_of
from streamsim.program.loops import ORDERS as ORDERS
from streamsim.program.loops import Order as Order
from streamsim.program.schedule import (
    LAUNCHES,
    Copy,
    HostWork,
    Kernel,
    Launch,
    Schedule,
    StreamKind,
    Synchronize,
    check_schedule,
)
from streamsim.program.workload import Workload
from streamsim.text import counted

HostMemory = Literal["pinned", "pageable"]
HOST_MEMORIES: tuple[HostMemory, ...] = get_args(HostMemory)


def useful_streams(order: Order, chunks: int) -> int:
    """Return the most streams over which ``chunks`` chunks can take turns; 1 if the order has streams of its own."""
    return 1 if ISSUE_ORDERS[order].own_streams else chunks


def most_streams(workload: Workload, order: Order = "depth-first") -> int:
    """Return the most streams over which the chunks of a workload may take turns."""
    return 1 if workload.in_order and not ISSUE_ORDERS[order].keeps_order else MOST_CHUNKS


def useful_buffers(order: Order, buffers: int | None, chunks: int) -> int | None:
    """Return how many buffers are in use, in turn: at most one for each chunk. None: no buffer is used twice."""
    buffers = ISSUE_ORDERS[order].least_buffers if buffers is None else buffers
    return None if buffers is None else min(buffers, chunks)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way to cut and issue a workload.

    - ``streams``: the number of streams over which chunks take turns; 1 for a prefetching program, which has three
      streams of its own: one for each direction, and one for kernels.
    - ``buffers``: the number of device buffers of one chunk that chunks use in turn. None: the card holds the whole
      workload, or two chunks if the order is prefetch.

    Raises InputError naming the field if the fields do not go together.
    """

    order: Order = "depth-first"
    chunks: int = 1
    streams: int = 1
    buffers: int | None = None
    memory: HostMemory = "pinned"
    launch: Launch = "live"

    def __post_init__(self) -> None:
        check_choice("order", self.order, ORDERS)
        check_whole("chunks", self.chunks, 1, MOST_CHUNKS)
        check_whole("streams", self.streams, 1, MOST_CHUNKS)
        check_choice("memory", self.memory, HOST_MEMORIES)
        check_choice("launch", self.launch, LAUNCHES)
        issued = ISSUE_ORDERS[self.order]
        if self.buffers is not None:
            check_whole("buffers", self.buffers, 1, MOST_CHUNKS)
            if issued.ring is None:
                raise InputError(
                    f"buffers = {self.buffers}: a ring of buffers is issued depth-first or prefetched, not {self.order}"
                )
        if issued.own_streams and self.streams > 1:
            raise InputError(f"streams = {self.streams}: {issued.only_own}")
        if self.launch == "graph" and self.is_blocking:
            raise InputError("launch = 'graph': a serial program blocks the host; use another order")
        if self.launch == "graph" and self.is_pageable:
            raise InputError("launch = 'graph': pageable copies cannot be captured; use pinned memory")

    @property
    def is_blocking(self) -> bool:
        """True if the host waits for each copy."""
        return ISSUE_ORDERS[self.order].is_blocking

    @property
    def is_pageable(self) -> bool:
        """True if host buffers are pageable memory."""
        return self.memory == "pageable"

    @property
    def slots(self) -> int | None:
        """The number of device buffers of one chunk that are in use, in turn; None: no buffer is used twice."""
        return useful_buffers(self.order, self.buffers, self.chunks)

    @property
    def is_prefetch(self) -> bool:
        """True if each chunk is copied in beside the kernels of the chunk before."""
        return self.order == "prefetch"

    @property
    def own_streams(self) -> int:
        """The number of streams that the order fixes; 0: the user chooses it."""
        return ISSUE_ORDERS[self.order].own_streams

    @property
    def pattern(self) -> str:
        """The name of such programs: "ring", or the issue order."""
        issued = ISSUE_ORDERS[self.order]
        return "ring" if self.buffers is not None and issued.ring is not issued.loop else self.order

    @property
    def turns(self) -> Turns:
        """The numbers of chunks, streams and buffers of the loop."""
        return Turns(self.chunks, self.streams, self.slots)

    def loop(self, workload: Workload) -> ChunkLoop:
        """Return the loop that issues the chunks of a workload."""
        return loop_of(self.order, self.buffers is not None, stages_of(workload))

    @property
    def simplicity(self) -> tuple[int, int, int, int, int]:
        """A key to sort by simplicity: fewest chunks, then streams, then no or the smallest ring, depth-first, live."""
        return (
            self.chunks,
            max(self.own_streams, self.streams),
            self.buffers or 0,
            ORDERS.index(self.order),
            LAUNCHES.index(self.launch),
        )

    @property
    def words(self) -> str:
        """A description such as "16 chunks on 4 streams, depth-first"."""
        ring = f", {counted(self.buffers, 'buffer')}" if self.buffers else ""
        graph = ", as a graph" if self.launch == "graph" else ""
        on_streams = "" if self.is_prefetch else f" on {counted(self.streams, 'stream')}"
        return f"{counted(self.chunks, 'chunk')}{on_streams}, {self.order}{ring}{graph}"

    def fitted(self) -> Config:
        """Return the same program with the least numbers: at most as many streams and buffers as chunks."""
        streams = min(self.streams, useful_streams(self.order, self.chunks))
        return msgspec.structs.replace(self, streams=streams, buffers=self.slots)

    def without_ring(self) -> Config:
        """Return the same configuration with device memory for every chunk."""
        return msgspec.structs.replace(self, buffers=self.chunks if self.is_prefetch else None)

    def check(self, workload: Workload) -> None:
        """Raise InputError unless the workload can be cut and issued in this way."""
        if self.chunks > workload.most_chunks:
            workload.cut(self.chunks)  # says why
        check_calls(f"chunks = {self.chunks}", self.chunks * workload.in_chunks(self.chunks).calls_of_chunk)
        if self.streams > most_streams(workload, self.order):
            raise InputError(
                f"streams = {self.streams}: in_order = true: chunks need each other's result, so their kernels stay in"
                " one stream; use 1, or the order prefetch or relay"
            )
        if self.launch == "graph" and workload.has_host_work:
            field = "host_work_s" if workload.host_work_s else "host_load_s"
            raise InputError(
                f"{field} = {getattr(workload, field):g}: the host cannot work between the steps of a graph, which it"
                " launches once; use live, or leave it out"
            )

    def schedule(self, workload: Workload) -> Schedule:
        """Return the program of a workload. Raises InputError if it cannot be cut and issued in this way."""
        self.check(workload)
        program = program_of(workload, self.loop(workload), self.turns, self.is_pageable, self.is_blocking)
        unchunked = None
        if self.chunks > 1 or not self.is_blocking:
            unchunked = Config("serial", memory=self.memory).schedule(workload.loaded_once(self.chunks))
        name = f"{self.pattern} N={self.chunks}"
        if not self.own_streams:
            name += f" S={self.streams}"
        if self.slots is not None:
            name += f" K={self.slots}"
        return program.schedule(name, launch=self.launch, unchunked=unchunked)

    def device_bytes(self, workload: Workload) -> int:
        """Return the bytes of all device buffers of the program."""
        slots = self.slots
        if slots is None:
            return sum(workload.input_bytes) + sum(workload.output_bytes) + workload.once_bytes
        sizes: list[tuple[int, ...]] = [part.inputs + part.outputs for part in workload.cut(self.chunks)]
        chunk: int = sum(max(column) for column in zip(*sizes, strict=True))
        return slots * chunk + workload.once_bytes


# Patterns: the usual ways to cut a workload into chunks and to issue them. Chunk i of N runs in stream i mod S.

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
    return Config("depth-first", chunks, buffers if streams is None else streams, buffers, memory, launch).schedule(
        workload
    )


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
    """Return the same copies, kernels and host work one by one: by one thread, in one stream, with blocking copies.

    Its time is the time of the schedule without overlap, cut in the same way.
    """
    check_schedule("schedule", schedule)
    changes = {Copy: {"stream": 1, "blocking": True}, Kernel: {"stream": 1}, HostWork: dict[str, Any]()}
    works = [op for op in schedule.ops if type(op) in changes]
    ops = [msgspec.structs.replace(op, thread=0, **changes[type(op)]) for op in works]
    name = f"{schedule.name} one by one".strip()
    return Schedule((*ops, Synchronize()), NON_BLOCKING, schedule.buffers, name=name)
