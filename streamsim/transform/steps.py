"""A program whose steps are alike: its steps, and the workload or the training loop that makes them.

Of a workload each step is a chunk. What the steps copy in, run and copy back makes its arrays and kernels; what only
the first one copies in, or the last one back, is copied once. The program's own work on the host comes before a chunk,
wherever in its step it is. What a front end does for its calls is not in it, nor are waits but those for copies.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise, zip_longest
from math import fsum
from statistics import median, mode
from typing import Any

from msgspec.structs import replace

from streamsim import program
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.errors import SHORTEST_KERNEL_S, InputError, shown
from streamsim.races import unnamed_memory
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_bytes
from streamsim.timeline import Timeline
from streamsim.transform.dependences import dependences_of, is_racy
from streamsim.transform.work import (
    COPIES_BACK,
    CardOp,
    LoopSource,
    Work,
    is_load,
    is_of_a_call,
    last_work,
    stage_of,
)

Tables = frozenset[program.Region]  # ranges that every chunk is known to read whole
NO_TABLES = Tables()

# Steps


def steps_of(schedule: program.Schedule) -> list[range]:
    """Return the places of the ops of each step: copies to the card, kernels, copies back, and the host's in between.

    What the host does between two steps belongs to the later one, except up to its last wait or event; waits for
    threads that make no calls, such as workers that load data, do not count. What comes before the first copy or
    kernel, or after the last, is in no step. Raises InputError unless there are two or more steps, begun by one thread
    that others wait for, and are waited for by, in each of them, as in a backward pass of PyTorch.
    """
    calling = {op.thread for op in schedule.ops if not isinstance(op, program.HostWork)}
    starts, behind = list[int](), 0  # behind the last op on the card, or wait or event
    has_worked = True  # whether the step has a kernel or a copy back
    for i, op in enumerate(schedule.ops[: last_work(schedule) + 1]):
        if isinstance(op, CardOp):
            if not starts or (is_load(op) and has_worked):
                starts.append(behind if starts else i)
                has_worked = False
            has_worked = has_worked or not is_load(op)
            behind = i + 1
        elif op.other in calling if isinstance(op, program.WaitThread) else not isinstance(op, program.HostWork):
            behind = i + 1
    if len(starts) < 2:
        raise InputError("no step is repeated: no copy to the card is issued behind a kernel or a copy back")
    steps = [range(*ends) for ends in pairwise([*starts, last_work(schedule) + 1])]
    for k, step in enumerate(steps, 1):
        alone = _alone(schedule.ops[step.start : step.stop], schedule.ops[starts[0]].thread, k == len(steps))
        if alone:
            raise InputError(f"ops: issued by several host threads: in step {k} {alone}")
    return steps


def _alone(step: Sequence[program.Op], main: int, is_last: bool) -> str:
    """Return which thread's calls may be of two steps; "" for none. What a thread does on its own is free.

    Behind the last step nobody need wait.
    """
    calling = set[int]()  # threads that the main one lets call, and has not waited for since
    for op in step:
        if isinstance(op, program.WaitThread) and op.thread == main:
            calling.discard(op.other)
        elif isinstance(op, program.WaitThread) and op.other == main:
            calling.add(op.thread)
        elif not isinstance(op, program.HostWork) and op.thread not in {main, *calling}:
            return f"thread {op.thread} waits for nobody"
    return f"nobody waits for thread {min(calling)}" if calling and not is_last else ""


@program.remembered
def is_by_steps(schedule: program.Schedule, tables: Tables = NO_TABLES) -> bool:
    """Return True if only the steps of a program show its chunks, not its data. Raises InputError if neither does."""
    racy = is_racy(schedule)
    if racy or unnamed_memory(schedule):
        try:
            steps_of(schedule)
        except InputError:
            if racy or any(op.thread for op in schedule.ops):
                raise
        else:
            return True
    if not dependences_of(schedule, tables).members:
        raise InputError("ops: there is no copy and no kernel to cut")
    return False


def chunk_count(schedule: program.Schedule, tables: Tables = NO_TABLES) -> int:
    """Return the number of chunks of a program. Raises InputError if the program does not show it."""
    by_steps = is_by_steps(schedule, tables)
    return len(steps_of(schedule) if by_steps else dependences_of(schedule, tables).members)


def own_work_s(ops: Iterable[program.Op]) -> float:
    """Return the seconds of the program's own host work among these ops, such as loading a batch."""
    return fsum(op.duration_s for op in ops if isinstance(op, program.HostWork) and not is_of_a_call(op))


