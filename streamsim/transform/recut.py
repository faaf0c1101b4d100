"""The same work in other chunks, streams and device buffers: schedules that could be run in place of a given one.

Ops that hand data to each other are a chunk (:class:`.Dependences`). Chunks are dealt out
to streams in turn, cut finer or merged, or given device buffers of their own. Whatever is done, two ops that touch
the same bytes stay in the order in which they were issued, and an event keeps it where they come into different
streams; so a schedule without races stays one. Bytes copied and kernels' elements and times stay what they are in
all.

Nothing in a schedule says how a kernel may be cut. It is taken to work element by element: a part of it reads and
writes that part of its ranges. Of a range that kernels of several chunks read (a table, weights) each part reads all,
and what writes such a range is neither cut nor merged, nor is a copy back of what several chunks have written.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from streamsim.program import Copy, Kernel, Op, Region, Schedule, Synchronize
from streamsim.races import touched
from streamsim.transform.data_flow import conflicts_in
from streamsim.transform.dependences import Dependences
from streamsim.transform.issue import issued
from streamsim.transform.ops import NON_BLOCKING, is_work, working_streams
from streamsim.transform.pieces import cut, form_of, joined

Part = tuple[int, int]  # an op of the schedule, and which part of it
Origins = Sequence[tuple[int, ...]]  # of each copy and kernel the ops that it does


class Recut:
    """Cuts a schedule without races anew. ``needs``: of this schedule, if there is one.

    ``chunks`` and ``streams``: how many it has. ``has_common``: chunks have something in common, which one alone does
    not show. ``by_chunk``: every chunk is in one stream; else streams have parts to play, such as copying in.
    ``origins``: of each copy and kernel of the schedule cut or merged last, the ops that it does. Where
    ``streams`` is asked for, chunks are dealt out to so many new, non-blocking streams in turn; with None every op
    stays in its stream.
    """

    def __init__(self, schedule: Schedule, needs: Dependences | None = None) -> None:
        self._schedule = schedule
        self._ops = schedule.ops
        self._needs = needs = needs or Dependences(schedule)
        self._members: dict[int, list[int]] = {}  # by chunk its ops in the order of issue
        for i, op in enumerate(schedule.ops):
            if is_work(op) and i not in needs.common:
                self._members.setdefault(needs.chunk[i], []).append(i)
        self.chunks = len(self._members)
        self.streams = len(working_streams(schedule))
        self.origins: Origins = []
        self.has_common = bool(needs.shared or needs.common)
        self.by_chunk = all(len({schedule.ops[i].stream for i in ops}) == 1 for ops in self._members.values())

    @property
    def members(self) -> list[list[Op]]:
        """Return the ops of each chunk in the order of issue, without what all chunks have in common."""
        return [[self._ops[i] for i in ops] for ops in self._members.values()]

    def dealt(self, streams: int | None) -> Schedule:
        """Return the same ops in other streams, only with waits that the data needs."""
        sequence = self._needs.sequence(None, holds=True)
        ops, place = [self._ops[i] for i in sequence], {i: k for k, i in enumerate(sequence)}
        edges = [{place[k] for k in self._needs.conflicts[i] if is_work(self._ops[i])} for i in sequence]
        return self._made(ops, [(i, 0) for i in sequence], edges, streams)

    def cut(self, pieces: int, streams: int | None) -> Schedule | None:
        """Return every chunk in ``pieces``; None if an op is too small, or is at odds with itself once it is cut.

        Consecutive ops of a chunk are issued piece by piece where the data allows it, else op by op.
        """
        cuts: dict[int, list[Op]] = {}
        for members in self._members.values():
            wholes = [self._ops[i] for i in members]
            found = cut(wholes, [self._needs.shared.get(i, set()) for i in members], pieces)
            if found is None:
                return None
            cuts.update(zip(members, found, strict=True))
        for by_piece in (True, False):
            parts = self._parts(pieces, by_piece)
            ops = [cuts[i][p] if i in cuts else self._ops[i] for i, p in parts]
            edges = conflicts_in(self._schedule, ops, [i for i, _ in parts])
            if edges is not None:
                break
        else:
            return None
        self.origins = [(i,) for i, _ in parts if is_work(self._ops[i])]
        place = {part: k for k, part in enumerate(parts)}
        for k, (i, p) in enumerate(parts):
            if is_work(ops[k]):
                edges[k].update(place[part] for part in self._before(i, p, pieces, cuts))
        return self._made(ops, parts, edges, streams)

    def merged(self, together: int, streams: int | None) -> Schedule | None:
        """Return the schedule with so many consecutive chunks in one.

        None if not all chunks are alike enough for that, or do not continue each other in memory.
        """
        sequence = self._needs.sequence(None, holds=True)
        epoch, now = dict[int, int](), 0
        for i in sequence:
            now += not is_work(self._ops[i])
            epoch[i] = now
        first: dict[int, int] = {}  # by op the one that it becomes a part of
        whole: dict[int, Op] = {}
        alike = groupby(self._members.values(), key=lambda ops: [(form_of(self._ops[i]), epoch[i]) for i in ops])
        for _, group in alike:
            chunks = list(group)
            if len(chunks) % together:
                return None
            for k in range(0, len(chunks), together):
                for ops in zip(*chunks[k : k + together], strict=True):
                    one = joined([self._ops[i] for i in ops])
                    if one is None:
                        return None
                    first |= dict.fromkeys(ops, ops[0])
                    whole[ops[0]] = one
        parts = [(i, 0) for i in sequence if first.get(i, i) == i]
        place = {i: k for k, (i, _) in enumerate(parts)}
        edges: list[set[int]] = [set() for _ in parts]
        origins = dict[int, tuple[int, ...]]()
        for i in sequence:
            if is_work(self._ops[i]):
                k = place[first.get(i, i)]
                origins[k] = (*origins.get(k, ()), i)
                edges[k].update(place[first.get(j, j)] for j in self._needs.conflicts[i] | self._needs.awaits(i))
        if any(earlier >= k for k, some in enumerate(edges) for earlier in some):
            return None
        self.origins = list(origins.values())
        return self._made([whole.get(i) or self._ops[i] for i, _ in parts], parts, edges, streams)

    def with_buffers(self, times: int | None) -> Schedule | None:
        """Return the schedule with ``times`` as many of the device buffers that chunks use one after another, in turn.

        None: one for each chunk. Waits and streams stay unchanged. Return None if there is no such buffer.
        """
        turns = self._turns()
        chunk_of = {i: chunk for chunk, ops in self._members.items() for i in ops}
        own: dict[int, dict[str, str]] = {}
        for buffer, chunks in turns.items():
            for k, chunk in enumerate(chunks):
                if turn := k if times is None else k % times:
                    own.setdefault(chunk, {})[buffer] = f"{buffer}.{turn}"
        ops = [_renamed(op, own.get(chunk_of.get(i, -1), {})) for i, op in enumerate(self._ops)]
        sizes = {buffer.name: buffer for buffer in self._schedule.buffers}
        more = {n: replace(sizes[buffer], name=n) for names in own.values() for buffer, n in names.items()}
        if not more or more.keys() & sizes.keys():
            return None
        return replace(self._schedule, ops=tuple(ops), buffers=(*self._schedule.buffers, *more.values()))

    def _turns(self) -> dict[str, list[int]]:
        """By device buffer that chunks use one after another: the chunks that need nothing in it but their own data."""
        schedule, needs = self._schedule, self._needs
        on_card = {buffer.name for buffer in schedule.buffers if buffer.memory == "device"}
        touches = [{r.buffer for r, _ in touched(op)} & on_card for op in schedule.ops]
        again = {
            name
            for i, before in enumerate(needs.conflicts)
            for k in before
            if needs.chunk[k] != needs.chunk[i]
            for name in touches[i] & touches[k]
        }.difference(*(touches[i] for i in needs.common))  # what all chunks read, or write, there is once
        found: dict[str, list[int]] = {}
        for chunk, ops in self._members.items():
            lacking = _lacking([schedule.ops[i] for i in ops])
            for name in sorted(again & set().union(*(touches[i] for i in ops))):
                chunks = found.setdefault(name, [])
                if name not in lacking:
                    chunks.append(chunk)
                elif not chunks:
                    chunks.append(-1)  # the first turn is that of the buffer as it is
        return found

    def _parts(self, pieces: int, by_piece: bool) -> list[Part]:
        """The parts of all ops in the order of issue."""
        sequence = self._needs.sequence(None, holds=True)
        uncut = {i for i in sequence if i in self._needs.common or not is_work(self._ops[i])}
        runs = groupby(sequence, key=lambda i: self._needs.chunk[i] if by_piece and i not in uncut else -1 - i)
        found: list[Part] = []
        for _, run in runs:
            ops = list(run)
            found += ((i, p) for p in range(1 if ops[0] in uncut else pieces) for i in ops)
        return found

    def _before(self, i: int, p: int, pieces: int, cuts: Any) -> Iterable[Part]:
        """What part ``p`` of op ``i`` must come after, but not for its bytes; of other chunks all parts."""
        chunk, unknown = self._needs.chunk, self._needs.unknown(i)
        beyond_bytes = self._needs.conflicts[i] if i in self._needs.sums else set()
        for k in unknown | beyond_bytes | (self._needs.awaits(i) - self._needs.conflicts[i]):
            if k not in cuts:
                yield k, 0
            elif chunk[k] == chunk[i] and i in cuts:
                yield k, p
            else:
                yield from ((k, q) for q in range(pieces))

    def _made(
        self, ops: Sequence[Op], parts: Sequence[Part], edges: Sequence[set[int]], streams: int | None
    ) -> Schedule:
        """``ops`` issued one after another; ``edges``: of each the places of those that it must come after."""
        old, needs = [op.stream or 0 for op in ops], self._needs
        if streams is None:
            place = {i: k for k, (i, _) in enumerate(parts)}  # of the last part
            waits = {place[i]: some for i, some in needs.awaited.items() if i in place}
            awaited = {i: [place[k] for k in some if k in place] for i, some in waits.items()}
            of, kinds = dict(enumerate(old)), self._schedule.streams
        else:  # what the host waits for is then in several streams
            ops = [replace(op, stream=None, event=None) if isinstance(op, Synchronize) else op for op in ops]
            turn: dict[Part, int] = {}
            for (i, p), op in zip(parts, ops, strict=True):
                if is_work(op) and i not in needs.common:
                    turn.setdefault((needs.chunk[i], p), 1 + len(turn) % streams)
            of = {k: turn.get((needs.chunk[i], p), 1) for k, (i, p) in enumerate(parts)}
            awaited, kinds = {}, NON_BLOCKING * max(of.values())
        return issued(self._schedule, ops, range(len(ops)), of, kinds, edges, awaited)


def _renamed(op: Op, names: dict[str, str]) -> Op:
    """The op with its device ranges in buffers of other names."""

    def moved(region: Region) -> Region:
        return replace(region, buffer=names.get(region.buffer, region.buffer))

    if isinstance(op, Copy):
        return op if op.device is None else replace(op, device=moved(op.device))
    if isinstance(op, Kernel):
        return replace(op, reads=tuple(map(moved, op.reads)), writes=tuple(map(moved, op.writes)))
    return op


def _lacking(ops: Sequence[Op]) -> set[str]:
    """The buffers in which some op reads bytes that none of ``ops`` before it has written."""
    written: dict[str, list[Region]] = {}
    found = set[str]()
    for op in ops:
        for region, writes in touched(op):
            if writes:
                written.setdefault(region.buffer, []).append(region)
            elif not _covers(written.get(region.buffer, []), region):
                found.add(region.buffer)
    return found


def _covers(regions: Iterable[Region], wanted: Region) -> bool:
    reach = wanted.offset
    for region in sorted(regions, key=lambda region: region.offset):
        if region.offset <= reach:
            reach = max(reach, region.offset + region.bytes)
    return reach >= wanted.offset + wanted.bytes
