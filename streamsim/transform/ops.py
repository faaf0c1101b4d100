"""What single ops are: work on an engine, of a stage, that names its memory; and the streams and ends of programs."""

from streamsim.program import Copy, HostWork, Kernel, Op, Schedule, StreamKind

NON_BLOCKING: tuple[StreamKind, ...] = ("non-blocking",)
SHORT_WORK_S = 1e-3  # work of the host up to so long, without a name, is what the front end does for a call
Work = Copy | Kernel
COPIES_IN, KERNELS, COPIES_BACK = range(3)  # the stages of a pipeline, in their order


def is_work(op: Op) -> bool:
    """Return True if an op runs on an engine."""
    return isinstance(op, Work)


def is_load(op: Op) -> bool:
    """Return True if an op copies to the card."""
    return isinstance(op, Copy) and op.direction == "h2d"


def working_streams(schedule: Schedule) -> set[int]:
    """Return the streams that have copies or kernels."""
    return {op.stream for op in schedule.ops if isinstance(op, Copy | Kernel)}


def last_work(schedule: Schedule) -> int:
    """Return the index of the last copy or kernel; -1 for none."""
    return max((i for i, op in enumerate(schedule.ops) if is_work(op)), default=-1)


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
