"""Compile a schedule for a device into flat arrays of whole ticks: everything that does not depend on time.

The rules that turn CUDA's calls into dependences stand here and nowhere else: stream order, events, the
legacy default stream, hardware queues, which host call blocks, what an op costs. What is left for the
event loop is to say *when*.

Ops keep their index in the schedule. Bytes on a link are counted in fixed point, ``1 << BYTE_BITS`` units
a byte, and rates in units per tick, so that sharing a link is exact integer arithmetic.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from streamsim.device import Device, HandOver
from streamsim.schedule import LEGACY_STREAM, Copy, Kernel, Op, RecordEvent, Schedule, Synchronize, WaitEvent

TICKS_PER_S = 10**9
BYTE_BITS = 20
FULL_CARD = 1 << 20

# What an op does, as the link and the hand-over table see it.
H2D, D2H, KERNEL, NOTHING = 0, 1, 2, 3
NOT_AN_ENGINE = -1


def ticks(seconds: float) -> int:
    """Whole nanoseconds, half up: the model's clock, on which ties are exact."""
    return math.floor(seconds * TICKS_PER_S + 0.5)


class Rate(NamedTuple):
    """How a kind of copy uses the link: ticks before bytes flow, then units per tick alone and shared."""

    latency: int
    alone: int
    shared: int

    def duration(self, n_bytes: int) -> int:
        """Ticks that a copy takes with the link to itself."""
        return self.latency - -(n_bytes << BYTE_BITS) // self.alone


class Segment(NamedTuple):
    """A stretch of host calls ``first <= op < last``, the last of which may hold the host until ``waits_for``."""

    first: int
    last: int
    waits_for: tuple[int, ...]


class Program(NamedTuple):
    """A schedule compiled for a device. Arrays are indexed by op; ticks are nanoseconds."""

    schedule: Schedule
    device: Device
    engine_names: tuple[str, ...]
    kind: bytearray  # H2D, D2H, KERNEL or NOTHING
    engine: array[int]  # index into engine_names, or NOT_AN_ENGINE
    queue: array[int]  # hardware queue (connection) of an engine
    work: list[int]  # copy: units on the link; kernel: ticks alone on the card
    rate: list[Rate | None]  # copy: how it uses the link
    rates: dict[tuple[str, bool], Rate]  # all of them, by (direction, pageable)
    duration: list[int]  # ticks alone, a copy's latency included
    width: list[int]  # kernel: its share of FULL_CARD
    call: array[int]  # ticks that the host spends on the call
    after: array[int]  # the op that follows in the same stream, or -1
    also: dict[int, tuple[int, ...]]  # other ops that wait for this one
    pending: list[int]  # how many things an op waits for: predecessors, and to be issued
    frontier: dict[int, tuple[int, ...]]  # record and wait ops: the ops whose end completes them
    segments: list[Segment]
    hand_over: tuple[tuple[int, ...], ...]  # ticks from kind to kind
    submit: int
    wake: int
    event: int
    start: int  # ticks before the first op is issued (a graph launch)


ENGINES = {
    0: (("gpu",), (0, 0, 0)),
    1: (("copy", "compute"), (0, 0, 1)),
    2: (("h2d", "d2h", "compute"), (0, 1, 2)),
}


def hand_over_table(hand_over: HandOver) -> tuple[tuple[int, ...], ...]:
    """Ticks from the end of an op of one kind until one of another kind that waits for it may start."""
    names = ("h2d", "d2h", "kernel")
    return tuple(
        tuple(ticks(getattr(hand_over, f"{a}_to_{b}_s", 0.0)) for b in names) for a in names
    )


def connection_of(stream: int, connections: int) -> int:
    """The hardware queue of a stream: streams take the connections in turn, the legacy stream the first."""
    return (stream - 1) % connections if stream else 0


def kernel_shape(device: Device, kernel: Kernel) -> tuple[int, int]:
    """(ticks alone, width in FULL_CARD) of a kernel; at least one tick and one unit."""
    alone_s, share = device.kernel_time(kernel)
    return max(1, ticks(alone_s)), max(1, round(share * FULL_CARD))


