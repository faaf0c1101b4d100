"""Times of a recording: intervals, calls and the gaps before them, waits for other threads, kernels alone, pages.

Moves of unified memory's pages have no calls, and the model does not know when pages move. Replays therefore leave them
out. A prefetch that goes on after its call holds its stream as long as it was recorded. Kernels keep their recorded
times, with their page faults.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.program import RecordedTrack
from streamsim.recorded.recording import (
    ISSUES,
    NONE,
    AnnotationKind,
    CallKind,
    CardWork,
    CopyDirection,
    PageCause,
    PageEvents,
    PageKind,
    Recording,
    WorkKind,
)

MOST_RECENT = 16  # number of threads with the latest calls that a thread may have waited for
NAMED_NS = 10_000  # from this length on, a call without work for a card becomes host work with a name


Intervals = tuple[Any, Any]  # starts and ends


def merged(start: NDArray[np.int64], end: NDArray[np.int64]) -> Intervals:
    """Return the union of intervals as disjoint intervals, in order."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    new = np.ones(len(start), bool)
    new[1:] = start[1:] > reach[:-1]
    last = np.append(np.flatnonzero(new)[1:] - 1, len(start) - 1)
    return start[new], reach[last]


def length(intervals: Intervals) -> int:
    """Return the total length of disjoint intervals."""
    return int((intervals[1] - intervals[0]).sum())


