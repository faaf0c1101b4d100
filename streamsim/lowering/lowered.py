"""Lowered schedules: all that the models know of a schedule on a device before it runs, as flat arrays.

Stream order, events, the legacy default stream and blocking calls become dependences. ``costs`` gives the ticks of ops
on their engines. This file gives the ticks of the host's calls, where a call may hold its thread, and the hardware
queue of each op. Queues and calls depend on what came before; :mod:`streamsim.rules` has their rules. The models only
find out *when* ops run.

Ops keep their index in the schedule.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, compress, count, repeat
from operator import attrgetter
from typing import NamedTuple

from streamsim import program, rules
from streamsim.device import Device
from streamsim.errors import short
from streamsim.lowering.costs import (
    COPIES,
    CostGroups,
    OpCost,
    cost_groups,
    costs_of,
    hand_over_table,
    surcharges_of,
)
from streamsim.program import Copy, HostWork, Kernel, Op, RecordEvent, Schedule, Synchronize, WaitEvent, WaitThread
from streamsim.rules import H2D, KERNEL, NO_STREAM, NOTHING, ticks

NO_SEGMENT = -1
CALLED: dict[type[Op], int] = {RecordEvent: rules.RECORD, WaitEvent: rules.WAIT, Synchronize: rules.SYNCHRONIZE}


class Segment(NamedTuple):
    """The calls ``first <= op < last`` of one thread, of which only the last one may hold the thread.

    The last call returns when the ops ``waits_for`` have ended, and the segment ``behind`` has returned: a segment of
    another thread, or NO_SEGMENT.
    """

    first: int
    last: int
    waits_for: tuple[int, ...]
    thread: int = 0
    behind: int = NO_SEGMENT


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a schedule, in order, as columns: ``last``, ``thread`` and ``behind`` as in :class:`Segment`.

    ``waits``: the ops that the segments wait for, segment by segment. Those of a segment end at its ``waits_to``.
    """

    last: array[int]
    thread: array[int]
    behind: array[int]
    waits: array[int]
    waits_to: array[int]

    def __len__(self) -> int:
        return len(self.last)

    def __getitem__(self, number: int) -> Segment:
        first, waits_from = (self.last[number - 1], self.waits_to[number - 1]) if number else (0, 0)
        waits_for = tuple(self.waits[waits_from : self.waits_to[number]])
        return Segment(first, self.last[number], waits_for, self.thread[number], self.behind[number])

    def __iter__(self) -> Iterator[Segment]:
        return map(self.__getitem__, range(len(self)))


class OpColumns(NamedTuple):
    """The properties of ops, by op.

    - ``group``: the number of its cost group. ``kind``: see :mod:`streamsim.rules`.
    - ``stream``: its stream, or NO_STREAM.
    - ``thread``: the thread that makes its call. ``holds``: 1 if the call may hold this thread, else 0.
    """

    group: array[int]
    kind: bytearray
    stream: array[int]
    thread: array[int]
    holds: bytearray


def segments_of(schedule: Schedule, columns: OpColumns, awaited: Mapping[int, tuple[int, ...]]) -> Segments:
    """Return the segments of a schedule.

    A segment ends behind a call that may hold its thread, and where the next call is of another thread. ``awaited``:
    see :class:`~streamsim.lowering.lowered.OpOrder`. The call of a copy that holds its thread waits for the copy.
    """
    thread, holds = columns.thread, columns.holds
    neighbours = enumerate(zip(holds, thread, thread[1:], strict=False))
    ends = [op for op, (may_hold, own, following) in neighbours if may_hold or own != following] + [len(thread) - 1]
    waits_for = [awaited.get(end, (end,)) if holds[end] else () for end in ends]
    return Segments(
        last=array("i", [end + 1 for end in ends]),
        thread=array("i", [thread[end] for end in ends]),
        behind=array("i", _behind(schedule, thread, ends) if any(thread) else repeat(NO_SEGMENT, len(ends))),
        waits=array("i", chain.from_iterable(waits_for)),
        waits_to=array("i", accumulate(map(len, waits_for))),
    )


def _behind(schedule: Schedule, thread: array[int], ends: Sequence[int]) -> Iterator[int]:
    """Yield for each segment the latest segment of the thread that its last call waits for, or NO_SEGMENT."""
    latest: dict[int, int] = {}  # by thread: its latest segment
    for number, end in enumerate(ends):
        op = schedule.ops[end]
        yield latest.get(op.other, NO_SEGMENT) if isinstance(op, WaitThread) else NO_SEGMENT
        latest[thread[end]] = number


