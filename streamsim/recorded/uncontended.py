"""Uncontended times of recorded kernels: their times with the card to themselves."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.recorded.recording import NONE, CardWork, WorkKind

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


def uncontended_ns(work: CardWork, elsewhere: CardWork | None = None) -> NDArray[np.int64]:
    """Return the nanoseconds that each row of ``work`` takes with the card to itself; shape (rows,).

    A row that had the card to itself keeps its recorded time. A kernel that ran beside others takes the least of its
    own time and that of the fastest equal launch (of the same name, grid and block). Equal launches that had the card
    to themselves count first, then those of ``elsewhere`` (:func:`fastest_uncontended`), then those beside others.
    Launches of equal shape may differ in their work, so the recorded time of a kernel with the card to itself is final.

    A kernel of a graph keeps the card until the next kernel of its stream begins: there is no hand-over between them.
    """
    took: NDArray[np.int64] = work.end_ns - work.start_ns
    crowded = overlaps_kernel(work)
    if crowded.any():
        took = np.where(crowded, np.minimum(took, _fastest_of_its_kind(work, took, crowded, elsewhere)), took)
    return took + _until_next_ns(work)


def _fastest_of_its_kind(
    work: CardWork, took: NDArray[np.int64], crowded: NDArray[np.bool_], elsewhere: CardWork | None
) -> NDArray[np.int64]:
    there = work.rows(np.zeros(len(work), np.bool_)) if elsewhere is None else elsewhere
    alike = _alike(np.concatenate([_kinds(work), _kinds(there)]))
    here, theirs = alike[: len(work)], alike[len(work) :]

    def least(kinds: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.full(int(alike.max()) + 1, _MOST)
        np.minimum.at(found, kinds, times)
        return found

    alone, beside = least(here[~crowded], took[~crowded]), least(here[crowded], took[crowded])
    alone_there = least(theirs, there.end_ns - there.start_ns)
    return np.where(alone < _MOST, alone, np.where(alone_there < _MOST, alone_there, beside))[here]


def fastest_uncontended(window: CardWork, whole: CardWork) -> CardWork | None:
    """Return the fastest launches in ``whole`` with the card to themselves, of kernels that ``window`` lacks such of.

    There is one launch for each card, name, grid and block. It has no call, as its call may lie outside the window.
    None if there is no such launch.
    """
    crowded = overlaps_kernel(window) & (window.kind == WorkKind.KERNEL)
    if not crowded.any():
        return None
    alike = _alike(np.concatenate([_kinds(window), _kinds(whole)]))
    inside, there = alike[: len(window)], alike[len(window) :]
    wanted = np.setdiff1d(inside[crowded], inside[~crowded & (window.kind == WorkKind.KERNEL)])
    rows = np.flatnonzero(np.isin(there, wanted) & (whole.kind == WorkKind.KERNEL) & ~overlaps_kernel(whole))
    fastest = rows[np.argsort((whole.end_ns - whole.start_ns)[rows], kind="stable")]
    found = whole.rows(np.sort(fastest[np.unique(there[fastest], return_index=True)[1]]))
    return msgspec.structs.replace(found, call=np.full(len(found), NONE, np.int64)) if len(found) else None


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


def _kinds(work: CardWork) -> NDArray[np.int32]:
    """Return the card, name, grid and block of each row: equal for equal launches; shape (rows, 8)."""
    return np.column_stack([work.card, work.name, work.grid, work.block])


def _alike(rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return a number for each row; equal rows have the same number."""
    order = np.lexsort(rows.T)
    differs = (np.diff(rows[order], axis=0) != 0).any(axis=1)
    found = np.empty(len(rows), np.int64)
    found[order] = np.append(0, np.cumsum(differs))
    return found
