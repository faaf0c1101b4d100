"""The records of whole numbers on which the compiled loop works, and lowered schedules as such records.

Every number is an int64, or fits into one. :func:`flatten` leaves out programs for which this is not enough.
"""

from collections import namedtuple
from dataclasses import astuple, fields
from typing import Any

import numpy as np

from streamsim.device import Device
from streamsim.errors import LARGEST_BYTES
from streamsim.lowering import Lowered, OpCost, Segments, copy_rate, hand_over_table, surcharges_of
from streamsim.program import Launch
from streamsim.rules import (
    CROWD,
    KERNEL,
    MANY,
    MOST_QUEUES,
    NEVER,
    NOTHING,
    PACES,
    Arbiter,
    Caller,
    Head,
    Surcharges,
    new_arbiter,
    ticks,
)

Array = np.ndarray[Any, Any]

NONE = -1  # no op, no queue
COME = 1 << 30  # added to the number of copies that a kernel waits for, once the card has it
NOT_YET = -1  # used as a tick
ENDED = -1  # used as a number of pending waits
H2D, D2H, COMPUTE = 0, 1, 2  # engines; a single copy engine is the first, and without one the first runs all
ENGINES = 3
QUEUES = MOST_QUEUES  # places for an engine's heads; the last engine in use has more


def _record(whole: str, i4: str = "", u1: str = "", **tables: int) -> np.dtype[Any]:
    """Return a type of records: int64 fields, then tables of so many int64, then shorter fields."""
    kinds = {"i8": whole, "i4": i4, "u1": u1}
    first, *rest = [[(name, kind) for name in names.split()] for kind, names in kinds.items()]
    wide = [(name, "i8", count) for name, count in tables.items()]
    return np.dtype([*first, *wide, *(field for fields in rest for field in fields)], align=True)


CARD = _record("submit wake linked crowds concurrent copy_connections kernel_connections")
# drain: ticks from the end of a kernel's work to its end. number: the number of a workload's kernel name, from 1. idle:
# the idle share of the card, if 0 to PACES PACES-ths of its threads are held. latency: alone, for each level of
# crowding; then beside a copy in the other direction.
COST = _record(
    "kind call duration units alone shared fill threads warps drain number holds", idle=PACES + 1, latency=2 * CROWD
)
# tick: when the op is ready, so far; after its end, its end. arrival: when the card has it; NEVER before its call.
# after, behind: the next op of its stream and of its hardware queue, or NONE. extra: the first of the other waits for
# it, in the table of these, or NONE. pending: the number of things that it waits for, or ENDED. copies: of a kernel,
# how many of them are copies on another engine, and COME. place: its hardware queue: engine * QUEUES + queue.
# awaited: a thread of the host waits for it.
OP = _record("tick arrival", i4="after behind extra cost pending copies", u1="kind place awaited")
# A segment of a thread's calls, first to last, and the ops that it waits for: waits[waits_from:waits_to]. returned: the
# tick at which its last call returns, if known, else NOT_YET. behind: a segment of another thread that it waits for, or
# NONE. next: the next segment of its thread, or NONE.
SEGMENT = _record("returned", i4="first last waits_from waits_to behind next")
# A thread of the host: its segment, whether it has made the segment's calls, for how many ops it still waits, and when
# its last call returns, so far.
THREAD = _record("segment called awaited returns")
# A wait of an op for another op, apart from the order in its stream. crosses: the other op is in another stream, behind
# an event. next: another wait for the same op, or NONE. While a program is laid out: before: the other op; source: its
# stream; beside: another wait of the waiting op, or NONE.
EXTRA = _record("", i4="op crosses next before source beside")
ENGINE = _record(f"heads {' '.join(field.name for field in fields(Arbiter))}")  # heads: how many its queues have
HEAD = _record(" ".join(field.name for field in fields(Head)))
# end: the end of its work; warps: its threads while the card is divided by warps, 0 once it has its share.
RUNNING = _record("op cost since share end left warps")
DRAINING = _record("op tick")  # a kernel whose work is done, and when it ends
ARRIVING = _record("op tick")  # a kernel that waits for copies, and when the card has it
# A way to cut and issue a workload. passes_from, passes_to: the passes of its loop; runs_from, runs_to: the runs of its
# chunks; once: the first cost of what is copied once; behind: the distance from a kernel's cost to the cost that it
# has right behind another kernel of its stream in a graph; record, wait: their costs; launch: ticks before the first
# call. Then the surcharges of calls.
CONFIG = _record(
    "roles graph chunks streams slots passes_from passes_to runs_from runs_to once behind record wait launch"
    f" {' '.join(Surcharges._fields)} hand_overs"
)
# A pass over the chunks: its bodies; once: it has one round; follows: one of its bodies follows; later: it comes after
# the first pass of a program with kernels. A body: its steps, and whether it follows. A step: what it does; its stream
# (below 0: the chunk's turn); its jobs of a chunk; its event, and the distance to the event's chunk; between: only if
# the streams differ.
PASS = _record("first last once follows later")
BODY = _record("first last follows")
STEP = _record("does stream begin end event distance between")
BUFFERS = -1  # used as a distance: the number of buffers
# The state while a program is laid out: the numbers of ops, segments and waits; the chunk for which the host entered a
# stream; whether the next op is the first of its chunk; the host's calls. For each body: the next stream, and the run
# of its chunk.
AT = _record(f"ops segments waits chunk leads {' '.join(field.name for field in fields(Caller))}")
CHUNK = _record("stream run")
EVENT = _record("", i4="op stream")
# Equal chunks in a row: the one behind the last, the first cost of their ops, ticks of host work before each, and
# whether they have a piece of any array.
RUN = _record("end row work pieces")


