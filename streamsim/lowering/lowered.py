"""Lowered schedules: all that the models know of a schedule on a device before it runs, as flat arrays.

``order`` turns stream order, events, the legacy default stream and blocking calls into dependences. ``costs`` gives the
ticks of ops on their engines, and ``host`` those of calls. This file gives the hardware queue of each op. Queues and
calls depend on what came before; :mod:`streamsim.rules` has their rules. The models only find out *when* ops run.

Ops keep their index in the schedule.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

from streamsim.device import Device
from streamsim.lowering.costs import KERNEL, NOTHING, Makes, Shape, hand_over_table, makes_of, shapes_of
from streamsim.lowering.host import Columns, Segments, call_ticks_of, segments_of
from streamsim.lowering.order import NO_OP, Links, Order, order_of
from streamsim.program import Schedule, check_schedule, remembered
from streamsim.rules import NO_STREAM, NOBODY, crossing, queue_of, runs_on, ticks
from streamsim.text import short

NOT_AN_ENGINE = -1


class Lowered(NamedTuple):
    """A schedule made ready for the models on a device. Arrays are indexed by op; ticks are nanoseconds."""

    schedule: Schedule
    device: Device
    engine_names: tuple[str, ...]
    engine_of: tuple[int, ...]  # by kind of op: index in engine_names, or NOT_AN_ENGINE
    shapes: list[Shape]
    shape: array[int]  # index in shapes
    kind: bytearray  # shapes[shape[op]].kind
    stream: array[int]  # or NO_STREAM
    queue: bytearray  # number of the op's hardware queue (connection), among those of its engine
    runs_on: frozenset[int]  # kernels that continue a run and stand in no queue
    after: array[int]  # the next op of the same stream, if it waits for this op; else NO_OP
    also: Links  # all other dependences of ops on ops
    pending: array[int]  # the number of things that the op waits for: ops, and its call
    frontier: dict[int, tuple[int, ...]]  # for each record and wait: the ops whose ends complete it
    segments: Segments
    hand_over: tuple[int, ...]  # ticks from kind to kind: see hand_over_table
    call: array[int]  # ticks that the host spends on the call, without what it waits for
    submit: int  # ticks from the return of a call until the card has its op
    wake: int  # ticks from the end of what the host waits for until it continues
    launch: int  # ticks before the first call (the launch of a graph)

    def __repr__(self) -> str:
        return short(f"Lowered({len(self.kind)} ops of {self.schedule.name or 'a schedule'} on {self.device.name})")

    @property
    def threads(self) -> list[int]:
        """The threads of the host that make calls, in the order of their first calls."""
        return list(dict.fromkeys(self.segments.thread))

    def engine(self) -> array[int]:
        """Return the engine of each op: its index in ``engine_names``, NOT_AN_ENGINE for events and host calls."""
        return array("b", map(self.engine_of.__getitem__, self.kind))

    def crossing(self, before: int, op: int) -> int:
        """Return the ticks from the end of ``before`` until ``op``, which waits for it, may start."""
        crosses = self.stream[before] != self.stream[op]
        return crossing(self.hand_over, self.kind[before], self.kind[op], crosses)

    def followers(self) -> Callable[[int], list[int]]:
        """Return a function that gives the ops that wait for an op, the next one of its stream first."""
        return _with_others(self.after, self.also.by_before())

    def predecessors(self) -> Callable[[int], list[int]]:
        """Return a function that gives the ops that an op waits for, the one before it in its stream first."""
        previous = array("i", [NO_OP]) * len(self.after)
        for op, after in enumerate(self.after):
            if after != NO_OP:
                previous[after] = op
        return _with_others(previous, self.also.by_op())

    def shape_of(self, op: int) -> Shape:
        """Return the shape of an op."""
        return self.shapes[self.shape[op]]


def _with_others(in_stream: array[int], others: dict[int, list[int]]) -> Callable[[int], list[int]]:
    """Return a function that gives an op's neighbour ``in_stream``, if it has one, and then its ``others``."""

    def of(op: int) -> list[int]:
        neighbour = in_stream[op]
        found = [] if neighbour == NO_OP else [neighbour]
        return found + others[op] if op in others else found

    return of


