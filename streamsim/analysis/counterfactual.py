"""The same work with one thing changed: what a schedule and its device would be without a cause of lost time.

A counterfactual is again a schedule and a device, so that the model says what it takes. Those that change the order
of ops (:class:`Rework`) keep what the data needs: an op that reads what another one writes stays behind it. Where an
op does not name its memory, that is not known, and its place behind the ops that its stream and its events put
before it is kept; only a copy to the card behind a kernel or a copy back, all of them without named memory, counts
as the first op of a new chunk.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from streamsim.analysis.races import History, check, repaired, touched
from streamsim.checks import LARGEST_BYTES
from streamsim.device.profile import MOST_CONNECTIONS
from streamsim.program.schedule import (
    LEGACY_STREAM,
    Copy,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    StreamKind,
    Synchronize,
    WaitEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from streamsim.device.profile import Device, LinkDirection

NON_BLOCKING: tuple[StreamKind, ...] = ("non-blocking",)
ALL_AT_ONCE = 1024  # kernels
SLIVER = 1e-6  # of the card: kernels of this width never wait for room


class Case(NamedTuple):
    """A schedule on a device."""

    schedule: Schedule
    device: Device


def is_work(op: Op) -> bool:
    """Whether an op runs on an engine."""
    return isinstance(op, Copy | Kernel)


def working_streams(schedule: Schedule) -> set[int]:
    """The streams that have copies or kernels."""
    return {op.stream for op in schedule.ops if isinstance(op, Copy | Kernel)}


def last_work(schedule: Schedule) -> int:
    """The index of the last copy or kernel (-1: none)."""
    return max((i for i, op in enumerate(schedule.ops) if is_work(op)), default=-1)


# Without a cause that lies in the program


def has_pageable(case: Case) -> bool:
    """Whether some copy is of pageable memory."""
    names = case.schedule.pageable_names
    return any(isinstance(op, Copy) and op.host is not None and op.host.buffer in names for op in case.schedule.ops)


def has_legacy(case: Case) -> bool:
    """Whether the legacy default stream and blocking streams wait for each other."""
    used = working_streams(case.schedule)
    return LEGACY_STREAM in used and any(s and case.schedule.streams[s - 1] == "blocking" for s in used)


def has_host_waits(case: Case) -> bool:
    """Whether a call other than a pageable copy holds the host before the last copy or kernel is issued."""
    ops = case.schedule.ops[: max(0, last_work(case.schedule))]
    return any(isinstance(op, Synchronize) or (isinstance(op, Copy) and op.blocking) for op in ops)


def pinned(schedule: Schedule) -> Schedule:
    """All host memory pinned."""
    return replace(
        schedule, buffers=tuple(replace(b, memory="pinned") if b.memory == "pageable" else b for b in schedule.buffers)
    )


def without_legacy_stream(schedule: Schedule) -> Schedule:
    """The legacy default stream's ops in a stream of their own, and all streams non-blocking."""
    return _still_ordered(schedule, legacy_apart(schedule))


def without_host_waits(schedule: Schedule) -> Schedule:
    """No call holds the host before the last copy or kernel has been issued."""
    last = last_work(schedule)
    ops = [op for i, op in enumerate(unblocked(schedule).ops) if i > last or not isinstance(op, Synchronize)]
    return _still_ordered(schedule, replace(schedule, ops=tuple(ops)))


def legacy_apart(schedule: Schedule) -> Schedule:
    """The same ops; those of the legacy default stream in a stream of their own, whatever order that loses."""
    own = len(schedule.streams) + 1
    ops = [replace(op, stream=own) if op.stream == LEGACY_STREAM else op for op in schedule.ops]
    return replace(schedule, ops=tuple(ops), streams=NON_BLOCKING * own)


def unblocked(schedule: Schedule) -> Schedule:
    """The same ops; no copy holds the host."""
    ops = [replace(op, blocking=False) if isinstance(op, Copy) and op.blocking else op for op in schedule.ops]
    return replace(schedule, ops=tuple(ops))


