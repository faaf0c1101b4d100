"""The ops of a schedule in another order of issue or in other streams, as far as their data allows it.

An op that reads what another one writes stays behind it. Where an op does not name its memory, that is not known,
and its place behind the ops that its stream and its events put before it is kept; only a copy to the card behind a
kernel or a copy back, all of them without named memory, counts as the first op of a new chunk.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from streamsim.program.remembered import remembered
from streamsim.program.schedule import (
    LEGACY_STREAM,
    Copy,
    HostWork,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    StreamKind,
    Synchronize,
    WaitEvent,
    WaitThread,
)
from streamsim.program.workload import ALIGN_BYTES
from streamsim.races.check import check
from streamsim.races.touched_bytes import History, touched
from streamsim.transform.legacy_stream import has_legacy, legacy_beside
from streamsim.transform.ops import NON_BLOCKING, is_work, last_work, names_memory, stage_of, working_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


@remembered
def is_racy(schedule: Schedule) -> bool:
    """Whether the schedule has races."""
    return any(finding.rule == "race" for finding in check(schedule))


@remembered
def dependences_of(schedule: Schedule) -> Dependences:
    """What the ops of a schedule need of each other.

    What the legacy default stream orders by waiting for others does not show in its own stream: of ops that name no
    memory they are those of the streams in which the ops would be without it.
    """
    if has_legacy(schedule) and not all(map(names_memory, schedule.ops)):
        schedule = legacy_beside(schedule)
    return Dependences(schedule)


class Dependences:
    """Puts the ops of a schedule into another order of issue or into other streams.

    ``orders``: by name, the orders of issue that keep every dependence and differ from the schedule's own; ``issued``:
    the names of its own.
    ``is_racy``: the schedule has races; then it does not keep the order that its data needs, and nor is it kept here.
    By op: ``before``, the ops that its stream and events put it behind directly; ``reads_from``, those whose data it
    reads; ``conflicts``, those that share bytes with it, one writing, nearest first; ``chunk``, the first of the ops
    with which it hands on data. ``shared``: of each kernel the ranges that kernels of other chunks read as well
    (a table, weights); they make no chunk of their readers. ``common``: the ops that write them, and copies back of
    what several chunks have written, which make no chunk of those either; ``sums`` those of them of which only their
    place says so. ``awaited``: of each synchronisation the ops that it waits for. ``last``: the last copy or
    kernel (-1: none).
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.is_racy = is_racy(schedule)
        self.last = last_work(schedule)
        self._streams = working_streams(schedule)
        self.awaited: dict[int, tuple[int, ...]] = {}
        self.before: list[frozenset[int]] = []
        self.reads_from: list[set[int]] = []
        self.conflicts: list[set[int]] = []
        self._versions: list[dict[Region, frozenset[int]]] = []  # of what kernels read: the range, and who wrote it
        self._follow()
        self._find_data()
        self.sums = self._find_sums()
        self.shared = self._find_shared()
        self.common = {k for i, regions in self.shared.items() for region in regions for k in self._versions[i][region]}
        self.chunk = self._find_chunks()
        self.issued = set[str]()
        self.orders = self._find_orders()

    @property
    def has_needless_order(self) -> bool:
        """Whether streams, events or buffers used again put an op behind one from which it reads nothing."""
        return any(
            self.chunk[earlier] != self.chunk[op] and earlier not in self.reads_from[op]
            for op, before in enumerate(self.before)
            for earlier in before | self.conflicts[op]
        )

    @property
    def passes_unknown(self) -> bool:
        """Whether an op that another order or other streams put before an earlier one may need it all the same."""
        ops = self._schedule.ops
        return any(
            not (names_memory(ops[i]) and names_memory(ops[k]))
            for i, before in enumerate(self.before)
            for k in before - self.conflicts[i]
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
            elif isinstance(op, Copy | Kernel):
                before, front[op.stream] = front.get(op.stream, nothing), frozenset((i,))
            self.before.append(before)

    def _find_data(self) -> None:
        """Which ops each op needs: those whose data it reads, and all with which it shares bytes."""
        ops = self._schedule.ops
        histories = {buffer.name: History() for buffer in self._schedule.buffers}
        for i, op in enumerate(ops):
            reads, versions = self.unknown(i), dict[Region, frozenset[int]]()
            conflicts = set(reads)
            for region, writes in touched(op):
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

    def _find_sums(self) -> set[int]:
        """Copies back behind all kernels, beyond those whose data they are said to read: sums of all.

        Of a sum that is too small to give each chunk an aligned piece some kernels write no byte. It is copied back at
        once, behind all of them by events, or behind what others are copied back in its stream, or where some kernels
        write nothing at all, or long after another copy back of what the same kernel has written.
        """
        ops, found = self._schedule.ops, set[int]()
        kernels = {i for i, op in enumerate(ops) if isinstance(op, Kernel)}
        backs = Counter(op.device.buffer for op in ops if isinstance(op, Copy) and op.direction == "d2h" and op.device)
        early = [k for k in range(max(kernels, default=0)) if stage_of(ops[k]) == 2]
        has_mute = any(isinstance(op, Kernel) and op.reads and not op.writes for op in ops)
        for i in range(max(kernels, default=self.last) + 1, self.last + 1):
            op = ops[i]
            if not isinstance(op, Copy) or op.direction != "d2h" or op.bytes >= ALIGN_BYTES * len(kernels):
                continue
            if op.device is None or backs[op.device.buffer] > 1:
                continue
            earlier = self.before[i] - self.awaits(i)
            follows = earlier & found or any(kernels <= _all_from(k, self.reads_from) for k in earlier)
            is_late = any(self.reads_from[k] & self.reads_from[i] for k in early)
            is_more = follows or has_mute or is_late or self.awaits(i) - self.reads_from[i]
            if is_more and kernels <= _all_from(i, self.before) and not kernels <= _all_from(i, self.reads_from):
                found.add(i)
        for i in found:
            self.reads_from[i] |= kernels
            self.conflicts[i] |= kernels
        return found

    def unknown(self, i: int) -> set[int]:
        """The ops before ``i`` of which it may need data, because it or they do not name their memory."""
        ops = self._schedule.ops
        return {
            k
            for k in self.before[i]
            if not (names_memory(ops[k]) and names_memory(ops[i])) and not _starts_chunk(ops[k], ops[i])
        }

    def _find_shared(self) -> dict[int, set[Region]]:
        """Of kernels the ranges that they read as others do that each read something else too: what all chunks need.

        Or that write something else each, where nothing but tables is read at all.
        """
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
        return found or self._find_tables()

    def _find_tables(self) -> dict[int, set[Region]]:
        """What kernels read that read the same and write other parts of the same arrays, of one group of such alone.

        Or that write a part of these in turn.
        """
        groups: dict[frozenset[tuple[Region, frozenset[int]]], list[int]] = {}
        for i, versions in enumerate(self._versions):
            groups.setdefault(frozenset(versions.items()), []).append(i)
        several = [(read, kernels) for read, kernels in groups.items() if read and len(kernels) > 1]
        if len(several) != 1:
            return {}
        ((read, kernels),) = several
        outputs, buffers = self._outputs(set(kernels)), dict[tuple[str, int], list[set[str]]]()
        for name, turn, regions in outputs:
            if regions:
                buffers.setdefault((name, turn), []).append({region.buffer for region in regions})
        names = {name for name, _, _ in outputs}
        if names != {name for name, _ in buffers} or not all(set.intersection(*some) for some in buffers.values()):
            return {}  # a kernel that writes nothing, or elsewhere, may be of the same chunk
        written = {frozenset((turn, region) for region in regions) for _, turn, regions in outputs}
        if len(outputs) == len(names) or not _are_disjoint(written):
            return {}
        return {i: {region for region, _ in read} for i in kernels}

    def _outputs(self, kernels: Collection[int]) -> set[tuple[str, int, frozenset[Region]]]:
        """What kernels are and write, and in which turn: one ends with a copy back of what any of them writes.

        Kernels of one chunk write the same ranges. Those of another one write others, or the same in another turn.
        """
        ops, turn, found = self._schedule.ops, 0, set[tuple[str, int, frozenset[Region]]]()
        buffers = {region.buffer for i in kernels for region, writes in touched(ops[i]) if writes}
        for i, op in enumerate(ops):
            if isinstance(op, Kernel) and i in kernels:
                found.add((op.name, turn, frozenset(op.writes)))
            elif isinstance(op, Copy) and op.direction == "d2h" and op.device is not None:
                turn += op.device.buffer in buffers
        return found

    def _hands_over(self, i: int) -> set[int]:
        """The ops whose data ``i`` reads, but for what kernels of other chunks read as well."""
        shared = self.shared.get(i)
        if shared is None:
            return self.reads_from[i]
        own = self.unknown(i).union(*(w for region, w in self._versions[i].items() if region not in shared))
        return own & self.reads_from[i]

    def _find_chunks(self) -> list[int]:
        """Ops that hand data to each other, directly or not, make a chunk: the index of its first op.

        A copy back of what several chunks have written is common, unless there are more of its kind, each of others.
        """
        chunks = _Chunks(len(self._schedule.ops))
        self.common |= self.sums
        backs = [i for i in range(len(self._schedule.ops)) if self._gathers(i)]
        for i in sorted({*range(len(self._schedule.ops))}.difference(backs, self.sums)):
            chunks.join(i, self._hands_over(i))
        alike: dict[int, list[int]] = {}  # by of how many ops they copy back what these have written
        for i in backs:
            alike.setdefault(len(self.reads_from[i]), []).append(i)
        of_chunks = self._are_of_chunks(backs, chunks)
        for some in [backs] if of_chunks else [alike[many] for many in sorted(alike)]:
            several = [i for i in some if len(chunks.of(self._hands_over(i))) > 1]
            self.common.update(() if self._are_of_chunks(several, chunks) else several)
            for i in set(some) - self.common:
                chunks.join(i, self._hands_over(i))
        return [chunks.root(i) for i in range(len(self._schedule.ops))]

    def _are_of_chunks(self, backs: Sequence[int], chunks: _Chunks) -> bool:
        """Whether of several copies back each is of other chunks than the others."""
        return len(backs) > 1 and _are_disjoint([chunks.of(self._hands_over(i)) for i in backs])

    def _gathers(self, i: int) -> bool:
        """Whether an op is a copy back of what several ops have written."""
        is_back = stage_of(self._schedule.ops[i]) == 2 and i not in self.sums
        return is_back and len(self.reads_from[i]) > 1 and not self.unknown(i)

    def _find_orders(self) -> dict[str, list[int]]:
        ops, chunk = self._schedule.ops, self.chunk
        work = [i for i, op in enumerate(ops) if is_work(op)]
        number = {root: k for k, root in enumerate(dict.fromkeys(chunk[i] for i in work))}
        streams = len(self._streams)
        stage = [stage_of(op) for op in ops]
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
            if order == work:
                self.issued.add(name)
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
        """The copies, kernels and (if the host ``holds``) synchronisations in the order of issue.

        Nothing passes what the host does between its calls: its data may come from there.
        """
        ops = self._schedule.ops
        place = {i: k for k, i in enumerate(self.orders[order])} if order else {i: i for i in range(len(ops))}
        stretch, found = list[int](), list[int]()
        for i, op in enumerate(ops[: self.last + 1]):
            if is_work(op):
                stretch.append(i)
            elif isinstance(op, HostWork | WaitThread) or (holds and isinstance(op, Synchronize)):
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
    behind: dict[tuple[int, int], int] = {}  # by stream and another one: the place up to which it has waited for that
    waits = {i: _waits(i, edges[i], streams, place, behind) for i, op in zip(numbers, ops, strict=True) if is_work(op)}
    events = {k: event for event, k in enumerate(dict.fromkeys(k for some in waits.values() for k in some))}
    found: list[Op] = []
    for i, op in zip(numbers, ops, strict=True):
        if isinstance(op, Copy | Kernel):
            found += (WaitEvent(events[k], streams[i], thread=op.thread) for k in waits[i])
            found.append(replace(op, stream=streams[i]))
            if i in events:
                found.append(RecordEvent(events[i], streams[i], thread=op.thread))
        elif isinstance(op, Synchronize) and (op.event is not None or op.stream is not None):
            found += (replace(op, stream=stream, event=None) for stream in {streams[k]: k for k in awaited[i]})
        else:
            found.append(op)
    if rest := schedule.ops[last_work(schedule) + 1 :]:
        found += [op for op in rest if isinstance(op, HostWork)]
        found.append(Synchronize())
    return replace(schedule, ops=tuple(found), streams=kinds, events=len(events))


def _waits(
    i: int,
    edges: Collection[int],
    streams: Mapping[int, int],
    place: dict[int, int],
    behind: dict[tuple[int, int], int],
) -> list[int]:
    """Of the ops that ``i`` must come after, the last of every other stream that its own has not waited for yet."""
    if not edges:
        return []
    last = {streams[k]: k for k in sorted(edges, key=place.__getitem__)}
    found = [k for s, k in last.items() if s != streams[i] and place[k] > behind.get((streams[i], s), -1)]
    behind.update({(streams[i], streams[k]): place[k] for k in found})
    return found


class _Chunks:
    """Ops that belong together, by the first of them."""

    def __init__(self, ops: int) -> None:
        self._earlier = list(range(ops))

    def root(self, i: int) -> int:
        earlier = self._earlier
        while earlier[i] != i:
            earlier[i] = earlier[earlier[i]]
            i = earlier[i]
        return i

    def of(self, ops: Iterable[int]) -> set[int]:
        return {self.root(i) for i in ops}

    def join(self, i: int, others: Iterable[int]) -> None:
        for k in others:
            a, b = sorted((self.root(i), self.root(k)))
            self._earlier[b] = a


class _NewStreams:
    """Deals ops out to streams: behind an op that they read from, else in a new one, else in that used longest ago.

    Ops of the legacy default stream stay in it, unless all are there, and those of blocking streams in blocking ones.
    """

    def __init__(self, schedule: Schedule, most: int) -> None:
        self.of: dict[int, int] = {}
        self._schedule = schedule
        self._most = most
        self._stays = {LEGACY_STREAM} < working_streams(schedule)  # else it is a stream like another
        self._kinds: list[StreamKind] = []
        self._tail: dict[int, int] = {}  # by new stream its last op; the one used longest ago first

    def kinds(self) -> tuple[StreamKind, ...]:
        return tuple(self._kinds)

    def put(self, i: int, reads_from: Collection[int]) -> None:
        old = self._schedule.ops[i].stream
        kind = self._schedule.streams[old - 1] if old else NON_BLOCKING[0]
        stream = LEGACY_STREAM if self._stays and not old else self._choose(kind, reads_from)
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


def _all_from(i: int, edges: Sequence[Collection[int]]) -> set[int]:
    """All that is reached from an op."""
    found, rest = set[int](), [i]
    while rest:
        more = set(edges[rest.pop()]) - found
        found |= more
        rest += more
    return found


def _are_disjoint(sets: Collection[Collection[Any]]) -> bool:
    return sum(map(len, sets)) == len(set().union(*sets))


def _starts_chunk(before: Op, op: Op) -> bool:
    """Whether ``op``, next in the stream, begins a chunk: of ops that do not name their memory."""
    if names_memory(before) or names_memory(op) or before.stream != op.stream:
        return False
    return stage_of(op) == 0 and stage_of(before) > 0
