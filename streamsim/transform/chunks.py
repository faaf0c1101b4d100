"""The chunks of a program: how many it has, and the same work in other chunks, streams, orders and device buffers.

Where ops name their memory, the data says which of them make a chunk (:class:`.Dependences`), in whatever order they
are issued. Recorded programs do not say what memory their ops touch. There a chunk is a step: a copy to the card behind
a kernel or a copy back begins a new one. If nothing is repeated in this order, a chunk is what is in one stream. What
steps need of each other their order does not show.

Whatever is done with chunks, two ops that touch the same bytes stay in the order in which they were issued, and an
event keeps it if they come into different streams. So a schedule without races stays one. The sums of bytes copied and
of kernels' elements and times stay unchanged.

Nothing in a schedule says how a kernel may be cut. It is taken to work element by element: a part of it reads and
writes that part of its ranges. Of a range that kernels of several chunks read (a table, weights) each part reads all,
and what writes such a range is neither cut nor merged, nor is a copy back of what several chunks have written.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from math import fsum, gcd
from typing import Any, NamedTuple

from msgspec.structs import replace

from streamsim.errors import InputError
from streamsim.program import (
    ALIGN_BYTES,
    Copy,
    HostWork,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
    WaitThread,
    remembered,
)
from streamsim.races import touched, unnamed_memory
from streamsim.text import counted
from streamsim.transform.dependences import Dependences, conflicts_in, dependences_of, is_racy, issued, still_ordered
from streamsim.transform.ops import NON_BLOCKING, Work, is_load, is_of_a_call, is_work, last_work, working_streams

ROUNDING = 1e-9  # relative, of sums of shares


def cut(ops: Sequence[Op], shared: Sequence[set[Region]], pieces: int) -> list[list[Op]] | None:
    """Return the copies and kernels of a chunk, each in ``pieces`` pieces; None if one of them is too small.

    ``shared``: the ranges of each op that every piece reads whole.
    """
    wholes = [(op, all_read) for op, all_read in zip(ops, shared, strict=True) if isinstance(op, Copy | Kernel)]
    found = [size for op, all_read in wholes for size in _sizes(op, all_read)]
    if min(found, default=pieces) < pieces:
        return None
    items = _items(found, [size for op, all_read in wholes for size in _ranges(op, all_read)], pieces)
    return [[_piece(op, k, pieces, items, all_read) for k in range(pieces)] for op, all_read in wholes]


def _sizes(op: Work, shared: set[Region]) -> list[int]:
    """The sizes of what is cut with an op: its ranges in bytes, and its elements."""
    return _ranges(op, shared) + ([op.elements] if isinstance(op, Kernel) and op.elements else [])


def _ranges(op: Work, shared: set[Region]) -> list[int]:
    if isinstance(op, Copy):
        return [op.bytes]
    return [region.bytes for region in op.reads + op.writes if region not in shared]


def _items(found: Sequence[int], ranges: Sequence[int], pieces: int) -> int:
    """Of how many items each size has a whole number, of aligned bytes if it can be; 0: of fewer than the pieces."""
    items = gcd(*found)
    if items < pieces:
        return 0
    together = ALIGN_BYTES // gcd(ALIGN_BYTES, *(size // items for size in ranges))  # items that are aligned
    return items // together if items % together == 0 and items // together >= pieces else items


def _piece(op: Work, piece: int, pieces: int, items: int, shared: set[Region]) -> Op:
    """One of the pieces of a copy or kernel of so many items, which are cut as evenly as they can be; 0: by bytes."""

    def ends(size: int) -> tuple[int, int]:
        each = size // items if items and size else 1
        whole = size // each
        return whole * piece // pieces * each, whole * (piece + 1) // pieces * each

    def part(region: Region | None) -> Region | None:
        if region is None or region in shared:
            return region
        start, end = ends(region.bytes)
        return Region(region.buffer, region.offset + start, end - start)

    if isinstance(op, Copy):
        start, end = ends(op.bytes)
        return replace(op, bytes=end - start, host=part(op.host), device=part(op.device))
    start, end = ends(op.elements)
    share = (end - start) / op.elements if op.elements else 1 / pieces
    return replace(
        op,
        elements=end - start,
        duration_s=None if op.duration_s is None else op.duration_s * share,
        reads=tuple(map(part, op.reads)),
        writes=tuple(map(part, op.writes)),
        share=op.share if op.duration_s is None else op.share * share,
        threads=max(1, round(op.threads * share)) if op.threads else 0,
    )


def form_of(op: Op) -> Any:
    """Return what ops that can be joined have in common: all except where their data is, and how much of it."""
    if isinstance(op, Copy):
        return replace(op, bytes=1, stream=0, host=None, device=None)
    assert isinstance(op, Kernel)
    elements, duration_s = min(1, op.elements), op.duration_s and 1.0
    own = {"elements": elements, "duration_s": duration_s, "share": 1.0, "threads": min(1, op.threads)}
    return replace(op, stream=0, reads=(), writes=(), **own)


def joined(ops: Sequence[Op]) -> Op | None:
    """Return ops of one form as one op; None if their ranges do not, or not surely, lie side by side."""
    if len(ops) == 1:
        return ops[0]
    if copies := [op for op in ops if isinstance(op, Copy)]:
        host, device = _side_by_side([op.host for op in copies]), _side_by_side([op.device for op in copies])
        if host is None or device is None:
            return None
        return replace(copies[0], bytes=sum(op.bytes for op in copies), host=host, device=device)
    return _one_kernel([op for op in ops if isinstance(op, Kernel)])


def _one_kernel(kernels: list[Kernel]) -> Kernel | None:
    first = kernels[0]
    timed = [kernel.duration_s for kernel in kernels if kernel.duration_s is not None]
    share = 1.0 if all(kernel.share == 1 for kernel in kernels) else fsum(kernel.share for kernel in kernels)
    touching = [[kernel.reads + kernel.writes for kernel in kernels], [kernel.reads for kernel in kernels]]
    if share > 1 + ROUNDING or any(len({len(regions) for regions in some}) > 1 for some in touching):
        return None
    if timed and not _are_of_one_launch(kernels):
        return None
    alike = set[Region].intersection(*(set(kernel.reads) for kernel in kernels))  # the merged one reads them too
    if not _are_in_proportion([_sizes(kernel, alike) for kernel in kernels]):
        return None
    regions = [some[0] if len(set(some)) == 1 else _side_by_side(some) for some in zip(*touching[0], strict=True)]
    if None in regions or not regions:
        return None
    reads = len(first.reads)
    return replace(
        first,
        elements=sum(kernel.elements for kernel in kernels),
        duration_s=fsum(timed) if timed else None,
        reads=tuple(regions[:reads]),
        writes=tuple(regions[reads:]),
        share=min(1.0, share),
        threads=sum(kernel.threads for kernel in kernels),
    )


def _are_of_one_launch(kernels: Sequence[Kernel]) -> bool:
    """Return True if they are parts of launches of one time; or whole ones, of whatever time."""
    whole_s = [kernel.duration_s / kernel.share for kernel in kernels if kernel.duration_s]
    return all(kernel.share == 1 for kernel in kernels) or max(whole_s) <= min(whole_s) * (1 + ROUNDING)


def _are_in_proportion(rows: Sequence[Sequence[int]]) -> bool:
    """Return True if every row is a multiple of the first one: then parts of the whole are the parts that they were."""
    first = rows[0]
    return all([a * row[0] for a in first] == [b * first[0] for b in row] for row in rows if row)


def _side_by_side(regions: Sequence[Region | None]) -> Region | None:
    """Ranges that lie side by side, in this order, as one; None where they do not."""
    first = regions[0]
    if first is None:
        return None
    end = first.offset
    for region in regions:
        if region is None or (region.buffer, region.offset) != (first.buffer, end):
            return None
        end += region.bytes
    return Region(first.buffer, first.offset, end - first.offset)


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


class Steps(NamedTuple):
    """The ops of a schedule, in its order: ``before`` the first step, those of each step, ``after`` the last.

    What the host does between two steps belongs to the later one, except up to its last wait or event; waits for
    threads that make no calls, such as workers that load data, do not count. After the last copy or kernel there is no
    step.
    """

    before: tuple[Op, ...]
    steps: tuple[tuple[Op, ...], ...]
    after: tuple[Op, ...]


def own_work_s(ops: Iterable[Op]) -> float:
    """Return the seconds of the program's own host work among these ops, such as loading a batch."""
    return fsum(op.duration_s for op in ops if isinstance(op, HostWork) and not is_of_a_call(op))


