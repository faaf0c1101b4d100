"""An engine and its hardware queues: it takes ops from the heads of the queues and runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from typing import TYPE_CHECKING

import simpy

from streamsim.device import Compute, CopyEngines
from streamsim.lowering import Lowered
from streamsim.rules import NO_HEAD, Head, choose, new_arbiter

if TYPE_CHECKING:
    from streamsim.model.card import Card


class HardwareQueue(Head):
    """One queue, in order. It is a :class:`Head` itself while it is among ``HardwareQueues.heads``."""

    __slots__ = ("line", "taken")

    def __init__(self, queue: int, *ops: int) -> None:
        super().__init__(queue, op=-1, ready=-1)
        self.line = array("i", ops)  # its ops in issue order
        self.taken = 0  # the number of its ops that the engine took

    @property
    def first(self) -> int:
        """The first op that the engine has not taken, or NO_HEAD."""
        return self.line[self.taken] if self.taken < len(self.line) else NO_HEAD


class HardwareQueues:
    """The queues of one engine. Each is in order: an op may start when the engine has taken all ops ahead of it.

    So a head that is not ready blocks the ops behind it, even ready ones. The arbitration rule chooses among the heads
    that are ready (:mod:`streamsim.rules.queues`). An op that continues a run has no op ahead of it or behind it.
    """

    def __init__(self, lowered: Lowered, engine: int, profile: Compute | CopyEngines) -> None:
        self._queue_of, self._runs_on = lowered.queue, lowered.runs_on
        self._arbiter = new_arbiter(profile)
        mine = [its == engine for its in lowered.engine_of]  # by kind
        self._queues = [HardwareQueue(queue) for queue in range(max(lowered.queue, default=0) + 1)]
        for op, (kind, queue) in enumerate(zip(lowered.kind, lowered.queue, strict=True)):
            if mine[kind] and op not in lowered.runs_on:
                self._queues[queue].line.append(op)
        self._ready: dict[int, int] = {}  # op -> its tick to start, for ops behind a head
        self.heads: list[HardwareQueue] = []  # queues whose head has a known tick to start

    @property
    def next_ready(self) -> int:
        """Return the tick at which the next head may start. Valid directly after :meth:`take` found no head."""
        return self._arbiter.next

    def arrive(self, op: int, ready: int) -> bool:
        """Note that ``op`` may start from the tick ``ready`` on. Return True if it is a head."""
        number = self._queue_of[op]
        queue = HardwareQueue(number, op) if op in self._runs_on else self._queues[number]
        if queue.first != op:
            self._ready[op] = ready
            return False
        queue.op, queue.ready = op, ready
        self.heads.append(queue)
        return True

    def take(self, now: int) -> int:
        """Take the op that starts now out of its queue and return it, or NO_HEAD if no head is ready."""
        place = choose(self._arbiter, self.heads, 0, len(self.heads), now)
        if place == NO_HEAD:
            return NO_HEAD
        queue = self.heads[place]
        op = queue.op
        queue.taken += 1  # the op behind it is the head now
        if queue.first in self._ready:
            queue.op = queue.first
            queue.ready = self._ready.pop(queue.op)
        else:
            del self.heads[place]
        return op


class Engine(ABC):
    """An engine of a card, behind its hardware queues."""

    def __init__(self, card: Card, queues: HardwareQueues) -> None:
        self.card, self.env, self.queues = card, card.env, queues
        self.has_room = True  # True if it could start an op
        self.stirred = False  # whether it may choose one at this tick: it has got room, or a head has become ready
        self._looks_at = -1  # the tick of its alarm, at which it looks at its queues again

    @abstractmethod
    def start(self, op: int, now: int) -> None:
        """Run ``op`` from the tick ``now`` on."""

    def arrive(self, op: int, ready: int) -> None:
        """Note that ``op`` may start from the tick ``ready`` on."""
        if self.queues.arrive(op, ready) and self.has_room:
            now: int = self.env.now  # type: ignore[assignment]  # SimPy's clock, which counts whole ticks here
            if ready > now:
                self._look_at(ready, now)
            else:
                self.stirred = True

    def choose(self, now: int) -> None:
        """Start the ops that can start now. With room left, look again when the next head becomes ready."""
        self.stirred = False
        queues = self.queues
        while self.has_room and queues.heads:
            op = queues.take(now)
            if op == NO_HEAD:
                self._look_at(queues.next_ready, now)
                break
            self.card.times.start[op] = now
            self.start(op, now)

    def _look_at(self, tick: int, now: int) -> None:
        if not now < self._looks_at <= tick:  # else it looks at that tick or before
            self._looks_at = tick
            self.env.timeout(tick - now).callbacks.append(self._look)

    def _look(self, _: simpy.Event) -> None:
        if self.has_room:
            self.stirred = True
            self.card.settle()
