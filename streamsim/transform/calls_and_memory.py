"""Other calls and other memory for the same ops: pinned memory, no waits of the host, workers, graphs of parts.

One value that is read back bars a graph of the whole program, and so does work of the host. What lies between two waits
may be captured all the same, once, and launched each time. The model has no graph within a program: here the first op
of such a part takes the launch, as the profile has it, the calls of the others take nothing, and what a front end does
for each call is gone. Ops are handed over as live ones are, so that a graph's shorter hand-overs come on top.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import ceil
from statistics import median

from msgspec.structs import replace

from streamsim import program
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.transform.steps import own_work_s, steps_of
from streamsim.transform.work import LoopSource, Work, is_load, is_of_a_call, is_work, last_work, working_streams

# Staging a copy of so many bytes flushes a core's own caches. What the host does behind it takes so many times as long
# for so long: 1.6 to 2.2 times a step in four pairs of programs, pageable and pinned, on an H100.
FLUSHING_BYTES, COLD, COLD_S = 1 << 20, 2.0, 160e-6
PASSED_ON_S = 20e-6  # in which the host makes its next call: programs that load other data took 40 us and more
ALLOCATIONS = ("cudaMalloc", "cudaFree", "hipMalloc", "hipFree", "cudaHostAlloc", "hipHostMalloc")
MEMSET = "memset"  # how recordings name one
SLOW_TIMES, SLOW_S, LEAST_CALLS = 10, 20e-6, 3
ONLY_SLOW_S = 100e-6  # where fewer calls of a kind say what is usual


def has_pageable(schedule: program.Schedule) -> bool:
    """Return True if some copy is of pageable memory."""
    names = schedule.pageable_names
    return any(isinstance(op, program.Copy) and op.uses_host(names) for op in schedule.ops)


def has_host_waits(schedule: program.Schedule) -> bool:
    """Return True if the host is held before the last copy or kernel is issued: after that nothing waits for it."""
    return holds_host(schedule.ops[: max(0, last_work(schedule))])


def holds_host(ops: Iterable[program.Op]) -> bool:
    """Return True if one of these calls holds the host until the card is done, if no memory is pageable."""
    return any(isinstance(op, program.Synchronize) or (isinstance(op, program.Copy) and op.blocking) for op in ops)


def pinned(schedule: program.Schedule) -> program.Schedule:
    """Return the schedule with all host memory pinned: no copy is staged, which flushes the host's caches."""
    buffers = tuple(replace(b, memory="pinned") if b.memory == "pageable" else b for b in schedule.buffers)
    return replace(schedule, buffers=buffers, ops=tuple(_with_warm_caches(schedule)))


def _with_warm_caches(schedule: program.Schedule) -> Iterator[program.Op]:
    """The ops; of a recorded program, which says what its calls cost, these and the short work between them in less.

    They are cold behind a copy that was staged. What the staged copies' own calls cost, as far as it is recorded, says
    nothing of calls that stage nothing.
    """
    if not any(isinstance(op, program.Kernel) and op.call_s is not None for op in schedule.ops):
        yield from schedule.ops
        return
    pageable, cold_s = schedule.pageable_names, dict[int, float]()  # by thread for how long it is cold yet
    for op in schedule.ops:
        left_s, seconds = cold_s.get(op.thread, 0.0), op.call_s or 0.0
        cold_s[op.thread] = max(0.0, left_s - seconds)
        if isinstance(op, program.Copy) and op.uses_host(pageable):
            if op.bytes >= FLUSHING_BYTES:
                cold_s[op.thread] = COLD_S
            op = replace(op, call_s=None)
        elif left_s and seconds and (is_of_a_call(op) or not isinstance(op, program.HostWork)):
            warm_s = seconds - min(seconds, left_s) * (1 - 1 / COLD)
            op = replace(op, **{"duration_s" if isinstance(op, program.HostWork) else "call_s": warm_s})
        yield op


def unblocked(schedule: program.Schedule) -> program.Schedule:
    """Return the same ops. No copy holds the host."""
    ops = [replace(op, blocking=False) if isinstance(op, program.Copy) and op.blocking else op for op in schedule.ops]
    return replace(schedule, ops=tuple(ops))


