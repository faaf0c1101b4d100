"""A simulated program as a profiler would record it that costs nothing: the calls, and what ran on the card."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import assume
from msgspec.structs import replace

from streamsim import recorded
from streamsim.device import Device, with_values
from streamsim.model import simulate
from streamsim.program import Copy, HostWork, Kernel, RecordEvent, Schedule, Synchronize, WaitEvent, WaitThread
from streamsim.timeline import Timeline

NAMES = ("cudaMemcpyAsync", "cudaMemcpy", "cudaLaunchKernel", "cudaEventRecord", "cudaStreamWaitEvent", "synchronise")
KINDS = {
    "cudaMemcpyAsync": recorded.CallKind.COPY_ASYNC,
    "cudaMemcpy": recorded.CallKind.COPY,
    "cudaLaunchKernel": recorded.CallKind.LAUNCH,
    "cudaEventRecord": recorded.CallKind.RECORD,
    "cudaStreamWaitEvent": recorded.CallKind.WAIT,
}


def profiled(timeline: Timeline) -> recorded.Recording:
    """``timeline``, of one card, as a recording; a tick is a nanosecond."""
    ops, pageable = timeline.schedule.ops, timeline.schedule.pageable_names
    called = [i for i, op in enumerate(ops) if not isinstance(op, HostWork | WaitThread)]
    called.sort(key=lambda i: timeline.issued[i])
    row_of = {i: row for row, i in enumerate(called)}
    kernels = sorted({op.name for op in ops if isinstance(op, Kernel)})
    names = (*NAMES, *kernels)
    calls: dict[str, list[Any]] = {name: [] for name in recorded.HostCalls.__struct_fields__}
    latest: dict[int, int] = {}  # by event the row of its last record, in the order of issue
    records = {}
    for i, op in enumerate(ops):
        if isinstance(op, WaitEvent | Synchronize) and op.event is not None:
            records[i] = latest.get(op.event, recorded.NONE)
        if isinstance(op, RecordEvent):
            latest[op.event] = row_of[i]
    for i in called:
        op = ops[i]
        name = _call_name(op)
        of = recorded.CallKind.SYNCHRONIZE_DEVICE
        if isinstance(op, Synchronize) and op.stream is not None:
            of = recorded.CallKind.SYNCHRONIZE_STREAM
        elif isinstance(op, Synchronize) and op.event is not None:
            of = recorded.CallKind.SYNCHRONIZE_EVENT
        row = {"kind": KINDS.get(name, of), "name": names.index(name), "thread": op.thread}
        row |= {"start_ns": timeline.issued[i], "end_ns": timeline.returned[i], "correlation": i}
        row |= {
            "stream": recorded.NONE if op.stream is None else op.stream,
            "event": recorded.NONE,
            "record": records.get(i, recorded.NONE),
        }
        for column, value in row.items():
            calls[column].append(int(value))
    work: dict[str, Any] = {name: [] for name in recorded.CardWork.__struct_fields__}
    for i in sorted((i for i, engine in enumerate(timeline.engine) if engine >= 0), key=lambda i: timeline.start[i]):
        for column, value in _work(ops[i], pageable, names).items():
            work[column].append(value)
        work["call"].append(row_of[i])
        work["start_ns"].append(timeline.start[i])
        work["end_ns"].append(timeline.end[i])
    kinds: tuple[recorded.RecordedStreamKind, ...] = ("legacy", *timeline.schedule.streams)
    return recorded.Recording(
        "Kineto",
        "a profiler that costs nothing",
        names,
        tuple(recorded.RecordedThread(1, number) for number in range(1 + max(op.thread for op in ops))),
        tuple(recorded.RecordedStream(1, 0, 1, number, kind) for number, kind in enumerate(kinds)),
        (recorded.RecordedCard(0),),
        recorded.HostCalls.of(calls),
        recorded.CardWork.of(
            {
                name: np.reshape(column, (-1, 3)) if name in ("grid", "block") else column
                for name, column in work.items()
            }
        ),
        recorded.Annotations.of({name: [] for name in recorded.Annotations.__struct_fields__}),
    )


def assert_is_that_program(
    schedule: Schedule, device: Device, record: Callable[[Timeline], recorded.Recording]
) -> None:
    """Every copy and kernel of its recording starts and ends when it did, counted from the call of the first one.

    Streams have the order in which they were called: where threads call in another order than that of the schedule's
    list, a recording is of another program; and so it is where a stream has something only before the first of them.
    Nor does it know where a chunk begins, for which the host would enter a stream, or that a thread waited for another
    that was done, behind which a call is not right behind another of its kind; nor, of two calls that begin at once,
    which was the first.
    """
    schedule = without_idle_waits(schedule)
    device = with_values(device, {"host.enter_s": 0.0, "host.turn_s": 0.0})
    was = simulate(schedule, device)
    works = [i for i, engine in enumerate(was.engine) if engine >= 0]
    starts = [was.issued[i] for i, op in enumerate(schedule.ops) if not isinstance(op, HostWork | WaitThread)]
    assume(starts == sorted(set(starts)))
    found = recorded.program_of(record(was), device=device)
    assume(len(found.schedule.used_streams) == len(schedule.used_streams))
    now, first = simulate(found.schedule, device), was.issued[works[0]]
    again = [i for i, engine in enumerate(now.engine) if engine >= 0]
    assert [now.start[i] + first for i in again] == [was.start[i] for i in works]
    assert [now.end[i] + first for i in again] == [was.end[i] for i in works]


def without_idle_waits(schedule: Schedule) -> Schedule:
    """Without waits for events that nobody has recorded by then: they wait for nothing, and are not recorded."""
    assume(any(isinstance(op, Copy | Kernel) for op in schedule.ops))
    events: set[int] = set()
    kept = []
    for op in schedule.ops:
        if isinstance(op, RecordEvent):
            events.add(op.event)
        if not isinstance(op, WaitEvent) or op.event in events:
            kept.append(op)
    return replace(schedule, ops=tuple(kept))


def _call_name(op: Any) -> str:
    if isinstance(op, Copy):
        return "cudaMemcpy" if op.blocking else "cudaMemcpyAsync"
    names: dict[type, str] = {Kernel: "cudaLaunchKernel", RecordEvent: "cudaEventRecord"}
    return {**names, WaitEvent: "cudaStreamWaitEvent"}.get(type(op), "synchronise")


def _work(op: Any, pageable: frozenset[str], names: tuple[str, ...]) -> dict[str, Any]:
    row = {"card": 0, "stream": op.stream, "bytes": 0, "direction": 0, "memory": 0, "grid": (1, 1, 1)}
    if isinstance(op, Kernel):
        return row | {"kind": recorded.WorkKind.KERNEL, "name": names.index(op.name), "block": (256, 1, 1)}
    direction = recorded.CopyDirection.H2D if op.direction == "h2d" else recorded.CopyDirection.D2H
    is_pageable = op.host is not None and op.host.buffer in pageable
    memory = recorded.CopyMemory.PAGEABLE if is_pageable else recorded.CopyMemory.PINNED
    of_copy = {"bytes": op.bytes, "direction": direction, "memory": memory}
    return row | of_copy | {"kind": recorded.WorkKind.COPY, "name": 0, "block": (0, 1, 1)}
