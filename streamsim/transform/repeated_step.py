"""A program whose steps are alike, as a workload and the way in which it is cut: each step is a chunk.

What the steps copy in, run and copy back makes the arrays and kernels of the workload; what only the first one copies
in, or the last one back, is copied once. The program's own work on the host comes before a chunk, wherever in its step
it is. What a front end does for its calls is not in it, nor are waits but those for copies.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise, zip_longest
from math import fsum
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from streamsim import program
from streamsim.errors import SHORTEST_KERNEL_S, InputError, shown
from streamsim.text import format_bytes
from streamsim.transform.chunks import own_work_s, steps_of
from streamsim.transform.dependences import dependences_of
from streamsim.transform.work import COPIES_BACK, COPIES_IN, CardOp, is_of_a_call, last_work, stage_of


class RepeatedStep(NamedTuple):
    """All steps as one ``workload``; ``config``: a chunk each, issued as the schedule issues them."""

    workload: program.Workload
    config: program.Config


def repeated_step(schedule: program.Schedule) -> RepeatedStep:
    """Read a schedule as the same step again and again. Raises InputError saying why it is not that.

    Steps are those of :func:`steps_of`. They are alike when their copies have the same bytes (to 16) and their kernels
    the same names, first copies in, then kernels, then copies back, each in one stream, and over several streams in
    turn. Of a program that is issued stage by stage the data, or the streams, say the chunks.
    """
    if any(isinstance(op, program.WaitEvent) for op in schedule.ops):
        raise InputError("ops: streams wait for events: what its steps need of each other is not that of a pipeline")
    if any(op.thread for op in schedule.ops):
        raise InputError("ops: issued by several host threads: a pipeline has one")
    ops, needs = schedule.ops, dependences_of(schedule)
    stages = [stage_of(op) for op in ops if isinstance(op, CardOp)]
    by_stage = stages == sorted(stages) and len(set(stages)) > 1 and not needs.is_racy
    order: program.Order = "breadth-first" if by_stage and len(needs.members) > 1 else "depth-first"
    places = needs.members if order == "breadth-first" else steps_of(schedule)
    steps = [[op for i in some if isinstance(op := ops[i], CardOp)] for some in places]
    if order == "breadth-first":  # the host's own work is shared out over the chunks
        common = [op for i in sorted(needs.common) if isinstance(op := ops[i], CardOp)]
        before, after = ([op for op in common if stage_of(op) == stage] for stage in (COPIES_IN, COPIES_BACK))
        host_work_s = own_work_s(ops[: last_work(schedule)]) / len(steps)
    else:
        before, after = _take_once(steps)
        host_work_s = _host_work_s([own_work_s(ops[i] for i in step) for step in places])
    _check_alike(steps)
    workload = replace(_workload(schedule.name, steps, before, after), host_work_s=host_work_s)
    return RepeatedStep(workload, _config(schedule, steps, order))


def _host_work_s(of_steps_s: Sequence[float]) -> float:
    """Seconds of the host's own work for a step, the mean over all of them.

    What it does before the first one may be more than that, and a recording that begins with its first call does not
    say it: that step has at least what is usual for those that have any.
    """
    first, *others = of_steps_s
    usual = median([work_s for work_s in others if work_s] or [first])
    return fsum((max(first, usual), *others)) / len(of_steps_s)


def _take_once(steps: list[list[CardOp]]) -> tuple[list[CardOp], list[CardOp]]:
    """Take out of the first step what it copies in, and out of the last what it copies back, beyond the others."""
    first, last = steps[0], steps[-1]
    more = len(first) - len(steps[1]) if len(steps) > 2 else 0
    less = len(last) - len(steps[1]) if len(steps) > 2 else 0
    before = first[:more] if more > 0 and all(stage_of(op) == COPIES_IN for op in first[: more + 1]) else []
    after = last[-less:] if less > 0 and all(stage_of(op) == COPIES_BACK for op in last[-less:]) else []
    steps[0], steps[-1] = first[len(before) :], last[: len(last) - len(after)]
    return before, after


def _check_alike(steps: Sequence[Sequence[CardOp]]) -> None:
    usual = steps[1]
    for k, step in enumerate(steps, 1):
        for op, like in zip_longest(step, usual):
            if op is None or like is None or not _are_alike(op, like):
                raise InputError(f"step {k} has {_words(op)} where step 2 has {_words(like)}: they differ")
    for before, op in pairwise(usual):
        if stage_of(op) < stage_of(before):
            raise InputError(
                f"a step has {_words(op)} behind {_words(before)}: a pipeline copies in, then runs its kernels, then"
                " copies back"
            )


def _are_alike(op: CardOp, other: CardOp) -> bool:
    if isinstance(op, program.Copy) and isinstance(other, program.Copy):
        return op.direction == other.direction and abs(op.bytes - other.bytes) < program.ALIGN_BYTES
    return isinstance(op, program.Kernel) and isinstance(other, program.Kernel) and op.name == other.name


def _words(op: CardOp | None) -> str:
    if op is None:
        return "nothing"
    if isinstance(op, program.Copy):
        return f"a copy of {format_bytes(op.bytes)} {'to' if op.direction == 'h2d' else 'from'} the card"
    return f"the kernel {shown(op.name)}"


def _workload(
    name: str, steps: Sequence[Sequence[CardOp]], before: list[CardOp], after: list[CardOp]
) -> program.Workload:
    """What all steps do; arrays have at least 16 bytes a step, so that each can be cut at its steps."""
    least = program.ALIGN_BYTES * len(steps)
    sizes: dict[str, list[int]] = {"h2d": [], "d2h": []}
    kernels: list[Sequence[program.Kernel]] = []
    for alike in zip(*steps, strict=True):
        copies = [op for op in alike if isinstance(op, program.Copy)]
        if copies:
            sizes[copies[0].direction].append(max(least, sum(op.bytes for op in copies)))
        else:
            kernels.append([op for op in alike if isinstance(op, program.Kernel)])
    return program.Workload(
        inputs=tuple(sizes["h2d"]),
        outputs=tuple(sizes["d2h"]),
        kernels=tuple(_kernels(kernels)),
        name=name,
        h2d_once=tuple(op.bytes for op in before if isinstance(op, program.Copy)),
        d2h_once=tuple(op.bytes for op in after if isinstance(op, program.Copy)),
    )


def _kernels(columns: Sequence[Sequence[program.Kernel]]) -> Iterator[program.WorkloadKernel]:
    """Launches of one name, one behind another, are launches of one kernel, of which a step's time is known as well."""
    for name, alike in groupby(columns, key=lambda column: column[0].name):
        launches = list(alike)
        times = [op.duration_s for column in launches for op in column]
        known = [seconds for seconds in times if seconds is not None]
        steps, points, took_s = len(launches[0]), tuple[program.Point, ...](), None
        fill = launches[0][0].fill  # of a step's launch, and so of as many as there are steps
        if len(known) == len(times):
            took_s = max(SHORTEST_KERNEL_S, fsum(known))
            points = (program.Point(1 / steps, max(SHORTEST_KERNEL_S, took_s / steps)),)
        yield program.WorkloadKernel(
            name, took_s, launches[0][0].parameter, fill, points=points, launches=len(launches)
        )


