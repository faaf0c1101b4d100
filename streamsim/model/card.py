"""The card: ops come from the host, wait for each other, stand in hardware queues, and run on its engines.

Copies share the link between both directions, and kernels share the card.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import deque
from heapq import heappop, heappush
from typing import NamedTuple

import simpy

from streamsim import rules
from streamsim.device import Compute, CopyEngines
from streamsim.lowering import COPIES, Lowered, OpCost
from streamsim.rules import FULL_CARD, KERNEL, NEVER, NO_HEAD, NOTHING

NOT_YET = -1


class OpTimes(NamedTuple):
    """Ticks by op: its call begins and returns, the op is ready, starts on its engine, and ends."""

    issued: array[int]
    returned: array[int]
    ready: array[int]
    start: array[int]
    end: array[int]

    @classmethod
    def of(cls, ops: int) -> OpTimes:
        """Return the times of ``ops`` ops to which nothing has happened yet."""
        issued, returned, start, end = (array("q", [NOT_YET]) * ops for _ in range(4))
        return cls(issued, returned, array("q", [0]) * ops, start, end)


class CardModel:
    """A card with its engines and its link, and the number of things that every op still waits for.

    Time on the card goes tick by tick. First, all events of a tick happen, in SimPy's order. That order does not
    matter, because every effect is a maximum, a count or a mark. Then the engines choose what to start, one after
    another. So every callback of SimPy ends with :meth:`settle`.
    """

    def __init__(self, env: simpy.Environment, lowered: Lowered, times: OpTimes) -> None:
        self.env, self.lowered, self.times = env, lowered, times
        self.crowd = Crowd(lowered, times)
        self.engines: list[Engine] = []  # in the order of ``lowered.engine_names``
        self.shared: list[Shared] = []
        self._awaited: dict[int, simpy.Event] = {}  # by op: its end, if a thread of the host waits for it
        self._waits_for = array("i", lowered.pending)  # the number of things each op still waits for
        self._kind, self._after, self._extra = lowered.kind, lowered.after, lowered.extra.by_before()
        self._settling = False

    @property
    def now(self) -> int:
        """The tick on SimPy's clock, which counts whole ticks here."""
        return self.env.now  # type: ignore[return-value]

    def submit(self, first: int, last: int) -> None:
        """Receive the ops ``first <= op < last``, whose calls return at known ticks. Each arrives a little later."""
        later, crowd, kinds, returned = self.lowered.submit, self.crowd, self._kind, self.times.returned
        for op in range(first, last):
            kind = kinds[op]
            if kind != NOTHING:
                on_card = returned[op] + later
                if kind == KERNEL and crowd.matters:
                    crowd.add(op)
                self._release(op, on_card)

    def ended(self, op: int, now: int) -> None:
        """Note that an engine has ended ``op``. The ops that wait for it hear of that, and may start."""
        self.times.end[op] = now
        if self.crowd.matters and self._kind[op] != KERNEL:
            self.crowd.copy_ended(op)
        after = self._after[op]
        if after >= 0:
            hand_over = rules.crossing(self.lowered.hand_over, self._kind[op], self._kind[after], 0)
            self._release(after, rules.release_tick(now, hand_over, self._arrival(after)))
        if op in self._extra:
            for other in self._extra[op]:
                self._release(other, rules.release_tick(now, self.lowered.crossing(op, other), self._arrival(other)))
        if op in self._awaited:
            self._awaited.pop(op).succeed()

    def end_of(self, op: int) -> simpy.Event:
        """Return an event that happens when ``op`` ends. It has not ended yet."""
        if op not in self._awaited:
            self._awaited[op] = self.env.event()
        return self._awaited[op]

    def _arrival(self, op: int) -> int:
        """Return the tick at which the card has ``op``, or NEVER if its call has not been made."""
        returned = self.times.returned[op]
        return NEVER if returned == NOT_YET else returned + self.lowered.submit

    def _release(self, op: int, tick: int) -> None:
        """Note that one of the things that ``op`` waits for happens at ``tick``. The op cannot start before."""
        ready = self.times.ready
        if tick > ready[op]:
            ready[op] = tick
        self._waits_for[op] -= 1
        if not self._waits_for[op]:  # it takes its place in its queue
            self.engines[self.lowered.engine_of[self._kind[op]]].arrive(op, ready[op])

    def settle(self) -> None:
        """Let the engines choose, as soon as all events of this tick have happened."""
        if self._settling:
            return
        now = self.now
        if self.env.peek() <= now:
            self._settling = True
            self.env.timeout(0).callbacks.append(self._settle_again)
            return
        for engine in self.engines:
            if engine.stirred:
                engine.choose(now)
        for part in self.shared:
            if part.changed:
                part.go_on(now)

    def _settle_again(self, _: simpy.Event) -> None:
        self._settling = False
        self.settle()


