"""The same work with one thing changed: what a schedule and its device would be without a cause of lost time.

A counterfactual is again a schedule and a device, so that the model says what it takes. Those that change the order
of ops are made by :mod:`streamsim.analysis.rework`.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from streamsim.analysis.races import check, repaired
from streamsim.analysis.rework import NON_BLOCKING, is_racy, last_work, working_streams
from streamsim.analysis.steps import is_of_a_call
from streamsim.checks import LARGEST_BYTES
from streamsim.device.profile import MOST_CONNECTIONS
from streamsim.device.variations import with_values, without
from streamsim.program.schedule import (
    LEGACY_STREAM,
    Copy,
    HostWork,
    Kernel,
    Op,
    Region,
    Schedule,
    Synchronize,
    WaitThread,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from streamsim.device.profile import Device

# Staging a copy of so many bytes flushes a core's own caches. What the host does behind it takes so many times as long
# for so long: 1.6 to 2.2 times a step in four pairs of programs, pageable and pinned, on an H100 (docs/evidence.md).
FLUSHING_BYTES, COLD, COLD_S = 1 << 20, 2.0, 160e-6
ALL_AT_ONCE = 1024  # kernels
SLOW_TIMES, SLOW_S, LEAST_CALLS = 10, 20e-6, 3
ONLY_SLOW_S = 100e-6  # where fewer calls of a kind say what is usual
SLIVER = 1e-6  # of the card: kernels of this width never wait for room


class Scenario(NamedTuple):
    """A schedule on a device."""

    schedule: Schedule
    device: Device


# Without a cause that lies in the program


def has_pageable(scenario: Scenario) -> bool:
    """Whether some copy is of pageable memory."""
    names = scenario.schedule.pageable_names
    return any(isinstance(op, Copy) and op.host is not None and op.host.buffer in names for op in scenario.schedule.ops)


def has_legacy(scenario: Scenario) -> bool:
    """Whether the legacy default stream and blocking streams wait for each other."""
    used = working_streams(scenario.schedule)
    return LEGACY_STREAM in used and any(s and scenario.schedule.streams[s - 1] == "blocking" for s in used)


def has_host_waits(scenario: Scenario) -> bool:
    """Whether the host is held before the last copy or kernel is issued: after that nothing waits for it."""
    return holds_host(scenario.schedule.ops[: max(0, last_work(scenario.schedule))])


def holds_host(ops: Iterable[Op]) -> bool:
    """Whether one of these calls holds the host until the card is done, if no memory is pageable."""
    return any(isinstance(op, Synchronize) or (isinstance(op, Copy) and op.blocking) for op in ops)


def pinned(schedule: Schedule) -> Schedule:
    """All host memory pinned: nothing is staged, which flushes the host's caches."""
    buffers = tuple(replace(b, memory="pinned") if b.memory == "pageable" else b for b in schedule.buffers)
    return replace(schedule, buffers=buffers, ops=tuple(_with_warm_caches(schedule)))


def _with_warm_caches(schedule: Schedule) -> Iterator[Op]:
    """The ops; of a recorded program, which says what its calls cost, these and the short work between them in less.

    They are cold behind a copy that was staged. What the staged copies' own calls cost, as far as it is recorded, says
    nothing of calls that stage nothing.
    """
    if not any(isinstance(op, Kernel) and op.call_s is not None for op in schedule.ops):
        yield from schedule.ops
        return
    pageable, cold_s = schedule.pageable_names, dict[int, float]()  # by thread for how long it is cold yet
    for op in schedule.ops:
        left_s, seconds = cold_s.get(op.thread, 0.0), op.call_s or 0.0
        cold_s[op.thread] = max(0.0, left_s - seconds)
        if isinstance(op, Copy) and op.host is not None and op.host.buffer in pageable:
            if op.bytes >= FLUSHING_BYTES:
                cold_s[op.thread] = COLD_S
            op = replace(op, call_s=None)
        elif left_s and seconds and (is_of_a_call(op) or not isinstance(op, HostWork)):
            warm_s = seconds - min(seconds, left_s) * (1 - 1 / COLD)
            op = replace(op, **{"duration_s" if isinstance(op, HostWork) else "call_s": warm_s})
        yield op


def without_legacy_stream(schedule: Schedule) -> Schedule:
    """The legacy default stream's ops in other streams, all non-blocking, in the order that their data needs."""
    return still_ordered(schedule, without_legacy(schedule))


def without_host_waits(schedule: Schedule) -> Schedule:
    """No call holds the host before the last copy or kernel has been issued."""
    last = last_work(schedule)
    ops = [op for i, op in enumerate(unblocked(schedule).ops) if i > last or not isinstance(op, Synchronize)]
    return still_ordered(schedule, replace(schedule, ops=tuple(ops)))


