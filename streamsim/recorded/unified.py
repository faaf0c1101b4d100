"""Unified memory: moves of pages by the driver, page faults, and the calls that prefetch pages.

Moves of pages have no calls, and the model does not know when pages move. Replays therefore leave these events out. A
prefetch that goes on after its call holds its stream as long as it was recorded. Kernels keep their recorded times,
with their page faults.
"""

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.program import RecordedTrack
from streamsim.recorded.recording import (
    ISSUES,
    NONE,
    CallKind,
    CardWork,
    CopyDirection,
    PageCause,
    PageEvents,
    PageKind,
    Recording,
    WorkKind,
)
from streamsim.recorded.times import merged

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
