"""The engines: each takes ops from its hardware queues, runs them and says when they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamsim.model.alarm import Alarm
from streamsim.model.link import Flow
from streamsim.model.program import FULL_CARD
from streamsim.model.queues import FOREVER, Queues

if TYPE_CHECKING:
    import simpy

    from streamsim.model.simulation import Simulation

IDLE = -1


class Engine:
    """Runs one op at a time, each for its fixed time."""

    def __init__(self, simulation: Simulation, queues: Queues, duration: Sequence[int]) -> None:
        self.queues = queues
        self.alarm = Alarm(simulation.env, self._ring)
        self._simulation = simulation
        self._duration = duration
        self.op = IDLE

    def dispatch(self, now: int) -> None:
        """Start what can start, or set the alarm for when something can."""
        if self.op == IDLE:
            op = self.queues.take(now)
            if op >= 0:
                self.op = op
                self.alarm.set(self._simulation.started(op, now) + self._duration[op], now)
            else:
                self._wait(now)

    def _wait(self, now: int) -> None:
        ready = self.queues.next_ready()
        if ready < FOREVER:
            self.alarm.set(ready, now)

    def _ring(self, alarm: simpy.Event) -> None:
        self.alarm.callbacks = self.alarm.calls
        simulation = self._simulation
        now = simulation.env._now
        if now == self.alarm.due:
            simulation.touched.append(self)
            self._finish(now)
        simulation.end_of_ring(now)

    def _finish(self, now: int) -> None:
        op, self.op = self.op, IDLE
        if op != IDLE:
            self._simulation.ended(op, now)


class CopyEngine(Engine):
    """One direction of a shared link: how long a copy takes depends on the other direction."""

    def __init__(self, simulation: Simulation, queues: Queues, flow: Flow) -> None:
        super().__init__(simulation, queues, ())
        self._flow = flow
        self.other: CopyEngine = self

    def dispatch(self, now: int) -> None:
        if self.op != IDLE:
            self.retime(now)
            return
        op = self.queues.take(now)
        if op >= 0:
            self.op = op
            self._start(op, now)
        else:
            self._wait(now)

    def _start(self, op: int, now: int) -> None:
        program = self._simulation.program
        rate = program.rate[op]
        assert rate is not None
        self.other.settle(now)
        self._flow.start(self._simulation.started(op, now), program.work[op], rate)
        self.alarm.set(self._flow.due(), now)
        self.other.retime(now)

    def _finish(self, now: int) -> None:
        if self.op != IDLE:
            self.other.settle(now)
            self._flow.finish()
            self._simulation.touched.append(self.other)
            super()._finish(now)

    def settle(self, now: int) -> None:
        """Account for the bytes moved until ``now``, before the other direction changes."""
        self._flow.settle(now)

    def retime(self, now: int) -> None:
        """Set the alarm anew, after the other direction has changed."""
        if self.op >= 0:
            self.alarm.set(self._flow.due(), now)


class Running:
    """A kernel on the card: ``left`` of its work (ticks times width), ``given`` so much of the card now."""

    __slots__ = ("given", "left", "op", "width")

    def __init__(self, op: int, width: int, ticks_alone: int) -> None:
        self.op = op
        self.width = width
        self.left = ticks_alone * width
        self.given = 0


class ComputeEngine(Engine):
    """Kernels side by side: earlier ones take what they can fill, later ones what is left over.

    The card's block scheduler in the large: a later kernel's blocks go where an earlier kernel has no more
    blocks to put ("leftover policy").
    """

    def __init__(self, simulation: Simulation, queues: Queues, most: int) -> None:
        super().__init__(simulation, queues, ())
        self._most = most
        self._running: list[Running] = []
        self._settled = 0

    def dispatch(self, now: int) -> None:
        self._settle(now)
        while self._has_room():
            op = self.queues.take(now)
            if op < 0:
                break
            program = self._simulation.program
            self._simulation.started(op, now)
            self._running.append(Running(op, program.width[op], program.work[op]))
            self._share()
        due = min((now - -kernel.left // kernel.given for kernel in self._running if kernel.given), default=FOREVER)
        if self._has_room():
            due = min(due, self.queues.next_ready())
        if due < FOREVER:
            self.alarm.set(due, now)

    def _has_room(self) -> bool:
        return len(self._running) < self._most and sum(kernel.given for kernel in self._running) < FULL_CARD

    def _settle(self, now: int) -> None:
        elapsed, self._settled = now - self._settled, now
        for kernel in self._running:
            kernel.left -= kernel.given * elapsed

    def _share(self) -> None:
        room = FULL_CARD
        for kernel in self._running:
            kernel.given = min(kernel.width, room)
            room -= kernel.given

    def _finish(self, now: int) -> None:
        self._settle(now)
        done = [kernel for kernel in self._running if kernel.left <= 0]
        self._running = [kernel for kernel in self._running if kernel.left > 0]
        self._share()
        for kernel in done:
            self._simulation.ended(kernel.op, now)
