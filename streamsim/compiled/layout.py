"""Configurations laid out as ops for the event loop, as ``schedule`` and ``lower`` would lay them out.

The loops are those of :mod:`streamsim.program.loops`, as tables of whole numbers.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from streamsim import rules
from streamsim.compiled.loop import called, compiled, inlined, rule, run_loop, uintp
from streamsim.compiled.records import (
    BODY,
    BUFFERS,
    COMPUTE,
    NONE,
    NOT_YET,
    PASS,
    QUEUES,
    STEP,
    Array,
)
from streamsim.program import (
    ISSUE_ORDERS,
    STAGES,
    Body,
    ChunkLoop,
    Distance,
    Issue,
    Order,
    Prepare,
    Record,
    Stages,
    loop_of,
)
from streamsim.rules import KERNEL, KINDS, NEVER, NO_STREAM, NOBODY, NOTHING

queue_of, reset_after_wait, runs_on = map(rule, (rules.queue_of, rules.reset_after_wait, rules.runs_on))
turn_surcharge, work_surcharge = map(rule, (rules.turn_surcharge, rules.work_surcharge))
CALLED_OWN, CALLED_RECORD, CALLED_WAIT = rules.OWN_WORK, rules.RECORD, rules.WAIT
Jobs = tuple[int, int, int, int, int]

PREPARE, ISSUE, RECORD, WAIT, OPEN, JOIN = range(6)


class LoopTables(NamedTuple):
    """Tables of the loops' passes, bodies and steps; ``of_loop``: the passes of each loop.

    Copies before the first chunk and behind the last one are passes of one round.
    """

    passes: Array
    bodies: Array
    steps: Array
    of_loop: dict[tuple[Order, bool], tuple[int, int]]


@lru_cache(maxsize=16)
def loop_tables(stages: Stages, jobs: Jobs, is_run_signal: bool) -> LoopTables:
    """Return the loops of all issue orders for chunks with these stages.

    ``jobs``: the numbers of copies in, kernels and copies back of a chunk, and of the copies before the first and
    behind the last chunk. ``is_run_signal``: the end of a kernel is signalled with the end of its run.
    """
    tables = _LoopRows(jobs, is_run_signal)
    of_loop = {
        (order, ring): tables.add(loop_of(order, ring, stages)) for order in ISSUE_ORDERS for ring in (False, True)
    }
    rows = np.array(tables.passes, PASS), np.array(tables.bodies, BODY), np.array(tables.steps, STEP)
    return LoopTables(*rows, of_loop)


class _LoopRows:
    """Rows of the tables, while loops are added."""

    def __init__(self, jobs: Jobs, is_run_signal: bool) -> None:
        copies_in, kernels, copies_out, self._once_in, self._once_out = jobs
        self._is_run_signal = is_run_signal
        self._has_kernels = kernels > 0
        kernels += copies_in
        self._jobs = dict(
            zip(STAGES, ((0, copies_in), (copies_in, kernels), (kernels, kernels + copies_out)), strict=True)
        )
        self.passes: list[tuple[int, ...]] = []
        self.bodies: list[tuple[int, ...]] = []
        self.steps: list[tuple[int, ...]] = []

    def add(self, loop: ChunkLoop) -> tuple[int, int]:
        """Add a loop; return its first pass, and the pass behind its last."""
        first = len(self.passes)
        opens, joins = ([], []) if loop.roles else ([_row(OPEN)], [_row(JOIN)])
        if self._once_in:
            self._once(_row(ISSUE, 0, 0, self._once_in), *opens)
        for number, bodies in enumerate(loop.passes):
            issued = [step.stage for body in bodies for step in body.steps if isinstance(step, Issue)]
            waits = self._is_run_signal and self._has_kernels and issued[:1] == ["copy out"]
            begins = len(self.bodies)
            for body in bodies:
                self._body(list(self._steps(body, loop)), body.follows)
            follows = any(body.follows for body in bodies)
            self.passes.append((begins, len(self.bodies), False, follows, self._has_kernels and number > 0, waits))
        if self._once_out:
            stream = loop.ends[0] if loop.ends else 0
            self._once(*joins, _row(ISSUE, stream, self._once_in, self._once_in + self._once_out))
        return first, len(self.passes)

    def _once(self, *steps: tuple[int, ...]) -> None:
        """Add a pass of one round."""
        self._body(list(steps), False)
        self.passes.append((len(self.bodies) - 1, len(self.bodies), True, False, False, False))

    def _body(self, steps: list[tuple[int, ...]], follows: bool) -> None:
        self.bodies.append((len(self.steps), len(self.steps) + len(steps), follows))
        self.steps += steps

    def _steps(self, body: Body, loop: ChunkLoop) -> Iterator[tuple[int, ...]]:
        for step in body.steps:
            if isinstance(step, Prepare):
                yield _row(PREPARE)
            elif isinstance(step, Issue):
                yield _row(ISSUE, step.stream, *self._jobs[step.stage])
            else:
                does, distance = (RECORD, step.awaited or 0) if isinstance(step, Record) else (WAIT, step.before)
                yield _row(does, step.stream, 0, 0, loop.events.index(step.event), distance, step.between_streams)


def _row(
    does: int,
    stream: int = 0,
    begin: int = 0,
    end: int = 0,
    event: int = 0,
    distance: Distance = 0,
    between: bool = False,
) -> tuple[int, ...]:
    return does, stream, begin, end, event, BUFFERS if distance == "buffers" else distance, between


class CostTables(NamedTuple):
    """The tables that all configurations of a workload on a device share."""

    card: Any
    hand_overs: Any
    costs: Any
    engine_of_kind: Any
    runs: Any
    passes: Any
    bodies: Any
    steps: Any


class Scratch(NamedTuple):
    """Memory for the ops of any configuration, and for the state while they are laid out."""

    ops: Any
    segments: Any
    host_waits: Any  # the ops that segments wait for
    extra: Any  # waits for ops of other streams, and for earlier ops
    calls: Any  # ticks of each call
    threads: Any
    at: Any  # one record: the numbers so far, and the host's state
    chunks: Any  # for each body of a pass: the next stream, and the run of its chunk
    waiting: Any  # for each stream: the first wait of its next op, in ``extra``
    events: Any  # of each chunk: the op that completes the event, and its stream
    last: Any  # the last op of each stream
    kinds: Any  # the kind of the last op of each stream, events included
    tails: Any  # the last op of each queue
    owners: Any  # the stream that owns each queue
    owned: Any  # the queue of each stream on each engine
    known: Any  # whether each stream has had an op of each kind
    launched: Any  # whether each kernel was launched


@called
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
def _wait_too(scratch, stream, before, source):
    """Let the next op of ``stream`` wait for ``before``, its only wait for an op of the stream ``source``."""
    place = scratch.at[0].waits
    new = scratch.extra[uintp(place)]
    new.before, new.source, new.crosses = before, source, 1
    new.beside = scratch.waiting[uintp(stream)]
    scratch.waiting[uintp(stream)] = place
    scratch.at[0].waits = place + 1


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
        _wait_too(scratch, stream, before, source)


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
def _join_kernels(config, scratch):
    """Let the first copy back of every stream wait for the last kernel of every other stream, too."""
    for stream in range(config.streams):
        for other in range(config.streams):
            if other != stream:
                _wait_too(scratch, stream, scratch.last[uintp(other)], other)


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


@called
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
        if this.joins and config.streams > 1:
            _join_kernels(config, scratch)
        for i in range(chunks + behind):
            for b in range(this.first, this.last):
                body = tables.bodies[uintp(b)]
                chunk = i - behind if body.follows else i
                if 0 <= chunk < chunks:
                    _steps(
                        config, tables, scratch, this, body, chunk, scratch.chunks[uintp(b - this.first)], hands_over
                    )
    _end(scratch)


@compiled
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
