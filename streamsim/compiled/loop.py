"""The event loop: what ``streamsim.model`` does, on records in place of objects, compiled by numba.

**Records** hold whole numbers. Every number is an int64, or fits into one; :func:`flatten` leaves out programs for
which this is not enough.

**The loop** has the rules of :mod:`streamsim.rules`, inlined by numba. The effects of a tick do not depend on the order
in which they are noticed, because every effect is a maximum, a count or a mark. So the loop first notes all that ends
at a tick. Then the host goes on, and then every engine chooses. The least of five ticks takes the place of SimPy's heap
of events.

Reference counts are off (``_nrt``), because counting references to the arrays would take most of the time. Indices that
are used often are unsigned, because numba checks the sign of signed ones, to count from the end.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.
# ruff: noqa: C901 (a loop keeps its state in local variables, for the compiler to keep in registers)

import hashlib
import warnings
from array import array
from collections import namedtuple
from collections.abc import Callable
from dataclasses import astuple, fields
from functools import cache
from importlib.resources import files
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit
from numba.core import event

import streamsim.model
from streamsim import rules
from streamsim.compiled import TO_TELL
from streamsim.device import Device
from streamsim.errors import LARGEST_BYTES
from streamsim.lowering import Lowered, OpCost, Segments, copy_rate, hand_over_table, surcharges_of
from streamsim.model import OpTimes, complete_events, timeline_of
from streamsim.program import Launch
from streamsim.rules import CROWD, FULL_CARD, KERNEL, MANY, NEVER, NO_HEAD, NOTHING, ticks
from streamsim.timeline import Timeline

Array = np.ndarray[Any, Any]

NONE = -1  # no op, no queue
COME = 1 << 30  # added to the number of copies that a kernel waits for, once the card has it
NOT_YET = -1  # used as a tick
ENDED = -1  # used as a number of pending waits
H2D, D2H, COMPUTE = 0, 1, 2  # engines; a single copy engine is the first, and without one the first runs all
ENGINES = 3
QUEUES = rules.MOST_QUEUES  # places for an engine's heads; the last engine in use has more


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
    "kind call duration units alone shared fill threads warps drain number holds",
    idle=rules.PACES + 1,
    latency=2 * CROWD,
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
ENGINE = _record(f"heads {' '.join(field.name for field in fields(rules.Arbiter))}")  # heads: how many its queues have
HEAD = _record(" ".join(field.name for field in fields(rules.Head)))
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
    f" {' '.join(rules.Surcharges._fields)} hand_overs"
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
AT = _record(f"ops segments waits chunk leads {' '.join(field.name for field in fields(rules.Caller))}")
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
        np.array([(0, *astuple(rules.new_arbiter(profile.arbitration))) for profile in profiles], ENGINE),
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


# The arguments of ``run_loop``, without its scratch and its results.
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


# Compilation


class _Begins(event.Listener):
    """Calls those who want to know when the model begins to be compiled; loading from numba's cache is none."""

    def on_start(self, _: Any) -> None:
        while TO_TELL:
            TO_TELL.pop()()

    def on_end(self, _: Any) -> None:
        pass


event.register("numba:compile", _Begins())  # type: ignore[no-untyped-call]
uintp = np.uintp
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
_cache = True

inlined: Any = njit(inline="always", **_OPTIONS)  # a function whose code is put in place of its calls
called: Any = njit(**_OPTIONS)  # a function that is compiled with its callers, once


@cache
def rule(function: Any) -> Any:
    """Return a function of :mod:`streamsim.rules` for compiled code, inlined with the rules that it calls.

    It looks its names up in a copy of its module's names, in which rules are compiled ones.
    """
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        other = names.get(name)
        if isinstance(other, FunctionType) and other.__module__ == "streamsim.rules":
            names[name] = rule(other)
    return inlined(FunctionType(function.__code__, names, function.__name__))


def sources() -> int:
    """Return a number that changes with the source of all that is compiled: rules, numbers, and this folder."""
    read = [file for room in ("rules", "compiled") for file in files(f"streamsim.{room}").iterdir()]
    read = sorted((file for file in read if file.name.endswith(".py")), key=str)
    digest = hashlib.sha256()
    for file in (*read, files("streamsim.lowering") / "costs.py"):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return int.from_bytes(digest.digest()[:7])  # within an int64


