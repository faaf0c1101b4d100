"""Makespans of many configurations of a workload, without building their schedules.

The cost of an op depends on its chunk's elements and on little else. The model's own functions therefore give all costs
once, for a table. The compiled kernel lays out the ops of each configuration from this table, as ``schedule`` and
``lower`` would lay them out, and runs them. The loops are those of :mod:`streamsim.program.patterns`, as tables of
whole numbers.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

import os
from collections import defaultdict, namedtuple
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import accumulate, count, pairwise, product, repeat
from operator import attrgetter
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from streamsim import program, rules
from streamsim.compiled import loop as twin
from streamsim.compiled.loop import BUFFERS, COMPUTE, ENGINES, NONE, NOT_YET, QUEUES, Array, inlined, run_loop, uintp
from streamsim.device import Device
from streamsim.lowering import ChunkCosts, OpCost, call_ticks, lower, surcharges_of
from streamsim.program import ChunkLoop, Config, Launch, Order, Step, Workload
from streamsim.rules import KERNEL, KINDS, MANY, NEVER, NO_STREAM, NOBODY, NOTHING, ticks

# The loops of all issue orders, as tables

queue_of, reset_after_wait, runs_on = map(twin.rule, (rules.queue_of, rules.reset_after_wait, rules.runs_on))
turn_surcharge, work_surcharge = map(twin.rule, (rules.turn_surcharge, rules.work_surcharge))
CALLED_OWN, CALLED_RECORD, CALLED_WAIT = rules.OWN_WORK, rules.RECORD, rules.WAIT
Jobs = tuple[int, int, int, int, int]
Row = tuple[int, ...]

PREPARE, ISSUE, RECORD, WAIT, OPEN, JOIN = range(6)
DOES = {"prepare": PREPARE, "record": RECORD, "wait": WAIT}


class LoopTables(NamedTuple):
    """Tables of the loops' passes, bodies and steps; ``of_loop``: the passes of each loop.

    Copies before the first chunk and behind the last one are passes of one round.
    """

    passes: Array
    bodies: Array
    steps: Array
    of_loop: dict[tuple[Order, bool], tuple[int, int]]


@lru_cache(maxsize=16)
def loop_tables(stages: program.Stages, jobs: Jobs) -> LoopTables:
    """Return the loops of all issue orders for chunks with these stages.

    ``jobs``: the numbers of copies in, kernels and copies back of a chunk, and of the copies before the first and
    behind the last chunk.
    """
    passes, bodies, steps, of_loop = list[Row](), list[Row](), list[Row](), {}
    for order, ring in product(program.ISSUE_ORDERS, (False, True)):
        first = len(passes)
        for some, once, later in _passes(program.loop_of(order, ring, stages), jobs):
            first_body = len(bodies)
            for rows, follows in some:
                bodies.append((len(steps), len(steps) + len(rows), follows))
                steps += rows
            passes.append((first_body, len(bodies), once, any(follows for _, follows in some), later))
        of_loop[order, ring] = first, len(passes)
    return LoopTables(np.array(passes, twin.PASS), np.array(bodies, twin.BODY), np.array(steps, twin.STEP), of_loop)


def _passes(loop: ChunkLoop, jobs: Jobs) -> Iterator[tuple[list[tuple[list[Row], bool]], bool, bool]]:
    """Yield the passes of a loop: the steps of each body, whether it follows; ``once`` and ``later`` as in PASS."""
    copies_in, kernels, copies_out, once_in, once_out = jobs
    ends = tuple(accumulate((copies_in, kernels, copies_out), initial=0))
    own = dict(zip(program.STAGES, pairwise(ends), strict=True))
    opens, joins = ([], []) if loop.roles else ([_row(OPEN)], [_row(JOIN)])
    if once_in:
        yield [([_row(ISSUE, 0, 0, once_in), *opens], False)], True, False
    for number, bodies in enumerate(loop.passes):
        some = [([_step(step, loop, own) for step in body.steps], body.follows) for body in bodies]
        yield some, False, kernels > 0 and number > 0
    if once_out:
        stream = loop.ends[0] if loop.ends else 0
        yield [([*joins, _row(ISSUE, stream, once_in, once_in + once_out)], False)], True, False


def _step(step: Step, loop: ChunkLoop, jobs: Mapping[Any, tuple[int, int]]) -> Row:
    if step.does in jobs:
        return _row(ISSUE, step.stream, *jobs[step.does])
    event = loop.events.index(step.event) if step.event else 0
    return _row(DOES[step.does], step.stream, 0, 0, event, step.distance, step.between_streams)


def _row(
    does: int,
    stream: int = 0,
    begin: int = 0,
    end: int = 0,
    event: int = 0,
    distance: program.Distance = 0,
    between: bool = False,
) -> Row:
    return does, stream, begin, end, event, BUFFERS if distance == "buffers" else distance, between


# The tables that all configurations of a workload on a device share.
CostTables = namedtuple("CostTables", "card hand_overs costs engine_of_kind runs passes bodies steps")

# Memory for the ops of any configuration, and for the state while they are laid out.
# ``host_waits``: the ops that segments wait for; ``extra``: waits for ops of other streams, and for earlier ops;
# ``calls``: ticks of each call; ``at``: one record, the numbers so far and the host's state; ``chunks``: for each body
# of a pass, the next stream and the run of its chunk; ``waiting``: for each stream, the first wait of its next op, in
# ``extra``; ``events``: of each chunk, the op that completes the event, and its stream; ``last``, ``kinds``: the last
# op of each stream, and its kind, events included; ``tails``: the last op of each queue; ``owners``: the stream that
# owns each queue; ``owned``: the queue of each stream on each engine; ``known``: whether each stream has had an op of
# each kind; ``launched``: whether each kernel was launched.
Scratch = namedtuple(
    "Scratch",
    "ops segments host_waits extra calls threads at chunks waiting events last kinds tails owners owned known launched",
)


@twin.called
def _clear(config, scratch):
    """Reset the state: no op is issued yet, to any queue or in any stream."""
    streams, thread, at = config.streams, scratch.threads[0], scratch.at[0]
    scratch.last[:streams] = NONE
    scratch.waiting[:streams] = NONE
    scratch.kinds[:streams] = NOTHING
    scratch.tails[:] = NONE
    scratch.owners[:] = NOBODY
    scratch.owned[:, :streams] = 0
    scratch.known[: (streams + 1) * KINDS] = False
    scratch.launched[0], scratch.launched[1:] = True, False
    at.ops = at.segments = at.waits = at.chunk = 0
    at.stream, at.kind, at.called = NO_STREAM, NOTHING, CALLED_OWN
    at.entered = at.copied = at.launched = 0
    thread.segment = thread.called = thread.awaited = 0
    thread.returns = config.launch


@inlined
def _wait(scratch, stream, before, source):
    """Let the next op of ``stream`` wait for ``before``, the last op so far of the stream ``source``.

    If it waits for an earlier op of that stream already, the later op takes its place.
    """
    extra, k = scratch.extra, scratch.waiting[uintp(stream)]
    while k != NONE and extra[uintp(k)].source != source:
        k = extra[uintp(k)].beside
    if k != NONE:
        extra[uintp(k)].before = max(extra[uintp(k)].before, before)
    elif stream != source and before != NONE:
        place = scratch.at[0].waits
        new = extra[uintp(place)]
        new.before, new.source, new.crosses = before, source, 1
        new.beside = scratch.waiting[uintp(stream)]
        scratch.waiting[uintp(stream)] = place
        scratch.at[0].waits = place + 1


@inlined
def _event_call(config, tables, scratch, stream, cost, called):
    """Lay out a record or a wait in a stream."""
    at = scratch.at[0]
    scratch.ops[uintp(at.ops)].kind, scratch.ops[uintp(at.ops)].copies = NOTHING, 0
    scratch.calls[uintp(at.ops)] = tables.costs[uintp(cost)].call + turn_surcharge(config, at, called)
    scratch.kinds[uintp(stream)] = NOTHING
    at.ops += 1


@inlined
def _prepare(scratch, ticks):
    """Lay out host work of these ticks, if any."""
    at = scratch.at[0]
    if ticks:
        scratch.ops[uintp(at.ops)].kind, scratch.ops[uintp(at.ops)].copies = NOTHING, 0
        scratch.calls[uintp(at.ops)] = ticks
        at.called = CALLED_OWN
        at.ops += 1


@inlined
def _segment(scratch, waits):
    """End a segment behind the latest op; ``waits``: 1 if the host waits for this op, else 0."""
    at, segments = scratch.at[0], scratch.segments
    segment = segments[uintp(at.segments)]
    segment.first = segments[uintp(at.segments - 1)].last if at.segments else 0
    segment.last, segment.waits_from, segment.waits_to = at.ops, at.segments, at.segments + waits
    segment.returned, segment.behind, segment.next = NOT_YET, NONE, at.segments + 1
    at.segments += 1


@inlined
def _put(config, tables, scratch, stream, cost, is_next):
    """Lay out the next op of a stream. It waits for its call, for the op before it, and for the ops in ``waiting``.

    ``is_next``: its arrays show another chunk than the ops since a stream was entered. The op goes through the queue
    that its stream owns, or through the queue of its run.
    """
    at, card, row = scratch.at[0], tables.card, tables.costs[uintp(cost)]
    kind, place, n = np.int64(row.kind), uintp(stream), at.ops
    engine = np.int64(tables.engine_of_kind[kind])
    first, queues = engine * QUEUES, card.kernel_connections if engine == COMPUTE else card.copy_connections
    stands = not runs_on(config.graph != 0, kind, np.int64(scratch.kinds[place]))
    queue = np.int64(scratch.owned[uintp(engine), place])
    if stands:
        queue = queue_of(stream + 1, queue, scratch.owners, scratch.tails, first, queues)
        scratch.owners[uintp(first + queue)] = stream + 1
        scratch.owned[uintp(engine), place] = queue
    new = scratch.ops[uintp(n)]
    new.tick = 0
    new.arrival = NEVER
    new.copies = 0
    new.after = new.behind = new.extra = NONE
    new.cost = cost if stands else cost + config.behind
    new.kind = kind
    new.place = first + queue
    new.awaited = 0
    more = work_surcharge(config, at, scratch.known, scratch.launched, stream + 1, kind, row.number, is_next)
    scratch.calls[uintp(n)] = row.call + more
    pending = 1
    before = scratch.last[place]
    if before != NONE:
        scratch.ops[uintp(before)].after = n
        pending += 1
    k = scratch.waiting[place]
    while k != NONE:
        wait = scratch.extra[uintp(k)]
        awaited = scratch.ops[uintp(wait.before)]
        wait.op, wait.next = n, awaited.extra
        awaited.extra = k
        pending += 1
        k = wait.beside
    scratch.waiting[place] = NONE
    if stands:
        ahead = scratch.tails[uintp(first + queue)]
        scratch.tails[uintp(first + queue)] = n
        if ahead >= 0:
            scratch.ops[uintp(ahead)].behind = n
            pending += 1
    new.pending = pending
    scratch.last[place], scratch.kinds[place] = n, kind
    at.ops = n + 1
    if row.holds:  # the host waits until it has ended
        scratch.host_waits[uintp(at.segments)] = n
        _segment(scratch, 1)
        reset_after_wait(at)


@inlined
def _is_next(tables, scratch, config, this, chunk, cost, job, run):
    """Return whether the arrays of a job show another chunk than the ops since a stream was entered.

    The first job of a chunk in a round does so. In the first chunk of a later pass, a job follows the stage before,
    which worked on the pieces of the chunk for which a stream was entered last.
    """
    kind = tables.costs[uintp(cost)].kind
    if scratch.at[0].leads and chunk > 0:
        return kind != KERNEL or tables.runs[uintp(run)].pieces != 0
    entered = scratch.at[0].chunk
    if not this.later or chunk > 0 or entered == 0:
        return False
    k = config.runs_from
    while tables.runs[uintp(k)].end <= entered:
        k += 1
    return kind == KERNEL or tables.costs[uintp(tables.runs[uintp(k)].row + job)].kind != NOTHING


@inlined
def _open(config, tables, scratch):
    """Let all other streams wait for the first one."""
    if config.streams > 1:
        _event_call(config, tables, scratch, 0, config.record, CALLED_RECORD)
        for stream in range(1, config.streams):
            _event_call(config, tables, scratch, stream, config.wait, CALLED_WAIT)
            _wait(scratch, stream, scratch.last[0], 0)


@inlined
def _join(config, tables, scratch):
    """Let the first stream wait for all others."""
    for stream in range(1, config.streams):
        _event_call(config, tables, scratch, stream, config.record, CALLED_RECORD)
        _event_call(config, tables, scratch, 0, config.wait, CALLED_WAIT)
        _wait(scratch, 0, scratch.last[uintp(stream)], stream)


@inlined
def _end(scratch):
    """Close the last segment."""
    at = scratch.at[0]
    if at.segments == 0 or scratch.segments[uintp(at.segments - 1)].last < at.ops:
        _segment(scratch, 0)
    scratch.segments[uintp(at.segments - 1)].next = NONE


@inlined
def _issue(config, tables, scratch, this, step, stream, row, chunk, run):
    """Lay out the jobs of a step, whose costs begin at ``row``."""
    for cost in range(row + step.begin, row + step.end):
        if tables.costs[uintp(cost)].kind == NOTHING:  # the chunk has no piece of the array
            continue
        is_next = config.enter != 0 and _is_next(tables, scratch, config, this, chunk, cost, cost - row, run)
        _put(config, tables, scratch, stream, cost, is_next)
        scratch.at[0].leads = 0
        if scratch.at[0].entered:
            scratch.at[0].chunk = chunk


@inlined
def _event(config, tables, scratch, step, stream, chunk):
    """Lay out a record of the chunk's event, or a wait for the event of an earlier chunk if there is such a chunk."""
    distance = config.slots if step.distance == BUFFERS else step.distance
    if step.does == RECORD:
        if chunk + distance < config.chunks:
            event = scratch.events[uintp(chunk), uintp(step.event)]
            event.op, event.stream = scratch.last[uintp(stream)], stream
            _event_call(config, tables, scratch, stream, config.record, CALLED_RECORD)
    elif chunk >= distance:
        event = scratch.events[uintp(chunk - distance), uintp(step.event)]
        _event_call(config, tables, scratch, stream, config.wait, CALLED_WAIT)
        _wait(scratch, stream, event.op, event.stream)


