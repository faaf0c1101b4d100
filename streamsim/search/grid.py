"""Grids: all combinations of some choices of how to cut and issue a workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import msgspec

from streamsim.analysis import remedy
from streamsim.checks import LARGEST_BYTES, MOST_CHUNKS, check_tuple, check_whole
from streamsim.errors import InputError
from streamsim.program import ISSUE_ORDERS, Config, HostMemory, Launch, Order, Workload, most_streams, useful_buffers
from streamsim.text import format_bytes

COARSE_CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MOST_PROGRAMS = 1_000_000  # of a grid: to list and bound them takes half a minute and a gigabyte


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All combinations of numbers of chunks and streams, issue orders, device buffers and launches.

    The fields have the names of :class:`Config` and of the axes of :func:`streamsim.sweep`.

    - ``buffers``: numbers of device buffers that the chunks take turns over (None: each chunk has its own).
    - ``launch``: "live" (issued call by call) or "graph"; ``memory``: the kind of host memory of all programs.
    - ``memory_limit_bytes``: the most bytes that the device buffers of a program may hold (None: no limit).

    Raises InputError naming the field if one is empty, or if there are over a million combinations.
    """

    chunks: tuple[int, ...] = tuple(range(1, 257))
    streams: tuple[int, ...] = tuple(range(1, 33))
    order: tuple[Order, ...] = ("depth-first", "breadth-first")
    buffers: tuple[int | None, ...] = (None,)
    launch: tuple[Launch, ...] = ("live",)
    memory: HostMemory = "pinned"
    memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        for field in ("chunks", "streams", "order", "buffers", "launch"):
            check_tuple(field, getattr(self, field))
            if not getattr(self, field):
                raise InputError(f"{field} = []: an empty grid; give at least one")
        axes = (self.chunks, self.streams, self.order, self.buffers, self.launch)
        if (count := prod(map(len, axes))) > MOST_PROGRAMS:
            chunks, streams = len(self.chunks), len(self.streams)
            raise InputError(
                f"chunks, streams = {chunks}, {streams} numbers: a grid of {count} programs, more than {MOST_PROGRAMS};"
                " give fewer"
            )
        if self.memory_limit_bytes is not None:
            check_whole("memory_limit_bytes", self.memory_limit_bytes, 1, LARGEST_BYTES)

    def __repr__(self) -> str:
        axes = ("chunks", "streams", "order", "buffers", "launch")
        counts = ", ".join(f"{name} x {len(getattr(self, name))}" for name in axes)
        limit = "" if self.memory_limit_bytes is None else f", {format_bytes(self.memory_limit_bytes)} on the card"
        return f"Grid({counts}, {self.memory} memory{limit})"

    def configs(self, workload: Workload) -> list[Config]:
        """Return the distinct programs of the grid within its limits, the simplest first.

        No program has more streams or buffers than chunks, as they would not be used. If chunks stay in order, programs
        have one stream. Raises InputError if no program is left.
        """
        distinct = list(dict.fromkeys(self._distinct(workload)))
        if not distinct:
            least = min(self.chunks)
            raise InputError(f"chunks = {least}: an empty grid: the workload has at most {workload.most_chunks} chunks")
        needed = _device_bytes(workload, distinct)
        fits = [config for config, n_bytes in zip(distinct, needed, strict=True) if self.has_room(n_bytes)]
        if not fits:
            raise self._no_room(workload, min(needed))
        return fits

    def _no_room(self, workload: Workload, needed: int) -> InputError:
        limit = self.memory_limit_bytes or 0
        order: Order = "prefetch" if {*self.order} == {"prefetch"} else "depth-first"
        usual = Config(order, max(1, min(max(self.chunks), workload.most_chunks)), memory=self.memory)
        return InputError(
            f"memory_limit_bytes = {limit} ({format_bytes(limit)}): no program of the grid fits into so much of the"
            f" card's memory; the smallest takes {format_bytes(needed)}; {remedy(workload, usual, limit)}"
        )

    def left_out(self, workload: Workload) -> dict[str, int]:
        """Return the number of programs that :meth:`configs` leaves out, by reason, except those of too many chunks."""
        found: Counter[str] = Counter()
        idle = msgspec.structs.replace(workload, host_work_s=0.0, host_load_s=0.0)
        distinct = list(dict.fromkeys(self._distinct(idle)))
        for config, n_bytes in zip(distinct, _device_bytes(workload, distinct), strict=True):
            if config.launch == "graph" and workload.has_host_work:
                found["the host cannot work between the steps of a graph"] += 1
            elif not self.has_room(n_bytes):
                found[f"they need more than {format_bytes(self.memory_limit_bytes or 0)} on the card"] += 1
        return dict(found)

    def has_room(self, n_bytes: int) -> bool:
        """Return True if the device buffers of a program may hold ``n_bytes``."""
        return self.memory_limit_bytes is None or n_bytes <= self.memory_limit_bytes

    def most_chunks(self, workload: Workload) -> int | None:
        """Return the most chunks that the workload can be cut into; None if the grid has no more."""
        return workload.most_chunks if workload.most_chunks < max(self.chunks) else None

    def within(self, memory_bytes: int | None) -> Grid:
        """Return the same grid on a card with ``memory_bytes`` (None: unknown)."""
        limits = [n for n in (self.memory_limit_bytes, memory_bytes) if n is not None]
        return msgspec.structs.replace(self, memory_limit_bytes=min(limits, default=None))

    def _distinct(self, workload: Workload) -> Iterator[Config]:
        """Yield programs in the order of simplicity. Rings as large as the number of chunks are repeated."""
        programs = self._programs(workload)
        for chunks in sorted(n for n in self.chunks if n <= workload.most_chunks):
            own = {order: ISSUE_ORDERS[order].own_streams for order in self.order}  # whatever the grid has
            allowed = {
                order: {own[order]}
                if own[order]
                else {min(n, chunks, most_streams(workload, order)) for n in self.streams}
                for order in own
            }
            ways = [
                (order, allowed[order], useful_buffers(order, buffers, chunks), launch)
                for order, buffers, launch in programs
            ]
            for streams in sorted(set[int]().union(*allowed.values())):
                for order, numbers, buffers, launch in ways:
                    if streams in numbers:
                        yield Config(order, chunks, 1 if own[order] else streams, buffers, self.memory, launch)

    def _programs(self, workload: Workload) -> list[tuple[Order, int | None, Launch]]:
        """Return the combinations of order, buffers and launch that go together.

        A serial program, for example, is live and has no ring. Raises InputError if there is none.
        """
        found: list[Config] = []
        refused: InputError | None = None
        for order, buffers, launch in product(self.order, self.buffers, self.launch):
            try:
                config = Config(order, 1, 1, useful_buffers(order, buffers, MOST_CHUNKS), self.memory, launch)
                config.check(workload)
                found.append(config)
            except InputError as error:
                refused = error
        if not found:
            raise InputError(f"an empty grid: {refused}")
        found.sort(key=lambda config: config.simplicity)
        return [(config.order, config.buffers, config.launch) for config in found]


def _device_bytes(workload: Workload, configs: Sequence[Config]) -> list[int]:
    """Return the device memory of each program; those of as many chunks and buffers need the same."""
    of_slots: dict[tuple[int, int | None], int] = {}
    for config in configs:
        key = (config.chunks, config.slots)
        if key not in of_slots:
            of_slots[key] = config.device_bytes(workload)
    return [of_slots[config.chunks, config.slots] for config in configs]
