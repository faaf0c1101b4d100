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
from typing import TYPE_CHECKING, NamedTuple

from streamsim.model.ownership import QueueOwners
from streamsim.order import StreamOrder
from streamsim.schedule import Copy, Kernel, Launch, Op, RecordEvent, Schedule, Synchronize, WaitEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.device import Device, HandOver, LinkDirection
    from streamsim.schedule import Direction

TICKS_PER_S = 10**9
BYTE_BITS = 20
FULL_CARD = 1 << 20
PACES = 8  # steps in which the pace of a card is known between no thread and all
PACE = FULL_CARD // PACES  # threads in a step
NO_KERNEL = (0,) * (PACES + 1)

FEW_STREAMS = 4  # up to so many, calls cost the host no more for being spread over them
PAIR, MOST_IN_THE_WAY = 2, 4  # streams of a program, and more of them, that make an event's hand-over no longer
CROWD = 4  # hardware queues with kernels that wait: more of them crowd a card no further

# What an op does, as the link and the hand-over table see it.
H2D, D2H, KERNEL, NOTHING = 0, 1, 2, 3
COPIES = (H2D, D2H)
NOT_AN_ENGINE = -1


def ticks(seconds: float) -> int:
    """Whole nanoseconds, half up: the model's clock, on which ties are exact."""
    return math.floor(seconds * TICKS_PER_S + 0.5)


class Rate(NamedTuple):
    """How a kind of copy uses the link.

    Units per tick, alone and with a copy in the other direction; and ticks before the bytes flow, alone and so,
    for each level of crowding from 0 to ``CROWD - 1``.
    """

    alone: int
    shared: int
    latency: tuple[int, ...]
    duplex_latency: tuple[int, ...]

    def duration(self, units: int) -> int:
        """Ticks that a copy takes with the link to itself."""
        return self.latency[0] - -units // self.alone

    @property
    def feels_crowds(self) -> bool:
        """Whether its latencies grow as kernels wait."""
        return self.latency[-1] > self.latency[0] or self.duplex_latency[-1] > self.duplex_latency[0]

    @property
    def feels_the_other_direction(self) -> bool:
        """Whether it takes longer beside a copy in the other direction."""
        return self.shared < self.alone or self.duplex_latency != self.latency


NO_COPY = Rate(1, 1, (0,) * CROWD, (0,) * CROWD)


class Segment(NamedTuple):
    """A stretch of host calls ``first <= op < last``, the last of which may hold the host until ``waits_for``."""

    first: int
    last: int
    waits_for: tuple[int, ...]


class Shape(NamedTuple):
    """What ops of one make have in common: many ops of a schedule share a shape."""

    kind: int  # H2D, D2H, KERNEL or NOTHING
    call: int  # ticks that the host spends on the call
    duration: int = 0  # ticks alone on the engine, a copy's latency included
    units: int = 0  # copy: its bytes in fixed point
    rate: Rate = NO_COPY  # copy: how it uses the link
    width: int = FULL_CARD  # kernel: the share of the card that it keeps busy while it works
    threads: int = FULL_CARD  # kernel: the share of the card's threads that it holds
    drain: int = 0  # kernel: ticks at its end, when its work is done and the card is free for others
    idle: tuple[int, ...] = NO_KERNEL  # kernel: of the card, with 0 to PACES PACES-ths of its threads held

    @property
    def works(self) -> int:
        """Ticks alone that it occupies its engine: all but a kernel's drain."""
        return self.duration - self.drain

    def given(self, room: int, held: int) -> int:
        """How much of the card a kernel is given: of ``room`` that earlier kernels leave.

        They and it hold so many threads. Until those are all of the card's, the card does not go at its full pace: a
        later kernel has what others leave of that, and no less than its own threads add.
        """
        if self.threads < held < FULL_CARD:
            idle = self._idle_with(held)
            room = min(room, max(room, self._idle_with(held - self.threads)) - idle)
        return max(1, min(self.width, room))

    def _idle_with(self, held: int) -> int:
        step, rest = divmod(held, PACE)
        idle, then = self.idle[step], self.idle[step + 1]
        return idle - (idle - then) * rest // PACE


