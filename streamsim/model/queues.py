"""Hardware queues in front of an engine, and the rule by which the engine picks among their heads.

Every queue is in order: an op is a candidate only when the ops before it in its queue have been
dispatched, so a blocked head blocks what is behind it. Candidates are put in ``arriving``, a heap of
(ready tick, op); those that were ready when another one was taken are ``waiting``. Each class answers
``take(now)``: the op to start, or NONE. (A single queue on an engine that runs one op at a time needs none of
this: see ``engines.InOrderEngine``.)
"""

from collections.abc import Sequence
from heapq import heappop, heappush

FOREVER = 1 << 62
NONE = -1


class IssueOrder:
    """Of the ready heads, the one issued first."""

    def __init__(self) -> None:
        self.arriving: list[tuple[int, int]] = []
        self.waiting: list[int] = []  # a heap

    def take(self, now: int) -> int:
        arriving, waiting = self.arriving, self.waiting
        while arriving and arriving[0][0] <= now:
            heappush(waiting, heappop(arriving)[1])
        return heappop(waiting) if waiting else NONE


class ReadyOrder:
    """Of the ready heads, the one that became ready first; the one issued first among equals."""

    def __init__(self) -> None:
        self.arriving: list[tuple[int, int]] = []
        self.waiting = ()  # they stay in ``arriving``

    def take(self, now: int) -> int:
        arriving = self.arriving
        return heappop(arriving)[1] if arriving and arriving[0][0] <= now else NONE


class SameQueueFirst:
    """Exhaustive polling: stay with a queue while its head is ready, then turn to the next, round and round.

    A queue that has run dry or whose head is blocked when the engine chooses loses its turn, if another one
    has a ready head.
    """

    def __init__(self, queue: Sequence[int]) -> None:
        self.arriving: list[tuple[int, int]] = []
        self.waiting: dict[int, int] = {}  # queue -> its head
        self._queue = queue
        self._turn = -1  # the queue being served

    def take(self, now: int) -> int:
        arriving, waiting = self.arriving, self.waiting
        while arriving and arriving[0][0] <= now:
            op = heappop(arriving)[1]
            waiting[self._queue[op]] = op
        if len(waiting) == 1:  # no choice, as mostly
            self._turn, op = waiting.popitem()
            return op
        if not waiting:
            return NONE
        if self._turn not in waiting:
            self._turn = min([queue for queue in waiting if queue > self._turn] or waiting)
        return waiting.pop(self._turn)


Queues = IssueOrder | ReadyOrder | SameQueueFirst
