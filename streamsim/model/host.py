"""The host's threads. Each makes one call after another, and some calls hold it until the card is done."""

import simpy

from streamsim.lowering import NO_SEGMENT, Lowered, Segment
from streamsim.model.card import Card
from streamsim.model.times import Times


class Host:
    """The threads that issue a program to a card."""

    def __init__(self, env: simpy.Environment, lowered: Lowered, times: Times, card: Card) -> None:
        self._env, self._lowered, self._times, self._card = env, lowered, times, card
        waited_for = {segment.behind for segment in lowered.segments}
        # Events for segments that other threads wait for: the tick of their return is known.
        self._known = {behind: env.event() for behind in waited_for if behind != NO_SEGMENT}
        for thread in lowered.threads:
            env.process(self._issue(thread))

    def _issue(self, thread: int) -> simpy.events.ProcessGenerator:
        """Make the calls of one thread.

        The calls of a segment are made at once. Only the last one may wait, so the times of all are known as soon as
        the first is made, and the card gets each op with its own time. A call that has nothing to wait for does not
        hold the thread: the next segment follows at the same tick, before the engines choose.
        """
        now, end, returned = self._lowered.launch, self._times.end, self._times.returned
        for number, segment in enumerate(self._lowered.segments):
            if segment.thread != thread:
                continue
            now = self._call(segment, now)
            running = [op for op in segment.waits_for if end[op] < 0]
            if running:
                yield self._held(self._card.all_end(running))
            for op in segment.waits_for:  # the last call returns when the host has heard of all that it waits for
                now = max(now, end[op] + self._lowered.wake)
            if segment.behind != NO_SEGMENT:
                yield self._held(self._known[segment.behind])
                now = max(now, returned[self._lowered.segments[segment.behind].last - 1])
            returned[segment.last - 1] = now
            if number in self._known:
                self._known[number].succeed()
        self._card.settle()

    def _held(self, until: simpy.Event) -> simpy.Event:
        """Return ``until``. If it has not happened, let the engines choose: the thread calls no more at this tick."""
        if not until.processed:
            self._card.settle()
        return until

    def _call(self, segment: Segment, now: int) -> int:
        """Make a segment's calls one after another from ``now`` on. Return the tick at which the last one returns."""
        issued, returned, call = self._times.issued, self._times.returned, self._lowered.call
        for op in range(segment.first, segment.last):
            issued[op] = now
            now += call[op]
            returned[op] = now
        self._card.submit(segment.first, segment.last)
        return now
