"""The host's threads in a recording: the time of each call, the gap before it, and waits for other threads."""

from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsim.recorded.recording import NONE, AnnotationKind, CallKind, Recording

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
    n = len(calls)
    none, nothing = np.full(n, NONE, np.int64), np.zeros(n, np.int64)
    found = CallTimes(nothing.copy(), nothing.copy(), none, nothing)
    cursor = np.full(n, first_ns, np.int64)  # until when each call's thread was busy before it
    for thread in np.unique(calls.thread):
        rows = np.flatnonzero(calls.thread == thread)
        ended = np.maximum.accumulate(calls.end_ns[rows])
        cursor[rows[1:]] = np.maximum(ended[:-1], first_ns)
        starts = np.maximum(calls.start_ns[rows], cursor[rows])
        found.own_ns[rows] = np.maximum(calls.end_ns[rows] - starts, 0)
        found.operations[rows] = _operations(recording, int(thread), cursor[rows], starts)
    if len(np.unique(calls.thread)) > 1:
        _find_waits(calls, cursor, found.waited_for)
    found.before_ns[:] = np.maximum(calls.start_ns - cursor, 0)
    return found


def _operations(recording: Recording, thread: int, start_ns: NDArray[Any], end_ns: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many recorded operations of a thread began in each span."""
    table = recording.annotations
    begins = np.sort(table.start_ns[(table.thread == thread) & (table.kind == AnnotationKind.OP)])
    return np.searchsorted(begins, end_ns) - np.searchsorted(begins, start_ns)


def _find_waits(calls: Any, cursor: NDArray[np.int64], waited_for: NDArray[np.int64]) -> None:
    """Set ``waited_for`` where threads waited for each other, and move ``cursor`` to the end of the call waited for."""
    latest: dict[int, int] = {}  # by thread: its last call so far, the latest call at the end
    threads, starts, ends = calls.thread.tolist(), calls.start_ns.tolist(), calls.end_ns.tolist()
    following = _next_of_thread(calls.thread)
    # A call can have waited only if the call before it, of any thread, began after its own thread was last busy.
    may_wait = np.append(False, calls.start_ns[:-1] >= cursor[1:]).tolist()
    for i, (thread, start) in enumerate(zip(threads, starts, strict=True)):
        if may_wait[i]:
            since = int(cursor[i])
            recent = islice(reversed(latest.items()), MOST_RECENT)
            others = (k for other, k in recent if other != thread and starts[k] >= since)
            last = max(others, key=ends.__getitem__, default=NONE)
            if last != NONE and ends[last] <= start and (following[last] == NONE or starts[following[last]] >= start):
                waited_for[i], cursor[i] = threads[last], ends[last]
        latest.pop(thread, None)
        latest[thread] = i


def _next_of_thread(thread: NDArray[Any]) -> list[int]:
    found = np.full(len(thread), NONE)
    order = np.argsort(thread, kind="stable")
    same = np.diff(thread[order]) == 0
    found[order[:-1][same]] = order[1:][same]
    rows: list[int] = found.tolist()
    return rows


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
