"""The same work issued in another way: each change of a program makes a schedule that could be run in its place.

``changes`` are all of them by name, each of a ``scenario``: a program and its device.
``dependences`` says what ops need of each other, and keeps changed schedules free of races. ``data_flow`` says which
data ops read of each other, and which ops make a chunk. ``steps`` says which ops make a step if no memory is named, and
``chunks`` chooses between the two. ``recut`` deals chunks out, cuts and merges them, ``pieces`` cuts and joins single
ops, and ``issue`` puts ops into a sequence and streams. The ``guard`` says which orders a change has lost, and the
condition for each. ``calls_and_memory`` changes how the host calls and where its memory is, and captures parts. A
``repeated_step`` is a program read as a workload again.
"""

from streamsim.transform.calls_and_memory import (
    allocates,
    bounced,
    has_host_waits,
    has_pageable,
    holds_host,
    pinned,
    slow_calls,
    unblocked,
)
from streamsim.transform.changes import (
    CAN_BE_CUT,
    IN_TIME,
    ISSUE_ORDERS,
    SAME_CALLS,
    TO_BE_SAID,
    Change,
    Changed,
    changed_by,
    chunks,
    drop_sync,
    graph,
    in_making_order,
    keep,
    kernels,
    listed,
    make_async,
    pin,
    pool,
    prefetch,
    streams,
)
from streamsim.transform.chunks import chunk_count, in_chunks
from streamsim.transform.dependences import IN_ROUNDS, Dependences, dependences_of, still_ordered
from streamsim.transform.guard import INDEPENDENT, NEEDS_NO_LEGACY, ORDERS_NO_STREAMS
from streamsim.transform.legacy_stream import has_legacy
from streamsim.transform.ops import (
    COPIES_BACK,
    NON_BLOCKING,
    is_of_a_call,
    is_work,
    last_work,
    names_memory,
    stage_of,
    working_streams,
)
from streamsim.transform.recut import Recut
from streamsim.transform.repeated_step import has_more, is_recorded, repeated_step
from streamsim.transform.scenario import Case, LayersSource, LoopSource, Origin, Scenario, Source
from streamsim.transform.steps import in_pieces, over_streams, prefetched, steps_of
from streamsim.transform.workers import enough_workers
