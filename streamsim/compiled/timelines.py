"""A whole time line from the compiled loop."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

import streamsim.model
from streamsim.compiled.loop import new_state, run
from streamsim.compiled.records import flatten
from streamsim.lowering.lowered import lower
from streamsim.model import complete_events
from streamsim.timeline.timeline import Timeline

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.program.schedule import Schedule


def simulate(schedule: Schedule, device: Device) -> Timeline:
    """See :func:`streamsim.compiled.simulate`."""
    program = lower(schedule, device)
    arrays = flatten(program)
    if arrays is None:  # SimPy counts in Python's integers
        return streamsim.model.simulate(schedule, device)
    times = np.full((5, len(schedule.ops)), -1, np.int64)
    run(*arrays, new_state(device.compute.concurrent_kernels, len(arrays.ops)), times)
    issued, returned, ready, start, end = (array("q", row.tobytes()) for row in times)
    engine = program.engine()
    timeline = Timeline(schedule, program.engine_names, engine, issued, returned, ready, start, end, program)
    complete_events(timeline, program)
    return timeline
