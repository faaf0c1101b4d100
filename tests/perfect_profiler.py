"""A simulated program as a profiler would record it that costs nothing: the calls, and what ran on the card."""

from typing import Any

import numpy as np

from streamsim import recorded
from streamsim.program import Copy, HostWork, Kernel, RecordEvent, Synchronize, WaitEvent, WaitThread
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


def _call_name(op: Any) -> str:
    if isinstance(op, Copy):
        return "cudaMemcpy" if op.blocking else "cudaMemcpyAsync"
    names: dict[type, str] = {Kernel: "cudaLaunchKernel", RecordEvent: "cudaEventRecord"}
    return {**names, WaitEvent: "cudaStreamWaitEvent"}.get(type(op), "synchronise")


def _work(op: Any, pageable: frozenset[str], names: tuple[str, ...]) -> dict[str, Any]:
    is_copy = isinstance(op, Copy)
    of_copy = (
        (recorded.CopyMemory.PAGEABLE if op.host and op.host.buffer in pageable else recorded.CopyMemory.PINNED)
        if is_copy
        else 0
    )
    return {
        "kind": int(recorded.WorkKind.COPY if is_copy else recorded.WorkKind.KERNEL),
        "name": 0 if is_copy else names.index(op.name),
        "card": 0,
        "stream": op.stream,
        "bytes": op.bytes if is_copy else 0,
        "direction": int(recorded.CopyDirection.H2D if op.direction == "h2d" else recorded.CopyDirection.D2H)
        if is_copy
        else 0,
        "memory": int(of_copy),
        "grid": (1, 1, 1),
        "block": (0 if is_copy else 256, 1, 1),
    }