# By number of copy engines: the names of all engines, and the engine of each kind of op.
ENGINES = {
    0: (("gpu",), (0, 0, 0, NOT_AN_ENGINE)),
    1: (("copy", "compute"), (0, 0, 1, NOT_AN_ENGINE)),
    2: (("h2d", "d2h", "compute"), (0, 1, 2, NOT_AN_ENGINE)),
}


class _Layout(NamedTuple):
    """The part of a lowered schedule that depends on no time of the device.

    ``streams``: the number of streams in use, and of streams with kernels.
    """

    columns: Columns
    streams: tuple[int, int]
    queue: bytearray
    runs_on: frozenset[int]
    order: Order
    segments: Segments


def lower(schedule: Schedule, device: Device) -> Lowered:
    """Return ``schedule`` lowered for ``device``. Raises InputError for a kernel without a cost in the profile."""
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
    """Return the layout of a schedule.

    - ``kind``, ``holds``: fields of the shape of each make of ops.
    - ``queues``: the numbers of copy engines, of hardware queues of each, and of hardware queues of kernels.
    """
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
    return ticks(device.host.graph_launch_s) if schedule.launch == "graph" else 0


def _run_on(columns: Columns) -> frozenset[int]:
    """Return the ops of a graph that continue a run of kernels."""
    latest: dict[int, int] = {}  # by stream: the kind of its last op, NOTHING for an event
    found = []
    for op, (kind, stream) in enumerate(zip(columns.kind, columns.stream, strict=True)):
        if runs_on(True, kind, latest.get(stream, NOTHING)):
            found.append(op)
        latest[stream] = kind
    return frozenset(found)


def _queues(queues: tuple[int, int, int], columns: Columns, run_on: frozenset[int]) -> bytearray:
    """Return the hardware queue of each copy and kernel, among those of its engine; 0 for other ops."""
    copy_engines, of_copies, of_kernels = queues
    engine_of = ENGINES[copy_engines][1]
    counts = [of_copies] * (copy_engines or 1) + [of_kernels]
    owners = [QueueOwners(count) for count in counts]  # by engine
    by_kind = [*(owners[engine] for engine in engine_of[:NOTHING]), QueueOwners(1)]
    of_op = columns.kind, columns.stream
    users = dict.fromkeys(zip(*of_op, strict=True))  # in the order of first use
    if len({stream for kind, stream in users if kind != NOTHING}) > min(counts):
        ops = enumerate(zip(*of_op, strict=True))
        return bytearray(by_kind[kind].queue_of(stream, op in run_on) for op, (kind, stream) in ops)
    own = {(kind, stream): by_kind[kind].queue_of(stream) for kind, stream in users}  # each stream keeps its queue
    return bytearray(map(own.__getitem__, zip(*of_op, strict=True)))


class QueueOwners:
    """The owners of an engine's hardware ``queues``, while ops are issued (:mod:`streamsim.rules.queues`)."""

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._owners, self._used = [NOBODY] * queues, [-1] * queues
        self._owned: dict[int, int] = {}  # by stream: the queue that it took last
        self._issued = 0

    def queue_of(self, stream: int, runs_on: bool = False) -> int:
        """Return the queue of the next op, which is in ``stream``. The legacy stream, 0, shares the queue of stream 1.

        An op that ``runs_on`` has the queue of the op before it, even if another stream owns that queue now.
        """
        stream = stream or 1
        if runs_on:
            return self._owned[stream]
        queue = queue_of(stream, self._owned.get(stream, 0), self._owners, self._used, 0, self._queues)
        self._owners[queue], self._used[queue], self._owned[stream] = stream, self._issued, queue
        self._issued += 1
        return queue
