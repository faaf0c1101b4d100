"""CUDA graphs of the parts of a program that the host does not interrupt: what lies between two waits.

One value that is read back bars a graph of the whole program, and so does work of the host. What lies between may be
captured all the same, once, and launched each time. The model has no graph within a program: here the first op of such
a part takes the launch, as the profile has it, the calls of the others take nothing, and what a front end does for
each call is gone. Ops are handed over as live ones are, so that a graph's shorter hand-overs come on top.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from streamsim.device import Device
from streamsim.program import Copy, HostWork, Kernel, Op, RecordEvent, Schedule, Synchronize, WaitEvent, WaitThread
from streamsim.transform.ops import is_of_a_call

LEAST_OPS = 3  # copies and kernels: a graph of fewer saves no call
LEAST_TIMES = 2  # that a part comes again: capturing it costs as much as issuing it


def with_step_graphs(schedule: Schedule, device: Device) -> Schedule | None:
    """Return the schedule with what comes again between two waits as graphs; None if nothing comes again.

    None also if another thread has work of its own: which calls it makes beside a graph is not known.
    """
    if any(op.thread and isinstance(op, HostWork) and not is_of_a_call(op) for op in schedule.ops):
        return None
    parts = _parts(schedule)
    times = Counter(form for _, form in parts if form)
    if max(times.values(), default=0) < LEAST_TIMES:
        return None
    found: list[Op] = []
    for ops, form in parts:
        found += _captured(ops, device) if form and times[form] >= LEAST_TIMES else ops
    return replace(schedule, ops=tuple(found))


def _parts(schedule: Schedule) -> list[tuple[list[Op], tuple[str, ...]]]:
    """The ops in parts, one after another, and the form of each that may be captured; () where it may not be."""
    pageable, has_worked = schedule.pageable_names, False
    parts: list[tuple[bool, list[Op]]] = []
    for op in schedule.ops:
        can = _can_be_captured(op, pageable)
        is_load = isinstance(op, Copy) and op.direction == "h2d"
        begins_step = is_load and has_worked
        if begins_step or not parts or parts[-1][0] != can:
            parts.append((can, []))
            has_worked = False
        parts[-1][1].append(op)
        has_worked = has_worked or (isinstance(op, Copy | Kernel) and not is_load)
    return [(ops, _form(ops) if can else ()) for can, ops in parts]


def _can_be_captured(op: Op, pageable: frozenset[str]) -> bool:
    if isinstance(op, Copy):
        return not op.blocking and not op.uses_host(pageable)
    return is_of_a_call(op) or isinstance(op, Kernel | RecordEvent | WaitEvent | WaitThread)


def _form(ops: Sequence[Op]) -> tuple[str, ...]:
    """What parts that come again have in common: the kernels with which they begin and end; () for too few ops."""
    names = [op.name for op in ops if isinstance(op, Kernel)]
    works = sum(isinstance(op, Copy | Kernel) for op in ops)
    return (names[0], names[-1]) if names and works >= LEAST_OPS else ()


def _captured(ops: Sequence[Op], device: Device) -> list[Op]:
    """The ops of a part as one launch."""
    kept = [op for op in ops if not isinstance(op, HostWork | WaitThread | Synchronize)]
    copies = sum(isinstance(op, Copy) for op in kept)
    launch_s = device.host.graph_launch_s + copies * device.host.graph_node_s
    return [replace(op, thread=0, call_s=0.0 if k else launch_s) for k, op in enumerate(kept)]