def compiled(make: Callable[[int], Any]) -> Any:
    """Return the compiled function that ``make`` makes, kept on disk if a folder can be written.

    To see whether code on disk is current, numba looks only at the function's own file and at the values that it closes
    over, not at inlined code. So ``make`` gets :func:`sources`, and its function closes over this number.
    """
    global _cache
    function = make(sources())
    assert function.__code__.co_freevars, "what is kept on disk names its sources"
    try:
        return njit(nogil=True, cache=_cache, **_OPTIONS)(function)
    except RuntimeError as error:
        if not _cache:
            raise
        _cache = False
        said = "numba cannot keep what it compiles, so that every run compiles it anew: set NUMBA_CACHE_DIR to a folder"
        warnings.warn(f"{said} that can be written ({error})", RuntimeWarning, stacklevel=2)
        return compiled(make)


choose, crossing, fitting, level, next_end = map(
    rule, (rules.choose, rules.crossing, rules.fitting, rules.level, rules.next_end)
)
release_tick, share_by_warps, share_in_order, suffices, ticks_for = map(
    rule, (rules.release_tick, rules.share_by_warps, rules.share_in_order, rules.suffices, rules.ticks_for)
)

# Hardware queues, as in :mod:`streamsim.model.card`. The heads of an engine's queues lie side by side, in any order;
# ``engine.heads`` is their number.


@inlined
def reset(engines, at_rest):
    """Empty all queues."""
    for k in range(ENGINES):
        engines[uintp(k)] = at_rest[uintp(k)]


