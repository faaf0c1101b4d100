"""Everything that is compiled: the event loop, and the patterns written down as programs for it.

The rules are those of ``streamsim.model``, on records instead of objects. What happens at a tick does not
depend on the order in which it is noticed (every effect is a maximum, a count or a mark), so all that ends at
a tick is noted first, then the host goes on, then every engine chooses; SimPy's heap of events becomes the
least of five ticks. An engine keeps the heads of its queues in an array with a bit for each.

All in one file, because numba looks only at the file of the function that is called to see whether its cache
still holds. Every number is an int64; :func:`streamsim.compiled.records.fits` says for which programs that is
enough. Reference counts are off (``_nrt``): counting references to the arrays would take most of the time.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.
# ruff: noqa: C901 (a loop keeps its state in local variables, for the compiler to keep in registers)

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

FOREVER = 1 << 62
NONE = -1
ENDED = -1  # in place of how many things an op waits for
FULL_CARD = 1 << 20
PACES, PACE = 8, FULL_CARD // 8
KERNEL, NOTHING = 2, 3  # kinds of ops, after the copies there and back
CROWD = 4  # hardware queues with kernels that wait: more of them crowd a card no further
H2D, D2H, COMPUTE = 0, 1, 2  # lanes: with one copy engine the first carries all copies, with none everything
LANES = 3
QUEUES = 64  # places for heads in a lane: 32 queues, and never one in the last
NO_TURN = QUEUES - 1
ISSUE_ORDER, READY_ORDER, SAME_QUEUE_FIRST = 0, 1, 2
RULES = {"issue-order": ISSUE_ORDER, "ready-order": READY_ORDER, "same-queue-first": SAME_QUEUE_FIRST}


def _record(fields: str) -> np.dtype[Any]:
    return np.dtype([(name, "i8") for name in fields.split()], align=True)


CARD = _record("submit wake linked crowds concurrent copy_connections kernel_connections copy_rule kernel_rule")
SHAPE = np.dtype(
    [
        ("kind", "i8"),
        ("call", "i8"),
        ("duration", "i8"),
        ("units", "i8"),
        ("alone", "i8"),
        ("shared", "i8"),
        ("width", "i8"),
        ("threads", "i8"),
        ("drain", "i8"),  # kernel: ticks at its end, when its work is done
        ("holds", "i8"),
        ("idle", "i8", PACES + 1),  # of the card, with 0 to PACES PACES-ths of its threads held
        ("latency", "i8", 2 * CROWD),  # alone for each level of crowding, then beside a copy in the other direction
    ],
    align=True,
)
OP = np.dtype(
    [
        ("tick", "i8"),  # ready, as far as is known; once ended, the end
        ("comes", "i8"),  # when the card has it
        ("after", "i4"),  # the op that follows in the same stream, or NONE
        ("behind", "i4"),  # the op behind in the same hardware queue, or NONE
        ("also_from", "i4"),  # others that wait for it: also[also_from:also_to]
        ("also_to", "i4"),
        ("shape", "i4"),
        ("pending", "i4"),  # how many things it waits for, or ENDED
        ("copies", "i4"),  # how many of them are copies on another engine, if it is a kernel
        ("kind", "u1"),
        ("lane", "u1"),
        ("queue", "u1"),
        ("awaited", "u1"),  # the host waits for it
    ],
    align=True,
)
SEGMENT = np.dtype([("last", "i4"), ("waits_from", "i4"), ("waits_to", "i4")], align=True)
ALSO = np.dtype([("op", "i4"), ("crosses", "i4")], align=True)  # crosses: into another stream, by an event
LANE = _record("mask turn rule next")  # mask: queues with a head; turn: the one served; next: when to look again
HEAD = _record("tick op")  # of a queue: when its head may start (FOREVER: not known, or there is none), and which it is
RUNNING = _record("op shape since given end left")  # end: of its work
DRAINING = _record("op tick")  # a kernel whose work is done, and its end
# runs_from, runs_to: the runs of its chunks; once: where the shapes of what is copied once begin.
CONFIG = _record("breadth chunks streams slots runs_from runs_to once record wait launch more cold event")
RUN = _record("end row")  # chunks that are alike, up to which one, and where the shapes of their ops begin


def new_state(concurrent: int, kernels: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Scratch for one run at a time of so many kernels at most: lanes, heads, kernels that run and that drain."""
    return (
        np.zeros(LANES, LANE),
        np.zeros(LANES * QUEUES, HEAD),
        np.zeros(concurrent, RUNNING),
        np.empty(kernels, DRAINING),  # memory that is not written to costs nothing
    )


