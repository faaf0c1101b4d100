"""The records of whole numbers on which the compiled loop works, and the meaning of special numbers in them.

Every number is an int64, or fits into one. :func:`streamsim.compiled.records.fits` says for which programs this is
enough.
"""

from dataclasses import astuple, fields
from typing import Any

import numpy as np

from streamsim.device import Compute, Device, Host, fields_of
from streamsim.rules import CROWD, MOST_QUEUES, PACES, Arbiter, Caller, Head, Surcharges, new_arbiter
from streamsim.text import TIME

NONE = -1  # no op, no queue
COME = 1 << 30  # added to the number of copies that a kernel waits for, once the card has it
NOT_YET = -1  # used as a tick
ENDED = -1  # used as a number of pending waits
H2D, D2H, COMPUTE = 0, 1, 2  # engines; a single copy engine is the first, and without one the first runs all
ENGINES = 3
QUEUES = MOST_QUEUES  # places for an engine's heads; the last engine in use has more


def _record(*fields: str) -> np.dtype[Any]:
    return np.dtype([(name, "i8") for name in " ".join(fields).split()], align=True)


# The names of a host's and a compute engine's times in a profile, without the unit; in ticks.
TIMES = [field.name.removesuffix(TIME) for table in (Host, Compute) for field in fields_of(table) if field.is_number]
CARD = _record(*TIMES, "linked crowds concurrent copy_connections kernel_connections")
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
        ("resident", "i8"),
        ("drain", "i8"),  # kernel: ticks from the end of its work to its end
        ("number", "i8"),  # kernel of a workload: the number of its name, from 1
        ("holds", "i8"),
        ("idle", "i8", PACES + 1),  # idle share of the card, if 0 to PACES PACES-ths of its threads are held
        ("latency", "i8", 2 * CROWD),  # alone, for each level of crowding; then beside a copy in the other direction
    ],
    align=True,
)
OP = np.dtype(
    [
        ("tick", "i8"),  # when it is ready, so far; after its end, its end
        ("comes", "i8"),  # when the card has it; NEVER before its call
        ("after", "i4"),  # the next op of its stream, or NONE
        ("behind", "i4"),  # the next op of its hardware queue, or NONE
        ("also", "i4"),  # the first of the other waits for it, in ``also``, or NONE
        ("shape", "i4"),
        ("pending", "i4"),  # the number of things that it waits for, or ENDED
        ("copies", "i4"),  # kernel: how many of them are copies on another engine, and COME
        ("kind", "u1"),
        ("place", "u1"),  # its hardware queue: engine * QUEUES + queue
        ("awaited", "u1"),  # a thread of the host waits for it
    ],
    align=True,
)
# A segment of a thread's calls, first to last, and the ops that it waits for: waits[waits_from:waits_to]. returned: the
# tick at which its last call returns, if known, else NOT_YET. behind: a segment of another thread that it waits for, or
# NONE. next: the next segment of its thread, or NONE.
SEGMENT = np.dtype(
    [("returned", "i8"), *((name, "i4") for name in ("first", "last", "waits_from", "waits_to", "behind", "next"))],
    align=True,
)
# A thread of the host: its segment, whether it has made the segment's calls, for how many ops it still waits, and when
# its last call returns, so far.
THREAD = _record("segment called awaited returns")
# A wait of an op for another op, apart from the order in its stream. crosses: the other op is in another stream, behind
# an event. next: another wait for the same op, or NONE. While a program is laid out: before: the other op; source: its
# stream; beside: another wait of the waiting op, or NONE.
ALSO = np.dtype([(name, "i4") for name in ("op", "crosses", "next", "before", "source", "beside")], align=True)
ENGINE = _record("heads", *(field.name for field in fields(Arbiter)))  # heads: the number of its queues' heads
HEAD = _record(*(field.name for field in fields(Head)))
# end: the end of its work; warps: its threads while the card is divided by warps, 0 once it has its share.
RUNNING = _record("op shape since given end left warps")
DRAINING = _record("op tick")  # a kernel whose work is done, and when it ends
ARRIVING = _record("op tick")  # a kernel that waits for copies, and when the card has it
# A way to cut and issue a workload. passes_from, passes_to: the passes of its loop; runs_from, runs_to: the runs of its
# chunks; once: the first shape of what is copied once; behind: the distance from a kernel's shape to the shape that it
# has right behind another kernel of its stream in a graph; record, wait: their shapes; launch: ticks before the first
# call. Then the surcharges of calls.
CONFIG = _record(
    "roles graph chunks streams slots passes_from passes_to runs_from runs_to once behind record wait launch",
    *Surcharges._fields,
    "hand_overs",
)
# A pass over the chunks: its bodies; once: it has one round; follows: one of its bodies follows; later: it comes after
# the first pass of a program with kernels; joins: its copies wait for the kernels of all streams. A body: its steps,
# and whether it follows. A step: what it does; its stream (below 0: the chunk's turn); its jobs of a chunk; its event,
# and the distance to the event's chunk; between: only if the streams differ.
PASS = _record("first last once follows later joins")
BODY = _record("first last follows")
STEP = _record("does stream begin end event distance between")
BUFFERS = -1  # used as a distance: the number of buffers
# The state while a program is laid out: the numbers of ops, segments and waits; the chunk for which the host entered a
# stream; whether the next op is the first of its chunk; the host's calls. For each body: the next stream, and the run
# of its chunk.
AT = _record("ops segments waits chunk leads", *(field.name for field in fields(Caller)))
CHUNK = _record("stream run")
EVENT = np.dtype([("op", "i4"), ("stream", "i4")], align=True)
# Equal chunks in a row: the one behind the last, the first shape of their ops, ticks of host work before each, and
# whether they have a piece of any array.
RUN = _record("end row work pieces")


def new_state(device: Device, kernels: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Return scratch for one run at a time with at most ``kernels`` kernels.

    It holds engines, heads, and kernels that run, drain and arrive; and the engines before a run. Kernels without a
    queue are heads, too, at most all of them. Their places are behind those of the last engine in use.
    """
    profiles = device.copy_engines, device.copy_engines, device.compute
    return (
        np.zeros(ENGINES, ENGINE),
        np.zeros(ENGINES * QUEUES + kernels, HEAD),
        np.zeros(device.compute.concurrent_kernels, RUNNING),
        np.empty(kernels, DRAINING),  # memory that is never written costs nothing
        np.empty(kernels, ARRIVING),
        np.array([(0, *astuple(new_arbiter(profile))) for profile in profiles], ENGINE),
    )