class Covered:
    """The time covered by disjoint, ordered intervals."""

    def __init__(self, intervals: Intervals) -> None:
        start, end = intervals
        total = np.cumsum(end - start)
        self._at = np.stack([start, end], axis=1).reshape(-1)
        self._sum = np.stack([total - (end - start), total], axis=1).reshape(-1)

    def within(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
        """Return the covered time within the spans ``start`` to ``end``, all together."""
        if not len(self._at):
            return 0
        return round(float((np.interp(end, self._at, self._sum) - np.interp(start, self._at, self._sum)).sum()))


def gaps(busy: Intervals, first_ns: int, last_ns: int) -> Intervals:
    """Return the intervals between ``first_ns`` and ``last_ns`` that are not busy."""
    start = np.append(np.int64(first_ns), busy[1])
    end = np.append(busy[0], np.int64(last_ns))
    real = end > start
    return start[real], end[real]


def latest_before(group: NDArray[Any], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each row the largest of the ``values`` before it in the same ``group``; 0 for the first one."""
    found = np.zeros(len(group), np.int64)
    for one in np.unique(group):
        rows = np.flatnonzero(group == one)
        found[rows[1:]] = np.maximum.accumulate(values[rows])[:-1]
    return found


def before_in(group: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each row the row before it of the same ``group``; -1 for the first one."""
    order = np.argsort(group, kind="stable")
    found = np.full(len(group), -1, np.int64)
    same = np.diff(group[order]) == 0
    found[order[1:][same]] = order[:-1][same]
    return found


def numbered(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a number for each row of ``keys``, equal for equal rows, in their order; and each number's first row."""
    order = np.lexsort(keys.T[::-1])  # a tenth of the time of np.unique
    is_new = np.ones(len(keys), bool)
    is_new[1:] = (np.diff(keys[order], axis=0) != 0).any(axis=1)
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    return numbers, order[is_new]


# The host's threads


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


# Unified memory

NOT_MODELLED = "the driver moves pages: left out; prefetches and kernels take what they took"
PREFETCH = "prefetch of unified memory"
# By PageKind and PageCause
_KINDS = ("pages in", "pages out", "pages between cards", "page faults of the card", "page faults of the host")
_CAUSES = ("", ", prefetched", ", after faults", ", ahead of need", ", evicted", ", by access counters")


def groups_of(recording: Recording) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield the events of unified memory by kind and cause: in words, and their rows in ``recording.pages``."""
    pages = recording.pages
    keys = np.stack([pages.kind, pages.cause], axis=1)
    for kind, cause in np.unique(keys, axis=0).tolist():
        yield _KINDS[kind] + _CAUSES[cause], np.flatnonzero((keys == (kind, cause)).all(axis=1))


def lanes_of(recording: Recording, first_ns: int) -> tuple[RecordedTrack, ...]:
    """Return when pages moved and faults occurred, from ``first_ns`` to the end of the last work, by kind and cause.

    Times count from ``first_ns``, in nanoseconds. Spans of a lane that touch or overlap are one.
    """
    last_ns, pages, found = int(recording.work.end_ns.max(initial=first_ns)), recording.pages, []
    for name, rows in groups_of(recording):
        rows = rows[(pages.end_ns[rows] >= first_ns) & (pages.start_ns[rows] <= last_ns)]
        spans = (column[rows].clip(first_ns, last_ns) - first_ns for column in (pages.start_ns, pages.end_ns))
        start, end = merged(*spans)
        if len(start):
            found.append(RecordedTrack(name, tuple(start.tolist()), tuple(end.tolist())))
    return tuple(found)


def unexpected_moves(recording: Recording, card: int, first_ns: int, last_ns: int) -> PageEvents:
    """Return the moves of pages to a card that no call had prefetched, between two times."""
    pages = recording.pages
    mine = (pages.card == card) & (pages.kind == PageKind.IN) & (pages.cause != PageCause.PREFETCH)
    return pages.rows(mine & (pages.end_ns > first_ns) & (pages.start_ns < last_ns))


def with_prefetches(recording: Recording) -> Recording:
    """Return the recording with work for each prefetch whose pages moved on after its call, in the call's stream.

    A prefetch moves the pages that move for this reason until the process's next prefetch. Its stream is not recorded:
    it is taken to be that of its thread's work before it, or else of that behind it.
    """
    calls, pages, work = recording.calls, recording.pages, recording.work
    asked = np.flatnonzero(calls.kind == CallKind.PREFETCH)
    owners = np.array([recording.threads[thread].process for thread in calls.thread[asked].tolist()], np.int64)
    moved: dict[int, list[int]] = {}  # by call
    for row in np.flatnonzero(pages.cause == PageCause.PREFETCH).tolist():
        before = asked[(owners == pages.process[row]) & (calls.start_ns[asked] <= pages.start_ns[row])]
        if len(before):
            moved.setdefault(int(before[-1]), []).append(row)
    added = []
    for call, rows in moved.items():
        end_ns, card = pages.end_ns[rows].max(), pages.card[rows[0]]
        if end_ns > calls.end_ns[call]:
            row_of = {"kind": WorkKind.COPY, "direction": CopyDirection.UNIFIED, "bytes": pages.bytes[rows].sum()}
            row_of |= {"name": len(recording.names), "card": card, "stream": _stream_near(recording, call)}
            row_of |= {"call": call, "start_ns": pages.start_ns[rows[0]], "end_ns": end_ns}
            added.append(dict.fromkeys(work.__struct_fields__, 0) | row_of)
    if not added:
        return recording
    return msgspec.structs.replace(recording, names=(*recording.names, PREFETCH), work=work.with_rows(added))


def _stream_near(recording: Recording, call: int) -> int:
    """Return the stream of the last work that a call's thread issued before it, or else of the first behind it."""
    calls = recording.calls
    issued = np.flatnonzero((calls.thread == calls.thread[call]) & np.isin(calls.kind, ISSUES) & (calls.stream != NONE))
    near = [*issued[issued < call][-1:], *issued[issued > call][:1]]
    return int(calls.stream[near[0]]) if near else NONE


def first_call(recording: Recording, work: CardWork) -> int:
    """Return the row of the first call that issued some of the ``work`` or prefetches pages; NONE if there is none."""
    asked = np.flatnonzero(recording.calls.kind == CallKind.PREFETCH)
    return min([*work.call[work.call != NONE].tolist(), *asked[:1].tolist()], default=NONE)
