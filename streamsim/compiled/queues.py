"""The hardware queues in front of a lane, on records: what waits, comes, is chosen and leaves.

As in ``streamsim.model.queues`` and ``streamsim.model.card``. The heads of a lane's queues lie side by side, in any
order: there are ``lane.heads`` of them.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

from __future__ import annotations

import numpy as np

from streamsim.compiled.numba_code import inlined, rule, uintp
from streamsim.compiled.tables import LANES, NONE, QUEUES
from streamsim.rules import arbitration
from streamsim.rules.arbitration import NO_HEAD

choose = rule(arbitration.choose)


@inlined
def reset(lanes, at_rest):
    """Empty all queues."""
    for k in range(LANES):
        lanes[uintp(k)] = at_rest[uintp(k)]


@inlined
def release(ops, lanes, heads, op, tick):
    """One of the things that ``op`` waits for has come; it cannot start before ``tick``."""
    waiting = ops[uintp(op)]
    if tick > waiting.tick:
        waiting.tick = tick
    left = waiting.pending - 1
    waiting.pending = left
    if left == 0:  # it is the head of its queue: ops wait for those ahead of them too
        lane = lanes[uintp(waiting.lane)]
        head = heads[uintp(np.int64(waiting.lane) * QUEUES + lane.heads)]
        head.ready = waiting.tick
        head.op = op
        head.queue = waiting.queue
        lane.heads += 1
        if waiting.tick < lane.next:
            lane.next = waiting.tick


@inlined
def take(ops, lanes, heads, lane, now, times):
    """The op that starts now, taken out of its queue: the op behind it is the head now. NONE when no head is ready."""
    own, first = lanes[uintp(lane)], lane * QUEUES
    place = choose(own, heads, first, first + own.heads, now)
    if place == NO_HEAD:
        return NONE
    head = heads[uintp(place)]
    op = head.op
    own.heads -= 1
    last = heads[uintp(first + own.heads)]
    head.ready, head.op, head.queue = last.ready, last.op, last.queue
    if times.shape[1]:
        times[2, op] = ops[uintp(op)].tick
        times[3, op] = now
    if ops[uintp(op)].behind >= 0:
        release(ops, lanes, heads, ops[uintp(op)].behind, 0)
    return op
