"""Unified memory: pages that the driver moves by itself, and the calls that ask for it.

No call issues a move of pages, and the model does not know when pages move. So a program is replayed without these
moves: prefetches take the host what they took, and kernels take what they took with their page faults.
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
    """Which rows of the work are moves of pages."""
    return np.asarray(work.direction == CopyDirection.UNIFIED)


def first_call(recording: Recording) -> int:
    """The row of the first call that puts work on the card or prefetches pages; NONE where there is none."""
    work = recording.work
    called = work.call[(work.call != NONE) & ~page_moves(work)]
    prefetches = [k for k, name in enumerate(recording.names) if "MemPrefetch" in name]
    asked = np.flatnonzero(np.isin(recording.calls.name, prefetches))
    return int(np.concatenate([called, asked]).min()) if len(called) + len(asked) else NONE
