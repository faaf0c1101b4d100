"""Compile a schedule for a device into flat arrays of whole ticks: everything that does not depend on time.

Stream order, events, the legacy default stream and host calls that block become dependences in ``order``; what an op
takes is worked out in ``costs``, its call in ``host``, its hardware queue here. Where that hangs on what came before,
as for queues and calls, they ask :mod:`streamsim.rules`. What is left for the event loop is to say *when*.

Ops keep their index in the schedule. Bytes on a link are counted in fixed point, ``1 << BYTE_BITS`` units
a byte, and rates in units per tick, so that sharing a link is exact integer arithmetic.
"""

from __future__ import annotations

from array import array
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from streamsim.lowering.costs import KERNEL, NOTHING, Shape, hand_over_table, makes_of, shapes_of
from streamsim.lowering.host import Columns, Segments, call_ticks_of, segments_of
from streamsim.lowering.order import Links, Order, order_of
from streamsim.program.remembered import remembered
from streamsim.program.schedule import Schedule, check_schedule
from streamsim.rules.calls import NO_STREAM
from streamsim.rules.clock import ticks
from streamsim.rules.hand_overs import crossing
from streamsim.rules.queues import NOBODY, queue_of, runs_on
from streamsim.text.shown import short

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamsim.device.profile import Device
    from streamsim.lowering.costs import Makes


NOT_AN_ENGINE = -1


class Lowered(NamedTuple):
    """A schedule compiled for a device. Arrays are indexed by op; ticks are nanoseconds."""

    schedule: Schedule
    device: Device
    engine_names: tuple[str, ...]
    engine_of: tuple[int, ...]  # kind -> index into engine_names, or NOT_AN_ENGINE
    shapes: list[Shape]
    shape: array[int]  # index into shapes
    kind: bytearray  # shapes[shape[op]].kind
    stream: array[int]  # or NO_STREAM
    queue: bytearray  # hardware queue (connection) through which the op comes, among those of its engine
    runs_on: frozenset[int]  # kernels that come with the one before them: they do not stand in their queue
    after: array[int]  # the op that follows in the same stream, or -1
    also: Links  # which ops wait for which others
    pending: array[int]  # how many things an op waits for: other ops, and its call
    frontier: dict[int, tuple[int, ...]]  # record and wait ops: the ops whose end completes them
    segments: Segments
    hand_over: tuple[int, ...]  # ticks from kind to kind, row by row: within a stream, then from stream to stream
    call: array[int]  # ticks that the host spends on the call, without what it waits for
    submit: int
    wake: int
    launch: int  # ticks before the first op is issued (a graph launch)

    def __repr__(self) -> str:
        return short(f"Lowered({len(self.kind)} ops of {self.schedule.name or 'a schedule'} on {self.device.name})")

    @property
    def threads(self) -> list[int]:
        """The threads of the host that make calls, by their first."""
        return list(dict.fromkeys(self.segments.thread))

    def engine(self) -> array[int]:
        """The engine of every op, NOT_AN_ENGINE for events and host calls."""
        return array("b", bytes(self.kind).translate(bytes(k & 0xFF for k in self.engine_of).ljust(256)))

    def crossing(self, before: int, op: int) -> int:
        """Ticks from the end of ``before`` until ``op``, which waits for it, may start; an event's between streams."""
        crosses = self.stream[before] != self.stream[op]
        return crossing(self.hand_over, self.kind[before], self.kind[op], crosses)

    def followers(self) -> Callable[[int], list[int]]:
        """For an op the ops that wait for it, the next one of its stream first."""
        after, also = self.after, self.also.by_op()

        def of(op: int) -> list[int]:
            following = [] if after[op] < 0 else [after[op]]
            return following + also.get(op, [])

        return of

    def shape_of(self, op: int) -> Shape:
        """The shape of an op."""
        return self.shapes[self.shape[op]]


ENGINES = {
    0: (("gpu",), (0, 0, 0, NOT_AN_ENGINE)),
    1: (("copy", "compute"), (0, 0, 1, NOT_AN_ENGINE)),
    2: (("h2d", "d2h", "compute"), (0, 1, 2, NOT_AN_ENGINE)),
}


class _Layout(NamedTuple):
    """What of a lowered schedule hangs on no time of the device; ``streams``: how many are used, and have kernels."""

    columns: Columns
    streams: tuple[int, int]
    queue: bytearray
    runs_on: frozenset[int]
    order: Order
    segments: Segments


