"""The hardware queues in front of an engine, and the choice among their heads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from streamsim.lowering.costs import NOTHING
from streamsim.rules.arbitration import NO_HEAD, Head, choose, new_arbiter

if TYPE_CHECKING:
    from streamsim.device.profile import Compute, CopyEngines
    from streamsim.lowering.lowered import Lowered


class HardwareQueues:
    """The queues of one engine. Each is in order: an op may start when those ahead of it have been taken.

    So a head that is not ready blocks what is behind it, ready or not. Among the heads that are ready the arbitration
    rule chooses (:mod:`streamsim.rules.arbitration`).
    """

    def __init__(self, lowered: Lowered, engine: int, profile: Compute | CopyEngines) -> None:
        self._queue_of = lowered.queue
        self._arbiter = new_arbiter(profile)
        self._lines: dict[int, deque[int]] = {}  # queue -> its ops in issue order, those taken removed
        for op, kind in enumerate(lowered.kind):
            if kind != NOTHING and lowered.engine_of[kind] == engine:
                self._lines.setdefault(lowered.queue[op], deque()).append(op)
        self._ready: dict[int, int] = {}  # op -> when it may start, of those that stand behind a head
        self._heads: list[Head] = []

    @property
    def next_ready(self) -> int:
        """No head may start before this tick."""
        return self._arbiter.next

    def arrive(self, op: int, ready: int) -> None:
        """All that ``op`` waits for has come, or will by the tick ``ready``."""
        queue = self._queue_of[op]
        if self._lines[queue][0] == op:
            self._heads.append(Head(queue, op, ready))
            self._arbiter.next = min(self._arbiter.next, ready)
        else:
            self._ready[op] = ready

    def take(self, now: int) -> int | None:
        """The op that starts now, taken out of its queue, or None when no head is ready."""
        place = choose(self._arbiter, self._heads, 0, len(self._heads), now)
        if place == NO_HEAD:
            return None
        queue, op, _ = self._heads.pop(place)
        line = self._lines[queue]
        line.popleft()  # the op behind it is the head now
        if line and line[0] in self._ready:
            self._heads.append(Head(queue, line[0], self._ready.pop(line[0])))
        return op
