"""Schedules made ready for a device: the ticks that each op takes alone, and the ops that it waits for.

This room reads schedules and profiles. The rules of the card and the host are in :mod:`streamsim.rules`.
"""

from streamsim.lowering.costs import (
    BYTE_BITS,
    COPIES,
    ChunkCosts,
    OpCost,
    Rate,
    call_ticks,
    copy_rate,
    hand_over_table,
    kernel_call,
    kernel_cost,
    rate_of,
    surcharges_of,
)
from streamsim.lowering.lowered import ENGINES, NO_OP, NO_SEGMENT, Lowered, QueueOwners, Segment, Segments, lower
