"""One run: a host and a card on one SimPy environment, and the time line that they leave."""

from pathlib import Path
from typing import TYPE_CHECKING

import simpy

from streamsim.device.library import as_device
from streamsim.device.profile import Device
from streamsim.lowering.lowered import Lowered, lower
from streamsim.model.card import Card
from streamsim.model.host import Host
from streamsim.model.times import Times, complete_events
from streamsim.program.schedule import Schedule
from streamsim.timeline.timeline import Timeline

if TYPE_CHECKING:
    from array import array


def simulate(schedule: Schedule, device: Device | str | Path) -> Timeline:
    """Predict when every op of ``schedule`` runs on ``device``: a Device, or the name or file of one.

    Deterministic. Raises InputError for an unknown device, and when it has no cost for a kernel that the schedule
    names.
    """
    return run(lower(schedule, as_device(device)))


def run(lowered: Lowered) -> Timeline:
    """Predict when every op of a schedule that has been made ready for a device runs."""
    env = simpy.Environment()
    times = Times.of(len(lowered.kind))
    card = Card(env, lowered, times)
    Host(env, lowered, times, card)
    env.run()
    complete_events(times, lowered)
    return timeline_of(lowered, times)


def timeline_of(lowered: Lowered, times: Times) -> Timeline:
    """The time line of a run, whichever model it was that ran."""
    engine: array[int] = lowered.engine()
    return Timeline(lowered.schedule, lowered.engine_names, engine, *times, device=lowered.device)
