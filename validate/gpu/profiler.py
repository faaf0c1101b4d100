"""The measured time line of a schedule: when every copy and kernel ran, as CUPTI saw it.

Needs NVIDIA's ``cupti-python`` (the extra ``cupti``). Tracing slows the issuing host, so the time line
shows structure: order, engines, gaps and durations on the card. Times to compare with come from untraced runs.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import NamedTuple

from streamsim.errors import InputError, install
from streamsim.program import Schedule
from streamsim.timeline import Timeline
from streamsim_validate.gpu.card import Gpu
from streamsim_validate.gpu.replayer import Bench, Replayer, prepare
from streamsim_validate.gpu.runner import Recorder
from streamsim_validate.records import COMPUTE, D2H, H2D, NOTHING, Spans, engine_of, spans_of, timeline_of

TRACED_RUNS = 5
INSTALL = f"install NVIDIA's profiler library: {install('cupti')}"


class Activity(NamedTuple):
    """A copy or kernel that ran: its engine, the card's times in ns, bytes (0 for a kernel) and CUPTI's stream."""

    engine: int
    start_ns: int
    end_ns: int
    bytes: int
    stream: int


def is_available() -> bool:
    """Return whether the profiler library is installed."""
    return importlib.util.find_spec("cupti") is not None


def profile(replayer: Replayer, gpu: Gpu) -> Timeline:
    """Replay a schedule once under the profiler and return its measured time line.

    Time 0 is the start of the first op on the card. Raises InputError if the profiler library is missing or has not
    seen every op.
    """
    if not is_available():
        raise InputError(f"no measured time line: {INSTALL}")
    activities = _trace(replayer)
    schedule = replayer.schedule
    ids = None if schedule.launch == "graph" else _stream_ids(gpu, gpu.streams(schedule.streams))
    return match(schedule, activities, ids)


def spans(schedule: Schedule, bench: Bench) -> Spans:
    """Return the measured time line of a schedule, as a record keeps it. Raises InputError as :func:`profile` does."""
    bench.arena.clear()
    prepare(bench, (schedule,))
    with closing(Replayer(schedule, bench)) as replayer:
        return spans_of(profile(replayer, bench.gpu))


def match(schedule: Schedule, activities: Sequence[Activity], stream_ids: Sequence[int] | None) -> Timeline:
    """Return the time line of ``schedule`` from the activities that ran.

    ``stream_ids``: CUPTI's ids of the schedule's streams; within a stream the ops ran in order. None for a graph, whose
    branches the driver puts on streams of its own: there, an op is matched to the earliest activity of its engine and
    size, so equal ops may be exchanged. Raises InputError if the activities are not the schedule's.
    """
    waiting: defaultdict[tuple[int, ...], deque[Activity]] = defaultdict(deque)
    for activity in sorted(activities, key=lambda activity: activity.start_ns):
        stream = None if stream_ids is None else activity.stream
        waiting[_place(activity.engine, activity.bytes, stream)].append(activity)
    found: list[Activity] = []
    for index, op in enumerate(schedule.ops):
        engine, size = engine_of(op)
        if engine != NOTHING:
            stream = None if stream_ids is None else stream_ids[op.stream or 0]
            queue = waiting[_place(engine, size, stream)]
            if not queue:
                raise InputError(f"the profiler has not seen ops[{index}]: no measured time line; try again")
            found.append(queue.popleft())
            if (engine, size) != (found[-1].engine, found[-1].bytes):
                what = f"the profiler has seen another op than ops[{index}]"
                raise InputError(f"{what}: no measured time line; try again")
    left = sum(map(len, waiting.values()))
    if left:
        raise InputError(f"the profiler has seen {left} copies or kernels that are not the schedule's; try again")
    zero_ns = min((one.start_ns for one in found), default=0)
    times = ((one.start_ns - zero_ns, one.end_ns - zero_ns) for one in found)
    starts, ends = zip(*times, strict=True) if found else ((), ())
    return timeline_of(schedule, Spans(starts, ends))


def _place(engine: int, size: int, stream: int | None) -> tuple[int, ...]:
    """Return the place whose activities ran in issue order: a stream, or equal ops of a graph."""
    return (engine, size) if stream is None else (stream,)


def _stream_ids(gpu: Gpu, streams: Iterable[int]) -> list[int]:
    from cupti import cupti

    context = gpu.cuda.current_context()
    return [int(cupti.get_stream_id_ex(context, stream, 0)) for stream in streams]


def _trace(replayer: Replayer) -> list[Activity]:
    from cupti import cupti

    recorder = Recorder(cupti, ("MEMCPY", "CONCURRENT_KERNEL"))
    replayer.run()  # warm
    recorder.start()
    try:
        for _ in range(TRACED_RUNS):  # the first ones pay for the tracing itself
            replayer.replay()
    finally:
        recorder.stop()
    to_card = int(cupti.ActivityMemcpyKind.HTOD)
    found = [
        Activity(H2D if kind == to_card else D2H, start, end, size, stream)
        for start, end, _, _, stream, _, size, kind, *_ in recorder.rows["MEMCPY"]
    ]
    found += [
        Activity(COMPUTE, start, end, 0, stream) for start, end, _, _, stream, *_ in recorder.rows["CONCURRENT_KERNEL"]
    ]
    found.sort(key=lambda activity: activity.start_ns)
    count, rest = divmod(len(found), TRACED_RUNS)
    if rest or not count:
        raise InputError("the profiler has not seen every op: no measured time line; try again")
    return found[-count:]
