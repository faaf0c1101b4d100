"""The host: one thread that makes one call after another, held by those that wait."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import simpy

    from streamsim.lowering.lowered import Lowered, Segment
    from streamsim.model.card import Card
    from streamsim.model.times import Times


class Host:
    """The thread that issues a program to ``card``.

    It makes the calls of a segment in one go: nothing on the card changes when a call returns, until one that waits.
    So their times are known as soon as the first of them is made, and the card gets every op with its own.
    """

    def __init__(self, env: simpy.Environment, lowered: Lowered, times: Times, card: Card) -> None:
        self._env, self._lowered, self._times, self._card = env, lowered, times, card
        env.process(self._issue())

    def _issue(self) -> simpy.events.ProcessGenerator:
        now = self._lowered.launch
        for segment in self._lowered.segments:
            now = self._call(segment, now)
            self._card.settle()
            self._card.awaited = {op for op in segment.waits_for if self._times.end[op] < 0}
            if self._card.awaited:
                all_ended = self._env.event()
                self._card.all_ended = all_ended.succeed
                yield all_ended
            for op in segment.waits_for:  # the last call returns when the host has heard of all that it waits for
                now = max(now, self._times.end[op] + self._lowered.wake)
            self._times.returned[segment.last - 1] = now

    def _call(self, segment: Segment, now: int) -> int:
        """Make the calls of a segment one after another from ``now`` on; the tick at which the last one returns."""
        times = self._times
        ticks = array("q", accumulate(self._lowered.calls(segment), initial=now))
        times.issued[segment.first : segment.last] = ticks[:-1]
        times.returned[segment.first : segment.last] = ticks[1:]
        self._card.submit(segment.first, segment.last)
        return ticks[-1]