def legacy_apart(schedule: Schedule) -> Schedule:
    """The same ops; those of the legacy default stream in a stream of their own, whatever order that loses."""
    own = len(schedule.streams) + 1
    ops = [replace(op, stream=own) if op.stream == LEGACY_STREAM else op for op in schedule.ops]
    return replace(schedule, ops=tuple(ops), streams=NON_BLOCKING * own)


def names_memory(op: Op) -> bool:
    """Whether an op says what it touches on the card; one that puts nothing on an engine touches nothing."""
    if isinstance(op, Kernel):
        return bool(op.reads or op.writes)
    return not isinstance(op, Copy) or op.device is not None


def legacy_beside(schedule: Schedule) -> Schedule:
    """The same ops; those of the legacy default stream in the stream of the latest op before them in another one.

    Where ops do not name their memory, that is the order that they most likely need: a kernel behind its chunk's copy.
    Before all others they go to the stream of the first of those. All streams are non-blocking.
    """
    others = (op.stream for op in schedule.ops if isinstance(op, Copy | Kernel) and op.stream != LEGACY_STREAM)
    latest, ops = next(others, LEGACY_STREAM), list[Op]()
    for op in schedule.ops:
        if op.stream == LEGACY_STREAM:
            op = replace(op, stream=latest)
        elif isinstance(op, Copy | Kernel):
            latest = op.stream
        ops.append(op)
    return replace(schedule, ops=tuple(ops), streams=NON_BLOCKING * len(schedule.streams))


def without_legacy(schedule: Schedule) -> Schedule:
    """The ops of the legacy default stream elsewhere, in non-blocking streams, whatever order that loses."""
    named = all(names_memory(op) for op in schedule.ops)
    return legacy_apart(schedule) if named else legacy_beside(schedule)


def unblocked(schedule: Schedule) -> Schedule:
    """The same ops; no copy holds the host."""
    ops = [replace(op, blocking=False) if isinstance(op, Copy) and op.blocking else op for op in schedule.ops]
    return replace(schedule, ops=tuple(ops))


def still_ordered(before: Schedule, after: Schedule) -> Schedule:
    """``after`` with waits for events where it has lost an order that its data needs.

    As far as ``before`` has that order: what the data of a program with races needs was not kept in the first place.
    """
    if after is before or not after.buffers or is_racy(before):
        return after
    return repaired(after, [finding for finding in check(after) if finding.rule == "race"])


# Without a cause that lies in the device


def has_few_connections(scenario: Scenario) -> bool:
    """Whether streams must share a hardware queue in front of some engine."""
    least = min(scenario.device.connections, scenario.device.copy_engines.connections)
    return len({stream or 1 for stream in working_streams(scenario.schedule)}) > least  # the legacy one uses stream 1's


def all_connections(device: Device) -> Device:
    """As many hardware queues as CUDA gives at most."""
    return device.with_connections(MOST_CONNECTIONS)


def without_duplex_loss(device: Device) -> Device:
    """Neither direction of the link slows the other one down."""
    return without(device, "duplex")


def without_host_costs(scenario: Scenario) -> Scenario:
    """The host's calls take no time."""
    ops = [replace(op, call_s=0.0) if _is_dear(op) else op for op in scenario.schedule.ops]
    return Scenario(replace(scenario.schedule, ops=tuple(ops)), without(scenario.device, "host"))


def _is_dear(op: Op) -> bool:
    """Whether an op says that its call takes time."""
    return not isinstance(op, HostWork | WaitThread) and bool(op.call_s)


def slow_calls(scenario: Scenario) -> dict[int, float]:
    """The ops whose calls hold the host far longer than others of their kind do, and what those take; seconds.

    Of the calls before the last work that say what they cost: of at least three, those of ten times their median, from
    20 us on; of fewer, those of ten times what the profile says, from 100 us on.
    """
    schedule, device = scenario
    costs: dict[type[Op], list[tuple[int, float]]] = {}
    for i, op in enumerate(schedule.ops[: last_work(schedule) + 1]):
        if op.call_s is not None and not isinstance(op, HostWork | WaitThread):
            costs.setdefault(type(op), []).append((i, op.call_s))
    found: dict[int, float] = {}
    for kind, own in costs.items():
        is_known = len(own) >= LEAST_CALLS
        usual = median(cost for _, cost in own) if is_known else _usual_s(kind, device)
        least = max(SLOW_S if is_known else ONLY_SLOW_S, SLOW_TIMES * usual)
        found |= {i: usual for i, cost in own if cost >= least and cost > SLOW_TIMES * usual}
    return found


def _usual_s(kind: type[Op], device: Device) -> float:
    """What a call of this kind takes, as the profile says, where it is the first of its kind in a stream."""
    host = device.host
    calls = {Copy: host.copy_s, Kernel: host.kernel_s + host.first_launch_s, Synchronize: host.synchronize_s}
    return calls.get(kind, host.record_s) + host.first_on_stream_s


