"""The engines: each takes ops from its hardware queues, runs them and says when they end.

An engine has an alarm and one or more *lanes*, the places where an op can be: a copy engine or a plain
compute engine has one; the two directions of a shared link are the lanes of one pair, because when a
copy ends depends on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.model.alarm import Alarm
from streamsim.model.link import Flow, link
from streamsim.model.program import FULL_CARD
from streamsim.model.queues import FOREVER, NONE, Queues

if TYPE_CHECKING:
    import simpy

    from streamsim.model.simulation import Simulation


class Lane:
    """A place for one op at a time (``op``, or NONE), behind its hardware queues."""

    def __init__(self, engine: Engine, queues: Queues) -> None:
        self.engine = engine
        self.queues = queues
        self.op = NONE


class Engine:
    """Something with an alarm that starts ops and ends them."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._env = simulation.env
        self._alarm = Alarm(simulation.env, self._ring)
        self._shapes, self._shape = simulation.program.shapes, simulation.program.shape
        self.lanes: list[Lane] = []

    def dispatch(self, now: int) -> None:
        """Start what can start, and set the alarm for when something ends or can start."""
        raise NotImplementedError

    def _finish(self, now: int) -> None:
        """End what is due."""
        raise NotImplementedError

    def _ring(self, alarm: simpy.Event) -> None:
        alarm.callbacks = self._alarm.calls
        now = self._env._now
        simulation = self._simulation
        if now == self._alarm.due:
            simulation.touched.append(self)
            self._finish(now)
        if self._env.peek() > now:  # engines choose when everything that ends at this tick has ended
            simulation.dispatch(now)


class SerialEngine(Engine):
    """One op at a time, each for its fixed time."""

    def __init__(self, simulation: Simulation, queues: Queues) -> None:
        super().__init__(simulation)
        self._lane = Lane(self, queues)
        self._take = queues.take
        self.lanes = [self._lane]

    def dispatch(self, now: int) -> None:
        lane = self._lane
        if lane.op == NONE:
            op = self._take(now)
            if op != NONE:
                lane.op = op
                self._alarm.set(self._simulation.started(op, now) + self._shapes[self._shape[op]].duration, now)
            else:
                ready = lane.queues.next_ready()
                if ready < FOREVER:
                    self._alarm.set(ready, now)

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


class LinkedCopyEngines(Engine):
    """Two copy engines, one for each direction of a link; how long a copy takes depends on both."""

    def __init__(self, simulation: Simulation, queues: tuple[Queues, Queues]) -> None:
        super().__init__(simulation)
        self._directions = [Direction(self, q, flow) for q, flow in zip(queues, link(), strict=True)]
        self.lanes = [*self._directions]

    def dispatch(self, now: int) -> None:
        there, back = self._directions
        there.flow.settle(now)
        back.flow.settle(now)
        wake = FOREVER
        if there.op == NONE:
            wake = self._start(there, now)
        if back.op == NONE:
            ready = self._start(back, now)
            if ready < wake:
                wake = ready
        for direction in (there, back):
            if direction.op != NONE:
                due = direction.flow.due()
                if due < wake:
                    wake = due
        if wake < FOREVER:
            self._alarm.set(wake, now)

    def _start(self, direction: Direction, now: int) -> int:
        """Start a copy in an idle direction, or say when to look again."""
        op = direction.queues.take(now)
        if op == NONE:
            return direction.queues.next_ready()
        direction.op = op
        direction.flow.start(self._simulation.started(op, now), self._shapes[self._shape[op]])
        return FOREVER

    def _finish(self, now: int) -> None:
        there, back = self._directions
        there.flow.settle(now)
        back.flow.settle(now)
        for direction in (there, back):
            op = direction.op
            if op != NONE and direction.flow.left <= 0:
                direction.op = NONE
                direction.flow.finish()
                self._simulation.ended(op, now)


class Running:
    """A kernel on the card: ``left`` of its work (ticks times width), ``given`` so much of the card now."""

    __slots__ = ("given", "left", "op", "width")

    def __init__(self, op: int, width: int, ticks_alone: int, room: int) -> None:
        self.op = op
        self.width = width
        self.left = ticks_alone * width
        self.given = width if width < room else room


class ComputeEngine(Engine):
    """Kernels side by side: earlier ones take what they can fill, later ones what is left over.

    The card's block scheduler in the large: a later kernel's blocks go where an earlier kernel has no more
    blocks to put ("leftover policy"). Its lane stays open: a kernel on the card does not close it.
    """

    def __init__(self, simulation: Simulation, queues: Queues, most: int) -> None:
        super().__init__(simulation)
        self.lanes = [Lane(self, queues)]
        self._queues = queues
        self._most = most
        self._running: list[Running] = []
        self._room = FULL_CARD
        self._settled = 0

    def dispatch(self, now: int) -> None:
        self._settle(now)
        running = self._running
        while self._room and len(running) < self._most:
            op = self._queues.take(now)
            if op == NONE:
                break
            self._simulation.started(op, now)
            shape = self._shapes[self._shape[op]]
            kernel = Running(op, shape.width, shape.duration, self._room)
            running.append(kernel)
            self._room -= kernel.given
        due = self._queues.next_ready() if self._room and len(running) < self._most else FOREVER
        for kernel in running:
            if kernel.given:
                end = now - -kernel.left // kernel.given
                if end < due:
                    due = end
        if due < FOREVER:
            self._alarm.set(due, now)

    def _settle(self, now: int) -> None:
        elapsed = now - self._settled
        if elapsed:
            self._settled = now
            for kernel in self._running:
                kernel.left -= kernel.given * elapsed

    def _finish(self, now: int) -> None:
        self._settle(now)
        done = [kernel for kernel in self._running if kernel.left <= 0]
        if done:
            self._running = [kernel for kernel in self._running if kernel.left > 0]
            self._share()
            for kernel in done:
                self._simulation.ended(kernel.op, now)

    def _share(self) -> None:
        """Earlier kernels first, each as much of the card as it can fill."""
        room = FULL_CARD
        for kernel in self._running:
            kernel.given = min(kernel.width, room)
            room -= kernel.given
        self._room = room