@inlined
def _steps(config, tables, scratch, this, body, chunk, own, hands_over):
    """Lay out a body for a chunk; ``own``: the state of the body; ``hands_over``: buffers go from stream to stream."""
    if chunk == tables.runs[uintp(own.run)].end:
        own.run += 1
    run = tables.runs[uintp(own.run)]
    row = config.once if this.once else run.row
    scratch.at[0].leads = 1
    for s in range(body.first, body.last):
        step = tables.steps[uintp(s)]
        stream = own.stream if step.stream < 0 else step.stream
        if step.does == ISSUE:
            _issue(config, tables, scratch, this, step, stream, row, chunk, own.run)
        elif step.does == PREPARE:
            _prepare(scratch, run.work)
        elif step.does == OPEN:
            _open(config, tables, scratch)
        elif step.does == JOIN:
            _join(config, tables, scratch)
        elif hands_over or not step.between:
            _event(config, tables, scratch, step, stream, chunk)
    own.stream += 1
    if own.stream == config.streams:
        own.stream = 0


@twin.called
def _lay_out(config, tables, scratch):
    """Lay out the ops and segments of a configuration; ``scratch.at`` holds their numbers."""
    _clear(config, scratch)
    hands_over = config.slots % config.streams != 0
    for p in range(config.passes_from, config.passes_to):
        this = tables.passes[uintp(p)]
        chunks = 1 if this.once else config.chunks
        behind = 1 if this.follows and config.slots != 1 else 0
        for b in range(this.last - this.first):
            scratch.chunks[uintp(b)].stream, scratch.chunks[uintp(b)].run = 0, config.runs_from
        for i in range(chunks + behind):
            for b in range(this.first, this.last):
                body = tables.bodies[uintp(b)]
                chunk = i - behind if body.follows else i
                if 0 <= chunk < chunks:
                    _steps(
                        config, tables, scratch, this, body, chunk, scratch.chunks[uintp(b - this.first)], hands_over
                    )
    _end(scratch)


