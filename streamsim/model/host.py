"""The issuing host thread: one call after another, held by the calls that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.model.program import NOTHING

if TYPE_CHECKING:
    from streamsim.model.simulation import Simulation


class Host:
    """Issues the ops of a segment in one go, as far as the next call that must wait for the card.

    Until then nothing on the card can change when a call returns, so all the times are known in advance;
    the ops become ready at their own times.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._segments = iter(simulation.program.segments)
        self._waits_for: set[int] = set()
        self._last_call = 0  # the op whose call is waiting
        self._returns = 0  # the earliest tick at which it can return
        self.is_waiting = False
        self._calls = [shape.call for shape in simulation.program.shapes]

    def resume(self, now: int) -> None:
        """Issue from the tick ``now`` on until a call has to wait."""
        simulation = self._simulation
        self.is_waiting = False
        for segment in self._segments:
            now = self._issue(segment.first, segment.last, now)
            self._last_call, self._returns = segment.last - 1, now
            self._waits_for = {op for op in segment.waits_for if simulation.end[op] < 0}
            for op in segment.waits_for:
                self._note_end(simulation.end[op])
            if self._waits_for:
                self.is_waiting = True
                return
            now = self._return()

    def ended(self, op: int, now: int) -> None:
        """An op has ended: go on if it was the last one waited for."""
        if op in self._waits_for:
            self._waits_for.remove(op)
            self._note_end(now)
            if not self._waits_for:
                self.resume(self._return())

    def _note_end(self, end: int) -> None:
        if end >= 0:
            self._returns = max(self._returns, end + self._simulation.program.wake)

    def _return(self) -> int:
        self._simulation.returned[self._last_call] = self._returns
        return self._returns

    def _issue(self, first: int, last: int, now: int) -> int:
        simulation, program = self._simulation, self._simulation.program
        issued, returned, release = simulation.issued, simulation.returned, simulation.release
        shape, kind, submit = program.shape, program.kind, program.submit
        calls = self._calls
        for op in range(first, last):
            issued[op] = now
            now += calls[shape[op]]
            returned[op] = now
            if kind[op] != NOTHING:
                release(op, now + submit)
        return now