def steps_of(schedule: Schedule) -> Steps:
    """Cut a schedule into its steps.

    Raises InputError unless there are two or more, begun by one thread that others wait for, and are waited for by, in
    each of them, as in a backward pass of PyTorch.
    """
    last = last_work(schedule)
    calling = {op.thread for op in schedule.ops if not isinstance(op, HostWork)}
    steps: list[list[Op]] = [[]]
    has_worked = False  # whether the step has a kernel or a copy back
    waiting: list[Op] = []  # what the host has done since the last op on the card: of this step or of the next
    for op in schedule.ops[: last + 1]:
        if is_load(op) and has_worked:
            closing = max((i + 1 for i, one in enumerate(waiting) if _is_of_calls(one, calling)), default=0)
            steps[-1] += waiting[:closing]
            steps.append(waiting[closing:])
            waiting, has_worked = [], False
        if isinstance(op, Work):
            steps[-1] += [*waiting, op]
            waiting = []
            has_worked = has_worked or not is_load(op)
        else:
            waiting.append(op)
    if len(steps) < 2:
        raise InputError("no step is repeated: no copy to the card is issued behind a kernel or a copy back")
    first = next(i for i, op in enumerate(steps[0]) if isinstance(op, Work))
    _check_joined([steps[0][first:], *steps[1:]])
    return Steps(tuple(steps[0][:first]), (tuple(steps[0][first:]), *map(tuple, steps[1:])), schedule.ops[last + 1 :])