@twin.compiled
def run_patterns(sources):
    """Make the function that lays out configurations and runs them."""

    def run_patterns(configs, tables, scratch, state, makespans):
        """Run every configuration."""
        _ = sources
        at = scratch.at[0]
        for k in range(len(configs)):
            config = configs[k]
            _lay_out(config, tables, scratch)
            makespans[k] = run_loop(
                tables.card,
                tables.hand_overs[config.hand_overs],
                tables.costs,
                scratch.ops[: at.ops],
                scratch.calls,
                scratch.threads,
                scratch.segments[: at.segments],
                scratch.host_waits,
                scratch.extra,
                state,
                None,
            )

    return run_patterns


# Costs, and makespans

OPS_WORTH_A_THREAD = 200_000  # they take some milliseconds
MOST_COSTS = 1 << 17  # costs, runs or cuts that are kept from call to call
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

    def __init__(self, workload: Workload, device: Device, launches: tuple[int, ...]) -> None:
        self.workload, self.device, self.launches = workload, device, launches
        self._fixed = twin.card_of(device), twin.hand_overs_of(device), twin.engine_of_kind(device)
        once = len(workload.h2d_once), len(workload.d2h_once)
        self.jobs = (len(workload.inputs), sum(launches), len(workload.outputs), *once)
        self.numbers = _numbers_of(workload, launches)
        self.passes = loop_tables(program.stages_of(workload), self.jobs)
        self._overhead = twin.overhead_of(device)
        self._chunks: dict[tuple[Any, ...], tuple[int, int]] = {}  # results of ``_chunk``
        self._ways: dict[tuple[Any, ...], int] = {}  # the place of the cut, by _WAY
        self._cuts, self._costs, self._runs = map(_Records, (twin.CONFIG, twin.COST, twin.RUN))
        self._cuts.count = 1  # cuts are configurations without their streams; the first one is built as a schedule
        self._calls = {launch: call_ticks(launch, device) for launch in program.LAUNCHES}
        # By launch: the cost of a record. The cost of a wait is behind it.
        self._events = {
            launch: self._costs.add(
                [twin.cost_row(OpCost(NOTHING, calls[kind])) for kind in (program.RecordEvent, program.WaitEvent)]
            )
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
        issued = np.where(
            rows["roles"], twin.WITH_ROLES + rows["streams"], twin.ISSUED + np.minimum(rows["streams"], MANY)
        )
        rows["hand_overs"] = np.where(rows["graph"], twin.GRAPH, issued)
        return rows

    def _add(self, way: tuple[Any, ...], config: Config) -> int:
        """Add a cut to the table, and return its place; 0 if it is built as a schedule."""
        cut = self._cut(config)
        place = self._ways[way] = 0 if cut is None else self._cuts.add([cut])
        return place

    def _cut(self, config: Config) -> tuple[int, ...] | None:
        """Return the record of a configuration with as many streams as are useful; None if the kernel cannot run it.

        The kernel cannot run a configuration whose ticks exceed an int64, nor one on a card that signals the end of a
        kernel with the end of its run. In prefetching programs, it needs copies in and kernels, a piece of each array
        in each chunk, and nothing to copy back once.
        """
        chunks, memory, launch = config.chunks, config.memory, config.launch
        loop = config.loop(self.workload)
        parts = self.workload.cut(chunks)
        has_gaps = not all(all(part.inputs + part.outputs) for part in parts)
        if self.device.compute.kernel_signal == "run":
            return None
        if loop.roles and (has_gaps or not all(self.jobs[:2]) or self.jobs[4]):
            return None
        issue = memory, launch, config.issued.is_blocking
        found = [self._chunk(part._replace(many=1), *issue) for part in parts]
        behind = sum(self.jobs[:3])  # in a graph, the offset of costs right behind kernels: see ``_chunk``
        once, most_once = self._chunk(None, *issue)
        most = max(most_once, *(most for _, most in found))
        absent = sum(part.many * (part.inputs + part.outputs).count(0) for part in parts)
        nodes = chunks * sum(self.jobs[:3]) + sum(self.jobs[3:]) - absent
        begins = 0 if launch == "live" else ticks(self.device.host.graph_launch_s)
        work = [ticks(self.workload.host_s(part)) for part in parts]
        if begins + chunks * max(work) + (nodes + 8 * chunks) * most > twin.LARGEST:
            return None
        cut = [part.d2h_once if config.slots else part.inputs + part.outputs + part.d2h_once for part in parts]
        ends = list(accumulate(part.many for part in parts))
        columns = ends, [row for row, _ in found], work, [int(any(pieces)) for pieces in cut]
        first_run = self._runs.add(list(zip(*columns, strict=True)))
        copies = any(self.jobs[3:]) or any(any(part.inputs + part.outputs) for part in parts)
        dearer = surcharges_of(launch, self.device, copies, self.jobs[1] > 0)
        used = {step.stream for step in loop.steps if step.does in program.STAGES}
        streams = len(used) if loop.roles else program.useful_streams(config.order, chunks)
        passes = self.passes.of_loop[config.order, config.buffers is not None]
        issued = bool(loop.roles), launch == "graph", chunks, streams, config.slots or 0, *passes
        events = self._events[launch], self._events[launch] + 1
        # ``rows`` sets the last field
        return *issued, first_run, self._runs.count, once, behind, *events, begins, *dearer, 0

    def _chunk(
        self, part: program.EqualChunks | None, memory: program.HostMemory, launch: Launch, blocking: bool
    ) -> tuple[int, int]:
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
            most = max((twin.most_ticks(cost, self._overhead) for cost in costs), default=0)
            self._chunks[key] = self._costs.add(list(map(twin.cost_row, costs, numbers))), most
        return self._chunks[key]

    def run(self, rows: Array, tables: CostTables) -> Array:
        """Return the makespans of configurations that the kernel can run."""
        found = np.zeros(len(rows), np.int64)
        if len(rows):
            chunks, streams = int(rows["chunks"].max()), int(rows["streams"].max())
            state = twin.new_state(self.device, chunks * self.jobs[1])
            run_patterns(rows, tables, self._scratch(chunks, streams), state, found)
        return found

    def _scratch(self, chunks: int, streams: int) -> Scratch:
        """Return room for any program of at most so many chunks and streams; memory never written costs nothing."""
        jobs = self.jobs
        ops = chunks * (sum(jobs[:3]) + 8) + sum(jobs[3:]) + 3 * streams
        _, bodies, steps, _ = self.passes  # all loops together: an upper limit
        waits = len(steps) * chunks + 2 * streams
        return Scratch(
            ops=np.empty(ops, twin.OP),
            segments=np.empty(ops + 1, twin.SEGMENT),
            host_waits=np.empty(ops + 1, np.int32),
            extra=np.empty(waits, twin.EXTRA),
            calls=np.empty(ops, np.int64),
            threads=np.empty(1, twin.THREAD),
            at=np.empty(1, twin.AT),
            chunks=np.empty(len(bodies), twin.CHUNK),
            waiting=np.empty(streams, np.int32),
            events=np.empty((chunks, 1 + steps["event"].max()), twin.EVENT),
            last=np.empty(streams, np.int32),
            kinds=np.empty(streams, np.int32),
            tails=np.empty(ENGINES * QUEUES, np.int32),
            owners=np.empty(ENGINES * QUEUES, np.int32),
            owned=np.empty((ENGINES, streams), np.int32),
            known=np.empty((streams + 1) * KINDS, np.bool_),
            launched=np.empty(1 + max(self.numbers, default=0), np.bool_),
        )


def _numbers_of(workload: Workload, launches: tuple[int, ...]) -> list[int]:
    """Return, for each op of a chunk, the number of its kernel's name, from 1; 0 for a copy."""
    of_name: defaultdict[str, int] = defaultdict(count(1).__next__)
    own = [of_name[kernel.name] for kernel, many in zip(workload.kernels, launches, strict=True) for _ in range(many)]
    return [*[0] * len(workload.inputs), *own, *[0] * len(workload.outputs)]


_lock = Lock()
_latest: list[_CostTable] = []  # the costs of the last call: the next call often has the same workload and device


def _costs_of(workload: Workload, device: Device, launches: tuple[int, ...]) -> _CostTable:
    """Return the table of the last call if it had the same workload, device and launches, else a new one."""
    last = None if not _latest or _latest[0].is_large else _latest[0]
    if last is None or last.device is not device or (last.workload, last.launches) != (workload, launches):
        _latest[:] = [_CostTable(workload, device, launches)]
    return _latest[0]


def makespans(
    workload: Workload, configs: Sequence[Config], device: Device, threads: int | None = None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """See :func:`streamsim.compiled.makespans`.

    Python makes the records of all configurations first. Then the kernel runs them, which needs no Python: the largest
    programs are dealt out to the threads first.
    """
    with _lock:
        costs = _costs_of(workload, device, workload.launches_in(configs[0].chunks))
        rows, tables = costs.rows(configs), costs.tables()
    found = np.full(len(configs), LEFT_OUT, np.int64)
    can = np.flatnonzero(rows["streams"])
    can = can[np.argsort(-rows["chunks"][can], kind="stable")]
    worth = 1 + int(rows["chunks"][can].sum()) * sum(costs.jobs) // OPS_WORTH_A_THREAD
    threads = max(1, min(threads or os.cpu_count() or 1, worth, len(can)))

    def run_rows(own: Array) -> None:
        found[own] = costs.run(rows[own], tables)

    if threads == 1:
        run_rows(can)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run_rows, [can[k::threads] for k in range(threads)]))
    for k in np.flatnonzero(found == LEFT_OUT).tolist():  # built as a schedule, what the kernel cannot lay out
        found[k] = round(twin.run(lower(configs[k].schedule(workload), device)).makespan_s * 1e9)
    return found
