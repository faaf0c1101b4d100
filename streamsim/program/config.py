"""How to cut and issue a workload, as a value: the one place that says which choices go together, and what they make.

Whoever cuts, searches, prices or bounds programs makes a :class:`Config` and asks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from streamsim.checks import LARGEST_COUNT, check_choice, check_whole
from streamsim.errors import InputError
from streamsim.program.schedule import LAUNCHES, Launch, Schedule

if TYPE_CHECKING:
    from streamsim.program.workload import Workload

Order = Literal["depth-first", "breadth-first", "serial"]
HostMemory = Literal["pinned", "pageable"]
ORDERS: tuple[Order, ...] = get_args(Order)
HOST_MEMORIES: tuple[HostMemory, ...] = get_args(HostMemory)


def useful_streams(order: Order, chunks: int) -> int:
    """How many streams a program can have work for: a serial one has one, others no more than chunks."""
    return 1 if order == "serial" else chunks


def useful_buffers(buffers: int | None, chunks: int) -> int | None:
    """How many buffers of a ring come into use: no more than chunks. None: no ring."""
    return None if buffers is None else min(buffers, chunks)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to cut and issue a workload. Raises InputError naming the field when the parts do not go together.

    ``buffers``: device buffers of one chunk used in turn; None: the whole workload has room on the card.
    """

    order: Order = "depth-first"
    chunks: int = 1
    streams: int = 1
    buffers: int | None = None
    memory: HostMemory = "pinned"
    launch: Launch = "live"

    def __post_init__(self) -> None:
        check_choice("order", self.order, ORDERS)
        check_whole("chunks", self.chunks, 1, LARGEST_COUNT)
        check_whole("streams", self.streams, 1, LARGEST_COUNT)
        check_choice("memory", self.memory, HOST_MEMORIES)
        check_choice("launch", self.launch, LAUNCHES)
        if self.buffers is not None:
            check_whole("buffers", self.buffers, 1, LARGEST_COUNT)
            if self.order != "depth-first":
                raise InputError(f"buffers = {self.buffers}: a ring of buffers is issued depth-first, not {self.order}")
        if self.order == "serial" and self.streams > 1:
            raise InputError(f"streams = {self.streams}: a serial program has one stream; use another order")
        if self.launch == "graph" and self.is_blocking:
            raise InputError("launch = 'graph': a serial program blocks the host; use another order")
        if self.launch == "graph" and self.is_pageable:
            raise InputError("launch = 'graph': pageable copies cannot be captured; use pinned memory")

    @property
    def is_blocking(self) -> bool:
        """Whether the host waits for each copy."""
        return self.order == "serial"

    @property
    def is_pageable(self) -> bool:
        """Whether the host buffers are pageable memory."""
        return self.memory == "pageable"

    @property
    def slots(self) -> int | None:
        """Device buffers of one chunk that come into use, in turn; None: no ring."""
        return useful_buffers(self.buffers, self.chunks)

    @property
    def hands_buffers_over(self) -> bool:
        """Whether chunks that use the same buffer of the ring run in different streams, so that events are needed."""
        slots = self.slots
        return slots is not None and slots % self.streams != 0

    @property
    def simplicity(self) -> tuple[int, int, int, int, int]:
        """The smaller, the simpler: fewest chunks, then streams, then no ring or the smallest, depth-first, live."""
        return (
            self.chunks,
            self.streams,
            self.buffers or 0,
            ORDERS.index(self.order),
            LAUNCHES.index(self.launch),
        )

    def fitted(self) -> Config:
        """The same program by its least numbers: no more streams and buffers than there are chunks."""
        streams = min(self.streams, useful_streams(self.order, self.chunks))
        return msgspec.structs.replace(self, streams=streams, buffers=self.slots)

    def schedule(self, workload: Workload) -> Schedule:
        """The program. Raises InputError when there are more chunks than elements."""
        from streamsim.program.patterns import pattern  # each pattern asks this module what goes together

        return pattern(workload, self)

    def device_bytes(self, workload: Workload) -> int:
        """Bytes of all device buffers of the program."""
        once: int = sum(workload.h2d_once) + sum(workload.d2h_once)
        slots = self.slots
        if slots is None:
            return sum(workload.input_bytes) + sum(workload.output_bytes) + once
        sizes: list[tuple[int, ...]] = [part.inputs + part.outputs for part in workload.cut(self.chunks)]
        chunk: int = sum(max(column) for column in zip(*sizes, strict=True))
        return slots * chunk + once


def ring_config(
    chunks: int,
    buffers: int,
    streams: int | None = None,
    memory: HostMemory = "pinned",
    launch: Launch = "live",
) -> Config:
    """Depth-first with so many device buffers of one chunk each; a stream for each of them, unless it is said."""
    check_whole("buffers", buffers, 1, LARGEST_COUNT)
    return Config("depth-first", chunks, buffers if streams is None else streams, buffers, memory, launch)