class Program(NamedTuple):
    """A schedule compiled for a device. Arrays are indexed by op; ticks are nanoseconds."""

    schedule: Schedule
    device: Device
    engine_names: tuple[str, ...]
    engine_of: tuple[int, ...]  # kind -> index into engine_names, or NOT_AN_ENGINE
    shapes: list[Shape]
    shape: array[int]  # index into shapes
    kind: bytearray  # shapes[shape[op]].kind
    queue: bytearray  # hardware queue (connection), among those of the op's engine
    after: array[int]  # the op that follows in the same stream, or -1
    also: dict[int, list[int]]  # other ops that wait for this one
    pending: array[int]  # how many ops an op waits for, and its call if that may come later
    frontier: dict[int, tuple[int, ...]]  # record and wait ops: the ops whose end completes them
    segments: list[Segment]
    hand_over: tuple[tuple[int, ...], ...]  # ticks from kind to kind
    after_wait: int  # ticks that the calls after a wait take longer: see :meth:`calls`
    submit: int
    wake: int
    event: int
    launch: int  # ticks before the first op is issued (a graph launch)

    def calls(self, segment: Segment) -> list[int]:
        """Ticks of the calls of a segment: the first copy and the first kernel come after a wait."""
        own = slice(segment.first, segment.last)
        found = [self.shapes[index].call for index in self.shape[own]]
        if self.after_wait:
            kinds = self.kind[own]
            for some in (COPIES, (KERNEL,)):
                first = min((at for at in map(kinds.find, some) if at >= 0), default=None)
                if first is not None:
                    found[first] += self.after_wait
        return found

    def engine(self) -> array[int]:
        """The engine of every op, NOT_AN_ENGINE for events and host calls."""
        return array("b", bytes(self.kind).translate(bytes(k & 0xFF for k in self.engine_of).ljust(256)))

    def shortest_crossings(self) -> dict[tuple[int, int], int]:
        """The pairs of kinds of which an op on one engine waits for an op on another; the least ticks that takes."""
        kind = self.kind + bytes((NOTHING,))  # what follows the op -1
        pairs = set(zip(kind, map(kind.__getitem__, self.after), strict=False))
        pairs |= {(kind[op], kind[other]) for op, others in self.also.items() for other in others}
        engines = self.engine_of
        return {(a, b): self.hand_over[a][b] for a, b in pairs if b != NOTHING and engines[a] != engines[b]}

    def crossing(self, before: int, op: int) -> int:
        """Ticks from the end of ``before`` until ``op``, which waits for it, may start; an event's between streams."""
        ops, ticks = self.schedule.ops, self.hand_over[self.kind[before]][self.kind[op]]
        return ticks if ops[before].stream == ops[op].stream else ticks + self.event

    def hands_over(self) -> array[int]:
        """Of each op :meth:`crossing` to the op that follows in the same stream, if there is one."""
        pairs = enumerate(self.after)
        return array("q", (self.crossing(op, follower) if follower >= 0 else 0 for op, follower in pairs))

    def shape_of(self, op: int) -> Shape:
        """The shape of an op."""
        return self.shapes[self.shape[op]]


ENGINES = {
    0: (("gpu",), (0, 0, 0, NOT_AN_ENGINE)),
    1: (("copy", "compute"), (0, 0, 1, NOT_AN_ENGINE)),
    2: (("h2d", "d2h", "compute"), (0, 1, 2, NOT_AN_ENGINE)),
}


def hand_over_table(hand_over: HandOver) -> tuple[tuple[int, ...], ...]:
    """Ticks from the end of an op of one kind until one of another kind that waits for it may start."""
    names = ("h2d", "d2h", "kernel")
    return tuple(tuple(ticks(getattr(hand_over, f"{a}_to_{b}_s", 0.0)) for b in names) for a in names)