def call_ticks_of(schedule: Schedule, device: Device, columns: OpColumns, of_group: Sequence[int]) -> array[int]:
    """Return the ticks of each call, without what it waits for. ``of_group``: the ticks in each group's cost.

    If an op has a ``call_s``, its call takes that. Other calls take the ticks of their cost and the surcharges of
    :mod:`streamsim.rules`.
    """
    found, own = array("q", map(of_group.__getitem__, columns.group)), list(map(attrgetter("call_s"), schedule.ops))
    kinds = set(columns.kind)
    surcharges = surcharges_of(schedule.launch, device, not kinds.isdisjoint(COPIES), KERNEL in kinds)
    if None in own and any(surcharges):
        _add_surcharges(found, schedule, columns, surcharges)
    for i, call_s in enumerate(own):
        if call_s is not None:
            found[i] = ticks(call_s)
    return found


def _add_surcharges(found: array[int], schedule: Schedule, columns: OpColumns, surcharges: rules.Surcharges) -> None:
    """Add the surcharge of each call to its ticks in ``found``."""
    callers = defaultdict[int, rules.Caller](rules.Caller)  # by thread
    blocks = defaultdict[int, _StreamBlock](_StreamBlock)  # by thread
    number: defaultdict[str, int] = defaultdict(count(1).__next__)  # kernels by name, counted from 1
    known = [False] * (rules.KINDS * (len(schedule.streams) + 1))
    launched = [True] + [False] * columns.kind.count(KERNEL)
    # Calls for copies and kernels since a call might be held. Made again, such a call has only the turn surcharge.
    again = set[tuple[int, int, int]]()
    for i, (group, kind, stream, thread, holds) in enumerate(zip(*columns, strict=True)):
        op, call, caller = schedule.ops[i], (thread, stream, group), callers[thread]
        if type(op) is HostWork:  # half of the ops of recorded programs
            caller.called = rules.OWN_WORK if ticks(op.duration_s) else caller.called
            continue
        if call in again:
            found[i] += rules.turn_surcharge(surcharges, caller, kind)
            continue
        if isinstance(op, Copy | Kernel):
            kernel = number[op.name] if isinstance(op, Kernel) else 0
            is_next = surcharges.enter > 0 and blocks[thread].is_next(op)
            found[i] += rules.work_surcharge(surcharges, caller, known, launched, stream, kind, kernel, is_next)
            if surcharges.enter:
                blocks[thread].add(op, bool(caller.entered))
            else:
                again.add(call)
        elif isinstance(op, RecordEvent | WaitEvent | Synchronize):
            found[i] += rules.turn_surcharge(surcharges, caller, CALLED[type(op)])
        elif isinstance(op, WaitThread):
            caller.called = rules.WAIT_THREAD
        if holds:
            rules.reset_after_wait(caller)
            again.clear()


class _StreamBlock:
    """The copies and kernels that a thread has issued since it entered a stream."""

    def __init__(self) -> None:
        self._copied: set[str] = set()  # arrays of the host
        self._at: dict[str, program.Region] = {}  # by array of the card: where the latest op on it works

    def is_next(self, op: Copy | Kernel) -> bool:
        """Tell whether the op's arrays show that it belongs to the next chunk: one again, or elsewhere in one."""
        if _host_array(op) in self._copied:
            return True
        pairs = ((region, self._at.get(region.buffer, region)) for region in _regions(op))
        return any(max(a.offset, b.offset) >= min(a.offset + a.bytes, b.offset + b.bytes) for a, b in pairs)

    def add(self, op: Copy | Kernel, entered: bool) -> None:
        """Add the next op. ``entered``: whether its call entered a stream, so that a new block begins."""
        if entered:
            self._copied, self._at = set(), {}
        self._at |= {region.buffer: region for region in _regions(op)}
        if array := _host_array(op):
            self._copied.add(array)


def _host_array(op: Copy | Kernel) -> str:
    return op.host.buffer if isinstance(op, Copy) and op.host else ""


def _regions(op: Copy | Kernel) -> tuple[program.Region, ...]:
    """Return the regions of the card that an op uses."""
    if isinstance(op, Kernel):
        return (*op.reads, *op.writes)
    return (op.device,) if op.device else ()


NOT_AN_ENGINE = -1