def lower(schedule: Schedule, device: Device) -> Lowered:
    """Flatten ``schedule`` for ``device``. Raises InputError for a kernel whose cost the profile lacks."""
    check_schedule("schedule", schedule)
    names, engine_of = ENGINES[device.copy_engines.count]
    makes = makes_of(schedule)
    shapes, shape = shapes_of(schedule, makes, device), makes.of_op
    kind, holds = bytes(made.kind for made in shapes), bytes(made.holds for made in shapes)
    queues = device.copy_engines.count, device.copy_engines.connections, device.connections
    columns, streams, queue, run_on, order, segments = _layout(
        schedule, makes, kind, holds, queues, device.compute.kernel_signal
    )
    return Lowered(
        schedule=schedule,
        device=device,
        engine_names=names,
        engine_of=engine_of,
        shapes=shapes,
        shape=shape,
        kind=columns.kind,
        stream=columns.stream,
        queue=queue,
        runs_on=run_on,
        after=order.after,
        also=order.also,
        pending=order.pending,
        frontier=order.frontier,
        segments=segments,
        hand_over=hand_over_table(device.hand_over, schedule.launch, *streams),
        call=call_ticks_of(schedule, device, columns, [made.call for made in shapes]),
        submit=ticks(device.host.submit_s),
        wake=ticks(device.host.wake_s),
        launch=_launch_ticks(schedule, device),
    )


@remembered
def _layout(
    schedule: Schedule, makes: Makes, kind: bytes, holds: bytes, queues: tuple[int, int, int], kernel_signal: str
) -> _Layout:
    """``kind``, ``holds``: of each make of ops. ``queues``: copy engines, their hardware queues, those of kernels."""
    shape = makes.of_op
    columns = Columns(
        make=shape,
        kind=bytearray(map(kind.__getitem__, shape)),
        holds=bytearray(map(holds.__getitem__, shape)),
        stream=array("i", [NO_STREAM if op.stream is None else op.stream for op in schedule.ops]),
        thread=array("i", map(attrgetter("thread"), schedule.ops)),
    )
    with_kernels = set(compress(columns.stream, map(KERNEL.__eq__, columns.kind)))
    run_on = _run_on(columns) if schedule.launch == "graph" else frozenset()
    order = order_of(schedule, columns, kernel_signal)
    return _Layout(
        columns=columns,
        streams=(len(schedule.used_streams), len(with_kernels)),
        queue=_queues(queues, columns, run_on),
        runs_on=run_on,
        order=order,
        segments=segments_of(schedule, columns, order.awaited),
    )


def _launch_ticks(schedule: Schedule, device: Device) -> int:
    if schedule.launch == "live":
        return 0
    return ticks(device.host.graph_launch_s)


def _run_on(columns: Columns) -> frozenset[int]:
    """The ops of a graph that stand in no queue."""
    latest: dict[int, int] = {}  # by stream the kind of its last op, an event's among them
    found = []
    for op, (kind, stream) in enumerate(zip(columns.kind, columns.stream, strict=True)):
        if runs_on(True, kind, latest.get(stream, NOTHING)):
            found.append(op)
        latest[stream] = kind
    return frozenset(found)


def _queues(queues: tuple[int, int, int], columns: Columns, run_on: frozenset[int]) -> bytearray:
    """The hardware queue of every copy and kernel, among those of its engine; 0 for what goes to no engine."""
    copy_engines, of_copies, of_kernels = queues
    engine_of = ENGINES[copy_engines][1]
    counts = [of_copies] * (copy_engines or 1) + [of_kernels]
    owners = [QueueOwners(count) for count in counts]
    by_kind = [*(owners[engine] for engine in engine_of[:NOTHING]), QueueOwners(1)]
    users = dict.fromkeys(zip(columns.kind, columns.stream, strict=True))  # by first use
    if len({stream for kind, stream in users if kind != NOTHING}) > min(counts):
        each = enumerate(zip(columns.kind, columns.stream, strict=True))
        return bytearray(by_kind[kind].queue_of(stream, op in run_on) for op, (kind, stream) in each)
    kept = {(kind, stream): by_kind[kind].queue_of(stream) for kind, stream in users}  # as each stream has its own
    return bytearray(map(kept.__getitem__, zip(columns.kind, columns.stream, strict=True)))


class QueueOwners:
    """Who owns which of the ``queues`` in front of an engine, as ops are issued to it."""

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._owners, self._used = [NOBODY] * queues, [-1] * queues
        self._owned: dict[int, int] = {}  # stream -> the queue that it took last
        self._issued = 0

    def queue_of(self, stream: int, runs_on: bool = False) -> int:
        """The queue of the next op issued, which is in ``stream``; the legacy stream, 0, shares that of stream 1.

        If it ``runs_on``, that of the op before it, whoever owns it now.
        """
        stream = stream or 1
        if runs_on:
            return self._owned[stream]
        queue = queue_of(stream, self._owned.get(stream, 0), self._owners, self._used, 0, self._queues)
        self._owners[queue], self._used[queue], self._owned[stream] = stream, self._issued, queue
        self._issued += 1
        return queue