def _config(schedule: program.Schedule, steps: Sequence[Sequence[CardOp]], order: program.Order) -> program.Config:
    streams: list[int] = []
    for k, step in enumerate(steps, 1):
        own = {op.stream for op in step}
        if len(own) > 1:
            raise InputError(f"step {k} is in {len(own)} streams: a pipeline has each step in one")
        streams += own
    used = list(dict.fromkeys(streams))
    if streams != [used[k % len(used)] for k in range(len(streams))]:
        raise InputError(f"the steps are in {len(used)} streams, but not in turn: there is no loop that says which")
    names = schedule.pageable_names
    copies = [op for step in steps for op in step if isinstance(op, program.Copy)]
    memory: program.HostMemory = "pageable" if any(op.uses_host(names) for op in copies) else "pinned"
    if not _holds_at_copies(schedule):
        buffers = len(used) if order == "depth-first" else None
        return program.Config(order, len(steps), len(used), buffers, memory, schedule.launch)
    if len(used) > 1 or order != "depth-first":
        raise InputError("every copy holds the host, so that streams overlap nothing; change it with --async first")
    return program.Config("serial", len(steps), 1, None, memory)


def _holds_at_copies(schedule: program.Schedule) -> bool:
    """Return True if the host waits for every copy before it makes its next call."""
    calls: list[program.Op] = [op for op in schedule.ops if not isinstance(op, program.HostWork)]
    copies = [(op, after) for op, after in pairwise([*calls, program.Synchronize()]) if isinstance(op, program.Copy)]
    return bool(copies) and all(
        op.blocking
        or (isinstance(after, program.Synchronize) and after.event is None and after.stream in (None, op.stream))
        for op, after in copies
    )


def is_recorded(schedule: program.Schedule) -> bool:
    """Return True if a schedule says what a host took: between its calls, or for them."""
    return any(isinstance(op, program.HostWork | program.WaitThread) or op.call_s is not None for op in schedule.ops)


def has_more(schedule: program.Schedule) -> bool:
    """Return True if the schedule has something of the host's that a pipeline of its steps has not."""
    of_host = (op for op in schedule.ops[: last_work(schedule)] if isinstance(op, program.HostOp))
    return any(not isinstance(op, program.HostWork) or is_of_a_call(op) for op in of_host)