@inlined
def release(ops, engines, heads, op, tick):
    """Note that one of the things that ``op`` waits for has come; the op cannot start before ``tick``."""
    waiting = ops[uintp(op)]
    if tick > waiting.tick:
        waiting.tick = tick
    left = waiting.pending - 1
    waiting.pending = left
    if left == 0:  # it is the head of its queue: ops wait for those ahead of them too
        place = np.int64(waiting.place)
        engine = engines[uintp(place // QUEUES)]
        head = heads[uintp(place // QUEUES * QUEUES + engine.heads)]
        head.ready = waiting.tick
        head.op = op
        head.queue = place % QUEUES
        engine.heads += 1
        if waiting.tick < engine.next:
            engine.next = waiting.tick


@inlined
def take(ops, engines, heads, engine, now, times):
    """Take the op that starts now out of its queue, and return it; NONE if no head is ready.

    The op behind it in the queue becomes the head.
    """
    own, first = engines[uintp(engine)], engine * QUEUES
    place = choose(own, heads, first, first + own.heads, now)
    if place == NO_HEAD:
        return NONE
    head = heads[uintp(place)]
    op = head.op
    own.heads -= 1
    last = heads[uintp(first + own.heads)]
    head.ready, head.op, head.queue = last.ready, last.op, last.queue
    if times is not None:
        times[2, op] = ops[uintp(op)].tick
        times[3, op] = now
    if ops[uintp(op)].behind >= 0:
        release(ops, engines, heads, ops[uintp(op)].behind, 0)
    return op


# Kernels that wait for copies, as in :class:`streamsim.model.card.Crowd`.


@inlined
def _waits_for_copy(op):
    """Note that ``op``, if it is a kernel, waits for one more copy; return the bit of its queue, 0 for other ops."""
    bit = np.int64(0)
    if op.kind == KERNEL:
        op.copies += 1
        bit = 1 << (np.int64(op.place) % QUEUES)
    return bit


@inlined
def count_copies(ops, extra):
    """Note for how many copies each kernel waits; return the number of queues with such kernels, at most CROWD."""
    queues = np.int64(0)
    for k in range(len(ops)):
        copy = ops[uintp(k)]
        if copy.kind < KERNEL:
            if copy.after >= 0:
                queues |= _waits_for_copy(ops[uintp(copy.after)])
            j = copy.extra
            while j >= 0:
                queues |= _waits_for_copy(ops[uintp(extra[uintp(j)].op)])
                j = extra[uintp(j)].next
    most = 0
    while queues and most < CROWD:
        queues &= queues - 1
        most += 1
    return most


@inlined
def arrive(arriving, issued, coming, kernel, tick):
    """Note that the card will have ``kernel``, which waits for copies, at ``tick``; return the number issued so far.

    ``arriving`` is in the order of ticks, which is the issue order if one thread issues.
    """
    at = issued
    while at > coming and arriving[uintp(at - 1)].tick > tick:
        before, new = arriving[uintp(at - 1)], arriving[uintp(at)]
        new.op, new.tick = before.op, before.tick
        at -= 1
    arriving[uintp(at)].op, arriving[uintp(at)].tick = kernel, tick
    return issued + 1


@inlined
def come(ops, arriving, issued, waiting, coming, now):
    """Count the waiting kernels that have come by ``now``; return their number, and the next kernel to come.

    ``arriving``: kernels that wait for copies, of which ``issued`` are issued so far.
    """
    while coming < issued and arriving[uintp(coming)].tick <= now:
        kernel = ops[uintp(arriving[uintp(coming)].op)]
        if kernel.copies > 0:
            kernel.copies += COME
            waiting += 1
        coming += 1
    return waiting, coming


@inlined
def copy_ended(ops, kernel):
    """Note the end of a copy that a kernel waits for; return True if the card has it and it waits for no other."""
    left = ops[uintp(kernel)].copies - 1
    ops[uintp(kernel)].copies = left
    return left == COME


# Kernels side by side, as in :class:`streamsim.model.card.ComputeEngine`.


@inlined
def _give(kernel, share, now):
    """Give a kernel this share of the card from now on."""
    if share != kernel.share:
        kernel.left -= kernel.share * (now - kernel.since)
        kernel.since = now
        kernel.share = share
        kernel.end = now + ticks_for(kernel.left, share)


@inlined
def _share(running, n, now, costs):
    """Divide the card among its kernels; return the room for one more, and the tick at which one's work is done."""
    end, room, held, shares = NEVER, FULL_CARD, 0, False
    for k in range(n):
        shares |= costs[uintp(running[uintp(k)].cost)].warps > 0
    if shares:
        room = _share_by_warps(running, n, now, costs)
    for k in range(n):
        kernel = running[uintp(k)]
        if not shares:
            cost = costs[uintp(kernel.cost)]
            held += cost.threads
            share = share_in_order(cost.fill, cost.threads, cost.idle, room, held)
            _give(kernel, share, now)
            room -= share
        end = min(end, kernel.end)
    return room, end


@inlined
def _share_by_warps(running, n, now, costs):
    """Divide the card by warps, and what a kernel cannot use among the others; return the room for threads."""
    room, held = FULL_CARD, 0
    for k in range(n):
        kernel = running[uintp(k)]
        cost = costs[uintp(kernel.cost)]
        kernel.warps = fitting(cost.warps if cost.warps else cost.threads, held)
        held += kernel.warps
    free = max(0, FULL_CARD - held)
    settles = True
    while settles:
        settles = False
        for k in range(n):
            kernel = running[uintp(k)]
            fill = costs[uintp(kernel.cost)].fill
            if kernel.warps and suffices(fill, kernel.warps, room, held):
                room -= fill
                held -= kernel.warps
                kernel.warps = 0
                _give(kernel, fill, now)
                settles = True
    for k in range(n):
        kernel = running[uintp(k)]
        if kernel.warps:
            _give(kernel, share_by_warps(kernel.warps, room, held), now)
    return free


@inlined
def start_kernel(running, n, op, row, now, costs):
    """Put a kernel on the card beside ``n`` others; return the room left, and the tick at which one's work is done."""
    kernel, cost = running[uintp(n)], costs[uintp(row)]
    busy = cost.duration - cost.drain
    kernel.op = op
    kernel.cost = row
    kernel.since = now
    kernel.left = busy * cost.fill
    if n == 0:  # it has the card to itself
        kernel.share, kernel.end = cost.fill, now + busy
        return FULL_CARD - (cost.warps if cost.warps else cost.fill), kernel.end
    kernel.share = 0
    return _share(running, n + 1, now, costs)


@inlined
def _drain(draining, first, last, op, tick):
    """Note when a kernel whose work is done will end, in draining[first:last], the next to end first.

    Kernels of one cost drain for the same time, so kernels are seldom moved.
    """
    k = last
    while k > first and draining[uintp(k - 1)].tick > tick:
        draining[uintp(k)].op, draining[uintp(k)].tick = draining[uintp(k - 1)].op, draining[uintp(k - 1)].tick
        k -= 1
    draining[uintp(k)].op, draining[uintp(k)].tick = op, tick


@inlined
def finish_kernels(running, n, now, draining, first, last, costs):
    """Take the kernels whose work is done off the card, and put them into draining[first:last].

    Return the number of kernels that stay, the two results of start_kernel, and the new ``last``.
    """
    if n == 1:
        _drain(draining, first, last, running[0].op, now + costs[uintp(running[0].cost)].drain)
        return 0, FULL_CARD, NEVER, last + 1
    kept = 0
    for k in range(n):
        kernel = running[uintp(k)]
        if kernel.end <= now:
            _drain(draining, first, last, kernel.op, now + costs[uintp(kernel.cost)].drain)
            last += 1
        else:
            if kept < k:
                place = running[uintp(kept)]
                place.op, place.cost, place.since = kernel.op, kernel.cost, kernel.since
                place.share, place.end, place.left = kernel.share, kernel.end, kernel.left
            kept += 1
    room, end = _share(running, kept, now, costs)
    return kept, room, end, last


@inlined
def next_drained(draining, first, last):
    """Return the tick at which the next draining kernel ends, or NEVER."""
    return draining[uintp(first)].tick if first < last else NEVER


# Copies, and the loop.


@inlined
def start_copy(copy, now, crowding, is_beside_another, linked):
    """Start a copy; return when it begins to flow, its units and rates (on a shared link), and when it ends (else)."""
    if linked:
        return now + copy.latency[crowding + CROWD * is_beside_another], copy.units, copy.alone, copy.shared, NEVER
    return NEVER, 0, 1, 1, now + copy.duration + copy.latency[crowding] - copy.latency[0]


@compiled
def run_loop(sources):
    """Make the loop. It is one long function, because its state is in its local variables."""

    def run_loop(card, hand_over, costs, ops, calls, threads, segments, waits, extra, state, times):
        """Run a program; return the tick at which the last copy or kernel ends, 0 if there is none.

        ``hand_over``: ticks from kind to kind; ``calls``: ticks of each call. The run changes ``ops``, ``threads`` and
        ``segments``. ``times``: int64 of cost (5, ops) for issued, returned, ready, start and end, or None to get only
        the makespan. ``state``: scratch from :func:`new_state`.
        """
        _ = sources
        engines, heads, running, draining, arriving, at_rest = state
        linked, crowds, most = card.linked, card.crowds, card.concurrent
        reset(engines, at_rest)
        op_a = op_b = NONE  # the copies on the copy engines, and their ends without a shared link
        end_a = end_b = copies_end = NEVER
        begins_a = begins_b = NEVER  # the flows on a shared link, counted up to `settled`
        left_a = left_b = then_a = then_b = settled = 0
        alone_a = alone_b = shared_a = shared_b = 1
        changed = False
        n_running, room, compute_end = 0, FULL_CARD, NEVER  # when the next kernel's work is done
        drained = drains = 0  # kernels that have ended, of those whose work is done; drain_end: when the next one ends
        drain_end = NEVER
        done_a = done_b = NONE  # copies that end at a tick
        waiting = arrivals = coming = most_queues = 0  # kernels that wait for copies: here, issued, come
        if crowds:
            most_queues = count_copies(ops, extra)
        go_on = True
        now = last_end = 0
        while True:
            while go_on:  # each thread issues until a call has to wait
                go_on = False
                for t in range(len(threads)):
                    thread = threads[uintp(t)]
                    while thread.awaited == 0 and thread.segment != NONE:
                        this = segments[uintp(thread.segment)]
                        if not thread.called:
                            thread.called = 1
                            returns = thread.returns
                            for op in range(this.first, this.last):
                                call = ops[uintp(op)]
                                if times is not None:
                                    times[0, op] = returns
                                returns += calls[uintp(op)]
                                if times is not None:
                                    times[1, op] = returns
                                if call.kind != NOTHING:
                                    arrival = call.arrival = returns + card.submit
                                    if crowds and call.copies > 0:
                                        arrivals = arrive(arriving, arrivals, coming, op, arrival)
                                    release(ops, engines, heads, op, arrival)
                            for k in range(this.waits_from, this.waits_to):
                                waited = ops[uintp(waits[uintp(k)])]
                                if waited.pending == ENDED:
                                    returns = max(returns, waited.tick + card.wake)
                                else:
                                    waited.awaited = 1
                                    thread.awaited += 1
                            thread.returns = returns
                            if thread.awaited:
                                break
                        if this.behind != NONE:
                            returned = segments[uintp(this.behind)].returned
                            if returned == NOT_YET:
                                break
                            thread.returns = max(thread.returns, returned)
                        this.returned = thread.returns
                        if times is not None:
                            times[1, this.last - 1] = thread.returns
                        thread.called = 0
                        thread.segment = this.next
                        go_on = len(threads) > 1  # another thread may have waited for this one

            # every engine chooses
            if op_a == NONE and engines[H2D].next <= now:
                op_a = take(ops, engines, heads, H2D, now, times)
                if op_a != NONE:
                    changed = True
                    if crowds:
                        waiting, coming = come(ops, arriving, arrivals, waiting, coming, now)
                    copy, crowding = costs[uintp(ops[uintp(op_a)].cost)], level(waiting, most_queues)
                    begins_a, left_a, alone_a, shared_a, end_a = start_copy(copy, now, crowding, op_b != NONE, linked)
            if op_b == NONE and engines[D2H].next <= now:
                op_b = take(ops, engines, heads, D2H, now, times)
                if op_b != NONE:
                    changed = True
                    if crowds:
                        waiting, coming = come(ops, arriving, arrivals, waiting, coming, now)
                    copy, crowding = costs[uintp(ops[uintp(op_b)].cost)], level(waiting, most_queues)
                    begins_b, left_b, alone_b, shared_b, end_b = start_copy(copy, now, crowding, op_a != NONE, linked)
            if changed:
                changed = False
                if linked:
                    copies_end, then_a, then_b = next_end(
                        settled, begins_a, left_a, alone_a, shared_a, begins_b, left_b, alone_b, shared_b
                    )
                else:
                    copies_end = min(end_a, end_b)
            while engines[COMPUTE].next <= now and room > 0 and n_running < most:
                op = take(ops, engines, heads, COMPUTE, now, times)
                if op == NONE:
                    break
                room, compute_end = start_kernel(running, n_running, op, ops[uintp(op)].cost, now, costs)
                n_running += 1

            # the next tick at which something ends or can start
            now = min(copies_end, compute_end, drain_end)
            if op_a == NONE:
                now = min(now, engines[H2D].next)
            if op_b == NONE:
                now = min(now, engines[D2H].next)
            if room > 0 and n_running < most:
                now = min(now, engines[COMPUTE].next)
            if now == NEVER:
                return last_end

            # everything that ends at this tick
            if now == copies_end:
                if linked:
                    left_a, left_b, settled = then_a, then_b, now
                    if op_a != NONE and left_a <= 0:
                        end_a = now
                    if op_b != NONE and left_b <= 0:
                        end_b = now
                if end_a == now:
                    done_a, op_a = op_a, NONE
                    end_a = begins_a = NEVER
                    engines[H2D].next = now
                if end_b == now:
                    done_b, op_b = op_b, NONE
                    end_b = begins_b = NEVER
                    engines[D2H].next = now
                changed = True
            if now == compute_end:
                n_running, room, compute_end, drains = finish_kernels(
                    running, n_running, now, draining, drained, drains, costs
                )
                drain_end = next_drained(draining, drained, drains)
                engines[COMPUTE].next = now
            while True:
                if done_a != NONE:
                    ended, done_a = done_a, NONE
                elif done_b != NONE:
                    ended, done_b = done_b, NONE
                elif drain_end <= now:
                    ended = draining[uintp(drained)].op
                    drained += 1
                    drain_end = next_drained(draining, drained, drains)
                else:
                    break
                last_end = now
                op = ops[uintp(ended)]
                op.tick = now
                op.pending = ENDED
                if times is not None:
                    times[4, ended] = now
                after = op.after
                if after >= 0:
                    if crowds and op.kind < KERNEL and ops[uintp(after)].kind == KERNEL:
                        waiting -= copy_ended(ops, after)
                    late = crossing(hand_over, op.kind, ops[uintp(after)].kind, 0)
                    release(ops, engines, heads, after, release_tick(now, late, ops[uintp(after)].arrival))
                j = op.extra
                while j >= 0:
                    other = extra[uintp(j)].op
                    if crowds and op.kind < KERNEL and ops[uintp(other)].kind == KERNEL:
                        waiting -= copy_ended(ops, other)
                    late = crossing(hand_over, op.kind, ops[uintp(other)].kind, extra[uintp(j)].crosses)
                    release(ops, engines, heads, other, release_tick(now, late, ops[uintp(other)].arrival))
                    j = extra[uintp(j)].next
                if op.awaited:
                    for t in range(len(threads)):
                        thread = threads[uintp(t)]
                        if thread.awaited:
                            this = segments[uintp(thread.segment)]
                            for k in range(this.waits_from, this.waits_to):
                                if waits[uintp(k)] == ended:
                                    thread.awaited -= 1
                                    thread.returns = max(thread.returns, now + card.wake)
                                    go_on = go_on or thread.awaited == 0

    return run_loop


def run(lowered: Lowered) -> Timeline:
    """Return the time line of a lowered schedule, equal to that of ``streamsim.model.run``."""
    arrays = flatten(lowered)
    if arrays is None:  # SimPy counts in Python's integers
        return streamsim.model.run(lowered)
    rows = np.full((5, len(lowered.kind)), -1, np.int64)
    run_loop(*arrays, new_state(lowered.device, len(arrays.ops)), rows)
    times = OpTimes(*(array("q", row.tobytes()) for row in rows))
    complete_events(times, lowered)
    return timeline_of(lowered, times)
