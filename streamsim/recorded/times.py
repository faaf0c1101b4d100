"""The host's threads in a recording: the time of each call, the gap before it, and waits for other threads."""

from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsim.recorded.intervals import before_in, latest_before, numbered
from streamsim.recorded.recording import NONE, AnnotationKind, CallKind, CardWork, Recording, WorkKind

MOST_RECENT = 16  # number of threads with the latest calls that a thread may have waited for
NAMED_NS = 10_000  # from this length on, a call without work for a card becomes host work with a name


class CallTimes(NamedTuple):
    """The times of each call, in the order of their starts; nanoseconds, shape (calls,).

    - ``before_ns``: the gap before the call. It begins with the end of the thread's call before, or with the program.
      If the thread waited for another thread, it begins with the end of that thread's last call.
    - ``own_ns``: the call itself, except the part inside a call around it.
    - ``waited_for``: the thread that the call's thread waited for before it, or NONE.
    - ``operations``: the number of recorded operations that began in the gap.
    """

    before_ns: NDArray[np.int64]
    own_ns: NDArray[np.int64]
    waited_for: NDArray[np.int64]
    operations: NDArray[np.int64]


def call_times(recording: Recording, first_ns: int) -> CallTimes:
    """Return the times of each call and of the gap before it, for a program that began at ``first_ns``.

    A thread waited for another one if, in its gap, the other thread made calls and then no more until the gap's end. In
    PyTorch, one thread issues the backward pass while the thread that started it waits.
    """
    calls = recording.calls
    waited_for, operations = np.full(len(calls), NONE, np.int64), np.zeros(len(calls), np.int64)
    cursor = np.maximum(latest_before(calls.thread, calls.end_ns), first_ns)  # until when each call's thread was busy
    starts = np.maximum(calls.start_ns, cursor)
    threads, notes = np.unique(calls.thread), recording.annotations
    for thread in threads:
        rows = np.flatnonzero(calls.thread == thread)
        begins = np.sort(notes.start_ns[(notes.thread == thread) & (notes.kind == AnnotationKind.OP)])
        operations[rows] = np.searchsorted(begins, starts[rows]) - np.searchsorted(begins, cursor[rows])
    if len(threads) > 1:
        _find_waits(calls, cursor, waited_for)
    before_ns, own_ns = (np.maximum(ns, 0) for ns in (calls.start_ns - cursor, calls.end_ns - starts))
    return CallTimes(before_ns, own_ns, waited_for, operations)


def _find_waits(calls: Any, cursor: NDArray[np.int64], waited_for: NDArray[np.int64]) -> None:
    """Set ``waited_for`` where threads waited for each other, and move ``cursor`` to the end of the call waited for."""
    latest: dict[int, int] = {}  # by thread: its last call so far, the latest call at the end
    threads, starts, ends = calls.thread.tolist(), calls.start_ns.tolist(), calls.end_ns.tolist()
    before = enumerate(before_in(calls.thread).tolist())
    following = {row: after for after, row in before if row != NONE}
    # A call can have waited only if the call before it, of any thread, began after its own thread was last busy.
    may_wait = np.append(False, calls.start_ns[:-1] >= cursor[1:]).tolist()
    for i, (thread, start) in enumerate(zip(threads, starts, strict=True)):
        if may_wait[i]:
            since = int(cursor[i])
            recent = islice(reversed(latest.items()), MOST_RECENT)
            others = (k for other, k in recent if other != thread and starts[k] >= since)
            last = max(others, key=ends.__getitem__, default=NONE)
            if last != NONE and ends[last] <= start and starts[following.get(last, i)] >= start:
                waited_for[i], cursor[i] = threads[last], ends[last]
        latest.pop(thread, None)
        latest[thread] = i


def first_excess_ns(recording: Recording, own_ns: NDArray[np.int64]) -> tuple[int, int]:
    """Return the excess nanoseconds of the first copy or launch over the median of its name, and its row.

    A profiler's work at the beginning of a recording is part of this call. Unless the call took over ten times the
    median, the result is (0, NONE).
    """
    calls = recording.calls
    issues = np.flatnonzero(np.isin(calls.kind, (CallKind.COPY, CallKind.COPY_ASYNC, CallKind.LAUNCH)))
    if not len(issues):
        return 0, NONE
    first = int(issues[0])
    alike = issues[(calls.name[issues] == calls.name[first]) & (issues != first)]
    usual = int(np.median(own_ns[alike])) if len(alike) else int(own_ns[first])
    excess = int(own_ns[first]) - usual
    return (excess, first) if excess > 9 * usual else (0, NONE)


# The most time between two kernels of a graph, one behind the other in one stream, if the second waits for nothing
# else. Six recordings of an H100 and H200s have 0.1 to 0.5 us.
NEXT_NS = 1000
_MOST = np.iinfo(np.int64).max


def overlaps_kernel(work: CardWork) -> NDArray[np.bool_]:
    """Return True for each row of ``work`` that overlaps another kernel of the same card; shape (rows,)."""
    found = np.zeros(len(work), np.bool_)
    for card in np.unique(work.card):
        rows = np.flatnonzero((work.card == card) & (work.kind != WorkKind.COPY) & (work.end_ns > work.start_ns))
        start, end = work.start_ns[rows], work.end_ns[rows]  # in the order of their starts
        ended = np.maximum.accumulate(end)
        found[rows[1:]] |= start[1:] < ended[:-1]
        found[rows[:-1]] |= end[:-1] > start[1:]
    return found


def uncontended_ns(work: CardWork) -> NDArray[np.int64]:
    """Return the nanoseconds that each row of ``work`` takes with the card to itself; shape (rows,).

    A row that had the card to itself keeps its recorded time. A kernel that ran beside others takes the least of its
    own time and that of the fastest equal launch (of the same name, grid and block). Equal launches that had the card
    to themselves count first, then those beside others. Launches of equal shape may differ in their work, so the
    recorded time of a kernel with the card to itself is final.

    A kernel of a graph keeps the card until the next kernel of its stream begins: there is no hand-over between them.
    """
    took: NDArray[np.int64] = work.end_ns - work.start_ns
    crowded = overlaps_kernel(work)
    if crowded.any():
        alike, _ = numbered(np.column_stack([work.card, work.name, work.grid, work.block]).astype(np.int64))
        least = np.full((2, len(work)), _MOST)  # alone, and beside others
        np.minimum.at(least, (crowded.astype(np.int64), alike), took)
        fastest = np.where(least[0] < _MOST, *least)[alike]
        took = np.where(crowded, np.minimum(took, fastest), took)
    return took + _until_next_ns(work)


def _until_next_ns(work: CardWork) -> NDArray[np.int64]:
    """Return the nanoseconds from each kernel of a graph to the next kernel of its stream; 0 for other rows.

    Kernels of one graph launch have the same call.
    """
    found = np.zeros(len(work), np.int64)
    rows = np.flatnonzero(work.call != NONE)
    rows = rows[np.lexsort((work.start_ns[rows], work.stream[rows], work.call[rows]))]
    before, after = rows[:-1], rows[1:]
    is_next = (work.call[before] == work.call[after]) & (work.stream[before] == work.stream[after])
    are_kernels = (work.kind[before] == WorkKind.KERNEL) & (work.kind[after] == WorkKind.KERNEL)
    gaps_ns = work.start_ns[after] - work.end_ns[before]
    rightly = is_next & are_kernels & (gaps_ns > 0) & (gaps_ns < NEXT_NS)
    found[before[rightly]] = gaps_ns[rightly]
    return found
