"""Copy engines: one copy at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.model.engine import Engine

if TYPE_CHECKING:
    import simpy

    from streamsim.model.card import Card
    from streamsim.model.link import Link
    from streamsim.model.queues import HardwareQueues


class CopyEngine(Engine):
    """An engine that runs one op at a time, for as long as that takes by itself.

    The copy engine of a card that has only one, or whose directions do not slow each other; and all there is of a card
    without one, on which kernels take turns with copies.
    """

    def __init__(self, card: Card, queues: HardwareQueues) -> None:
        super().__init__(card, queues)
        self.op = -1  # what it runs, if it has no room

    def start(self, op: int, now: int) -> None:
        self.op, self.has_room = op, False
        shape = self.card.shapes[op]
        duration = shape.duration
        if self.card.crowd.matters:
            latency = shape.rate.latency
            duration += latency[self.card.crowd.level(now)] - latency[0]
        self.env.timeout(duration).callbacks.append(self._done)

    def _done(self, _: simpy.Event) -> None:
        now: int = self.env.now  # type: ignore[assignment]  # SimPy's clock, which counts whole ticks here
        self.finish(now)
        self.card.settle()

    def finish(self, now: int) -> None:
        """Its op has ended: the engine is free."""
        self.has_room = self.stirred = True
        self.card.ended(self.op, now)


class LinkedCopyEngine(CopyEngine):
    """The copy engine of one direction of a link; how long a copy takes depends on the other direction as well."""

    def __init__(self, card: Card, queues: HardwareQueues, link: Link, direction: int) -> None:
        super().__init__(card, queues)
        self._link, self._direction = link, direction
        link.flows[direction].engine = self

    def start(self, op: int, now: int) -> None:
        self.op, self.has_room = op, False
        self._link.begin(self._direction, self.card.shapes[op], self.card.crowd.level(now), now)
