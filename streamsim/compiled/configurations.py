"""Makespans of many configurations of a workload, without building their schedules.

The cost of an op depends on its chunk's elements and on little else. The model's own functions therefore give all costs
once, for a table. The compiled kernel writes the ops of each configuration from this table, and runs them.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, count, repeat
from operator import attrgetter
from threading import Lock
from typing import Any

import numpy as np

from streamsim.compiled.layout import CostTables, Scratch, loop_tables, run_patterns
from streamsim.compiled.records import (
    AT,
    CHUNK,
    CONFIG,
    COST,
    ENGINES,
    EVENT,
    EXTRA,
    GRAPH,
    ISSUED,
    LARGEST,
    OP,
    QUEUES,
    RUN,
    SEGMENT,
    THREAD,
    WITH_ROLES,
    Array,
    card_of,
    cost_row,
    engine_of_kind,
    hand_overs_of,
    most_ticks,
    new_state,
    overhead_of,
)
from streamsim.device import Device
from streamsim.lowering import NOTHING, ChunkCosts, OpCost, call_ticks, surcharges_of
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

OPS_WORTH_A_THREAD = 200_000  # they take some milliseconds
MOST_COSTS = 1 << 17  # costs, runs or cuts that are kept from call to call
MOST_JOINED_STREAMS = 2048  # most streams if all copies back wait for all last kernels: each pair is a wait
LEFT_OUT = -1  # the kernel cannot run this configuration
_WAY = attrgetter("order", "chunks", "buffers", "memory", "launch")


class _Records:
    """A table of records that grows. Rows stay where they are."""

    def __init__(self, kind: np.dtype[Any]) -> None:
        self.rows, self.count = np.zeros(64, kind), 0

    def add(self, rows: Sequence[tuple[Any, ...]]) -> int:
        """Add rows behind the others; return the place of the first one."""
        first, self.count = self.count, self.count + len(rows)
        if self.count > len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros(self.count, self.rows.dtype)])
        self.rows[first : self.count] = rows
        return first


class _CostTable:
    """The costs of a workload on a device, as growing tables of records."""

    def __init__(self, workload: Workload, device: Device) -> None:
        self.workload, self.device = workload, device
        self._fixed = card_of(device), hand_overs_of(device), engine_of_kind(device)
        launches = sum(kernel.launches for kernel in workload.kernels)
        once = len(workload.h2d_once), len(workload.d2h_once)
        self.jobs = (len(workload.inputs), launches, len(workload.outputs), *once)
        self.numbers = _numbers_of(workload)
        self.run_signal = device.compute.kernel_signal == "run"
        self.passes = loop_tables(stages_of(workload), self.jobs, self.run_signal)
        self._overhead = overhead_of(device)
        self._chunks: dict[tuple[Any, ...], tuple[int, int]] = {}  # results of ``_chunk``
        self._ways: dict[tuple[Any, ...], int] = {}  # the place of the cut, by _WAY
        self._cuts, self._costs, self._runs = _Records(CONFIG), _Records(COST), _Records(RUN)
        self._cuts.count = 1  # cuts are configurations without their streams; SimPy must run the first one
        self._calls = {launch: call_ticks(launch, device) for launch in LAUNCHES}
        # By launch: the cost of a record. The cost of a wait is behind it.
        self._events = {
            launch: self._costs.add([cost_row(OpCost(NOTHING, calls[kind])) for kind in (RecordEvent, WaitEvent)])
            for launch, calls in self._calls.items()
        }

    def tables(self) -> CostTables:
        """Return the present tables for the kernel. Rows do not change when the tables grow."""
        card, hand_overs, engines = self._fixed
        return CostTables(card, hand_overs, self._costs.rows, engines, self._runs.rows, *self.passes[:3])

    @property
    def is_large(self) -> bool:
        return max(self._costs.count, self._runs.count, len(self._ways)) > MOST_COSTS

    def rows(self, configs: Sequence[Config]) -> Array:
        """Return the configurations as records; those that the kernel cannot run have no streams.

        Many configurations are done at a time, because work on a single one costs as much as some of its ops.
        """
        ways = self._ways
        places = [ways[way] if way in ways else self._add(way, configs[k]) for k, way in enumerate(map(_WAY, configs))]
        streams = [config.streams for config in configs]
        rows = self._cuts.rows[places]
        rows["streams"] = np.where(rows["roles"], rows["streams"], np.minimum(rows["streams"], streams))
        issued = np.where(rows["roles"], WITH_ROLES + rows["streams"], ISSUED + np.minimum(rows["streams"], MANY))
        rows["hand_overs"] = np.where(rows["graph"], GRAPH, issued)
        if self.run_signal:
            rows["streams"][(rows["passes_to"] - rows["passes_from"] > 1) & (rows["streams"] > MOST_JOINED_STREAMS)] = 0
        return rows

    def _add(self, way: tuple[Any, ...], config: Config) -> int:
        """Add a cut to the table, and return its place; 0 if SimPy must run it."""
        cut = self._cut(config)
        place = self._ways[way] = 0 if cut is None else self._cuts.add([cut])
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
        issue = memory, launch, config.is_blocking
        found = [self._chunk(part._replace(many=1), *issue) for part in parts]
        behind = sum(self.jobs[:3])  # in a graph, the offset of costs right behind kernels: see ``_chunk``
        once, most_once = self._chunk(None, *issue)
        most = max(most_once, *(most for _, most in found))
        absent = sum(part.many * (part.inputs + part.outputs).count(0) for part in parts)
        nodes = chunks * sum(self.jobs[:3]) + sum(self.jobs[3:]) - absent
        begins = 0 if launch == "live" else ticks(self.device.host.graph_launch_s)
        work = [ticks(self.workload.host_s(part)) for part in parts]
        if begins + chunks * max(work) + (nodes + 8 * chunks) * most > LARGEST:
            return None
        cut = [part.d2h_once if config.slots else part.inputs + part.outputs + part.d2h_once for part in parts]
        ends = list(accumulate(part.many for part in parts))
        columns = ends, [row for row, _ in found], work, [int(any(pieces)) for pieces in cut]
        first_run = self._runs.add(list(zip(*columns, strict=True)))
        copies = any(self.jobs[3:]) or any(any(part.inputs + part.outputs) for part in parts)
        dearer = surcharges_of(launch, self.device, copies, self.jobs[1] > 0)
        used = {step.stream for step in loop.steps if isinstance(step, Issue)}
        streams = len(used) if loop.roles else useful_streams(config.order, chunks)
        passes = self.passes.of_loop[config.order, config.buffers is not None]
        issued = bool(loop.roles), launch == "graph", chunks, streams, config.slots or 0, *passes
        events = self._events[launch], self._events[launch] + 1
        # ``rows`` sets the last field
        return *issued, first_run, self._runs.count, once, behind, *events, begins, *dearer, 0

    def _chunk(self, part: Part | None, memory: HostMemory, launch: Launch, blocking: bool) -> tuple[int, int]:
        """Return the first cost of a chunk (None: of what is copied once), and the most ticks that one of its ops adds.

        In a graph, a second row of costs follows, for kernels right behind other kernels.
        """
        key = part, memory, launch, blocking
        if key not in self._chunks:
            costs_of = ChunkCosts(
                self.workload, self.device, self._calls[launch], memory == "pageable", blocking, launch
            )
            costs, numbers = (costs_of.once(), repeat(0)) if part is None else (costs_of.chunk(part), 2 * self.numbers)
            if part is not None and launch == "graph":
                costs += costs_of.chunk(part, "graph")
            most = max((most_ticks(cost, self._overhead) for cost in costs), default=0)
            self._chunks[key] = self._costs.add(list(map(cost_row, costs, numbers))), most
        return self._chunks[key]

    def run(self, rows: Array, tables: CostTables) -> Array:
        """Return the makespans of configurations that the kernel can run."""
        found = np.zeros(len(rows), np.int64)
        if len(rows):
            chunks, streams = int(rows["chunks"].max()), int(rows["streams"].max())
            state = new_state(self.device, chunks * self.jobs[1])
            run_patterns(rows, tables, self._scratch(chunks, streams), state, found)
        return found

    def _scratch(self, chunks: int, streams: int) -> Scratch:
        """Return room for any program of at most so many chunks and streams; memory never written costs nothing."""
        jobs, joined = self.jobs, min(streams, MOST_JOINED_STREAMS) if self.run_signal else 0
        ops = chunks * (sum(jobs[:3]) + 8) + sum(jobs[3:]) + 3 * streams
        _, bodies, steps, _ = self.passes  # all loops together: an upper limit
        waits = len(steps) * chunks + 2 * streams + joined**2
        return Scratch(
            ops=np.empty(ops, OP),
            segments=np.empty(ops + 1, SEGMENT),
            host_waits=np.empty(ops + 1, np.int32),
            extra=np.empty(waits, EXTRA),
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
            launched=np.empty(1 + max(self.numbers, default=0), np.bool_),
        )


def _numbers_of(workload: Workload) -> list[int]:
    """Return, for each op of a chunk, the number of its kernel's name, from 1; 0 for a copy."""
    of_name: defaultdict[str, int] = defaultdict(count(1).__next__)
    launches = [of_name[kernel.name] for kernel in workload.kernels for _ in range(kernel.launches)]
    return [*[0] * len(workload.inputs), *launches, *[0] * len(workload.outputs)]