def _is_of_calls(op: Op, calling: set[int]) -> bool:
    """Return True if an op is a call, or a wait for a thread that makes calls."""
    return op.other in calling if isinstance(op, WaitThread) else not isinstance(op, HostWork)


def _check_joined(steps: Sequence[Sequence[Op]]) -> None:
    """Nobody's calls are of two steps. Behind the last step nobody need wait; what a thread does on its own is free."""
    main = steps[0][0].thread
    for k, step in enumerate(steps, 1):
        calling = set[int]()  # threads that the first lets call, and has not waited for since
        for op in step:
            if isinstance(op, WaitThread) and op.thread == main:
                calling.discard(op.other)
            elif isinstance(op, WaitThread) and op.other == main:
                calling.add(op.thread)
            elif not isinstance(op, HostWork) and op.thread not in {main, *calling}:
                raise InputError(
                    f"ops: issued by several host threads: in step {k} thread {op.thread} waits for nobody"
                )
        if calling and k < len(steps):
            raise InputError(f"ops: issued by several host threads: in step {k} nobody waits for thread {min(calling)}")


def over_streams(schedule: Schedule, streams: int) -> Schedule:
    """Return the steps in ``streams`` new streams in turn, each behind nothing but its own stream.

    Right only if no step needs anything of another one. Raises InputError as :func:`steps_of`, and for a step that is
    itself in several streams.
    """
    found = steps_of(schedule)
    ops = list(found.before)
    busy = set[int]()  # the streams whose work the host has not waited for
    for k, step in enumerate(found.steps):
        if len({op.stream for op in step if isinstance(op, Work)}) > 1:
            raise InputError(f"step {k + 1} is in several streams already: --streams is for steps in one")
        ops += _moved(step, 1 + k % streams, busy)
    ops += _moved(found.after, 1, set(range(1, 1 + streams)))
    return replace(schedule, ops=tuple(ops), streams=NON_BLOCKING * streams, events=0)


def _moved(step: Iterable[Op], stream: int, busy: set[int]) -> list[Op]:
    """A step in this stream; the host waits for all that it waited for, in whichever ``busy`` streams that now is."""
    moved: list[Op] = []
    for op in step:
        if isinstance(op, Work):
            moved.append(replace(op, stream=stream))
            busy.add(stream)
        elif isinstance(op, Synchronize):
            of_one = busy <= {stream} and (op.stream is not None or op.event is not None)
            moved.append(replace(op, stream=stream if of_one else None, event=None))
            busy.clear()
        elif not isinstance(op, RecordEvent | WaitEvent):
            moved.append(op)
    return moved


