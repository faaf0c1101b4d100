"""One run of a host and a card in a SimPy environment, and its time line."""

from array import array
from pathlib import Path

import simpy

from streamsim.device import Device, as_device
from streamsim.lowering import Lowered, lower
from streamsim.model.card import Card
from streamsim.model.host import Host
from streamsim.model.times import Times, complete_events
from streamsim.program import Schedule
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
    times = Times.of(len(lowered.kind))
    card = Card(env, lowered, times)
    Host(env, lowered, times, card)
    env.run()
    complete_events(times, lowered)
    return timeline_of(lowered, times)


def timeline_of(lowered: Lowered, times: Times) -> Timeline:
    """Return the time line of a run of either model."""
    engine: array[int] = lowered.engine()
    return Timeline(lowered.schedule, lowered.engine_names, engine, *times, device=lowered.device)
