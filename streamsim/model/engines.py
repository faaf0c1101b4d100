"""The engines of a card: copies share the link between both directions, and kernels share the card."""

from __future__ import annotations

from heapq import heappop, heappush

import simpy

from streamsim.lowering import OpCost
from streamsim.model.card import CardModel, Engine, HardwareQueues, Shared
from streamsim.rules import FULL_CARD, NEVER, fitting, next_end, share_by_warps, share_in_order, suffices, ticks_for


class CopyEngine(Engine):
    """An engine that runs one op at a time, for the op's own time.

    It is the copy engine of a card with one copy engine, or of a card whose directions do not slow each other. On a
    card without a copy engine it is the only engine: kernels take turns with copies.
    """

    def __init__(self, card: CardModel, queues: HardwareQueues) -> None:
        super().__init__(card, queues)
        self.op = -1  # what it runs, if it has no room

    def start(self, op: int, now: int) -> None:
        self.op, self.has_room = op, False
        cost = self.card.lowered.cost_of(op)
        duration = cost.duration
        if self.card.crowd.matters:
            latency = cost.rate.latency
            duration += latency[self.card.crowd.level(now)] - latency[0]
        self.env.timeout(duration).callbacks.append(self._done)

    def _done(self, _: simpy.Event) -> None:
        now = self.card.now
        self.finish(now)
        self.card.settle()

    def finish(self, now: int) -> None:
        """End the op, so that the engine is free."""
        self.has_room = self.stirred = True
        self.card.ended(self.op, now)


class Transfer:
    """One direction: ``left`` units flow from the tick ``begins`` on (NEVER if there is no copy)."""

    __slots__ = ("alone", "begins", "engine", "left", "shared")

    def __init__(self) -> None:
        self.engine: LinkedCopyEngine  # the engine of these copies
        self.begins, self.left = NEVER, 0
        self.alone = self.shared = 1  # units a tick, with the link to itself and beside the other direction

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """The flow as :func:`streamsim.rules.next_end` takes it."""
        return self.begins, self.left, self.alone, self.shared


class SharedLink(Shared):
    """The link: the flows of both directions, counted up to the tick at which a flow ended last.

    The end of a flow changes whenever the other one begins or ends. SimPy cannot take a timeout back, so a timeout for
    a tick that is no longer right is ignored.
    """

    def __init__(self, card: CardModel) -> None:
        self.card = card
        self.flows = Transfer(), Transfer()  # by direction
        self._since = 0
        self._ends = NEVER  # the tick at which the next flow ends
        self._then_there = self._then_back = 0  # what both will have left then

    def begin(self, direction: int, copy: OpCost, level: int, now: int) -> None:
        """Start a copy in ``direction``. Its bytes flow after the latency of this ``level`` of crowding."""
        flow, other = self.flows[direction], self.flows[1 - direction]
        latency = copy.rate.latency if other.begins == NEVER else copy.rate.duplex_latency
        flow.begins, flow.left = now + latency[level], copy.units
        flow.alone, flow.shared = copy.rate.alone, copy.rate.shared
        self.changed = True

    def go_on(self, now: int) -> None:
        self.changed = False
        there, back = self.flows
        self._ends, self._then_there, self._then_back = next_end(self._since, *there.numbers, *back.numbers)
        if self._ends < NEVER:
            self.card.env.timeout(self._ends - now).callbacks.append(self._end)

    def _end(self, _: simpy.Event) -> None:
        now = self.card.now
        if now != self._ends:
            return
        self._since, self._ends, self.changed = now, NEVER, True
        there, back = self.flows
        there.left, back.left = self._then_there, self._then_back
        for flow in self.flows:
            if flow.left <= 0 and flow.begins < NEVER:
                flow.begins = NEVER
                flow.engine.finish(now)
        self.card.settle()


class LinkedCopyEngine(CopyEngine):
    """The copy engine of one direction. A copy's time depends on the other direction, too."""

    def __init__(self, card: CardModel, queues: HardwareQueues, link: SharedLink, direction: int) -> None:
        super().__init__(card, queues)
        self._link, self._direction = link, direction
        link.flows[direction].engine = self

    def start(self, op: int, now: int) -> None:
        self.op, self.has_room = op, False
        self._link.begin(self._direction, self.card.lowered.cost_of(op), self.card.crowd.level(now), now)