def copy_rates(device: Device) -> dict[tuple[str, bool], Rate]:
    """By (direction, pageable)."""
    rates = {}
    for name, link in (("h2d", device.h2d), ("d2h", device.d2h)):
        pinned = (link.latency_s, link.bandwidth_bytes_per_s, link.duplex_bandwidth_bytes_per_s)
        pageable = (link.pageable_latency_s, *2 * (link.pageable_bandwidth_bytes_per_s,))
        for is_pageable, (latency_s, alone, shared) in ((False, pinned), (True, pageable)):
            rates[name, is_pageable] = Rate(ticks(latency_s), _units(alone), _units(shared))
    return rates


def _units(bytes_per_s: float) -> int:
    return max(1, round(bytes_per_s * (1 << BYTE_BITS) / TICKS_PER_S))


class _Streams:
    """Stream, event and legacy-stream order: which ops must end before the next op of a stream may start."""

    def __init__(self, schedule: Schedule) -> None:
        self._ordinary = [LEGACY_STREAM] + [
            number for number, kind in enumerate(schedule.streams, 1) if kind == "blocking"
        ]
        self._tail: list[tuple[int, ...]] = [()] * (len(schedule.streams) + 1)
        self._recorded: dict[int, tuple[int, ...]] = {}

    def before(self, stream: int) -> tuple[int, ...]:
        """The ops whose end completes everything in ``stream`` so far."""
        if stream == LEGACY_STREAM:
            return _union(self._tail[number] for number in self._ordinary)
        return self._tail[stream]

    def append(self, stream: int, op: int) -> None:
        self._set_tail(stream, (op,))

    def record(self, stream: int, event: int) -> tuple[int, ...]:
        done = self._recorded[event] = self.before(stream)
        if stream == LEGACY_STREAM:
            self._set_tail(stream, done)
        return done

    def wait(self, stream: int, event: int) -> tuple[int, ...]:
        both = _union((self.before(stream), self._recorded.get(event, ())))
        self._set_tail(stream, both)
        return both

    def awaited(self, sync: Synchronize) -> tuple[int, ...]:
        """What a host synchronisation waits for."""
        if sync.event is not None:
            return self._recorded.get(sync.event, ())
        if sync.stream is not None:
            return self.before(sync.stream)
        return _union(self._tail)

    def _set_tail(self, stream: int, ops: tuple[int, ...]) -> None:
        self._tail[stream] = ops
        if stream == LEGACY_STREAM:  # later ops of ordinary streams come after it, earlier ones are in it
            for number in self._ordinary:
                self._tail[number] = ops


def _union(sets: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(op for ops in sets for op in ops))


def compile_schedule(schedule: Schedule, device: Device) -> Program:
    """Flatten ``schedule`` for ``device``. Raises InputError for a kernel whose cost the profile lacks."""
    n = len(schedule.ops)
    names, engine_of = ENGINES[device.copy_engines.count]
    program = Program(
        schedule=schedule,
        device=device,
        engine_names=names,
        kind=bytearray([NOTHING]) * n,
        engine=array("i", [NOT_AN_ENGINE]) * n,
        queue=array("i", [0]) * n,
        work=[0] * n,
        rate=[None] * n,
        rates=copy_rates(device),
        duration=[0] * n,
        width=[0] * n,
        call=array("q", [0]) * n,
        after=array("i", [-1]) * n,
        also={},
        pending=[1] * n,
        frontier={},
        segments=[],
        hand_over=hand_over_table(device.hand_over),
        submit=ticks(device.host.submit_s),
        wake=ticks(device.host.wake_s),
        event=ticks(device.hand_over.event_s),
        start=_launch_ticks(schedule, device),
    )
    _fill_costs(program, engine_of)
    _fill_order(program)
    return program


def _launch_ticks(schedule: Schedule, device: Device) -> int:
    if schedule.launch == "live":
        return 0
    nodes = sum(isinstance(op, Copy | Kernel) for op in schedule.ops)
    return ticks(device.host.graph_launch_s) + nodes * ticks(device.host.graph_node_s)


