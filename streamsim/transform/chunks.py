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

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import gcd

from msgspec.structs import replace

from streamsim import program
from streamsim.errors import InputError, counted
from streamsim.races import touched
from streamsim.transform.dependences import Dependences, conflicts_in, dependences_of, is_racy, issued, still_ordered
from streamsim.transform.steps import NO_TABLES, Tables, chunk_count, is_by_steps, steps_of
from streamsim.transform.work import NON_BLOCKING, CardOp, is_load, is_of_a_call, is_work, working_streams

Origins = Sequence[tuple[int, ...]]  # of each copy and kernel the ops that it does


# Single ops in pieces


def _items(wholes: Sequence[tuple[CardOp, set[program.Region]]], pieces: int) -> int:
    """Return of how many items all ops of a chunk have whole numbers, of aligned bytes if it can be.

    With each op come the ranges that every piece reads whole. 0: of fewer items than the pieces; ops are then cut by
    bytes. Raises InputError if one of them is too small.
    """
    ranges = [op.bytes for op, _ in wholes if isinstance(op, program.Copy)]
    sizes = [op.elements for op, _ in wholes if isinstance(op, program.Kernel) and op.elements]
    for op, shared in wholes:
        if isinstance(op, program.Kernel):
            ranges += [region.bytes for region in op.reads + op.writes if region not in shared]
    sizes += ranges
    if min(sizes, default=pieces) < pieces:
        raise InputError(
            f"a copy or kernel of {min(sizes)} bytes or elements cannot be cut into {pieces} pieces; give fewer"
        )
    items = gcd(*sizes)
    if items < pieces:
        return 0
    aligned = program.ALIGN_BYTES
    together = aligned // gcd(aligned, *(size // items for size in ranges))  # items that are aligned
    return items // together if items % together == 0 and items // together >= pieces else items


def _piece(op: CardOp, piece: int, pieces: int, items: int, shared: set[program.Region]) -> program.Op:
    """One of the pieces of a copy or kernel of so many items, which are cut as evenly as they can be; 0: by bytes."""

    def ends(size: int) -> tuple[int, int]:
        each = size // items if items and size else 1
        whole = size // each
        return whole * piece // pieces * each, whole * (piece + 1) // pieces * each

    def part(region: program.Region | None) -> program.Region | None:
        if region is None or region in shared:
            return region
        start, end = ends(region.bytes)
        return program.Region(region.buffer, region.offset + start, end - start)

    if isinstance(op, program.Copy):
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


