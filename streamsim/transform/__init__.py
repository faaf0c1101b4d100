"""The same work issued in another way: each change of a program makes a schedule that could be run in its place.

``changes`` are all of them by name, each of a ``Work``: a program on its device. ``work`` says what single ops and
streams are, too. ``dependences`` says what ops need of each other, which of them make a chunk, and issues them anew,
free of races. ``chunks`` deals chunks or steps out, cuts them, and copies ahead. The ``guard`` says which
orders a change has lost, and the condition for each. ``calls_and_memory`` changes how the host calls and loads, and
where its memory is, and captures parts. ``steps`` reads a program as a workload again, or as a training loop.
"""

from streamsim.transform.calls_and_memory import (
    allocates,
    bounced,
    enough_workers,
    has_host_waits,
    has_pageable,
    holds_host,
    pinned,
    slow_calls,
)
from streamsim.transform.changes import (
    ISSUE_ORDERS,
    SAME_CALLS,
    TO_BE_SAID,
    Change,
    Changed,
    Undo,
    changed,
    changed_by,
    in_making_order,
)
from streamsim.transform.chunks import in_chunks, in_pieces, in_streams, prefetched, with_buffers
from streamsim.transform.dependences import IN_ROUNDS, Dependences, dependences_of, still_ordered
from streamsim.transform.guard import INDEPENDENT, NEEDS_NO_LEGACY, ORDERS_NO_STREAMS
from streamsim.transform.steps import chunk_count, has_more, is_recorded, loop_of, repeated_step, steps_of, waits_for
from streamsim.transform.work import (
    COPIES_BACK,
    NON_BLOCKING,
    LayersSource,
    LoopSource,
    Origin,
    Source,
    Work,
    has_legacy,
    is_load,
    is_of_a_call,
    is_work,
    last_work,
    names_memory,
    stage_of,
    without_legacy,
    working_streams,
)
