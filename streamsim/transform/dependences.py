"""What the ops of a schedule need of each other, which of them make a chunk, and the same ops in other orders.

An op that reads what another one writes stays behind it. If an op does not name its memory, its data is unknown: it may
read what the ops write that its stream and its events put before it, and stays behind them. But a copy to the card
behind a kernel or a copy back, all of them without named memory, is the first op of a new chunk. A changed schedule
gets the waits that keep it free of races.

Nothing in a schedule says which ranges the kernels of several chunks read, such as a table or weights. Two rules find
them: kernels share one of the ranges that they read and differ in others, or kernels read the same ranges and write
different parts of the same arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from streamsim.errors import InputError
from streamsim.program import (
    ALIGN_BYTES,
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
    remembered,
)
from streamsim.races import check, earlier_ops, repaired, touched
from streamsim.transform.work import (
    COPIES_BACK,
    COPIES_IN,
    NON_BLOCKING,
    is_work,
    last_work,
    legacy_beside,
    names_memory,
    orders_unknown,
    stage_of,
    working_streams,
)

Versions = dict[Region, frozenset[int]]  # of what a kernel reads: the range, and the ops that wrote it


def shared_ranges(ops: Sequence[Op], versions: Sequence[Versions], known: Collection[Region]) -> dict[int, set[Region]]:
    """Return by kernel the ranges that kernels of other chunks read as well.

    ``versions``: what each op reads, if it is a kernel. ``known``: ranges that are shared whatever the rules say.
    """
    readers: dict[tuple[Region, frozenset[int]], list[int]] = {}
    for i, own in enumerate(versions):
        for version in own.items():
            readers.setdefault(version, []).append(i)
    found: dict[int, set[Region]] = {}
    for version, kernels in readers.items():
        others = [versions[i].items() - {version} for i in kernels]
        if version[0] in known or any(a - b and b - a for a, b in pairwise(others)):
            for i in kernels:
                found.setdefault(i, set()).add(version[0])
    return found or _of_kernels_that_read_nothing_else(ops, versions)


def _of_kernels_that_read_nothing_else(ops: Sequence[Op], versions: Sequence[Versions]) -> dict[int, set[Region]]:
    """Return the ranges of the only group of kernels that read the same, and write other parts of the same arrays.

    They may also write one part again and again, copied back in between.
    """
    groups: dict[frozenset[tuple[Region, frozenset[int]]], list[int]] = {}
    for i, own in enumerate(versions):
        groups.setdefault(frozenset(own.items()), []).append(i)
    several = [(read, kernels) for read, kernels in groups.items() if read and len(kernels) > 1]
    if len(several) != 1:
        return {}
    ((read, kernels),) = several
    outputs, buffers = _outputs(ops, set(kernels)), dict[tuple[str, int], list[set[str]]]()
    for name, turn, regions in outputs:
        if regions:
            buffers.setdefault((name, turn), []).append({region.buffer for region in regions})
    names = {name for name, _, _ in outputs}
    if names != {name for name, _ in buffers} or not all(set.intersection(*some) for some in buffers.values()):
        return {}  # a kernel that writes nothing, or elsewhere, may be of the same chunk
    written = {frozenset((turn, region) for region in regions) for _, turn, regions in outputs}
    if len(outputs) == len(names) or not are_disjoint(written):
        return {}
    return {i: {region for region, _ in read} for i in kernels}


def _outputs(ops: Sequence[Op], kernels: Collection[int]) -> set[tuple[str, int, frozenset[Region]]]:
    """Return the name, the turn and the written ranges of kernels; a copy back of what any of them writes ends a turn.

    Kernels of one chunk write the same ranges. Those of another one write others, or the same in another turn.
    """
    turn, found = 0, set[tuple[str, int, frozenset[Region]]]()
    buffers = {region.buffer for i in kernels for region, writes in touched(ops[i]) if writes}
    for i, op in enumerate(ops):
        if isinstance(op, Kernel) and i in kernels:
            found.add((op.name, turn, frozenset(op.writes)))
        elif isinstance(op, Copy) and op.direction == "d2h" and op.device is not None:
            turn += op.device.buffer in buffers
    return found


def are_disjoint(sets: Collection[Collection[Any]]) -> bool:
    """Return True if no two of the sets share a member."""
    return sum(map(len, sets)) == len(set().union(*sets))


def conflicts_in(schedule: Schedule, ops: Sequence[Op], numbers: Sequence[int]) -> list[set[int]] | None:
    """Return the places of the earlier ``ops`` with which each of them shares bytes that one of the two writes.

    ``numbers``: of which op of ``schedule`` each of them is, or is a piece. None if two that share bytes came into
    another order than theirs there.
    """
    found: list[set[int]] = []
    for k, touches in enumerate(earlier_ops(ops, schedule.buffers)):
        edges = {i for _, _, earlier in touches for i in earlier if i != k}
        if any(numbers[i] >= numbers[k] for i in edges):
            return None
        found.append(edges)
    return found


class _Chunks:
    """Sets of ops that belong together, each named by its first op."""

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


def _all_from(i: int, edges: Sequence[Collection[int]]) -> set[int]:
    """Return all ops reachable from op ``i``."""
    found, rest = set[int](), [i]
    while rest:
        more = set(edges[rest.pop()]) - found
        found |= more
        rest += more
    return found


def _starts_chunk(before: Op, op: Op) -> bool:
    """Return True if ``op``, next in the stream, begins a chunk; False if one of the two names its memory."""
    if names_memory(before) or names_memory(op) or before.stream != op.stream:
        return False
    return stage_of(op) == COPIES_IN and stage_of(before) > COPIES_IN


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
    waits: dict[int, list[int]] = {}  # of the ops that each must come after, the last of every other stream
    for i, op in zip(numbers, ops, strict=True):
        if is_work(op):
            last = {streams[k]: k for k in sorted(edges[i], key=place.__getitem__)}
            waits[i] = [k for s, k in last.items() if s != streams[i] and place[k] > behind.get((streams[i], s), -1)]
            behind.update({(streams[i], streams[k]): place[k] for k in waits[i]})
    events = {k: event for event, k in enumerate(dict.fromkeys(k for some in waits.values() for k in some))}
    found: list[Op] = []
    for i, op in zip(numbers, ops, strict=True):
        if is_work(op):
            found += (WaitEvent(events[k], streams[i], thread=op.thread) for k in waits[i])
            found.append(op if op.stream == streams[i] else replace(op, stream=streams[i]))
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


def new_streams(
    schedule: Schedule, works: Iterable[int], reads_from: Sequence[Collection[int]], most: int
) -> tuple[dict[int, int], tuple[StreamKind, ...]]:
    """Return the new stream of each of ``works``, and the kinds of the streams, of which there are ``most`` at most.

    An op comes behind one that it reads from, else into a new stream, else into that used longest ago. Ops of the
    legacy default stream stay in it, unless all are there, and those of blocking streams in blocking ones.
    """
    stays = {LEGACY_STREAM} < working_streams(schedule)  # else it is a stream like another
    found, kinds = dict[int, int](), list[StreamKind]()
    tail: dict[int, int] = {}  # by new stream its last op; the one used longest ago first
    for i in works:
        old = schedule.ops[i].stream
        kind = schedule.streams[old - 1] if old else NON_BLOCKING[0]
        own = [stream for stream in tail if stream and kinds[stream - 1] == kind]
        behind = [stream for stream in own if tail[stream] in reads_from[i]]
        if stays and not old:
            stream = LEGACY_STREAM
        elif behind:
            stream = behind[-1]
        elif own and len(kinds) >= most:
            stream = own[0]
        else:
            kinds.append(kind)
            stream = len(kinds)
        tail.pop(stream, None)
        tail[stream], found[i] = i, stream
    return found, tuple(kinds)


def dependences_of(schedule: Schedule, tables: frozenset[Region] = frozenset()) -> Dependences:
    """Return what the ops of a schedule need of each other. ``tables``: ranges that are known to be shared by chunks.

    What the legacy default stream orders by waiting for others does not show in its own stream: of ops that name no
    memory they are those of the streams in which the ops would be without it.
    """
    return _dependences(schedule, tables)


@remembered
def _dependences(schedule: Schedule, tables: frozenset[Region]) -> Dependences:
    racy = is_racy(schedule)
    if orders_unknown(schedule):
        schedule = legacy_beside(schedule)  # which may lose an order of named memory, and is not issued so
    return Dependences(schedule, tables, racy)


IN_ROUNDS = "breadth-first-in-rounds"  # of one chunk a stream


class Dependences:
    """What the ops of a schedule need of each other, and new schedules that keep it. ``i`` is the index of an op.

    - ``before[i]``: the ops directly before op ``i`` in its stream or through events.
    - ``awaited[i]``: the ops that synchronisation ``i`` waits for; none for the whole device.
    - ``reads_from[i]``: the ops whose data op ``i`` reads, or may read if memory is not named.
    - ``conflicts[i]``: the earlier ops that share, or may share, bytes that one of the two writes.
    - ``shared[i]``: the ranges that kernel ``i`` and kernels of other chunks read, such as weights.
    - ``chunk[i]``: the first op of its chunk. Ops that hand data to each other form a chunk.
    - ``common``: writers of shared ranges, and copies back of what several chunks wrote; they join no chunk.
    - ``sums``: the copies back in ``common`` that are found only by their place after all kernels.
    - ``members``: the copies and kernels of each chunk in the order of issue, without ``common``.
    - ``is_racy``: True if the schedule has races. Dependences that it does not enforce are then dropped.
    - ``last``: the last copy or kernel, or -1.
    - ``unnamed``: the ops that may use memory which they do not name.
    - ``orders``: by name, the orders of issue that keep every dependence and differ from the schedule's own.
    - ``issued``: the names of the schedule's own orders.

    ``tables``: ranges that are known to be shared.
    """

    def __init__(self, schedule: Schedule, tables: Collection[Region] = (), racy: bool | None = None) -> None:
        self._schedule, self._ops = schedule, schedule.ops
        self.is_racy = is_racy(schedule) if racy is None else racy
        self.last = last_work(schedule)
        self.before: list[frozenset[int]] = []
        self.awaited: dict[int, tuple[int, ...]] = {}
        self._find_order()
        self.reads_from: list[set[int]] = []
        self.conflicts: list[set[int]] = []
        self._versions: list[dict[Region, frozenset[int]]] = []  # of what kernels read: the range, and who wrote it
        self._nearest = self._find_unnamed()
        self._find_data()
        self.sums = self._find_sums()
        self.shared = shared_ranges(self._ops, self._versions, tables)
        self.common = {k for i, regions in self.shared.items() for region in regions for k in self._versions[i][region]}
        self.chunk = self._find_chunks()
        members = dict[int, list[int]]()
        for i, op in enumerate(self._ops):
            if is_work(op) and i not in self.common:
                members.setdefault(self.chunk[i], []).append(i)
        self.members = list(members.values())
        self.unnamed = _unnamed(schedule.ops, self)
        self.issued = set[str]()
        self.orders = self._find_orders()

    def _find_order(self) -> None:
        front, recorded = dict[int, frozenset[int]](), dict[int, frozenset[int]]()
        nothing: frozenset[int] = frozenset()
        for i, op in enumerate(self._ops):
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

    def awaits(self, i: int) -> set[int]:
        """Return the ops of other streams that events put before op ``i``."""
        ops = self._ops
        return {k for k in self.before[i] if ops[k].stream != ops[i].stream}

    @property
    def edges(self) -> list[set[int]]:
        """Return for each op those that it must come after: for its data, and through events."""
        return [conflicts | self.awaits(i) for i, conflicts in enumerate(self.conflicts)]

    def unknown(self, i: int) -> set[int]:
        """Return the ops before ``i`` of which it may need data, because it or they do not name their memory.

        Those are the ops back to the nearest ones without named memory, which need what is before them.
        """
        ops, found = self._ops, self._unnamed(i)
        if not names_memory(ops[i]):
            rest = set(self.before[i])
            while rest:
                named = {k for k in rest if names_memory(ops[k])} - found
                found |= named
                rest = set().union(*(self.before[k] for k in named))
        return {k for k in found if not _starts_chunk(ops[k], ops[i])}

    def _unnamed(self, i: int) -> set[int]:
        """Return the nearest ops before ``i`` that do not name their memory, with none of them in between."""
        return set().union(*(self._nearest[k] for k in self.before[i]))

    def _find_unnamed(self) -> list[frozenset[int]]:
        """Return for each op itself if it does not name its memory, else the nearest ops before it that do not."""
        found: list[frozenset[int]] = []
        for i, op in enumerate(self._ops):
            before = {found[k] for k in self.before[i]} if names_memory(op) else {frozenset((i,))}
            found.append(before.pop() if len(before) == 1 else frozenset().union(*before))
        return found

    def _find_data(self) -> None:
        """Find which ops each op needs: those whose data it reads, and all with which it shares bytes."""
        ops, before = self._ops, self.before
        for i, touches in enumerate(earlier_ops(ops, self._schedule.buffers)):
            unknown = self.unknown(i)
            reads, conflicts = set(unknown), set(unknown)
            versions = dict[Region, frozenset[int]]()
            for region, writes, earlier in touches:
                conflicts.update(earlier)
                if not writes:
                    reads.update(earlier)
                    versions[region] = frozenset(earlier)
            for edges in (reads, conflicts):
                edges.discard(i)
                if self.is_racy:
                    edges -= {k for k in edges if ops[k].stream != ops[i].stream and k not in before[i]}
            self.reads_from.append(reads)
            self.conflicts.append(conflicts)
            self._versions.append(versions if isinstance(ops[i], Kernel) else {})

    def _find_sums(self) -> set[int]:
        """Find copies back behind all kernels, beyond those whose data they are said to read: sums of all.

        Of a sum that is too small to give each chunk an aligned piece some kernels write no byte. It is copied back at
        once, behind all of them by events, or behind what others are copied back in its stream, or where some kernels
        write nothing at all, or long after another copy back of what the same kernel has written.
        """
        ops, last, found = self._ops, last_work(self._schedule), set[int]()
        kernels = {i for i, op in enumerate(ops) if isinstance(op, Kernel)}
        backs = Counter(op.device.buffer for op in ops if isinstance(op, Copy) and op.direction == "d2h" and op.device)
        early = [k for k in range(max(kernels, default=0)) if stage_of(ops[k]) == COPIES_BACK]
        has_mute = any(isinstance(op, Kernel) and op.reads and not op.writes for op in ops)
        for i in range(max(kernels, default=last) + 1, last + 1):
            op = ops[i]
            if not isinstance(op, Copy) or op.direction != "d2h" or op.bytes >= ALIGN_BYTES * len(kernels):
                continue
            if op.device is None or backs[op.device.buffer] > 1:
                continue
            awaits = self.awaits(i)
            earlier = self.before[i] - awaits
            follows = earlier & found or any(kernels <= _all_from(k, self.reads_from) for k in earlier)
            is_late = any(self.reads_from[k] & self.reads_from[i] for k in early)
            is_more = follows or has_mute or is_late or awaits - self.reads_from[i]
            if is_more and kernels <= _all_from(i, self.before) and not kernels <= _all_from(i, self.reads_from):
                found.add(i)
        for i in found:
            self.reads_from[i] |= kernels
            self.conflicts[i] |= kernels
        return found

    def _hands_over(self, i: int) -> set[int]:
        """Return the ops whose data ``i`` reads, except what kernels of other chunks read as well."""
        shared = self.shared.get(i)
        if shared is None:
            return self.reads_from[i]
        own = self.unknown(i).union(*(w for region, w in self._versions[i].items() if region not in shared))
        return own & self.reads_from[i]

    def _find_chunks(self) -> list[int]:
        """Return the first op of each op's chunk: ops that hand data to each other, directly or not.

        A copy back of what several chunks have written is common, unless there are more of its kind, each of others.
        """
        ops = range(len(self._ops))
        chunks = _Chunks(len(ops))
        self.common |= self.sums
        backs = [i for i in ops if self._gathers(i)]
        for i in sorted(set(ops).difference(backs, self.sums)):
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
        return [chunks.root(i) for i in ops]

    def _are_of_chunks(self, backs: Sequence[int], chunks: _Chunks) -> bool:
        """Return True if each of several copies back is of other chunks than the others."""
        return len(backs) > 1 and are_disjoint([chunks.of(self._hands_over(i)) for i in backs])

    def _gathers(self, i: int) -> bool:
        """Return True if an op is a copy back of what several ops have written."""
        is_back = stage_of(self._ops[i]) == COPIES_BACK and i not in self.sums
        return is_back and len(self.reads_from[i]) > 1 and not self.unknown(i)

    @property
    def has_needless_order(self) -> bool:
        """Return True if streams, events or buffers used again put an op behind one from which it reads nothing."""
        return any(
            self.chunk[earlier] != self.chunk[op] and earlier not in self.reads_from[op]
            for op, before in enumerate(self.before)
            for earlier in before | self.conflicts[op]
        )

    def _find_orders(self) -> dict[str, list[int]]:
        ops = self._schedule.ops
        work = [i for i, op in enumerate(ops) if is_work(op)]
        number = {root: k for k, root in enumerate(dict.fromkeys(self.chunk[i] for i in work))}
        turn = {i: number[self.chunk[i]] for i in work}
        streams = len(working_streams(self._schedule))
        stage = [stage_of(op) for op in ops]
        keys: dict[str, Callable[[int], tuple[int, ...]]] = {
            "depth-first": lambda i: (turn[i], i),
            "breadth-first": lambda i: (stage[i], turn[i], i),
            IN_ROUNDS: lambda i: (turn[i] // streams, stage[i], turn[i], i),
        }
        found: dict[str, list[int]] = {}
        for name, key in keys.items():
            order = sorted(work, key=key)
            if order == work:
                self.issued.add(name)
            elif order not in found.values():
                place = {i: k for k, i in enumerate(order)}
                if all(place[k] < place[i] for i in order for k in self.conflicts[i] | self.awaits(i)):
                    found[name] = order
        return found

    def reordered(self, schedule: Schedule, order: str, holds: bool) -> Schedule:
        """Return ``schedule``, which may differ from this one in single ops, in one of the ``orders``, in its streams.

        ``holds``: synchronisations stay; what the host waits for stays before what it issues then.
        """
        streams = {i: op.stream or 0 for i, op in enumerate(schedule.ops)}
        sequence = self.sequence(order, holds)
        ops = [schedule.ops[i] for i in sequence]
        return issued(schedule, ops, sequence, streams, schedule.streams, self.edges, self.awaited)

    def unordered(self, schedule: Schedule, order: str | None, holds: bool, most: int) -> Schedule:
        """Return ``schedule`` ordered by data only, as if no buffer were used twice, in at most ``most`` streams."""
        sequence = self.sequence(order, holds)
        ops = [schedule.ops[i] for i in sequence]
        works = (i for i, op in zip(sequence, ops, strict=True) if is_work(op))
        streams, kinds = new_streams(schedule, works, self.reads_from, most)
        return issued(schedule, ops, sequence, streams, kinds, self.reads_from, self.awaited)

    def sequence(self, order: str | None, holds: bool) -> list[int]:
        """Return the copies, kernels and (if the host ``holds``) synchronisations in an order of issue.

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


