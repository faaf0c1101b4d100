"""Makespans of many configurations of a workload, without building their schedules.

What an op costs depends on the elements of its chunk and on few other things, so costs are worked out once, by
the model's own functions, and kept in a table; the compiled kernel writes down the ops of each configuration
from it and runs them.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, get_args

import numpy as np

from streamsim.compiled.arrays import LARGEST, card_of, most_ticks, overhead_of, shape_row
from streamsim.compiled.kernel import (
    ALSO,
    CONFIG,
    COPY_SHIFT,
    JOBS,
    KERNEL_SHIFT,
    LANES,
    OP,
    QUEUES,
    SEGMENT,
    SHAPE,
    new_state,
    run_patterns,
)
from streamsim.model import simulate
from streamsim.model.program import (
    BYTE_BITS,
    D2H,
    H2D,
    NOTHING,
    Shape,
    call_ticks,
    connection_of,
    graph_ticks,
    holds_host,
    kernel_shape,
    rate_of,
)
from streamsim.patterns import HostMemory, Order, build, chunk_counts, chunk_kernel
from streamsim.schedule import LARGEST_COUNT, LAUNCHES, Copy, Kernel, RecordEvent, Region, WaitEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamsim.device import Device
    from streamsim.patterns import Workload
    from streamsim.schedule import Direction, Launch

    Array = np.ndarray[Any, Any]

OPS_WORTH_A_THREAD = 200_000  # some milliseconds
BLOCKS_PER_THREAD = 4  # so that one that gets the larger configurations does not hold the others up
MOST_SHAPES = 1 << 17  # kept from call to call
MOST_JOINED_STREAMS = 2048  # streams whose last kernels all copies back wait for: pairs of them are written down


class Config(Protocol):
    """How a workload is cut and issued: the arguments of ``streamsim.build``."""

    @property
    def order(self) -> Order: ...
    @property
    def chunks(self) -> int: ...
    @property
    def streams(self) -> int: ...
    @property
    def buffers(self) -> int | None: ...
    @property
    def memory(self) -> HostMemory: ...
    @property
    def launch(self) -> Launch: ...


class _Cut(NamedTuple):
    """What a configuration is but for its streams and buffers."""

    is_plain: bool  # nothing holds the host and every lane is its own: see the kernel's plain pipelines
    row: tuple[int, ...]  # breadth .. chunks | larger .. launch of the kernel's CONFIG


class _Costs:
    """The costs of a workload on a device, as a growing table of shapes."""

    def __init__(self, workload: Workload, device: Device) -> None:
        self.workload, self.device = workload, device
        self.card = card_of(device)
        self.jobs = len(workload.inputs), len(workload.kernels), len(workload.outputs)
        self.run_signal = device.compute.kernel_signal == "run"
        self._overhead = overhead_of(device)
        self._plain = device.copy_engines.count == 2 and max(self.jobs) < JOBS
        self._rows: dict[tuple[int, HostMemory, Launch, bool], tuple[int, int]] = {}
        self._cuts: dict[tuple[Order, int, HostMemory, Launch], _Cut | None] = {}
        self._queues = np.zeros(0, np.int64)
        self._shapes = np.zeros(64, SHAPE)
        self._n = 0
        self._calls = {launch: call_ticks(launch, device) for launch in LAUNCHES}
        self._events = {launch: self._event_calls(launch) for launch in LAUNCHES}

    @property
    def shapes(self) -> Array:
        """The table as it is now; what it says does not change when it grows."""
        return self._shapes

    @property
    def is_large(self) -> bool:
        return self._n > MOST_SHAPES

    def queues(self, streams: int) -> Array:
        """The hardware queues of each stream, of its copies and of its kernels, as parts of an op's number."""
        if len(self._queues) < streams:
            copies, kernels = self.device.copy_engines.connections, self.device.connections
            both = (
                connection_of(stream, copies) << COPY_SHIFT | connection_of(stream, kernels) << KERNEL_SHIFT
                for stream in range(1, 1 + streams)
            )
            self._queues = np.fromiter(both, np.int64, streams)
        return self._queues

    def config(self, config: Config) -> tuple[int, ...] | None:
        """The configuration as a record; None if the kernel cannot run it."""
        streams, buffers, chunks = config.streams, config.buffers, config.chunks
        if type(chunks) is not int or type(streams) is not int or not 1 <= streams <= LARGEST_COUNT:
            return None
        key = config.order, chunks, config.memory, config.launch
        try:
            cut = self._cuts[key]
        except KeyError:
            cut = self._cuts[key] = self._cut(*key)
        if cut is None:
            return None
        slots = 0
        if config.order == "serial":
            streams = 1
        elif buffers is not None:
            if config.order != "depth-first" or type(buffers) is not int or not 1 <= buffers <= LARGEST_COUNT:
                return None
            slots = min(buffers, chunks)
        streams = min(streams, chunks)
        breadth, *costs = cut.row
        if breadth and self.run_signal and streams > MOST_JOINED_STREAMS:
            return None
        return (cut.is_plain and slots % streams == 0, breadth, chunks, streams, slots, *costs)

    def _cut(self, order: Order, chunks: int, memory: HostMemory, launch: Launch) -> _Cut | None:
        known = order in get_args(Order) and memory in get_args(HostMemory)
        if not known or launch not in LAUNCHES or (launch == "graph" and (order == "serial" or memory != "pinned")):
            return None
        larger, a, b = chunk_counts(self.workload.elements, chunks)
        blocking, breadth = order == "serial", order == "breadth-first"
        row_a, most_a = self._row(a, memory, launch, blocking) if larger else (0, 0)
        row_b, most_b = self._row(b, memory, launch, blocking)
        ops = chunks * (sum(self.jobs) + 2)
        begins = 0 if launch == "live" else graph_ticks(self.device, chunks * sum(self.jobs))
        if begins + ops * max(most_a, most_b) > LARGEST:
            return None
        is_plain = self._plain and memory == "pinned" and not blocking and not (breadth and self.run_signal)
        return _Cut(is_plain, (breadth, larger, row_a, row_b, *self._events[launch], begins))

    def _event_calls(self, launch: Launch) -> tuple[int, int]:
        """Where the shapes of a record and of a wait are."""
        calls = self._calls[launch]
        rows = [shape_row(Shape(NOTHING, calls[kind])) for kind in (RecordEvent, WaitEvent)]
        first = self._append(rows)
        return first, first + 1

    def _row(self, count: int, memory: HostMemory, launch: Launch, blocking: bool) -> tuple[int, int]:
        """Where the shapes of a chunk of ``count`` elements begin, and the most ticks that one of its ops adds."""
        key = count, memory, launch, blocking
        if key not in self._rows:
            shapes = list(self._chunk(*key))
            most = max(most_ticks(shape, self._overhead) for shape, _ in shapes)
            self._rows[key] = self._append([shape_row(*both) for both in shapes]), most
        return self._rows[key]

    def _chunk(self, count: int, memory: HostMemory, launch: Launch, blocking: bool) -> Iterable[tuple[Shape, bool]]:
        """The ops of a chunk, and whether each holds the host."""
        calls, workload = self._calls[launch], self.workload
        for n_bytes in workload.inputs:
            yield self._copy("h2d", n_bytes * count, memory, blocking, calls[Copy])
        for kernel in workload.kernels:
            yield kernel_shape(self.device, chunk_kernel(workload, kernel, count, 1), calls[Kernel]), False
        for n_bytes in workload.outputs:
            yield self._copy("d2h", n_bytes * count, memory, blocking, calls[Copy])

    def _copy(
        self, direction: Direction, n_bytes: int, memory: HostMemory, blocking: bool, call: int
    ) -> tuple[Shape, bool]:
        rate, units = rate_of(self.device, direction, n_bytes, memory == "pageable"), n_bytes << BYTE_BITS
        shape = Shape(H2D if direction == "h2d" else D2H, call, rate.duration(units), units, rate)
        copy = Copy(direction, n_bytes, 1, Region("host", 0, n_bytes), blocking=blocking)
        pageable = frozenset(["host"] if memory == "pageable" else [])
        return shape, holds_host(copy, pageable, self.device.host.pageable_immediate_bytes)

    def _append(self, rows: list[tuple[Any, ...]]) -> int:
        """Add rows to the table; where they begin."""
        first, self._n = self._n, self._n + len(rows)
        if self._n > len(self._shapes):
            self._shapes = np.concatenate([self._shapes, np.zeros(self._n, SHAPE)])
        self._shapes[first : self._n] = rows
        return first


