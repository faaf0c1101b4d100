"""The hardware queues in front of an engine, and the choice among their heads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from streamsim.lowering.costs import NOTHING
from streamsim.rules.arbitration import NO_TURN, RULES, rank

if TYPE_CHECKING:
    from streamsim.lowering.lowered import Lowered

NEVER = 1 << 62


class HardwareQueues:
    """The queues of one engine. Each is in order: an op may start when those ahead of it have been taken.

    So a head that is not ready blocks what is behind it, ready or not. Among the heads that are ready the arbitration
    rule chooses (:mod:`streamsim.rules.arbitration`).
    """

    def __init__(self, lowered: Lowered, engine: int, arbitration: str) -> None:
        self._queue_of = lowered.queue
        self._rule = RULES[arbitration]
        self._turn = NO_TURN  # the queue that was served last
        self._lines: dict[int, deque[int]] = {}  # queue -> its ops in issue order, those taken removed
        for op, kind in enumerate(lowered.kind):
            if kind != NOTHING and lowered.engine_of[kind] == engine:
                self._lines.setdefault(lowered.queue[op], deque()).append(op)
        self._ready: dict[int, int] = {}  # op -> when it may start, of those that stand behind a head
        self._heads: dict[int, tuple[int, int]] = {}  # queue -> when its head may start, and which op that is
        self.next_ready = NEVER  # no head may start before this tick

    def arrive(self, op: int, ready: int) -> None:
        """All that ``op`` waits for has come, or will by the tick ``ready``."""
        queue = self._queue_of[op]
        if self._lines[queue][0] == op:
            self._heads[queue] = ready, op
            self.next_ready = min(self.next_ready, ready)
        else:
            self._ready[op] = ready

    def take(self, now: int) -> int | None:
        """The op that starts now, taken out of its queue, or None when no head is ready."""
        best = chosen = -1
        self.next_ready = NEVER
        for queue, (ready, op) in self._heads.items():
            if ready > now:
                self.next_ready = min(self.next_ready, ready)
                continue
            ranked = rank(self._rule, queue, ready, op, self._turn)
            if chosen < 0 or ranked < best or (ranked == best and op < self._heads[chosen][1]):
                best, chosen = ranked, queue
        if chosen < 0:
            return None
        self.next_ready = now  # another head may be ready, too
        self._turn = chosen
        return self._dispatched(chosen)

    def _dispatched(self, queue: int) -> int:
        """Take the head of ``queue``: the op behind it is the head now."""
        line = self._lines[queue]
        op = line.popleft()
        del self._heads[queue]
        if line and line[0] in self._ready:
            self._heads[queue] = self._ready.pop(line[0]), line[0]
        return op
