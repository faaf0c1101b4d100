"""Ways to cut and issue a workload, as values; a grid of them; and how long each takes.

:func:`evaluate` runs the compiled twin of the model where numba is installed, and SimPy otherwise: the
same ticks, over a hundred times apart in speed.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, get_args

import msgspec

from streamsim.errors import InputError
from streamsim.patterns import HostMemory, Order, build
from streamsim.schedule import LARGEST_BYTES, LARGEST_COUNT, LAUNCHES, Launch, Schedule, check_choice, check_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamsim.device import Device
    from streamsim.workload import Workload

ORDERS: tuple[Order, ...] = get_args(Order)
HOST_MEMORIES: tuple[HostMemory, ...] = get_args(HostMemory)
MOST_PROGRAMS = 1_000_000  # of a grid: to list and bound them takes half a minute and a gigabyte
SLOW = "running on SimPy; pip install 'streamsim[fast]' makes this over a hundred times as fast"


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


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All ways to combine these. Raises InputError naming the field when one is empty or there are over a million.

    ``memory_limit_bytes``: the most that the device buffers of a program may hold (None: no limit).
    """

    chunks: tuple[int, ...] = tuple(range(1, 257))
    streams: tuple[int, ...] = tuple(range(1, 33))
    orders: tuple[Order, ...] = ("depth-first", "breadth-first")
    buffers: tuple[int | None, ...] = (None,)
    launches: tuple[Launch, ...] = ("live",)
    memory: HostMemory = "pinned"
    memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        for field in ("chunks", "streams", "orders", "buffers", "launches"):
            if not getattr(self, field):
                raise InputError(f"{field} = []: an empty grid; give at least one")
        axes = (self.chunks, self.streams, self.orders, self.buffers, self.launches)
        if (count := prod(map(len, axes))) > MOST_PROGRAMS:
            chunks, streams = len(self.chunks), len(self.streams)
            raise InputError(
                f"chunks, streams = {chunks}, {streams} numbers: a grid of {count} programs, more than {MOST_PROGRAMS};"
                " give fewer"
            )
        if self.memory_limit_bytes is not None:
            check_whole("memory_limit_bytes", self.memory_limit_bytes, 1, LARGEST_BYTES)

    def configs(self, workload: Workload) -> list[Config]:
        """The distinct programs of the grid within its limits, each once, the simplest first.

        More streams, or more buffers, than chunks make the same program as as many as chunks. Raises
        InputError when nothing is left.
        """
        distinct = list(dict.fromkeys(self._distinct(workload)))
        if not distinct:
            least = min(self.chunks)
            raise InputError(f"chunks = {least}: an empty grid: the workload has at most {workload.most_chunks} chunks")
        limit = self.memory_limit_bytes
        if limit is None:
            return distinct
        fits = [config for config in distinct if config.device_bytes(workload) <= limit]
        if not fits:
            needed = min(config.device_bytes(workload) for config in distinct)
            raise InputError(
                f"memory_limit_bytes = {limit}: no program of the grid fits into that much of the card's memory; the"
                f" smallest needs {needed} bytes; allow smaller rings of buffers or more chunks"
            )
        return fits

    def too_large(self, workload: Workload) -> int:
        """How many distinct programs :meth:`configs` leaves out because of the memory limit."""
        limit = self.memory_limit_bytes
        if limit is None:
            return 0
        return sum(config.device_bytes(workload) > limit for config in dict.fromkeys(self._distinct(workload)))

    def within(self, memory_bytes: int | None) -> Grid:
        """The same grid on a card of so much memory (None: unknown)."""
        limits = [n for n in (self.memory_limit_bytes, memory_bytes) if n is not None]
        return msgspec.structs.replace(self, memory_limit_bytes=min(limits, default=None))

    def _distinct(self, workload: Workload) -> Iterator[Config]:
        """In the order of simplicity; rings as large as the number of chunks come more than once."""
        programs = self._programs()
        for chunks in sorted(n for n in self.chunks if n <= workload.most_chunks):
            allowed = {min(streams, chunks) for streams in self.streams}
            for streams in sorted(allowed | {1}):
                for order, buffers, launch in programs:
                    if streams in allowed if order != "serial" else streams == 1:
                        ring = None if buffers is None else min(buffers, chunks)
                        yield Config(order, chunks, streams, ring, self.memory, launch)

    def _programs(self) -> list[tuple[Order, int | None, Launch]]:
        """Combine what is not a number: rings are issued depth-first, serial programs live and without one."""
        found: list[Config] = []
        refused: InputError | None = None
        for order, buffers, launch in product(self.orders, self.buffers, self.launches):
            try:
                found.append(Config(order, 1, 1, buffers, self.memory, launch))
            except InputError as error:
                refused = error
        if not found:
            raise InputError(f"an empty grid: {refused}")
        found.sort(key=lambda config: config.simplicity)
        return [(config.order, config.buffers, config.launch) for config in found]


def is_fast() -> bool:
    """Whether the compiled twin can be used here."""
    from streamsim.compiled import available

    return available()


def evaluate(
    workload: Workload,
    configs: Sequence[Config],
    device: Device,
    fast: bool | None = None,
    threads: int | None = None,
) -> list[int]:
    """Predict the makespan of every config, in ticks (ns).

    ``fast``: with the compiled twin (None: if it is there) on so many ``threads`` (None: all cores), or on
    SimPy. Raises InputError when a config has more chunks than elements, or the device no cost for a kernel.
    """
    if is_fast() if fast is None else fast:
        from streamsim.compiled import makespans

        found: list[int] = makespans(workload, configs, device, threads=threads).tolist()
        return found
    from streamsim.model import simulate
    from streamsim.timeline import S_PER_TICK

    return [round(simulate(config.schedule(workload), device).makespan_s / S_PER_TICK) for config in configs]
