"""The changes that can be made to a program: what each does, and what it assumes.

A change makes another scenario of one: a schedule, a device, or both. Several are made one after another.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from streamsim.device.kernel_costs import SHORTEST_KERNEL_S
from streamsim.errors import InputError
from streamsim.program.schedule import LEGACY_STREAM, Copy, HostWork, Kernel, Synchronize, WaitThread
from streamsim.transform.calls_and_memory import legacy_apart, pinned, still_ordered, unblocked
from streamsim.transform.chunks import chunk_count, in_chunks, in_order, in_streams, shows_independence
from streamsim.transform.scenario import Scenario
from streamsim.transform.steps import is_of_a_call, prefetched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamsim.device.profile import Device
    from streamsim.program.schedule import Op

# Of the gap between two kernels of a graph, the part that a profiler counts to a kernel launched by itself: 0.6 of 1.0
# us, by five nets that PyTorch's profiler recorded live on an H100 and an H200 and that were captured then.
GAP_IN_A_RECORDED_TIME = 0.6


class Change(NamedTuple):
    """``option``: as on the command line. ``assumes``: what must hold and cannot be seen; "" for nothing."""

    option: str
    make: Callable[[Scenario], Scenario]
    assumes: str = ""


def changed_by(changes: Iterable[Change], case: Scenario) -> Scenario:
    """With all changes, made one after another, and the waits that their data needs then.

    Raises InputError for one that cannot be made.
    """
    for change in changes:
        made = change.make(case)
        case = Scenario(still_ordered(case.schedule, made.schedule), made.device)
    return case


def pin() -> Change:
    """All host memory pinned. A copy that was pageable is called for what the profile says."""
    return Change("--pin", lambda case: Scenario(pinned(case.schedule), case.device))


def make_async() -> Change:
    """No copy holds the host, nor does a synchronisation right behind one with its stream."""

    def make(case: Scenario) -> Scenario:
        ops, latest = list[Any](), dict[int, Any]()
        for op in unblocked(case.schedule).ops:
            before = latest.get(op.thread)
            waits_for_copy = isinstance(op, Synchronize) and isinstance(before, Copy) and op.stream == before.stream
            if not waits_for_copy:
                ops.append(op)
            if not isinstance(op, HostWork):
                latest[op.thread] = op
        if not any(isinstance(op, Synchronize) for op in ops):
            ops.append(Synchronize())
        return Scenario(replace(case.schedule, ops=tuple(ops)), case.device)

    return Change("--async", make, "the host reads no result before the next synchronisation that is left")


def drop_sync() -> Change:
    """The host waits at the end only."""

    def make(case: Scenario) -> Scenario:
        schedule = unblocked(case.schedule)
        ops = [op for op in schedule.ops if not isinstance(op, Synchronize)]
        return Scenario(replace(schedule, ops=(*ops, Synchronize())), case.device)

    return Change("--drop-sync", make, "the host needs no result before the end")


def streams(count: int, assumed: bool) -> Change:
    """The steps in so many streams in turn: ``assumed`` to be independent, or shown to be."""

    def make(case: Scenario) -> Scenario:
        if not assumed and not shows_independence(case.schedule):
            raise InputError(
                f"--streams {count}: nothing in the schedule shows that its steps need nothing of each other; if so,"
                " say it with --independent"
            )
        return Scenario(in_streams(case.schedule, count), case.device)

    return Change(f"--streams {count}", make, "a step needs nothing of the steps before it" * assumed)


def chunks(count: int, assumed: bool) -> Change:
    """The work in so many chunks in all: ``assumed`` to be possible, which no schedule shows."""

    def make(case: Scenario) -> Scenario:
        if not assumed and chunk_count(case.schedule) != count:
            raise InputError(
                f"--chunks {count}: nothing in the schedule shows that a step can be cut; if it can, say it with"
                " --independent"
            )
        return Scenario(in_chunks(case.schedule, count), case.device)

    return Change(f"--chunks {count}", make, "a step's copies and kernels can be cut into equal pieces")


def order(name: str) -> Change:
    """The same ops issued chunk by chunk, or stage by stage."""
    return Change(f"--order {name}", lambda case: Scenario(in_order(case.schedule, name), case.device))


def prefetch(depth: int) -> Change:
    """The next steps' copies beside this step's work."""
    return Change(
        f"--prefetch {depth}",
        lambda case: Scenario(prefetched(case.schedule, depth), case.device),
        f"what a step copies to the card is there {depth} step{'s' * (depth > 1)} earlier, and there is room for"
        f" {depth + 1} of it on the card",
    )


def graph() -> Change:
    """Everything captured once and launched once; the host does nothing in between."""

    def make(case: Scenario) -> Scenario:
        uses_legacy = any(op.stream == LEGACY_STREAM for op in case.schedule.ops)
        schedule = legacy_apart(case.schedule) if uses_legacy else case.schedule
        ops = (op for op in schedule.ops if not isinstance(op, HostWork | Synchronize | WaitThread))
        kept = [_captured(op, case.device.compute.graph_gap_s) for op in ops]
        return Scenario(replace(schedule, ops=(*kept, Synchronize()), launch="graph"), case.device)

    return Change("--graph", make, "nothing that the host does between its calls is needed by them")


def _captured(op: Op, gap_s: float) -> Op:
    """The op in a graph. A kernel's recorded time holds some of the gap behind it, which the graph has of itself."""
    captured = replace(op, call_s=None, thread=0)
    if not isinstance(captured, Kernel) or op.call_s is None or captured.duration_s is None:
        return captured
    held_s = gap_s * (GAP_IN_A_RECORDED_TIME if op.call_s else 1)  # in a graph until the next one begins
    return replace(captured, duration_s=max(SHORTEST_KERNEL_S, captured.duration_s - held_s))


def front_end_cost(factor: float, text: str) -> Change:
    """Calls, and what a front end does for each of them, take ``factor`` of their time."""

    def make(case: Scenario) -> Scenario:
        ops = tuple(_cheaper(op, factor) for op in case.schedule.ops)
        return Scenario(replace(case.schedule, ops=ops), case.device)

    return Change(f"--front-end-cost {text}", make)


def _cheaper(op: Op, factor: float) -> Op:
    if isinstance(op, HostWork):
        return replace(op, duration_s=op.duration_s * factor) if is_of_a_call(op) else op
    if isinstance(op, WaitThread) or op.call_s is None:
        return op
    return replace(op, call_s=op.call_s * factor)


def kernels(pattern: str, factor: float, text: str) -> Change:
    """Kernels whose names match a shell pattern take ``factor`` of their time. Raises InputError for none."""

    def make(case: Scenario) -> Scenario:
        found = 0
        ops: list[Op] = []
        for op in case.schedule.ops:
            if isinstance(op, Kernel) and fnmatchcase(op.name, pattern):
                seconds = case.device.kernel_time(op)[0]
                op = replace(op, duration_s=seconds * factor, elements=0, share=1.0, parts=())
                found += 1
            ops.append(op)
        if not found:
            names = ", ".join(sorted({op.name for op in case.schedule.ops if isinstance(op, Kernel)})[:5])
            raise InputError(f"--kernel {pattern!r}: no kernel has such a name; there are {names}")
        return Scenario(replace(case.schedule, ops=tuple(ops)), case.device)

    return Change(f"--kernel {text}", make)


def on_device(device: Device) -> Change:
    """On another device."""
    return Change(f"--on-device {device.name}", lambda case: Scenario(case.schedule, device))
