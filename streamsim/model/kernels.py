"""The compute engine runs kernels side by side while there is room."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import simpy

from streamsim.lowering import Shape
from streamsim.model.engines import Engine, HardwareQueues
from streamsim.rules import FULL_CARD, NEVER, by_warps, given, suffices, ticks_for, warps

if TYPE_CHECKING:
    from streamsim.model.card import Card


class Running:
    """A kernel on the card: its share ``given`` since the tick ``since``, and the work ``left`` then.

    Work is counted in ticks times the share of the card that does it. It is done at ``end`` unless the share changes.
    """

    __slots__ = ("end", "given", "left", "op", "shape", "since")

    def __init__(self, op: int, shape: Shape, now: int) -> None:
        self.op, self.shape = op, shape
        self.given, self.since, self.end = 0, now, now
        self.left = shape.works * shape.width

    def give(self, share: int, now: int) -> None:
        """Give the kernel this share of the card from now on."""
        if share != self.given:
            self.left -= self.given * (now - self.since)
            self.since, self.given = now, share
            self.end = now + ticks_for(self.left, share)


class ComputeEngine(Engine):
    """Kernels side by side, up to a largest number of them: see :mod:`streamsim.rules.side_by_side`.

    A kernel whose work is done makes room for others. It ends when it has drained.
    """

    def __init__(self, card: Card, queues: HardwareQueues) -> None:
        super().__init__(card, queues)
        self._most = card.lowered.device.compute.concurrent_kernels
        self._running: list[Running] = []  # in the order in which they started
        self._draining: list[tuple[int, int]] = []  # a heap of (end, op): kernels whose work is done
        self._rings_at = -1  # the tick for which the last alarm was set
        self.changed = False

    def start(self, op: int, now: int) -> None:
        self._running.append(Running(op, self.card.lowered.shape_of(op), now))
        self._share(now)

    def _share(self, now: int) -> None:
        """Share the card among the kernels on it."""
        if any(kernel.shape.resident for kernel in self._running):
            room = self._share_by_warps(now)
        else:
            room = self._share_in_order(now)
        self.has_room = room > 0 and len(self._running) < self._most
        self.changed = True

    def _share_in_order(self, now: int) -> int:
        """Give each kernel, in order of start, what it can use. Return what is left of the card."""
        room, held = FULL_CARD, 0  # what is left of the card, and the threads on it
        for kernel in self._running:
            shape = kernel.shape
            held += shape.threads
            share = given(shape.width, shape.threads, shape.idle, room, held)
            kernel.give(share, now)
            room -= share
        return room

    def _share_by_warps(self, now: int) -> int:
        """Share the card by warps; what a kernel cannot use goes to the others. Return the threads that have room."""
        held, sharing = 0, []
        for kernel in self._running:
            own = warps(kernel.shape.resident or kernel.shape.threads, held)
            sharing.append((kernel, own))
            held += own
        room, free = FULL_CARD, max(0, FULL_CARD - held)
        settles = True
        while settles:
            settles, rest = False, []
            for kernel, own in sharing:
                width = kernel.shape.width
                if suffices(width, own, room, held):
                    kernel.give(width, now)
                    room, held, settles = room - width, held - own, True
                else:
                    rest.append((kernel, own))
            sharing = rest
        for kernel, own in sharing:
            kernel.give(by_warps(own, room, held), now)
        return free

    def go_on(self, now: int) -> None:
        """Set the alarm for the next tick at which work is done or a kernel has drained."""
        self.changed = False
        tick = self._draining[0][0] if self._draining else NEVER
        for kernel in self._running:
            if kernel.end < tick:
                tick = kernel.end
        if tick != self._rings_at and tick < NEVER:
            self._rings_at = tick
            self.env.timeout(tick - now).callbacks.append(self._ring)

    def _ring(self, _: simpy.Event) -> None:
        now: int = self.env.now  # type: ignore[assignment]  # SimPy's clock, which counts whole ticks here
        if now != self._rings_at:
            return  # the card has been shared anew since then
        done = [kernel for kernel in self._running if kernel.end <= now]
        if done:
            self._running = [kernel for kernel in self._running if kernel.end > now]
            self._share(now)
            self.stirred = True
        for kernel in done:
            heappush(self._draining, (now + kernel.shape.drain, kernel.op))
        self.changed = True
        while self._draining and self._draining[0][0] <= now:
            self.card.ended(heappop(self._draining)[1], now)
        self.card.settle()
