"""Compile a schedule for a device into flat arrays of whole ticks: everything that does not depend on time.

The rules that turn CUDA's calls into dependences stand here and nowhere else: stream order, events, the
legacy default stream, hardware queues, which host call blocks, what an op costs. What is left for the
event loop is to say *when*.

Ops keep their index in the schedule. Bytes on a link are counted in fixed point, ``1 << BYTE_BITS`` units
a byte, and rates in units per tick, so that sharing a link is exact integer arithmetic.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from streamsim.lowering.costs import (
    COPIES,
    H2D,
    KERNEL,
    NOTHING,
    Shape,
    _Shapes,
    after_wait_ticks,
    enter_ticks,
    event_ticks,
    hand_over_table,
    holds_host,
)
from streamsim.program.cuda_order import StreamOrder
from streamsim.program.schedule import Copy, Op, RecordEvent, Schedule, Synchronize, WaitEvent, check_schedule
from streamsim.rules.clock import ticks
from streamsim.rules.entering import NO_STREAM, enters
from streamsim.rules.hand_overs import crossing
from streamsim.rules.queue_owners import NOBODY, queue_of
from streamsim.text.shown import short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamsim.device.profile import Device


NOT_AN_ENGINE = -1


class Segment(NamedTuple):
    """A stretch of host calls ``first <= op < last``, the last of which may hold the host until ``waits_for``."""

    first: int
    last: int
    waits_for: tuple[int, ...]


class Lowered(NamedTuple):
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
    pending: array[int]  # how many things an op waits for: other ops, and its call
    frontier: dict[int, tuple[int, ...]]  # record and wait ops: the ops whose end completes them
    segments: list[Segment]
    hand_over: tuple[int, ...]  # ticks from kind to kind, row by row
    after_wait: int  # ticks that the calls after a wait take longer: see :meth:`calls`
    enter: int  # ticks to enter a stream
    enters: bytearray  # 1: the host enters the op's stream for it; empty where that takes no time
    submit: int
    wake: int
    event: int
    launch: int  # ticks before the first op is issued (a graph launch)

    def __repr__(self) -> str:
        return short(f"Lowered({len(self.kind)} ops of {self.schedule.name or 'a schedule'} on {self.device.name})")

    def calls(self, segment: Segment) -> list[int]:
        """Ticks of the calls of a segment: the first copy and the first kernel come after a wait."""
        own = slice(segment.first, segment.last)
        found = [self.shapes[index].call for index in self.shape[own]]
        if self.enters:
            found = [call + self.enter * enters for call, enters in zip(found, self.enters[own], strict=True)]
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

    def crossing(self, before: int, op: int) -> int:
        """Ticks from the end of ``before`` until ``op``, which waits for it, may start; an event's between streams."""
        ops, kind = self.schedule.ops, self.kind
        event = 0 if ops[before].stream == ops[op].stream else self.event
        return crossing(self.hand_over, kind[before], kind[op], event)

    def followers(self, op: int) -> Iterator[int]:
        """The ops that wait for an op, the next one of its stream first."""
        if self.after[op] >= 0:
            yield self.after[op]
        yield from self.also.get(op, ())

    def shape_of(self, op: int) -> Shape:
        """The shape of an op."""
        return self.shapes[self.shape[op]]


ENGINES = {
    0: (("gpu",), (0, 0, 0, NOT_AN_ENGINE)),
    1: (("copy", "compute"), (0, 0, 1, NOT_AN_ENGINE)),
    2: (("h2d", "d2h", "compute"), (0, 1, 2, NOT_AN_ENGINE)),
}


def lower(schedule: Schedule, device: Device) -> Lowered:
    """Flatten ``schedule`` for ``device``. Raises InputError for a kernel whose cost the profile lacks."""
    check_schedule("schedule", schedule)
    n = len(schedule.ops)
    names, engine_of = ENGINES[device.copy_engines.count]
    shapes = _Shapes(schedule, device)
    shape = array("i", map(shapes.index, schedule.ops))
    kinds = [made.kind for made in shapes.made]
    kind = bytearray(map(kinds.__getitem__, shape))
    enter = enter_ticks(schedule.launch, device)
    program = Lowered(
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
        enter=enter,
        enters=_enters(schedule, kind) if enter else bytearray(),
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
    of_kind = [owners[engine].queue_of for engine in engine_of[:NOTHING]]
    issued = zip(schedule.ops, kind, strict=True)
    return bytearray(0 if its == NOTHING else of_kind[its](op.stream or 0) for op, its in issued)


def _enters(schedule: Schedule, kind: Sequence[int]) -> bytearray:
    """For every op whether the host enters its stream for it."""
    found, before = bytearray(len(kind)), (NO_STREAM, NOTHING)
    for i, (op, its) in enumerate(zip(schedule.ops, kind, strict=True)):
        if its != NOTHING:
            stream: int = op.stream  # type: ignore[assignment]  # every copy and kernel has one
            found[i] = enters(stream, its, *before)
            before = stream, its
    return found


class QueueOwners:
    """Who owns which of the ``queues`` in front of an engine, as ops are issued to it."""

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._owners, self._used = [NOBODY] * queues, [-1] * queues
        self._owned: dict[int, int] = {}  # stream -> the queue that it took last
        self._issued = 0

    def queue_of(self, stream: int) -> int:
        """The queue of the next op issued, which is in ``stream``; the legacy stream, 0, shares that of stream 1."""
        stream = stream or 1
        queue = queue_of(stream, self._owned.get(stream, 0), self._owners, self._used, 0, self._queues)
        self._owners[queue], self._used[queue], self._owned[stream] = stream, self._issued, queue
        self._issued += 1
        return queue


def _fill_order(program: Lowered) -> None:
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


def _order_call(program: Lowered, streams: StreamOrder, i: int, op: Op) -> tuple[int, ...] | None:
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

    def __init__(self, program: Lowered) -> None:
        self._kind, self._also = program.kind, program.also
        self._after, self._pending = program.after, program.pending
        self._run_ends = _run_ends(program) if program.device.compute.kernel_signal == "run" else {}
        # The last op of each stream, whose follower is not yet known.
        self._last = [-1] * (len(program.schedule.streams) + 1)

    def add(self, op: int, stream: int, before: tuple[int, ...]) -> None:
        if self._run_ends and self._kind[op] != KERNEL:
            before = tuple(dict.fromkeys(end for earlier in before for end in self._run_ends.get(earlier, (earlier,))))
        self._pending[op] = 1  # its call
        last = self._last[stream]
        self._last[stream] = op
        if before == (last,):
            self._pending[op] += 1
            self._after[last] = op
        elif before:
            self._pending[op] += len(before)
            for earlier in before:
                if earlier == last:
                    self._after[earlier] = op
                else:
                    self._also.setdefault(earlier, []).append(op)


def _run_ends(program: Lowered) -> dict[int, tuple[int, ...]]:
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
