"""What the ops of a schedule read of each other, and which of them therefore make a chunk.

If an op does not name its memory, its data is unknown: it may read what the ops write that its stream and its events
put before it. But a copy to the card behind a kernel or a copy back, all of them without named memory, is the first op
of a new chunk.

Nothing in a schedule says which ranges the kernels of several chunks read, such as a table or weights. Two rules find
them: kernels share one of the ranges that they read and differ in others, or kernels read the same ranges and write
different parts of the same arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any

from streamsim.program import ALIGN_BYTES, Copy, Kernel, Op, RecordEvent, Region, Schedule, Synchronize, WaitEvent
from streamsim.races import earlier_ops, touched
from streamsim.transform.ops import COPIES_BACK, COPIES_IN, last_work, names_memory, stage_of


class StreamOrder:
    """The order of a schedule's ops. ``i`` is the index of an op.

    - ``before[i]``: the ops directly before op ``i`` in its stream or through events.
    - ``awaited[i]``: the ops that synchronisation ``i`` waits for; none for the whole device.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._ops = schedule.ops
        self.before: list[frozenset[int]] = []
        self.awaited: dict[int, tuple[int, ...]] = {}
        front, recorded = dict[int, frozenset[int]](), dict[int, frozenset[int]]()
        nothing: frozenset[int] = frozenset()
        for i, op in enumerate(schedule.ops):
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


class DataFlow(StreamOrder):
    """The data that ops hand to each other, beside their order. ``i`` is the index of an op.

    - ``reads_from[i]``: the ops whose data op ``i`` reads, or may read if memory is not named.
    - ``conflicts[i]``: the earlier ops that share, or may share, bytes that one of the two writes.
    - ``shared[i]``: the ranges that kernel ``i`` and kernels of other chunks read, such as weights.
    - ``chunk[i]``: the first op of its chunk. Ops that hand data to each other form a chunk.
    - ``common``: writers of shared ranges, and copies back of what several chunks wrote; they join no chunk.
    - ``sums``: the copies back in ``common`` that are found only by their place after all kernels.

    ``is_racy``: the schedule has races; then dependences that it does not enforce are dropped. ``tables``: ranges that
    are known to be shared.
    """

    def __init__(self, schedule: Schedule, is_racy: bool, tables: Collection[Region]) -> None:
        super().__init__(schedule)
        self._schedule = schedule
        self.reads_from: list[set[int]] = []
        self.conflicts: list[set[int]] = []
        self._versions: list[dict[Region, frozenset[int]]] = []  # of what kernels read: the range, and who wrote it
        self._nearest = self._find_unnamed()
        self._find_data(is_racy)
        self.sums = self._find_sums()
        self.shared = shared_ranges(self._ops, self._versions, tables)
        self.common = {k for i, regions in self.shared.items() for region in regions for k in self._versions[i][region]}
        self.chunk = self._find_chunks()

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

    def _find_data(self, is_racy: bool) -> None:
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
                if is_racy:
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
