"""The link of a card whose two directions slow each other: the copies that flow on it now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.rules.link import NEVER, next_end

if TYPE_CHECKING:
    from collections.abc import Callable

    import simpy

    from streamsim.lowering.costs import Shape
    from streamsim.model.copy_engine import LinkedCopyEngine


class Flow:
    """One direction: ``left`` units to move, which flow from the tick ``begins`` on (NEVER: there is no copy)."""

    __slots__ = ("alone", "begins", "engine", "left", "shared")

    def __init__(self) -> None:
        self.engine: LinkedCopyEngine  # whose copies these are
        self.begins, self.left = NEVER, 0
        self.alone = self.shared = 1  # units a tick, with the link to itself and beside the other direction


class Link:
    """The flows of both directions, accounted for up to the tick ``since``, at which one ended last.

    When a flow ends changes whenever one begins or ends. A timeout cannot be taken back, so one that is no longer for
    the right tick is heard and passed over.
    """

    def __init__(self, env: simpy.Environment, settle: Callable[[], None]) -> None:
        self.env, self._settle = env, settle
        self.flows = Flow(), Flow()  # by direction
        self._since = 0
        self._ends = NEVER  # the tick at which the next flow ends
        self._then_there = self._then_back = 0  # what both will have left then
        self.changed = False

    def begin(self, direction: int, copy: Shape, level: int, now: int) -> None:
        """A copy starts in ``direction``: its bytes flow when the latency of that ``level`` of crowding has passed."""
        flow, other = self.flows[direction], self.flows[1 - direction]
        latency = copy.rate.latency if other.begins == NEVER else copy.rate.duplex_latency
        flow.begins, flow.left = now + latency[level], copy.units
        flow.alone, flow.shared = copy.rate.alone, copy.rate.shared
        self.changed = True

    def go_on(self, now: int) -> None:
        """All that begins at this tick has begun: time the end of the flow that ends next."""
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
