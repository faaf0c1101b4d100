"""Hardware queues in front of an engine, and the rule by which the engine picks among their heads.

Every queue is in order: an op is a candidate only when the ops before it in its queue have been
dispatched, so a blocked head blocks what is behind it. Each class takes note of candidates as they
``arrive(op, ready)`` and answers ``take(now)``: the op to start, or NONE; and ``next_ready()``: when to look
again, or FOREVER.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

FOREVER = 1 << 62
NONE = -1


class OneQueue:
    """A single queue: issue order, whatever becomes ready first. The head may be taken ahead of its time."""

    def __init__(self, ops: list[int], pending: Sequence[int]) -> None:
        self._ops = iter(ops)
        self._head = next(self._ops, NONE)
        self._pending = pending

    def arrive(self, op: int, ready: int) -> None:
        """Nothing to note: only the head counts, and ``take`` looks at it."""

    def take(self, now: int) -> int:  # noqa: ARG002 (the head may be taken ahead of its time)
        head = self._head
        if head == NONE or self._pending[head]:
            return NONE
        self._head = next(self._ops, NONE)
        return head

    def next_ready(self) -> int:
        return FOREVER


class _Heads:
    """The heads of several queues, each from the tick at which it is ready."""

    def __init__(self) -> None:
        self._arriving: list[tuple[int, int]] = []  # a heap of (ready, op)

    def arrive(self, op: int, ready: int) -> None:
        heappush(self._arriving, (ready, op))

    def next_ready(self) -> int:
        return self._arriving[0][0] if self._arriving else FOREVER


class IssueOrder(_Heads):
    """Of the ready heads, the one issued first."""

    def __init__(self) -> None:
        super().__init__()
        self._ready: list[int] = []  # a heap

    def take(self, now: int) -> int:
        arriving, ready = self._arriving, self._ready
        while arriving and arriving[0][0] <= now:
            heappush(ready, heappop(arriving)[1])
        return heappop(ready) if ready else NONE


class ReadyOrder(_Heads):
    """Of the ready heads, the one that became ready first; the one issued first among equals."""

    def take(self, now: int) -> int:
        arriving = self._arriving
        return heappop(arriving)[1] if arriving and arriving[0][0] <= now else NONE


class SameQueueFirst(_Heads):
    """Exhaustive polling: stay with a queue while its head is ready, then turn to the next, round and round.

    A queue that has run dry or whose head is blocked when the engine chooses loses its turn, if another one
    has a ready head.
    """

    def __init__(self, queue: Sequence[int]) -> None:
        super().__init__()
        self._queue = queue
        self._ready: dict[int, int] = {}  # queue -> its head
        self._turn = -1  # the queue being served

    def take(self, now: int) -> int:
        arriving, ready = self._arriving, self._ready
        while arriving and arriving[0][0] <= now:
            op = heappop(arriving)[1]
            ready[self._queue[op]] = op
        if not ready:
            return NONE
        if self._turn not in ready:
            self._turn = min([queue for queue in ready if queue > self._turn] or ready)
        return ready.pop(self._turn)


Queues = OneQueue | IssueOrder | ReadyOrder | SameQueueFirst