def kernel_shape(device: Device, kernel: Kernel, call: int = 0) -> Shape:
    """A kernel of at least one tick and one unit of the card, whose call takes ``call`` ticks."""
    alone_s, share = device.kernel_time(kernel)
    drain_s = device.kernel_drain_s(kernel)
    if drain_s:  # it does all of its work before
        share = min(1.0, share * alone_s / (alone_s - drain_s))
    return Shape(
        KERNEL,
        call,
        max(1, ticks(alone_s)),
        width=max(1, round(share * FULL_CARD)),
        threads=max(1, round(device.kernel_threads(kernel) * FULL_CARD)),
        drain=ticks(drain_s),
        idle=tuple(FULL_CARD - round(pace * FULL_CARD) for pace in device.kernel_paces(kernel, PACES)),
    )


def copy_rate(link: LinkDirection, n_bytes: int) -> Rate:
    """How a copy of ``n_bytes`` of pinned memory uses the link."""
    least, whole = ticks(link.latency_s), link.in_flight_bytes
    behind = min(n_bytes, whole)
    slowed = min(n_bytes, link.crowded_bytes)
    slower = ticks(slowed / link.crowded_bandwidth_bytes_per_s - slowed / link.bandwidth_bytes_per_s)

    def latency(most_s: float) -> int:  # the clock has whole ticks: half up
        return least + (2 * behind * (ticks(most_s) - least) + whole) // (2 * whole)

    return Rate(
        _units(link.bandwidth_bytes_per_s),
        _units(link.duplex_bandwidth_bytes_per_s),
        _by_crowd(least, latency(link.crowded_latency_s) + slower),
        _by_crowd(latency(link.duplex_latency_s), latency(link.crowded_duplex_latency_s) + slower),
    )


