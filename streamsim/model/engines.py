"""The engines: each takes ops from its hardware queues, runs them and says when they end.

An engine has an alarm and one or more *lanes*, the places where an op can be: a copy engine or a plain
compute engine is its own lane; the two directions of a shared link are the lanes of one pair, because
when a copy ends depends on both.

This is the model's inner loop. It takes names out of loops and keeps calls few where that shows in
``tests/benchmarks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simpy.events import NORMAL

from streamsim.model.alarm import Alarm
from streamsim.model.link import Flow, Link
from streamsim.model.program import FULL_CARD
from streamsim.model.queues import FOREVER, NONE, Queues

if TYPE_CHECKING:
    import simpy

    from streamsim.model.simulation import Simulation


class Engine:
    """Something with an alarm that starts ops and ends them."""

    def __init__(self, simulation: Simulation) -> None:
        self.lanes: list[Lane] = []
        self._simulation = simulation
        self._env = simulation.env
        self._alarm = Alarm(simulation.env, self._ring)
        self._schedule = simulation.env.schedule
        self._shapes, self._shape = simulation.program.shapes, simulation.program.shape

    def dispatch(self, now: int) -> None:
        """Start what can start, and set the alarm for when something ends or can start."""
        raise NotImplementedError

    def _finish(self, now: int) -> None:
        """End what is due."""
        raise NotImplementedError

    def _ring(self, _: simpy.Event) -> None:
        alarm = self._alarm
        alarm.callbacks = alarm.calls
        now: int = self._env._now  # type: ignore[assignment]  # the clock counts whole ticks
        simulation = self._simulation
        if now == alarm.due:
            simulation.touched.append(self)
            self._finish(now)
        if self._env.peek() > now:  # engines choose when everything that ends at this tick has ended
            simulation.dispatch(now)

    def _wake(self, due: int, now: int) -> None:
        """Set the alarm for the tick ``due``; an earlier setting no longer counts."""
        alarm = self._alarm
        if due != alarm.due and due < FOREVER:
            alarm.due = due
            self._schedule(alarm, NORMAL, due - now)


class Lane:
    """A place for one op at a time (``op``, or NONE), behind its hardware queues."""

    def __init__(self, engine: Engine, queues: Queues) -> None:
        self.op = NONE
        self.engine = engine
        self.arrive = queues.arrive
        self.take = queues.take
        self.next_ready = queues.next_ready


class SerialEngine(Engine):
    """One op at a time, each for its fixed time."""

    def __init__(self, simulation: Simulation, queues: Queues) -> None:
        super().__init__(simulation)
        self._lane = Lane(self, queues)
        self.lanes = [self._lane]
        self._take = queues.take
        self._duration = [shape.duration for shape in simulation.program.shapes]

    def dispatch(self, now: int) -> None:
        if self._lane.op == NONE:
            op = self._take(now)
            if op == NONE:
                self._wake(self._lane.next_ready(), now)
            else:
                self._lane.op = op
                start = self._simulation.started(op, now)
                self._wake(start + self._duration[self._shape[op]] + self._longer(op, start), now)

    def _longer(self, op: int, start: int) -> int:
        crowd, shape = self._simulation.crowd, self._shapes[self._shape[op]]
        if crowd is None or not shape.units:
            return 0
        return shape.rate.latency[crowd.level(start)] - shape.rate.latency[0]

    def _finish(self, now: int) -> None:
        op = self._lane.op
        if op != NONE:
            self._lane.op = NONE
            self._simulation.ended(op, now)


class Direction(Lane):
    """A copy engine on one direction of the link."""

    def __init__(self, engine: Engine, queues: Queues, flow: Flow) -> None:
        super().__init__(engine, queues)
        self.flow = flow
        self.other = self


class LinkedCopyEngines(Engine):
    """Two copy engines, one for each direction of a link; how long a copy takes depends on both."""

    def __init__(self, simulation: Simulation, queues: tuple[Queues, Queues]) -> None:
        super().__init__(simulation)
        self._link = Link()
        flows = self._link.flows
        there, back = (Direction(self, q, f) for q, f in zip(queues, flows, strict=True))
        there.other, back.other = back, there
        self._directions = [there, back]
        self.lanes = [*self._directions]
        self._end = FOREVER  # the tick at which the next flow ends; NONE: to be worked out anew

    def dispatch(self, now: int) -> None:
        wake = FOREVER
        for direction in self._directions:
            if direction.op == NONE:
                op = direction.take(now)
                if op == NONE:
                    ready = direction.next_ready()
                    if ready < wake:
                        wake = ready
                else:
                    self._start(direction, op, now)
        if self._end == NONE:  # a flow has started or finished
            self._end = self._link.next_end()
        self._wake(wake if wake < self._end else self._end, now)

    def _start(self, direction: Direction, op: int, now: int) -> None:
        copy = self._shapes[self._shape[op]]
        duplex = direction.other.op != NONE
        crowd = self._simulation.crowd
        latency = (copy.rate.duplex_latency if duplex else copy.rate.latency)[crowd.level(now) if crowd else 0]
        self._link.settle(now)
        direction.op = op  # closes the lane: the op behind this one need not wake the engine
        start = self._simulation.started(op, now)
        direction.flow.start(start + latency, copy)
        self._end = NONE  # when the next flow ends is to be worked out anew

    def _finish(self, now: int) -> None:
        if now == self._end:
            self._end = NONE
            self._link.settle(now)
            for direction in self._directions:
                if direction.op != NONE and direction.flow.left <= 0:
                    op, direction.op = direction.op, NONE
                    direction.flow.finish()
                    self._simulation.ended(op, now)


class Running:
    """A kernel on the card, ``given`` so much of it: it ends at the tick ``end`` unless it is given more.

    ``left`` of its work (ticks times width) was to do at the tick ``since``.
    """

    __slots__ = ("end", "given", "left", "op", "since", "width")

    def __init__(self, op: int, width: int, ticks_alone: int, room: int, now: int) -> None:
        self.op = op
        self.width = width
        self.since = now
        if width <= room:
            self.given = width
            self.end = now + ticks_alone
        else:
            self.given = room
            self.left = ticks_alone * width
            self.end = now - -self.left // room

    def give(self, room: int, now: int) -> None:
        """Give the kernel as much of ``room`` as it can fill, from now on."""
        self.left -= self.given * (now - self.since)
        self.since = now
        self.given = min(self.width, room)
        self.end = now - -self.left // self.given


class ComputeEngine(Engine):
    """Kernels side by side: earlier ones take what they can fill, later ones what is left over.

    The card's block scheduler in the large: a later kernel's blocks go where an earlier kernel has no more
    blocks to put ("leftover policy"). Its lane stays open: a kernel on the card does not close it.
    """

    def __init__(self, simulation: Simulation, queues: Queues, most: int) -> None:
        super().__init__(simulation)
        self._lane = Lane(self, queues)
        self.lanes = [self._lane]
        self._take = queues.take
        self._next_ready = queues.next_ready
        self._most = most
        self._running: list[Running] = []
        self._room = FULL_CARD

    def dispatch(self, now: int) -> None:
        running = self._running
        while self._room and len(running) < self._most:
            op = self._take(now)
            if op == NONE:
                due = self._next_ready()
                break
            self._lane.op = op  # closed for a moment: the op behind this one need not wake the engine
            self._simulation.started(op, now)
            self._lane.op = NONE
            shape = self._shapes[self._shape[op]]
            kernel = Running(op, shape.width, shape.duration, self._room, now)
            running.append(kernel)
            self._room -= kernel.given
        else:
            due = FOREVER
        for kernel in running:
            if kernel.end < due:
                due = kernel.end
        self._wake(due, now)

    def _finish(self, now: int) -> None:
        done = [kernel for kernel in self._running if kernel.end <= now]
        for kernel in done:
            self._running.remove(kernel)
            self._room += kernel.given
        if self._running and done:
            self._share(now)
        for kernel in done:
            self._simulation.ended(kernel.op, now)

    def _share(self, now: int) -> None:
        """Give the room to the earliest of the kernels that can use more."""
        for kernel in self._running:
            if self._room and kernel.given < kernel.width:
                more = kernel.given + self._room
                kernel.give(more, now)
                self._room = more - kernel.given
