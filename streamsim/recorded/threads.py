"""The host's side of a recording, call by call: what its threads did between calls, and whom they waited for."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamsim.recorded.recording import NONE, AnnotationKind, CallKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamsim.recorded.recording import Recording

MOST_RECENT = 16  # threads that have called last, among which the one that was waited for is looked for
NAMED_NS = 10_000  # calls that do nothing on a card are told apart from other work of the host from this length on


class CallTimes(NamedTuple):
    """Of each call, in the order of their starts; nanoseconds, shape (calls,).

    ``before_ns``: what its thread did since its call before (of the first one, since the program began) or, where it
    waited for another thread (``waited_for``: a thread, or NONE), since that one's last call. ``own_ns``: the call
    itself, but for what lies in a call around it. ``operations``: how many recorded operations began in that gap.
    """

    before_ns: NDArray[np.int64]
    own_ns: NDArray[np.int64]
    waited_for: NDArray[np.int64]
    operations: NDArray[np.int64]


def call_times(recording: Recording, first_ns: int) -> CallTimes:
    """What each call and the gap before it took, of a program that began at ``first_ns``.

    A thread has waited for another where that one called something while it called nothing, and nothing more until it
    went on: PyTorch's backward pass is issued from a thread of its own, while the one that asked for it stands still.
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
    """How many operations of a thread that the profiler recorded began in each of these spans."""
    table = recording.annotations
    begins = np.sort(table.start_ns[(table.thread == thread) & (table.kind == AnnotationKind.OP)])
    return np.searchsorted(begins, end_ns) - np.searchsorted(begins, start_ns)


def _find_waits(calls: Any, cursor: NDArray[np.int64], waited_for: NDArray[np.int64]) -> None:
    """Where threads waited for each other; ``cursor`` moves on to the end of what they waited for."""
    latest: dict[int, int] = {}  # by thread its last call so far, the latest at the end
    threads, starts, ends = calls.thread.tolist(), calls.start_ns.tolist(), calls.end_ns.tolist()
    following = _next_of_thread(calls.thread)
    # Few have a call at all that began since their own thread was busy: none can have one if the call before has not.
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
    """By how much the first copy or launch was slower than others of its name, in nanoseconds, and which call it is.

    (0, NONE) unless it took ten times as long as these do at the median: what a profiler does when its recording begins
    is not marked as its own.
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
