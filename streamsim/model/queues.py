"""Hardware queues in front of an engine, and the rule by which the engine picks among their heads.

Every queue is in order: an op is a candidate only when the ops before it in its queue have been
dispatched, so a blocked head blocks what is behind it. Each class answers ``take(now)``: the op to start,
or -1; and ``next_ready()``: when to look again.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

FOREVER = 1 << 62


class OneQueue:
    """A single queue: issue order, whatever becomes ready first. The head may be taken ahead of its time."""

    def __init__(self, ops: list[int], pending: list[int]) -> None:
        self._ops = ops
        self._pending = pending
        self._next = 0

    def arrive(self, op: int, ready: int) -> None:
        """Nothing to note: only the head counts, and ``take`` looks at it."""

    def take(self, now: int) -> int:
        if self._next < len(self._ops):
            op = self._ops[self._next]
            if self._pending[op] == 0:
                self._next += 1
                return op
        return -1

    def next_ready(self) -> int:
        return FOREVER


class _Heads:
    """The heads of several queues: those that will be ready at a known time, then those that are ready."""

    def __init__(self) -> None:
        self._arriving: list[tuple[int, int]] = []

    def arrive(self, op: int, ready: int) -> None:
        heappush(self._arriving, (ready, op))

    def take(self, now: int) -> int:
        arriving = self._arriving
        while arriving and arriving[0][0] <= now:
            self._add(*heappop(arriving))
        return self._pick(now)

    def next_ready(self) -> int:
        return self._arriving[0][0] if self._arriving else FOREVER

    def _add(self, ready: int, op: int) -> None:
        raise NotImplementedError

    def _pick(self, now: int) -> int:
        raise NotImplementedError


class IssueOrder(_Heads):
    """Of the ready heads, the one issued first."""

    def __init__(self) -> None:
        super().__init__()
        self._ready: list[int] = []

    def _add(self, ready: int, op: int) -> None:
        heappush(self._ready, op)

    def _pick(self, now: int) -> int:
        return heappop(self._ready) if self._ready else -1


class ReadyOrder(_Heads):
    """Of the ready heads, the one that became ready first; the one issued first among equals."""

    def __init__(self) -> None:
        super().__init__()
        self._ready: list[tuple[int, int]] = []

    def _add(self, ready: int, op: int) -> None:
        heappush(self._ready, (ready, op))

    def _pick(self, now: int) -> int:
        return heappop(self._ready)[1] if self._ready else -1


class SameQueueFirst(_Heads):
    """Gated polling: stay with a queue for what had reached it when its turn began, then turn to the next.

    Turns go round the queues by number. A queue that runs dry, whose head is blocked, or whose other ops
    arrived only during its turn, gives the turn up.
    """

    def __init__(self, queue: Sequence[int], returned: Sequence[int], submit: int, queues: int) -> None:
        super().__init__()
        self._queue = queue
        self._returned = returned
        self._submit = submit
        self._queues = queues
        self._ready: dict[int, int] = {}
        self._current = queues - 1
        self._turn_began = -1

    def _add(self, ready: int, op: int) -> None:
        self._ready[self._queue[op]] = op

    def _pick(self, now: int) -> int:
        ready, current = self._ready, self._current
        if not ready:
            return -1
        op = ready.get(current, -1)
        if op < 0 or self._returned[op] + self._submit > self._turn_began:
            queues = self._queues
            current = min(ready, key=lambda queue: (queue - current - 1) % queues)
            self._current, self._turn_began = current, now
        return ready.pop(current)


Queues = OneQueue | IssueOrder | ReadyOrder | SameQueueFirst
