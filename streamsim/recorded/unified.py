"""Unified memory: moves of pages by the driver, and the calls that prefetch pages.

No call issues a move of pages, and the model does not know when pages move. Replays therefore leave these moves out.
Prefetch calls keep their recorded times, and kernels keep theirs with their page faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamsim.recorded.recording import NONE, CopyDirection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamsim.recorded.recording import CardWork, Recording

NOT_MODELLED = "the driver moves pages: left out; prefetches and kernels take what they took"


def page_moves(work: CardWork) -> NDArray[np.bool_]:
    """Return True for each row of ``work`` that is a move of pages."""
    return np.asarray(work.direction == CopyDirection.UNIFIED)


def first_call(recording: Recording) -> int:
    """Return the row of the first call that puts work on the card or prefetches pages; NONE if there is none."""
    work = recording.work
    called = work.call[(work.call != NONE) & ~page_moves(work)]
    prefetches = [k for k, name in enumerate(recording.names) if "MemPrefetch" in name]
    asked = np.flatnonzero(np.isin(recording.calls.name, prefetches))
    return int(np.concatenate([called, asked]).min()) if len(called) + len(asked) else NONE