_lock = Lock()
_latest: list[_Costs] = []  # of the last call: the next one is often for the same workload and device


def _costs_of(workload: Workload, device: Device) -> _Costs:
    if _latest and not _latest[0].is_large and _latest[0].workload == workload and _latest[0].device is device:
        return _latest[0]
    _latest[:] = [_Costs(workload, device)]
    return _latest[0]


def makespans(
    workload: Workload, configs: Sequence[Config], device: Device, threads: int | None = None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """See :func:`streamsim.compiled.makespans`."""
    with _lock:
        costs = _costs_of(workload, device)
        rows = [costs.config(config) for config in configs]
        job = _Job(costs, np.array([row for row in rows if row is not None], CONFIG))
    ticks = job.run(threads)
    if len(ticks) == len(rows):
        return ticks
    found = iter(ticks)
    both = zip(rows, configs, strict=True)
    return np.array([next(found) if row else _by_simpy(workload, config, device) for row, config in both], np.int64)


def _by_simpy(workload: Workload, config: Config, device: Device) -> int:
    """What the kernel leaves: mostly what ``build`` refuses, and says why."""
    way = config.order, config.chunks, config.streams, config.buffers, config.memory, config.launch
    schedule = build(workload, *way)
    timeline = simulate(schedule, device)
    return max((end for end, engine in zip(timeline.end, timeline.engine, strict=True) if engine >= 0), default=0)


class _Job:
    """Configurations to run, with what they share."""

    def __init__(self, costs: _Costs, configs: Array) -> None:
        self._configs = configs
        self._costs = costs
        self._shapes = costs.shapes
        self._streams = int(configs["streams"].max(initial=1))
        self._queues = costs.queues(self._streams)
        self._makespans = np.zeros(len(configs), np.int64)

    def run(self, threads: int | None) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The makespans, worked out on so many threads."""
        ops = int(self._configs["chunks"].sum()) * sum(self._costs.jobs)
        threads = min(threads or os.cpu_count() or 1, len(self._configs), 1 + ops // OPS_WORTH_A_THREAD)
        if threads <= 1:
            self._run_every(0, 1)
            return self._makespans
        step = threads * BLOCKS_PER_THREAD
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(self._run_every, first, step) for first in range(step)]:
                done.result()
        return self._makespans

    def _run_every(self, first: int, step: int) -> None:
        card, hand_over, lane_of_kind = self._costs.card
        run_patterns(
            card,
            hand_over,
            self._configs,
            first,
            step,
            self._costs.jobs,
            self._costs.run_signal,
            self._shapes,
            lane_of_kind,
            self._queues,
            self._room_for_programs(),
            self._room_for_pipeline(),
            new_state(int(card["concurrent"])),
            np.empty((5, 0), np.int64),
            self._makespans,
        )

    def _room_for_programs(self) -> tuple[Array, ...]:
        """Ops, segments, waits, also; the last op of each queue and of each stream."""
        some = self._configs[self._configs["plain"] == 0]
        chunks, streams = int(some["chunks"].max(initial=0)), int(some["streams"].max(initial=0))
        ops = chunks * (sum(self._costs.jobs) + 2)
        also = max(chunks, streams**2 if self._costs.run_signal else 0)
        return (
            np.empty(ops, OP),
            np.empty(ops + 1, SEGMENT),
            np.empty(ops + 1, np.int32),
            np.empty(also, ALSO),
            np.empty(LANES * QUEUES, np.int32),
            np.empty(streams, np.int32),
        )

    def _room_for_pipeline(self) -> Array:
        """Ticks of the ops."""
        some = self._configs[self._configs["plain"] != 0]
        return np.empty(int(some["chunks"].max(initial=0)) * sum(self._costs.jobs), np.int64)