def _warmed(ops: Sequence[program.Op]) -> list[program.Op]:
    """Return the ops with warm caches: calls, and work for them, take no longer than the fast quarter of their kind."""
    kinds = [_kind_of_call(op, behind) for op, behind in pairwise((*ops, None))]
    costs = defaultdict[tuple[str, str], list[float]](list)
    for op, kind in zip(ops, kinds, strict=True):
        if kind is not None:
            costs[kind].append(getattr(op, kind[0]))
    usual = {kind: sorted(seconds)[(len(seconds) - 1) // 4] for kind, seconds in costs.items()}
    return [
        op if kind is None else replace(op, **{kind[0]: min(getattr(op, kind[0]), usual[kind])})
        for op, kind in zip(ops, kinds, strict=True)
    ]


def _kind_of_call(op: program.Op | None, behind: program.Op | None) -> tuple[str, str] | None:
    """Return the field with the seconds of a call, or of the work for the call behind, and what is called; or None."""
    work, field = (behind, "duration_s") if op is not None and is_of_a_call(op) else (op, "call_s")
    if not isinstance(work, CardOp) or (work is op and work.call_s is None):
        return None
    return field, work.direction if isinstance(work, program.Copy) else "kernel"


# Chunks


def in_chunks(schedule: program.Schedule, count: int, tables: Tables = NO_TABLES) -> tuple[program.Schedule, Origins]:
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
    needs, pieces = dependences_of(schedule, tables), defaultdict[int, list[int]](list)
    for i, (origin,) in zip((i for i, op in enumerate(made.ops) if is_work(op)), origins, strict=True):
        pieces[origin].append(i)
    edges, new = _of_pieces(needs, made, pieces), Dependences(made, tables, False)
    if any(len({schedule.ops[i].stream for i in ops}) > 1 for ops in needs.members):
        return new.reordered(made, None, True, edges), origins
    each = count // chunks
    chunk = {
        i: k * each + p for k, ops in enumerate(needs.members) for origin in ops for p, i in enumerate(pieces[origin])
    }
    return _dealt(made, new, edges, chunk, len(working_streams(schedule))), origins


def _of_pieces(needs: Dependences, made: program.Schedule, pieces: Mapping[int, Sequence[int]]) -> list[set[int]]:
    """Return what ops that are the ``pieces`` of others must come after.

    Bytes that they share say what; else what the others come after does, of one chunk piece by piece.
    """
    edges = conflicts_in(made, made.ops, range(len(made.ops))) or []
    for origin, places in pieces.items():
        beyond_bytes = needs.conflicts[origin] if origin in needs.sums else needs.unknown[origin]
        for k in beyond_bytes | (needs.awaits(origin) - needs.conflicts[origin]):
            in_pieces = needs.chunk[k] == needs.chunk[origin] and not needs.common & {k, origin}
            for p, i in enumerate(places):
                edges[i].update(pieces[k][p : p + 1] if in_pieces else pieces[k])
    return edges


def in_pieces(schedule: program.Schedule, pieces: int, tables: Tables = NO_TABLES) -> tuple[program.Schedule, Origins]:
    """Return the schedule with each chunk or step as ``pieces`` smaller ones; and what each copy and kernel does of it.

    Copies and kernels are cut, and issued again for each piece. A front end's work for a call right before an op is
    done again for every piece; of the program's own work there, every piece has an equal share. What the host does
    before a step's first op, it does once. A step's first calls come behind a wait and find the host's caches cold, and
    those of its later pieces do not: these take no longer than the fast quarter of such calls in the program, and so
    does the work for them. Raises InputError as :func:`steps_of`, for a copy that has fewer bytes than pieces, and
    where named memory shows that a piece would come before what it needs.
    """
    ops, needs = schedule.ops, dependences_of(schedule, tables)
    own = [i for i, op in enumerate(ops) if is_work(op) and i not in needs.common]
    if is_by_steps(schedule, tables):
        runs = members = [[i for i in step if is_work(ops[i]) and i not in needs.common] for step in steps_of(schedule)]
    else:  # what is issued together of a chunk
        runs, members = [list(run) for _, run in groupby(own, key=needs.chunk.__getitem__)], needs.members
    items = dict[int, int]()
    for some in members:
        wholes = [(op, needs.shared.get(i, set())) for i in some if isinstance(op := ops[i], CardOp)]
        items |= dict.fromkeys(some, _items(wholes, pieces))
    warm = [*ops[: own[0]], *_warmed(ops[own[0] :])]

    def part(i: int, piece: int) -> program.Op:
        op = warm[i] if piece else ops[i]
        if isinstance(op, CardOp) and i in items:
            return _piece(op, piece, pieces, items[i], needs.shared.get(i, set()))
        if isinstance(op, program.HostWork) and not is_of_a_call(op):  # with a name it is no work for a call
            return replace(op, duration_s=op.duration_s / pieces, name=op.name or "part of the host's work")
        return op

    found, done = list[tuple[int, program.Op]](), 0
    numbered = list(enumerate(ops))
    for run in filter(None, runs):
        found += numbered[done : run[0]]
        done = run[-1] + 1
        once = {i: 0 if is_load(ops[i]) else pieces - 1 for i in range(run[0], done) if i in needs.common}
        for piece in range(pieces):
            found += ((i, part(i, piece)) for i in range(run[0], done) if once.get(i, piece) == piece)
    numbers, made = zip(*found, *numbered[done:], strict=True)
    if schedule.buffers and conflicts_in(schedule, made, numbers) is None:
        raise InputError(f"a step cannot be cut into {pieces} pieces: some would come before what they read is there")
    return replace(schedule, ops=made), [(i,) for i in numbers if is_work(ops[i])]


# Streams, orders and buffers


def in_streams(schedule: program.Schedule, count: int) -> program.Schedule:
    """Return the chunks dealt out to ``count`` streams in turn. Raises InputError if nothing shows chunks.

    Steps are dealt out if each is in one stream, which is right only if no step needs anything of another one.
    """
    if is_by_steps(schedule):
        steps = steps_of(schedule)
        if all(len({schedule.ops[i].stream for i in step if is_work(schedule.ops[i])}) == 1 for step in steps):
            number = {i: k for k, step in enumerate(steps) for i in step}
            none = [set[int]()] * len(schedule.ops)
            return still_ordered(schedule, _dealt(schedule, dependences_of(schedule), none, number, count))
    needs = _sound(schedule)
    chunk = {i: k for k, ops in enumerate(needs.members) for i in ops}
    return _dealt(schedule, needs, needs.conflicts, chunk, count)


def without_needless_waits(schedule: program.Schedule) -> program.Schedule:
    """Return the same ops in their streams, without waits that their data does not need."""
    needs = _sound(schedule)
    return needs.reordered(schedule, None, True, needs.conflicts)


def _sound(schedule: program.Schedule) -> Dependences:
    needs = dependences_of(schedule)
    if needs.is_racy:
        raise InputError("ops: the program has races, so what its chunks need of each other is not known")
    return needs


def _dealt(
    schedule: program.Schedule, needs: Dependences, edges: Sequence[set[int]], chunk: Mapping[int, int], streams: int
) -> program.Schedule:
    """Return the ops with no other waits than for ``edges``, their chunks in turn in new ``streams``."""
    sequence = needs.sequence(None, True)
    of = {i: 1 + chunk.get(i, 0) % streams for i in sequence if is_work(schedule.ops[i])}
    return issued(schedule, sequence, of, NON_BLOCKING * max(of.values()), edges, None)


def in_order(schedule: program.Schedule, name: str) -> tuple[program.Schedule, Origins]:
    """Return the same ops issued ``"depth-first"`` or ``"breadth-first"``; and what each copy and kernel does of them.

    Raises InputError if the data forbids it.
    """
    needs = dependences_of(schedule)
    if name in needs.issued:
        return schedule, [(i,) for i, op in enumerate(schedule.ops) if is_work(op)]
    if needs.is_racy or name not in needs.orders:
        why = "it has races" if needs.is_racy else "its data needs another order"
        raise InputError(f"this program cannot be issued {name}: {why}")
    made = needs.reordered(schedule, name, True)
    return made, [(i,) for i in needs.sequence(name, True) if is_work(schedule.ops[i])]


def with_buffers(schedule: program.Schedule, times: int) -> program.Schedule:
    """Return the schedule with ``times`` as many of the device buffers that chunks use one after another, in turn.

    0: one for each chunk. Waits that the data does not need then are left out. Raises InputError if no buffer is used
    twice.
    """
    made = _more_buffers(_sound(schedule), schedule, times)
    if made is None:
        raise InputError("--buffers: no buffer is used twice that could be more of them")
    return without_needless_waits(made)


def _more_buffers(needs: Dependences, schedule: program.Schedule, times: int) -> program.Schedule | None:
    """See :func:`with_buffers`; None if no buffer is used twice. A chunk that needs what is in a buffer stays in it."""
    sizes = {buffer.name: buffer for buffer in schedule.buffers if buffer.memory == "device"}
    touches = [{r.buffer for r, _ in touched(op)} & sizes.keys() for op in schedule.ops]
    again = {
        name
        for i, before in enumerate(needs.conflicts)
        for k in before
        if needs.chunk[k] != needs.chunk[i]
        for name in touches[i] & touches[k]
    }.difference(*(touches[i] for i in needs.common))  # what all chunks read, or write, there is once
    users, own = Counter[str](), defaultdict[int, dict[str, str]](dict)  # by op the new names of its chunk's buffers
    for ops in needs.members:
        lacking = _lacking([schedule.ops[i] for i in ops])
        for name in sorted(again & set().union(*(touches[i] for i in ops))):
            turn = users[name] % times if times else users[name]
            users[name] += 1
            if turn and name not in lacking:
                for i in ops:
                    own[i][name] = f"{name}.{turn}"
    more = {n: replace(sizes[buffer], name=n) for names in own.values() for buffer, n in names.items()}
    if not more or any(buffer.name in more for buffer in schedule.buffers):
        return None
    made = tuple(_renamed(op, own.get(i, {})) for i, op in enumerate(schedule.ops))
    return replace(schedule, ops=made, buffers=(*schedule.buffers, *more.values()))


def _renamed(op: program.Op, names: dict[str, str]) -> program.Op:
    """The op with its device ranges in buffers of other names."""

    def moved(region: program.Region) -> program.Region:
        return replace(region, buffer=names.get(region.buffer, region.buffer))

    if isinstance(op, program.Copy):
        return op if op.device is None else replace(op, device=moved(op.device))
    if isinstance(op, program.Kernel):
        return replace(op, reads=tuple(map(moved, op.reads)), writes=tuple(map(moved, op.writes)))
    return op


def _lacking(ops: Sequence[program.Op]) -> set[str]:
    """The buffers in which some op reads bytes that none of ``ops`` before it has written, all of them at once."""
    written, found = defaultdict[str, list[program.Region]](list), set[str]()
    for op in ops:
        for region, writes in touched(op):
            if writes:
                written[region.buffer].append(region)
            elif not any(
                one.offset <= region.offset and region.offset + region.bytes <= one.offset + one.bytes
                for one in written[region.buffer]
            ):
                found.add(region.buffer)
    return found


# Copies ahead


def prefetched(schedule: program.Schedule, depth: int) -> tuple[program.Schedule, list[int]]:
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


def _prefetched(schedule: program.Schedule, depth: int) -> tuple[program.Schedule, list[int]]:
    """See :func:`prefetched`."""
    ops, steps, copying = schedule.ops, steps_of(schedule), len(schedule.streams) + 1
    parts = [_loads_and_rest(ops, step) for step in steps]
    loaded, done, end = schedule.events, schedule.events + len(steps), schedule.events + 2 * len(steps)
    found: list[tuple[int, program.Op]] = list(enumerate(ops[: steps[0].start]))
    for k in range(-depth, len(steps)):  # the step whose work is issued
        ahead = k + depth
        if ahead < len(steps):
            found += [(-1, program.WaitEvent(done + k - 1, copying))] if k > 0 else []
            for i in parts[ahead][0]:
                op = ops[i]
                found.append((i, replace(op, stream=copying, blocking=False) if isinstance(op, program.Copy) else op))
            found.append((-1, program.RecordEvent(loaded + ahead, copying)))
        if k >= 0:
            found += _behind(ops, parts[k][1], loaded + k, done + k)
    found += ((i, ops[i]) for i in range(steps[-1].stop, len(ops)))
    numbers, made = zip(*found, strict=True)
    return replace(schedule, ops=made, streams=(*schedule.streams, *NON_BLOCKING), events=end), list(numbers)


def _behind(ops: Sequence[program.Op], rest: Sequence[int], loaded: int, done: int) -> Iterator[tuple[int, program.Op]]:
    """Yield the rest of a step, whose work waits for the event ``loaded``, and ``done`` recorded behind that work."""
    streams = {i: op.stream for i in rest if isinstance(op := ops[i], CardOp)}
    first, last = min(streams, default=None), max(streams, default=None)
    for i in rest:
        if i == first:
            yield from ((-1, program.WaitEvent(loaded, stream)) for stream in dict.fromkeys(streams.values()))
        yield i, ops[i]
        if i == last:
            yield -1, program.RecordEvent(done, streams[i])


def _loads_and_rest(ops: Sequence[program.Op], step: range) -> tuple[list[int], list[int]]:
    """The places of the step's copies to the card and what the host does for them; and of the rest.

    No wait for the copies is kept.
    """
    works = [i for i in step if is_work(ops[i])]
    end = max((i + 1 for i in works if is_load(ops[i])), default=step.start)
    then = next((i for i in works if not is_load(ops[i])), end)
    kept = [i for i in step if i >= then or not isinstance(ops[i], program.Synchronize)]
    return [i for i in kept if i < end], [i for i in kept if i >= end]