def _fill_costs(program: Program, engine_of: tuple[int, ...]) -> None:
    """What each op is, where it runs and what it costs."""
    schedule, device = program.schedule, program.device
    pageable = schedule.pageable_names
    calls = _call_ticks(schedule, device)
    shapes: dict[tuple[object, ...], tuple[int, int]] = {}
    copies: dict[tuple[int, Rate], tuple[int, int]] = {}
    for i, op in enumerate(schedule.ops):
        program.call[i] = calls[type(op)]
        if isinstance(op, Copy):
            kind = H2D if op.direction == "h2d" else D2H
            rate = program.rates[op.direction, op.host is not None and op.host.buffer in pageable]
            program.rate[i] = rate
            program.work[i], program.duration[i] = copies.get((op.bytes, rate)) or copies.setdefault(
                (op.bytes, rate), (op.bytes << BYTE_BITS, rate.duration(op.bytes))
            )
        elif isinstance(op, Kernel):
            kind = KERNEL
            key = (op.name, op.parameter, op.elements, op.duration_s, op.fill)
            if key not in shapes:
                shapes[key] = kernel_shape(device, op)
            program.work[i], program.width[i] = shapes[key]
            program.duration[i] = program.work[i]
        else:
            continue
        program.kind[i] = kind
        program.engine[i] = engine_of[kind]
        program.queue[i] = connection_of(op.stream, device.connections)


def _call_ticks(schedule: Schedule, device: Device) -> dict[type[Op], int]:
    host = device.host
    live = schedule.launch == "live"  # a captured call costs nothing when the graph is launched
    return {
        Copy: ticks(host.copy_s) * live,
        Kernel: ticks(host.kernel_s) * live,
        RecordEvent: ticks(host.record_s) * live,
        WaitEvent: ticks(host.wait_s) * live,
        Synchronize: ticks(host.synchronize_s),
    }


def _fill_order(program: Program) -> None:
    """Who waits for whom: streams, events, the legacy stream, signals and the host's blocking calls."""
    streams = _Streams(program.schedule)
    run_ends = _run_ends(program) if program.device.compute.kernel_signal == "run" else {}
    first = 0
    for i, op in enumerate(program.schedule.ops):
        waits_for: tuple[int, ...] | None = None
        if isinstance(op, Synchronize):
            waits_for = streams.awaited(op)
        elif isinstance(op, RecordEvent):
            program.frontier[i] = streams.record(op.stream, op.event)
        elif isinstance(op, WaitEvent):
            program.frontier[i] = streams.wait(op.stream, op.event)
        else:
            _add_edges(program, i, op.stream, streams.before(op.stream), run_ends)
            streams.append(op.stream, i)
            if isinstance(op, Copy) and _holds_host(program, i, op):
                waits_for = (i,)
        if waits_for is not None:
            program.segments.append(Segment(first, i + 1, waits_for))
            first = i + 1
    if first < len(program.schedule.ops):
        program.segments.append(Segment(first, len(program.schedule.ops), ()))


def _add_edges(
    program: Program, op: int, stream: int, before: tuple[int, ...], run_ends: dict[int, int]
) -> None:
    if run_ends and program.kind[op] != KERNEL:
        before = tuple(dict.fromkeys(run_ends.get(earlier, earlier) for earlier in before))
    ops = program.schedule.ops
    for earlier in before:
        if program.after[earlier] < 0 and ops[earlier].stream == stream:
            program.after[earlier] = op
        else:
            program.also[earlier] = (*program.also.get(earlier, ()), op)
    program.pending[op] += len(before)


def _run_ends(program: Program) -> dict[int, int]:
    """For each kernel, the last of the run of kernels issued back to back with it, no copy in between."""
    ends: dict[int, int] = {}
    run: list[int] = []
    for i, kind in enumerate((*program.kind, H2D)):
        if kind == KERNEL:
            run.append(i)
        elif kind != NOTHING:
            ends |= dict.fromkeys(run, run[-1] if run else -1)
            run = []
    return ends


def _holds_host(program: Program, op: int, copy: Copy) -> bool:
    """Whether the call returns only when the copy is done: blocking, or pageable beyond the immediate size."""
    pageable = copy.host is not None and copy.host.buffer in program.schedule.pageable_names
    staged_at_once = (
        pageable and copy.direction == "h2d" and copy.bytes <= program.device.host.pageable_immediate_bytes
    )
    return (copy.blocking or pageable) and not staged_at_once
