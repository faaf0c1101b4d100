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
and what writes such a range is not cut, nor is a copy back of what several chunks have written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import fsum, gcd
from typing import Any

from msgspec.structs import replace

from streamsim.errors import InputError, counted
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
from streamsim.transform.dependences import Dependences, conflicts_in, dependences_of, is_racy, issued, still_ordered
from streamsim.transform.work import NON_BLOCKING, CardOp, is_load, is_of_a_call, is_work, last_work, working_streams

Origins = Sequence[tuple[int, ...]]  # of each copy and kernel the ops that it does
NO_TABLES = frozenset[Region]()


# Single ops in pieces


def cut(ops: Sequence[Op], shared: Sequence[set[Region]], pieces: int) -> list[list[Op]] | None:
    """Return the copies and kernels of a chunk, each in ``pieces`` pieces; None if one of them is too small.

    ``shared``: the ranges of each op that every piece reads whole.
    """
    wholes = [(op, all_read) for op, all_read in zip(ops, shared, strict=True) if isinstance(op, Copy | Kernel)]
    ranges = [size for op, all_read in wholes for size in _ranges(op, all_read)]
    sizes = ranges + [op.elements for op, _ in wholes if isinstance(op, Kernel) and op.elements]
    if min(sizes, default=pieces) < pieces:
        return None
    items = _items(sizes, ranges, pieces)
    return [[_piece(op, k, pieces, items, all_read) for k in range(pieces)] for op, all_read in wholes]


def _ranges(op: CardOp, shared: set[Region]) -> list[int]:
    if isinstance(op, Copy):
        return [op.bytes]
    return [region.bytes for region in op.reads + op.writes if region not in shared]


def _items(sizes: Sequence[int], ranges: Sequence[int], pieces: int) -> int:
    """Of how many items each size has a whole number, of aligned bytes if it can be; 0: of fewer than the pieces."""
    items = gcd(*sizes)
    if items < pieces:
        return 0
    together = ALIGN_BYTES // gcd(ALIGN_BYTES, *(size // items for size in ranges))  # items that are aligned
    return items // together if items % together == 0 and items // together >= pieces else items


def _piece(op: CardOp, piece: int, pieces: int, items: int, shared: set[Region]) -> Op:
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


# Steps


def steps_of(schedule: Schedule) -> list[range]:
    """Return the places of the ops of each step: copies to the card, kernels, copies back, and the host's in between.

    What the host does between two steps belongs to the later one, except up to its last wait or event; waits for
    threads that make no calls, such as workers that load data, do not count. What comes before the first copy or
    kernel, or after the last, is in no step. Raises InputError unless there are two or more steps, begun by one thread
    that others wait for, and are waited for by, in each of them, as in a backward pass of PyTorch.
    """
    steps = _steps(schedule)
    if len(steps) < 2:
        raise InputError("no step is repeated: no copy to the card is issued behind a kernel or a copy back")
    _check_joined([schedule.ops[step.start : step.stop] for step in steps])
    return steps


def _steps(schedule: Schedule) -> list[range]:
    """Return the steps, also if there is only one, or none."""
    calling = {op.thread for op in schedule.ops if not isinstance(op, HostWork)}
    starts, behind = list[int](), 0  # behind the last op on the card, or wait or event
    has_worked = True  # whether the step has a kernel or a copy back
    for i, op in enumerate(schedule.ops[: last_work(schedule) + 1]):
        if isinstance(op, CardOp):
            if not starts or (is_load(op) and has_worked):
                starts.append(behind if starts else i)
                has_worked = False
            has_worked = has_worked or not is_load(op)
            behind = i + 1
        elif op.other in calling if isinstance(op, WaitThread) else not isinstance(op, HostWork):
            behind = i + 1
    return [range(*ends) for ends in pairwise([*starts, last_work(schedule) + 1])]


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


