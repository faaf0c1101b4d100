"""Patterns as programs: the ops of a configuration written down for the loop, as ``build`` and ``lower`` would.

See ``streamsim/program/patterns.py`` and :mod:`streamsim.lowering`.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

from __future__ import annotations

import numpy as np

from streamsim.compiled.loop import run
from streamsim.compiled.numba_code import called, compiled, inlined, rule, uintp
from streamsim.compiled.tables import COMPUTE, NONE, QUEUES
from streamsim.lowering.costs import NOTHING
from streamsim.rules import entering, queue_owners
from streamsim.rules.entering import NO_STREAM
from streamsim.rules.queue_owners import NOBODY

enters, queue_of = rule(entering.enters), rule(queue_owners.queue_of)


@inlined
def _put(card, engine_of_kind, program, op, stream, shape, kind, before, waits):
    """Write down an op that follows ``before`` in its stream, and waits for its call and so many other things.

    It comes through the queue that its stream owns; ``tails`` are the last ops of all queues.
    """
    ops, tails, owners, owned, latest = program[0], program[4], program[6], program[7], program[8]
    engine = np.int64(engine_of_kind[kind])
    first, queues = engine * QUEUES, card.kernel_connections if engine == COMPUTE else card.copy_connections
    own = uintp(engine), uintp(stream)
    queue = queue_of(stream + 1, np.int64(owned[own]), owners, tails, first, queues)
    owners[uintp(first + queue)] = stream + 1
    owned[own] = queue
    new = ops[uintp(op)]
    new.tick = 0
    new.copies = 0
    new.after = new.behind = NONE
    new.also_from = new.also_to = 0
    new.shape = shape
    new.kind = kind
    new.engine = engine
    new.queue = queue
    new.awaited = 0
    new.enters = enters(stream + 1, np.int64(kind), latest[0], latest[1])
    latest[0], latest[1] = stream + 1, kind
    if before >= 0:
        ops[uintp(before)].after = op
        waits += 1
    ahead = tails[uintp(first + queue)]
    tails[uintp(first + queue)] = op
    if ahead >= 0:
        ops[uintp(ahead)].behind = op
        waits += 1
    new.pending = waits + 1


@inlined
def _call(ops, op, shape):
    """Write down a record or a wait."""
    ops[uintp(op)].shape, ops[uintp(op)].kind, ops[uintp(op)].copies = shape, NOTHING, 0


@inlined
def _wait(also, place, op):
    """Write down that ``op`` waits for an event."""
    also[uintp(place)].op, also[uintp(place)].crosses = op, 1


@inlined
def _hold(segments, waits, n_segments, op):
    """The host goes on behind ``op`` only when that has ended. Returns how many segments there are."""
    segment = segments[n_segments]
    segment.last, segment.waits_from, segment.waits_to = op + 1, n_segments, n_segments + 1
    waits[uintp(n_segments)] = op
    return n_segments + 1


@called
def _clear(streams, program):
    """Nothing has been issued yet, to any queue or in any stream."""
    tails, last, owners, owned, latest = program[4:]
    last[:streams] = NONE
    tails[:] = NONE
    owners[:] = NOBODY
    owned[:, :streams] = 0
    latest[0], latest[1] = NO_STREAM, NOTHING


@called
def _copy_once(card, first_shape, last_shape, shapes, engine_of_kind, program, n, n_segments, joins):
    """Copies of shapes[first_shape:last_shape] in the first stream, of which the first waits for ``joins`` more.

    How many ops and segments there are then.
    """
    segments, waits, last = program[1], program[2], program[5]
    for shape in range(first_shape, last_shape):
        _put(card, engine_of_kind, program, n, 0, shape, shapes[uintp(shape)].kind, np.int64(last[0]), joins)
        joins = 0
        last[0] = n
        n += 1
        if shapes[uintp(shape)].holds:
            n_segments = _hold(segments, waits, n_segments, n - 1)
    return n, n_segments


@called
def _signal_once(config, waits_for_once, program, n):
    """All other streams wait for what is copied once before; returns how many ops there are then."""
    ops, streams, before = program[0], config.streams, program[5][0]
    ops[uintp(before)].also_from, ops[uintp(before)].also_to = waits_for_once, waits_for_once + streams - 1
    _call(ops, n, config.record)
    for k in range(1, streams):
        _call(ops, n + k, config.wait)
    return n + streams


@called
def _signal_ends(config, program, n):
    """What is copied once behind waits for the ends of all other streams; returns how many ops there are then."""
    ops, also, last, streams = program[0], program[3], program[5], config.streams
    first = n + 2 * (streams - 1)
    for k in range(1, streams):
        op = ops[uintp(last[uintp(k)])]
        if op.also_from == op.also_to:
            op.also_from = op.also_to = 2 * config.chunks + k
        _wait(also, op.also_to, first)
        op.also_to += 1
        _call(ops, n, config.record)
        _call(ops, n + 1, config.wait)
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


@called
def _lay_out_chunks(config, runs, card, begin, end, waits_for_once, shapes, engine_of_kind, program, n, n_segments):
    """The jobs of every chunk from ``begin`` to ``end``; how many ops and segments there are then.

    ``waits_for_once``: from where in ``also`` the other streams wait for what is copied once before; NONE: nothing is.
    """
    ops, segments, waits, also, last = program[0], program[1], program[2], program[3], program[5]
    chunks, streams, slots = config.chunks, config.streams, config.slots
    across = slots % streams != 0  # a slot of a ring goes from stream to stream, by events
    stream, at = 0, config.runs_from
    for i in range(chunks):
        if i == runs[uintp(at)].end:
            at += 1
        row = runs[uintp(at)].row
        events = np.int64(across and i >= slots)  # that the chunk's next op waits for
        if events:
            _call(ops, n, config.wait)
            _wait(also, 2 * (i - slots), n + 1)
            n += 1
        before = np.int64(last[uintp(stream)])
        for shape in range(row + begin, row + end):
            kind = shapes[uintp(shape)].kind
            if kind == NOTHING:  # this chunk has nothing of the array
                continue
            if before == NONE and waits_for_once != NONE and stream > 0:
                _wait(also, waits_for_once + stream - 1, n)
                events += 1
            _put(card, engine_of_kind, program, n, stream, shape, kind, before, events)
            events = np.int64(0)
            before = n
            n += 1
            if shapes[uintp(shape)].holds:
                n_segments = _hold(segments, waits, n_segments, before)
        last[uintp(stream)] = before
        if across and i + slots < chunks:
            ops[uintp(before)].also_from, ops[uintp(before)].also_to = 2 * i, 2 * i + 1
            _call(ops, n, config.record)
            n += 1
        stream += 1
        if stream == streams:
            stream = 0
    return n, n_segments


@called
def _lay_out(config, runs, card, jobs, run_signal, shapes, engine_of_kind, program):
    """Write the ops and segments of a pattern; returns how many of each.

    In ``also`` come the waits of a ring and for the streams' ends, two places a chunk (or those of the first copies
    back of all streams: the two never meet), and then the waits for what is copied once before.
    """
    ops, segments, also, streams = program[0], program[1], program[3], config.streams
    copies_in, kernels, copies_back, once_in, once_out = jobs
    _clear(streams, program)
    back, once = copies_in + kernels, config.once
    n, n_segments = _copy_once(card, once, once + once_in, shapes, engine_of_kind, program, 0, 0, 0)
    waits_for_once = len(also) - streams if once_in else NONE
    if once_in and streams > 1:
        n = _signal_once(config, waits_for_once, program, n)
    stages = ((0, copies_in), (copies_in, back), (back, back + copies_back))
    for k in range(3 if config.breadth else 1):
        begin, end = stages[k] if config.breadth else (0, back + copies_back)
        if config.breadth and begin == end:
            continue
        first = n
        joined = config.breadth and k == 2 and run_signal and kernels > 0 and streams > 1
        if joined:
            _after_all_kernels(program, streams, first, copies_back)
        n, n_segments = _lay_out_chunks(
            config, runs, card, begin, end, waits_for_once, shapes, engine_of_kind, program, n, n_segments
        )
        if joined:
            for stream in range(streams):
                ops[uintp(first + stream * copies_back)].pending += streams - 1
    if once_out:
        n = _signal_ends(config, program, n)
        rows = once + once_in, once + once_in + once_out
        n, n_segments = _copy_once(card, *rows, shapes, engine_of_kind, program, n, n_segments, streams - 1)
    if n_segments == 0 or segments[n_segments - 1].last < n:
        segment = segments[n_segments]
        segment.last, segment.waits_from, segment.waits_to = n, n_segments, n_segments
        n_segments += 1
    return n, n_segments


@compiled
def run_patterns(sources):
    """Make the function that lays out configurations and runs them."""

    def run_patterns(
        card, hand_over, configs, runs, jobs, run_signal, shapes, engine_of_kind, program, state, no_times, makespans
    ):
        """Run every configuration.

        ``jobs``: copies in, kernels and copies back of a chunk, and the copies before the first and behind the last
        one. ``program``: room for the ops of any of them.
        """
        _ = sources
        ops, segments, waits, also = program[:4]
        for k in range(len(configs)):
            config = configs[k]
            n, m = _lay_out(config, runs, card, jobs, run_signal, shapes, engine_of_kind, program)
            makespans[k] = run(
                card,
                hand_over,
                config.launch,
                config.more,
                config.cold,
                config.enter,
                config.event,
                shapes,
                ops[:n],
                segments[:m],
                waits,
                also,
                state,
                no_times,
            )

    return run_patterns
