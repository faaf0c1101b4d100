"""One run of a host and a card in a SimPy environment, and its time line."""

from array import array
from itertools import compress, count
from pathlib import Path

import simpy

from streamsim import rules
from streamsim.device import Device, as_device
from streamsim.lowering import NO_SEGMENT, Lowered, Segment, hand_over_table, lower
from streamsim.model.card import CardModel, OpTimes, add_engines
from streamsim.program import Schedule
from streamsim.rules import KERNEL, KINDS, NOTHING
from streamsim.timeline import Timeline


def simulate(schedule: Schedule, device: Device | str | Path) -> Timeline:
    """Predict when every op of ``schedule`` runs on ``device`` (a Device, or the name or file of one).

    The same input always gives the same result. Raises InputError for an unknown device, and for a kernel whose time
    neither the schedule nor the device knows.
    """
    return run(lower(schedule, as_device(device)))


def run(lowered: Lowered) -> Timeline:
    """Predict when every op of a lowered schedule runs."""
    env = simpy.Environment()
    times = OpTimes.of(len(lowered.kind))
    card = CardModel(env, lowered, times)
    add_engines(card)
    HostThreads(env, lowered, times, card)
    env.run()
    complete_events(times, lowered)
    return timeline_of(lowered, times)


class HostThreads:
    """The threads of the host. Each makes one call after another, and some calls hold it until the card is done."""

    def __init__(self, env: simpy.Environment, lowered: Lowered, times: OpTimes, card: CardModel) -> None:
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
            for op in segment.waits_for:  # the last call returns when the host knows that all of these have ended
                if end[op] < 0:
                    yield self._held(self._card.end_of(op))
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


def complete_events(times: OpTimes, lowered: Lowered) -> None:
    """Set the times of events and host calls, which occupy no engine.

    A call completes when it returns, and an event when the ops before it have ended. An event is on the card a little
    after its call, as any op. It hears of another stream's ops as late as a kernel that waits for them.
    """
    kinds, stream, frontier, submit = lowered.kind, lowered.stream, lowered.frontier, lowered.submit
    _, returned, ready, start, end = times
    # No queue is in the way of an event. By kind of op: the hand-over from another stream's op.
    alone = hand_over_table(lowered.device.hand_over, lowered.schedule.launch)
    late = [rules.crossing(alone, kind, KERNEL, 1) for kind in range(KINDS)]
    for op in compress(count(), map(NOTHING.__eq__, kinds)):
        done = returned[op]
        if op in frontier:
            done = arrival = done + submit
            for earlier in frontier[op]:
                hand_over = late[kinds[earlier]] if stream[earlier] != stream[op] else 0
                done = max(done, rules.release_tick(end[earlier], hand_over, arrival))
        ready[op] = start[op] = end[op] = done


def timeline_of(lowered: Lowered, times: OpTimes) -> Timeline:
    """Return the time line of a run of either model."""
    engine: array[int] = lowered.engine()
    return Timeline(lowered.schedule, lowered.engine_names, engine, *times, device=lowered.device)
