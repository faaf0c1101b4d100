"""Makespans of many configurations of a workload, without building their schedules.

The cost of an op depends on its chunk's elements and on little else. The model's own functions therefore give all costs
once, for a table. The compiled kernel writes the ops of each configuration from this table, and runs them.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, count, repeat
from operator import attrgetter
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from streamsim.compiled.layout import Given, Room, run_patterns
from streamsim.compiled.passes import passes_of
from streamsim.compiled.records import (
    GRAPH,
    ISSUED,
    LARGEST,
    WITH_ROLES,
    card_of,
    hand_overs_of,
    most_ticks,
    overhead_of,
    shape_row,
)
from streamsim.compiled.tables import (
    ALSO,
    AT,
    CHUNK,
    CONFIG,
    ENGINES,
    EVENT,
    OP,
    QUEUES,
    RUN,
    SEGMENT,
    SHAPE,
    THREAD,
    new_state,
)
from streamsim.device import Device
from streamsim.lowering import NOTHING, ChunkCosts, Shape, call_ticks, surcharges_of
from streamsim.model import simulate
from streamsim.program import (
    LAUNCHES,
    Config,
    HostMemory,
    Issue,
    Launch,
    Part,
    RecordEvent,
    WaitEvent,
    Workload,
    stages_of,
    useful_streams,
)
from streamsim.rules import KINDS, MANY, ticks

Array = np.ndarray[Any, Any]

OPS_WORTH_A_THREAD = 200_000  # they take some milliseconds
BLOCK_ROWS = 512  # one thread makes them in some tenths of a millisecond; meanwhile no other runs Python
SHARES = 4  # a thread's next block is a SHARES-th of its part of the rest, so that threads end together
MOST_SHAPES = 1 << 17  # shapes, runs or cuts that are kept from call to call
MOST_JOINED_STREAMS = 2048  # most streams if all copies back wait for all last kernels: each pair is a wait
LEFT_OUT = -1  # the kernel cannot run this configuration
_WAY = attrgetter("order", "chunks", "buffers", "memory", "launch")
_STREAMS = attrgetter("streams")


class _Costs:
    """The costs of a workload on a device, as a growing table of shapes."""

    def __init__(self, workload: Workload, device: Device) -> None:
        self.workload, self.device = workload, device
        self.card, self.hand_overs = card_of(device), hand_overs_of(device)
        launches = sum(kernel.launches for kernel in workload.kernels)
        once = len(workload.h2d_once), len(workload.d2h_once)
        self.jobs = (len(workload.inputs), launches, len(workload.outputs), *once)
        self.numbers = _numbers_of(workload)
        self.run_signal = device.compute.kernel_signal == "run"
        self.passes = passes_of(stages_of(workload), self.jobs, self.run_signal)
        self._overhead = overhead_of(device)
        self._rows: dict[tuple[tuple[object, ...], HostMemory, Launch, bool], tuple[int, int]] = {}
        self._ways: dict[tuple[Any, ...], int] = {}  # the place of the cut, by _WAY
        self._cuts = np.zeros(64, CONFIG)  # configurations without their streams; the first one has none
        self._n_cuts = 1
        self._shapes = np.zeros(64, SHAPE)
        self._n = 0
        self._runs = np.zeros(64, RUN)
        self._n_runs = 0
        self._calls = {launch: call_ticks(launch, device) for launch in LAUNCHES}
        self._events = {launch: self._event_calls(launch) for launch in LAUNCHES}

    @property
    def given(self) -> Given:
        """The present tables. Rows do not change when the tables grow."""
        card, engine_of_kind = self.card
        tables = self._shapes, engine_of_kind, self._runs, *self.passes[:3]
        return Given(card, self.hand_overs, *tables)

    @property
    def is_large(self) -> bool:
        return max(self._n, self._n_runs, len(self._ways)) > MOST_SHAPES

    def rows(self, configs: Sequence[Config]) -> Array:
        """Return the configurations as records; those that the kernel cannot run have no streams.

        Many configurations are done at a time, because work on a single one costs as much as some of its ops.
        """
        ways = self._ways
        places = [ways[way] if way in ways else self._add(way, configs[k]) for k, way in enumerate(map(_WAY, configs))]
        streams = list(map(_STREAMS, configs))
        rows = self._cuts[places]
        rows["streams"] = np.where(rows["roles"], rows["streams"], np.minimum(rows["streams"], streams))
        issued = np.where(rows["roles"], WITH_ROLES + rows["streams"], ISSUED + np.minimum(rows["streams"], MANY))
        rows["hand_overs"] = np.where(rows["graph"], GRAPH, issued)
        if self.run_signal:
            rows["streams"][(rows["passes_to"] - rows["passes_from"] > 1) & (rows["streams"] > MOST_JOINED_STREAMS)] = 0
        return rows

    def _add(self, way: tuple[Any, ...], config: Config) -> int:
        """Add a cut to the table, and return its place; 0, the place of a cut without streams, if SimPy must run it."""
        cut = self._cut(config)
        place = self._ways[way] = 0 if cut is None else self._place(cut)
        return place

    def _place(self, cut: tuple[int, ...]) -> int:
        place, self._n_cuts = self._n_cuts, self._n_cuts + 1
        if place == len(self._cuts):
            self._cuts = np.concatenate([self._cuts, np.zeros(place, CONFIG)])
        self._cuts[place] = cut
        return place

    def _cut(self, config: Config) -> tuple[int, ...] | None:
        """Return the record of a configuration with as many streams as are useful; None if the kernel cannot run it.

        The kernel cannot run a configuration whose ticks exceed an int64. If the end of a kernel is signalled with the
        end of its run, it cannot run chunks that lack an array, arrays that are copied once, or prefetching programs.
        In prefetching programs, it needs copies in and kernels, a piece of each array in each chunk, and nothing to
        copy back once.
        """
        chunks, memory, launch = config.chunks, config.memory, config.launch
        loop = config.loop(self.workload)
        parts = self.workload.cut(chunks)
        has_gaps = not all(all(part.inputs + part.outputs) for part in parts)
        if self.run_signal and (any(self.jobs[3:]) or has_gaps or loop.roles):
            return None
        if loop.roles and (has_gaps or not all(self.jobs[:2]) or self.jobs[4]):
            return None
        blocking = config.is_blocking
        found = [self._row(part._replace(many=1), memory, launch, blocking) for part in parts]
        behind = sum(self.jobs[:3])  # in a graph, the offset of shapes right behind kernels: see ``_row``
        once, most_once = self._once(memory, launch, blocking)
        most = max(most_once, *(most for _, most in found))
        absent = sum(part.many * (part.inputs + part.outputs).count(0) for part in parts)
        nodes = chunks * sum(self.jobs[:3]) + sum(self.jobs[3:]) - absent
        begins = 0 if launch == "live" else ticks(self.device.host.graph_launch_s)
        work = [ticks(self.workload.host_s(part)) for part in parts]
        if begins + chunks * max(work) + (nodes + 8 * chunks) * most > LARGEST:
            return None
        cut = [part.d2h_once if config.slots else part.inputs + part.outputs + part.d2h_once for part in parts]
        ends = list(accumulate(part.many for part in parts))
        runs = self._add_runs(ends, [row for row, _ in found], work, [int(any(pieces)) for pieces in cut])
        copies = any(self.jobs[3:]) or any(any(part.inputs + part.outputs) for part in parts)
        dearer = surcharges_of(launch, self.device, copies, self.jobs[1] > 0)
        used = {step.stream for step in loop.steps if isinstance(step, Issue)}
        streams = len(used) if loop.roles else useful_streams(config.order, chunks)
        passes = self.passes.of_loop[config.order, config.buffers is not None]
        issued = bool(loop.roles), launch == "graph", chunks, streams, config.slots or 0, *passes
        return *issued, *runs, once, behind, *self._events[launch], begins, *dearer, 0  # ``rows`` sets the last field

    def _add_runs(self, *columns: list[int]) -> tuple[int, int]:
        """Add runs to the table; return the first row, and the row behind the last."""
        first, self._n_runs = self._n_runs, self._n_runs + len(columns[0])
        if self._n_runs > len(self._runs):
            self._runs = np.concatenate([self._runs, np.zeros(self._n_runs, RUN)])
        self._runs[first : self._n_runs] = list(zip(*columns, strict=True))
        return first, self._n_runs

    def _once(self, memory: HostMemory, launch: Launch, blocking: bool) -> tuple[int, int]:
        """Return the first shape of the copies that are made once, and the most ticks that one of them adds."""
        key = ((), memory, launch, blocking)
        if key not in self._rows:
            self._rows[key] = self._add_row(self._chunk_costs(memory, launch, blocking).once(), repeat(0))
        return self._rows[key]

    def _event_calls(self, launch: Launch) -> tuple[int, int]:
        """Return the shapes of a record and of a wait."""
        calls = self._calls[launch]
        rows = [shape_row(Shape(NOTHING, calls[kind])) for kind in (RecordEvent, WaitEvent)]
        first = self._append(rows)
        return first, first + 1

    def _row(self, part: Part, memory: HostMemory, launch: Launch, blocking: bool) -> tuple[int, int]:
        """Return the first shape of a chunk, and the most ticks that one of its ops adds.

        In a graph, a second row of shapes follows, for kernels right behind other kernels.
        """
        key = tuple(part), memory, launch, blocking
        if key not in self._rows:
            costs = self._chunk_costs(memory, launch, blocking)
            shapes = costs.chunk(part) + (costs.chunk(part, "graph") if launch == "graph" else [])
            self._rows[key] = self._add_row(shapes, 2 * self.numbers)
        return self._rows[key]

    def _chunk_costs(self, memory: HostMemory, launch: Launch, blocking: bool) -> ChunkCosts:
        return ChunkCosts(self.workload, self.device, self._calls[launch], memory == "pageable", blocking, launch)

    def _add_row(self, shapes: list[Shape], numbers: Iterable[int]) -> tuple[int, int]:
        most = max((most_ticks(shape, self._overhead) for shape in shapes), default=0)
        return self._append(list(map(shape_row, shapes, numbers))), most

    def _append(self, rows: list[tuple[Any, ...]]) -> int:
        """Add rows to the table; return the first one."""
        first, self._n = self._n, self._n + len(rows)
        if self._n > len(self._shapes):
            self._shapes = np.concatenate([self._shapes, np.zeros(self._n, SHAPE)])
        self._shapes[first : self._n] = rows
        return first


def _numbers_of(workload: Workload) -> list[int]:
    """Return, for each op of a chunk, the number of its kernel's name, from 1; 0 for a copy."""
    of_name: defaultdict[str, int] = defaultdict(count(1).__next__)
    launches = [of_name[kernel.name] for kernel in workload.kernels for _ in range(kernel.launches)]
    return [*[0] * len(workload.inputs), *launches, *[0] * len(workload.outputs)]