def _holding(ops: Iterable[program.Op]) -> list[program.Copy]:
    """Return the copies that hold the host until they are done: by themselves, or by the wait that is its next call."""
    calls = [op for op in ops if not isinstance(op, program.HostWork)]
    return [
        op
        for op, after in pairwise((*calls, program.Synchronize()))
        if isinstance(op, program.Copy) and (op.blocking or _waits_for(after, op))
    ]


def _waits_for(op: program.Op, copy: program.Copy) -> bool:
    return isinstance(op, program.Synchronize) and op.event is None and op.stream in (None, copy.stream)


def is_recorded(schedule: program.Schedule) -> bool:
    """Return True if a schedule says what a host took: between its calls, or for them."""
    return any(isinstance(op, program.HostWork | program.WaitThread) or op.call_s is not None for op in schedule.ops)


# As a workload


def has_more(schedule: program.Schedule) -> bool:
    """Return True if the schedule has something of the host's that a pipeline of its steps has not."""
    of_host = (op for op in schedule.ops[: last_work(schedule)] if isinstance(op, program.HostOp))
    return any(not isinstance(op, program.HostWork) or is_of_a_call(op) for op in of_host)


def repeated_step(schedule: program.Schedule) -> tuple[program.Workload, program.Config]:
    """Read a schedule as the same step again and again: a chunk each, issued as the schedule issues them.

    Steps are those of :func:`steps_of`. They are alike when their copies have the same bytes (to 16) and their kernels
    the same names, first copies in, then kernels, then copies back, each in one stream, and over several streams in
    turn. Of a program that is issued stage by stage the data, or the streams, say the chunks. Raises InputError saying
    why the schedule is not that.
    """
    ops, needs = schedule.ops, dependences_of(schedule)
    if any(isinstance(op, program.WaitEvent) for op in ops):
        raise InputError("ops: streams wait for events: what its steps need of each other is not that of a pipeline")
    if any(op.thread for op in ops):
        raise InputError("ops: issued by several host threads: a pipeline has one")
    stages = [stage_of(op) for op in ops if isinstance(op, CardOp)]
    by_stage = stages == sorted(stages) and len(set(stages)) > 1 and len(needs.members) > 1 and not needs.is_racy
    places = needs.members if by_stage else steps_of(schedule)
    steps = [[op for i in some if isinstance(op := ops[i], CardOp)] for some in places]
    if by_stage:  # the host's own work is shared out over the chunks
        once = [op for i in sorted(needs.common) if isinstance(op := ops[i], CardOp)]
        host_work_s = own_work_s(ops[: last_work(schedule)]) / len(steps)
    else:
        once = _take_once(steps)
        host_work_s = _host_work_s([own_work_s(ops[i] for i in step) for step in places])
    _check_alike(steps)
    workload = replace(_workload(steps, once), name=schedule.name, host_work_s=host_work_s)
    return workload, _config(schedule, steps, by_stage)


def _host_work_s(of_steps_s: Sequence[float]) -> float:
    """Seconds of the host's own work for a step, the mean over all of them.

    What it does before the first one may be more than that, and a recording that begins with its first call does not
    say it: that step has at least what is usual for those that have any.
    """
    first, *others = of_steps_s
    usual = median([work_s for work_s in others if work_s] or [first])
    return fsum((max(first, usual), *others)) / len(of_steps_s)


def _take_once(steps: list[list[CardOp]]) -> list[CardOp]:
    """Take out of the first step what it copies in, and out of the last what it copies back, beyond the others."""
    if len(steps) < 3:
        return []
    first, usual, last = steps[0], len(steps[1]), steps[-1]
    more = max(0, len(first) - usual)
    before = first[:more] if all(map(is_load, first[: more + 1])) else []
    after = last[usual:] if all(stage_of(op) == COPIES_BACK for op in last[usual:]) else []
    steps[0], steps[-1] = first[len(before) :], last[: len(last) - len(after)]
    return before + after


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


