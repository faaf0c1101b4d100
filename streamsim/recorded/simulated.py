"""Recordings of simulated programs: what PyTorch's profiler would write of them if recording took no time.

With such a recording, every step to a faster program can be tried without a card. Read back by
:mod:`streamsim.recorded.kineto`, the recording replays within a percent of the simulated time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from streamsim.errors import InputError
from streamsim.files import replacing_packed
from streamsim.program import Copy, HostWork, Kernel, Op, RecordEvent, Synchronize, WaitEvent, WaitThread
from streamsim.recorded.kineto import LEGACY_STREAM
from streamsim.rules import TICKS_PER_US
from streamsim.timeline import Timeline, call_name

Event = dict[str, Any]
PROCESS = 1
THREADS_OF_A_BLOCK = 256


def write_recording(timeline: Timeline, path: str | os.PathLike[str]) -> None:
    """Write a simulated program to ``path`` as PyTorch's profiler writes a recorded one (Kineto); ``.gz``: packed.

    Raises InputError if the time line was measured, is that of a graph, or cannot be written.
    """
    if timeline.device is None or timeline.schedule.launch == "graph":
        raise InputError("a recording is written of a simulated program that issues its ops one by one")
    card = {"id": 0, "name": timeline.device.name, "totalGlobalMem": timeline.device.memory_bytes or 0}
    head = {"schemaVersion": 1, "simulated": True, "deviceProperties": [card], "traceEvents": [*_events(timeline)]}
    with replacing_packed(path) as file:
        file.write(msgspec.json.encode(head))


def _events(timeline: Timeline) -> Iterator[Event]:
    """Yield the calls in the order in which they were made, each with what it waits for, then the work of the card."""
    records = _records_waited_for(timeline)
    called = [op for op, what in enumerate(timeline.schedule.ops) if not isinstance(what, HostWork | WaitThread)]
    for op in sorted(called, key=timeline.issued.__getitem__):
        what = timeline.schedule.ops[op]
        yield _span("cuda_runtime", _call(what), what.thread, timeline.issued[op], timeline.returned[op], {}, op)
        if isinstance(what, Synchronize | WaitEvent):
            yield _wait(timeline, op, records)
    for op, engine in enumerate(timeline.engine):
        if engine >= 0:
            yield _work(timeline, op)


def _records_waited_for(timeline: Timeline) -> dict[int, int]:
    """Return for each wait for an event the op that recorded that event last before it."""
    latest: dict[int, int] = {}
    found = {}
    for op, what in enumerate(timeline.schedule.ops):
        if isinstance(what, RecordEvent):
            latest[what.event] = op
        elif isinstance(what, WaitEvent | Synchronize) and what.event in latest:
            found[op] = latest[what.event]
    return found


def _call(op: Op) -> str:
    return "cudaMemcpy" if isinstance(op, Copy) and op.blocking else call_name(op)


def _span(category: str, name: str, thread: int, start: int, end: int, args: Event, op: int) -> Event:
    times = {"ts": start / TICKS_PER_US, "dur": (end - start) / TICKS_PER_US}
    args = {"correlation": op + 1, **args}
    return {"ph": "X", "cat": category, "name": name, "pid": PROCESS, "tid": thread, **times, "args": args}


def _wait(timeline: Timeline, op: int, records: dict[int, int]) -> Event:
    """Return the profiler's note on what the call of ``op`` waits for."""
    ops = timeline.schedule.ops
    args: Event = {"device": 0, "context": 1, **_in_stream(ops[op])}
    if op in records:
        record = ops[records[op]]
        assert isinstance(record, RecordEvent)
        args |= {"wait_on_stream": LEGACY_STREAM + record.stream, "wait_on_cuda_event_id": record.event}
        args["wait_on_cuda_event_record_corr_id"] = records[op] + 1
    return _span("cuda_sync", _call(ops[op]), 0, timeline.issued[op], timeline.returned[op], args, op)


def _in_stream(op: Op) -> Event:
    """Return the stream of an op by the profiler's number; the default stream of the first context is 7."""
    return {} if op.stream is None else {"stream": LEGACY_STREAM + op.stream}


def _work(timeline: Timeline, op: int) -> Event:
    what = timeline.schedule.ops[op]
    args: Event = {"device": 0, "context": 1, **_in_stream(what)}
    if isinstance(what, Copy):
        memory = "Pageable" if what.uses_host(timeline.schedule.pageable_names) else "Pinned"
        way = f"HtoD ({memory} -> Device)" if what.direction == "h2d" else f"DtoH (Device -> {memory})"
        category, name = "gpu_memcpy", f"Memcpy {way}"
        args["bytes"] = what.bytes
    else:
        assert isinstance(what, Kernel)
        blocks = max(1, -(-(what.threads or what.elements) // THREADS_OF_A_BLOCK))
        category, name = "kernel", what.name
        args |= {"grid": [blocks, 1, 1], "block": [THREADS_OF_A_BLOCK, 1, 1]}
    return _span(category, name, 0, timeline.start[op], timeline.end[op], args, op)
