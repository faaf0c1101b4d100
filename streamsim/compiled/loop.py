"""The event loop: what ``streamsim.model`` does, on records in place of objects, compiled by numba.

The rules are those of :mod:`streamsim.rules`, inlined by numba. The effects of a tick do not depend on the order in
which they are noticed, because every effect is a maximum, a count or a mark. So the loop first notes all that ends at a
tick. Then the host goes on, and then every engine chooses. The least of five ticks takes the place of SimPy's heap of
events.

Reference counts are off (``_nrt``), because counting references to the arrays would take most of the time. Indices that
are used often are unsigned, because numba checks the sign of signed ones, to count from the end.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.
# ruff: noqa: C901 (a loop keeps its state in local variables, for the compiler to keep in registers)

import hashlib
import warnings
from array import array
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

import streamsim.model
from streamsim import rules
from streamsim.compiled.records import (
    COME,
    COMPUTE,
    D2H,
    ENDED,
    ENGINES,
    H2D,
    NONE,
    NOT_YET,
    QUEUES,
    flatten,
    new_state,
)
from streamsim.lowering import Lowered
from streamsim.model import OpTimes, complete_events, timeline_of
from streamsim.rules import CROWD, FULL_CARD, KERNEL, NEVER, NO_HEAD, NOTHING
from streamsim.timeline import Timeline

uintp = np.uintp
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
_cache = True

inlined: Any = njit(inline="always", **_OPTIONS)  # a function whose code is put in place of its calls
called: Any = njit(**_OPTIONS)  # a function that is compiled with its callers, once


@cache
def rule(function: Any) -> Any:
    """Return a function of :mod:`streamsim.rules` for compiled code, inlined with the rules that it calls.

    It looks its names up in a copy of its module's names, in which rules are compiled ones.
    """
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        other = names.get(name)
        if isinstance(other, FunctionType) and other.__module__ == "streamsim.rules":
            names[name] = rule(other)
    return inlined(FunctionType(function.__code__, names, function.__name__))


def sources() -> int:
    """Return a number that changes with the source of all that is compiled: rules, numbers, and this folder."""
    read = [file for room in ("rules", "compiled") for file in files(f"streamsim.{room}").iterdir()]
    read = sorted((file for file in read if file.name.endswith(".py")), key=str)
    digest = hashlib.sha256()
    for file in (*read, files("streamsim.lowering") / "costs.py"):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return int.from_bytes(digest.digest()[:7])  # within an int64


def compiled(make: Callable[[int], Any]) -> Any:
    """Return the compiled function that ``make`` makes, kept on disk if a folder can be written.

    To see whether code on disk is current, numba looks only at the function's own file and at the values that it closes
    over, not at inlined code. So ``make`` gets :func:`sources`, and its function closes over this number.
    """
    global _cache
    function = make(sources())
    assert function.__code__.co_freevars, "what is kept on disk names its sources"
    try:
        return njit(nogil=True, cache=_cache, **_OPTIONS)(function)
    except RuntimeError as error:
        if not _cache:
            raise
        _cache = False
        said = "numba cannot keep what it compiles, so that every run compiles it anew: set NUMBA_CACHE_DIR to a folder"
        warnings.warn(f"{said} that can be written ({error})", RuntimeWarning, stacklevel=2)
        return compiled(make)


choose, crossing, fitting, level, next_end = map(
    rule, (rules.choose, rules.crossing, rules.fitting, rules.level, rules.next_end)
)
release_tick, share_by_warps, share_in_order, suffices, ticks_for = map(
    rule, (rules.release_tick, rules.share_by_warps, rules.share_in_order, rules.suffices, rules.ticks_for)
)

# Hardware queues, as in :mod:`streamsim.model.card`. The heads of an engine's queues lie side by side, in any order;
# ``engine.heads`` is their number.


@inlined
def reset(engines, at_rest):
    """Empty all queues."""
    for k in range(ENGINES):
        engines[uintp(k)] = at_rest[uintp(k)]


@inlined
def release(ops, engines, heads, op, tick):
    """Note that one of the things that ``op`` waits for has come; the op cannot start before ``tick``."""
    waiting = ops[uintp(op)]
    if tick > waiting.tick:
        waiting.tick = tick
    left = waiting.pending - 1
    waiting.pending = left
    if left == 0:  # it is the head of its queue: ops wait for those ahead of them too
        place = np.int64(waiting.place)
        engine = engines[uintp(place // QUEUES)]
        head = heads[uintp(place // QUEUES * QUEUES + engine.heads)]
        head.ready = waiting.tick
        head.op = op
        head.queue = place % QUEUES
        engine.heads += 1
        if waiting.tick < engine.next:
            engine.next = waiting.tick


@inlined
def take(ops, engines, heads, engine, now, times):
    """Take the op that starts now out of its queue, and return it; NONE if no head is ready.

    The op behind it in the queue becomes the head.
    """
    own, first = engines[uintp(engine)], engine * QUEUES
    place = choose(own, heads, first, first + own.heads, now)
    if place == NO_HEAD:
        return NONE
    head = heads[uintp(place)]
    op = head.op
    own.heads -= 1
    last = heads[uintp(first + own.heads)]
    head.ready, head.op, head.queue = last.ready, last.op, last.queue
    if times is not None:
        times[2, op] = ops[uintp(op)].tick
        times[3, op] = now
    if ops[uintp(op)].behind >= 0:
        release(ops, engines, heads, ops[uintp(op)].behind, 0)
    return op


# Kernels that wait for copies, as in :class:`streamsim.model.card.Crowd`.


@inlined
def _waits_for_copy(op):
    """Note that ``op``, if it is a kernel, waits for one more copy; return the bit of its queue, 0 for other ops."""
    bit = np.int64(0)
    if op.kind == KERNEL:
        op.copies += 1
        bit = 1 << (np.int64(op.place) % QUEUES)
    return bit


@inlined
def count_copies(ops, extra):
    """Note for how many copies each kernel waits; return the number of queues with such kernels, at most CROWD."""
    queues = np.int64(0)
    for k in range(len(ops)):
        copy = ops[uintp(k)]
        if copy.kind < KERNEL:
            if copy.after >= 0:
                queues |= _waits_for_copy(ops[uintp(copy.after)])
            j = copy.extra
            while j >= 0:
                queues |= _waits_for_copy(ops[uintp(extra[uintp(j)].op)])
                j = extra[uintp(j)].next
    most = 0
    while queues and most < CROWD:
        queues &= queues - 1
        most += 1
    return most


@inlined
def arrive(arriving, issued, coming, kernel, tick):
    """Note that the card will have ``kernel``, which waits for copies, at ``tick``; return the number issued so far.

    ``arriving`` is in the order of ticks, which is the issue order if one thread issues.
    """
    at = issued
    while at > coming and arriving[uintp(at - 1)].tick > tick:
        before, new = arriving[uintp(at - 1)], arriving[uintp(at)]
        new.op, new.tick = before.op, before.tick
        at -= 1
    arriving[uintp(at)].op, arriving[uintp(at)].tick = kernel, tick
    return issued + 1


@inlined
def come(ops, arriving, issued, waiting, coming, now):
    """Count the waiting kernels that have come by ``now``; return their number, and the next kernel to come.

    ``arriving``: kernels that wait for copies, of which ``issued`` are issued so far.
    """
    while coming < issued and arriving[uintp(coming)].tick <= now:
        kernel = ops[uintp(arriving[uintp(coming)].op)]
        if kernel.copies > 0:
            kernel.copies += COME
            waiting += 1
        coming += 1
    return waiting, coming


@inlined
def copy_ended(ops, kernel):
    """Note the end of a copy that a kernel waits for; return True if the card has it and it waits for no other."""
    left = ops[uintp(kernel)].copies - 1
    ops[uintp(kernel)].copies = left
    return left == COME


# Kernels side by side, as in :class:`streamsim.model.card.ComputeEngine`.


@inlined
def _give(kernel, share, now):
    """Give a kernel this share of the card from now on."""
    if share != kernel.share:
        kernel.left -= kernel.share * (now - kernel.since)
        kernel.since = now
        kernel.share = share
        kernel.end = now + ticks_for(kernel.left, share)


@inlined
def _share(running, n, now, costs):
    """Divide the card among its kernels; return the room for one more, and the tick at which one's work is done."""
    end, room, held, shares = NEVER, FULL_CARD, 0, False
    for k in range(n):
        shares |= costs[uintp(running[uintp(k)].cost)].warps > 0
    if shares:
        room = _share_by_warps(running, n, now, costs)
    for k in range(n):
        kernel = running[uintp(k)]
        if not shares:
            cost = costs[uintp(kernel.cost)]
            held += cost.threads
            share = share_in_order(cost.fill, cost.threads, cost.idle, room, held)
            _give(kernel, share, now)
            room -= share
        end = min(end, kernel.end)
    return room, end


