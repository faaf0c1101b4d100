"""Copies: the copy engines, the link that both directions share, and the crowd of kernels that delays copies."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import simpy

from streamsim.lowering import COPIES, KERNEL, Lowered, Shape
from streamsim.model.engines import Engine, HardwareQueues
from streamsim.model.times import Times
from streamsim.rules import NEVER, level, next_end

if TYPE_CHECKING:
    from streamsim.model.card import Card


class CopyEngine(Engine):
    """An engine that runs one op at a time, for the op's own time.

    It is the copy engine of a card with one copy engine, or of a card whose directions do not slow each other. On a
    card without a copy engine it is the only engine: kernels take turns with copies.
    """

    def __init__(self, card: Card, queues: HardwareQueues) -> None:
        super().__init__(card, queues)
        self.op = -1  # what it runs, if it has no room

    def start(self, op: int, now: int) -> None:
        self.op, self.has_room = op, False
        shape = self.card.lowered.shape_of(op)
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
        """End the op, so that the engine is free."""
        self.has_room = self.stirred = True
        self.card.ended(self.op, now)


class LinkedCopyEngine(CopyEngine):
    """The copy engine of one direction. A copy's time depends on the other direction, too."""

    def __init__(self, card: Card, queues: HardwareQueues, link: Link, direction: int) -> None:
        super().__init__(card, queues)
        self._link, self._direction = link, direction
        link.flows[direction].engine = self

    def start(self, op: int, now: int) -> None:
        self.op, self.has_room = op, False
        self._link.begin(self._direction, self.card.lowered.shape_of(op), self.card.crowd.level(now), now)


class Flow:
    """One direction: ``left`` units flow from the tick ``begins`` on (NEVER if there is no copy)."""

    __slots__ = ("alone", "begins", "engine", "left", "shared")

    def __init__(self) -> None:
        self.engine: LinkedCopyEngine  # the engine of these copies
        self.begins, self.left = NEVER, 0
        self.alone = self.shared = 1  # units a tick, with the link to itself and beside the other direction


class Link:
    """The link: the flows of both directions, counted up to the tick at which a flow ended last.

    The end of a flow changes whenever the other one begins or ends. SimPy cannot take a timeout back, so a timeout for
    a tick that is no longer right is ignored.
    """

    def __init__(self, env: simpy.Environment, settle: Callable[[], None]) -> None:
        self.env, self._settle = env, settle
        self.flows = Flow(), Flow()  # by direction
        self._since = 0
        self._ends = NEVER  # the tick at which the next flow ends
        self._then_there = self._then_back = 0  # what both will have left then
        self.changed = False

    def begin(self, direction: int, copy: Shape, level: int, now: int) -> None:
        """Start a copy in ``direction``. Its bytes flow after the latency of this ``level`` of crowding."""
        flow, other = self.flows[direction], self.flows[1 - direction]
        latency = copy.rate.latency if other.begins == NEVER else copy.rate.duplex_latency
        flow.begins, flow.left = now + latency[level], copy.units
        flow.alone, flow.shared = copy.rate.alone, copy.rate.shared
        self.changed = True

    def go_on(self, now: int) -> None:
        """Set the alarm for the flow that ends next. All copies of this tick have started."""
        self.changed = False
        there, back = self.flows
        self._ends, self._then_there, self._then_back = next_end(
            self._since,
            there.begins,
            there.left,
            there.alone,
            there.shared,
            back.begins,
            back.left,
            back.alone,
            back.shared,
        )
        if self._ends < NEVER:
            self.env.timeout(self._ends - now).callbacks.append(self._end)

    def _end(self, _: simpy.Event) -> None:
        now: int = self.env.now  # type: ignore[assignment]  # SimPy's clock, which counts whole ticks here
        if now != self._ends:
            return
        self._since, self._ends, self.changed = now, NEVER, True
        there, back = self.flows
        there.left, back.left = self._then_there, self._then_back
        for flow in self.flows:
            if flow.left <= 0 and flow.begins < NEVER:
                flow.begins = NEVER
                flow.engine.finish(now)
        self._settle()


class Crowd:
    """The kernels on the card that wait for a copy on another engine.

    A kernel waits from the tick at which the card has it until the last of its copies has ended.
    """

    def __init__(self, lowered: Lowered, times: Times) -> None:
        # True if a crowd delays any copy. Otherwise there is nothing to count.
        self.matters = len(lowered.engine_names) > 1 and any(shape.rate.feels_crowds for shape in lowered.shapes)
        if not self.matters:
            return
        self._after, self._also = lowered.after, lowered.also.by_before()
        self._copies = copies_waited_for(lowered)  # by kernel: the copies that it still waits for
        self._queues = len({lowered.queue[op] for op, copies in enumerate(self._copies) if copies})
        self._ops, self._returned, self._submit = lowered.schedule.ops, times.returned, lowered.submit
        self._coming = {thread: deque[int]() for thread in lowered.threads}  # kernels on their way, in order
        self._is_here = bytearray(len(lowered.kind))  # by kernel: 1 if the card had it while it waited
        self._waiting = 0  # the number of kernels on the card that wait

    def comes(self, kernel: int) -> None:
        """Note that the call of ``kernel`` has been made, so that the kernel is on its way to the card."""
        if self._copies[kernel]:
            self._coming[self._ops[kernel].thread].append(kernel)

    def copy_ended(self, copy: int) -> None:
        """Note that ``copy`` has ended: each kernel that waits for it waits for one copy fewer."""
        after = self._after[copy]
        if after >= 0:
            self._waits_less(after)
        if copy in self._also:
            for op in self._also[copy]:
                self._waits_less(op)

    def _waits_less(self, op: int) -> None:
        if self._copies[op]:
            self._copies[op] -= 1
            if not self._copies[op]:
                self._waiting -= self._is_here[op]

    def level(self, now: int) -> int:
        """Return the level of crowding at the tick ``now``: see :func:`streamsim.rules.link.level`."""
        if not self.matters:
            return 0
        for coming in self._coming.values():
            while coming and self._returned[coming[0]] + self._submit <= now:
                kernel = coming.popleft()
                if self._copies[kernel]:
                    self._is_here[kernel] = 1
                    self._waiting += 1
        return level(self._waiting, self._queues)


def copies_waited_for(lowered: Lowered) -> array[int]:
    """Return, for each op, the number of copies on another engine that it waits for, if it is a kernel."""
    kind, engine_of = lowered.kind, lowered.engine_of
    waits = array("i", [0]) * len(kind)
    elsewhere = [its in COPIES and engine_of[its] != engine_of[KERNEL] for its in range(len(engine_of))]
    for op, after in enumerate(lowered.after):
        if after >= 0 and kind[after] == KERNEL:
            waits[after] += elsewhere[kind[op]]
    for before, op in zip(*lowered.also, strict=True):
        waits[op] += kind[op] == KERNEL and elsewhere[kind[before]]
    return waits
