"""Everything that is compiled: the event loop for any program, and a faster one for plain pipelines.

The rules are those of ``streamsim.model``, on records instead of objects. What happens at a tick does not
depend on the order in which it is noticed (every effect is a maximum, a count or a mark), so all that ends at
a tick is noted first, then the host goes on, then every engine chooses; SimPy's heap of events becomes the
least of five ticks. An engine keeps the heads of its queues in an array with a bit for each.

All in one file, because numba looks only at the file of the function that is called to see whether its cache
still holds. Every number is an int64; :func:`streamsim.compiled.arrays.fits` says for which programs that is
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
INTERVAL_BITS, STEPS = 16, (40503, 27145, 47975)  # of hand-overs: see the model's looks.py
JOBS = (1 << 15) - 1  # a chunk of a plain pipeline has fewer ops on a lane
CHUNK_SHIFT = 15  # of the parts of its ops' numbers


def _record(fields: str) -> np.dtype[Any]:
    return np.dtype([(name, "i8") for name in fields.split()], align=True)


CARD = np.dtype(
    [
        *_record(
            "submit wake event look linked crowds concurrent copy_connections kernel_connections copy_rule kernel_rule"
        ).descr,
        ("switch", "i8"),  # ticks from the start of a kernel until one of another hardware queue may start
        ("crowded", "i8", CROWD),  # by which a kernel hears later, for each level of crowding
    ],
    align=True,
)
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
        ("late", "i8"),  # how much later than in the mean it hears of another engine
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
# mask: queues with a head; turn: the queue being served; next: when to look again. The rest is for plain pipelines:
# see _set_out.
LANE = _record("mask turn rule next jobs shapes first issue stride call follows queues")
# Of a queue: when its head may start (FOREVER: not known, or there is none), which it is, and if it has been deferred.
HEAD = _record("tick op told")
RUNNING = _record("op shape since given end left")  # end: of its work
DRAINING = _record("op tick")  # a kernel whose work is done, and its end
CONFIG = _record("plain breadth chunks streams slots larger row_a row_b record wait launch more")


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
    heads[uintp(place)].told = 0
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


@_inlined
def _seen(now, crossing):
    """The tick at which an op that waits for it may see an end at ``now``."""
    return now + crossing


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


# Hand-overs: see the model's looks.py.


@_inlined
def _late(look, kind, number):
    """How much later than in the mean the op ``number`` of a kind hears of another engine."""
    turn = ((1 << INTERVAL_BITS - 1) + (number + 1 >> 1) * STEPS[uintp(kind)]) & ((1 << INTERVAL_BITS) - 1)
    late = (look * turn >> INTERVAL_BITS) - (look >> 1)
    return late if number & 1 else -late


@_inlined
def _crossing(hand_over, from_kind, to_kind, late):
    """Ticks from the end of an op until one that waits for it, and hears of other engines so late, may start."""
    mean = hand_over[uintp(from_kind * 4 + to_kind)]
    return mean if from_kind == to_kind else mean + max(-mean, min(mean, late))


# Kernels that wait for copies: see the model's crowd.py.


@_inlined
def _level(waiting, most):
    """How crowded the card is with so many kernels that wait, in at most so many queues."""
    return uintp(max(0, min(most, waiting) - 1))


# Kernels side by side: see the model's compute_engine.


@_inlined
def _deferred(card, head, queue, level, last, since, now):
    """Whether the head of a queue, chosen at ``now``, has to wait; if so, notes until when: see the model's deferring.

    ``last``: the queue of the last kernel, which has started at ``since``.
    """
    later = now
    if not head.told:
        head.told = 1
        later = max(later, head.tick + card.crowded[level])
    if queue != last:
        later = max(later, since + card.switch)
    if later > now:
        head.tick = later
    return later > now


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
def run(card, hand_over, launch, more, shapes, ops, segments, waits, also, state, times):
    """Run a program; returns the tick at which the last copy or kernel ends, 0 if there is none.

    ``more``: ticks that the call of a copy or kernel takes beyond its shape's. ``ops`` is used up. ``times``: int64 of
    shape (5, ops) for issued, returned, ready, start and end, or (5, 0) where only the makespan is wanted. ``state``:
    of :func:`new_state`.
    """
    lanes, heads, running, draining = state
    trace = times.shape[1] > 0
    linked, crowds, most = card.linked, card.crowds, card.concurrent
    defers = card.switch > 0 or card.crowded[CROWD - 1] > 0
    last, since = NONE, -FOREVER  # the queue of the last kernel, and when that started
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
            for op in range(first, this.last):
                call = ops[uintp(op)]
                if trace:
                    times[0, op] = returns
                returns += shapes[uintp(call.shape)].call + more * (call.kind != NOTHING)
                if trace:
                    times[1, op] = returns
                call.comes = returns + card.submit
                if call.kind != NOTHING:
                    if first == 0:
                        call.pending += 1
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
            if defers:
                if crowds:
                    waiting, coming = _come(ops, waiting, coming, first, now)
                head = heads[uintp(COMPUTE * QUEUES + queue)]
                if _deferred(card, head, queue, _level(waiting, most_queues), last, since, now):
                    continue
                last, since = queue, now
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
                crossing = _crossing(hand_over, op.kind, ops[uintp(after)].kind, ops[uintp(after)].late)
                _release(ops, lanes, heads, after, _seen(now, crossing))
            for j in range(op.also_from, op.also_to):
                other = also[uintp(j)].op
                if crowds and op.kind < KERNEL and ops[uintp(other)].kind == KERNEL:
                    waiting -= _copy_ended(ops, other, coming)
                crossing = _crossing(hand_over, op.kind, ops[uintp(other)].kind, ops[uintp(other)].late)
                if also[uintp(j)].crosses:
                    crossing += card.event
                _release(ops, lanes, heads, other, _seen(now, crossing))
            if op.awaited:
                awaited -= 1
                returns = max(returns, now + card.wake)
                if awaited == 0:
                    go_on = True
                    if trace:
                        times[1, first - 1] = returns


# Patterns as programs: see streamsim/patterns.py and the model's program.py.


@_inlined
def _put(ops, tails, lane_of_kind, op, shape, kind, queue, late, before, waits):
    """Write down an op that follows ``before`` in its stream, and waits for so many other things."""
    new = ops[uintp(op)]
    new.tick = 0
    new.late = late
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
    new.pending = waits


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


@_compiled
def _lay_out(config, card, jobs, run_signal, shapes, lane_of_kind, program):
    """Write the ops and segments of a pattern; returns how many of each."""
    ops, segments, waits, also, tails, last, owners, owned = program
    copies_in, kernels, copies_back = jobs
    chunks, streams, slots = config.chunks, config.streams, config.slots
    last[:streams] = NONE
    tails[:] = NONE
    owners[:] = NONE
    owned[:, :streams] = 0
    n = n_segments = later = 0
    across = slots % streams != 0
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
        for i in range(chunks):
            row = config.row_a if i < config.larger else config.row_b
            waits_for_slot = across and i >= slots
            if waits_for_slot:
                _call(ops, n, config.wait)
                also[uintp(i - slots)].op, also[uintp(i - slots)].crosses = n + 1, 1
                n += 1
            before = last[uintp(stream)]
            for shape in range(row + begin, row + end):
                kind = shapes[uintp(shape)].kind
                first_job = row if kind == H2D else row + copies_in if kind == KERNEL else row + copies_in + kernels
                own = copies_in if kind == H2D else kernels if kind == KERNEL else copies_back
                late = _late(card.look, kind, i * own + shape - first_job)
                queue = _queue_of(card, np.int64(lane_of_kind[kind]), stream, tails, owners, owned)
                _put(ops, tails, lane_of_kind, n, shape, kind, queue, late, before, later + waits_for_slot)
                waits_for_slot = False
                before = n
                n += 1
                if shapes[uintp(shape)].holds:
                    segment = segments[n_segments]
                    segment.last, segment.waits_from, segment.waits_to = n, n_segments, n_segments + 1
                    waits[uintp(n_segments)] = before
                    n_segments += 1
                    later = 1
            last[uintp(stream)] = before
            if across and i + slots < chunks:
                ops[uintp(before)].also_from, ops[uintp(before)].also_to = i, i + 1
                _call(ops, n, config.record)
                n += 1
            stream += 1
            if stream == streams:
                stream = 0
        if joined:
            for k in range(streams):
                ops[uintp(back + k * copies_back)].pending += streams - 1
    if n_segments == 0 or segments[n_segments - 1].last < n:
        segment = segments[n_segments]
        segment.last, segment.waits_from, segment.waits_to = n, n_segments, n_segments
        n_segments += 1
    return n, n_segments


# Plain pipelines: two copy engines, nothing holds the host, no events. The op of lane L that is number `job` of
# chunk `chunk` is the number chunk << CHUNK_SHIFT | job; it waits for one op before it in its stream, and it is known
# beforehand when the host issues it. So no ops are written down: `seen` holds the tick at which each may start,
# FOREVER as long as the op before it runs. Streams issue in turn, on every lane: no more of them than queues keep
# their own, and of more each finds its queue taken and takes the next one. So chunks go round the queues in use.


@_inlined
def _set_out(config, card, jobs, shapes, lanes, seen):
    """Prepare the lanes of a pipeline; returns the first stage's lane.

    ``shapes``: the first shape of its jobs in a row of shapes; ``first``: its first op in ``seen``; ``issue``,
    ``stride`` and ``call``: the card has op (chunk, job) at issue + chunk * stride + job * call; ``follows``:
    the lane of the next stage, or NONE; ``queues``: the hardware queues in use, among which chunks go round.
    """
    chunks = config.chunks
    whole = called = n_shapes = first = 0
    begins = before = NONE
    for stage in range(3):
        lane = lanes[uintp(0 if stage == 0 else COMPUTE if stage == 1 else D2H)]
        lane.jobs = jobs[stage]
        lane.call = shapes[uintp(config.row_b + n_shapes)].call + config.more if jobs[stage] else 0
        lane.shapes = n_shapes
        lane.first = first
        n_shapes += jobs[stage]
        first += jobs[stage] * chunks
        whole += jobs[stage] * lane.call
    for stage in range(3):
        place = 0 if stage == 0 else COMPUTE if stage == 1 else D2H
        lane = lanes[uintp(place)]
        lane.follows = NONE
        lane.queues = min(card.kernel_connections if stage == 1 else card.copy_connections, config.streams)
        if lane.jobs:
            if before == NONE:
                begins = place
            else:
                lanes[before].follows = place
            before = place
        own = lane.jobs * lane.call
        lane.issue = config.launch + card.submit + lane.call + (called * chunks if config.breadth else called)
        lane.stride = own if config.breadth else whole
        called += own
    seen[:first] = FOREVER
    return begins


@_inlined
def _queue_up(lane, heads, first):
    """Put the first op of each hardware queue at its head."""
    for queue in range(lane.queues):
        heads[uintp(first + queue)].op = queue << CHUNK_SHIFT


@_inlined
def _who_waits(config, card, jobs):
    """Of which chunks the first kernel waits for a copy: first and end; and in how many queues, CROWD at most."""
    copies_in, kernels, copies_back = jobs
    first = end = 0
    if card.crowds and kernels > 0:
        if copies_in > 0:
            end = config.streams if config.breadth else config.chunks
        elif copies_back > 0 and not config.breadth:
            first, end = config.streams, config.chunks
    return first, end, min(CROWD, card.kernel_connections, config.streams, end - first)


@_inlined
def _comes(lane, seen, waiting, chunk, end):
    """The first kernel of ``chunk`` comes: count it if it waits for a copy. Returns when which one comes next."""
    waiting += seen[uintp(lane.first + chunk * lane.jobs)] == FOREVER
    chunk += 1
    return waiting, chunk, lane.issue + chunk * lane.stride if chunk < end else FOREVER


@_inlined
def _may_start(lane, heads, first, seen, op, tick):
    """The op before this one in its stream has ended: it may start at ``tick``, once it is the head and issued."""
    chunk = op >> CHUNK_SHIFT
    job = op & JOBS
    queue = np.int64(np.uint32(chunk) % np.uint32(lane.queues))
    tick = max(tick, lane.issue + chunk * lane.stride + job * lane.call)
    seen[uintp(lane.first + chunk * lane.jobs + job)] = tick
    if heads[uintp(first + queue)].op == op:
        _arrive(lane, heads, first + queue, queue, op, tick)


@_inlined
def _next_head(lane, heads, first, seen, chunks, queue):
    """The head of a queue starts: the op behind it is the head now. Returns the op's chunk and shape in its row."""
    head = heads[uintp(first + queue)]
    chunk = head.op >> CHUNK_SHIFT
    job = head.op & JOBS
    shape = lane.shapes + job
    tick = FOREVER
    if job + 1 < lane.jobs:
        head.op += 1
        tick = seen[uintp(lane.first + chunk * lane.jobs + job + 1)]
    else:
        follower = chunk + lane.queues
        head.op = follower << CHUNK_SHIFT
        if follower < chunks:
            tick = seen[uintp(lane.first + follower * lane.jobs)]
    head.tick = tick
    head.told = 0
    if tick == FOREVER:
        lane.mask &= ~(1 << queue)
    elif tick < lane.next:
        lane.next = tick
    return chunk, shape