@inlined
def _share_by_warps(running, n, now, costs):
    """Divide the card by warps, and what a kernel cannot use among the others; return the room for threads."""
    room, held = FULL_CARD, 0
    for k in range(n):
        kernel = running[uintp(k)]
        cost = costs[uintp(kernel.cost)]
        kernel.warps = fitting(cost.warps if cost.warps else cost.threads, held)
        held += kernel.warps
    free = max(0, FULL_CARD - held)
    settles = True
    while settles:
        settles = False
        for k in range(n):
            kernel = running[uintp(k)]
            fill = costs[uintp(kernel.cost)].fill
            if kernel.warps and suffices(fill, kernel.warps, room, held):
                room -= fill
                held -= kernel.warps
                kernel.warps = 0
                _give(kernel, fill, now)
                settles = True
    for k in range(n):
        kernel = running[uintp(k)]
        if kernel.warps:
            _give(kernel, share_by_warps(kernel.warps, room, held), now)
    return free


@inlined
def start_kernel(running, n, op, row, now, costs):
    """Put a kernel on the card beside ``n`` others; return the room left, and the tick at which one's work is done."""
    kernel, cost = running[uintp(n)], costs[uintp(row)]
    busy = cost.duration - cost.drain
    kernel.op = op
    kernel.cost = row
    kernel.since = now
    kernel.left = busy * cost.fill
    if n == 0:  # it has the card to itself
        kernel.share, kernel.end = cost.fill, now + busy
        return FULL_CARD - (cost.warps if cost.warps else cost.fill), kernel.end
    kernel.share = 0
    return _share(running, n + 1, now, costs)


