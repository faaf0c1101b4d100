"""Training loops: the batch, its copy and its step, as a recording of some steps shows them; what a loop waits for."""

from collections.abc import Sequence
from itertools import pairwise
from math import fsum
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from streamsim import program
from streamsim.analysis import lower_bound
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.rules import S_PER_TICK
from streamsim.transform import COPIES_BACK, LoopSource, Work, is_of_a_call, stage_of, steps_of

FASTER = 0.9  # a part shortened to this share shows whether the loop waits for it
BINDS = 0.25  # the loop waits for a part if it gains at least this share of the time that the part gains
FILLS = 0.9  # or if the part takes this share of the loop's time
_Timed = tuple[program.Op, float, float]  # an op, the host's seconds in its call, and the card's seconds
NO_CALLS_OF_THE_STEP = program.Copy | program.Synchronize | program.WaitThread


class _Step(NamedTuple):
    """What a step shows of its loop; of what is so or not, ``median`` says what most steps show."""

    batch_bytes: int
    step_s: float
    issue_s: float
    load_s: float
    is_pageable: bool
    holds_host: bool
    reads_back: bool
    waits_for_own_copy: bool


def loop_of(schedule: program.Schedule, device: Device, batch: int = 1) -> program.Loop:
    """Return the training loop in the steps of ``schedule``, with batches of ``batch`` samples.

    Each number is the median over the steps. The host's work for calls is ``issue_s``. Its other work, such as waiting
    for the data loader, is ``load_s`` without workers. Pageable memory and blocking copies are those of most steps. A
    batch in pinned memory counts as pinned before the loop. Raises InputError if no step is repeated, or none has a
    copy to the card and a kernel.
    """
    timeline = simulate_one_of_many(schedule, device)
    host_s = [(end - start) * S_PER_TICK for start, end in zip(timeline.issued, timeline.returned, strict=True)]
    card_s = [(end - start) * S_PER_TICK for start, end in zip(timeline.start, timeline.end, strict=True)]
    timed = list(zip(schedule.ops, host_s, card_s, strict=True))
    steps = [timed[step.start : step.stop] for step in steps_of(schedule)]
    # the first step has cold caches, and the last step lacks the work for a next one
    read = [(step, _read(step, schedule.pageable_names)) for step in steps[1:-1] or steps]
    usual = [(step, found) for step, found in read if found is not None]
    if not usual:
        raise InputError(
            "ops: no step has a copy to the card and a kernel: a training loop copies a batch, then runs it"
        )
    of = _Step(*map(median, zip(*(found for _, found in usual), strict=True)))
    ops = [op for step, _ in usual for op, *_ in step]
    of_kernels, of_copies = (
        {op.stream for op in ops if isinstance(op, kind) and stage_of(op) != COPIES_BACK}
        for kind in (program.Kernel, program.Copy)
    )
    is_pinned = of.is_pageable <= 0.5
    return program.Loop(
        batch=batch,
        batch_bytes=max(1, round(of.batch_bytes)),
        step_s=max(1e-9, of.step_s),
        issue_s=of.issue_s,
        load_s=of.load_s,
        is_pinned=is_pinned,
        comes_pinned=is_pinned,
        has_own_pace=True,
        non_blocking=of.holds_host <= 0.5,
        reads_loss=of.reads_back > 0.5,
        # A prefetcher copies in its own stream. Is it issued behind the step before, a step waits for its own copy.
        issue="in turn" if of_kernels & of_copies else "step first" if of.waits_for_own_copy > 0.5 else "copy first",
    )


def _read(step: Sequence[_Timed], pageable: frozenset[str]) -> _Step | None:
    """Read a step; None without a copy to the card, or a kernel."""
    ops = [op for op, *_ in step]
    loads = [op for op in ops if isinstance(op, program.Copy) and op.direction == "h2d"]
    begun = next((i for i, op in enumerate(ops) if isinstance(op, program.Kernel)), None)
    if begun is None or not loads:
        return None
    copy = max(loads, key=lambda op: op.bytes)
    calls = (op for op in ops if not isinstance(op, program.HostWork))
    recorded = {op.event for op in ops[:begun] if isinstance(op, program.RecordEvent)}
    waits_at_copy_back = any(isinstance(op, program.Copy) and op.direction == "d2h" and op.blocking for op in ops)
    return _Step(
        batch_bytes=sum(op.bytes for op in loads),
        step_s=fsum(card_s for op, _, card_s in step if isinstance(op, program.Kernel)),
        issue_s=fsum(s for op, s, _ in step if not isinstance(op, NO_CALLS_OF_THE_STEP) and not _is_own_work(op)),
        load_s=fsum(s for op, s, _ in step if _is_own_work(op)),
        is_pageable=copy.uses_host(pageable),
        holds_host=copy.blocking or any(op is copy and _waits_for(after, copy) for op, after in pairwise(calls)),
        reads_back=waits_at_copy_back or any(isinstance(op, program.Synchronize) for op in ops[begun:]),
        waits_for_own_copy=any(isinstance(op, program.WaitEvent) and op.event in recorded for op in ops[:begun]),
    )


def _is_own_work(op: program.Op) -> bool:
    return isinstance(op, program.HostWork) and not is_of_a_call(op)


def _waits_for(op: program.Op, copy: program.Copy) -> bool:
    return isinstance(op, program.Synchronize) and op.event is None and op.stream in (None, copy.stream)


# What a loop waits for


def waits_for(work: Work) -> tuple[str, ...]:
    """Return the parts that a training loop waits for; of a recorded program what sets its lower bound.

    If such a part takes less time, the loop gains at least a quarter of that. Or the part fills the loop's time, beside
    another part that does. There are several if parts take turns.
    """
    if not isinstance(work.source, LoopSource):
        return (lower_bound(*work[:2]).bound_by,)
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
