"""The event loop: what ``streamsim.model`` does, on records in place of objects.

The rules are those of :mod:`streamsim.rules`, inlined by numba. The effects of a tick do not depend on the order in
which they are noticed, because every effect is a maximum, a count or a mark. So the loop first notes all that ends at a
tick. Then the host goes on, and then every engine chooses. The least of five ticks takes the place of SimPy's heap of
events.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.
# ruff: noqa: C901 (a loop keeps its state in local variables, for the compiler to keep in registers)

from streamsim.compiled.crowd import arrive, come, copy_ended, count_copies
from streamsim.compiled.kernels import finish_kernels, next_drained, start_kernel
from streamsim.compiled.numba_code import compiled, rule, uintp
from streamsim.compiled.queues import release, reset, take
from streamsim.compiled.tables import COMPUTE, D2H, ENDED, H2D, NONE, NOT_YET
from streamsim.lowering import KERNEL, NOTHING
from streamsim.rules import CROWD, FULL_CARD, NEVER, hand_overs, link

crossing, heard, level = rule(hand_overs.crossing), rule(hand_overs.heard), rule(link.level)
next_end = rule(link.next_end)


@compiled
def run(sources):
    """Make the loop. It is one long function, because its state is in its local variables."""

    def run(card, hand_over, shapes, ops, calls, threads, segments, waits, also, state, times):
        """Run a program; return the tick at which the last copy or kernel ends, 0 if there is none.

        ``hand_over``: ticks from kind to kind; ``calls``: ticks of each call. The run changes ``ops``, ``threads`` and
        ``segments``. ``times``: int64 of shape (5, ops) for issued, returned, ready, start and end, or None to get only
        the makespan. ``state``: scratch from :func:`streamsim.compiled.tables.new_state`.
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
            most_queues = count_copies(ops, also)
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
                                    comes = call.comes = returns + card.submit
                                    if crowds and call.copies > 0:
                                        arrivals = arrive(arriving, arrivals, coming, op, comes)
                                    release(ops, engines, heads, op, comes)
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
                    copy = shapes[uintp(ops[uintp(op_a)].shape)]
                    if crowds:
                        waiting, coming = come(ops, arriving, arrivals, waiting, coming, now)
                    if linked:
                        begins_a = now + copy.latency[level(waiting, most_queues) + CROWD * (op_b != NONE)]
                        left_a, alone_a, shared_a = copy.units, copy.alone, copy.shared
                    else:
                        end_a = now + copy.duration + copy.latency[level(waiting, most_queues)] - copy.latency[0]
                    changed = True
            if op_b == NONE and engines[D2H].next <= now:
                op_b = take(ops, engines, heads, D2H, now, times)
                if op_b != NONE:
                    copy = shapes[uintp(ops[uintp(op_b)].shape)]
                    if crowds:
                        waiting, coming = come(ops, arriving, arrivals, waiting, coming, now)
                    if linked:
                        begins_b = now + copy.latency[level(waiting, most_queues) + CROWD * (op_a != NONE)]
                        left_b, alone_b, shared_b = copy.units, copy.alone, copy.shared
                    else:
                        end_b = now + copy.duration + copy.latency[level(waiting, most_queues)] - copy.latency[0]
                    changed = True
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
                room, compute_end = start_kernel(running, n_running, op, ops[uintp(op)].shape, now, shapes)
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
                    running, n_running, now, draining, drained, drains, shapes
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
                    release(ops, engines, heads, after, heard(now, late, ops[uintp(after)].comes))
                j = op.also
                while j >= 0:
                    other = also[uintp(j)].op
                    if crowds and op.kind < KERNEL and ops[uintp(other)].kind == KERNEL:
                        waiting -= copy_ended(ops, other)
                    late = crossing(hand_over, op.kind, ops[uintp(other)].kind, also[uintp(j)].crosses)
                    release(ops, engines, heads, other, heard(now, late, ops[uintp(other)].comes))
                    j = also[uintp(j)].next
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

    return run