def _by_crowd(quiet: int, crowded: int) -> tuple[int, ...]:
    steps = CROWD - 1
    return tuple(quiet + (2 * (crowded - quiet) * level + steps) // (2 * steps) for level in range(CROWD))


def pageable_rate(link: LinkDirection) -> Rate:
    """How a copy of pageable memory uses the link: the staging, not the link, sets its pace."""
    latency, alone = ticks(link.pageable_latency_s), _units(link.pageable_bandwidth_bytes_per_s)
    return Rate(alone, alone, (latency,) * CROWD, (latency,) * CROWD)


def rate_of(device: Device, direction: Direction, n_bytes: int, is_pageable: bool) -> Rate:
    """How a copy of ``n_bytes`` uses the link."""
    link = device.h2d if direction == "h2d" else device.d2h
    return pageable_rate(link) if is_pageable else copy_rate(link, n_bytes)


def _units(bytes_per_s: float) -> int:
    return max(1, round(bytes_per_s * (1 << BYTE_BITS) / TICKS_PER_S))


def compile_schedule(schedule: Schedule, device: Device) -> Program:
    """Flatten ``schedule`` for ``device``. Raises InputError for a kernel whose cost the profile lacks."""
    n = len(schedule.ops)
    names, engine_of = ENGINES[device.copy_engines.count]
    shapes = _Shapes(schedule, device)
    shape = array("i", map(shapes.index, schedule.ops))
    kinds = [made.kind for made in shapes.made]
    kind = bytearray(map(kinds.__getitem__, shape))
    program = Program(
        schedule=schedule,
        device=device,
        engine_names=names,
        engine_of=engine_of,
        shapes=shapes.made,
        shape=shape,
        kind=kind,
        queue=_queues(schedule, device, kind),
        after=array("i", [-1]) * n,
        also={},
        pending=array("i", [0]) * n,
        frontier={},
        segments=[],
        hand_over=hand_over_table(device.hand_over),
        after_wait=after_wait_ticks(schedule.launch, device, any(k in kind for k in COPIES), KERNEL in kind),
        submit=ticks(device.host.submit_s),
        wake=ticks(device.host.wake_s),
        event=event_ticks(device, len(schedule.used_streams)),
        launch=_launch_ticks(schedule, device),
    )
    _fill_order(program)
    return program


def _launch_ticks(schedule: Schedule, device: Device) -> int:
    if schedule.launch == "live":
        return 0
    return ticks(device.host.graph_launch_s)


def _queues(schedule: Schedule, device: Device, kind: Sequence[int]) -> bytearray:
    """The hardware queue of every copy and kernel, among those of its engine; 0 for what goes to no engine."""
    engine_of, copies = ENGINES[device.copy_engines.count][1], device.copy_engines
    owners = [QueueOwners(copies.connections) for _ in range(copies.count or 1)] + [QueueOwners(device.connections)]
    queue_of = [owners[engine].queue_of for engine in engine_of[:NOTHING]]
    issued = zip(schedule.ops, kind, strict=True)
    return bytearray(0 if its == NOTHING else queue_of[its](op.stream or 0) for op, its in issued)


class _Shapes:
    """Makes the shapes of a schedule's ops on a device, one for each combination of what matters."""

    def __init__(self, schedule: Schedule, device: Device) -> None:
        self.made: list[Shape] = []
        self._device = device
        self._pageable = schedule.pageable_names
        streams = len(schedule.used_streams) if device.host.streams_s else 1  # counted only where it matters
        self._call = call_ticks(schedule.launch, device, streams)
        self._known: dict[tuple[object, ...], int] = {}

    def index(self, op: Op) -> int:
        """The index in ``made`` of the op's shape."""
        if isinstance(op, Copy):
            key: tuple[object, ...] = (op.direction, op.bytes, op.host and op.host.buffer)
        elif isinstance(op, Kernel):
            key = (op.duration_s, op.elements, op.fill, op.name, op.parameter, op.share, op.threads, op.parts)
        else:
            key = (type(op),)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self.made)
            self.made.append(self._make(op))
        return known

    def _make(self, op: Op) -> Shape:
        call = self._call[type(op)]
        if isinstance(op, Copy):
            is_pageable = op.host is not None and op.host.buffer in self._pageable
            rate = rate_of(self._device, op.direction, op.bytes, is_pageable)
            units = op.bytes << BYTE_BITS
            return Shape(H2D if op.direction == "h2d" else D2H, call, rate.duration(units), units, rate)
        if isinstance(op, Kernel):
            return kernel_shape(self._device, op, call)
        return Shape(NOTHING, call)


def call_ticks(launch: Launch, device: Device, streams: int = 1) -> dict[type[Op], int]:
    """What the host spends on a call, by type of op, in a program that uses so many streams."""
    host = device.host
    synchronize = ticks(host.synchronize_s)
    if launch == "graph":  # the launch hands its copies to the card one by one, the rest with them
        return {Copy: ticks(host.graph_node_s), Kernel: 0, RecordEvent: 0, WaitEvent: 0, Synchronize: synchronize}
    more = streams_ticks(device, streams)
    return {
        Copy: ticks(host.copy_s) + more,
        Kernel: ticks(host.kernel_s) + more,
        RecordEvent: ticks(host.record_s),
        WaitEvent: ticks(host.wait_s),
        Synchronize: synchronize,
    }


def after_wait_ticks(launch: Launch, device: Device, copies: bool, kernels: bool) -> int:
    """What the first copy and the first kernel after a wait take longer, by whether the program has such."""
    return ticks(device.host.after_wait_s) * (launch == "live" and copies and kernels)


def event_ticks(device: Device, streams: int = 1) -> int:
    """What an event adds to a hand-over in a program of so many streams."""
    in_the_way = min(max(streams - PAIR, 0), MOST_IN_THE_WAY)
    return ticks(device.hand_over.event_s) + in_the_way * ticks(device.hand_over.event_streams_s)


