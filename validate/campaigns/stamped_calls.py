"""What each call of programs takes longer for being the first of its stream, the first of its function, and so on.

On a card: random programs of a seed are replayed behind the pace, every call stamped, and the least squares over all
calls of what they are longer by are printed, a row of the table of docs/evidence.md each.

    cd validate; python -m campaigns.stamped_calls 20261125
"""

from __future__ import annotations

import random
import sys
from contextlib import closing
from itertools import pairwise
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsim.collector import collector_off
from streamsim.program.schedule import Copy, Kernel, RecordEvent, Schedule, Synchronize, WaitEvent
from streamsim_validate.calibrate.program_calls import mixes
from streamsim_validate.gpu import Bench, Replayer, open_gpu, prepare
from streamsim_validate.records import PACE_CHAIN
from streamsim_validate.suites.random_suite import random_recipes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamsim_validate.gpu.calls import Calls

PROGRAMS, REPEATS = 48, 15
LARGE_BYTES = 1 << 20
FIRST_CALLS = 2  # of a program, which whatever ran before has made dear, are left out
CLIPPED = 0.995  # calls that something else held up count as the longest of the rest
FEATURES = {
    "copy": ("a copy", "the first of a stream in a direction", "behind another kind of call", "of 1 MiB or more"),
    "kernel": ("a kernel", "the first of a stream", "behind another kind of call", "the first of its function"),
    "event": ("an event", "the first record or wait"),
}


class Call(NamedTuple):
    """A call: of which kind, and which of the features of that kind it has, 1 or 0."""

    kind: str
    has: tuple[float, ...]


def programs(seed: int) -> list[Schedule]:
    """The first live ones whose calls wait for nothing."""
    drawn = (recipe.schedule() for recipe in random_recipes(seed, 8 * PROGRAMS))
    return [schedule for schedule in drawn if _waits_for_nothing(schedule)][:PROGRAMS]


def _waits_for_nothing(schedule: Schedule) -> bool:
    held = (isinstance(op, Synchronize) or (isinstance(op, Copy) and op.blocking) for op in schedule.ops[:-1])
    return schedule.launch == "live" and not schedule.pageable_names and not any(held)


def calls_of(schedule: Schedule) -> Iterator[Call]:
    """Its calls but the last, which waits for all of them."""
    seen, before = set[object](), ""
    for op in schedule.ops[:-1]:
        kind = "copy" if isinstance(op, Copy) else "kernel" if isinstance(op, Kernel) else "event"
        turns = float(before not in ("", kind))
        if isinstance(op, Copy):
            known, more = (op.direction, op.stream), float(op.bytes >= LARGE_BYTES)
            yield Call(kind, (1.0, float(known not in seen), turns, more))
            seen.add(known)
        elif isinstance(op, Kernel):
            queue, function = (kind, op.stream), (op.name, op.parameter)
            yield Call(kind, (1.0, float(queue not in seen), turns, float(function not in seen)))
            seen |= {queue, function}
        elif isinstance(op, RecordEvent | WaitEvent):
            yield Call(kind, (1.0, float(type(op) not in seen)))
            seen.add(type(op))
        before = kind


def stamped(calls: Calls) -> list[int]:
    """Nanoseconds that each call takes."""
    stamps = [perf_counter_ns()]
    for call, arguments in calls.issue:
        call(*arguments)
        stamps.append(perf_counter_ns())
    for call, arguments in calls.closing:
        call(*arguments)
    return [after - before for before, after in pairwise(stamps)]


def measure(schedules: list[Schedule]) -> list[np.ndarray]:
    """Of each program the median nanoseconds of each of its calls."""
    pace = next(schedule for chain, schedule in mixes() if chain == PACE_CHAIN)
    with open_gpu(0) as gpu, closing(Bench(gpu)) as bench:
        prepare(bench, [*schedules, pace])
        paced, ready = Replayer(pace, bench), [Replayer(schedule, bench) for schedule in schedules]
        found: list[list[list[int]]] = [[] for _ in schedules]
        order = list(range(len(schedules)))
        with collector_off():
            for _ in range(REPEATS):
                random.shuffle(order)
                for k in order:
                    bench.queue_order.before(schedules[k])
                    paced.issue()
                    found[k].append(stamped(ready[k]._plain))
    return [np.median(runs, axis=0) for runs in found]


def longer_us(calls: list[Call], took_ns: list[float], kind: str) -> np.ndarray:
    """Microseconds of a call of a kind, and what each feature adds."""
    own = [(call.has, ns) for call, ns in zip(calls, took_ns, strict=True) if call.kind == kind]
    has, ns = np.array([has for has, _ in own]), np.array([ns for _, ns in own])
    return np.asarray(np.linalg.lstsq(has, ns.clip(max=np.quantile(ns, CLIPPED)), rcond=None)[0]) * 1e-3


def main() -> None:
    """Measure, and print what was found."""
    schedules = programs(int(sys.argv[1]))
    took = measure(schedules)
    calls = [call for schedule in schedules for call in list(calls_of(schedule))[FIRST_CALLS:]]
    took_ns = [ns for each in took for ns in each[FIRST_CALLS:]]
    for kind, features in FEATURES.items():
        for feature, us in zip(features, longer_us(calls, took_ns, kind), strict=True):
            print(f"{kind:8s} {feature:40s} {us:+.2f} us")


if __name__ == "__main__":
    main()