def _workload(steps: Sequence[Sequence[CardOp]], once: Sequence[CardOp]) -> program.Workload:
    """What all steps do; arrays have at least 16 bytes a step, so that each can be cut at its steps."""

    def sizes(ops: Iterable[CardOp], direction: program.Direction) -> tuple[int, ...]:
        return tuple(op.bytes for op in ops if isinstance(op, program.Copy) and op.direction == direction)

    columns, least = list(zip(*steps, strict=True)), program.ALIGN_BYTES * len(steps)
    launches = [[op for op in column if isinstance(op, program.Kernel)] for column in columns]
    return program.Workload(
        inputs=tuple(max(least, sum(some)) for column in columns if (some := sizes(column, "h2d"))),
        outputs=tuple(max(least, sum(some)) for column in columns if (some := sizes(column, "d2h"))),
        kernels=tuple(_kernels(list(filter(None, launches)))),
        h2d_once=sizes(once, "h2d"),
        d2h_once=sizes(once, "d2h"),
    )


def _kernels(columns: Sequence[Sequence[program.Kernel]]) -> Iterator[program.WorkloadKernel]:
    """Launches of one name, one behind another, are launches of one kernel, of which a step's time is known as well."""
    for name, alike in groupby(columns, key=lambda column: column[0].name):
        launches = list(alike)
        first, steps = launches[0][0], len(launches[0])
        known = [op.duration_s for column in launches for op in column if op.duration_s is not None]
        points, took_s = tuple[program.Point, ...](), None
        if len(known) == steps * len(launches):
            took_s = max(SHORTEST_KERNEL_S, fsum(known))
            points = (program.Point(1 / steps, max(SHORTEST_KERNEL_S, took_s / steps)),)
        # the fill is that of a step's launch, and so of as many as there are steps
        yield program.WorkloadKernel(name, took_s, first.parameter, first.fill, points=points, launches=len(launches))


def _config(schedule: program.Schedule, steps: Sequence[Sequence[CardOp]], by_stage: bool) -> program.Config:
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
    is_pageable = any(isinstance(op, program.Copy) and op.uses_host(names) for step in steps for op in step)
    memory: program.HostMemory = "pageable" if is_pageable else "pinned"
    held = _holding(schedule.ops)
    if not held or len(held) < sum(isinstance(op, program.Copy) for op in schedule.ops):
        if by_stage:
            return program.Config("breadth-first", len(steps), len(used), None, memory, schedule.launch)
        return program.Config("depth-first", len(steps), len(used), len(used), memory, schedule.launch)
    if len(used) > 1 or by_stage:
        raise InputError("every copy holds the host, so that streams overlap nothing; change it with --async first")
    return program.Config("serial", len(steps), 1, None, memory)


# As a training loop

FASTER = 0.9  # a part shortened to this share shows whether the loop waits for it
BINDS = 0.25  # the loop waits for a part if it gains at least this share of the time that the part gains
FILLS = 0.9  # or if the part takes this share of the loop's time


def loop_of(schedule: program.Schedule, device: Device, batch: int = 1) -> program.Loop:
    """Return the training loop in the steps of ``schedule``, with batches of ``batch`` samples.

    Each number is the median over the steps. The host's work for calls is ``issue_s``. Its other work, such as waiting
    for the data loader, is ``load_s`` without workers. Pageable memory and blocking copies are those of most steps. A
    batch in pinned memory counts as pinned before the loop. Raises InputError if no step is repeated, or none has a
    copy to the card and a kernel.
    """
    timeline, steps = simulate_one_of_many(schedule, device), steps_of(schedule)
    # the first step has cold caches, and the last step lacks the work for a next one
    loops = list(filter(None, (_loop_of_step(timeline, step) for step in steps[1:-1] or steps)))
    if not loops:
        raise InputError(
            "ops: no step has a copy to the card and a kernel: a training loop copies a batch, then runs it"
        )
    usual: dict[str, Any] = {
        name: median(getattr(loop, name) for loop in loops) for name in ("step_s", "issue_s", "load_s")
    }
    for name in ("is_pinned", "comes_pinned", "non_blocking", "reads_loss", "issue"):
        usual[name] = mode(getattr(loop, name) for loop in loops)
    n_bytes = round(median(loop.batch_bytes for loop in loops))
    return replace(loops[0], batch=batch, batch_bytes=n_bytes, has_own_pace=True, **usual)