def without_slow_calls(scenario: Scenario) -> Schedule:
    """Every call takes about as long as others of its kind."""
    usual = slow_calls(scenario)
    ops = [replace(op, call_s=usual[i]) if i in usual else op for i, op in enumerate(scenario.schedule.ops)]
    return replace(scenario.schedule, ops=tuple(ops))


def slow_calls_apart(scenario: Scenario) -> Schedule:
    """The same host time, with what slow calls take beyond others of their kind as work before them.

    So whoever makes several calls of one does not repeat what is done once, such as loading a module.
    """
    usual, ops = slow_calls(scenario), list[Op]()
    for i, op in enumerate(scenario.schedule.ops):
        if i in usual:
            ops.append(HostWork((op.call_s or 0.0) - usual[i], f"first {type(op).__name__.lower()}", op.thread))
            op = replace(op, call_s=usual[i])
        ops.append(op)
    return replace(scenario.schedule, ops=tuple(ops))


def has_host_work(scenario: Scenario) -> bool:
    """Whether the host does something between its calls before the last copy or kernel is issued."""
    ops = scenario.schedule.ops[: max(0, last_work(scenario.schedule))]
    return any(isinstance(op, HostWork) and op.duration_s for op in ops)


def without_host_work(schedule: Schedule) -> Schedule:
    """The host does nothing but its calls."""
    return replace(schedule, ops=tuple(op for op in schedule.ops if not isinstance(op, HostWork)))


def without_once(schedule: Schedule, once: Collection[Copy]) -> Schedule:
    """The copies ``once``, or what became of them, in a stream of their own and in nobody's way.

    Those to the card come last and those from it first: none waits for another op, and none for it.
    """
    which = {(op.direction, op.device) for op in once}
    moved = {i: op for i, op in enumerate(schedule.ops) if isinstance(op, Copy) and (op.direction, op.device) in which}
    own = len(schedule.streams) + 1
    apart = [replace(op, stream=own, blocking=False) for op in moved.values()]
    last = last_work(schedule) + 1
    ops = (
        *(op for op in apart if op.direction == "d2h"),
        *(op for i, op in enumerate(schedule.ops[:last]) if i not in moved),
        *(op for op in apart if op.direction == "h2d"),
        *schedule.ops[last:],
    )
    return replace(schedule, ops=ops, streams=(*schedule.streams, *NON_BLOCKING))


def without_latencies(scenario: Scenario) -> Scenario:
    """Copies take their bytes' time and kernels their elements', with nothing added for each op or hand-over.

    Nor what a crowd costs a copy's first bytes, which it pays before any of them flows.
    """
    schedule, device = scenario
    ops = [_bare(op, device) if isinstance(op, Kernel) and op.duration_s is None else op for op in schedule.ops]
    return Scenario(replace(schedule, ops=tuple(ops)), without(device, "crowd", "copy-latency", "launch", "hand-over"))


def _bare(kernel: Kernel, device: Device) -> Kernel:
    alone_s, share = device.kernel_time(kernel)
    return replace(kernel, duration_s=alone_s * share, fill=1.0, share=1.0, threads=0, parts=())


# Other amounts of work


def scaled(schedule: Schedule, device: Device, factors: dict[str, float]) -> Schedule:
    """Copies by direction ("h2d", "d2h") and kernels ("kernel") made longer or shorter by a factor."""
    ops: list[Op] = []
    for op in schedule.ops:
        if isinstance(op, Copy):
            ops.append(_resized(op, factors[op.direction]))
        elif isinstance(op, Kernel):
            alone_s, share = device.kernel_time(op)
            ops.append(_timed(op, alone_s * factors["kernel"], max(share, SLIVER)))
        else:
            ops.append(op)
    roomy = tuple(replace(buffer, bytes=LARGEST_BYTES) for buffer in schedule.buffers)
    return replace(schedule, ops=tuple(ops), buffers=roomy)


def _timed(kernel: Kernel, alone_s: float, fill: float) -> Kernel:
    """The kernel with this time, however many elements it has."""
    return replace(kernel, duration_s=alone_s, fill=fill, elements=0, share=1.0, threads=0, parts=())


def _resized(copy: Copy, factor: float) -> Copy:
    n_bytes = max(1, round(copy.bytes * factor))
    host = copy.host and Region(copy.host.buffer, 0, n_bytes)
    return replace(copy, bytes=n_bytes, host=host, device=None)


def without_width(scenario: Scenario) -> Scenario:
    """Kernels fill so little of the card that all run side by side, each for the time that it takes alone."""
    schedule, device = scenario
    ops = [_timed(op, device.kernel_time(op)[0], SLIVER) if isinstance(op, Kernel) else op for op in schedule.ops]
    return Scenario(replace(schedule, ops=tuple(ops)), with_values(device, {"compute.concurrent_kernels": ALL_AT_ONCE}))
