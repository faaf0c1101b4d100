"""Programs whose ops are in the legacy default stream: the same ops elsewhere, in non-blocking streams."""

from msgspec.structs import replace

from streamsim.program import LEGACY_STREAM, Copy, Kernel, Op, Schedule
from streamsim.transform.ops import NON_BLOCKING, names_memory, working_streams


def has_legacy(schedule: Schedule) -> bool:
    """Return True if the legacy default stream and blocking streams wait for each other."""
    used = working_streams(schedule)
    return LEGACY_STREAM in used and any(s and schedule.streams[s - 1] == "blocking" for s in used)


def orders_unknown(schedule: Schedule) -> bool:
    """Return True if the legacy default stream orders ops of other streams, and some op names no memory."""
    return has_legacy(schedule) and not all(map(names_memory, schedule.ops))


def legacy_apart(schedule: Schedule) -> Schedule:
    """Return the legacy default stream's ops in a stream of their own. An order that they lose is not kept."""
    own = len(schedule.streams) + 1
    ops = [replace(op, stream=own) if op.stream == LEGACY_STREAM else op for op in schedule.ops]
    return replace(schedule, ops=tuple(ops), streams=NON_BLOCKING * own)


def legacy_beside(schedule: Schedule) -> Schedule:
    """Return the legacy default stream's ops in the stream of the latest op before them in another one.

    Where ops do not name their memory, that is the order that they most likely need: a kernel behind its chunk's copy.
    Before all others they go to the stream of the first of those. All streams are non-blocking.
    """
    others = (op.stream for op in schedule.ops if isinstance(op, Copy | Kernel) and op.stream != LEGACY_STREAM)
    latest, ops = next(others, LEGACY_STREAM), list[Op]()
    for op in schedule.ops:
        if op.stream == LEGACY_STREAM:
            op = replace(op, stream=latest)
        elif isinstance(op, Copy | Kernel):
            latest = op.stream
        ops.append(op)
    return replace(schedule, ops=tuple(ops), streams=NON_BLOCKING * len(schedule.streams))


def without_legacy(schedule: Schedule) -> Schedule:
    """Return the schedule with the legacy default stream's ops elsewhere, in non-blocking streams.

    An order that the ops lose is not kept. A schedule without such ops is returned unchanged.
    """
    if LEGACY_STREAM not in working_streams(schedule):
        return schedule
    return legacy_beside(schedule) if orders_unknown(schedule) else legacy_apart(schedule)