def _still_ordered(before: Schedule, after: Schedule) -> Schedule:
    """``after`` with waits for events where it has lost an order that its data needs."""
    if _is_racy(before):
        return after  # what its data needs was not kept in the first place
    return repaired(after, [finding for finding in check(after) if finding.rule == "race"])


def _is_racy(schedule: Schedule) -> bool:
    return any(finding.rule == "race" for finding in check(schedule))


# Without a cause that lies in the device


def has_few_connections(case: Case) -> bool:
    """Whether streams must share a hardware queue in front of some engine."""
    least = min(case.device.connections, case.device.copy_engines.connections)
    return len({stream or 1 for stream in working_streams(case.schedule)}) > least  # the legacy one uses stream 1's


def all_connections(device: Device) -> Device:
    """As many hardware queues as CUDA gives at most."""
    return device.with_connections(MOST_CONNECTIONS)


def without_duplex_loss(device: Device) -> Device:
    """Neither direction of the link slows the other one down."""

    def alone(link: LinkDirection) -> LinkDirection:
        return replace(
            link,
            duplex_latency_s=link.latency_s,
            crowded_duplex_latency_s=link.crowded_latency_s,
            duplex_bandwidth_bytes_per_s=link.bandwidth_bytes_per_s,
        )

    return replace(device, h2d=alone(device.h2d), d2h=alone(device.d2h))


def without_host_costs(device: Device) -> Device:
    """The host's calls take no time."""
    return replace(device, host=_no_time(device.host))


def without_latencies(case: Case) -> Case:
    """Copies take their bytes' time and kernels their elements', with nothing added for each op or hand-over."""
    schedule, device = case
    ops = [_bare(op, device) if isinstance(op, Kernel) and op.duration_s is None else op for op in schedule.ops]
    bare = replace(
        device,
        h2d=_bytes_alone(device.h2d),
        d2h=_bytes_alone(device.d2h),
        compute=replace(_no_time(device.compute), resident_threads=0),
        hand_over=_no_time(device.hand_over),
    )
    return Case(replace(schedule, ops=tuple(ops)), bare)


def _bytes_alone(link: LinkDirection) -> LinkDirection:
    """No latency; nor what a crowd costs the first bytes, which a copy pays before any of them flows."""
    even = replace(link, crowded_bandwidth_bytes_per_s=link.bandwidth_bytes_per_s)
    found: LinkDirection = _no_time(even)
    return found


def _bare(kernel: Kernel, device: Device) -> Kernel:
    alone_s, share = device.kernel_time(kernel)
    return replace(kernel, duration_s=alone_s * share, fill=1.0, share=1.0, threads=0, parts=())


def _no_time(part: Any) -> Any:
    times = (name for name in part.__struct_fields__ if name.endswith("_s") and not name.endswith("_per_s"))
    return replace(part, **dict.fromkeys(times, 0.0))


# What the data needs, and orders that keep it


