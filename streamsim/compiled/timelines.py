"""A whole time line from the compiled loop."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

import streamsim.model
from streamsim.compiled.loop import run
from streamsim.compiled.records import flatten
from streamsim.compiled.tables import new_state
from streamsim.lowering.lowered import lower
from streamsim.model.simulation import timeline_of
from streamsim.model.times import Times, complete_events

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.program.schedule import Schedule
    from streamsim.timeline.timeline import Timeline


def simulate(schedule: Schedule, device: Device) -> Timeline:
    """See :func:`streamsim.compiled.simulate`."""
    lowered = lower(schedule, device)
    arrays = flatten(lowered)
    if arrays is None:  # SimPy counts in Python's integers
        return streamsim.model.run(lowered)
    rows = np.full((5, len(schedule.ops)), -1, np.int64)
    run(*arrays, new_state(device, len(arrays.ops)), rows)
    times = Times(*(array("q", row.tobytes()) for row in rows))
    complete_events(times, lowered)
    return timeline_of(lowered, times)