def _unnamed(ops: Sequence[Op], needs: Dependences) -> set[int]:
    """Return the ops that may use memory which they do not name.

    Those are the ops without memory, kernels that write none (but to sums), and kernels of two streams that an event
    orders although they share no named bytes: they may hand over something that the program does not name.
    """
    found = {i for i, op in enumerate(ops) if not names_memory(op) or (isinstance(op, Kernel) and not op.writes)}
    found -= {k for i in needs.sums for k in needs.reads_from[i] if names_memory(ops[k])}
    for i, op in enumerate(ops):
        behind = [k for k in needs.awaits(i) - needs.conflicts[i] if isinstance(ops[k], Kernel)]
        if behind and isinstance(op, Kernel):
            found.update((i, *behind))
    return found


MOST_REPAIRS = 4  # of a changed schedule


@remembered
def is_racy(schedule: Schedule) -> bool:
    """Return True if the schedule has races."""
    return _shares_bytes(schedule) and any(finding.rule == "race" for finding in check(schedule))


def _shares_bytes(schedule: Schedule) -> bool:
    """Return True if two ops are seen to use the same bytes, of which one writes them."""
    found = earlier_ops(schedule.ops, schedule.buffers)
    return any(earlier for touches in found for _, _, earlier in touches)


def still_ordered(before: Schedule, after: Schedule) -> Schedule:
    """Return ``after`` with waits for events where it has lost an order that its data needs.

    If ``before`` has races, ``after`` is returned unchanged. A wait may move what others wait for, so that repairs are
    repeated. Raises InputError if races are left.
    """
    if after is before or not _shares_bytes(after) or is_racy(before):
        return after
    for _ in range(MOST_REPAIRS):
        races = [finding for finding in check(after) if finding.rule == "race"]
        if not races:
            return after
        after = repaired(after, races)
    raise InputError("ops: the order that the data needs cannot be kept by waits for events")
