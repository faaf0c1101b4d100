"""Configurations laid out as ops for the event loop, as ``schedule`` and ``lower`` would lay them out.

The loops are those of :mod:`streamsim.program.loops`, as tables (:mod:`streamsim.compiled.passes`).
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

from typing import Any, NamedTuple

import numpy as np

from streamsim.compiled.loop import run
from streamsim.compiled.numba_code import called, compiled, inlined, rule, uintp
from streamsim.compiled.passes import ISSUE, JOIN, OPEN, PREPARE, RECORD
from streamsim.compiled.tables import BUFFERS, COMPUTE, NONE, NOT_YET, QUEUES
from streamsim.rules import KERNEL, KINDS, NEVER, NO_STREAM, NOBODY, NOTHING, calls, queues

work_surcharge, turn_surcharge, held = rule(calls.work_surcharge), rule(calls.turn_surcharge), rule(calls.held)
queue_of, runs_on = rule(queues.queue_of), rule(queues.runs_on)
CALLED_OWN, CALLED_RECORD, CALLED_WAIT = calls.OWN_WORK, calls.RECORD, calls.WAIT


class Given(NamedTuple):
    """The tables that all configurations of a workload on a device share."""

    card: Any
    hand_overs: Any
    shapes: Any
    engine_of_kind: Any
    runs: Any
    passes: Any
    bodies: Any
    steps: Any


class Room(NamedTuple):
    """Memory for the ops of any configuration, and for the state while they are laid out."""

    ops: Any
    segments: Any
    host_waits: Any  # the ops that segments wait for
    also: Any  # waits for ops of other streams, and for earlier ops
    calls: Any  # ticks of each call
    threads: Any
    at: Any  # one record: the numbers so far, and the host's state
    chunks: Any  # for each body of a pass: the next stream, and the run of its chunk
    waiting: Any  # for each stream: the first wait of its next op, in ``also``
    events: Any  # of each chunk: the op that completes the event, and its stream
    last: Any  # the last op of each stream
    kinds: Any  # the kind of the last op of each stream, events included
    tails: Any  # the last op of each queue
    owners: Any  # the stream that owns each queue
    owned: Any  # the queue of each stream on each engine
    known: Any  # whether each stream has had an op of each kind
    launched: Any  # whether each kernel was launched


@called
def _clear(config, room):
    """Reset the state: no op is issued yet, to any queue or in any stream."""
    streams, thread, at = config.streams, room.threads[0], room.at[0]
    room.last[:streams] = NONE
    room.waiting[:streams] = NONE
    room.kinds[:streams] = NOTHING
    room.tails[:] = NONE
    room.owners[:] = NOBODY
    room.owned[:, :streams] = 0
    room.known[: (streams + 1) * KINDS] = False
    room.launched[0], room.launched[1:] = True, False
    at.ops = at.segments = at.waits = at.chunk = 0
    at.stream, at.kind, at.called = NO_STREAM, NOTHING, CALLED_OWN
    at.entered = at.copied = at.launched = 0
    thread.segment = thread.called = thread.awaited = 0
    thread.returns = config.launch


@inlined
def _wait_too(room, stream, before, source):
    """Let the next op of ``stream`` wait for ``before``, its only wait for an op of the stream ``source``."""
    place = room.at[0].waits
    new = room.also[uintp(place)]
    new.before, new.source, new.crosses = before, source, 1
    new.beside = room.waiting[uintp(stream)]
    room.waiting[uintp(stream)] = place
    room.at[0].waits = place + 1


@inlined
def _wait(room, stream, before, source):
    """Let the next op of ``stream`` wait for ``before``, the last op so far of the stream ``source``.

    If it waits for an earlier op of that stream already, the later op takes its place.
    """
    also, k = room.also, room.waiting[uintp(stream)]
    while k != NONE and also[uintp(k)].source != source:
        k = also[uintp(k)].beside
    if k != NONE:
        also[uintp(k)].before = max(also[uintp(k)].before, before)
    elif stream != source and before != NONE:
        _wait_too(room, stream, before, source)


@inlined
def _event_call(config, given, room, stream, shape, called):
    """Lay out a record or a wait in a stream."""
    at = room.at[0]
    room.ops[uintp(at.ops)].kind, room.ops[uintp(at.ops)].copies = NOTHING, 0
    room.calls[uintp(at.ops)] = given.shapes[uintp(shape)].call + turn_surcharge(config, at, called)
    room.kinds[uintp(stream)] = NOTHING
    at.ops += 1


@inlined
def _prepare(room, ticks):
    """Lay out host work of these ticks, if any."""
    at = room.at[0]
    if ticks:
        room.ops[uintp(at.ops)].kind, room.ops[uintp(at.ops)].copies = NOTHING, 0
        room.calls[uintp(at.ops)] = ticks
        at.called = CALLED_OWN
        at.ops += 1


@inlined
def _segment(room, waits):
    """End a segment behind the latest op; ``waits``: 1 if the host waits for this op, else 0."""
    at, segments = room.at[0], room.segments
    segment = segments[uintp(at.segments)]
    segment.first = segments[uintp(at.segments - 1)].last if at.segments else 0
    segment.last, segment.waits_from, segment.waits_to = at.ops, at.segments, at.segments + waits
    segment.returned, segment.behind, segment.next = NOT_YET, NONE, at.segments + 1
    at.segments += 1


@inlined
def _put(config, given, room, stream, shape, is_next):
    """Lay out the next op of a stream. It waits for its call, for the op before it, and for the ops in ``waiting``.

    ``is_next``: its arrays show another chunk than the ops since a stream was entered. The op goes through the queue
    that its stream owns, or through the queue of its run.
    """
    at, card, row = room.at[0], given.card, given.shapes[uintp(shape)]
    kind, place, n = np.int64(row.kind), uintp(stream), at.ops
    engine = np.int64(given.engine_of_kind[kind])
    first, queues = engine * QUEUES, card.kernel_connections if engine == COMPUTE else card.copy_connections
    stands = not runs_on(config.graph != 0, kind, np.int64(room.kinds[place]))
    queue = np.int64(room.owned[uintp(engine), place])
    if stands:
        queue = queue_of(stream + 1, queue, room.owners, room.tails, first, queues)
        room.owners[uintp(first + queue)] = stream + 1
        room.owned[uintp(engine), place] = queue
    new = room.ops[uintp(n)]
    new.tick = 0
    new.comes = NEVER
    new.copies = 0
    new.after = new.behind = new.also = NONE
    new.shape = shape if stands else shape + config.behind
    new.kind = kind
    new.place = first + queue
    new.awaited = 0
    more = work_surcharge(config, at, room.known, room.launched, stream + 1, kind, row.number, is_next)
    room.calls[uintp(n)] = row.call + more
    pending = 1
    before = room.last[place]
    if before != NONE:
        room.ops[uintp(before)].after = n
        pending += 1
    k = room.waiting[place]
    while k != NONE:
        wait = room.also[uintp(k)]
        awaited = room.ops[uintp(wait.before)]
        wait.op, wait.next = n, awaited.also
        awaited.also = k
        pending += 1
        k = wait.beside
    room.waiting[place] = NONE
    if stands:
        ahead = room.tails[uintp(first + queue)]
        room.tails[uintp(first + queue)] = n
        if ahead >= 0:
            room.ops[uintp(ahead)].behind = n
            pending += 1
    new.pending = pending
    room.last[place], room.kinds[place] = n, kind
    at.ops = n + 1
    if row.holds:  # the host waits until it has ended
        room.host_waits[uintp(at.segments)] = n
        _segment(room, 1)
        held(at)


@inlined
def _is_next(given, room, config, this, chunk, shape, job, run):
    """Return whether the arrays of a job show another chunk than the ops since a stream was entered.

    The first job of a chunk in a round does so. In the first chunk of a later pass, a job follows the stage before,
    which worked on the pieces of the chunk for which a stream was entered last.
    """
    kind = given.shapes[uintp(shape)].kind
    if room.at[0].leads and chunk > 0:
        return kind != KERNEL or given.runs[uintp(run)].pieces != 0
    entered = room.at[0].chunk
    if not this.later or chunk > 0 or entered == 0:
        return False
    k = config.runs_from
    while given.runs[uintp(k)].end <= entered:
        k += 1
    return kind == KERNEL or given.shapes[uintp(given.runs[uintp(k)].row + job)].kind != NOTHING


@inlined
def _join_kernels(config, room):
    """Let the first copy back of every stream wait for the last kernel of every other stream, too."""
    for stream in range(config.streams):
        for other in range(config.streams):
            if other != stream:
                _wait_too(room, stream, room.last[uintp(other)], other)


@inlined
def _open(config, given, room):
    """Let all other streams wait for the first one."""
    if config.streams > 1:
        _event_call(config, given, room, 0, config.record, CALLED_RECORD)
        for stream in range(1, config.streams):
            _event_call(config, given, room, stream, config.wait, CALLED_WAIT)
            _wait(room, stream, room.last[0], 0)


@inlined
def _join(config, given, room):
    """Let the first stream wait for all others."""
    for stream in range(1, config.streams):
        _event_call(config, given, room, stream, config.record, CALLED_RECORD)
        _event_call(config, given, room, 0, config.wait, CALLED_WAIT)
        _wait(room, 0, room.last[uintp(stream)], stream)


@inlined
def _end(room):
    """Close the last segment."""
    at = room.at[0]
    if at.segments == 0 or room.segments[uintp(at.segments - 1)].last < at.ops:
        _segment(room, 0)
    room.segments[uintp(at.segments - 1)].next = NONE


@inlined
def _issue(config, given, room, this, step, stream, row, chunk, run):
    """Lay out the jobs of a step, whose shapes begin at ``row``."""
    for shape in range(row + step.begin, row + step.end):
        if given.shapes[uintp(shape)].kind == NOTHING:  # the chunk has no piece of the array
            continue
        is_next = config.enter != 0 and _is_next(given, room, config, this, chunk, shape, shape - row, run)
        _put(config, given, room, stream, shape, is_next)
        room.at[0].leads = 0
        if room.at[0].entered:
            room.at[0].chunk = chunk


@inlined
def _event(config, given, room, step, stream, chunk):
    """Lay out a record of the chunk's event, or a wait for the event of an earlier chunk if there is such a chunk."""
    distance = config.slots if step.distance == BUFFERS else step.distance
    if step.does == RECORD:
        if chunk + distance < config.chunks:
            event = room.events[uintp(chunk), uintp(step.event)]
            event.op, event.stream = room.last[uintp(stream)], stream
            _event_call(config, given, room, stream, config.record, CALLED_RECORD)
    elif chunk >= distance:
        event = room.events[uintp(chunk - distance), uintp(step.event)]
        _event_call(config, given, room, stream, config.wait, CALLED_WAIT)
        _wait(room, stream, event.op, event.stream)