@_inlined
def _go_on(lanes, heads, seen, hand_over, look, breadth, chunks, streams, begins, coming, place, op, now):
    """The op of a lane has ended: the one after it in its stream may start.

    Returns how many kernels, of those of the chunks before ``coming``, wait for a copy no longer.
    """
    lane = lanes[place]
    chunk = op >> CHUNK_SHIFT
    to = place
    op += 1
    if op & JOBS == lane.jobs:
        op -= lane.jobs
        to = lane.follows
        if breadth:
            if chunk + streams < chunks:
                op += streams << CHUNK_SHIFT
                to = place
            else:
                op -= (chunk - chunk % streams) << CHUNK_SHIFT
        elif to == NONE:
            op += streams << CHUNK_SHIFT
            to = begins if chunk + streams < chunks else NONE
    if to != NONE:
        number = (op >> CHUNK_SHIFT) * lanes[uintp(to)].jobs + (op & JOBS)
        tick = _seen(now, _crossing(hand_over, place, to, _late(look, to, number)))
        _may_start(lanes[uintp(to)], heads, to * QUEUES, seen, op, tick)
    return np.int64(place != COMPUTE and to == COMPUTE and op >> CHUNK_SHIFT < coming)


@_compiled
def _run_pipeline(card, hand_over, config, jobs, shapes, seen, state):
    """Run a plain pipeline; returns its makespan in ticks."""
    lanes, heads, running, draining = state
    chunks, streams, breadth, larger = config.chunks, config.streams, config.breadth, config.larger
    row_a, row_b = config.row_a, config.row_b
    linked, most, look = card.linked, card.concurrent, card.look
    defers = card.switch > 0 or card.crowded[CROWD - 1] > 0
    last, since = NONE, -FOREVER
    _reset(card, lanes, heads)
    begins = _set_out(config, card, jobs, shapes, lanes, seen)
    for place in range(LANES):
        _queue_up(lanes[place], heads, place * QUEUES)
    for chunk in range(streams):
        _may_start(lanes[uintp(begins)], heads, begins * QUEUES, seen, chunk << CHUNK_SHIFT, 0)
    op_a = op_b = NONE  # as in `run`, from here on
    end_a = end_b = copies_end = FOREVER
    begins_a = begins_b = FOREVER
    left_a = left_b = then_a = then_b = settled = 0
    alone_a = alone_b = shared_a = shared_b = 1
    changed = False
    n_running, room, compute_end = 0, FULL_CARD, FOREVER
    drained = drains = 0
    drain_end = FOREVER
    now = last_end = 0
    lane_a, lane_b, lane_k = lanes[H2D], lanes[D2H], lanes[COMPUTE]
    waiting = 0  # kernels that wait for copies, of those that have come
    coming, crowd_ends, most_queues = _who_waits(config, card, jobs)
    comes = lane_k.issue + coming * lane_k.stride if coming < crowd_ends else FOREVER
    while True:
        if op_a == NONE and lane_a.next <= now:
            queue = _choose(lane_a, heads, H2D * QUEUES, now)
            if queue != NONE:
                op_a = heads[uintp(H2D * QUEUES + queue)].op
                chunk, job = _next_head(lane_a, heads, H2D * QUEUES, seen, chunks, queue)
                copy = shapes[uintp((row_a if chunk < larger else row_b) + job)]
                while comes <= now:
                    waiting, coming, comes = _comes(lane_k, seen, waiting, coming, crowd_ends)
                if linked:
                    left_b = _flowed(settled, now, begins_b, left_b, alone_b, shared_b, begins_a)
                    settled = now
                    begins_a = now + copy.latency[_level(waiting, most_queues) + CROWD * (op_b != NONE)]
                    left_a, alone_a, shared_a = copy.units, copy.alone, copy.shared
                else:
                    end_a = now + copy.duration
                    if waiting:
                        end_a += copy.latency[_level(waiting, most_queues)] - copy.latency[0]
                changed = True
        if op_b == NONE and lane_b.next <= now:
            queue = _choose(lane_b, heads, D2H * QUEUES, now)
            if queue != NONE:
                op_b = heads[uintp(D2H * QUEUES + queue)].op
                chunk, job = _next_head(lane_b, heads, D2H * QUEUES, seen, chunks, queue)
                copy = shapes[uintp((row_a if chunk < larger else row_b) + job)]
                while comes <= now:
                    waiting, coming, comes = _comes(lane_k, seen, waiting, coming, crowd_ends)
                if linked:
                    left_a = _flowed(settled, now, begins_a, left_a, alone_a, shared_a, begins_b)
                    settled = now
                    begins_b = now + copy.latency[_level(waiting, most_queues) + CROWD * (op_a != NONE)]
                    left_b, alone_b, shared_b = copy.units, copy.alone, copy.shared
                else:
                    end_b = now + copy.duration
                    if waiting:
                        end_b += copy.latency[_level(waiting, most_queues)] - copy.latency[0]
                changed = True
        if changed:
            changed = False
            if linked:
                copies_end, then_a, then_b = _next_end(
                    settled, begins_a, left_a, alone_a, shared_a, begins_b, left_b, alone_b, shared_b
                )
            else:
                copies_end = min(end_a, end_b)
        while lane_k.next <= now and room > 0 and n_running < most:
            queue = _choose(lane_k, heads, COMPUTE * QUEUES, now)
            if queue == NONE:
                break
            if defers:
                while comes <= now:
                    waiting, coming, comes = _comes(lane_k, seen, waiting, coming, crowd_ends)
                head = heads[uintp(COMPUTE * QUEUES + queue)]
                if _deferred(card, head, queue, _level(waiting, most_queues), last, since, now):
                    continue
                last, since = queue, now
            op = heads[uintp(COMPUTE * QUEUES + queue)].op
            chunk, job = _next_head(lane_k, heads, COMPUTE * QUEUES, seen, chunks, queue)
            row = (row_a if chunk < larger else row_b) + job
            room, compute_end = _start_kernel(running, n_running, op, row, now, shapes)
            n_running += 1

        now = min(copies_end, compute_end, drain_end)
        if op_a == NONE:
            now = min(now, lane_a.next)
        if op_b == NONE:
            now = min(now, lane_b.next)
        if room > 0 and n_running < most:
            now = min(now, lane_k.next)
        if now == FOREVER:
            return last_end

        if now == copies_end:
            last_end = now
            changed = True
            if linked:
                left_a, left_b, settled = then_a, then_b, now
                if op_a != NONE and left_a <= 0:
                    end_a = now
                if op_b != NONE and left_b <= 0:
                    end_b = now
            if end_a == now:
                waiting -= _go_on(
                    lanes, heads, seen, hand_over, look, breadth, chunks, streams, begins, coming, H2D, op_a, now
                )
                op_a = NONE
                end_a = begins_a = FOREVER
                lane_a.next = now
            if end_b == now:
                waiting -= _go_on(
                    lanes, heads, seen, hand_over, look, breadth, chunks, streams, begins, coming, D2H, op_b, now
                )
                op_b = NONE
                end_b = begins_b = FOREVER
                lane_b.next = now
        if now == compute_end:
            n_running, room, compute_end, drains = _finish_kernels(
                running, n_running, now, draining, drained, drains, shapes
            )
            drain_end = _next_drained(draining, drained, drains)
            lane_k.next = now
        while drain_end <= now:
            last_end = now
            op = draining[uintp(drained)].op
            drained += 1
            drain_end = _next_drained(draining, drained, drains)
            _go_on(lanes, heads, seen, hand_over, look, breadth, chunks, streams, begins, coming, COMPUTE, op, now)


@_compiled
def run_patterns(
    card,
    hand_over,
    configs,
    jobs,
    run_signal,
    shapes,
    lane_of_kind,
    program,
    seen,
    state,
    no_times,
    makespans,
):
    """Run every configuration. ``jobs``: copies in, kernels and copies back of a chunk.

    ``program`` and ``seen``: room for the ops of one that is not, or is, a plain pipeline.
    """
    ops, segments, waits, also = program[:4]
    for k in range(len(configs)):
        config = configs[k]
        if config.plain:
            makespans[k] = _run_pipeline(card, hand_over, config, jobs, shapes, seen, state)
        else:
            n, m = _lay_out(config, card, jobs, run_signal, shapes, lane_of_kind, program)
            own = ops[:n]
            makespans[k] = run(
                card, hand_over, config.launch, config.more, shapes, own, segments[:m], waits, also, state, no_times
            )