uintp = np.uintp  # indices are unsigned: numba would look at the sign of each, to count from the end
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
_inlined: Any = njit(inline="always", **_OPTIONS)
_cache = True


def _compiled(function: Any) -> Any:
    """``function`` compiled, and kept on disk where a folder can be written."""
    global _cache
    try:
        return njit(nogil=True, cache=_cache, **_OPTIONS)(function)
    except RuntimeError as error:
        if not _cache:
            raise
        _cache = False
        said = "numba cannot keep what it compiles, so that every run compiles it anew: set NUMBA_CACHE_DIR to a folder"
        warnings.warn(f"{said} that can be written ({error})", RuntimeWarning, stacklevel=2)
        return _compiled(function)


_first_of: Any = trailing_zeros  # the number of the lowest bit that is set


@_inlined
def _ticks(units, rate):
    """Ticks that so many units (at least one) take at a rate; in unsigned numbers, where their sum has room."""
    return np.int64((np.uint64(units) + np.uint64(rate - 1)) // np.uint64(rate))


# Queues and arbitration: see the model's queues.py.


@_inlined
def _reset(card, lanes, heads):
    """Empty all queues."""
    for k in range(LANES):
        lane = lanes[uintp(k)]
        lane.mask = 0
        lane.turn = NO_TURN
        lane.rule = card.kernel_rule if k == COMPUTE else card.copy_rule
        lane.next = FOREVER
    for k in range(LANES * QUEUES):
        heads[uintp(k)].tick = FOREVER


@_inlined
def _arrive(lane, heads, place, queue, op, tick):
    """All that the head of a queue waits for has come, or will at a known tick."""
    heads[uintp(place)].tick = tick
    heads[uintp(place)].op = op
    lane.mask |= 1 << queue
    if tick < lane.next:
        lane.next = tick


@_inlined
def _choose(lane, heads, first, now):
    """The queue whose head starts now by the lane's rule; or NONE, and ``lane.next`` says when to look again."""
    rest = lane.mask
    turn = lane.turn
    soon = FOREVER
    if lane.rule == SAME_QUEUE_FIRST:
        if heads[uintp(first + turn)].tick <= now:
            return turn
        can = 0
        while rest:
            queue = _first_of(rest)
            rest &= rest - 1
            tick = heads[uintp(first + queue)].tick
            can |= np.int64(tick <= now) << queue
            soon = min(soon, tick)
        if can:
            later = can & -(2 << turn)
            turn = _first_of(later if later else can)
            lane.turn = turn
            return turn
        lane.next = soon
        return NONE
    found, best, op = NONE, FOREVER, FOREVER
    while rest:
        queue = _first_of(rest)
        rest &= rest - 1
        tick = heads[uintp(first + queue)].tick
        if tick <= now:
            rank = heads[uintp(first + queue)].op if lane.rule == ISSUE_ORDER else tick
            if rank < best or (rank == best and heads[uintp(first + queue)].op < op):
                found, best, op = queue, rank, heads[uintp(first + queue)].op
        soon = min(soon, tick)
    if found == NONE:
        lane.next = soon
    return found


@_inlined
def _leave(lane, heads, place, queue):
    """The head of a queue has been dispatched."""
    heads[uintp(place)].tick = FOREVER
    lane.mask &= ~(1 << queue)


# The link and the copy engines: see the model's link.py and engines.py.


@_inlined
def _flowed(since, now, begins, left, alone, shared, other_begins):
    """What a flow has left at ``now``, of ``left`` at ``since``."""
    begins = min(max(since, begins), now)
    meets = min(max(begins, other_begins), now)
    return left - (meets - begins) * alone - (now - meets) * shared


@_inlined
def _next_end(since, begins_a, left_a, alone_a, shared_a, begins_b, left_b, alone_b, shared_b):
    """When the next of two flows ends if none starts or finishes before, or FOREVER; and what both will have left."""
    swapped = begins_a > begins_b
    if swapped:
        begins_a, begins_b = begins_b, begins_a
        left_a, left_b = left_b, left_a
        alone_a = alone_b
        shared_a, shared_b = shared_b, shared_a
    end = FOREVER
    if begins_a < FOREVER:
        since = max(since, begins_a)
        if begins_b > since and (begins_b == FOREVER or left_a <= (begins_b - since) * alone_a):
            end = since + _ticks(left_a, alone_a)
            left_a = 0
        else:
            both = max(since, begins_b)
            left_a -= (both - since) * alone_a
            ticks = min(_ticks(left_a, shared_a), _ticks(left_b, shared_b))
            end = both + ticks
            left_a -= ticks * shared_a
            left_b -= ticks * shared_b
    if swapped:
        left_a, left_b = left_b, left_a
    return end, left_a, left_b


@_inlined
def _crossing(hand_over, from_kind, to_kind):
    """Ticks from the end of an op until one that waits for it may start."""
    return hand_over[uintp(from_kind * 4 + to_kind)]


# Kernels that wait for copies: see the model's crowd.py.


@_inlined
def _level(waiting, most):
    """How crowded the card is with so many kernels that wait, in at most so many queues."""
    return uintp(max(0, min(most, waiting) - 1))


# Kernels side by side: see the model's compute_engine.


@_inlined
def _idle_with(shape, held):
    """How much of the card is idle with so many threads of such kernels."""
    step, rest = uintp(held // PACE), held % PACE
    idle, then = shape.idle[step], shape.idle[step + uintp(1)]
    return idle - (idle - then) * rest // PACE


@_inlined
def _given(shape, room, held):
    """How much of the card a kernel is given, of the room that earlier ones leave: see the model's Shape.given."""
    if shape.threads < held < FULL_CARD:
        idle = _idle_with(shape, held)
        room = min(room, max(room, _idle_with(shape, held - shape.threads)) - idle)
    return max(1, min(shape.width, room))


@_inlined
def _share(running, n, now, shapes):
    """Give the card to the earliest of the kernels that can use it: what is left, and when one's work is done."""
    end, room, held = FOREVER, FULL_CARD, 0
    for k in range(n):
        kernel = running[uintp(k)]
        shape = shapes[uintp(kernel.shape)]
        held += shape.threads
        given = _given(shape, room, held)
        if given != kernel.given:
            kernel.left -= kernel.given * (now - kernel.since)
            kernel.since = now
            kernel.given = given
            kernel.end = now + _ticks(kernel.left, given)
        room -= given
        end = min(end, kernel.end)
    return room, end


@_inlined
def _start_kernel(running, n, op, row, now, shapes):
    """Put a kernel on the card beside ``n`` others: what is left of the card, and when a kernel's work is done."""
    kernel, shape = running[uintp(n)], shapes[uintp(row)]
    works = shape.duration - shape.drain
    kernel.op = op
    kernel.shape = row
    kernel.since = now
    kernel.left = works * shape.width
    if n == 0:
        kernel.given, kernel.end = shape.width, now + works
        return FULL_CARD - shape.width, kernel.end
    kernel.given = 0
    return _share(running, n + 1, now, shapes)


@_inlined
def _drain(draining, first, last, op, tick):
    """Note when a kernel whose work is done will end, among draining[first:last], the next to end first.

    Kernels of one shape drain for as long, so there is seldom one to put it before.
    """
    k = last
    while k > first and draining[uintp(k - 1)].tick > tick:
        draining[uintp(k)].op, draining[uintp(k)].tick = draining[uintp(k - 1)].op, draining[uintp(k - 1)].tick
        k -= 1
    draining[uintp(k)].op, draining[uintp(k)].tick = op, tick


@_inlined
def _finish_kernels(running, n, now, draining, first, last, shapes):
    """Take the kernels whose work is done off the card, and put them into draining[first:last].

    How many stay, and as in _start_kernel; and the new ``last``.
    """
    if n == 1:
        _drain(draining, first, last, running[0].op, now + shapes[uintp(running[0].shape)].drain)
        return 0, FULL_CARD, FOREVER, last + 1
    kept = 0
    for k in range(n):
        kernel = running[uintp(k)]
        if kernel.end <= now:
            _drain(draining, first, last, kernel.op, now + shapes[uintp(kernel.shape)].drain)
            last += 1
        else:
            if kept < k:
                place = running[uintp(kept)]
                place.op, place.shape, place.since = kernel.op, kernel.shape, kernel.since
                place.given, place.end, place.left = kernel.given, kernel.end, kernel.left
            kept += 1
    room, end = _share(running, kept, now, shapes)
    return kept, room, end, last


@_inlined
def _next_drained(draining, first, last):
    """When the next kernel whose work is done ends, or FOREVER."""
    return draining[uintp(first)].tick if first < last else FOREVER


# Any program.


@_inlined
def _release(ops, lanes, heads, op, tick):
    """One of the things that ``op`` waits for has come; it cannot start before ``tick``."""
    waiting = ops[uintp(op)]
    if tick > waiting.tick:
        waiting.tick = tick
    left = waiting.pending - 1
    waiting.pending = left
    if left == 0:
        place = np.int64(waiting.lane) * QUEUES + waiting.queue
        _arrive(lanes[uintp(waiting.lane)], heads, place, waiting.queue, op, waiting.tick)


@_inlined
def _dispatched(ops, lanes, heads, lane, queue, now, times):
    """The head of a queue starts: the op behind it is the head now. Returns the op."""
    place = lane * QUEUES + queue
    op = heads[uintp(place)].op
    _leave(lanes[uintp(lane)], heads, place, queue)
    if times.shape[1]:
        times[2, op] = ops[uintp(op)].tick
        times[3, op] = now
    if ops[uintp(op)].behind >= 0:
        _release(ops, lanes, heads, ops[uintp(op)].behind, 0)
    return op


@_inlined
def _count_copies(ops, also):
    """Note for how many copies every kernel waits; returns in how many queues such kernels are, CROWD at most."""
    for k in range(len(ops)):
        copy = ops[uintp(k)]
        if copy.kind < KERNEL:
            if copy.after >= 0 and ops[uintp(copy.after)].kind == KERNEL:
                ops[uintp(copy.after)].copies += 1
            for j in range(copy.also_from, copy.also_to):
                other = ops[uintp(also[uintp(j)].op)]
                other.copies += other.kind == KERNEL
    queues = np.int64(0)
    for k in range(len(ops)):
        if ops[uintp(k)].copies > 0:
            queues |= 1 << np.int64(ops[uintp(k)].queue)
    most = 0
    while queues and most < CROWD:
        queues &= queues - 1
        most += 1
    return most


@_inlined
def _come(ops, waiting, coming, issued, now):
    """Count the kernels that wait among those that have come by ``now``; returns that and the op that comes next."""
    while coming < issued and ops[uintp(coming)].comes <= now:
        waiting += ops[uintp(coming)].copies > 0
        coming += 1
    return waiting, coming


@_inlined
def _copy_ended(ops, kernel, coming):
    """One of the copies that a kernel waits for has ended; returns how many kernels on the card wait no longer."""
    left = ops[uintp(kernel)].copies - 1
    ops[uintp(kernel)].copies = left
    return left == 0 and kernel < coming


@_compiled
def run(card, hand_over, launch, more, cold, event, shapes, ops, segments, waits, also, state, times):
    """Run a program; returns the tick at which the last copy or kernel ends, 0 if there is none.

    ``more``: ticks that the call of a copy or kernel takes beyond its shape's; ``cold``: those that the first copy and
    the first kernel of a segment take in addition; ``event``: those that an event adds to a hand-over. ``ops`` is
    used up. ``times``: int64 of shape (5, ops) for issued, returned, ready, start and end, or (5, 0) where only the
    makespan is wanted. ``state``: of :func:`new_state`.
    """
    lanes, heads, running, draining = state
    trace = times.shape[1] > 0
    linked, crowds, most = card.linked, card.crowds, card.concurrent
    _reset(card, lanes, heads)
    op_a = op_b = NONE  # what the copy lanes carry, and when it ends if they do not share a link
    end_a = end_b = copies_end = FOREVER
    begins_a = begins_b = FOREVER  # the flows on a shared link, accounted for up to `settled`
    left_a = left_b = then_a = then_b = settled = 0
    alone_a = alone_b = shared_a = shared_b = 1
    changed = False
    n_running, room, compute_end = 0, FULL_CARD, FOREVER  # when the work of a kernel is done
    drained = drains = 0  # kernels that have ended, of those whose work is done; drain_end: when the next one ends
    drain_end = FOREVER
    done_a = done_b = NONE  # copies that end at a tick
    waiting = coming = most_queues = 0  # kernels that wait for copies; the next op to come
    if crowds:
        most_queues = _count_copies(ops, also)
    segment = first = awaited = 0
    returns, go_on = launch, True
    now = last_end = 0
    while True:
        while go_on and segment < len(segments):  # the host issues until a call has to wait
            this = segments[segment]
            segment += 1
            cold_copy = cold_kernel = cold
            for op in range(first, this.last):
                call = ops[uintp(op)]
                if trace:
                    times[0, op] = returns
                returns += shapes[uintp(call.shape)].call
                if call.kind == KERNEL:
                    returns += more + cold_kernel
                    cold_kernel = 0
                elif call.kind != NOTHING:
                    returns += more + cold_copy
                    cold_copy = 0
                if trace:
                    times[1, op] = returns
                call.comes = returns + card.submit
                if call.kind != NOTHING:
                    _release(ops, lanes, heads, op, call.comes)
            first = this.last
            for k in range(this.waits_from, this.waits_to):
                waited = ops[uintp(waits[uintp(k)])]
                if waited.pending == ENDED:
                    returns = max(returns, waited.tick + card.wake)
                elif not waited.awaited:
                    waited.awaited = 1
                    awaited += 1
            go_on = awaited == 0
            if go_on and trace:
                times[1, first - 1] = returns

        # every engine chooses
        if op_a == NONE and lanes[H2D].next <= now:
            queue = _choose(lanes[H2D], heads, H2D * QUEUES, now)
            if queue != NONE:
                op_a = _dispatched(ops, lanes, heads, H2D, queue, now, times)
                copy = shapes[uintp(ops[uintp(op_a)].shape)]
                if crowds:
                    waiting, coming = _come(ops, waiting, coming, first, now)
                if linked:
                    left_b = _flowed(settled, now, begins_b, left_b, alone_b, shared_b, begins_a)
                    settled = now
                    begins_a = now + copy.latency[_level(waiting, most_queues) + CROWD * (op_b != NONE)]
                    left_a, alone_a, shared_a = copy.units, copy.alone, copy.shared
                else:
                    end_a = now + copy.duration + copy.latency[_level(waiting, most_queues)] - copy.latency[0]
                changed = True
        if op_b == NONE and lanes[D2H].next <= now:
            queue = _choose(lanes[D2H], heads, D2H * QUEUES, now)
            if queue != NONE:
                op_b = _dispatched(ops, lanes, heads, D2H, queue, now, times)
                copy = shapes[uintp(ops[uintp(op_b)].shape)]
                if crowds:
                    waiting, coming = _come(ops, waiting, coming, first, now)
                if linked:
                    left_a = _flowed(settled, now, begins_a, left_a, alone_a, shared_a, begins_b)
                    settled = now
                    begins_b = now + copy.latency[_level(waiting, most_queues) + CROWD * (op_a != NONE)]
                    left_b, alone_b, shared_b = copy.units, copy.alone, copy.shared
                else:
                    end_b = now + copy.duration + copy.latency[_level(waiting, most_queues)] - copy.latency[0]
                changed = True
        if changed:
            changed = False
            if linked:
                copies_end, then_a, then_b = _next_end(
                    settled, begins_a, left_a, alone_a, shared_a, begins_b, left_b, alone_b, shared_b
                )
            else:
                copies_end = min(end_a, end_b)
        while lanes[COMPUTE].next <= now and room > 0 and n_running < most:
            queue = _choose(lanes[COMPUTE], heads, COMPUTE * QUEUES, now)
            if queue == NONE:
                break
            op = _dispatched(ops, lanes, heads, COMPUTE, queue, now, times)
            room, compute_end = _start_kernel(running, n_running, op, ops[uintp(op)].shape, now, shapes)
            n_running += 1

        # the next tick at which something ends or can start
        now = min(copies_end, compute_end, drain_end)
        if op_a == NONE:
            now = min(now, lanes[H2D].next)
        if op_b == NONE:
            now = min(now, lanes[D2H].next)
        if room > 0 and n_running < most:
            now = min(now, lanes[COMPUTE].next)
        if now == FOREVER:
            return last_end

        # everything that ends at this tick
        if now == copies_end:
            if linked:
                left_a, left_b, settled = then_a, then_b, now
                if op_a != NONE and left_a <= 0:
                    end_a = now
                if op_b != NONE and left_b <= 0:
                    end_b = now
            if end_a == now:
                done_a, op_a = op_a, NONE
                end_a = begins_a = FOREVER
                lanes[H2D].next = now
            if end_b == now:
                done_b, op_b = op_b, NONE
                end_b = begins_b = FOREVER
                lanes[D2H].next = now
            changed = True
        if now == compute_end:
            n_running, room, compute_end, drains = _finish_kernels(
                running, n_running, now, draining, drained, drains, shapes
            )
            drain_end = _next_drained(draining, drained, drains)
            lanes[COMPUTE].next = now
        while True:
            if done_a != NONE:
                ended, done_a = done_a, NONE
            elif done_b != NONE:
                ended, done_b = done_b, NONE
            elif drain_end <= now:
                ended = draining[uintp(drained)].op
                drained += 1
                drain_end = _next_drained(draining, drained, drains)
            else:
                break
            last_end = now
            op = ops[uintp(ended)]
            op.tick = now
            op.pending = ENDED
            if trace:
                times[4, ended] = now
            after = op.after
            if after >= 0:
                if crowds and op.kind < KERNEL and ops[uintp(after)].kind == KERNEL:
                    waiting -= _copy_ended(ops, after, coming)
                _release(ops, lanes, heads, after, now + _crossing(hand_over, op.kind, ops[uintp(after)].kind))
            for j in range(op.also_from, op.also_to):
                other = also[uintp(j)].op
                if crowds and op.kind < KERNEL and ops[uintp(other)].kind == KERNEL:
                    waiting -= _copy_ended(ops, other, coming)
                crossing = _crossing(hand_over, op.kind, ops[uintp(other)].kind)
                if also[uintp(j)].crosses:
                    crossing += event
                _release(ops, lanes, heads, other, now + crossing)
            if op.awaited:
                awaited -= 1
                returns = max(returns, now + card.wake)
                if awaited == 0:
                    go_on = True
                    if trace:
                        times[1, first - 1] = returns


# Patterns as programs: see streamsim/patterns.py and the model's program.py.


@_inlined
def _put(ops, tails, lane_of_kind, op, shape, kind, queue, before, waits):
    """Write down an op that follows ``before`` in its stream, and waits for its call and so many other things."""
    new = ops[uintp(op)]
    new.tick = 0
    new.copies = 0
    new.after = new.behind = NONE
    new.also_from = new.also_to = 0
    new.shape = shape
    new.kind = kind
    new.lane = lane_of_kind[kind]
    new.queue = queue
    new.awaited = 0
    if before >= 0:
        ops[uintp(before)].after = op
        waits += 1
    place = np.int64(lane_of_kind[kind]) * QUEUES + queue
    ahead = tails[uintp(place)]
    tails[uintp(place)] = op
    if ahead >= 0:
        ops[uintp(ahead)].behind = op
        waits += 1
    new.pending = waits + 1


@_inlined
def _call(ops, op, shape):
    """Write down a record or a wait."""
    ops[uintp(op)].shape, ops[uintp(op)].kind, ops[uintp(op)].copies = shape, NOTHING, 0


@_inlined
def _after_all_kernels(ops, also, last, streams, back, jobs):
    """The first copy back of every stream waits for the last kernel of every other stream too."""
    n = 0
    for stream in range(streams):
        kernel = ops[uintp(last[uintp(stream)])]
        kernel.also_from = n
        for other in range(streams):
            if other != stream:
                also[uintp(n)].op, also[uintp(n)].crosses = back + other * jobs, 1
                n += 1
        kernel.also_to = n


@_inlined
def _queue_of(card, lane, stream, tails, owners, owned):
    """The queue of a stream's next op, which is put there: see the model's ownership.py.

    ``tails``: the last op of each queue. ``owned``: the queue that each stream took last, if it has taken any. The
    streams of a pattern begin in turn: the first queue that has not been used is the home of the next one.
    """
    first = lane * QUEUES
    mine = np.int64(owned[uintp(lane), uintp(stream)])
    if owners[uintp(first + mine)] == stream:
        return mine
    queue = 0
    for other in range(1, card.kernel_connections if lane == COMPUTE else card.copy_connections):
        if tails[uintp(first + other)] < tails[uintp(first + queue)]:
            queue = other
    owners[uintp(first + queue)] = stream
    owned[uintp(lane), uintp(stream)] = queue
    return queue


@_inlined
def _hold(segments, waits, n_segments, op):
    """The host goes on behind ``op`` only when that has ended. Returns how many segments there are."""
    segment = segments[n_segments]
    segment.last, segment.waits_from, segment.waits_to = op + 1, n_segments, n_segments + 1
    waits[uintp(n_segments)] = op
    return n_segments + 1


@_compiled
def _lay_out(config, runs, card, jobs, run_signal, shapes, lane_of_kind, program):
    """Write the ops and segments of a pattern; returns how many of each.

    In ``also`` come the waits of a ring and for the streams' ends, two places a chunk (or those of the first copies
    back of all streams: the two never meet), and then the waits for what is copied once before.
    """
    ops, segments, waits, also, tails, last, owners, owned = program
    copies_in, kernels, copies_back, once_in, once_out = jobs
    chunks, streams, slots = config.chunks, config.streams, config.slots
    last[:streams] = NONE
    tails[:] = NONE
    owners[:] = NONE
    owned[:, :streams] = 0
    n = n_segments = 0
    across = slots % streams != 0
    waits_for_once = len(also) - streams
    before = NONE
    for shape in range(config.once, config.once + once_in):
        kind = shapes[uintp(shape)].kind
        queue = _queue_of(card, np.int64(lane_of_kind[kind]), 0, tails, owners, owned)
        _put(ops, tails, lane_of_kind, n, shape, kind, queue, before, 0)
        before = n
        n += 1
        if shapes[uintp(shape)].holds:
            n_segments = _hold(segments, waits, n_segments, before)
    last[0] = before
    if once_in and streams > 1:
        ops[uintp(before)].also_from, ops[uintp(before)].also_to = waits_for_once, waits_for_once + streams - 1
        _call(ops, n, config.record)
        for k in range(1, streams):
            _call(ops, n + k, config.wait)
        n += streams
    for stage in range(3 if config.breadth else 1):
        begin, end = 0, copies_in + kernels + copies_back
        if config.breadth:
            begin = 0 if stage == 0 else copies_in if stage == 1 else copies_in + kernels
            end = begin + jobs[stage]
            if begin == end:
                continue
        joined = stage == 2 and run_signal and kernels > 0 and streams > 1
        back = n
        if joined:
            _after_all_kernels(ops, also, last, streams, back, copies_back)
        stream = 0
        at = config.runs_from
        for i in range(chunks):
            if i == runs[uintp(at)].end:
                at += 1
            row = runs[uintp(at)].row
            waits_for_slot = across and i >= slots
            if waits_for_slot:
                _call(ops, n, config.wait)
                also[uintp(2 * (i - slots))].op, also[uintp(2 * (i - slots))].crosses = n + 1, 1
                n += 1
            before = last[uintp(stream)]
            for shape in range(row + begin, row + end):
                kind = shapes[uintp(shape)].kind
                if kind == NOTHING:  # this chunk has nothing of the array
                    continue
                more = np.int64(waits_for_slot)
                waits_for_slot = False
                if before == NONE and once_in and stream > 0:
                    wait = also[uintp(waits_for_once + stream - 1)]
                    wait.op, wait.crosses = n, 1
                    more += 1
                queue = _queue_of(card, np.int64(lane_of_kind[kind]), stream, tails, owners, owned)
                _put(ops, tails, lane_of_kind, n, shape, kind, queue, before, more)
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
        if joined:
            for k in range(streams):
                ops[uintp(back + k * copies_back)].pending += streams - 1
    if once_out:
        first = n + 2 * (streams - 1)
        for k in range(1, streams):
            op = ops[uintp(last[uintp(k)])]
            if op.also_from == op.also_to:
                op.also_from = op.also_to = 2 * chunks + k
            also[uintp(op.also_to)].op, also[uintp(op.also_to)].crosses = first, 1
            op.also_to += 1
            _call(ops, n, config.record)
            _call(ops, n + 1, config.wait)
            n += 2
        before = last[0]
        for shape in range(config.once + once_in, config.once + once_in + once_out):
            kind = shapes[uintp(shape)].kind
            queue = _queue_of(card, np.int64(lane_of_kind[kind]), 0, tails, owners, owned)
            _put(ops, tails, lane_of_kind, n, shape, kind, queue, before, streams - 1 if n == first else 0)
            before = n
            n += 1
            if shapes[uintp(shape)].holds:
                n_segments = _hold(segments, waits, n_segments, before)
    if n_segments == 0 or segments[n_segments - 1].last < n:
        segment = segments[n_segments]
        segment.last, segment.waits_from, segment.waits_to = n, n_segments, n_segments
        n_segments += 1
    return n, n_segments


@_compiled
def run_patterns(
    card, hand_over, configs, runs, jobs, run_signal, shapes, lane_of_kind, program, state, no_times, makespans
):
    """Run every configuration.

    ``jobs``: copies in, kernels and copies back of a chunk, and the copies before the first and behind the last one.
    ``program``: room for the ops of any of them.
    """
    ops, segments, waits, also = program[:4]
    for k in range(len(configs)):
        config = configs[k]
        n, m = _lay_out(config, runs, card, jobs, run_signal, shapes, lane_of_kind, program)
        makespans[k] = run(
            card,
            hand_over,
            config.launch,
            config.more,
            config.cold,
            config.event,
            shapes,
            ops[:n],
            segments[:m],
            waits,
            also,
            state,
            no_times,
        )
