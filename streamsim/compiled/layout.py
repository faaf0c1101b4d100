"""Patterns as programs: the ops of a configuration written down for the loop, as ``build`` and ``lower`` would.

See ``streamsim/program/patterns.py`` and :mod:`streamsim.lowering`.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

from __future__ import annotations

import numpy as np

from streamsim.compiled.loop import run
from streamsim.compiled.numba_code import called, compiled, inlined, rule, uintp
from streamsim.compiled.tables import COMPUTE, NONE, NOT_YET, QUEUES
from streamsim.lowering.costs import KERNEL, NOTHING
from streamsim.rules import entering, queue_owners
from streamsim.rules.entering import NO_STREAM
from streamsim.rules.link import NEVER
from streamsim.rules.queue_owners import NOBODY

COLD = 2  # where in ``latest`` it stands what the first copy after a wait takes longer; behind it that of a kernel
ENTERED = 4  # and where the chunk for which a stream was entered last
CALLED = 5  # and what the latest call was: the kind of a copy or kernel, EVENT and its shape for a record or a wait
EVENT = NOTHING + 1
enters = rule(entering.enters)
queue_of, runs_on = rule(queue_owners.queue_of), rule(queue_owners.runs_on)


@inlined
def _kind_before(ops, before, waits):
    """The kind of what is right before an op in its stream: an event, if one waits for others or others for one."""
    if before < 0 or waits > 0 or ops[uintp(before)].also_from < ops[uintp(before)].also_to:
        return NOTHING
    return np.int64(ops[uintp(before)].kind)


@inlined
def _turned(config, latest, called):
    """What that call takes longer if the latest one was none of its kind; it is the latest then."""
    turns = latest[CALLED] != called
    latest[CALLED] = called
    return config.turn * turns


@inlined
def _put(config, card, shapes, engine_of_kind, program, op, stream, shape, before, waits, chunk, is_next):
    """Write down an op that follows ``before`` in its stream, and waits for its call and so many other things.

    ``is_next``: its arrays show that it is of another chunk than what was issued since a stream was entered. It comes
    through the queue that its stream owns, or that of its run; ``tails`` are the last ops of all queues.
    """
    ops, tails, owners, owned, latest, calls = program[0], program[4], program[6], program[7], program[8], program[9]
    known = program[11]
    kind = shapes[uintp(shape)].kind
    engine = np.int64(engine_of_kind[kind])
    first, queues = engine * QUEUES, card.kernel_connections if engine == COMPUTE else card.copy_connections
    own = uintp(engine), uintp(stream)
    stands = not runs_on(config.graph != 0, kind, _kind_before(ops, before, waits))
    queue = np.int64(owned[own])
    if stands:
        queue = queue_of(stream + 1, queue, owners, tails, first, queues)
        owners[uintp(first + queue)] = stream + 1
        owned[own] = queue
    new = ops[uintp(op)]
    new.tick = 0
    new.comes = NEVER
    new.copies = 0
    new.after = new.behind = NONE
    new.also_from = new.also_to = 0
    new.shape = shape if stands else shape + config.behind
    new.kind = kind
    new.place = first + queue
    new.awaited = 0
    entered = enters(stream + 1, np.int64(kind), latest[0], latest[1], is_next)
    if entered:
        latest[ENTERED] = chunk
    cold = uintp(COLD + (kind == KERNEL))
    calls[uintp(op)] = shapes[uintp(shape)].call + config.enter * entered + latest[cold]
    calls[uintp(op)] += _turned(config, latest, np.int64(kind))
    if not known[uintp(kind), uintp(stream)]:
        known[uintp(kind), uintp(stream)] = True
        calls[uintp(op)] += config.on_stream
    launched, number = program[12], shapes[uintp(shape)].number
    if not launched[uintp(number)]:
        launched[uintp(number)] = True
        calls[uintp(op)] += config.first_launch
    latest[0], latest[1], latest[cold] = stream + 1, kind, 0
    if before >= 0:
        ops[uintp(before)].after = op
        waits += 1
    if stands:
        ahead = tails[uintp(first + queue)]
        tails[uintp(first + queue)] = op
        if ahead >= 0:
            ops[uintp(ahead)].behind = op
            waits += 1
    new.pending = waits + 1


@inlined
def _call(config, program, shapes, op, shape):
    """Write down a record or a wait."""
    program[0][uintp(op)].kind, program[0][uintp(op)].copies = NOTHING, 0
    program[9][uintp(op)] = shapes[uintp(shape)].call + _turned(config, program[8], EVENT + shape)


@inlined
def _wait(also, place, op):
    """Write down that ``op`` waits for an event."""
    also[uintp(place)].op, also[uintp(place)].crosses = op, 1


@inlined
def _segment(program, n_segments, last, waits):
    """Write down that a segment ends before ``last``, with a wait for the op before if there are so many waits."""
    segments, segment = program[1], program[1][n_segments]
    segment.first = segments[n_segments - 1].last if n_segments else 0
    segment.last, segment.waits_from, segment.waits_to = last, n_segments, n_segments + waits
    segment.returned, segment.behind, segment.next = NOT_YET, NONE, n_segments + 1
    return n_segments + 1


@inlined
def _hold(config, program, n_segments, op):
    """The host goes on behind ``op`` only when that has ended. Returns how many segments there are."""
    latest = program[8]
    program[2][uintp(n_segments)] = op
    latest[COLD] = latest[COLD + 1] = config.cold
    return _segment(program, n_segments, op + 1, 1)


@called
def _clear(config, program):
    """Nothing has been issued yet, to any queue or in any stream."""
    tails, last, owners, owned, latest, _, threads, known, launched = program[4:]
    streams, thread = config.streams, threads[0]
    last[:streams] = NONE
    tails[:] = NONE
    owners[:] = NOBODY
    owned[:, :streams] = 0
    known[:, :streams] = False
    launched[0], launched[1:] = True, False
    latest[0], latest[1], latest[ENTERED], latest[CALLED] = NO_STREAM, NOTHING, 0, NOTHING
    latest[COLD] = latest[COLD + 1] = config.cold
    thread.segment = thread.called = thread.awaited = 0
    thread.returns = config.launch


@inlined
def _work(program, op, ticks):
    """Write down that the host works for so many ticks, if any; returns how many ops there are then."""
    if ticks == 0:
        return op
    program[0][uintp(op)].kind, program[0][uintp(op)].copies = NOTHING, 0
    program[9][uintp(op)] = ticks
    program[8][CALLED] = NOTHING
    return op + 1


@called
def _in_a_row(
    config, card, first_shape, last_shape, stream, shapes, engine_of_kind, program, n, n_segments, joins, is_next
):
    """Ops of shapes[first_shape:last_shape] in a stream, of which the first waits for ``joins`` more.

    How many ops and segments there are then.
    """
    last = program[5]
    for shape in range(first_shape, last_shape):
        before = np.int64(last[uintp(stream)])
        _put(config, card, shapes, engine_of_kind, program, n, stream, shape, before, joins, 0, is_next)
        is_next = False
        joins = 0
        last[uintp(stream)] = n
        n += 1
        if shapes[uintp(shape)].holds:
            n_segments = _hold(config, program, n_segments, n - 1)
    return n, n_segments


@called
def _signal_once(config, place, shapes, program, n):
    """All other streams wait for what is copied once before; returns how many ops there are then.

    ``place``: where in ``also`` there is room for their first ops.
    """
    ops, streams, before = program[0], config.streams, program[5][0]
    ops[uintp(before)].also_from = ops[uintp(before)].also_to = place
    _call(config, program, shapes, n, config.record)
    for k in range(1, streams):
        _call(config, program, shapes, n + k, config.wait)
    return n + streams


@called
def _signal_ends(config, shapes, program, n):
    """What is copied once behind waits for the ends of all other streams; returns how many ops there are then."""
    ops, also, last, streams = program[0], program[3], program[5], config.streams
    first = n + 2 * (streams - 1)
    for k in range(1, streams):
        op = ops[uintp(last[uintp(k)])]
        if op.also_from == op.also_to:
            op.also_from = op.also_to = 2 * config.chunks + k
        _wait(also, op.also_to, first)
        op.also_to += 1
        _call(config, program, shapes, n, config.record)
        _call(config, program, shapes, n + 1, config.wait)
        n += 2
    return n


@called
def _after_all_kernels(program, streams, back, jobs):
    """The first copy back of every stream waits for the last kernel of every other stream too."""
    ops, also, last = program[0], program[3], program[5]
    n = 0
    for stream in range(streams):
        kernel = ops[uintp(last[uintp(stream)])]
        kernel.also_from = n
        for other in range(streams):
            if other != stream:
                _wait(also, n, back + other * jobs)
                n += 1
        kernel.also_to = n


@inlined
def _is_next(config, runs, shapes, latest, run, job, kind, is_first, behind):
    """Whether the arrays of a job show that it is of another chunk than what was issued since a stream was entered.

    ``is_first``: it is the first of a chunk behind another one in this stage. ``behind``: it is of the first chunk,
    behind the stage before, which worked on what the chunk has for which a stream was entered last.
    """
    if is_first:
        return kind != KERNEL or runs[uintp(run)].pieces != 0
    chunk, at = latest[ENTERED], config.runs_from
    while runs[uintp(at)].end <= chunk:
        at += 1
    return behind and chunk != 0 and (kind == KERNEL or shapes[uintp(runs[uintp(at)].row + job)].kind != NOTHING)


@inlined
def _wait_for_once(program, once, op):
    """Write down that ``op``, the first of its stream, waits for the last of what is copied once before."""
    copy = program[0][uintp(once)]
    _wait(program[3], copy.also_to, op)
    copy.also_to += 1


@called
def _lay_out_chunks(
    config, runs, card, begin, end, kernels, is_first, once, shapes, engine_of_kind, program, n, n_segments
):
    """The jobs of every chunk from ``begin`` to ``end``; how many ops and segments there are then.

    ``kernels``: how many of them are in a chunk, whether among these jobs or not. ``is_first``: they are the first of a
    chunk. ``once``: the last of what is copied once before, for which the other streams wait; NONE: nothing is.
    """
    ops, also, last = program[0], program[3], program[5]
    chunks, streams, slots = config.chunks, config.streams, config.slots
    across = slots % streams != 0  # a slot of a ring goes from stream to stream, by events
    stream, at = 0, config.runs_from
    for i in range(chunks):
        if i == runs[uintp(at)].end:
            at += 1
        row = runs[uintp(at)].row
        n = _work(program, n, runs[uintp(at)].work if is_first else 0)
        events = np.int64(across and i >= slots)  # that the chunk's next op waits for
        if events:
            _call(config, program, shapes, n, config.wait)
            _wait(also, 2 * (i - slots), n + 1)
            n += 1
        before = np.int64(last[uintp(stream)])
        leads = True  # the next op, the others of its chunk
        for shape in range(row + begin, row + end):
            if shapes[uintp(shape)].kind == NOTHING:  # this chunk has nothing of the array
                continue
            # a ring's slot that the first stream hands over stands behind what was copied once
            if before == NONE and once != NONE and stream > 0 and not (events and (i - slots) % streams == 0):
                _wait_for_once(program, once, n)
                events += 1
            kind = shapes[uintp(shape)].kind
            behind = i == 0 and begin > 0 and kernels > 0
            is_next = _is_next(config, runs, shapes, program[8], at, shape - row, kind, leads and i > 0, behind)
            _put(config, card, shapes, engine_of_kind, program, n, stream, shape, before, events, i, is_next)
            leads = False
            events = np.int64(0)
            before = n
            n += 1
            if shapes[uintp(shape)].holds:
                n_segments = _hold(config, program, n_segments, before)
        last[uintp(stream)] = before
        if across and i + slots < chunks:
            ops[uintp(before)].also_from, ops[uintp(before)].also_to = 2 * i, 2 * i + 1
            _call(config, program, shapes, n, config.record)
            n += 1
        stream += 1
        if stream == streams:
            stream = 0
    return n, n_segments


@inlined
def _ended(segments, program, n, n_segments):
    """All is written down; how many ops and segments there are."""
    if n_segments == 0 or segments[n_segments - 1].last < n:
        n_segments = _segment(program, n_segments, n, 0)
    segments[n_segments - 1].next = NONE
    return n, n_segments


@called
def _lay_out_prefetch(config, runs, card, jobs, shapes, engine_of_kind, program, n, n_segments):
    """Every chunk's copies in one ahead of the rest; how many ops and segments there are then.

    Its last copy in, its last kernel and its last copy back hand over to others by events: in ``also`` each chunk has
    a place for the kernel behind its copies in, one for the copy back behind its kernels, and those for the ops that
    use its buffers again: a copy in behind the kernels, and a kernel behind the copies back.
    """
    ops, also, chunks, slots = program[0], program[3], config.chunks, config.slots
    copies_in, back, end = jobs[0], jobs[0] + jobs[1], jobs[0] + jobs[1] + jobs[2]
    returns, ahead = np.int64(jobs[2] > 0), np.int64(slots > 1)
    loading = computing = config.runs_from
    for i in range(chunks + ahead):
        if i < chunks:
            if i == runs[uintp(loading)].end:
                loading += 1
            row = runs[uintp(loading)].row
            n = _work(program, n, runs[uintp(loading)].work)
            again = np.int64(i >= slots)
            if again:
                _call(config, program, shapes, n, config.wait)
                n += 1
                _wait(also, 4 * (i - slots) + 1 + returns, n)
            rows = row, row + copies_in
            n, n_segments = _in_a_row(
                config, card, *rows, 0, shapes, engine_of_kind, program, n, n_segments, again, i > 0
            )
            ops[uintp(n - 1)].also_from, ops[uintp(n - 1)].also_to = 4 * i, 4 * i + 1
            _call(config, program, shapes, n, config.record)
            n += 1
        k = i - ahead
        if k < 0:
            continue
        if k == runs[uintp(computing)].end:
            computing += 1
        row = runs[uintp(computing)].row
        again, used_again = np.int64(returns and k >= slots), np.int64(k + slots < chunks)
        _call(config, program, shapes, n, config.wait)
        n += 1
        if again:
            _call(config, program, shapes, n, config.wait)
            n += 1
            _wait(also, 4 * (k - slots) + 3, n)
        _wait(also, 4 * k, n)
        rows = row + copies_in, row + back
        n, n_segments = _in_a_row(
            config, card, *rows, 1, shapes, engine_of_kind, program, n, n_segments, 1 + again, False
        )
        ops[uintp(n - 1)].also_from, ops[uintp(n - 1)].also_to = 4 * k + 1, 4 * k + 1 + returns + used_again
        _call(config, program, shapes, n, config.record)
        n += 1
        if returns:
            _call(config, program, shapes, n, config.wait)
            n += 1
            _wait(also, 4 * k + 1, n)
            rows = row + back, row + end
            n, n_segments = _in_a_row(config, card, *rows, 2, shapes, engine_of_kind, program, n, n_segments, 1, False)
            ops[uintp(n - 1)].also_from, ops[uintp(n - 1)].also_to = 4 * k + 3, 4 * k + 3 + used_again
            _call(config, program, shapes, n, config.record)
            n += 1
    return n, n_segments


@called
def _lay_out(config, runs, card, jobs, run_signal, shapes, engine_of_kind, program):
    """Write the ops and segments of a pattern; returns how many of each.

    In ``also`` come the waits of a ring and for the streams' ends, two places a chunk (or those of the first copies
    back of all streams, or four places a chunk that is prefetched: they never meet), and then the waits for what is
    copied once before.
    """
    ops, segments, also, streams = program[0], program[1], program[3], config.streams
    copies_in, kernels, copies_back, once_in, once_out = jobs
    _clear(config, program)
    back, once = copies_in + kernels, config.once
    rows = once, once + once_in
    n, n_segments = _in_a_row(config, card, *rows, 0, shapes, engine_of_kind, program, 0, 0, 0, False)
    if config.prefetch:
        n, n_segments = _lay_out_prefetch(config, runs, card, jobs, shapes, engine_of_kind, program, n, n_segments)
        return _ended(segments, program, n, n_segments)
    waited_for = once_in - 1 if once_in and streams > 1 else NONE
    if waited_for != NONE:
        n = _signal_once(config, len(also) - streams, shapes, program, n)
    stages = ((0, copies_in), (copies_in, back), (back, back + copies_back))
    is_first = True
    for k in range(3 if config.breadth else 1):
        begin, end = stages[k] if config.breadth else (0, back + copies_back)
        if config.breadth and begin == end:
            continue
        first = n
        joined = config.breadth and k == 2 and run_signal and kernels > 0 and streams > 1
        if joined:
            _after_all_kernels(program, streams, first, copies_back)
        n, n_segments = _lay_out_chunks(
            config,
            runs,
            card,
            begin,
            end,
            kernels,
            is_first,
            waited_for,
            shapes,
            engine_of_kind,
            program,
            n,
            n_segments,
        )
        is_first = False
        if joined:
            for stream in range(streams):
                ops[uintp(first + stream * copies_back)].pending += streams - 1
    if once_out:
        n = _signal_ends(config, shapes, program, n)
        rows = once + once_in, once + once_in + once_out
        n, n_segments = _in_a_row(
            config, card, *rows, 0, shapes, engine_of_kind, program, n, n_segments, streams - 1, False
        )
    return _ended(segments, program, n, n_segments)


@compiled
def run_patterns(sources):
    """Make the function that lays out configurations and runs them."""

    def run_patterns(
        card, hand_over, configs, runs, jobs, run_signal, shapes, engine_of_kind, program, state, makespans
    ):
        """Run every configuration.

        ``jobs``: copies in, kernels and copies back of a chunk, and the copies before the first and behind the last
        one. ``program``: room for the ops of any of them.
        """
        _ = sources
        ops, segments, waits, also = program[:4]
        calls, threads = program[9], program[10]
        for k in range(len(configs)):
            config = configs[k]
            n, m = _lay_out(config, runs, card, jobs, run_signal, shapes, engine_of_kind, program)
            makespans[k] = run(
                card,
                hand_over[config.hand_overs],
                shapes,
                ops[:n],
                calls,
                threads,
                segments[:m],
                waits,
                also,
                state,
                None,
            )

    return run_patterns
