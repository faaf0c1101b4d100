"""The hardware queues in front of a lane, on records: what waits, comes, is chosen and leaves.

As in ``streamsim.model.queues`` and ``streamsim.model.card``. A lane has a bit for each queue with a head.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

from __future__ import annotations

from typing import Any

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from streamsim.compiled.numba_code import inlined, rank, uintp
from streamsim.compiled.tables import COMPUTE, LANES, NONE, QUEUES
from streamsim.rules.arbitration import NO_TURN
from streamsim.rules.link import NEVER

_first_of: Any = trailing_zeros  # the number of the lowest bit that is set


@inlined
def reset(card, lanes, heads):
    """Empty all queues."""
    for k in range(LANES):
        lane = lanes[uintp(k)]
        lane.mask = 0
        lane.turn = NO_TURN
        lane.rule = card.kernel_rule if k == COMPUTE else card.copy_rule
        lane.next = NEVER
    for k in range(LANES * QUEUES):
        heads[uintp(k)].tick = NEVER


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
        head = heads[uintp(np.int64(waiting.lane) * QUEUES + waiting.queue)]
        head.tick = waiting.tick
        head.op = op
        lane.mask |= 1 << waiting.queue
        if waiting.tick < lane.next:
            lane.next = waiting.tick


@inlined
def choose(lane, heads, first, now):
    """The queue whose head starts now by the lane's rule; or NONE, and ``lane.next`` says when to look again."""
    rest, rule, turn = lane.mask, lane.rule, lane.turn
    found, least, earliest, soon = NONE, NEVER, NEVER, NEVER
    while rest:
        queue = _first_of(rest)
        rest &= rest - 1
        head = heads[uintp(first + queue)]
        tick, op = head.tick, head.op
        if tick <= now:
            its = rank(rule, queue, tick, op, turn)
            if its < least or (its == least and op < earliest):
                found, least, earliest = queue, its, op
        soon = min(soon, tick)
    if found == NONE:
        lane.next = soon
    else:
        lane.turn = found
    return found


@inlined
def dispatched(ops, lanes, heads, lane, queue, now, times):
    """The head of a queue starts: the op behind it is the head now. Returns the op."""
    head = heads[uintp(lane * QUEUES + queue)]
    op = head.op
    head.tick = NEVER
    lanes[uintp(lane)].mask &= ~(1 << queue)
    if times.shape[1]:
        times[2, op] = ops[uintp(op)].tick
        times[3, op] = now
    if ops[uintp(op)].behind >= 0:
        release(ops, lanes, heads, ops[uintp(op)].behind, 0)
    return op
