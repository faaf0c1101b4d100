"""The hardware queues in front of an engine, and the choice among their heads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from streamsim.rules.queues import NO_HEAD, Head, choose, new_arbiter

if TYPE_CHECKING:
    from streamsim.device.profile import Compute, CopyEngines
    from streamsim.lowering.lowered import Lowered


class HardwareQueue(Head):
    """One queue, in order; it is the :class:`Head` that it shows while it is among ``HardwareQueues.heads``."""

    __slots__ = ("line",)

    def __init__(self, queue: int, *ops: int) -> None:
        super().__init__(queue, op=-1, ready=-1)
        self.line = deque(ops)  # its ops in issue order, those taken removed


class HardwareQueues:
    """The queues of one engine. Each is in order: an op may start when those ahead of it have been taken.

    So a head that is not ready blocks what is behind it, ready or not. Among the heads that are ready the arbitration
    rule chooses (:mod:`streamsim.rules.queues`). An op that runs on has no other ahead of it or behind it.
    """

    def __init__(self, lowered: Lowered, engine: int, profile: Compute | CopyEngines) -> None:
        self._queue_of, self._runs_on = lowered.queue, lowered.runs_on
        self._arbiter = new_arbiter(profile)
        mine = [its == engine for its in lowered.engine_of]  # by kind
        self._queues = [HardwareQueue(queue) for queue in range(max(lowered.queue, default=0) + 1)]
        for op, (kind, queue) in enumerate(zip(lowered.kind, lowered.queue, strict=True)):
            if mine[kind] and op not in lowered.runs_on:
                self._queues[queue].line.append(op)
        self._ready: dict[int, int] = {}  # op -> when it may start, of those that stand behind a head
        self.heads: list[HardwareQueue] = []  # those of whose head it is known when it may start

    @property
    def next_ready(self) -> int:
        """When the next head may start; right after :meth:`take` found none that may."""
        return self._arbiter.next

    def arrive(self, op: int, ready: int) -> bool:
        """All that ``op`` waits for has come, or will by the tick ``ready``: whether it is a head."""
        number = self._queue_of[op]
        queue = HardwareQueue(number, op) if op in self._runs_on else self._queues[number]
        if queue.line[0] != op:
            self._ready[op] = ready
            return False
        queue.op, queue.ready = op, ready
        self.heads.append(queue)
        return True

    def take(self, now: int) -> int:
        """The op that starts now, taken out of its queue, or NO_HEAD when no head is ready."""
        place = choose(self._arbiter, self.heads, 0, len(self.heads), now)
        if place == NO_HEAD:
            return NO_HEAD
        queue = self.heads[place]
        op, line = queue.op, queue.line
        line.popleft()  # the op behind it is the head now
        if line and line[0] in self._ready:
            queue.op = line[0]
            queue.ready = self._ready.pop(queue.op)
        else:
            del self.heads[place]
        return op
