"""The issuing host thread: one call after another, held by the calls that wait."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

from streamsim.lowering.costs import NOTHING

if TYPE_CHECKING:
    from streamsim.lowering.lowered import Segment
    from streamsim.model.simulation import Simulation


class Host:
    """Issues the ops of a segment in one go, as far as the next call that must wait for the card.

    Until then nothing on the card can change when a call returns, so all the times are known in advance;
    the ops become ready at their own times.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._segments = iter(simulation.program.segments)
        self.waits_for: set[int] = set()  # the ops whose end the waiting call needs, the same set all the time
        self._last_call = 0  # the op whose call is waiting
        self._returns = 0  # the earliest tick at which it can return

    def resume(self, now: int) -> None:
        """Issue from the tick ``now`` on until a call has to wait."""
        simulation = self._simulation
        for segment in self._segments:
            now = self._issue(segment, now)
            if segment.last == len(simulation.issued):
                simulation.all_issued()
            self._last_call, self._returns = segment.last - 1, now
            self.waits_for.update(op for op in segment.waits_for if simulation.end[op] < 0)
            for op in segment.waits_for:
                self._note_end(simulation.end[op])
            if self.waits_for:
                return
            now = self._return()

    def ended(self, op: int, now: int) -> None:
        """An op that the host waits for has ended: go on if it was the last one."""
        self.waits_for.remove(op)
        self._note_end(now)
        if not self.waits_for:
            self.resume(self._return())

    def _note_end(self, end: int) -> None:
        if end >= 0:
            self._returns = max(self._returns, end + self._simulation.program.wake)

    def _return(self) -> int:
        self._simulation.returned[self._last_call] = self._returns
        return self._returns

    def _issue(self, segment: Segment, now: int) -> int:
        """Make the calls of a segment one after another; returns the tick at which the last returns."""
        simulation, first, last = self._simulation, segment.first, segment.last
        times = array("q", accumulate(simulation.program.calls(segment), initial=now))
        simulation.issued[first:last] = times[:-1]
        simulation.returned[first:last] = times[1:]
        pending, kind = simulation.pending, simulation.program.kind
        for op in range(first, last):
            if kind[op] != NOTHING and (first or not pending[op]):
                pending[op] += not first
                simulation.release(op, 0)
        return times[-1]