@inlined
def _drain(draining, first, last, op, tick):
    """Note when a kernel whose work is done will end, in draining[first:last], the next to end first.

    Kernels of one cost drain for the same time, so kernels are seldom moved.
    """
    k = last
    while k > first and draining[uintp(k - 1)].tick > tick:
        draining[uintp(k)].op, draining[uintp(k)].tick = draining[uintp(k - 1)].op, draining[uintp(k - 1)].tick
        k -= 1
    draining[uintp(k)].op, draining[uintp(k)].tick = op, tick


@inlined
def finish_kernels(running, n, now, draining, first, last, costs):
    """Take the kernels whose work is done off the card, and put them into draining[first:last].

    Return the number of kernels that stay, the two results of start_kernel, and the new ``last``.
    """
    if n == 1:
        _drain(draining, first, last, running[0].op, now + costs[uintp(running[0].cost)].drain)
        return 0, FULL_CARD, NEVER, last + 1
    kept = 0
    for k in range(n):
        kernel = running[uintp(k)]
        if kernel.end <= now:
            _drain(draining, first, last, kernel.op, now + costs[uintp(kernel.cost)].drain)
            last += 1
        else:
            if kept < k:
                place = running[uintp(kept)]
                place.op, place.cost, place.since = kernel.op, kernel.cost, kernel.since
                place.share, place.end, place.left = kernel.share, kernel.end, kernel.left
            kept += 1
    room, end = _share(running, kept, now, costs)
    return kept, room, end, last


@inlined
def next_drained(draining, first, last):
    """Return the tick at which the next draining kernel ends, or NEVER."""
    return draining[uintp(first)].tick if first < last else NEVER


# Copies, and the loop.