def asynchronous(schedule: program.Schedule) -> program.Schedule:
    """Return the schedule without blocking copies, and without the synchronisations with their streams behind them."""
    ops, latest = list[program.Op](), dict[int, program.Op]()
    for op in unblocked(schedule).ops:
        before = latest.get(op.thread)
        if not (
            isinstance(op, program.Synchronize) and isinstance(before, program.Copy) and op.stream == before.stream
        ):
            ops.append(op)
        if not isinstance(op, program.HostWork):
            latest[op.thread] = op
    return _awaited(replace(schedule, ops=tuple(ops)))


def without_host_waits(schedule: program.Schedule) -> program.Schedule:
    """Return the schedule in which the host waits only behind the last copy and kernel."""
    last = last_work(schedule)
    ops = [op for i, op in enumerate(unblocked(schedule).ops) if i > last or not isinstance(op, program.Synchronize)]
    return _awaited(replace(schedule, ops=tuple(ops)))


def _awaited(schedule: program.Schedule) -> program.Schedule:
    """The schedule with a synchronisation at its end, unless the host waits for all streams there."""
    behind = schedule.ops[last_work(schedule) + 1 :]
    if any(isinstance(op, program.Synchronize) and op.stream is None and op.event is None for op in behind):
        return schedule
    return replace(schedule, ops=(*schedule.ops, program.Synchronize()))


def bounced(schedule: program.Schedule) -> set[int]:
    """Return the copies back, and the copies to the card behind them, that may carry the same bytes.

    They are those of a program in one stream that names no memory: a copy back for which the host waits, then one of as
    many bytes to the card, with no kernel in between, and no time in which the host makes other data. There are none if
    most of what goes to the card did not come back.
    """
    if len(working_streams(schedule)) != 1:
        return set()
    found, loaded, again, pageable = set[int](), 0, 0, schedule.pageable_names
    back, on_its_way = dict[int, int](), dict[int, int]()  # bytes since the last kernel, that the host has, or has not
    has_run = False
    for i, op in enumerate(schedule.ops):
        if isinstance(op, program.Kernel) or (isinstance(op, program.HostWork) and op.duration_s > PASSED_ON_S):
            back, on_its_way, has_run = {}, {}, has_run or isinstance(op, program.Kernel)
        elif isinstance(op, program.Synchronize):
            back, on_its_way = back | on_its_way, {}
        elif isinstance(op, program.Copy) and op.direction == "h2d":
            loaded += op.bytes
            same = next((k for k, n_bytes in back.items() if n_bytes == op.bytes and op.device is None), None)
            if same is not None:
                del back[same]
                found |= {same, i}
                again += op.bytes
        elif isinstance(op, program.Copy) and has_run and op.device is None:
            (back if op.is_done_on_return(pageable) else on_its_way)[i] = op.bytes
    return found if 2 * again >= loaded else set()


def kept_on_card(schedule: program.Schedule) -> tuple[program.Schedule, list[tuple[int, ...]]]:
    """Return the schedule without its ``bounced`` copies; and what each copy and kernel does, or has on the card now.

    Raises InputError if there are no such copies.
    """
    dropped = bounced(schedule)
    if not dropped:
        raise InputError("no bytes that come back are copied to the card again at once")
    does, loads = list[tuple[int, ...]](), tuple[int, ...]()
    for i, op in enumerate(schedule.ops):
        if is_work(op) and i not in dropped:
            does.append((*loads, i))
            loads = ()
        elif is_load(op):
            loads += (i,)
        elif is_work(op):
            does[-1] += (i,)
    does[-1] += loads
    return replace(schedule, ops=tuple(op for i, op in enumerate(schedule.ops) if i not in dropped)), does


def allocates(schedule: program.Schedule) -> bool:
    """Return True if the host allocates or frees memory before the last copy or kernel."""
    return any(map(_is_allocation, schedule.ops[: last_work(schedule)]))