class HardwareQueue(rules.Head):
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
    that are ready (:mod:`streamsim.rules`). An op that continues a run has no op ahead of it or behind it.
    """

    def __init__(self, lowered: Lowered, engine: int, profile: Compute | CopyEngines) -> None:
        self._queue_of, self._runs_on = lowered.queue, lowered.runs_on
        self._arbiter = rules.new_arbiter(profile.arbitration)
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
        place = rules.choose(self._arbiter, self.heads, 0, len(self.heads), now)
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

    def __init__(self, card: CardModel, queues: HardwareQueues) -> None:
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
            now = self.card.now
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


class Shared(ABC):
    """A part of the card that ops share: the start or end of one changes the ends of the others."""

    changed = False

    @abstractmethod
    def go_on(self, now: int) -> None:
        """Set the alarm for the op that ends next. All ops of the tick ``now`` have started."""


class Crowd:
    """The kernels on the card that wait for a copy on another engine.

    A kernel waits from the tick at which the card has it until the last of its copies has ended.
    """

    def __init__(self, lowered: Lowered, times: OpTimes) -> None:
        # True if a crowd delays any copy. Otherwise there is nothing to count.
        self.matters = len(lowered.engine_names) > 1 and any(cost.rate.feels_crowds for cost in lowered.costs)
        if not self.matters:
            return
        self._after, self._extra = lowered.after, lowered.extra.by_before()
        self._copies = copies_waited_for(lowered)  # by kernel: the copies that it still waits for
        self._queues = len({lowered.queue[op] for op, copies in enumerate(self._copies) if copies})
        self._ops, self._returned, self._submit = lowered.schedule.ops, times.returned, lowered.submit
        self._coming = {thread: deque[int]() for thread in lowered.threads}  # kernels on their way, in order
        self._is_here = bytearray(len(lowered.kind))  # by kernel: 1 if the card had it while it waited
        self._waiting = 0  # the number of kernels on the card that wait

    def add(self, kernel: int) -> None:
        """Note that the call of ``kernel`` has been made, so that the kernel is on its way to the card."""
        if self._copies[kernel]:
            self._coming[self._ops[kernel].thread].append(kernel)

    def copy_ended(self, copy: int) -> None:
        """Note that ``copy`` has ended: each kernel that waits for it waits for one copy fewer."""
        after = self._after[copy]
        if after >= 0:
            self._waits_less(after)
        if copy in self._extra:
            for op in self._extra[copy]:
                self._waits_less(op)

    def _waits_less(self, op: int) -> None:
        if self._copies[op]:
            self._copies[op] -= 1
            if not self._copies[op]:
                self._waiting -= self._is_here[op]

    def level(self, now: int) -> int:
        """Return the level of crowding at the tick ``now``: see :func:`streamsim.rules.level`."""
        if not self.matters:
            return 0
        for coming in self._coming.values():
            while coming and self._returned[coming[0]] + self._submit <= now:
                kernel = coming.popleft()
                if self._copies[kernel]:
                    self._is_here[kernel] = 1
                    self._waiting += 1
        return rules.level(self._waiting, self._queues)


def copies_waited_for(lowered: Lowered) -> array[int]:
    """Return, for each op, the number of copies on another engine that it waits for, if it is a kernel."""
    kind, engine_of = lowered.kind, lowered.engine_of
    waits = array("i", [0]) * len(kind)
    elsewhere = [its in COPIES and engine_of[its] != engine_of[KERNEL] for its in range(len(engine_of))]
    for op, after in enumerate(lowered.after):
        if after >= 0 and kind[after] == KERNEL:
            waits[after] += elsewhere[kind[op]]
    for before, op in zip(*lowered.extra, strict=True):
        waits[op] += kind[op] == KERNEL and elsewhere[kind[before]]
    return waits


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
        self._ends, self._then_there, self._then_back = rules.next_end(self._since, *there.numbers, *back.numbers)
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
            self.end = now + rules.ticks_for(self.left, share)


class ComputeEngine(Engine, Shared):
    """Kernels side by side, up to a largest number of them: see :mod:`streamsim.rules`.

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
            share = rules.share_in_order(cost.fill, cost.threads, cost.idle, room, held)
            kernel.give(share, now)
            room -= share
        return room

    def _share_by_warps(self, now: int) -> int:
        """Share the card by warps; what a kernel cannot use goes to the others. Return the threads that have room."""
        held, sharing = 0, []
        for kernel in self._running:
            own = rules.fitting(kernel.cost.warps or kernel.cost.threads, held)
            sharing.append((kernel, own))
            held += own
        room, free = FULL_CARD, max(0, FULL_CARD - held)
        settles = True
        while settles:
            settles, rest = False, []
            for kernel, own in sharing:
                fill = kernel.cost.fill
                if rules.suffices(fill, own, room, held):
                    kernel.give(fill, now)
                    room, held, settles = room - fill, held - own, True
                else:
                    rest.append((kernel, own))
            sharing = rest
        for kernel, own in sharing:
            kernel.give(rules.share_by_warps(own, room, held), now)
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
