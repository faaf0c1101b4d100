"""What every engine is: something that takes ops from the heads of its hardware queues, runs them, and says so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from streamsim.rules.queues import NO_HEAD

if TYPE_CHECKING:
    import simpy

    from streamsim.model.card import Card
    from streamsim.model.queues import HardwareQueues


class Engine(ABC):
    """An engine of ``card`` behind its hardware queues."""

    def __init__(self, card: Card, queues: HardwareQueues) -> None:
        self.card, self.env, self.queues = card, card.env, queues
        self.has_room = True  # whether it could start an op
        self.stirred = False  # whether it may choose one at this tick: it has got room, or a head has become ready
        self._looks_at = -1  # the tick for which it has an alarm set, to look at its queues again

    @abstractmethod
    def start(self, op: int, now: int) -> None:
        """Run ``op`` from the tick ``now`` on."""

    def arrive(self, op: int, ready: int) -> None:
        """All that ``op`` waits for has come, or will by the tick ``ready``."""
        if self.queues.arrive(op, ready) and self.has_room:
            now: int = self.env.now  # type: ignore[assignment]  # SimPy's clock, which counts whole ticks here
            if ready > now:
                self._look_at(ready, now)
            else:
                self.stirred = True

    def choose(self, now: int) -> None:
        """Start what can start now; with room left, look again when the next head becomes ready."""
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
        if not now < self._looks_at <= tick:  # else it looks then, or before
            self._looks_at = tick
            self.env.timeout(tick - now).callbacks.append(self._look)

    def _look(self, _: simpy.Event) -> None:
        if self.has_room:
            self.stirred = True
            self.card.settle()