class Rework:
    """Puts the ops of a schedule into another order of issue or into other streams.

    ``orders``: by name, the orders of issue that keep every dependence and differ from the schedule's own.
    ``is_racy``: the schedule has races; then it does not keep the order that its data needs, and nor is it kept here.
    By op: ``before``, the ops that its stream and events put it behind directly; ``reads_from``, those whose data it
    reads; ``conflicts``, those that share bytes with it, one writing, nearest first; ``chunk``, the first of the ops
    with which it hands on data. ``shared``: of each kernel the ranges that kernels of other chunks read as well
    (a table, weights); they make no chunk of their readers. ``common``: the ops that write them. ``awaited``: of each
    synchronisation the ops that it waits for. ``last``: the last copy or kernel (-1: none).
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.is_racy = _is_racy(schedule)
        self.last = last_work(schedule)
        self.awaited: dict[int, tuple[int, ...]] = {}
        self.before: list[frozenset[int]] = []
        self.reads_from: list[set[int]] = []
        self.conflicts: list[set[int]] = []
        self._versions: list[dict[Region, frozenset[int]]] = []  # of what kernels read: the range, and who wrote it
        self._follow()
        self._find_data()
        self.shared = self._find_shared()
        self.common = {k for i, regions in self.shared.items() for region in regions for k in self._versions[i][region]}
        self.chunk = self._find_chunks()
        self.orders = self._find_orders()

    @property
    def has_needless_order(self) -> bool:
        """Whether streams, events or buffers used again put an op behind one from which it reads nothing."""
        return any(
            self.chunk[earlier] != self.chunk[op] and earlier not in self.reads_from[op]
            for op, before in enumerate(self.before)
            for earlier in before | self.conflicts[op]
        )

    def _follow(self) -> None:
        """Which ops each op is put behind by its stream and by events, and what the host waits for."""
        front: dict[int, frozenset[int]] = {}
        recorded: dict[int, frozenset[int]] = {}
        nothing: frozenset[int] = frozenset()
        for i, op in enumerate(self._schedule.ops):
            before = nothing
            if isinstance(op, Synchronize):
                of_stream = nothing if op.stream is None else front.get(op.stream, nothing)
                self.awaited[i] = tuple(sorted(of_stream if op.event is None else recorded.get(op.event, nothing)))
            elif isinstance(op, RecordEvent):
                recorded[op.event] = front.get(op.stream, nothing)
            elif isinstance(op, WaitEvent):
                front[op.stream] = front.get(op.stream, nothing) | recorded.get(op.event, nothing)
            else:
                before, front[op.stream] = front.get(op.stream, nothing), frozenset((i,))
            self.before.append(before)

    def _find_data(self) -> None:
        """Which ops each op needs: those whose data it reads, and all with which it shares bytes."""
        ops = self._schedule.ops
        histories = {buffer.name: History() for buffer in self._schedule.buffers}
        for i, op in enumerate(ops):
            reads, conflicts, versions = self.unknown(i), set(self.unknown(i)), dict[Region, frozenset[int]]()
            for region, writes in touched(op, frozenset()):
                history, end = histories[region.buffer], region.offset + region.bytes
                if writes:
                    found = history.write(i, region.offset, end)
                else:
                    found = history.read(i, i, region.offset, end)  # readers of a stream may come into others
                    reads.update(found)
                    versions[region] = frozenset(found)
                conflicts.update(found)
            for edges in (reads, conflicts):
                edges.discard(i)
                if self.is_racy:
                    edges -= {k for k in edges if ops[k].stream != op.stream and k not in self.before[i]}
            self.reads_from.append(reads)
            self.conflicts.append(conflicts)
            self._versions.append(versions if isinstance(op, Kernel) else {})

    def unknown(self, i: int) -> set[int]:
        """The ops before ``i`` of which it may need data, because it or they do not name their memory."""
        ops = self._schedule.ops
        return {
            k
            for k in self.before[i]
            if not (_names_memory(ops[k]) and _names_memory(ops[i])) and not _starts_chunk(ops[k], ops[i])
        }

    def _find_shared(self) -> dict[int, set[Region]]:
        """Of kernels the ranges that they read as others do that each read something else too: what all chunks need."""
        readers: dict[tuple[Region, frozenset[int]], list[int]] = {}
        for i, versions in enumerate(self._versions):
            for version in versions.items():
                readers.setdefault(version, []).append(i)
        found: dict[int, set[Region]] = {}
        for version, kernels in readers.items():
            others = [self._versions[i].items() - {version} for i in kernels]
            if any(a - b and b - a for a, b in pairwise(others)):
                for i in kernels:
                    found.setdefault(i, set()).add(version[0])
        return found

    def _hands_over(self, i: int) -> set[int]:
        """The ops whose data ``i`` reads, but for what kernels of other chunks read as well."""
        shared = self.shared.get(i)
        if shared is None:
            return self.reads_from[i]
        own = self.unknown(i).union(*(w for region, w in self._versions[i].items() if region not in shared))
        return own & self.reads_from[i]

    def _find_chunks(self) -> list[int]:
        """Ops that hand data to each other, directly or not, make a chunk: the index of its first op."""
        chunk = list(range(len(self._schedule.ops)))

        def root(i: int) -> int:
            while chunk[i] != i:
                chunk[i] = chunk[chunk[i]]
                i = chunk[i]
            return i

        for i in range(len(chunk)):
            for k in self._hands_over(i):
                a, b = sorted((root(i), root(k)))
                chunk[b] = a
        return [root(i) for i in range(len(chunk))]

    def _find_orders(self) -> dict[str, list[int]]:
        ops, chunk = self._schedule.ops, self.chunk
        work = [i for i, op in enumerate(ops) if is_work(op)]
        number = {root: k for k, root in enumerate(dict.fromkeys(chunk[i] for i in work))}
        streams = len(working_streams(self._schedule))
        stage = [_stage(op) for op in ops]
        keys: dict[str, Callable[[int], tuple[int, ...]]] = {
            "depth-first": lambda i: (number[chunk[i]], i),
            "breadth-first": lambda i: (stage[i], number[chunk[i]], i),
            "breadth-first in rounds of one chunk a stream": lambda i: (
                number[chunk[i]] // streams,
                stage[i],
                number[chunk[i]],
                i,
            ),
        }
        found: dict[str, list[int]] = {}
        for name, key in keys.items():
            order = sorted(work, key=key)
            if order != work and order not in found.values() and self._keeps(order):
                found[name] = order
        return found

    def _keeps(self, order: Sequence[int]) -> bool:
        place = {i: k for k, i in enumerate(order)}
        return all(place[k] < place[i] for i in order for k in self.conflicts[i] | self.awaits(i))

    def reordered(self, schedule: Schedule, order: str, holds: bool) -> Schedule:
        """``schedule`` (this one, but for what single ops are) issued in one of the ``orders``, in its streams.

        ``holds``: synchronisations stay; what the host waits for stays before what it issues then.
        """
        edges = [conflicts | self.awaits(i) for i, conflicts in enumerate(self.conflicts)]
        streams = {i: op.stream or 0 for i, op in enumerate(schedule.ops)}
        return self._emit(schedule, self.sequence(order, holds), streams, schedule.streams, edges)

    def awaits(self, i: int) -> set[int]:
        """The ops of other streams behind which events put ``i``."""
        ops = self._schedule.ops
        return {k for k in self.before[i] if ops[k].stream != ops[i].stream}

    def unordered(self, schedule: Schedule, order: str | None, holds: bool, most: int) -> Schedule:
        """``schedule`` with no order but that of the data, as if no buffer were used twice, in ``most`` streams."""
        sequence = self.sequence(order, holds)
        new = _NewStreams(schedule, most)
        for i in sequence:
            if is_work(schedule.ops[i]):
                new.put(i, self.reads_from[i])
        return self._emit(schedule, sequence, new.of, new.kinds(), self.reads_from)

    def sequence(self, order: str | None, holds: bool) -> list[int]:
        """The copies, kernels and (if the host ``holds``) synchronisations in the order of issue."""
        ops = self._schedule.ops
        place = {i: k for k, i in enumerate(self.orders[order])} if order else {i: i for i in range(len(ops))}
        stretch, found = list[int](), list[int]()
        for i, op in enumerate(ops[: self.last + 1]):
            if is_work(op):
                stretch.append(i)
            elif holds and isinstance(op, Synchronize):
                found += (*sorted(stretch, key=place.__getitem__), i)
                stretch = []
        return found + sorted(stretch, key=place.__getitem__)

    def _emit(
        self,
        schedule: Schedule,
        sequence: list[int],
        streams: dict[int, int],
        kinds: tuple[StreamKind, ...],
        edges: Sequence[Collection[int]],
    ) -> Schedule:
        """The ops of ``sequence`` in their ``streams``, with events where ``edges`` go from stream to stream."""
        return issued(schedule, [schedule.ops[i] for i in sequence], sequence, streams, kinds, edges, self.awaited)


def issued(
    schedule: Schedule,
    ops: Sequence[Op],
    numbers: Sequence[int],
    streams: Mapping[int, int],
    kinds: tuple[StreamKind, ...],
    edges: Sequence[Collection[int]],
    awaited: Mapping[int, Collection[int]],
) -> Schedule:
    """``schedule`` with ``ops`` in place of its own, with events where ``edges`` go from stream to stream.

    ``numbers``: by which the ops know each other: in ``streams`` (of the ``kinds``), the stream of each; in ``edges``,
    what each must come after; in ``awaited``, what a synchronisation waits for, but for one with the whole device. The
    host waits at the end if it does so in ``schedule``.
    """
    place = {i: k for k, i in enumerate(numbers)}
    waits = {i: _waits(i, edges[i], streams, place) for i, op in zip(numbers, ops, strict=True) if is_work(op)}
    events = {k: event for event, k in enumerate(dict.fromkeys(k for some in waits.values() for k in some))}
    found: list[Op] = []
    for i, op in zip(numbers, ops, strict=True):
        if isinstance(op, Copy | Kernel):
            found += (WaitEvent(events[k], streams[i]) for k in waits[i])
            found.append(replace(op, stream=streams[i]))
            if i in events:
                found.append(RecordEvent(events[i], streams[i]))
        elif op.event is None and op.stream is None:
            found.append(Synchronize())
        else:
            found += (Synchronize(stream=stream) for stream in {streams[k]: k for k in awaited[i]})
    if last_work(schedule) + 1 < len(schedule.ops):
        found.append(Synchronize())
    return replace(schedule, ops=tuple(found), streams=kinds, events=len(events))


def _waits(i: int, edges: Collection[int], streams: Mapping[int, int], place: dict[int, int]) -> list[int]:
    """Of the ops that ``i`` must come after, the last of every other stream."""
    last = {streams[k]: k for k in sorted(edges, key=place.__getitem__)}
    return [k for stream, k in last.items() if stream != streams[i]]


class _NewStreams:
    """Deals ops out to streams: behind an op that they read from, else in a new one, else in that used longest ago.

    Ops of the legacy default stream stay in it, and those of blocking streams in blocking ones.
    """

    def __init__(self, schedule: Schedule, most: int) -> None:
        self.of: dict[int, int] = {}
        self._schedule = schedule
        self._most = most
        self._kinds: list[StreamKind] = []
        self._tail: dict[int, int] = {}  # by new stream its last op; the one used longest ago first

    def kinds(self) -> tuple[StreamKind, ...]:
        return tuple(self._kinds)

    def put(self, i: int, reads_from: Collection[int]) -> None:
        old = self._schedule.ops[i].stream
        stream = self._choose(self._schedule.streams[old - 1], reads_from) if old else LEGACY_STREAM
        self._tail.pop(stream, None)
        self._tail[stream] = i
        self.of[i] = stream

    def _choose(self, kind: StreamKind, reads_from: Collection[int]) -> int:
        own = [stream for stream in self._tail if stream and self._kinds[stream - 1] == kind]
        behind = [stream for stream in own if self._tail[stream] in reads_from]
        if behind:
            return behind[-1]
        if own and len(self._kinds) >= self._most:
            return own[0]
        self._kinds.append(kind)
        return len(self._kinds)


def _names_memory(op: Op) -> bool:
    return op.device is not None if isinstance(op, Copy) else bool(isinstance(op, Kernel) and (op.reads or op.writes))


def _starts_chunk(before: Op, op: Op) -> bool:
    """Whether ``op``, next in the stream, begins a chunk: of ops that do not name their memory."""
    if _names_memory(before) or _names_memory(op) or before.stream != op.stream:
        return False
    return _stage(op) == 0 and _stage(before) > 0


def _stage(op: Op) -> int:
    """Copies in, kernels, copies back, in the order of a pipeline."""
    if isinstance(op, Copy):
        return 0 if op.direction == "h2d" else 2
    return 1


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


def without_width(case: Case) -> Case:
    """Kernels fill so little of the card that all run side by side, each for the time that it takes alone."""
    schedule, device = case
    ops = [_timed(op, device.kernel_time(op)[0], SLIVER) if isinstance(op, Kernel) else op for op in schedule.ops]
    compute = replace(device.compute, concurrent_kernels=ALL_AT_ONCE)
    return Case(replace(schedule, ops=tuple(ops)), replace(device, compute=compute))
