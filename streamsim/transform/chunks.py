"""The chunks of a program: how many it has, and the same program with others, over other streams, in another order.

Where ops name their memory, the data says which of them make a chunk (:class:`streamsim.transform.recut.Recut`), in
whatever order they are issued. Recorded programs do not say what memory their ops touch: there a chunk is a step
(:func:`streamsim.transform.steps.steps_of`), or where nothing is repeated in this order, what is in one stream.
"""

from streamsim.errors import InputError
from streamsim.program import Region, Schedule, remembered
from streamsim.races import unnamed_memory
from streamsim.text import counted
from streamsim.transform.dependences import dependences_of, is_racy, still_ordered
from streamsim.transform.ops import is_work
from streamsim.transform.recut import Origins, Recut
from streamsim.transform.steps import in_pieces, over_streams, steps_of


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