def in_pieces(schedule: Schedule, pieces: int, tables: frozenset[Region] = frozenset()) -> tuple[Schedule, Origins]:
    """Return each step as ``pieces`` smaller ones: its copies and kernels cut, and issued again for each piece.

    Also return which op each copy and kernel is a piece of.

    A front end's work for a call right before an op is done again for every piece; of the program's own work there,
    every piece has an equal share. What the host does before the step's first op, it does once. A step's first calls
    come behind a wait and find the host's caches cold, and those of its later pieces do not: these take no longer than
    the fast quarter of such calls in the program, and so does the work for them. Right only if a step's work can be
    cut so. Raises InputError as :func:`steps_of`, for a copy that has fewer bytes than pieces, and where named memory
    shows that a piece would come before what it needs.
    """
    found = steps_of(schedule)
    warm, shared = _Warm(found.steps), dependences_of(schedule, tables).shared
    ops, numbers = list(found.before), list(range(len(found.before)))
    for step in found.steps:
        place = numbers[-1] + 1 if numbers else 0
        works = [i for i, op in enumerate(step) if is_work(op)]
        first, end = works[0], works[-1] + 1
        found_pieces = cut([step[i] for i in works], [shared.get(place + i, set()) for i in works], pieces)
        if found_pieces is None:
            raise _too_small([step[i] for i in works], pieces)
        piece_of = dict(zip(works, found_pieces, strict=True))
        for i, op in enumerate(step):
            if isinstance(op, HostWork) and not is_of_a_call(op):
                part = replace(op, duration_s=op.duration_s / pieces, name=op.name or "part of the host's work")
                piece_of[i] = [part] * pieces  # named: however short it is, it is no front end's work for a call
        ops += step[:first]
        for piece in range(pieces):
            again = [piece_of[i][piece] if i in piece_of else step[i] for i in range(first, end)]
            ops += again if piece == 0 else warm.calls(again)
        ops += step[end:]
        numbers += [place + i for i in (*range(first), *list(range(first, end)) * pieces, *range(end, len(step)))]
    if schedule.buffers and conflicts_in(schedule, ops, numbers) is None:
        raise InputError(f"a step cannot be cut into {pieces} pieces: some would come before what they read is there")
    origins = [(i,) for i in numbers if is_work(schedule.ops[i])]
    return replace(schedule, ops=(*ops, *found.after)), origins


def _too_small(ops: Iterable[Op], pieces: int) -> InputError:
    least = min((op.bytes for op in ops if isinstance(op, Copy)), default=0)
    what = f"a copy of {least} bytes" if least < pieces else "a kernel with fewer elements or bytes"
    return InputError(f"{what} cannot be cut into {pieces} pieces; give fewer")