class Running:
    """A kernel on the card: its share ``share`` since the tick ``since``, and the work ``left`` then.

    Work is counted in ticks times the share of the card that does it. It is done at ``end`` unless the share changes.
    """

    __slots__ = ("cost", "end", "left", "op", "share", "since")

    def __init__(self, op: int, cost: OpCost, now: int) -> None:
        self.op, self.cost = op, cost
        self.share, self.since, self.end = 0, now, now
        self.left = cost.busy * cost.fill

    def give(self, share: int, now: int) -> None:
        """Give the kernel this share of the card from now on."""
        if share != self.share:
            self.left -= self.share * (now - self.since)
            self.since, self.share = now, share
            self.end = now + ticks_for(self.left, share)


class ComputeEngine(Engine, Shared):
    """Kernels side by side, up to a largest number of them: see :mod:`streamsim.rules.card`.

    A kernel whose work is done makes room for others. It ends when it has drained.
    """

    def __init__(self, card: CardModel, queues: HardwareQueues) -> None:
        super().__init__(card, queues)
        self._most = card.lowered.device.compute.concurrent_kernels
        self._running: list[Running] = []  # in the order in which they started
        self._draining: list[tuple[int, int]] = []  # a heap of (end, op): kernels whose work is done
        self._rings_at = -1  # the tick for which the last alarm was set

    def start(self, op: int, now: int) -> None:
        self._running.append(Running(op, self.card.lowered.cost_of(op), now))
        self._share(now)

    def _share(self, now: int) -> None:
        """Share the card among the kernels on it."""
        if any(kernel.cost.warps for kernel in self._running):
            room = self._share_by_warps(now)
        else:
            room = self._share_in_order(now)
        self.has_room = room > 0 and len(self._running) < self._most
        self.changed = True

    def _share_in_order(self, now: int) -> int:
        """Give each kernel, in order of start, what it can use. Return what is left of the card."""
        room, held = FULL_CARD, 0  # what is left of the card, and the threads on it
        for kernel in self._running:
            cost = kernel.cost
            held += cost.threads
            share = share_in_order(cost.fill, cost.threads, cost.idle, room, held)
            kernel.give(share, now)
            room -= share
        return room

    def _share_by_warps(self, now: int) -> int:
        """Share the card by warps; what a kernel cannot use goes to the others. Return the threads that have room."""
        held, sharing = 0, []
        for kernel in self._running:
            own = fitting(kernel.cost.warps or kernel.cost.threads, held)
            sharing.append((kernel, own))
            held += own
        room, free = FULL_CARD, max(0, FULL_CARD - held)
        settles = True
        while settles:
            settles, rest = False, []
            for kernel, own in sharing:
                fill = kernel.cost.fill
                if suffices(fill, own, room, held):
                    kernel.give(fill, now)
                    room, held, settles = room - fill, held - own, True
                else:
                    rest.append((kernel, own))
            sharing = rest
        for kernel, own in sharing:
            kernel.give(share_by_warps(own, room, held), now)
        return free

    def go_on(self, now: int) -> None:
        self.changed = False
        tick = self._draining[0][0] if self._draining else NEVER
        for kernel in self._running:
            if kernel.end < tick:
                tick = kernel.end
        if tick != self._rings_at and tick < NEVER:
            self._rings_at = tick
            self.env.timeout(tick - now).callbacks.append(self._ring)

    def _ring(self, _: simpy.Event) -> None:
        now = self.card.now
        if now != self._rings_at:
            return  # the card has been shared anew since then
        done = [kernel for kernel in self._running if kernel.end <= now]
        if done:
            self._running = [kernel for kernel in self._running if kernel.end > now]
            self._share(now)
            self.stirred = True
        for kernel in done:
            heappush(self._draining, (now + kernel.cost.drain, kernel.op))
        self.changed = True
        while self._draining and self._draining[0][0] <= now:
            self.card.ended(heappop(self._draining)[1], now)
        self.card.settle()


def add_engines(card: CardModel) -> None:
    """Build the engines and the link of a card."""
    lowered, copies, compute = card.lowered, card.lowered.device.copy_engines, card.lowered.device.compute
    queues = [
        HardwareQueues(lowered, engine, compute if name == "compute" else copies)
        for engine, name in enumerate(lowered.engine_names)
    ]
    if copies.count == 2 and any(cost.rate.feels_the_other_direction for cost in lowered.costs):
        link = SharedLink(card)
        card.shared.append(link)
        card.engines += [LinkedCopyEngine(card, own, link, direction) for direction, own in enumerate(queues[:2])]
    else:
        card.engines += [CopyEngine(card, own) for own in queues[: max(1, copies.count)]]
    if copies.count:
        kernels = ComputeEngine(card, queues[-1])
        card.shared.append(kernels)
        card.engines.append(kernels)
