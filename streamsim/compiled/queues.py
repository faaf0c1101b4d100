"""The hardware queues of the engines, on records: ops that wait, come, are chosen and leave.

The rules are those of ``streamsim.model.queues`` and ``streamsim.model.card``. The heads of an engine's queues lie side
by side, in any order; ``engine.heads`` is their number.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

import numpy as np

from streamsim.compiled.numba_code import inlined, rule, uintp
from streamsim.compiled.tables import ENGINES, NONE, QUEUES
from streamsim.rules import NO_HEAD, queues

choose = rule(queues.choose)


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
