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


class IssueOrder:
    """Of the ready heads, the one issued first."""

    def __init__(self) -> None:
        self._arriving: list[tuple[int, int]] = []  # a heap of (ready, op)
        self._ready: list[int] = []  # a heap

    def arrive(self, op: int, ready: int) -> None:
        heappush(self._arriving, (ready, op))

    def take(self, now: int) -> int:
        arriving, ready = self._arriving, self._ready
        while arriving and arriving[0][0] <= now:
            heappush(ready, heappop(arriving)[1])
        return heappop(ready) if ready else NONE

    def next_ready(self) -> int:
        return self._arriving[0][0] if self._arriving else FOREVER


class ReadyOrder:
    """Of the ready heads, the one that became ready first; the one issued first among equals."""

    def __init__(self) -> None:
        self._arriving: list[tuple[int, int]] = []  # a heap of (ready, op)

    def arrive(self, op: int, ready: int) -> None:
        heappush(self._arriving, (ready, op))

    def take(self, now: int) -> int:
        arriving = self._arriving
        return heappop(arriving)[1] if arriving and arriving[0][0] <= now else NONE

    def next_ready(self) -> int:
        return self._arriving[0][0] if self._arriving else FOREVER


class SameQueueFirst:
    """Gated polling: stay with a queue for what had reached it when its turn began, then turn to the next.

    Turns go round the queues by number. A queue that runs dry, whose head is blocked, or whose other ops
    arrived only during its turn, gives the turn up.
    """

    def __init__(self, queue: Sequence[int], returned: Sequence[int], submit: int) -> None:
        self._queue = queue
        self._returned = returned
        self._submit = submit
        self._arriving: list[tuple[int, int]] = []  # a heap of (ready, op)
        self._ready: dict[int, int] = {}  # queue -> its head
        self._turn = -1  # the queue being served ...
        self._gate = -1  # ... with the ops that the host had issued by this tick

    def arrive(self, op: int, ready: int) -> None:
        heappush(self._arriving, (ready, op))

    def take(self, now: int) -> int:
        arriving, ready = self._arriving, self._ready
        while arriving and arriving[0][0] <= now:
            op = heappop(arriving)[1]
            ready[self._queue[op]] = op
        if not ready:
            return NONE
        op = ready.get(self._turn, NONE)
        if op == NONE or self._returned[op] > self._gate:
            self._turn = self._next_turn()
            self._gate = now - self._submit
        return ready.pop(self._turn)

    def _next_turn(self) -> int:
        """The next queue after the present one that has a ready head, round and round."""
        following = [queue for queue in self._ready if queue > self._turn]
        return min(following or self._ready)

    def next_ready(self) -> int:
        return self._arriving[0][0] if self._arriving else FOREVER


Queues = OneQueue | IssueOrder | ReadyOrder | SameQueueFirst