@inlined
def start_copy(copy, now, crowding, is_beside_another, linked):
    """Start a copy; return when it begins to flow, its units and rates (on a shared link), and when it ends (else)."""
    if linked:
        return now + copy.latency[crowding + CROWD * is_beside_another], copy.units, copy.alone, copy.shared, NEVER
    return NEVER, 0, 1, 1, now + copy.duration + copy.latency[crowding] - copy.latency[0]


@compiled
def run_loop(sources):
    """Make the loop. It is one long function, because its state is in its local variables."""

    def run_loop(card, hand_over, costs, ops, calls, threads, segments, waits, extra, state, times):
        """Run a program; return the tick at which the last copy or kernel ends, 0 if there is none.

        ``hand_over``: ticks from kind to kind; ``calls``: ticks of each call. The run changes ``ops``, ``threads`` and
        ``segments``. ``times``: int64 of cost (5, ops) for issued, returned, ready, start and end, or None to get only
        the makespan. ``state``: scratch from :func:`streamsim.compiled.records.new_state`.
        """
        _ = sources
        engines, heads, running, draining, arriving, at_rest = state
        linked, crowds, most = card.linked, card.crowds, card.concurrent
        reset(engines, at_rest)
        op_a = op_b = NONE  # the copies on the copy engines, and their ends without a shared link
        end_a = end_b = copies_end = NEVER
        begins_a = begins_b = NEVER  # the flows on a shared link, counted up to `settled`
        left_a = left_b = then_a = then_b = settled = 0
        alone_a = alone_b = shared_a = shared_b = 1
        changed = False
        n_running, room, compute_end = 0, FULL_CARD, NEVER  # when the next kernel's work is done
        drained = drains = 0  # kernels that have ended, of those whose work is done; drain_end: when the next one ends
        drain_end = NEVER
        done_a = done_b = NONE  # copies that end at a tick
        waiting = arrivals = coming = most_queues = 0  # kernels that wait for copies: here, issued, come
        if crowds:
            most_queues = count_copies(ops, extra)
        go_on = True
        now = last_end = 0
        while True:
            while go_on:  # each thread issues until a call has to wait
                go_on = False
                for t in range(len(threads)):
                    thread = threads[uintp(t)]
                    while thread.awaited == 0 and thread.segment != NONE:
                        this = segments[uintp(thread.segment)]
                        if not thread.called:
                            thread.called = 1
                            returns = thread.returns
                            for op in range(this.first, this.last):
                                call = ops[uintp(op)]
                                if times is not None:
                                    times[0, op] = returns
                                returns += calls[uintp(op)]
                                if times is not None:
                                    times[1, op] = returns
                                if call.kind != NOTHING:
                                    arrival = call.arrival = returns + card.submit
                                    if crowds and call.copies > 0:
                                        arrivals = arrive(arriving, arrivals, coming, op, arrival)
                                    release(ops, engines, heads, op, arrival)
                            for k in range(this.waits_from, this.waits_to):
                                waited = ops[uintp(waits[uintp(k)])]
                                if waited.pending == ENDED:
                                    returns = max(returns, waited.tick + card.wake)
                                else:
                                    waited.awaited = 1
                                    thread.awaited += 1
                            thread.returns = returns
                            if thread.awaited:
                                break
                        if this.behind != NONE:
                            returned = segments[uintp(this.behind)].returned
                            if returned == NOT_YET:
                                break
                            thread.returns = max(thread.returns, returned)
                        this.returned = thread.returns
                        if times is not None:
                            times[1, this.last - 1] = thread.returns
                        thread.called = 0
                        thread.segment = this.next
                        go_on = len(threads) > 1  # another thread may have waited for this one

            # every engine chooses
            if op_a == NONE and engines[H2D].next <= now:
                op_a = take(ops, engines, heads, H2D, now, times)
                if op_a != NONE:
                    changed = True
                    if crowds:
                        waiting, coming = come(ops, arriving, arrivals, waiting, coming, now)
                    copy, crowding = costs[uintp(ops[uintp(op_a)].cost)], level(waiting, most_queues)
                    begins_a, left_a, alone_a, shared_a, end_a = start_copy(copy, now, crowding, op_b != NONE, linked)
            if op_b == NONE and engines[D2H].next <= now:
                op_b = take(ops, engines, heads, D2H, now, times)
                if op_b != NONE:
                    changed = True
                    if crowds:
                        waiting, coming = come(ops, arriving, arrivals, waiting, coming, now)
                    copy, crowding = costs[uintp(ops[uintp(op_b)].cost)], level(waiting, most_queues)
                    begins_b, left_b, alone_b, shared_b, end_b = start_copy(copy, now, crowding, op_a != NONE, linked)
            if changed:
                changed = False
                if linked:
                    copies_end, then_a, then_b = next_end(
                        settled, begins_a, left_a, alone_a, shared_a, begins_b, left_b, alone_b, shared_b
                    )
                else:
                    copies_end = min(end_a, end_b)
            while engines[COMPUTE].next <= now and room > 0 and n_running < most:
                op = take(ops, engines, heads, COMPUTE, now, times)
                if op == NONE:
                    break
                room, compute_end = start_kernel(running, n_running, op, ops[uintp(op)].cost, now, costs)
                n_running += 1

            # the next tick at which something ends or can start
            now = min(copies_end, compute_end, drain_end)
            if op_a == NONE:
                now = min(now, engines[H2D].next)
            if op_b == NONE:
                now = min(now, engines[D2H].next)
            if room > 0 and n_running < most:
                now = min(now, engines[COMPUTE].next)
            if now == NEVER:
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
                    end_a = begins_a = NEVER
                    engines[H2D].next = now
                if end_b == now:
                    done_b, op_b = op_b, NONE
                    end_b = begins_b = NEVER
                    engines[D2H].next = now
                changed = True
            if now == compute_end:
                n_running, room, compute_end, drains = finish_kernels(
                    running, n_running, now, draining, drained, drains, costs
                )
                drain_end = next_drained(draining, drained, drains)
                engines[COMPUTE].next = now
            while True:
                if done_a != NONE:
                    ended, done_a = done_a, NONE
                elif done_b != NONE:
                    ended, done_b = done_b, NONE
                elif drain_end <= now:
                    ended = draining[uintp(drained)].op
                    drained += 1
                    drain_end = next_drained(draining, drained, drains)
                else:
                    break
                last_end = now
                op = ops[uintp(ended)]
                op.tick = now
                op.pending = ENDED
                if times is not None:
                    times[4, ended] = now
                after = op.after
                if after >= 0:
                    if crowds and op.kind < KERNEL and ops[uintp(after)].kind == KERNEL:
                        waiting -= copy_ended(ops, after)
                    late = crossing(hand_over, op.kind, ops[uintp(after)].kind, 0)
                    release(ops, engines, heads, after, release_tick(now, late, ops[uintp(after)].arrival))
                j = op.extra
                while j >= 0:
                    other = extra[uintp(j)].op
                    if crowds and op.kind < KERNEL and ops[uintp(other)].kind == KERNEL:
                        waiting -= copy_ended(ops, other)
                    late = crossing(hand_over, op.kind, ops[uintp(other)].kind, extra[uintp(j)].crosses)
                    release(ops, engines, heads, other, release_tick(now, late, ops[uintp(other)].arrival))
                    j = extra[uintp(j)].next
                if op.awaited:
                    for t in range(len(threads)):
                        thread = threads[uintp(t)]
                        if thread.awaited:
                            this = segments[uintp(thread.segment)]
                            for k in range(this.waits_from, this.waits_to):
                                if waits[uintp(k)] == ended:
                                    thread.awaited -= 1
                                    thread.returns = max(thread.returns, now + card.wake)
                                    go_on = go_on or thread.awaited == 0

    return run_loop


def run(lowered: Lowered) -> Timeline:
    """Return the time line of a lowered schedule, equal to that of ``streamsim.model.run``."""
    arrays = flatten(lowered)
    if arrays is None:  # SimPy counts in Python's integers
        return streamsim.model.run(lowered)
    rows = np.full((5, len(lowered.kind)), -1, np.int64)
    run_loop(*arrays, new_state(lowered.device, len(arrays.ops)), rows)
    times = OpTimes(*(array("q", row.tobytes()) for row in rows))
    complete_events(times, lowered)
    return timeline_of(lowered, times)
