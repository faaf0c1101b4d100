"""How to cut and issue a workload, as a value: the one place that says which choices go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import msgspec

from streamsim.checks import LARGEST_COUNT, check_choice, check_whole
from streamsim.errors import InputError
from streamsim.program.patterns import HostMemory, Order, build
from streamsim.program.schedule import LAUNCHES, Launch, Schedule

if TYPE_CHECKING:
    from streamsim.program.workload import Workload
ORDERS: tuple[Order, ...] = get_args(Order)
HOST_MEMORIES: tuple[HostMemory, ...] = get_args(HostMemory)


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
        if self.launch == "graph" and self.order == "serial":
            raise InputError("launch = 'graph': a serial program blocks the host; use another order")
        if self.launch == "graph" and self.memory == "pageable":
            raise InputError("launch = 'graph': pageable copies cannot be captured; use pinned memory")

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

    def schedule(self, workload: Workload) -> Schedule:
        """The program. Raises InputError when there are more chunks than elements."""
        return build(workload, self.order, self.chunks, self.streams, self.buffers, self.memory, self.launch)

    def device_bytes(self, workload: Workload) -> int:
        """Bytes of all device buffers of the program."""
        once: int = sum(workload.h2d_once) + sum(workload.d2h_once)
        if self.buffers is None:
            return sum(workload.input_bytes) + sum(workload.output_bytes) + once
        sizes: list[tuple[int, ...]] = [part.inputs + part.outputs for part in workload.cut(self.chunks)]
        slot: int = sum(max(column) for column in zip(*sizes, strict=True))
        return min(self.buffers, self.chunks) * slot + once