class Lowered(NamedTuple):
    """A schedule made ready for the models on a device. Arrays are indexed by op; ticks are nanoseconds."""

    schedule: Schedule
    device: Device
    engine_names: tuple[str, ...]
    engine_of: tuple[int, ...]  # by kind of op: index in engine_names, or NOT_AN_ENGINE
    costs: list[OpCost]
    cost: array[int]  # index in costs
    kind: bytearray  # costs[cost[op]].kind
    stream: array[int]  # or NO_STREAM
    queue: bytearray  # number of the op's hardware queue (connection), among those of its engine
    runs_on: frozenset[int]  # kernels that continue a run and stand in no queue
    after: array[int]  # the next op of the same stream, if it waits for this op; else NO_OP
    extra: ExtraDependences  # all other dependences of ops on ops
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
        return rules.crossing(self.hand_over, self.kind[before], self.kind[op], crosses)

    def followers(self) -> Callable[[int], list[int]]:
        """Return a function that gives the ops that wait for an op, the next one of its stream first."""
        return _with_others(self.after, self.extra.by_before())

    def predecessors(self) -> Callable[[int], list[int]]:
        """Return a function that gives the ops that an op waits for, the one before it in its stream first."""
        previous = array("i", [NO_OP]) * len(self.after)
        for op, after in enumerate(self.after):
            if after != NO_OP:
                previous[after] = op
        return _with_others(previous, self.extra.by_op())

    def cost_of(self, op: int) -> OpCost:
        """Return the cost of an op."""
        return self.costs[self.cost[op]]


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

    columns: OpColumns
    streams: tuple[int, int]
    queue: bytearray
    runs_on: frozenset[int]
    order: OpOrder
    segments: Segments


def lower(schedule: Schedule, device: Device) -> Lowered:
    """Return ``schedule`` lowered for ``device``. Raises InputError for a kernel without a cost in the profile."""
    program.check_schedule("schedule", schedule)
    names, engine_of = ENGINES[device.copy_engines.count]
    groups = cost_groups(schedule)
    costs, cost = costs_of(schedule, groups, device), groups.of_op
    kind, holds = bytes(one.kind for one in costs), bytes(one.holds for one in costs)
    queues = device.copy_engines.count, device.copy_engines.connections, device.connections
    columns, streams, queue, run_on, order, segments = _layout(
        schedule, groups, kind, holds, queues, device.compute.kernel_signal
    )
    return Lowered(
        schedule=schedule,
        device=device,
        engine_names=names,
        engine_of=engine_of,
        costs=costs,
        cost=cost,
        kind=columns.kind,
        stream=columns.stream,
        queue=queue,
        runs_on=run_on,
        after=order.after,
        extra=order.extra,
        pending=order.pending,
        frontier=order.frontier,
        segments=segments,
        hand_over=hand_over_table(device.hand_over, schedule.launch, *streams),
        call=call_ticks_of(schedule, device, columns, [one.call for one in costs]),
        submit=ticks(device.host.submit_s),
        wake=ticks(device.host.wake_s),
        launch=ticks(device.host.graph_launch_s) if schedule.launch == "graph" else 0,
    )


