"""What the ops of a schedule need of each other, which of them make a chunk, and the same ops in other orders.

An op that reads what another one writes stays behind it. If an op does not name its memory, its data is unknown: it may
read what the ops write that its stream and its events put before it, and stays behind them. But a copy to the card
behind a kernel or a copy back, all of them without named memory, is the first op of a new chunk. A changed schedule
gets the waits that keep it free of races.

Nothing in a schedule says which ranges the kernels of several chunks read, such as a table or weights. Two rules find
them: kernels share one of the ranges that they read and differ in others, or kernels of one name read the same ranges
and write others, or write again what was copied back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from msgspec.structs import replace

from streamsim import program, races
from streamsim.errors import InputError
from streamsim.transform.work import (
    COPIES_BACK,
    COPIES_IN,
    NON_BLOCKING,
    is_load,
    is_work,
    last_work,
    legacy_beside,
    names_memory,
    orders_unknown,
    stage_of,
    working_streams,
)

Versions = dict[program.Region, frozenset[int]]  # of what a kernel reads: the range, and the ops that wrote it
Edges = Sequence[Collection[int]]  # for each op others


def shared_ranges(
    ops: Sequence[program.Op], versions: Sequence[Versions], known: Collection[program.Region]
) -> dict[int, set[program.Region]]:
    """Return by kernel the ranges that kernels of other chunks read as well.

    ``versions``: what each op reads, if it is a kernel. ``known``: ranges that are shared whatever the rules say.
    """
    readers = defaultdict[tuple[program.Region, frozenset[int]], list[int]](list)
    for i, own in enumerate(versions):
        for version in own.items():
            readers[version].append(i)
    found = defaultdict[int, set[program.Region]](set)
    for version, kernels in readers.items():
        others = [versions[i].items() - {version} for i in kernels]
        if version[0] in known or any(a - b and b - a for a, b in pairwise(others)):
            for i in kernels:
                found[i].add(version[0])
    return dict(found) or _read_by_all(ops, versions)


def _read_by_all(ops: Sequence[program.Op], versions: Sequence[Versions]) -> dict[int, set[program.Region]]:
    """Return the ranges of the only group of kernels that read the same, if some of one name write differently.

    Those of one chunk write the same ranges. Those of another one write others, or the same behind a copy back.
    """
    groups = defaultdict[frozenset[tuple[program.Region, frozenset[int]]], list[int]](list)
    for i, own in enumerate(versions):
        groups[frozenset(own.items())].append(i)
    several = [kernels for read, kernels in groups.items() if read and len(kernels) > 1]
    if len(several) != 1:
        return {}
    backs = list(accumulate(stage_of(op) == COPIES_BACK for op in ops))
    outputs = {(op.name, backs[i], op.writes) for i in several[0] if isinstance(op := ops[i], program.Kernel)}
    if len(outputs) == len({name for name, _, _ in outputs}):
        return {}
    return {i: set(versions[i]) for i in several[0]}


def conflicts_in(
    schedule: program.Schedule, ops: Sequence[program.Op], numbers: Sequence[int]
) -> list[set[int]] | None:
    """Return the places of the earlier ``ops`` with which each of them shares bytes that one of the two writes.

    ``numbers``: of which op of ``schedule`` each of them is, or is a piece. None if two that share bytes came into
    another order than theirs there.
    """
    found: list[set[int]] = []
    for k, touches in enumerate(races.earlier_ops(ops, schedule.buffers)):
        edges = {i for _, _, earlier in touches for i in earlier if i != k}
        if any(numbers[i] >= numbers[k] for i in edges):
            return None
        found.append(edges)
    return found


def _all_from(i: int, edges: Edges) -> set[int]:
    """Return all ops reachable from op ``i``."""
    found, rest = set[int](), [i]
    while rest:
        more = set(edges[rest.pop()]) - found
        found |= more
        rest += more
    return found


def _starts_chunk(before: program.Op, op: program.Op) -> bool:
    """Return True if ``op``, next in the stream, begins a chunk; False if one of the two names its memory."""
    if names_memory(before) or names_memory(op) or before.stream != op.stream:
        return False
    return stage_of(op) == COPIES_IN and stage_of(before) > COPIES_IN


def issued(
    schedule: program.Schedule,
    numbers: Sequence[int],
    streams: Mapping[int, int],
    kinds: tuple[program.StreamKind, ...],
    edges: Edges,
    awaited: Mapping[int, Collection[int]] | None,
) -> program.Schedule:
    """``schedule`` with the ops of these ``numbers``, in this order, and events where ``edges`` cross streams.

    ``streams``, of the ``kinds``: the new stream of each op; ``edges``: what each must come after; ``awaited``: what a
    synchronisation with a stream or event waits for, None: for the whole device. The host waits at the end if it does
    so in ``schedule``.
    """
    ops, place = schedule.ops, {i: k for k, i in enumerate(numbers)}
    behind: dict[tuple[int, int], int] = {}  # by stream and another one: the place up to which it has waited for that
    waits: dict[int, list[int]] = {}  # of the ops that each must come after, the last of every other stream
    for i in (i for i in numbers if is_work(ops[i])):
        own, last = streams[i], {streams[k]: k for k in sorted(edges[i], key=place.__getitem__)}
        waits[i] = [k for s, k in last.items() if s != own and place[k] > behind.get((own, s), -1)]
        behind.update({(own, streams[k]): place[k] for k in waits[i]})
    events = {k: event for event, k in enumerate(dict.fromkeys(k for some in waits.values() for k in some))}
    found: list[program.Op] = []
    for i in numbers:
        op = ops[i]
        if is_work(op):
            found += (program.WaitEvent(events[k], streams[i], thread=op.thread) for k in waits[i])
            found.append(op if op.stream == streams[i] else replace(op, stream=streams[i]))
            if i in events:
                found.append(program.RecordEvent(events[i], streams[i], thread=op.thread))
        elif isinstance(op, program.Synchronize) and (op.event is not None or op.stream is not None):
            held = [None] if awaited is None else dict.fromkeys(streams[k] for k in awaited[i])
            found += (replace(op, stream=stream, event=None) for stream in held)
        else:
            found.append(op)
    if rest := ops[last_work(schedule) + 1 :]:
        found += [op for op in rest if isinstance(op, program.HostWork)]
        found.append(program.Synchronize())
    return replace(schedule, ops=tuple(found), streams=kinds, events=len(events))


def dependences_of(schedule: program.Schedule, tables: frozenset[program.Region] = frozenset()) -> Dependences:
    """Return what the ops of a schedule need of each other. ``tables``: ranges that are known to be shared by chunks.

    What the legacy default stream orders by waiting for others does not show in its own stream: of ops that name no
    memory they are those of the streams in which the ops would be without it.
    """
    return _dependences(schedule, tables)


@program.remembered
def _dependences(schedule: program.Schedule, tables: frozenset[program.Region]) -> Dependences:
    racy = is_racy(schedule)
    if orders_unknown(schedule):
        schedule = legacy_beside(schedule)  # which may lose an order of named memory, and is not issued so
    return Dependences(schedule, tables, racy)


IN_ROUNDS = "breadth-first-in-rounds"  # of one chunk a stream


class Dependences:
    """What the ops of a schedule need of each other, and new schedules that keep it. ``i`` is the index of an op.

    - ``before[i]``: the ops directly before op ``i`` in its stream or through events.
    - ``awaited[i]``: the ops that synchronisation ``i`` waits for; none for the whole device.
    - ``unknown[i]``: the ops before ``i`` of which it may need data, because it or they do not name their memory: those
      back to the nearest ones without named memory, which need what is before them.
    - ``reads_from[i]``: the ops whose data op ``i`` reads, or may read if memory is not named.
    - ``conflicts[i]``: the earlier ops that share, or may share, bytes that one of the two writes.
    - ``shared[i]``: the ranges that kernel ``i`` and kernels of other chunks read, such as weights.
    - ``chunk[i]``: the first op of its chunk. Ops that hand data to each other form a chunk.
    - ``common``: writers of shared ranges, and copies back of what several chunks wrote; they join no chunk.
    - ``sums``: the copies back in ``common`` that are found only by their place after all kernels.
    - ``members``: the copies and kernels of each chunk in the order of issue, without ``common``.
    - ``is_racy``: True if the schedule has races. Dependences that it does not enforce are then dropped.
    - ``unnamed``: the ops that may use memory which they do not name.
    - ``orders``: by name, the orders of issue that keep every dependence and differ from the schedule's own.
    - ``issued``: the names of the schedule's own orders.

    ``tables``: ranges that are known to be shared.
    """

    def __init__(
        self, schedule: program.Schedule, tables: Collection[program.Region] = (), racy: bool | None = None
    ) -> None:
        self._schedule, self._ops = schedule, schedule.ops
        self.is_racy = is_racy(schedule) if racy is None else racy
        self.before: list[frozenset[int]] = []
        self.awaited: dict[int, tuple[int, ...]] = {}
        self._find_order()
        self.unknown: list[set[int]] = []
        self.reads_from: list[set[int]] = []
        self.conflicts: list[set[int]] = []
        versions = self._find_data()
        self.sums = self._find_sums()
        self.shared = shared_ranges(self._ops, versions, tables)
        self.common = {k for i, regions in self.shared.items() for region in regions for k in versions[i][region]}
        self.common |= self.sums
        self.chunk = self._find_chunks()
        members = defaultdict[int, list[int]](list)
        for i, op in enumerate(self._ops):
            if is_work(op) and i not in self.common:
                members[self.chunk[i]].append(i)
        self.members = list(members.values())
        self.unnamed = self._find_unnamed()
        self.issued = set[str]()
        self.orders = self._find_orders()

    def _find_order(self) -> None:
        front = defaultdict[int, frozenset[int]](frozenset)  # by stream, then by event
        recorded = defaultdict[int, frozenset[int]](frozenset)
        for i, op in enumerate(self._ops):
            before = frozenset[int]()
            if isinstance(op, program.Synchronize):
                of_stream = before if op.stream is None else front[op.stream]
                self.awaited[i] = tuple(sorted(of_stream if op.event is None else recorded[op.event]))
            elif isinstance(op, program.RecordEvent):
                recorded[op.event] = front[op.stream]
            elif isinstance(op, program.WaitEvent):
                front[op.stream] |= recorded[op.event]
            elif isinstance(op, program.Copy | program.Kernel):
                before, front[op.stream] = front[op.stream], frozenset((i,))
            self.before.append(before)

    def awaits(self, i: int) -> set[int]:
        """Return the ops of other streams that events put before op ``i``."""
        ops = self._ops
        return {k for k in self.before[i] if ops[k].stream != ops[i].stream}

    def _find_data(self) -> list[Versions]:
        """Find which ops each op needs: those whose data it reads, and all with which it shares bytes.

        Return the versions that each op reads, if it is a kernel.
        """
        ops, before, found = self._ops, self.before, list[Versions]()
        nearest = list[frozenset[int]]()  # of each op: itself if it does not name its memory, else those before it
        for i, touches in enumerate(races.earlier_ops(ops, self._schedule.buffers)):
            op, unknown = ops[i], set[int]().union(*(nearest[k] for k in before[i]))
            nearest.append(frozenset(unknown if names_memory(op) else (i,)))
            rest = () if names_memory(op) else before[i]
            while rest:
                named = {k for k in rest if names_memory(ops[k])} - unknown
                unknown |= named
                rest = frozenset().union(*(before[k] for k in named))
            self.unknown.append({k for k in unknown if not _starts_chunk(ops[k], op)})
            reads, conflicts, versions = set(self.unknown[i]), set(self.unknown[i]), Versions()
            for region, writes, earlier in touches:
                conflicts.update(earlier)
                if not writes:
                    reads.update(earlier)
                    versions[region] = frozenset(earlier)
            for edges in (reads, conflicts):
                edges.discard(i)
                if self.is_racy:
                    edges -= {k for k in edges if ops[k].stream != op.stream and k not in before[i]}
            self.reads_from.append(reads)
            self.conflicts.append(conflicts)
            found.append(versions if isinstance(op, program.Kernel) else {})
        return found

    def _find_sums(self) -> set[int]:
        """Find copies back behind all kernels, beyond those whose data they are said to read: sums of all.

        Of a sum that is too small to give each chunk an aligned piece some kernels write no byte: of one name they
        write more ranges and fewer.
        """
        ops = self._ops
        kernels = {i: op for i, op in enumerate(ops) if isinstance(op, program.Kernel)}
        written = Counter(name for name, _ in {(op.name, len(op.writes)) for op in kernels.values()})
        uneven = {i for i, op in kernels.items() if written[op.name] > 1}
        backs = {i: op.device for i, op in enumerate(ops) if isinstance(op, program.Copy) and not is_load(op)}
        copies = Counter(region.buffer for region in backs.values() if region)
        found = set[int]()
        for i, region in backs.items():
            is_small = region and region.bytes < program.ALIGN_BYTES * len(kernels) and copies[region.buffer] == 1
            if not is_small or not self.reads_from[i] & uneven:
                continue
            if kernels.keys() <= _all_from(i, self.before) and not kernels.keys() <= _all_from(i, self.reads_from):
                found.add(i)
                self.reads_from[i] |= kernels.keys()
                self.conflicts[i] |= kernels.keys()
        return found

    def _find_chunks(self) -> list[int]:
        """Return the first op of each op's chunk: ops that hand data to each other, directly or not.

        A copy back of what several chunks have written is common, unless each of several such copies is of others.
        """
        first = list(range(len(self._ops)))  # of each op an earlier one of its chunk, or itself

        def root(i: int) -> int:
            while first[i] != i:
                first[i] = first[first[i]]
                i = first[i]
            return i

        def join(i: int, others: Iterable[int]) -> None:
            for k in others:
                a, b = sorted((root(i), root(k)))
                first[b] = a

        late = dict[int, set[int]]()  # what such copies read
        for i, op in enumerate(self._ops):
            handed = self.reads_from[i] - self.common
            if stage_of(op) == COPIES_BACK and len(handed) > 1 and not self.unknown[i]:
                late[i] = handed
            elif i not in self.sums:
                join(i, handed)
        several = {i: own for i, some in late.items() if len(own := set(map(root, some))) > 1}
        are_apart = len(several) > 1 and sum(map(len, several.values())) == len(set().union(*several.values()))
        if not are_apart:
            self.common.update(several)
        for i in late.keys() - self.common:
            join(i, late[i])
        return list(map(root, range(len(first))))

    def _find_unnamed(self) -> set[int]:
        """Return the ops that may use memory which they do not name.

        Those are the ops without memory, kernels that write none (but to sums), and kernels of two streams that an
        event orders although they share no named bytes: they may hand over something that the program does not name.
        """
        ops = self._ops
        found = {i for i, op in enumerate(ops) if not names_memory(op)}
        found |= {i for i, op in enumerate(ops) if isinstance(op, program.Kernel) and not op.writes}
        found -= {k for i in self.sums for k in self.reads_from[i] if names_memory(ops[k])}
        for i, op in enumerate(ops):
            behind = [k for k in self.awaits(i) - self.conflicts[i] if isinstance(ops[k], program.Kernel)]
            if behind and isinstance(op, program.Kernel):
                found.update((i, *behind))
        return found

    @property
    def has_needless_order(self) -> bool:
        """Return True if streams, events or buffers used again put an op behind one from which it reads nothing."""
        return any(
            self.chunk[earlier] != self.chunk[op] and earlier not in self.reads_from[op]
            for op, before in enumerate(self.before)
            for earlier in before | self.conflicts[op]
        )

    def _find_orders(self) -> dict[str, list[int]]:
        stage = [stage_of(op) for op in self._ops]
        work = [i for i, op in enumerate(self._ops) if is_work(op)]
        number = {root: k for k, root in enumerate(dict.fromkeys(self.chunk[i] for i in work))}
        turn = {i: number[self.chunk[i]] for i in work}
        streams = len(working_streams(self._schedule))
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

    def reordered(
        self, schedule: program.Schedule, order: str | None, holds: bool, edges: Edges | None = None
    ) -> program.Schedule:
        """Return ``schedule``, which may differ from this one in single ops, in one of the ``orders``, in its streams.

        ``holds``: synchronisations stay; what the host waits for stays before what it issues then. ``edges``: what each
        op must come after; None: what it shares bytes with, and what events put before it.
        """
        streams = {i: op.stream or 0 for i, op in enumerate(schedule.ops)}
        if edges is None:
            edges = [conflicts | self.awaits(i) for i, conflicts in enumerate(self.conflicts)]
        return issued(schedule, self.sequence(order, holds), streams, schedule.streams, edges, self.awaited)

    def unordered(self, schedule: program.Schedule, order: str | None, holds: bool, most: int) -> program.Schedule:
        """Return ``schedule`` ordered by data only, as if no buffer were used twice, in at most ``most`` streams.

        An op comes behind one that it reads from, else into a new stream, else into that used longest ago. Ops of the
        legacy default stream stay in it, unless all are there, and those of blocking streams in blocking ones.
        """
        sequence, stays = self.sequence(order, holds), {program.LEGACY_STREAM} < working_streams(schedule)
        streams, kinds = dict[int, int](), list[program.StreamKind]()
        tail: dict[int, int] = {}  # by new stream its last op; the one used longest ago first
        for i in (i for i in sequence if is_work(schedule.ops[i])):
            old = schedule.ops[i].stream
            kind = schedule.streams[old - 1] if old else NON_BLOCKING[0]
            own = [stream for stream in tail if stream and kinds[stream - 1] == kind]
            behind = [stream for stream in own if tail[stream] in self.reads_from[i]]
            if stays and not old:
                stream = program.LEGACY_STREAM
            elif behind:
                stream = behind[-1]
            elif own and len(kinds) >= most:
                stream = own[0]
            else:
                kinds.append(kind)
                stream = len(kinds)
            tail.pop(stream, None)
            tail[stream], streams[i] = i, stream
        return issued(schedule, sequence, streams, tuple(kinds), self.reads_from, self.awaited)

    def sequence(self, order: str | None, holds: bool) -> list[int]:
        """Return the copies, kernels and (if the host ``holds``) synchronisations in an order of issue.

        Nothing passes what the host does between its calls: its data may come from there.
        """
        ops = self._ops[: last_work(self._schedule) + 1]
        place = {i: k for k, i in enumerate(self.orders[order] if order else range(len(ops)))}
        stretch, found = list[int](), list[int]()
        for i, op in enumerate(ops):
            if is_work(op):
                stretch.append(i)
            elif isinstance(op, program.HostWork | program.WaitThread) or (
                holds and isinstance(op, program.Synchronize)
            ):
                found += (*sorted(stretch, key=place.__getitem__), i)
                stretch = []
        return found + sorted(stretch, key=place.__getitem__)


MOST_REPAIRS = 4  # of a changed schedule


def _races(schedule: program.Schedule) -> list[races.Finding]:
    """Return the races of a schedule. It has none if no two ops are seen to share bytes, of which one writes them."""
    found = races.earlier_ops(schedule.ops, schedule.buffers)
    if not any(earlier for touches in found for _, _, earlier in touches):
        return []
    return [finding for finding in races.check(schedule) if finding.rule == "race"]


@program.remembered
def is_racy(schedule: program.Schedule) -> bool:
    """Return True if the schedule has races."""
    return bool(_races(schedule))


def still_ordered(before: program.Schedule, after: program.Schedule) -> program.Schedule:
    """Return ``after`` with waits for events where it has lost an order that its data needs.

    If ``before`` has races, ``after`` is returned unchanged. A wait may move what others wait for, so that repairs are
    repeated. Raises InputError if races are left.
    """
    if after is before or is_racy(before):
        return after
    for _ in range(MOST_REPAIRS):
        found = _races(after)
        if not found:
            return after
        after = races.repaired(after, found)
    raise InputError("ops: the order that the data needs cannot be kept by waits for events")
