"""Which of the ready heads of its queues an engine takes: the one of the least rank, of equals the one issued first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamsim.rules.link import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.device.profile import Compute, CopyEngines

ISSUE_ORDER, READY_ORDER, SAME_QUEUE_FIRST = 0, 1, 2
RULES = {"issue-order": ISSUE_ORDER, "ready-order": READY_ORDER, "same-queue-first": SAME_QUEUE_FIRST}
MOST_QUEUES = 64  # a power of two above any number of queues
NO_TURN = MOST_QUEUES - 1  # before an engine has served any queue
NO_HEAD = -1


@dataclass(slots=True)
class Arbiter:
    """What an engine goes by when it chooses, whole numbers all; the compiled model has them in a record."""

    rule: int
    turn: int = NO_TURN  # the queue that was served last
    next: int = NEVER  # before this tick no head may start


@dataclass(slots=True)
class Head:
    """The op that is next in a queue, which may start from the tick ``ready`` on.

    Or one that stands in none: ``queue`` is that through which its run came.
    """

    queue: int
    op: int
    ready: int


def new_arbiter(engine: Compute | CopyEngines) -> Arbiter:
    """What an engine goes by that has served no queue."""
    return Arbiter(RULES[engine.arbitration])


def choose(arbiter: Arbiter, heads: Sequence[Head], first: int, last: int, now: int) -> int:
    """The index of the head that starts now, among ``heads[first:last]`` in any order, and it is its queue's turn.

    NO_HEAD if none may, and then ``arbiter.next`` says when to look again.
    """
    found, least, earliest, soon = NO_HEAD, NEVER, NEVER, NEVER
    for k in range(first, last):
        head = heads[k]
        if head.ready <= now:
            its = rank(arbiter.rule, head.queue, head.ready, head.op, arbiter.turn)
            if its < least or (its == least and head.op < earliest):
                found, least, earliest = k, its, head.op
        else:
            soon = min(soon, head.ready)
    if found == NO_HEAD:
        arbiter.next = soon
    else:
        arbiter.turn = heads[found].queue
    return found


def rank(rule: int, queue: int, ready: int, op: int, turn: int) -> int:
    """The rank of the head ``op`` of ``queue``, which is ready since the tick ``ready``.

    In issue order that is its place in the program; in ready order, when it became ready. Same queue first is
    exhaustive polling: an engine stays with the queue ``turn`` that it served last while its head is ready, then turns
    to the next one, round and round.
    """
    if rule == ISSUE_ORDER:
        return op
    if rule == READY_ORDER:
        return ready
    return (queue - turn) & (MOST_QUEUES - 1)
