"""The card: where ops come from the host, wait for each other, and go to their engines."""

from array import array

import simpy

from streamsim.lowering import KERNEL, NOTHING, Lowered
from streamsim.model.copies import CopyEngine, Crowd, Link, LinkedCopyEngine
from streamsim.model.engines import Engine, HardwareQueues
from streamsim.model.kernels import ComputeEngine
from streamsim.model.times import NOT_YET, Times
from streamsim.rules import NEVER, crossing, heard


class _Awaited:
    """A number of ops that a thread of the host waits for."""

    def __init__(self, all_ended: simpy.Event, ops: int) -> None:
        self.all_ended, self._left = all_ended, ops

    def ended(self) -> None:
        self._left -= 1
        if not self._left:
            self.all_ended.succeed()


class Card:
    """A card with its engines and its link, and the number of things that every op still waits for.

    Time on the card goes tick by tick. First, all events of a tick happen, in SimPy's order. That order does not
    matter, because every effect is a maximum, a count or a mark. Then the engines choose what to start, one after
    another. So every callback of SimPy ends with :meth:`settle`.
    """

    def __init__(self, env: simpy.Environment, lowered: Lowered, times: Times) -> None:
        self.env, self.lowered, self.times = env, lowered, times
        self.crowd = Crowd(lowered, times)
        self._awaited: dict[int, list[_Awaited]] = {}  # ops that threads of the host wait for
        self._waits_for = array("i", lowered.pending)  # the number of things each op still waits for
        self._kind, self._after, self._also = lowered.kind, lowered.after, lowered.also.by_before()
        self._go_on: list[Link | ComputeEngine] = []  # parts in which a start changes the ends of others
        self._engines = self._build()
        self._engine_of = [self._engines[engine] for engine in lowered.engine_of[:NOTHING]]
        self._settling = False

    def _build(self) -> list[Engine]:
        lowered, copies, compute = self.lowered, self.lowered.device.copy_engines, self.lowered.device.compute
        queues = [
            HardwareQueues(lowered, engine, compute if name == "compute" else copies)
            for engine, name in enumerate(lowered.engine_names)
        ]
        engines: list[Engine]
        if copies.count == 2 and any(shape.rate.feels_the_other_direction for shape in lowered.shapes):
            link = Link(self.env, self.settle)
            self._go_on.append(link)
            engines = [LinkedCopyEngine(self, side, link, direction) for direction, side in enumerate(queues[:2])]
        else:
            engines = [CopyEngine(self, own) for own in queues[: max(1, copies.count)]]
        if copies.count:
            kernels = ComputeEngine(self, queues[-1])
            self._go_on.append(kernels)
            engines.append(kernels)
        return engines

    def submit(self, first: int, last: int) -> None:
        """Receive the ops ``first <= op < last``, whose calls return at known ticks. Each arrives a little later."""
        later, crowd, kinds, returned = self.lowered.submit, self.crowd, self._kind, self.times.returned
        for op in range(first, last):
            kind = kinds[op]
            if kind != NOTHING:
                on_card = returned[op] + later
                if kind == KERNEL and crowd.matters:
                    crowd.comes(op)
                self._come(op, on_card)

    def ended(self, op: int, now: int) -> None:
        """Note that an engine has ended ``op``. The ops that wait for it hear of that, and may start."""
        self.times.end[op] = now
        if self.crowd.matters and self._kind[op] != KERNEL:
            self.crowd.copy_ended(op)
        after = self._after[op]
        if after >= 0:
            hand_over = crossing(self.lowered.hand_over, self._kind[op], self._kind[after], 0)
            self._come(after, heard(now, hand_over, self._comes(after)))
        if op in self._also:
            for other in self._also[op]:
                self._come(other, heard(now, self.lowered.crossing(op, other), self._comes(other)))
        for awaited in self._awaited.pop(op, ()):
            awaited.ended()

    def all_end(self, ops: list[int]) -> simpy.Event:
        """Return an event that happens when all of ``ops`` have ended. None of them has ended yet."""
        awaited = _Awaited(self.env.event(), len(ops))
        for op in ops:
            self._awaited.setdefault(op, []).append(awaited)
        return awaited.all_ended

    def _comes(self, op: int) -> int:
        """Return the tick at which the card has ``op``, or NEVER if its call has not been made."""
        returned = self.times.returned[op]
        return NEVER if returned == NOT_YET else returned + self.lowered.submit

    def _come(self, op: int, tick: int) -> None:
        """Note that a thing which ``op`` waits for comes at ``tick``. The op cannot start before."""
        ready = self.times.ready
        if tick > ready[op]:
            ready[op] = tick
        self._waits_for[op] -= 1
        if not self._waits_for[op]:  # it takes its place in its queue
            self._engine_of[self._kind[op]].arrive(op, ready[op])

    def settle(self) -> None:
        """Let the engines choose, as soon as all events of this tick have happened."""
        if self._settling:
            return
        now: int = self.env.now  # type: ignore[assignment]  # SimPy's clock, which counts whole ticks here
        if self.env.peek() <= now:
            self._settling = True
            self.env.timeout(0).callbacks.append(self._settle_again)
            return
        for engine in self._engines:
            if engine.stirred:
                engine.choose(now)
        for something in self._go_on:
            if something.changed:
                something.go_on(now)

    def _settle_again(self, _: simpy.Event) -> None:
        self._settling = False
        self.settle()