_lock = Lock()
_latest: list[_CostTable] = []  # the costs of the last call: the next call often has the same workload and device


def can_run(workload: Workload, configs: Sequence[Config], device: Device) -> list[bool]:
    """See :func:`streamsim.compiled.can_run`."""
    with _lock:
        found: list[bool] = (_costs_of(workload, device).rows(configs)["streams"] > 0).tolist()
    return found


def _costs_of(workload: Workload, device: Device) -> _CostTable:
    """Return the table of the last call if it had the same workload and device, else a new one."""
    if not (_latest and not _latest[0].is_large and _latest[0].workload == workload and _latest[0].device is device):
        _latest[:] = [_CostTable(workload, device)]
    return _latest[0]


def makespans(
    workload: Workload, configs: Sequence[Config], device: Device, threads: int | None = None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """See :func:`streamsim.compiled.makespans`.

    Python makes the records of all configurations first. Then the kernel runs them, which needs no Python: the largest
    programs are dealt out to the threads first.
    """
    with _lock:
        costs = _costs_of(workload, device)
        rows, tables = costs.rows(configs), costs.tables()
    found = np.full(len(configs), LEFT_OUT, np.int64)
    can = np.flatnonzero(rows["streams"])
    can = can[np.argsort(-rows["chunks"][can], kind="stable")]
    worth = 1 + int(rows["chunks"][can].sum()) * sum(costs.jobs) // OPS_WORTH_A_THREAD
    threads = max(1, min(threads or os.cpu_count() or 1, worth, len(can)))

    def run(own: Array) -> None:
        found[own] = costs.run(rows[own], tables)

    if threads == 1:
        run(can)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, [can[k::threads] for k in range(threads)]))
    for k in np.flatnonzero(found == LEFT_OUT).tolist():  # SimPy runs what the kernel cannot
        timeline = simulate(configs[k].schedule(workload), device)
        found[k] = max((t for t, on in zip(timeline.end, timeline.engine, strict=True) if on >= 0), default=0)
    return found