def streams_ticks(device: Device, streams: int) -> int:
    """What the call of a copy or kernel takes longer with so many streams than with few."""
    return ticks(device.host.streams_s) * max(0, streams.bit_length() - FEW_STREAMS.bit_length())  # whole doublings


def _fill_order(program: Program) -> None:
    """Who waits for whom: streams, events, the legacy stream, signals and the host's blocking calls."""
    ops = program.schedule.ops
    streams = StreamOrder(program.schedule)
    edges = _Edges(program)
    tail = streams.tail
    pageable, immediate = program.schedule.pageable_names, program.device.host.pageable_immediate_bytes
    first = 0
    for i, (op, kind) in enumerate(zip(ops, program.kind, strict=True)):
        waits_for: tuple[int, ...] | None = None
        if kind == NOTHING:
            waits_for = _order_call(program, streams, i, op)
        else:
            stream: int = op.stream  # type: ignore[assignment]  # every copy and kernel has one
            edges.add(i, stream, tail[stream] if stream else streams.before(stream))
            if stream:
                tail[stream] = (i,)
            else:
                streams.append(stream, i)
            if isinstance(op, Copy) and (op.blocking or pageable) and holds_host(op, pageable, immediate):
                waits_for = (i,)
        if waits_for is not None:
            program.segments.append(Segment(first, i + 1, waits_for))
            first = i + 1
    if first < len(ops):
        program.segments.append(Segment(first, len(ops), ()))
    for i in range(program.segments[0].last, len(ops)):
        program.pending[i] += 1  # the call itself: only the first segment is issued before anything runs


def _order_call(program: Program, streams: StreamOrder, i: int, op: Op) -> tuple[int, ...] | None:
    """Order a record, a wait or a host call; what the host waits for, if it is one."""
    if isinstance(op, Synchronize):
        return streams.awaited(op)
    if isinstance(op, RecordEvent):
        program.frontier[i] = streams.record(op.stream, op.event)
    elif isinstance(op, WaitEvent):
        program.frontier[i] = streams.wait(op.stream, op.event)
    return None


class _Edges:
    """Writes down which op waits for which."""

    def __init__(self, program: Program) -> None:
        self._kind, self._also = program.kind, program.also
        self._after, self._pending = program.after, program.pending
        self._run_ends = _run_ends(program) if program.device.compute.kernel_signal == "run" else {}
        # The last op of each stream, whose follower is not yet known.
        self._last = [-1] * (len(program.schedule.streams) + 1)

    def add(self, op: int, stream: int, before: tuple[int, ...]) -> None:
        if self._run_ends and self._kind[op] != KERNEL:
            before = tuple(dict.fromkeys(end for earlier in before for end in self._run_ends.get(earlier, (earlier,))))
        last = self._last[stream]
        self._last[stream] = op
        if before == (last,):
            self._pending[op] = 1
            self._after[last] = op
        elif before:
            self._pending[op] = len(before)
            for earlier in before:
                if earlier == last:
                    self._after[earlier] = op
                else:
                    self._also.setdefault(earlier, []).append(op)


def _run_ends(program: Program) -> dict[int, tuple[int, ...]]:
    """For each kernel, the run of kernels issued back to back with it, no copy in between: the last of each stream."""
    ends: dict[int, tuple[int, ...]] = {}
    run: list[int] = []
    for i, kind in enumerate((*program.kind, H2D)):
        if kind == KERNEL:
            run.append(i)
        elif kind != NOTHING and run:
            last = {program.schedule.ops[k].stream: k for k in run}
            ends |= dict.fromkeys(run, tuple(last.values()))
            run = []
    return ends


def holds_host(copy: Copy, pageable_names: frozenset[str], immediate_bytes: int) -> bool:
    """Whether the call returns only when the copy is done: blocking, or pageable beyond the immediate size."""
    if copy.host is None or copy.host.buffer not in pageable_names:
        return copy.blocking
    return copy.direction == "d2h" or copy.bytes > immediate_bytes
