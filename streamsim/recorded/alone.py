"""How long recorded kernels take alone: as recorded where they had the card to themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamsim.recorded.recording import WorkKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamsim.recorded.recording import CardWork


def is_crowded(work: CardWork) -> NDArray[np.bool_]:
    """Which rows of ``work`` ran while another kernel of the same card did, in whole nanoseconds; shape (rows,)."""
    found = np.zeros(len(work), np.bool_)
    for card in np.unique(work.card):
        rows = np.flatnonzero((work.card == card) & (work.kind != WorkKind.COPY) & (work.end_ns > work.start_ns))
        start, end = work.start_ns[rows], work.end_ns[rows]  # in the order of their starts
        ended = np.maximum.accumulate(end)
        found[rows[1:]] |= start[1:] < ended[:-1]
        found[rows[:-1]] |= end[:-1] > start[1:]
    return found


def alone_ns(work: CardWork) -> NDArray[np.int64]:
    """What each row of ``work`` takes with the card to itself, in nanoseconds; shape (rows,).

    As recorded where it had it. A kernel that ran beside others takes what the fastest launch of its name, grid and
    block took, of those that had the card to themselves if there are such: equal launches need not be equal work, so
    that is asked of no others.
    """
    took: NDArray[np.int64] = work.end_ns - work.start_ns
    crowded = is_crowded(work)
    if not crowded.any():
        return took
    alike = _alike(np.column_stack([work.name, work.grid, work.block]))
    most = np.iinfo(np.int64).max
    least = {quiet: np.full(int(alike.max()) + 1, most) for quiet in (True, False)}
    for quiet, rows in ((True, ~crowded), (False, crowded)):
        np.minimum.at(least[quiet], alike[rows], took[rows])
    of_its_kind = np.where(least[True] < most, least[True], least[False])[alike]
    return np.where(crowded, np.minimum(took, of_its_kind), took)


def _alike(rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """A number for each row, the same for equal ones."""
    order = np.lexsort(rows.T)
    differs = (np.diff(rows[order], axis=0) != 0).any(axis=1)
    found = np.empty(len(rows), np.int64)
    found[order] = np.append(0, np.cumsum(differs))
    return found
