"""A whole time line from the compiled loop."""

from array import array

import numpy as np

import streamsim.model
from streamsim.compiled import loop
from streamsim.compiled.records import flatten
from streamsim.compiled.tables import new_state
from streamsim.lowering import Lowered
from streamsim.model import Times, complete_events, timeline_of
from streamsim.timeline import Timeline


def run(lowered: Lowered) -> Timeline:
    """Return the time line of a lowered schedule, equal to that of ``streamsim.model.run``."""
    arrays = flatten(lowered)
    if arrays is None:  # SimPy counts in Python's integers
        return streamsim.model.run(lowered)
    rows = np.full((5, len(lowered.kind)), -1, np.int64)
    loop.run(*arrays, new_state(lowered.device, len(arrays.ops)), rows)
    times = Times(*(array("q", row.tobytes()) for row in rows))
    complete_events(times, lowered)
    return timeline_of(lowered, times)