_lock = Lock()
_latest: list[_Costs] = []  # the costs of the last call: the next call often has the same workload and device


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
    ticks = _Job(costs, configs).run(threads or os.cpu_count() or 1)
    for k in np.flatnonzero(ticks == LEFT_OUT).tolist():
        ticks[k] = _by_simpy(workload, configs[k], device)
    return ticks


def _by_simpy(workload: Workload, config: Config, device: Device) -> int:
    """Return the makespan, in ticks, of a configuration that the kernel cannot run, simulated by SimPy."""
    timeline = simulate(config.schedule(workload), device)
    return max((end for end, engine in zip(timeline.end, timeline.engine, strict=True) if engine >= 0), default=0)


class _Block(NamedTuple):
    """Some of a job's configurations: the number of the first one, and their records."""

    first: int
    rows: Array


class _Job:
    """Configurations to run, block by block.

    Threads take turns to make the blocks, in order, and run them in parallel: only one thread at a time holds Python,
    and the kernel needs none. So threads wait only for the first block, and a thread that is done early takes more
    blocks.
    """

    def __init__(self, costs: _Costs, configs: Sequence[Config]) -> None:
        self._costs, self._configs = costs, configs
        self._makespans = np.full(len(configs), LEFT_OUT, np.int64)

    def run(self, threads: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the makespans, computed on ``threads`` threads; LEFT_OUT for those that the kernel cannot run."""
        threads = min(threads, self._threads_worth(threads))
        blocks = self._blocks(threads)
        if threads <= 1:
            self._work(blocks)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(self._work, [blocks] * threads))
        return self._makespans

    def _threads_worth(self, most: int) -> int:
        """Return the number of threads that have enough to do, at most ``most``."""
        ops, enough = 0, (most - 1) * OPS_WORTH_A_THREAD
        for config in self._configs:
            if ops >= enough:
                break
            ops += config.chunks * sum(self._costs.jobs)
        return max(1, min(len(self._configs), 1 + ops // OPS_WORTH_A_THREAD))

    def _blocks(self, threads: int) -> Iterator[_Block]:
        first, shares = 0, SHARES * threads if threads > 1 else 1  # a single thread takes everything
        while left := len(self._configs) - first:
            size = min(BLOCK_ROWS, -(-left // shares))
            yield _Block(first, self._costs.rows(self._configs[first : first + size]))
            first += size

    def _work(self, blocks: Iterator[_Block]) -> None:
        """Run blocks until there are no more."""
        runner = Runner(self._costs)
        while True:
            with _lock:
                block = next(blocks, None)
            if block is None:
                break
            can = np.flatnonzero(block.rows["streams"])
            if len(can):
                self._makespans[block.first + can] = runner.run(block.rows[can])


class Runner:
    """The scratch memory with which one thread runs configurations; it grows with them."""

    def __init__(self, costs: _Costs) -> None:
        self._costs = costs
        self._chunks = self._streams = 0  # the present room
        self._state: tuple[Array, ...] = ()
        self._room: Room | None = None

    def run(self, rows: Array) -> Array:
        """Return the makespans of at least one configuration; the kernel can run all of them."""
        chunks, streams = int(rows["chunks"].max()), int(rows["streams"].max())
        if chunks > self._chunks or streams > self._streams:
            self._make_room(max(chunks, self._chunks), max(streams, self._streams))
        found = np.zeros(len(rows), np.int64)
        run_patterns(rows, self._costs.given, self._room, self._state, found)
        return found

    def _make_room(self, chunks: int, streams: int) -> None:
        """Make room for any program; memory that is never written costs nothing."""
        self._chunks, self._streams = chunks, streams
        self._state = new_state(self._costs.device, chunks * self._costs.jobs[1])
        jobs, joined = self._costs.jobs, min(streams, MOST_JOINED_STREAMS) if self._costs.run_signal else 0
        ops = chunks * (sum(jobs[:3]) + 8) + sum(jobs[3:]) + 3 * streams
        _, bodies, steps, _ = self._costs.passes  # all loops together: an upper limit
        waits = len(steps) * chunks + 2 * streams + joined**2
        self._room = Room(
            ops=np.empty(ops, OP),
            segments=np.empty(ops + 1, SEGMENT),
            host_waits=np.empty(ops + 1, np.int32),
            also=np.empty(waits, ALSO),
            calls=np.empty(ops, np.int64),
            threads=np.empty(1, THREAD),
            at=np.empty(1, AT),
            chunks=np.empty(len(bodies), CHUNK),
            waiting=np.empty(streams, np.int32),
            events=np.empty((chunks, 1 + steps["event"].max()), EVENT),
            last=np.empty(streams, np.int32),
            kinds=np.empty(streams, np.int32),
            tails=np.empty(ENGINES * QUEUES, np.int32),
            owners=np.empty(ENGINES * QUEUES, np.int32),
            owned=np.empty((ENGINES, streams), np.int32),
            known=np.empty((streams + 1) * KINDS, np.bool_),
            launched=np.empty(1 + max(self._costs.numbers, default=0), np.bool_),
        )
