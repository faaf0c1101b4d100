"""The measured time line of a schedule: when every copy and kernel ran, as CUPTI saw it.

Needs NVIDIA's ``cupti-python`` (the extra ``cupti``). Tracing slows the issuing host, so the time line
shows structure: order, engines, gaps and durations on the card. Times to compare with come from untraced runs.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict, deque
from collections.abc import Sequence
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
    from cupti import cupti

    activities, schedule = _trace(replayer), replayer.schedule
    context, streams = gpu.cuda.current_context(), gpu.streams(schedule.streams)
    ids = [int(cupti.get_stream_id_ex(context, stream, 0)) for stream in streams]
    return match(schedule, activities, None if schedule.launch == "graph" else ids)


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
        waiting[(activity.engine, activity.bytes) if stream_ids is None else (activity.stream,)].append(activity)
    found: list[Activity] = []
    for index, op in enumerate(schedule.ops):
        kind = engine_of(op)
        if kind[0] != NOTHING:
            queue = waiting[kind if stream_ids is None else (stream_ids[op.stream or 0],)]
            if not queue or kind != (queue[0].engine, queue[0].bytes):
                raise InputError(f"the profiler has not seen ops[{index}]: no measured time line; try again")
            found.append(queue.popleft())
    if left := sum(map(len, waiting.values())):
        raise InputError(f"the profiler has seen {left} copies or kernels that are not the schedule's; try again")
    zero_ns = min((one.start_ns for one in found), default=0)
    starts = tuple(one.start_ns - zero_ns for one in found)
    return timeline_of(schedule, Spans(starts, tuple(one.end_ns - zero_ns for one in found)))


def _trace(replayer: Replayer) -> list[Activity]:
    """Return what ran in the last of some replays, of which the first ones pay for the tracing itself."""
    from cupti import cupti

    recorder = Recorder(cupti, ("MEMCPY", "CONCURRENT_KERNEL"))
    replayer.run()  # warm
    recorder.start()
    try:
        for _ in range(TRACED_RUNS):
            replayer.replay()
    finally:
        recorder.stop()
    found: list[Activity] = []
    for start, end, _, _, stream, _, size, kind, *_ in recorder.rows["MEMCPY"]:
        engine = H2D if kind == int(cupti.ActivityMemcpyKind.HTOD) else D2H
        found.append(Activity(engine, start, end, size, stream))
    for start, end, _, _, stream, *_ in recorder.rows["CONCURRENT_KERNEL"]:
        found.append(Activity(COMPUTE, start, end, 0, stream))
    found.sort(key=lambda activity: activity.start_ns)
    count, rest = divmod(len(found), TRACED_RUNS)
    if rest or not count:
        raise InputError("the profiler has not seen every op: no measured time line; try again")
    return found[-count:]