def pooled(schedule: program.Schedule) -> program.Schedule:
    """Return the schedule in which the host neither allocates nor frees memory before the last copy or kernel."""
    last = last_work(schedule)
    return replace(schedule, ops=tuple(op for i, op in enumerate(schedule.ops) if i > last or not _is_allocation(op)))


def _is_allocation(op: program.Op) -> bool:
    return isinstance(op, program.HostWork | program.Synchronize) and op.name.startswith(ALLOCATIONS)


def slow_calls(work: Work) -> dict[int, float]:
    """Return the ops whose calls hold the host far longer than usual, and the usual time of each in seconds.

    Of the copies and launches before the last work that say what they cost, those of ten times the usual time. A wait
    is none. A kernel's first launch may load its module, so that the usual launch is the median of later ones. Where
    at least three calls of a kind say what is usual, slow ones take at least 20 us, else 100 us, and the profile says
    what is usual for the first call in a stream.
    """
    schedule, host = work.schedule, work.device.host
    costs: dict[type[program.Op], list[tuple[int, float]]] = {}
    repeated, launched = dict[type[program.Op], list[float]](), set[str]()
    for i, op in enumerate(schedule.ops[: last_work(schedule) + 1]):
        if (
            op.call_s is not None
            and isinstance(op, program.Copy | program.Kernel)
            and getattr(op, "name", "") != MEMSET
        ):
            costs.setdefault(type(op), []).append((i, op.call_s))
            if not isinstance(op, program.Kernel) or op.name in launched:
                repeated.setdefault(type(op), []).append(op.call_s)
        if isinstance(op, program.Kernel):
            launched.add(op.name)
    found: dict[int, float] = {}
    for kind, own in costs.items():
        again = repeated.get(kind, [])
        is_known = bool(again) and len(own) >= LEAST_CALLS
        said_s = host.first_on_stream_s + (host.copy_s if kind is program.Copy else host.kernel_s + host.first_launch_s)
        usual = median(again) if is_known else min(said_s, median(cost for _, cost in own))
        least = max(SLOW_S if is_known else ONLY_SLOW_S, SLOW_TIMES * usual)
        found |= {i: usual for i, cost in own if cost >= least and cost > SLOW_TIMES * usual}
    return found


def without_slow_calls(work: Work) -> program.Schedule:
    """Return the schedule in which every slow call takes the usual time."""
    usual = slow_calls(work)
    ops = [replace(op, call_s=usual[i]) if i in usual else op for i, op in enumerate(work.schedule.ops)]
    return replace(work.schedule, ops=tuple(ops))


def slow_calls_apart(work: Work) -> program.Schedule:
    """Return the schedule with the extra time of slow calls as host work before them.

    If a call is then made several times, what is done once, such as loading a module, is not repeated.
    """
    usual, ops = slow_calls(work), list[program.Op]()
    for i, op in enumerate(work.schedule.ops):
        if i in usual:
            ops.append(program.HostWork((op.call_s or 0.0) - usual[i], f"first {type(op).__name__.lower()}", op.thread))
            op = replace(op, call_s=usual[i])
        ops.append(op)
    return replace(work.schedule, ops=tuple(ops)) if usual else work.schedule


LEAST_OPS = 3  # copies and kernels: a graph of fewer saves no call
LEAST_TIMES = 2  # that a part comes again: capturing it costs as much as issuing it


def with_step_graphs(schedule: program.Schedule, device: Device) -> program.Schedule:
    """Return the schedule with what comes again between two waits as graphs.

    Raises InputError if nothing comes again, or if another thread has work of its own: which calls it makes beside a
    graph is not known.
    """
    parts = _parts(schedule)
    times = Counter(form for _, form in parts if form)
    works_beside = any(op.thread and isinstance(op, program.HostWork) and not is_of_a_call(op) for op in schedule.ops)
    if works_beside or max(times.values(), default=0) < LEAST_TIMES:
        raise InputError("--step-graphs: nothing that can be captured comes again between two waits of the host")
    found: list[program.Op] = []
    for ops, form in parts:
        found += _captured(ops, device) if form and times[form] >= LEAST_TIMES else ops
    return replace(schedule, ops=tuple(found))


