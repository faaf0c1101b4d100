"""When everything happens to the ops of a schedule, in whole ticks: what a run writes down as it goes."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from streamsim.lowering.costs import KERNEL, NOTHING, event_ticks
from streamsim.rules.hand_overs import crossing

if TYPE_CHECKING:
    from streamsim.lowering.lowered import Lowered

NOT_YET = -1


class Times(NamedTuple):
    """Indexed by op: the host's call begins and returns, the op is ready, starts on its engine, and ends."""

    issued: array[int]
    returned: array[int]
    ready: array[int]
    start: array[int]
    end: array[int]

    @classmethod
    def of(cls, ops: int) -> Times:
        """Of so many ops to which nothing has happened yet."""
        issued, returned, start, end = (array("q", [NOT_YET]) * ops for _ in range(4))
        return cls(issued, returned, array("q", [0]) * ops, start, end)


def complete_events(times: Times, lowered: Lowered) -> None:
    """Events and host calls occupy no engine: a call completes on return, an event with what it stands for.

    Like any op an event is not on the card before its call has been submitted, and it hears of another stream's ops
    as late as a kernel that waits for them.
    """
    for op, kind in enumerate(lowered.kind):
        if kind == NOTHING:
            done = times.returned[op]
            if op in lowered.frontier:
                done = max(done + lowered.submit, _heard(times, lowered, op))
            times.ready[op] = times.start[op] = times.end[op] = done


def _heard(times: Times, lowered: Lowered, event: int) -> int:
    """When an event knows of the ends of all that it stands for: no engine has to come to it through other queues."""
    ops, kind, other = lowered.schedule.ops, lowered.kind, event_ticks(lowered.device)
    heard = 0
    for op in lowered.frontier[event]:
        own = ops[op].stream == ops[event].stream
        late = 0 if own else crossing(lowered.hand_over, kind[op], KERNEL, other)
        heard = max(heard, times.end[op] + late)
    return heard
