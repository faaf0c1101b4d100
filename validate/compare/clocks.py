"""Predictions of what the two clocks of a measurement show of a schedule on a device."""

from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.program import RecordEvent, Schedule
from streamsim.rules import TICKS_PER_S
from streamsim_validate.records import with_timing_events


def predict_device_s(schedule: Schedule, device: Device) -> float:
    """Return what the timing events would show: from the end of the start event to the end of the stop event.

    A graph's events stand just before and after its launch: its time is its makespan.
    """
    timed = with_timing_events(schedule)
    timeline = simulate_one_of_many(timed, device)
    if timed.launch == "graph":
        return timeline.makespan_s
    start, stop = schedule.events, schedule.events + 1
    ends = {op.event: timeline.end[i] for i, op in enumerate(timed.ops) if isinstance(op, RecordEvent)}
    return (ends[stop] - ends[start]) / TICKS_PER_S


def predict_wall_s(schedule: Schedule, device: Device) -> float:
    """Return the seconds from the first call until the synchronisation behind the last one returns."""
    return simulate_one_of_many(schedule, device).host_s
