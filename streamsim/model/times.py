"""The ticks at which each op is issued, starts and ends. A run writes them."""

from __future__ import annotations

from array import array
from itertools import compress, count
from typing import NamedTuple

from streamsim.lowering import KERNEL, NOTHING, Lowered, hand_over_table
from streamsim.rules import KINDS, crossing, heard

NOT_YET = -1


class Times(NamedTuple):
    """Ticks by op: its call begins and returns, the op is ready, starts on its engine, and ends."""

    issued: array[int]
    returned: array[int]
    ready: array[int]
    start: array[int]
    end: array[int]

    @classmethod
    def of(cls, ops: int) -> Times:
        """Return the times of ``ops`` ops to which nothing has happened yet."""
        issued, returned, start, end = (array("q", [NOT_YET]) * ops for _ in range(4))
        return cls(issued, returned, array("q", [0]) * ops, start, end)


def complete_events(times: Times, lowered: Lowered) -> None:
    """Set the times of events and host calls, which occupy no engine.

    A call completes when it returns, and an event when the ops before it have ended. An event is on the card a little
    after its call, as any op. It hears of another stream's ops as late as a kernel that waits for them.
    """
    kinds, stream, frontier, submit = lowered.kind, lowered.stream, lowered.frontier, lowered.submit
    _, returned, ready, start, end = times
    # No queue is in the way of an event. By kind of op: the hand-over from another stream's op.
    alone = hand_over_table(lowered.device.hand_over, lowered.schedule.launch)
    late = [crossing(alone, kind, KERNEL, 1) for kind in range(KINDS)]
    for op in compress(count(), map(NOTHING.__eq__, kinds)):
        done = returned[op]
        if op in frontier:
            done = comes = done + submit
            for earlier in frontier[op]:
                hand_over = late[kinds[earlier]] if stream[earlier] != stream[op] else 0
                done = max(done, heard(end[earlier], hand_over, comes))
        ready[op] = start[op] = end[op] = done
