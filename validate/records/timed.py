"""The schedule of each time of a record: the closed one for the host's times, the timed one for the device's."""

import msgspec

from streamsim.program import Op, RecordEvent, Schedule, Synchronize, WaitEvent, remembered


def closed(schedule: Schedule) -> Schedule:
    """Return the schedule with a synchronisation of the whole device at its end."""
    if schedule.ops[-1] == Synchronize():
        return schedule
    return msgspec.structs.replace(schedule, ops=(*schedule.ops, Synchronize()))


@remembered
def with_timing_events(schedule: Schedule) -> Schedule:
    """Return the schedule as a timed program issues it, closed.

    Event ``schedule.events`` is recorded first, in the first stream used, and every other stream waits for it. Before
    the closing synchronisation, the first stream waits for an event at the end of every other stream. Then event
    ``schedule.events + 1`` is recorded in the first stream. The device's time lies between the two. A graph is timed by
    events before and after its launch, so it is only closed.
    """
    schedule = closed(schedule)
    streams = schedule.used_streams
    if schedule.launch == "graph" or not streams:
        return schedule
    first, *others = streams
    start, stop = schedule.events, schedule.events + 1
    before: list[Op] = [RecordEvent(start, first), *(WaitEvent(start, stream) for stream in others)]
    after: list[Op] = []
    for event, stream in enumerate(others, stop + 1):
        after += (RecordEvent(event, stream), WaitEvent(event, first))
    cut = first_closing(schedule)
    return msgspec.structs.replace(
        schedule,
        ops=(*before, *schedule.ops[:cut], *after, RecordEvent(stop, first), *schedule.ops[cut:]),
        events=stop + 1 + len(others),
    )


def first_closing(schedule: Schedule) -> int:
    """Return the index of the first of the synchronisations that end the schedule."""
    first = len(schedule.ops)
    while first and isinstance(schedule.ops[first - 1], Synchronize):
        first -= 1
    return first
