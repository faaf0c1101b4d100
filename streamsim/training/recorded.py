"""Training loops read from schedules: the batch, its copy and its step, as a recording of some steps shows them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum
from statistics import median
from typing import Literal, NamedTuple

from streamsim import program
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.rules import S_PER_TICK
from streamsim.transform import COPIES_BACK, is_of_a_call, stage_of, steps_of


class _Timed(NamedTuple):
    """An op, the host's seconds in its call, and the card's seconds."""

    op: program.Op
    host_s: float
    card_s: float


def loop_of(schedule: program.Schedule, device: Device, batch: int = 1) -> program.Loop:
    """Return the training loop in the steps of ``schedule``, with batches of ``batch`` samples.

    Each number is the median over the steps. The host's work for calls is ``issue_s``. Its other work, such as waiting
    for the data loader, is ``load_s`` without workers. Pageable memory and blocking copies are those of most steps. A
    batch in pinned memory counts as pinned before the loop. Raises InputError if no step is repeated, or none has a
    copy to the card and a kernel.
    """
    steps = _timed_steps(schedule, device)
    # the first step has cold caches, and the last step lacks the work for a next one
    usual = [
        step
        for step in steps[1:-1] or steps
        if _copies_in(step) and any(isinstance(one.op, program.Kernel) for one in step)
    ]
    if not usual:
        raise InputError(
            "ops: no step has a copy to the card and a kernel: a training loop copies a batch, then runs it"
        )
    is_pinned = not _mostly(_is_pageable(step, schedule.pageable_names) for step in usual)
    return program.Loop(
        batch=batch,
        batch_bytes=max(1, round(median(sum(op.bytes for op in _copies_in(step)) for step in usual))),
        step_s=max(
            1e-9, median(fsum(one.card_s for one in step if isinstance(one.op, program.Kernel)) for step in usual)
        ),
        issue_s=median(map(_issue_s, usual)),
        load_s=median(map(_load_s, usual)),
        is_pinned=is_pinned,
        comes_pinned=is_pinned,
        has_own_pace=True,
        non_blocking=not _mostly(map(_holds_the_host, usual)),
        reads_loss=_mostly(map(_reads_back, usual)),
        issue=_issue_order(usual),
    )


def _timed_steps(schedule: program.Schedule, device: Device) -> list[list[_Timed]]:
    timeline = simulate_one_of_many(schedule, device)
    host = [(end - start) * S_PER_TICK for start, end in zip(timeline.issued, timeline.returned, strict=True)]
    card = [(end - start) * S_PER_TICK for start, end in zip(timeline.start, timeline.end, strict=True)]
    return [[_Timed(schedule.ops[i], host[i], card[i]) for i in step] for step in steps_of(schedule)]


def _copies_in(step: Sequence[_Timed]) -> list[program.Copy]:
    return [one.op for one in step if isinstance(one.op, program.Copy) and one.op.direction == "h2d"]


def _mostly(found: Iterable[bool]) -> bool:
    return median(map(int, found)) > 0.5


def _issue_s(step: Sequence[_Timed]) -> float:
    """Return the host's seconds in the calls of a step, without its copies and waits."""
    others = program.Copy | program.Synchronize | program.WaitThread
    return fsum(one.host_s for one in step if not isinstance(one.op, others) and not _is_own_work(one.op))


def _load_s(step: Sequence[_Timed]) -> float:
    return fsum(one.host_s for one in step if _is_own_work(one.op))


def _is_own_work(op: program.Op) -> bool:
    return isinstance(op, program.HostWork) and not is_of_a_call(op)


def _is_pageable(step: Sequence[_Timed], names: frozenset[str]) -> bool:
    return _batch_copy(step).uses_host(names)


def _batch_copy(step: Sequence[_Timed]) -> program.Copy:
    """Return the largest copy to the card."""
    return max(_copies_in(step), key=lambda op: op.bytes)


def _holds_the_host(step: Sequence[_Timed]) -> bool:
    """Return True if the host waits for the batch's copy before it makes another call."""
    copy, calls = _batch_copy(step), [one.op for one in step if not isinstance(one.op, program.HostWork)]
    return copy.blocking or any(op is copy and _waits_for(after, op) for op, after in pairwise(calls))


def _waits_for(op: program.Op, copy: program.Copy) -> bool:
    return isinstance(op, program.Synchronize) and op.event is None and op.stream in (None, copy.stream)


def _reads_back(step: Sequence[_Timed]) -> bool:
    """Return True if the host waits for the result of a kernel."""
    ops = [one.op for one in step]
    begun = next(i for i, op in enumerate(ops) if isinstance(op, program.Kernel))
    blocking = any(isinstance(op, program.Copy) and op.direction == "d2h" and op.blocking for op in ops)
    return blocking or any(isinstance(op, program.Synchronize) for op in ops[begun:])


def _issue_order(steps: Sequence[Sequence[_Timed]]) -> Literal["in turn", "copy first", "step first"]:
    """Return the issue order of the copies and steps.

    A prefetcher copies in its own stream, issued behind the step before or ahead of it. If it is behind, the copy at
    the beginning of a step is that of the step's own batch, and the step's kernels wait for it.
    """
    kernels, copies = (
        {op.stream for step in steps for op, *_ in step if isinstance(op, kind) and stage_of(op) != COPIES_BACK}
        for kind in (program.Kernel, program.Copy)
    )
    if kernels & copies:
        return "in turn"
    return "step first" if _mostly(map(_waits_for_own_copy, steps)) else "copy first"


def _waits_for_own_copy(step: Sequence[_Timed]) -> bool:
    """Return True if the first kernel waits for an event that was recorded earlier in the same step."""
    ops = [one.op for one in step]
    begun = next(i for i, op in enumerate(ops) if isinstance(op, program.Kernel))
    recorded = {op.event for op in ops[:begun] if isinstance(op, program.RecordEvent)}
    return any(isinstance(op, program.WaitEvent) and op.event in recorded for op in ops[:begun])