def new_state(device: Device, kernels: int) -> tuple[Array, ...]:
    """Return scratch for one run at a time with at most ``kernels`` kernels.

    It holds engines, heads, and kernels that run, drain and arrive; and the engines before a run. Kernels without a
    queue are heads, too, at most all of them. Their places are behind those of the last engine in use.
    """
    profiles = device.copy_engines, device.copy_engines, device.compute
    return (
        np.zeros(ENGINES, ENGINE),
        np.zeros(ENGINES * QUEUES + kernels, HEAD),
        np.zeros(device.compute.concurrent_kernels, RUNNING),
        np.empty(kernels, DRAINING),  # memory that is never written costs nothing
        np.empty(kernels, ARRIVING),
        np.array([(0, *astuple(new_arbiter(profile.arbitration))) for profile in profiles], ENGINE),
    )


ENGINE_OF_KIND = {0: (0, 0, 0, 0), 1: (0, 0, 2, 0), 2: (0, 1, 2, 0)}  # of each kind, by number of copy engines
ROLES = 3  # most streams with roles
LARGEST = NEVER // 2  # limit of ticks, and of the products from which they are computed
# Programs with equal hand-overs: launch, streams, and streams with kernels. First a graph, then 0 to MANY streams, then
# 0 to ROLES streams with roles, one of which runs the kernels.
GRAPH, ISSUED, WITH_ROLES = 0, 1, 2 + MANY
PROGRAMS: tuple[tuple[Launch, int, int], ...] = (
    ("graph", 1, 1),
    *(("live", streams, streams) for streams in range(MANY + 1)),
    *(("live", streams, 1) for streams in range(ROLES + 1)),
)


# The arguments of ``loop.run_loop``, without its scratch and its results.
LoopArguments = namedtuple("LoopArguments", "card hand_over costs ops calls threads segments waits extra")


def card_of(device: Device) -> np.void:
    """Return the device's record.

    ``linked`` and ``crowds`` are those of the copies that feel other work most. For the others, the loop finds the same
    ticks whether it looks at other work or not.
    """
    rates = [copy_rate(link, LARGEST_BYTES) for link in (device.h2d, device.d2h)]
    copies, record = device.copy_engines, np.zeros(1, CARD)
    record[0] = (
        ticks(device.host.submit_s),
        ticks(device.host.wake_s),
        copies.count == 2 and any(rate.feels_the_other_direction for rate in rates),
        copies.count > 0 and any(rate.feels_crowds for rate in rates),
        device.compute.concurrent_kernels,
        copies.connections,
        device.connections,
    )
    return record[0]  # type: ignore[no-any-return]


def engine_of_kind(device: Device) -> Array:
    """Return the engine of each kind of op."""
    return np.array(ENGINE_OF_KIND[device.copy_engines.count], np.uint8)


def hand_overs_of(device: Device) -> Array:
    """Return the ticks from kind to kind, for each of ``PROGRAMS``."""
    return np.array([hand_over_table(device.hand_over, *program) for program in PROGRAMS], np.int64)


def overhead_of(device: Device) -> int:
    """Return the most ticks that an op takes beyond its call and its engine."""
    host, compute = device.host, device.compute
    between = max(hand_over_table(device.hand_over, "live", MANY, MANY))
    calls = sum(surcharges_of("live", device))
    return between + calls + sum(map(ticks, (host.submit_s, host.wake_s, compute.floor_s, compute.graph_gap_s)))


