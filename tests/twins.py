"""Both models of one thing: what the tests of the compiled twin hold against each other."""

import pytest
from effort import THOROUGH

from streamsim import model
from streamsim.compiled import available, simulate_one_of_many
from streamsim.device import Device, device_names
from streamsim.program import Config, Schedule, Workload
from streamsim.timeline import Timeline

compiled = pytest.mark.skipif(not available(), reason="numba is not installed")
# Shipped devices: in an ordinary run one for each kind of copy engines and queues, a crowding one, and the newest.
DEVICES = (
    device_names() if THOROUGH else ["c1060", "c2050", "h200", "ideal", "ideal-one-copy-engine", "k20c", "rtx5090"]
)
ALWAYS = 1 << 60  # schedules of a job that the compiled model does
COLUMNS = ("issued", "returned", "ready", "start", "end", "engine")


def simulate(schedule: Schedule, device: Device) -> Timeline:
    """The compiled model's time line."""
    return simulate_one_of_many(schedule, device, ALWAYS)


def assert_same(schedule: Schedule, device: Device) -> Timeline:
    """Both models on a schedule; every column of their time lines."""
    expected, found = model.simulate(schedule, device), simulate(schedule, device)
    assert found.engine_names == expected.engine_names
    for column in COLUMNS:
        assert getattr(found, column) == getattr(expected, column), column
    return found


def by_simpy(workload: Workload, way: Config, device: Device) -> int:
    """The tick at which the last copy or kernel of the schedule ends."""
    timeline = model.simulate(way.schedule(workload), device)
    return max(end for end, engine in zip(timeline.end, timeline.engine, strict=True) if engine >= 0)