@program.remembered
def _layout(
    schedule: Schedule, groups: CostGroups, kind: bytes, holds: bytes, queues: tuple[int, int, int], kernel_signal: str
) -> _Layout:
    """Return the layout of a schedule.

    - ``kind``, ``holds``: fields of the cost of each group of ops.
    - ``queues``: the numbers of copy engines, of hardware queues of each, and of hardware queues of kernels.
    """
    cost = groups.of_op
    columns = OpColumns(
        group=cost,
        kind=bytearray(map(kind.__getitem__, cost)),
        holds=bytearray(map(holds.__getitem__, cost)),
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


def _run_on(columns: OpColumns) -> frozenset[int]:
    """Return the ops of a graph that continue a run of kernels."""
    latest: dict[int, int] = {}  # by stream: the kind of its last op, NOTHING for an event
    found = []
    for op, (kind, stream) in enumerate(zip(columns.kind, columns.stream, strict=True)):
        if rules.runs_on(True, kind, latest.get(stream, NOTHING)):
            found.append(op)
        latest[stream] = kind
    return frozenset(found)


def _queues(queues: tuple[int, int, int], columns: OpColumns, run_on: frozenset[int]) -> bytearray:
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
    """The owners of an engine's hardware ``queues``, while ops are issued (:mod:`streamsim.rules`)."""

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._owners, self._used = [rules.NOBODY] * queues, [-1] * queues
        self._owned: dict[int, int] = {}  # by stream: the queue that it took last
        self._issued = 0

    def queue_of(self, stream: int, runs_on: bool = False) -> int:
        """Return the queue of the next op, which is in ``stream``. The legacy stream, 0, shares the queue of stream 1.

        An op that ``runs_on`` has the queue of the op before it, even if another stream owns that queue now.
        """
        stream = stream or 1
        if runs_on:
            return self._owned[stream]
        queue = rules.queue_of(stream, self._owned.get(stream, 0), self._owners, self._used, 0, self._queues)
        self._owners[queue], self._used[queue], self._owned[stream] = stream, self._issued, queue
        self._issued += 1
        return queue


# The order of ops: which ops an op waits for, and which host calls wait for ops.
#
# Streams, events, the legacy default stream and the signals behind kernels set this order.

NO_OP = -1


class ExtraDependences(NamedTuple):
    """The dependences beside stream order: ``op[k]`` waits for ``before[k]``. They stand in issue order of ``op``.

    They are columns because a program may have as many of them as ops, and lists keep the garbage collector busy.
    """

    before: array[int]
    op: array[int]

    def by_before(self) -> dict[int, list[int]]:
        """Return the ops that wait, by the op that they wait for."""
        return _grouped(self.before, self.op)

    def by_op(self) -> dict[int, list[int]]:
        """Return the ops that are waited for, by the op that waits for them."""
        return _grouped(self.op, self.before)


def _grouped(keys: array[int], values: array[int]) -> dict[int, list[int]]:
    """Return the values of each key, in order."""
    found: dict[int, list[int]] = {}
    for key, value in zip(keys, values, strict=True):
        found.setdefault(key, []).append(value)
    return found


class OpOrder(NamedTuple):
    """The dependences of a schedule. All but ``awaited`` are described in :class:`~streamsim.lowering.lowered.Lowered`.

    ``awaited``: the ops that each host call waits for. The calls that may hold their thread stand in it, in order.
    """

    after: array[int]
    extra: ExtraDependences
    pending: array[int]
    frontier: dict[int, tuple[int, ...]]
    awaited: dict[int, tuple[int, ...]]


def order_of(schedule: Schedule, columns: OpColumns, kernel_signal: str) -> OpOrder:
    """Return the order of a schedule's ops. ``kernel_signal``: see :class:`~streamsim.device.profile.Compute`.

    Most ops wait only for the op before them in their stream. The loop itself handles such an op, because calling a
    function for it would take longer.
    """
    kind, stream = columns.kind, columns.stream
    ops, streams = schedule.ops, program.CudaOrder(schedule)
    order = OpOrder(
        array("i", [NO_OP]) * len(kind), ExtraDependences(array("i"), array("i")), array("i", [0]) * len(kind), {}, {}
    )
    after, pending, tail = order.after, order.pending, streams.tail
    latest = [NO_OP] * len(tail)  # the last op of each stream, whose follower is not yet known
    run_ends = _run_ends(kind, stream) if kernel_signal == "run" else {}
    for i, (its, own, held) in enumerate(zip(kind, stream, columns.holds, strict=True)):
        if its == NOTHING:
            if own != NO_STREAM or held:
                _order_call(order, streams, i, ops[i])
            continue
        before, last = tail[own] if own else streams.before(own), latest[own]
        if run_ends and its != KERNEL:
            before = tuple(dict.fromkeys(end for earlier in before for end in run_ends.get(earlier, (earlier,))))
        if len(before) == 1 and before[0] == last:
            pending[i], after[last] = 2, i  # its call, and the op before it
        else:
            _follow(order, i, last, before)
        latest[own] = i
        if own:
            tail[own] = (i,)
        else:
            streams.append(own, i)
    return order


def _follow(order: OpOrder, op: int, last: int, before: tuple[int, ...]) -> None:
    """Add that ``op`` waits for its call and for all of ``before``. ``last``: the op before it in its stream."""
    order.pending[op] = 1 + len(before)
    for earlier in before:
        if earlier == last:
            order.after[earlier] = op
        else:
            order.extra.before.append(earlier)
            order.extra.op.append(op)


def _order_call(order: OpOrder, streams: program.CudaOrder, i: int, op: Op) -> None:
    """Add what a record, a wait or a host call waits for."""
    if isinstance(op, RecordEvent):
        order.frontier[i] = streams.record(op.stream, op.event)
    elif isinstance(op, WaitEvent):
        order.frontier[i] = streams.wait(op.stream, op.event)
    elif isinstance(op, Synchronize):
        order.awaited[i] = streams.awaited(op)
    elif isinstance(op, WaitThread):
        order.awaited[i] = ()


def _run_ends(kind: bytearray, stream: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Return, for each kernel, the ops that end its run: the run's last kernel in each stream.

    A run is a number of kernels that are issued one after another without a copy between them.
    """
    ends: dict[int, tuple[int, ...]] = {}
    run: list[int] = []
    for i, its in enumerate((*kind, H2D)):  # the copy at the end ends the last run
        if its == KERNEL:
            run.append(i)
        elif its != NOTHING and run:
            last = {stream[k]: k for k in run}
            ends |= dict.fromkeys(run, tuple(last.values()))
            run = []
    return ends
