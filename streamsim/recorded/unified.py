"""Unified memory: moves of pages by the driver, page faults, and the calls that prefetch pages.

No call issues a move of pages, and the model does not know when pages move. Replays therefore leave these events out.
Prefetch calls keep their recorded times, and kernels keep theirs with their page faults.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from streamsim.program import RecordedTrack
from streamsim.recorded.intervals import merged
from streamsim.recorded.recording import NONE, CallKind, PageCause, PageKind, Recording

NOT_MODELLED = "the driver moves pages: left out; prefetches and kernels take what they took"
_KINDS = {
    PageKind.IN: "pages in",
    PageKind.OUT: "pages out",
    PageKind.BETWEEN_CARDS: "pages between cards",
    PageKind.CARD_FAULTS: "page faults of the card",
    PageKind.HOST_FAULT: "page faults of the host",
}
_CAUSES = {
    PageCause.UNKNOWN: "",
    PageCause.PREFETCH: ", prefetched",
    PageCause.FAULT: ", after faults",
    PageCause.DRIVER: ", ahead of need",
    PageCause.EVICTION: ", evicted",
    PageCause.ACCESS_COUNTERS: ", by access counters",
}


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


def first_prefetch(recording: Recording) -> int:
    """Return the row of the first call that prefetches pages; NONE if there is none."""
    asked = np.flatnonzero(recording.calls.kind == CallKind.PREFETCH)
    return int(asked[0]) if len(asked) else NONE


def first_call(recording: Recording) -> int:
    """Return the row of the first call that puts work on the card or prefetches pages; NONE if there is none."""
    called = recording.work.call[recording.work.call != NONE]
    rows = [int(called.min())] if len(called) else []
    prefetch = first_prefetch(recording)
    return min([*rows, prefetch] if prefetch != NONE else rows, default=NONE)