def own_work_s(ops: Iterable[Op]) -> float:
    """Return the seconds of the program's own host work among these ops, such as loading a batch."""
    return fsum(op.duration_s for op in ops if isinstance(op, HostWork) and not is_of_a_call(op))


# Chunks


@remembered
def is_by_steps(schedule: Schedule, tables: frozenset[Region] = NO_TABLES) -> bool:
    """Return True if only the steps of a program show its chunks, not its data. Raises InputError if neither does."""
    racy = is_racy(schedule)
    if racy or unnamed_memory(schedule):
        try:
            steps_of(schedule)
        except InputError:
            if racy or any(op.thread for op in schedule.ops):
                raise
        else:
            return True
    if not dependences_of(schedule, tables).members:
        raise InputError("ops: there is no copy and no kernel to cut")
    return False


def chunk_count(schedule: Schedule, tables: frozenset[Region] = NO_TABLES) -> int:
    """Return the number of chunks of a program. Raises InputError if the program does not show it."""
    by_steps = is_by_steps(schedule, tables)
    return len(steps_of(schedule) if by_steps else dependences_of(schedule, tables).members)


def in_chunks(schedule: Schedule, count: int, tables: frozenset[Region] = NO_TABLES) -> tuple[Schedule, Origins]:
    """Return the same work in ``count`` chunks, over as many streams as now; and what each copy and kernel does of it.

    ``tables``: ranges that every chunk is known to read whole. Raises InputError if the work cannot be cut so.
    """
    chunks = chunk_count(schedule, tables)
    if count == chunks:
        return schedule, [(i,) for i, op in enumerate(schedule.ops) if is_work(op)]
    if count % chunks:
        what = f"this program is {counted(chunks, 'chunk')} and cannot be made {count}"
        raise InputError(f"{what}: give a multiple of {chunks}")
    made, origins = in_pieces(schedule, count // chunks, tables)
    if is_by_steps(schedule, tables):
        return still_ordered(schedule, made), origins
    needs, streams = dependences_of(schedule, tables), None
    if all(len({schedule.ops[i].stream for i in ops}) == 1 for ops in needs.members):
        streams = len(working_streams(schedule))
    edges, chunk = _of_pieces(needs, made, origins)
    return _dealt(made, Dependences(made, tables, False), streams, edges, chunk), origins


def _of_pieces(needs: Dependences, made: Schedule, origins: Origins) -> tuple[list[set[int]], dict[int, Any]]:
    """Return what pieces must come after; and by piece its chunk, except of what all chunks have in common.

    Bytes that they share say what; else what the others come after does, of one chunk piece by piece.
    """
    pieces = dict[int, list[int]]()
    for i, (origin,) in zip((i for i, op in enumerate(made.ops) if is_work(op)), origins, strict=True):
        pieces.setdefault(origin, []).append(i)
    edges = conflicts_in(made, made.ops, range(len(made.ops))) or []
    chunk = dict[int, Any]()
    for members in needs.members:
        chunk.update({i: (members[0], p) for origin in members for p, i in enumerate(pieces[origin])})
    for origin, places in pieces.items():
        beyond_bytes = needs.conflicts[origin] if origin in needs.sums else needs.unknown(origin)
        for k in beyond_bytes | (needs.awaits(origin) - needs.conflicts[origin]):
            in_pieces = needs.chunk[k] == needs.chunk[origin] and not needs.common & {k, origin}
            for p, i in enumerate(places):
                edges[i].update(pieces[k][p : p + 1] if in_pieces else pieces[k])
    return edges, chunk


def in_pieces(schedule: Schedule, pieces: int, tables: frozenset[Region] = NO_TABLES) -> tuple[Schedule, Origins]:
    """Return the schedule with each chunk or step as ``pieces`` smaller ones; and what each copy and kernel does of it.

    Copies and kernels are cut, and issued again for each piece. A front end's work for a call right before an op is
    done again for every piece; of the program's own work there, every piece has an equal share. What the host does
    before a step's first op, it does once. A step's first calls come behind a wait and find the host's caches cold, and
    those of its later pieces do not: these take no longer than the fast quarter of such calls in the program, and so
    does the work for them. Raises InputError as :func:`steps_of`, for a copy that has fewer bytes than pieces, and
    where named memory shows that a piece would come before what it needs.
    """
    ops, needs, parts = schedule.ops, dependences_of(schedule, tables), dict[int, list[Op]]()
    own = [i for i, op in enumerate(ops) if is_work(op) and i not in needs.common]
    if is_by_steps(schedule, tables):
        runs = members = [[i for i in step if i in {*own}] for step in steps_of(schedule)]
    else:  # what is issued together of a chunk
        runs, members = [list(run) for _, run in groupby(own, key=needs.chunk.__getitem__)], needs.members
    for some in filter(None, members):
        found = cut([ops[i] for i in some], [needs.shared.get(i, set()) for i in some], pieces)
        if found is None:
            least = min((op.bytes for i in some if isinstance(op := ops[i], Copy)), default=0)
            what = f"a copy of {least} bytes" if least < pieces else "a kernel with fewer elements or bytes"
            raise InputError(f"{what} cannot be cut into {pieces} pieces; give fewer")
        parts.update(zip(some, found, strict=True))
    warm_s, made, numbers, done = _warm_s(ops[own[0] : own[-1] + 1]), list[Op](), list[int](), 0
    for run in filter(None, runs):
        inside = range(run[0], run[-1] + 1)
        for i in inside:
            if isinstance(op := ops[i], HostWork) and not is_of_a_call(op):
                part = replace(op, duration_s=op.duration_s / pieces, name=op.name or "part of the host's work")
                parts[i] = [part] * pieces  # named: however short it is, it is no front end's work for a call
        once = [i for i in inside if i in needs.common]
        made += ops[done : run[0]]
        numbers += range(done, run[0])
        for piece in range(pieces):
            again = [i for i in inside if i not in once or piece == (0 if is_load(ops[i]) else pieces - 1)]
            issued_again = [parts[i][piece] if i in parts else ops[i] for i in again]
            made += _warmed(issued_again, warm_s) if piece else issued_again
            numbers += again
        done = run[-1] + 1
    made, numbers = [*made, *ops[done:]], [*numbers, *range(done, len(ops))]
    if schedule.buffers and conflicts_in(schedule, made, numbers) is None:
        raise InputError(f"a step cannot be cut into {pieces} pieces: some would come before what they read is there")
    return replace(schedule, ops=tuple(made)), [(i,) for i in numbers if is_work(ops[i])]


Costs = dict[tuple[str, bool], float]  # seconds by kind of op: of its call (True), or of the work before that


def _warm_s(ops: Sequence[Op]) -> Costs:
    """Return what calls, and the work for them, take if caches are warm: the fast quarter of those of a kind."""
    found: dict[tuple[str, bool], list[float]] = {}
    for before, op in pairwise((None, *ops)):
        if isinstance(op, CardOp) and op.call_s is not None:
            found.setdefault((_kind(op), True), []).append(op.call_s)
        if isinstance(op, CardOp) and isinstance(before, HostWork) and is_of_a_call(before):
            found.setdefault((_kind(op), False), []).append(before.duration_s)
    return {kind: sorted(seconds)[(len(seconds) - 1) // 4] for kind, seconds in found.items()}


def _warmed(ops: Sequence[Op], warm_s: Costs) -> Iterator[Op]:
    for op, behind in pairwise((*ops, None)):
        if isinstance(op, CardOp) and op.call_s is not None:
            yield replace(op, call_s=min(op.call_s, warm_s[_kind(op), True]))
        elif isinstance(op, HostWork) and is_of_a_call(op) and isinstance(behind, CardOp):
            yield replace(op, duration_s=min(op.duration_s, warm_s[_kind(behind), False]))
        elif op is not None:
            yield op


def _kind(op: CardOp) -> str:
    return op.direction if isinstance(op, Copy) else "kernel"


# Streams, orders and buffers


def in_streams(schedule: Schedule, count: int) -> Schedule:
    """Return the chunks dealt out to ``count`` streams in turn. Raises InputError if nothing shows chunks.

    Steps are dealt out if each is in one stream, which is right only if no step needs anything of another one.
    """
    if is_by_steps(schedule):
        steps = steps_of(schedule)
        if all(len({schedule.ops[i].stream for i in step if is_work(schedule.ops[i])}) == 1 for step in steps):
            number = {i: k for k, step in enumerate(steps) for i in step}
            none = [set[int]()] * len(schedule.ops)
            return still_ordered(schedule, _dealt(schedule, dependences_of(schedule), count, none, number))
    needs = _sound(schedule)
    chunk = {i: ops[0] for ops in needs.members for i in ops}
    return _dealt(schedule, needs, count, needs.conflicts, chunk)


def without_needless_waits(schedule: Schedule) -> Schedule:
    """Return the same ops in their streams, without waits that their data does not need."""
    needs = _sound(schedule)
    return _dealt(schedule, needs, None, needs.conflicts, {})


def _sound(schedule: Schedule) -> Dependences:
    needs = dependences_of(schedule)
    if needs.is_racy:
        raise InputError("ops: the program has races, so what its chunks need of each other is not known")
    return needs


def _dealt(
    schedule: Schedule,
    needs: Dependences,
    streams: int | None,
    edges: Sequence[set[int]],
    chunk: Mapping[int, Any],
) -> Schedule:
    """Return the ops with no other waits than for ``edges``, the chunks in turn in new streams; None: in their own."""
    sequence = needs.sequence(None, holds=True)
    ops = [schedule.ops[i] for i in sequence]
    if streams is None:
        of = {i: op.stream or 0 for i, op in enumerate(schedule.ops)}
        return issued(schedule, ops, sequence, of, schedule.streams, edges, needs.awaited)
    turns, of = dict[Any, int](), dict[int, int]()
    for i in sequence:
        if is_work(schedule.ops[i]):
            of[i] = turns.setdefault(chunk[i], 1 + len(turns) % streams) if i in chunk else 1
    ops = [replace(op, stream=None, event=None) if isinstance(op, Synchronize) else op for op in ops]
    return issued(schedule, ops, sequence, of, NON_BLOCKING * max(of.values()), edges, {})


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


def with_buffers(schedule: Schedule, times: int) -> Schedule:
    """Return the schedule with ``times`` as many of the device buffers that chunks use one after another, in turn.

    0: one for each chunk. Waits that the data does not need then are left out. Raises InputError if no buffer is used
    twice.
    """
    made = _more_buffers(_sound(schedule), schedule, times)
    if made is None:
        raise InputError("--buffers: no buffer is used twice that could be more of them")
    return without_needless_waits(made)


def _more_buffers(needs: Dependences, schedule: Schedule, times: int) -> Schedule | None:
    own = dict[int, dict[str, str]]()  # by op the new names of the buffers of its chunk
    for buffer, chunks in _turns(needs, schedule).items():
        for k, chunk in enumerate(chunks):
            if turn := k % times if times else k:
                for i in chunk:
                    own.setdefault(i, {})[buffer] = f"{buffer}.{turn}"
    sizes = {buffer.name: buffer for buffer in schedule.buffers}
    more = {n: replace(sizes[buffer], name=n) for names in own.values() for buffer, n in names.items()}
    if not more or more.keys() & sizes.keys():
        return None
    ops = tuple(_renamed(op, own.get(i, {})) for i, op in enumerate(schedule.ops))
    return replace(schedule, ops=ops, buffers=(*schedule.buffers, *more.values()))


def _turns(needs: Dependences, schedule: Schedule) -> dict[str, list[list[int]]]:
    """By device buffer that chunks use one after another: the chunks that need nothing in it but their own data."""
    on_card = {buffer.name for buffer in schedule.buffers if buffer.memory == "device"}
    touches = [{r.buffer for r, _ in touched(op)} & on_card for op in schedule.ops]
    again = {
        name
        for i, before in enumerate(needs.conflicts)
        for k in before
        if needs.chunk[k] != needs.chunk[i]
        for name in touches[i] & touches[k]
    }.difference(*(touches[i] for i in needs.common))  # what all chunks read, or write, there is once
    found = dict[str, list[list[int]]]()
    for ops in needs.members:
        lacking = _lacking([schedule.ops[i] for i in ops])
        for name in sorted(again & set().union(*(touches[i] for i in ops))):
            chunks = found.setdefault(name, [])
            if name not in lacking:
                chunks.append(ops)
            elif not chunks:
                chunks.append([])  # the first turn is that of the buffer as it is
    return found


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


# Copies ahead


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
    more = None if is_racy(schedule) else _more_buffers(dependences_of(schedule), schedule, depth + 1)
    if more is not None:
        made, numbers = _prefetched(more, depth)
        if conflicts_in(more, made.ops, numbers) is not None:
            return made, numbers
    raise InputError(
        f"steps cannot be copied {depth} ahead: a step copies to the card what a step before it copies back or computes"
    )


def _prefetched(schedule: Schedule, depth: int) -> tuple[Schedule, list[int]]:
    """See :func:`prefetched`."""
    ops, steps, copying = schedule.ops, steps_of(schedule), len(schedule.streams) + 1
    parts = [_loads_and_rest(ops, step) for step in steps]
    loaded, done, end = schedule.events, schedule.events + len(steps), schedule.events + 2 * len(steps)
    found: list[tuple[int, Op]] = list(enumerate(ops[: steps[0].start]))
    for k in range(-depth, len(steps)):  # the step whose work is issued
        ahead = k + depth
        if ahead < len(steps):
            found += [(-1, WaitEvent(done + k - 1, copying))] if k > 0 else []
            for i in parts[ahead][0]:
                op = ops[i]
                found.append((i, replace(op, stream=copying, blocking=False) if isinstance(op, Copy) else op))
            found.append((-1, RecordEvent(loaded + ahead, copying)))
        if k >= 0:
            found += _behind(ops, parts[k][1], loaded + k, done + k)
    found += ((i, ops[i]) for i in range(steps[-1].stop, len(ops)))
    numbers, made = zip(*found, strict=True)
    return replace(schedule, ops=made, streams=(*schedule.streams, *NON_BLOCKING), events=end), list(numbers)


def _behind(ops: Sequence[Op], rest: Sequence[int], loaded: int, done: int) -> Iterator[tuple[int, Op]]:
    """Yield the rest of a step, whose work waits for the event ``loaded``, and ``done`` recorded behind that work."""
    streams = {i: op.stream for i in rest if isinstance(op := ops[i], CardOp)}
    first, last = min(streams, default=None), max(streams, default=None)
    for i in rest:
        if i == first:
            yield from ((-1, WaitEvent(loaded, stream)) for stream in dict.fromkeys(streams.values()))
        yield i, ops[i]
        if i == last:
            yield -1, RecordEvent(done, streams[i])


def _loads_and_rest(ops: Sequence[Op], step: range) -> tuple[list[int], list[int]]:
    """The places of the step's copies to the card and what the host does for them; and of the rest.

    No wait for the copies is kept.
    """
    works = [i for i in step if is_work(ops[i])]
    end = max((i + 1 for i in works if is_load(ops[i])), default=step.start)
    then = next((i for i in works if not is_load(ops[i])), end)
    kept = [i for i in step if i >= then or not isinstance(ops[i], Synchronize)]
    return [i for i in kept if i < end], [i for i in kept if i >= end]
