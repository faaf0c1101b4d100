"""Workers that load the data of a program's steps: threads of the host that load in turn."""

import re
from itertools import chain
from math import ceil

from msgspec.structs import replace

from streamsim.compiled import simulate_one_of_many
from streamsim.errors import InputError
from streamsim.program import MOST_WORKERS, HostWork, Op, Schedule, WaitThread
from streamsim.transform.ops import is_load, is_of_a_call, is_work
from streamsim.transform.scenario import Case, LoopSource
from streamsim.transform.steps import own_work_s, steps_of

CALL = re.compile(r"(?:cuda|cu|hip)[A-Z]")  # how the name of a call of CUDA or HIP begins


def _loads_of(schedule: Schedule) -> list[list[int]]:
    """Return for each step the ops in which the host loads its data.

    These are the host's own work, except calls, on the thread of the step's first copy to the card, behind all work of
    the step before. Raises InputError as :func:`steps_of`, and if fewer than half of the steps have such work.
    """
    steps_of(schedule)
    loads, between = list[list[int]](), list[int]()
    has_worked = True
    for i, op in enumerate(schedule.ops):
        if is_load(op) and has_worked:
            loads.append([k for k in between if schedule.ops[k].thread == op.thread])
        if is_work(op):
            between, has_worked = [], not is_load(op)
        elif isinstance(op, HostWork) and op.duration_s and not is_of_a_call(op) and not CALL.match(op.name):
            between.append(i)
    if 2 * sum(map(bool, loads)) < len(loads):
        raise InputError("the host does no work of its own before the first copy of a step, such as loading its data")
    return loads


def with_workers(schedule: Schedule, count: int) -> Schedule:
    """Return the schedule in which ``count`` other threads load the data of the steps in turn.

    Right if loading needs no result of a step. Raises InputError as :func:`steps_of`, and if the host loads nothing.
    """
    ops: list[tuple[Op, ...]] = [(op,) for op in schedule.ops]
    first = 1 + max(op.thread for op in schedule.ops)
    for step, load in enumerate(_loads_of(schedule)):
        worker = first + step % count
        for i in load:
            ops[i] = (replace(schedule.ops[i], thread=worker),)
        if load:
            ops[load[-1]] += (WaitThread(worker, schedule.ops[load[-1]].thread),)
    return replace(schedule, ops=tuple(chain.from_iterable(ops)))


def enough_workers(case: Case) -> int:
    """Return the fewest workers with which a program does not wait for loading; of a loop at least those that it has.

    Raises InputError as :func:`with_workers` for a program that is not of a loop.
    """
    source, schedule = case.source, case.schedule
    if isinstance(source, LoopSource):
        now, load_s, steps = source.loop.workers, source.loop.load_s, 1
        case = source.with_fields(load_s=0.0, workers=source.loop.period_workers).case()
    else:
        loads = _loads_of(schedule)
        places = set(chain.from_iterable(loads))
        now, steps = 0, len(loads)
        load_s = own_work_s(schedule.ops[i] for i in places) / sum(map(bool, loads))
        case = case.issued(replace(schedule, ops=tuple(op for i, op in enumerate(schedule.ops) if i not in places)))
    step_s = case.seconds_of(simulate_one_of_many(*case.scenario)) / steps
    return max(now, min(MOST_WORKERS, ceil(load_s / max(step_s, 1e-9) - 1e-9)))
