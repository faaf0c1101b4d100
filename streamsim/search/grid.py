"""Grids: all combinations of some choices of how to cut and issue a workload, and their makespans.

The compiled twin of the model simulates them if numba is installed, else SimPy. Both give the same ticks. The compiled
twin is over a hundred times as fast.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from math import prod
from operator import attrgetter
from pathlib import Path

import msgspec

from streamsim.analysis import remedy
from streamsim.compiled import available, makespans
from streamsim.device import Device, as_device, written_in
from streamsim.errors import Bytes, Checked, InputError, install
from streamsim.model import simulate
from streamsim.program import Config, HostMemory, Launch, Order, Workload, most_streams
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_bytes

CONFIG_OPS = 25  # the fixed cost of simulating a configuration, in ops
TIMES_AS_FAST = 125  # the compiled twin, beside SimPy
SLOW = f"running on SimPy; numba ({install('fast')}) simulates over a hundred times as fast"


def is_fast() -> bool:
    """Return True if the compiled twin can run here."""
    return available()


def evaluate(
    workload: Workload,
    configs: Sequence[Config],
    device: Device | str | Path,
    fast: bool | None = None,
    threads: int | None = None,
) -> list[float]:
    """Return the predicted makespan of every config, in seconds.

    - ``device``: a Device, or the name or file of one. Its calls are those of the workload's front end, unless the
      device has those of another one.
    - ``fast``: True for the compiled twin, False for SimPy, None for the compiled twin if it can run.
    - ``threads``: threads of the compiled twin (None: one for each core).

    Raises InputError if the workload cannot be cut or issued in a config's way, for an unknown device or front end, and
    for a kernel without a cost.
    """
    card = written_in(as_device(device), workload.front_end)
    return [ticks / TICKS_PER_S for ticks in evaluate_ticks(workload, configs, card, fast, threads)]


def evaluate_ticks(
    workload: Workload,
    configs: Sequence[Config],
    device: Device,
    fast: bool | None = None,
    threads: int | None = None,
) -> list[int]:
    """Return the predicted makespan of every config in whole ticks (nanoseconds), which compare exactly.

    The arguments are those of :func:`evaluate`; ``device`` already has its front end's calls.
    """
    if workload.has_host_work or workload.in_order:
        for config in configs:
            config.check(workload)
    if is_fast() if fast is None else fast:
        by_launches = defaultdict[tuple[int, ...], list[Config]](list)
        for config in configs:
            by_launches[workload.launches_in(config.chunks)].append(config)
        found = {
            launches: iter(makespans(workload, own, device, threads=threads).tolist())
            for launches, own in by_launches.items()
        }
        return [next(found[workload.launches_in(config.chunks)]) for config in configs]

    return [round(simulate(config.schedule(workload), device).makespan_s * TICKS_PER_S) for config in configs]


def serial_ticks(workload: Workload, config: Config, device: Device, fast: bool | None = None) -> int:
    """Return the ticks of the unchunked program with blocking copies, and the host work and memory of ``config``."""
    serial = Config(order="serial", memory=config.memory)
    return evaluate_ticks(workload.loaded_once(config.chunks), [serial], device, fast)[0]


def simulation_costs(workload: Workload, configs: Sequence[Config], device: Device, fast: bool) -> list[float]:
    """Return the cost of simulating every config, in ops of SimPy: about its copies and kernels.

    The arguments are those of :func:`evaluate_ticks`.
    """
    is_slow = not fast or device.compute.kernel_signal == "run"  # SimPy simulates such a card
    calls = {chunks: workload.calls(chunks) for chunks in {one.chunks for one in configs}}
    return [(CONFIG_OPS + calls[config.chunks]) / (1 if is_slow else TIMES_AS_FAST) for config in configs]


COARSE_CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MOST_PROGRAMS = 1_000_000  # of a grid: to list and bound them takes half a minute and a gigabyte


class Grid(Checked, frozen=True):
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
    memory_limit_bytes: Bytes | None = None

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        for field in ("chunks", "streams", "order", "buffers", "launch"):
            if not getattr(self, field):
                raise InputError(f"{field} = []: an empty grid; give at least one")
        axes = (self.chunks, self.streams, self.order, self.buffers, self.launch)
        if (count := prod(map(len, axes))) > MOST_PROGRAMS:
            raise InputError(f"chunks, streams: a grid of {count} programs, more than {MOST_PROGRAMS}; give fewer")

    def configs(self, workload: Workload) -> list[Config]:
        """Return the programs of :meth:`parted`."""
        return self.parted(workload)[0]

    def parted(self, workload: Workload) -> tuple[list[Config], int]:
        """Return the distinct programs of the grid that have room, the simplest first, and the number of others.

        No program has more streams or buffers than chunks, as they would not be used. If chunks stay in order, programs
        have one stream. Raises InputError if no program is left.
        """
        numbers = [n for n in self.chunks if n <= workload.most_chunks]
        if not numbers:
            most, fewest = workload.most_chunks, min(self.chunks)
            raise InputError(f"chunks = {fewest}: an empty grid: the workload has at most {most} chunks")
        needed = dict[Config, int]()
        for chunks, kind in product(numbers, self._kinds(workload)):
            one = msgspec.structs.replace(kind, chunks=chunks).fitted()
            needed[one] = one.device_bytes(workload)
        fits, left_out, limit = list[Config](), 0, self.memory_limit_bytes
        for one, n_bytes in needed.items():
            most = min(one.chunks, most_streams(workload, one.order))
            streams = {one.streams} if one.issued.own_streams else {min(n, most) for n in self.streams}
            if limit is None or n_bytes <= limit:
                fits += [msgspec.structs.replace(one, streams=n) for n in streams]
            else:
                left_out += len(streams)
        if not fits:
            usual, limit = Config(chunks=max(numbers), memory=self.memory), limit or 0
            raise InputError(
                f"memory_limit_bytes = {limit} ({format_bytes(limit)}): no program of the grid fits into so much of the"
                f" card's memory; the smallest takes {format_bytes(min(needed.values()))};"
                f" {remedy(workload, usual, limit)}"
            )
        fits.sort(key=attrgetter("simplicity"))
        return fits, left_out

    def _kinds(self, workload: Workload) -> list[Config]:
        """Return the combinations of order, buffers and launch that go together, of one chunk.

        A serial program, for example, is live and has no ring. Raises InputError if there is none.
        """
        found: list[Config] = []
        refused: InputError | None = None
        for order, buffers, launch in product(self.order, self.buffers, self.launch):
            try:
                config = Config(order, 1, 1, buffers, self.memory, launch)
                config.check(workload)
                found.append(config)
            except InputError as error:
                refused = error
        if not found:
            raise InputError(f"an empty grid: {refused}")
        return found

    def within(self, memory_bytes: int | None) -> Grid:
        """Return the same grid on a card with ``memory_bytes`` (None: unknown)."""
        limits = [n for n in (self.memory_limit_bytes, memory_bytes) if n is not None]
        return msgspec.structs.replace(self, memory_limit_bytes=min(limits, default=None))
