"""What single ops are: work on an engine, of a stage, that names its memory; the streams and ends of programs.

Also programs whose ops are in the legacy default stream: the same ops elsewhere, in non-blocking streams.
"""

from msgspec.structs import replace

from streamsim.program import LEGACY_STREAM, Copy, HostWork, Kernel, Op, Schedule, StreamKind

NON_BLOCKING: tuple[StreamKind, ...] = ("non-blocking",)
SHORT_WORK_S = 1e-3  # work of the host up to so long, without a name, is what the front end does for a call
Work = Copy | Kernel
WORK = {Copy, Kernel}
COPIES_IN, KERNELS, COPIES_BACK = range(3)  # the stages of a pipeline, in their order


def is_work(op: Op) -> bool:
    """Return True if an op runs on an engine."""
    return type(op) in WORK  # four times as fast as isinstance; millions are asked


def is_load(op: Op) -> bool:
    """Return True if an op copies to the card."""
    return isinstance(op, Copy) and op.direction == "h2d"


def working_streams(schedule: Schedule) -> set[int]:
    """Return the streams that have copies or kernels."""
    return {op.stream for op in schedule.ops if isinstance(op, Copy | Kernel)}


def last_work(schedule: Schedule) -> int:
    """Return the index of the last copy or kernel; -1 for none."""
    n = len(schedule.ops)
    return next((i for i in range(n - 1, -1, -1) if is_work(schedule.ops[i])), -1)


def names_memory(op: Op) -> bool:
    """Return True if an op says what it touches on the card; one that puts nothing on an engine touches nothing."""
    if isinstance(op, Kernel):
        return bool(op.reads or op.writes)
    return not isinstance(op, Copy) or op.device is not None


def is_of_a_call(op: Op) -> bool:
    """Return True if an op is a front end's work for a call, not the program's own: short, without a name."""
    return isinstance(op, HostWork) and not op.name and op.duration_s <= SHORT_WORK_S


def stage_of(op: Op) -> int:
    """Return the stage of a copy or kernel in a pipeline; of anything else that of kernels."""
    if isinstance(op, Copy):
        return COPIES_IN if op.direction == "h2d" else COPIES_BACK
    return KERNELS


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