def most_ticks(cost: OpCost, overhead: int) -> int:
    """Return the most that an op adds to any tick; above LARGEST if its products exceed an int64.

    The model's numbers have no such limit. Work on the card is counted in ticks times fill, and bytes that may flow
    during a latency in ticks times rate.
    """
    rate = cost.rate
    if cost.kind == KERNEL:
        return max(cost.duration + cost.call + overhead, cost.busy * cost.fill)
    latency = rate.duplex_latency[-1]  # the longest one
    if (latency + overhead) * rate.alone > LARGEST:
        return LARGEST + 1
    return latency - -cost.units // rate.shared + cost.call + overhead


def cost_row(cost: OpCost, number: int = 0) -> tuple[Any, ...]:
    """Return a cost as a record; ``number``: the number of its kernel's name in a workload, from 1."""
    rate = cost.rate
    costs = cost.kind, cost.call, cost.duration, cost.units, rate.alone, rate.shared
    of_card = cost.fill, cost.threads, cost.warps, cost.drain
    return (*costs, *of_card, number, cost.holds, cost.idle, rate.latency + rate.duplex_latency)


def flatten(lowered: Lowered) -> LoopArguments | None:
    """Return a lowered schedule as records, or None if its ticks exceed an int64."""
    device, overhead = lowered.device, overhead_of(lowered.device)
    most = max(most_ticks(cost, overhead) for cost in lowered.costs)  # whatever the ops wait for
    if lowered.launch + sum(lowered.call) + len(lowered.kind) * most > LARGEST:
        return None
    ops = np.zeros(len(lowered.kind), OP)
    ops["after"] = lowered.after
    ops["cost"] = lowered.cost
    ops["arrival"] = NEVER
    ops["pending"] = lowered.pending
    ops["kind"] = np.frombuffer(lowered.kind, np.uint8)
    ops["place"] = engine_of_kind(device)[ops["kind"]] * QUEUES + np.frombuffer(lowered.queue, np.uint8)
    _queue_up(ops, lowered.runs_on)
    costs = np.array([cost_row(cost) for cost in lowered.costs], COST)
    calls = np.frombuffer(lowered.call, np.int64)
    firsts = np.sort(np.unique(np.frombuffer(lowered.segments.thread, np.intc), return_index=True)[1])
    threads = np.array([(first, 0, 0, lowered.launch) for first in firsts], THREAD)
    host = threads, *_segments(lowered.segments)
    hand_over = np.array(lowered.hand_over, np.int64)
    return LoopArguments(card_of(device), hand_over, costs, ops, calls, *host, _extra(lowered, ops))


def _queue_up(ops: Array, runs_on: frozenset[int]) -> None:
    """Let each op of a hardware queue wait until the op before it is dispatched."""
    queued = ops["kind"] != NOTHING
    queued[list(runs_on)] = False
    work = np.flatnonzero(queued)
    behind = np.append(work, NONE)[_next_alike(ops["place"][work])]
    ops["behind"] = NONE
    ops["behind"][work] = behind
    ops["pending"][behind[behind != NONE]] += 1


def _next_alike(column: Array) -> Array:
    """Return, for each row, the next row with the same entry, or NONE."""
    order = np.argsort(column, kind="stable")
    same = np.diff(column[order]) == 0
    found = np.full(len(column), NONE)
    found[order[:-1][same]] = order[1:][same]
    return found


def _segments(segments: Segments) -> tuple[Array, Array]:
    """Return the segments, and the ops that they wait for, one after another."""
    found = np.empty(len(segments), SEGMENT)
    found["returned"] = NOT_YET
    found["last"], found["behind"], found["waits_to"] = segments.last, segments.behind, segments.waits_to
    for begins, ends in (("first", "last"), ("waits_from", "waits_to")):
        found[begins][:1], found[begins][1:] = 0, found[ends][:-1]
    found["next"] = _next_alike(np.frombuffer(segments.thread, np.intc))
    return found, np.array(segments.waits, np.int32)


def _extra(lowered: Lowered, ops: Array) -> Array:
    """Return the other waits for ops, and link them from ``ops``; see EXTRA."""
    stream = np.frombuffer(lowered.stream, np.intc)
    before, waiting = (np.array(column, np.intc) for column in lowered.extra)
    by_op = np.argsort(before, kind="stable")
    before = before[by_op]
    firsts = np.flatnonzero(np.diff(before, prepend=NONE))
    ops["extra"] = NONE
    ops["extra"][before[firsts]] = firsts
    extra = np.zeros(len(by_op), EXTRA)
    extra["op"] = waiting[by_op]
    extra["crosses"] = stream[extra["op"]] != stream[before]
    extra["next"] = np.arange(1, len(extra) + 1)
    extra["next"][firsts[1:] - 1] = NONE
    extra["next"][-1:] = NONE
    return extra