@inlined
def _steps(config, given, room, this, body, chunk, own, hands_over):
    """Lay out a body for a chunk; ``own``: the state of the body; ``hands_over``: buffers go from stream to stream."""
    if chunk == given.runs[uintp(own.run)].end:
        own.run += 1
    run = given.runs[uintp(own.run)]
    row = config.once if this.once else run.row
    room.at[0].leads = 1
    for s in range(body.first, body.last):
        step = given.steps[uintp(s)]
        stream = own.stream if step.stream < 0 else step.stream
        if step.does == ISSUE:
            _issue(config, given, room, this, step, stream, row, chunk, own.run)
        elif step.does == PREPARE:
            _prepare(room, run.work)
        elif step.does == OPEN:
            _open(config, given, room)
        elif step.does == JOIN:
            _join(config, given, room)
        elif hands_over or not step.between:
            _event(config, given, room, step, stream, chunk)
    own.stream += 1
    if own.stream == config.streams:
        own.stream = 0


@called
def _lay_out(config, given, room):
    """Lay out the ops and segments of a configuration; ``room.at`` holds their numbers."""
    _clear(config, room)
    hands_over = config.slots % config.streams != 0
    for p in range(config.passes_from, config.passes_to):
        this = given.passes[uintp(p)]
        chunks = 1 if this.once else config.chunks
        behind = 1 if this.follows and config.slots != 1 else 0
        for b in range(this.last - this.first):
            room.chunks[uintp(b)].stream, room.chunks[uintp(b)].run = 0, config.runs_from
        if this.joins and config.streams > 1:
            _join_kernels(config, room)
        for i in range(chunks + behind):
            for b in range(this.first, this.last):
                body = given.bodies[uintp(b)]
                chunk = i - behind if body.follows else i
                if 0 <= chunk < chunks:
                    _steps(config, given, room, this, body, chunk, room.chunks[uintp(b - this.first)], hands_over)
    _end(room)


@compiled
def run_patterns(sources):
    """Make the function that lays out configurations and runs them."""

    def run_patterns(configs, given, room, state, makespans):
        """Run every configuration."""
        _ = sources
        at = room.at[0]
        for k in range(len(configs)):
            config = configs[k]
            _lay_out(config, given, room)
            makespans[k] = run(
                given.card,
                given.hand_overs[config.hand_overs],
                given.shapes,
                room.ops[: at.ops],
                room.calls,
                room.threads,
                room.segments[: at.segments],
                room.host_waits,
                room.also,
                state,
                None,
            )

    return run_patterns
