"""What launching a graph costs, whatever is in it."""

import oracle
from effort import examples
from hypothesis import given
from strategies import devices, schedules

from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import Copy, Schedule


@examples(100)
@given(schedules(launch="graph"), devices())
def test_a_launch_takes_its_copies_and_nothing_for_the_rest(schedule: Schedule, device: Device) -> None:
    """Kernels and events go with the copies."""
    node = oracle.in_ticks(device.host.graph_node_s)
    timeline = simulate(schedule, device)
    for op, issued, returned in zip(schedule.ops, timeline.issued, timeline.returned, strict=True):
        assert returned - issued == node * isinstance(op, Copy) or not oracle.is_in_stream(op)