def _loop_of_step(timeline: Timeline, step: range) -> program.Loop | None:
    """Return the loop that a step shows; None without a copy to the card, or a kernel."""
    schedule = timeline.schedule
    ops = schedule.ops[step.start : step.stop]
    loads = [op for op in ops if isinstance(op, program.Copy) and op.direction == "h2d"]
    kernels = [i for i in step if isinstance(schedule.ops[i], program.Kernel)]
    if not kernels or not loads:
        return None
    copy, no_calls = max(loads, key=lambda op: op.bytes), program.HostOp | program.Copy
    calls = [i for i in step if is_of_a_call(op := schedule.ops[i]) or not isinstance(op, no_calls)]
    first, behind = schedule.ops[step.start : kernels[0]], schedule.ops[kernels[0] : step.stop]
    recorded = {op.event for op in first if isinstance(op, program.RecordEvent)}
    waits_for_own_copy = any(isinstance(op, program.WaitEvent) and op.event in recorded for op in first)
    is_in_turn = any(schedule.ops[i].stream == op.stream for i in kernels for op in loads)
    is_pinned = not copy.uses_host(schedule.pageable_names)
    return program.Loop(
        batch=1,
        batch_bytes=sum(op.bytes for op in loads),
        step_s=max(1e-9, sum(timeline.end[i] - timeline.start[i] for i in kernels) / TICKS_PER_S),
        issue_s=sum(timeline.returned[i] - timeline.issued[i] for i in calls) / TICKS_PER_S,
        load_s=own_work_s(ops),
        is_pinned=is_pinned,
        comes_pinned=is_pinned,
        non_blocking=not any(op is copy for op in _holding(ops)),
        reads_loss=any(isinstance(op, program.Synchronize) or getattr(op, "blocking", False) for op in behind),
        # A prefetcher copies in its own stream. Is it issued behind the step before, a step waits for its own copy.
        issue="in turn" if is_in_turn else "step first" if waits_for_own_copy else "copy first",
    )


def waits_for(work: Work) -> tuple[str, ...]:
    """Return the parts that a training loop waits for.

    If such a part takes less time, the loop gains at least a quarter of that. Or the part fills the loop's time, beside
    another part that does. There are several if parts take turns.
    """
    assert isinstance(work.source, LoopSource)
    loop, staging_s = work.source.loop, work.source.staging_s
    link, steps, seconds = work.device.h2d, 2 * loop.warm_steps + 1, _seconds_of(work)
    rate = link.bandwidth_bytes_per_s if loop.is_pinned else link.pageable_bandwidth_bytes_per_s
    faster_step = replace(loop, step_s=loop.step_s * FASTER, issue_s=loop.issue_s * FASTER)
    smaller = replace(loop, batch_bytes=max(1, round(loop.batch_bytes * FASTER)))
    parts = {
        "loading": (loop.load_s / loop.period_workers, replace(loop, load_s=loop.load_s * FASTER), staging_s),
        "the step": (max(loop.step_s, loop.issue_s), faster_step, staging_s),
        "the copy": (loop.batch_bytes / rate, smaller, staging_s),
        "pinning": (staging_s * loop.pins, loop, staging_s * FASTER),
    }
    bound = []
    for part, (part_s, shorter, staging_s) in parts.items():
        faster_s = _seconds_of(work._replace(schedule=shorter.schedule(steps, staging_s)))
        if part_s and (part_s >= FILLS * seconds or seconds - faster_s >= BINDS * (1 - FASTER) * part_s):
            bound.append(part)
    return tuple(bound) or ("calls of the host",)


def _seconds_of(work: Work) -> float:
    return work.seconds_of(simulate_one_of_many(*work[:2]))