def _parts(schedule: program.Schedule) -> list[tuple[list[program.Op], tuple[str, ...]]]:
    """The ops in parts, one after another, and the form of each that may be captured; () where it may not be."""
    pageable, has_worked = schedule.pageable_names, False
    parts: list[tuple[bool, list[program.Op]]] = []
    for op in schedule.ops:
        can = _can_be_captured(op, pageable)
        if (is_load(op) and has_worked) or not parts or parts[-1][0] != can:
            parts.append((can, []))
            has_worked = False
        parts[-1][1].append(op)
        has_worked = has_worked or (is_work(op) and not is_load(op))
    return [(ops, _form(ops) if can else ()) for can, ops in parts]


def _can_be_captured(op: program.Op, pageable: frozenset[str]) -> bool:
    if isinstance(op, program.Copy):
        return not op.blocking and not op.uses_host(pageable)
    return is_of_a_call(op) or isinstance(
        op, program.Kernel | program.RecordEvent | program.WaitEvent | program.WaitThread
    )


def _form(ops: Sequence[program.Op]) -> tuple[str, ...]:
    """What parts that come again have in common: the kernels with which they begin and end; () for too few ops."""
    names = [op.name for op in ops if isinstance(op, program.Kernel)]
    works = sum(isinstance(op, program.Copy | program.Kernel) for op in ops)
    return (names[0], names[-1]) if names and works >= LEAST_OPS else ()


def _captured(ops: Sequence[program.Op], device: Device) -> list[program.Op]:
    """The ops of a part as one launch."""
    kept = [op for op in ops if not isinstance(op, program.HostWork | program.WaitThread | program.Synchronize)]
    copies = sum(isinstance(op, program.Copy) for op in kept)
    launch_s = device.host.graph_launch_s + copies * device.host.graph_node_s
    return [replace(op, thread=0, call_s=0.0 if k else launch_s) for k, op in enumerate(kept)]


CALL = re.compile(r"(?:cuda|cu|hip)[A-Z]")  # how the name of a call of CUDA or HIP begins


def _loads_of(schedule: program.Schedule) -> list[list[int]]:
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
        elif isinstance(op, program.HostWork) and op.duration_s and not is_of_a_call(op) and not CALL.match(op.name):
            between.append(i)
    if 2 * sum(map(bool, loads)) < len(loads):
        raise InputError("the host does no work of its own before the first copy of a step, such as loading its data")
    return loads


def with_workers(schedule: program.Schedule, count: int) -> program.Schedule:
    """Return the schedule in which ``count`` other threads load the data of the steps in turn.

    Right if loading needs no result of a step. Raises InputError as :func:`steps_of`, and if the host loads nothing.
    """
    ops: list[tuple[program.Op, ...]] = [(op,) for op in schedule.ops]
    first = 1 + max(op.thread for op in schedule.ops)
    for step, load in enumerate(_loads_of(schedule)):
        worker = first + step % count
        for i in load:
            ops[i] = (replace(schedule.ops[i], thread=worker),)
        if load:
            ops[load[-1]] += (program.WaitThread(worker, schedule.ops[load[-1]].thread),)
    return replace(schedule, ops=tuple(chain.from_iterable(ops)))


def enough_workers(work: Work) -> int:
    """Return the fewest workers with which a program does not wait for loading; of a loop at least those that it has.

    Raises InputError as :func:`with_workers` for a program that is not of a loop.
    """
    source, schedule = work.source, work.schedule
    if isinstance(source, LoopSource):
        now, load_s, steps = source.loop.workers, source.loop.load_s, 1
        work = source.with_fields(load_s=0.0, workers=source.loop.period_workers).work()
    else:
        loads = _loads_of(schedule)
        places = set(chain.from_iterable(loads))
        now, steps = 0, len(loads)
        load_s = own_work_s(schedule.ops[i] for i in places) / sum(map(bool, loads))
        work = work.issued(replace(schedule, ops=tuple(op for i, op in enumerate(schedule.ops) if i not in places)))
    step_s = work.seconds_of(simulate_one_of_many(*work[:2])) / steps
    return max(now, min(program.MOST_WORKERS, ceil(load_s / max(step_s, 1e-9) - 1e-9)))
