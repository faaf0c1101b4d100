"""What the compiled loop works on: records of whole numbers, and what numbers in them stand for.

Every number is an int64 or fits in one; :func:`streamsim.compiled.records.fits` says for which programs that is enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsim.rules.arbitration import MOST_QUEUES
from streamsim.rules.crowding import CROWD
from streamsim.rules.side_by_side import PACES

NONE = -1  # no op, no queue
ENDED = -1  # in place of how many things an op waits for
H2D, D2H, COMPUTE = 0, 1, 2  # lanes: with one copy engine the first carries all copies, with none everything
LANES = 3
QUEUES = MOST_QUEUES  # places for heads in a lane


def _record(fields: str) -> np.dtype[Any]:
    return np.dtype([(name, "i8") for name in fields.split()], align=True)


CARD = _record("submit wake linked crowds concurrent copy_connections kernel_connections copy_rule kernel_rule")
SHAPE = np.dtype(
    [
        ("kind", "i8"),
        ("call", "i8"),
        ("duration", "i8"),
        ("units", "i8"),
        ("alone", "i8"),
        ("shared", "i8"),
        ("width", "i8"),
        ("threads", "i8"),
        ("drain", "i8"),  # kernel: ticks at its end, when its work is done
        ("holds", "i8"),
        ("idle", "i8", PACES + 1),  # of the card, with 0 to PACES PACES-ths of its threads held
        ("latency", "i8", 2 * CROWD),  # alone for each level of crowding, then beside a copy in the other direction
    ],
    align=True,
)
OP = np.dtype(
    [
        ("tick", "i8"),  # ready, as far as is known; once ended, the end
        ("comes", "i8"),  # when the card has it
        ("after", "i4"),  # the op that follows in the same stream, or NONE
        ("behind", "i4"),  # the op behind in the same hardware queue, or NONE
        ("also_from", "i4"),  # others that wait for it: also[also_from:also_to]
        ("also_to", "i4"),
        ("shape", "i4"),
        ("pending", "i4"),  # how many things it waits for, or ENDED
        ("copies", "i4"),  # how many of them are copies on another engine, if it is a kernel
        ("kind", "u1"),
        ("lane", "u1"),
        ("queue", "u1"),
        ("awaited", "u1"),  # the host waits for it
    ],
    align=True,
)
SEGMENT = np.dtype([("last", "i4"), ("waits_from", "i4"), ("waits_to", "i4")], align=True)
ALSO = np.dtype([("op", "i4"), ("crosses", "i4")], align=True)  # crosses: into another stream, by an event
LANE = _record("mask turn rule next")  # mask: queues with a head; turn: the one served; next: when to look again
HEAD = _record("tick op")  # of a queue: when its head may start (NEVER: not known, or there is none), and which it is
RUNNING = _record("op shape since given end left")  # end: of its work
DRAINING = _record("op tick")  # a kernel whose work is done, and its end
# runs_from, runs_to: the runs of its chunks; once: where the shapes of what is copied once begin.
CONFIG = _record("breadth chunks streams slots runs_from runs_to once record wait launch more cold event")
RUN = _record("end row")  # chunks that are alike, up to which one, and where the shapes of their ops begin


def new_state(concurrent: int, kernels: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Scratch for one run at a time of so many kernels at most: lanes, heads, kernels that run and that drain."""
    return (
        np.zeros(LANES, LANE),
        np.zeros(LANES * QUEUES, HEAD),
        np.zeros(concurrent, RUNNING),
        np.empty(kernels, DRAINING),  # memory that is not written to costs nothing
    )
