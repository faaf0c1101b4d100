"""The card: where ops come from the host, wait for each other, and go to their engines."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from streamsim.lowering.costs import KERNEL, NOTHING
from streamsim.model.compute_engine import ComputeEngine
from streamsim.model.copy_engine import CopyEngine, LinkedCopyEngine
from streamsim.model.crowd import Crowd
from streamsim.model.link import Link
from streamsim.model.queues import HardwareQueues
from streamsim.model.times import NOT_YET
from streamsim.rules.hand_overs import crossing, heard
from streamsim.rules.link import NEVER

if TYPE_CHECKING:
    import simpy

    from streamsim.lowering.lowered import Lowered
    from streamsim.model.engine import Engine
    from streamsim.model.times import Times


class _Awaited:
    """So many ops that a thread of the host waits for."""

    def __init__(self, all_ended: simpy.Event, ops: int) -> None:
        self.all_ended, self._left = all_ended, ops

    def ended(self) -> None:
        self._left -= 1
        if not self._left:
            self.all_ended.succeed()


class Card:
    """A card with its engines and its link, and what every op on it still waits for.

    Time on the card goes by ticks: first all that happens at a tick happens, in whatever order SimPy has it (every
    effect is a maximum, a count or a mark, so the order does not matter); then the engines choose what to start, one
    after another. So whatever SimPy calls here, the last thing it does is :meth:`settle`.
    """

    def __init__(self, env: simpy.Environment, lowered: Lowered, times: Times) -> None:
        self.env, self.lowered, self.times = env, lowered, times
        self.shapes = [lowered.shapes[index] for index in lowered.shape]  # by op
        self.crowd = Crowd(lowered)
        self._awaited: dict[int, list[_Awaited]] = {}  # ops that threads of the host wait for
        self._waits_for = array("i", lowered.pending)  # so many things each op still waits for
        self._kind, self._after, self._also = lowered.kind, lowered.after, lowered.also.by_op()
        self._go_on: list[Link | ComputeEngine] = []  # on which what has started changes when the rest will end
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
        """The calls for the ops ``first <= op < last`` return at known ticks: the card has each a little later."""
        later, crowd, kinds, returned = self.lowered.submit, self.crowd, self._kind, self.times.returned
        for op in range(first, last):
            kind = kinds[op]
            if kind != NOTHING:
                on_card = returned[op] + later
                if kind == KERNEL and crowd.matters:
                    crowd.comes(op, on_card)
                self._come(op, on_card)

    def ended(self, op: int, now: int) -> None:
        """An engine has done with ``op``: what waits for it hears of that, and may start."""
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
        """An event that happens when all of ``ops``, which have not ended, have."""
        awaited = _Awaited(self.env.event(), len(ops))
        for op in ops:
            self._awaited.setdefault(op, []).append(awaited)
        return awaited.all_ended

    def _comes(self, op: int) -> int:
        """When the card has ``op``; not before now if its call has not been made."""
        returned = self.times.returned[op]
        return NEVER if returned == NOT_YET else returned + self.lowered.submit

    def _come(self, op: int, tick: int) -> None:
        """One of the things that ``op`` waits for has come, or will at ``tick``; before that it cannot start."""
        ready = self.times.ready
        if tick > ready[op]:
            ready[op] = tick
        self._waits_for[op] -= 1
        if not self._waits_for[op]:  # it takes its place in its queue
            self._engine_of[self._kind[op]].arrive(op, ready[op])

    def settle(self) -> None:
        """Let the engines choose, as soon as all has happened that happens at this tick."""
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
