"""What the compiled loop works on: records of whole numbers, and what numbers in them stand for.

Every number is an int64 or fits in one; :func:`streamsim.compiled.records.fits` says for which programs that is enough.
"""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from streamsim.device.fields import fields_of
from streamsim.device.profile import Compute, Host
from streamsim.rules.calls import Caller, Surcharges
from streamsim.rules.link import CROWD
from streamsim.rules.queues import MOST_QUEUES, Arbiter, Head, new_arbiter
from streamsim.rules.side_by_side import PACES
from streamsim.text.quantities import TIME

if TYPE_CHECKING:
    from streamsim.device.profile import Device

NONE = -1  # no op, no queue
COME = 1 << 30  # on top of how many copies a kernel waits for: the card has it
NOT_YET = -1  # in place of a tick
ENDED = -1  # in place of how many things an op waits for
H2D, D2H, COMPUTE = 0, 1, 2  # engines: with one copy engine the first carries all copies, with none everything
ENGINES = 3
QUEUES = MOST_QUEUES  # places for heads in front of an engine, and more in front of the last one that is used


def _record(*fields: str) -> np.dtype[Any]:
    return np.dtype([(name, "i8") for name in " ".join(fields).split()], align=True)


# The times of a host and of a compute engine in ticks, by their names in a profile without the unit.
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
        ("drain", "i8"),  # kernel: ticks at its end, when its work is done
        ("number", "i8"),  # kernel of a workload: that of its name, from 1
        ("holds", "i8"),
        ("idle", "i8", PACES + 1),  # of the card, with 0 to PACES PACES-ths of its threads held
        ("latency", "i8", 2 * CROWD),  # alone for each level of crowding, then beside a copy in the other direction
    ],
    align=True,
)
OP = np.dtype(
    [
        ("tick", "i8"),  # ready, as far as is known; once ended, the end
        ("comes", "i8"),  # the card has it; NEVER as long as its call has not been made
        ("after", "i4"),  # the op that follows in the same stream, or NONE
        ("behind", "i4"),  # the op behind in the same hardware queue, or NONE
        ("also", "i4"),  # where in ``also`` another one that waits for it is, or NONE
        ("shape", "i4"),
        ("pending", "i4"),  # how many things it waits for, or ENDED
        ("copies", "i4"),  # how many of them are copies on another engine, if it is a kernel; and COME
        ("kind", "u1"),
        ("place", "u1"),  # its hardware queue's number among all: engine * QUEUES + queue
        ("awaited", "u1"),  # a thread of the host waits for it
    ],
    align=True,
)
# A stretch of a thread's calls, first to last, and the ops that it waits for: waits[waits_from:waits_to]. Once its last
# call has, or is known to have, returned: when; else NOT_YET. behind: that of another thread which it waits for, next:
# the next of its thread, or NONE.
SEGMENT = np.dtype(
    [("returned", "i8"), *((name, "i4") for name in ("first", "last", "waits_from", "waits_to", "behind", "next"))],
    align=True,
)
# A thread of the host: its segment, whether it has made the calls of that, for how many ops it still waits, and when
# its last call returns, as far as is known.
THREAD = _record("segment called awaited returns")
# An op that waits for another one which is not the last of its stream. crosses: that is of another stream, by an event;
# next: where another one that waits for the same op is, or NONE. As a program is written down: before: the other op;
# source: the stream of that; beside: where another op is that the waiting one waits for, or NONE.
ALSO = np.dtype([(name, "i4") for name in ("op", "crosses", "next", "before", "source", "beside")], align=True)
ENGINE = _record("heads", *(field.name for field in fields(Arbiter)))  # heads: of its queues, so many
HEAD = _record(*(field.name for field in fields(Head)))
# end: of its work; warps: threads of it by which it shares what is left of the card, 0 when it has its share.
RUNNING = _record("op shape since given end left warps")
DRAINING = _record("op tick")  # a kernel whose work is done, and its end
ARRIVING = _record("op tick")  # a kernel that waits for copies, and when the card has it
# A way to cut and issue a workload. passes_from, passes_to: the passes of its loop; runs_from, runs_to: the runs of its
# chunks; once: where the shapes of what is copied once begin; behind: so far behind the shape of a kernel stands the
# one that it has right behind another kernel of its stream in a graph; record, wait: the shapes of these; launch:
# ticks before the first call. Then what calls take longer than their shapes say.
CONFIG = _record(
    "roles graph chunks streams slots passes_from passes_to runs_from runs_to once behind record wait launch",
    *Surcharges._fields,
    "hand_overs",
)
# A pass over the chunks, with its bodies; once: of one round; follows: a body is behind; later: behind what the kernels
# or their copies in worked on; joins: its copies wait for the kernels of all streams. A body and its steps, and whether
# it is behind. What a step does, in which stream (below 0: the one whose turn it is); jobs of a chunk; the event and
# the chunk that it is of; whether only where streams differ.
PASS = _record("first last once follows later joins")
BODY = _record("first last follows")
STEP = _record("does stream begin end event distance between")
BUFFERS = -1  # in place of a distance
# What is known as a program is written down: how many ops, segments and waits there are; the chunk for which the host
# has entered a stream; whether the next op leads its chunk; what the host has called. For each body: the stream whose
# turn it is, and the run of its chunk.
AT = _record("ops segments waits chunk leads", *(field.name for field in fields(Caller)))
CHUNK = _record("stream run")
EVENT = np.dtype([("op", "i4"), ("stream", "i4")], align=True)
# Chunks that are alike: up to which one, where the shapes of their ops begin, ticks that the host works before each,
# whether they have a piece of any array.
RUN = _record("end row work pieces")


def new_state(device: Device, kernels: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Scratch for one run at a time of so many kernels at most: engines, heads, kernels that run, drain and arrive.

    And the engines as they are before a run. Kernels that stand in no queue are heads, too: all of them at most, in
    front of the one engine behind whose places no other's are.
    """
    profiles = device.copy_engines, device.copy_engines, device.compute
    return (
        np.zeros(ENGINES, ENGINE),
        np.zeros(ENGINES * QUEUES + kernels, HEAD),
        np.zeros(device.compute.concurrent_kernels, RUNNING),
        np.empty(kernels, DRAINING),  # memory that is not written to costs nothing
        np.empty(kernels, ARRIVING),
        np.array([(0, *astuple(new_arbiter(profile))) for profile in profiles], ENGINE),
    )