class _Warm:
    """What calls, and the host's work for them, take where its caches are warm: the fast quarter of those in a program.

    By kind of op; what recorded programs say of them. Calls of unknown cost stay so.
    """

    def __init__(self, steps: Iterable[Sequence[Op]]) -> None:
        self._calls_s: dict[str, list[float]] = {}
        self._work_s: dict[str, list[float]] = {}
        for step in steps:
            for before, op in pairwise((None, *step)):
                if isinstance(op, Work):
                    if op.call_s is not None:
                        self._calls_s.setdefault(_kind(op), []).append(op.call_s)
                    if isinstance(before, HostWork) and is_of_a_call(before):
                        self._work_s.setdefault(_kind(op), []).append(before.duration_s)

    def calls(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """Return ``ops`` with the calls that they make if the host's caches are warm."""
        found: list[Op] = []
        for op, behind in pairwise((*ops, None)):
            assert op is not None
            if isinstance(op, Work) and op.call_s is not None:
                op = replace(op, call_s=_at_most(op.call_s, self._calls_s[_kind(op)]))
            elif isinstance(op, HostWork) and is_of_a_call(op) and isinstance(behind, Work):
                op = replace(op, duration_s=_at_most(op.duration_s, self._work_s[_kind(behind)]))
            found.append(op)
        return tuple(found)


def _kind(op: Work) -> str:
    return op.direction if isinstance(op, Copy) else "kernel"


def _at_most(seconds: float, others_s: Sequence[float]) -> float:
    """``seconds``, but no more than what ends the fast quarter of the others."""
    return min(seconds, sorted(others_s)[(len(others_s) - 1) // 4])


def prefetched(schedule: Schedule, depth: int) -> tuple[Schedule, list[int]]:
    """Return the copies to the card of the next ``depth`` steps beside this step's work, in a stream of their own.

    Also return which op of ``schedule`` each op is (-1: none).

    What the host does for a copy goes with it; it waits for none of them. A step's other work waits for its copies by
    an event, and copies into a buffer for the work of the step that had it: there are ``depth`` + 1 buffers, which are
    made where named memory shows fewer. Right if what is copied is there so much earlier. Raises InputError as
    :func:`steps_of`, and where named memory shows that it is not.
    """
    made, numbers = _prefetched(schedule, depth)
    if not schedule.buffers or conflicts_in(schedule, made.ops, numbers) is not None:
        return made, numbers
    more = None if is_racy(schedule) else Recut(schedule).with_buffers(depth + 1)
    if more is not None:
        made, numbers = _prefetched(more, depth)
        if conflicts_in(more, made.ops, numbers) is not None:
            return made, numbers
    raise InputError(
        f"steps cannot be copied {depth} ahead: a step copies to the card what a step before it copies back or computes"
    )


def _prefetched(schedule: Schedule, depth: int) -> tuple[Schedule, list[int]]:
    """See :func:`prefetched`."""
    found, first_event = steps_of(schedule), schedule.events
    copying, count = len(schedule.streams) + 1, len(found.steps)
    place, parts = len(found.before), list[tuple[list[int], list[int]]]()
    for step in found.steps:
        loads, rest = _loads_and_rest(step)
        parts.append(([place + i for i in loads], [place + i for i in rest]))
        place += len(step)
    loaded, done = range(first_event, first_event + count), range(first_event + count, first_event + 2 * count)
    numbered: list[tuple[int, Op]] = list(enumerate(found.before))

    def load(k: int) -> None:
        if k > depth:
            numbered.append((-1, WaitEvent(done[k - depth - 1], copying)))
        for i in parts[k][0]:
            op = schedule.ops[i]
            numbered.append((i, replace(op, stream=copying, blocking=False) if isinstance(op, Copy) else op))
        numbered.append((-1, RecordEvent(loaded[k], copying)))

    for k in range(min(depth, count)):
        load(k)
    for k, (_, rest) in enumerate(parts):
        if k + depth < count:
            load(k + depth)
        numbered += _behind([(i, schedule.ops[i]) for i in rest], loaded[k], done[k])
    numbered += enumerate(found.after, place)
    numbers, ops = zip(*numbered, strict=True)
    streams_then, events = (*schedule.streams, *NON_BLOCKING), first_event + 2 * count
    return replace(schedule, ops=ops, streams=streams_then, events=events), list(numbers)


def _behind(rest: list[tuple[int, Op]], loaded: int, done: int) -> list[tuple[int, Op]]:
    """The rest of a step, whose work waits for the event ``loaded``, and ``done`` recorded behind that work."""
    works = [(n, op.stream) for n, (_, op) in enumerate(rest) if isinstance(op, Work)]
    if not works:  # a last step that only copies to the card
        return rest
    (first, _), (last, stream) = works[0], works[-1]
    waits: list[tuple[int, Op]] = [(-1, WaitEvent(loaded, used)) for used in dict.fromkeys(used for _, used in works)]
    return [*rest[:first], *waits, *rest[first : last + 1], (-1, RecordEvent(done, stream)), *rest[last + 1 :]]


def _loads_and_rest(step: Sequence[Op]) -> tuple[list[int], list[int]]:
    """The places of the step's copies to the card and what the host does for them; and of the rest.

    No wait for the copies is kept.
    """
    works = [i for i, op in enumerate(step) if is_work(op)]
    loads = [i for i in works if is_load(step[i])]
    end = loads[-1] + 1 if loads else 0
    then = next((i for i in works if not is_load(step[i])), end)
    kept = [i for i, op in enumerate(step) if i >= then or not isinstance(op, Synchronize)]
    return [i for i in kept if i < end], [i for i in kept if i >= end]


def chunk_count(schedule: Schedule) -> int:
    """Return the number of chunks of a program. Raises InputError if the program does not show it."""
    return _count(schedule, _by_data(schedule))


def _count(schedule: Schedule, recut: Recut | None) -> int:
    return len(steps_of(schedule).steps) if recut is None else recut.chunks


def is_by_steps(schedule: Schedule) -> bool:
    """Return True if only the steps of a program show its chunks, not its data. Raises InputError if neither does."""
    return _by_data(schedule) is None


def in_chunks(schedule: Schedule, count: int, tables: frozenset[Region] = frozenset()) -> tuple[Schedule, Origins]:
    """Return the same work in ``count`` chunks, over as many streams as now; and what each copy and kernel does of it.

    ``tables``: ranges that every chunk is known to read whole. Raises InputError if the work cannot be cut so.
    """
    recut = _by_data(schedule, tables)
    chunks = _count(schedule, recut)
    if count == chunks:
        return schedule, [(i,) for i, op in enumerate(schedule.ops) if is_work(op)]
    if recut is not None:
        found = _cut(recut, count)
        if found is None:
            raise _uneven(chunks, "chunks", count)
        return found
    if count % chunks:
        raise _uneven(chunks, "steps", count)
    cut, origins = in_pieces(schedule, count // chunks, tables)
    return still_ordered(schedule, cut), origins


def _uneven(now: int, what: str, count: int) -> InputError:
    """Return the error for ``now`` chunks or steps that cannot be made ``count`` chunks."""
    least = "in which each copy and kernel still has some bytes"
    if now == 1:
        return InputError(f"this program, which is one chunk, cannot be cut into {count}: give fewer, {least}")
    return InputError(
        f"the {now} {what} of this program cannot be made {counted(count, 'chunk')}: give a multiple of {now}, {least}"
    )


def _cut(recut: Recut, count: int) -> tuple[Schedule, Origins] | None:
    """Each chunk in several, or several in one; else all of them in one, and that cut."""
    streams = min(count, recut.streams) if recut.by_chunk and recut.streams > 1 else None
    if count % recut.chunks == 0:
        made = recut.cut(count // recut.chunks, streams)
    elif recut.chunks % count == 0:
        made = recut.merged(recut.chunks // count, streams)
    else:
        whole = None if recut.has_common else recut.merged(recut.chunks, None if streams is None else 1)
        if whole is None:
            return None
        again = Recut(whole)
        made = again.cut(count, streams)
        parts = dict(zip((i for i, op in enumerate(whole.ops) if is_work(op)), recut.origins, strict=True))
        recut.origins = [parts[i] for (i,) in again.origins]
    return None if made is None else (made, recut.origins)


def in_streams(schedule: Schedule, count: int) -> Schedule:
    """Return the chunks dealt out to ``count`` streams in turn. Raises InputError if nothing shows chunks."""
    recut = _by_data(schedule)
    if recut is None:
        try:
            return still_ordered(schedule, over_streams(schedule, count))
        except InputError:  # a step that is itself in several streams
            recut = _recut(schedule)
    return recut.dealt(count)


def in_order(schedule: Schedule, name: str) -> tuple[Schedule, Origins]:
    """Return the same ops issued ``"depth-first"`` or ``"breadth-first"``; and what each copy and kernel does of them.

    Raises InputError if the data forbids it.
    """
    needs = dependences_of(schedule)
    if name in needs.issued:
        return schedule, [(i,) for i, op in enumerate(schedule.ops) if is_work(op)]
    if needs.is_racy or name not in needs.orders:
        why = "it has races" if needs.is_racy else "its data needs another order"
        raise InputError(f"this program cannot be issued {name}: {why}")
    made = needs.reordered(schedule, name, holds=True)
    return made, [(i,) for i in needs.sequence(name, holds=True) if is_work(schedule.ops[i])]


def without_needless_waits(schedule: Schedule) -> Schedule:
    """Return the same ops in their streams, without waits that their data does not need."""
    return _recut(schedule).dealt(None)


def with_buffers(schedule: Schedule, times: int) -> Schedule:
    """Return the schedule with ``times`` as many of the device buffers that chunks use one after another.

    0: one for each chunk. Waits that the data does not need then are left out. Raises InputError if no buffer is used
    twice.
    """
    made = _recut(schedule).with_buffers(times or None)
    if made is None:
        raise InputError("--buffers: no buffer is used twice that could be more of them")
    return without_needless_waits(made)


def _recut(schedule: Schedule) -> Recut:
    needs = dependences_of(schedule)
    if needs.is_racy:
        raise InputError("ops: the program has races, so what its chunks need of each other is not known")
    return Recut(schedule, needs)


@remembered
def _by_data(schedule: Schedule, tables: frozenset[Region] = frozenset()) -> Recut | None:
    """Return the chunks that a program's data shows; None if only its steps show chunks.

    Raises InputError for one that shows neither.
    """
    racy = is_racy(schedule)
    if racy or unnamed_memory(schedule):
        try:
            steps_of(schedule)
        except InputError:
            if racy or any(op.thread for op in schedule.ops):
                raise
        else:
            return None
    recut = Recut(schedule, dependences_of(schedule, tables))
    if not recut.chunks:
        raise InputError("ops: there is no copy and no kernel to cut")
    return recut
