"""A time line as Chrome Trace Event JSON, which Perfetto, chrome://tracing and speedscope open.

Three processes: the host with the calls it makes, the engines, and the streams. Every copy and kernel is a
span on its engine's track and again on its stream's track; events show on the stream's track as instants.
Spans on a track never overlap: kernels that run side by side take further tracks of the same engine
(``compute #2``). Arrows lead to an op, on its engine's track, from the call that issued it and from the ops
that it waits for, except where the two tracks show the order themselves: one stream, one engine.

Format: Google, "Trace Event Format" (phases M, X, i, s and f).
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from streamsim.files import replacing_packed
from streamsim.lowering import lower
from streamsim.program import LEGACY_STREAM, Copy, HostOp, Kernel, Op, RecordEvent, Region, WaitEvent
from streamsim.report.kinds import stream_name
from streamsim.report.overlapping_ops import lane_of_each_op
from streamsim.rules import TICKS_PER_US
from streamsim.timeline import Timeline, label

Event = dict[str, Any]

HOST, ENGINES, STREAMS = PROCESSES = 1, 2, 3  # process ids, in the order in which they are shown
# Thread ids; viewers take 0 for an idle CPU.
HOST_TRACK, FIRST_ENGINE_TRACK, FIRST_STREAM_TRACK, FIRST_LANE_TRACK = 1, 10, 100, 1 << 23
MOST_LANES = 1 << 12
NO_ROW = -1
ISSUE = "issue"  # of an arrow: it comes from a call
EVENTS_AT_ONCE = 256
TRACKS = 1 << 24  # more than one time line has in a process: tracks of several are told apart by it


def write_trace(timeline: Timeline, path: str | Path) -> None:
    """Write ``timeline`` to ``path`` event by event; the file appears only when it is complete. ``.gz``: packed.

    Raises InputError when it cannot be written.
    """
    about = {"schedule": timeline.schedule.name, "makespan_s": timeline.makespan_s}
    with replacing_packed(path) as file:
        file.writelines(_encoded(about, trace_events(timeline)))


def write_traces(timelines: Mapping[str, Timeline], path: str | Path) -> None:
    """Write several time lines, by what they are called, as :func:`write_trace` writes one.

    Each is one process with the tracks of the host, the engines and the streams, in the order given; all begin at 0.
    """
    about = {"makespan_s": {name: timeline.makespan_s for name, timeline in timelines.items()}}
    events = (_as_process(number, name, timelines) for number, name in enumerate(timelines, 1))
    with replacing_packed(path) as file:
        file.writelines(_encoded(about, chain.from_iterable(events)))


def _as_process(number: int, name: str, timelines: Mapping[str, Timeline]) -> Iterator[Event]:
    """Yield the events of one of several time lines as one process of this number, with no track or arrow twice."""
    yield from _process_names(number, name)
    for event in trace_events(timelines[name]):
        if event["ph"] == "M" and event["name"].startswith("process_"):
            continue
        place = len(PROCESSES) * number + event["pid"]
        moved = {**event, "pid": number, "tid": place * TRACKS + event["tid"]}
        if event["ph"] == "M" and event["name"] == "thread_sort_index":
            moved["args"] = {"sort_index": place * TRACKS + event["args"]["sort_index"]}
        if "id" in event:
            moved["id"] = event["id"] * len(timelines) + number
        yield moved


def trace_events(timeline: Timeline) -> Iterator[Event]:
    """Yield the events one by one: the names of the tracks, the spans and instants, then the arrows.

    ``ts`` and ``dur`` are in microseconds; a tick of the clock is a thousandth, so three decimals are exact.
    """
    engines, streams = _engine_tracks(timeline), _stream_tracks(timeline)
    yield from _host_names(timeline)
    yield from engines.names("engines")
    yield from streams.names("streams")
    yield from _host_spans(timeline)
    for op in _on_card(timeline):
        yield _engine_span(timeline, op, engines.of[op])
        yield _stream_span(timeline, op, streams.of[op])
    yield from _lanes(timeline)
    yield from _instants(timeline, streams)
    yield from _arrows(timeline, engines)


def _encoded(about: dict[str, Any], events: Iterator[Event]) -> Iterator[bytes]:
    """Yield the file in pieces, each a line of some hundred events."""
    encode = msgspec.json.Encoder().encode
    yield b'{"displayTimeUnit":"ns","otherData":%b,"traceEvents":[' % encode(about)
    comma = b"\n"
    while some := list(islice(events, EVENTS_AT_ONCE)):
        yield comma + encode(some)[1:-1]  # without the brackets of a list
        comma = b",\n"
    yield b"\n]}\n"


def _us(ticks: int) -> float:
    """Return microseconds; their shortest digits, which are written, give the ticks exactly (below 100 days)."""
    return ticks / TICKS_PER_US


def _on_card(timeline: Timeline) -> Iterator[int]:
    """Yield the ops that occupied an engine, in issue order."""
    return (op for op, engine in enumerate(timeline.engine) if engine >= 0)


# Tracks


class _Tracks:
    """The tracks of one process: for each row (an engine, a stream) as many as have spans at the same time.

    ``of[op]`` is the op's thread id: that of its row, or beyond the rows that of a further lane.
    """

    def __init__(self, timeline: Timeline, process: int, first: int, row_names: list[str], row: Sequence[int]) -> None:
        self._process, self._row_names = process, row_names
        lane, width = [max(0, lane) for lane in lane_of_each_op(timeline, row)], len(row_names)
        self.of = array("q", (first + row[op] + lane[op] * width for op in range(len(timeline))))
        self._used = {(row[op], lane[op]): self.of[op] for op in range(len(timeline)) if row[op] != NO_ROW}

    def names(self, process_name: str) -> Iterator[Event]:
        yield from _process_names(self._process, process_name)
        for (row, lane), thread in sorted(self._used.items()):
            name = self._row_names[row] + (f" #{lane + 1}" if lane else "")
            yield from _thread_names(self._process, thread, name, row * MOST_LANES + lane)


def _engine_tracks(timeline: Timeline) -> _Tracks:
    return _Tracks(timeline, ENGINES, FIRST_ENGINE_TRACK, list(timeline.engine_names), timeline.engine)


def _stream_tracks(timeline: Timeline) -> _Tracks:
    names = [*map(stream_name, range(len(timeline.schedule.streams) + 1))]
    ops = timeline.schedule.ops
    row = array("q", (NO_ROW if op.stream is None or isinstance(op, HostOp) else op.stream for op in ops))
    return _Tracks(timeline, STREAMS, FIRST_STREAM_TRACK, names, row)


def _host_names(timeline: Timeline) -> Iterator[Event]:
    yield from _process_names(HOST, "host")
    threads = {op.thread for op in timeline.schedule.ops}
    for thread in sorted(threads):
        name = f"calls of thread {thread}" if any(threads) else "calls"
        yield from _thread_names(HOST, HOST_TRACK + thread, name, thread)


def _process_names(process: int, name: str) -> Iterator[Event]:
    return _names("process", process, 0, name, process)


def _thread_names(process: int, thread: int, name: str, sort_index: int) -> Iterator[Event]:
    return _names("thread", process, thread, name, sort_index)


def _names(what: str, process: int, thread: int, name: str, sort_index: int) -> Iterator[Event]:
    for key, args in ((f"{what}_name", {"name": name}), (f"{what}_sort_index", {"sort_index": sort_index})):
        yield {"ph": "M", "pid": process, "tid": thread, "name": key, "args": args}


# Spans and instants


def _span(process: int, thread: int, name: str, category: str, start: int, end: int, args: Event) -> Event:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "cat": category,
        "ts": _us(start),
        "dur": _us(end - start),
        "args": args,
    }


def _engine_span(timeline: Timeline, op: int, track: int) -> Event:
    what, start, end = timeline.schedule.ops[op], timeline.start[op], timeline.end[op]
    args: Event = {"op": op, "stream": what.stream}
    for name, column in (("issued_us", timeline.issued), ("ready_us", timeline.ready)):
        if column[op] >= 0:
            args[name] = _us(column[op])
    args |= _details(what, end - start)
    return _span(ENGINES, track, label(what), _category(what), start, end, args)


def _stream_span(timeline: Timeline, op: int, track: int) -> Event:
    what = timeline.schedule.ops[op]
    args = {"op": op, "engine": timeline.engine_names[timeline.engine[op]]}
    return _span(STREAMS, track, label(what), _category(what), timeline.start[op], timeline.end[op], args)


def _lanes(timeline: Timeline) -> Iterator[Event]:
    """Yield recorded spans that belong to no op, a track for each lane below the engines'."""
    for number, lane in enumerate(timeline.tracks):
        track = FIRST_LANE_TRACK + number
        yield from _thread_names(ENGINES, track, lane.name, track)
        for start, end in zip(lane.start, lane.end, strict=True):
            yield _span(ENGINES, track, lane.name, "pages", start, end, {})


def _category(op: Op) -> str:
    return "copy" if isinstance(op, Copy) else "kernel"


def _details(op: Op, ticks: int) -> Event:
    """Say what an op moves or works on, as far as the schedule does."""
    if isinstance(op, Copy):
        details: Event = {"direction": op.direction, "bytes": op.bytes, "bytes_per_ns": round(op.bytes / ticks, 3)}
        return details | {name: _range(at) for name, at in (("host", op.host), ("device", op.device)) if at is not None}
    assert isinstance(op, Kernel)
    details = {"elements": op.elements} if op.elements else {}
    return details | {name: [*map(_range, at)] for name, at in (("reads", op.reads), ("writes", op.writes)) if at}


def _range(region: Region) -> str:
    return f"{region.buffer}[{region.offset}:{region.offset + region.bytes}]"


def _host_spans(timeline: Timeline) -> Iterator[Event]:
    """Yield the host's calls; of a captured graph only its launch and what the host waits for after it."""
    is_graph = timeline.schedule.launch == "graph"
    if is_graph and timeline.launched > 0:
        yield _span(HOST, HOST_TRACK, "launch graph", "host", 0, timeline.launched, {})
    for op, what in enumerate(timeline.schedule.ops):
        if timeline.issued[op] >= 0 and not (is_graph and not isinstance(what, HostOp)):
            name = f"issue {label(what)}" if isinstance(what, Copy | Kernel) else label(what)
            track = HOST_TRACK + what.thread
            yield _span(HOST, track, name, "host", timeline.issued[op], timeline.returned[op], {"op": op})


def _instants(timeline: Timeline, streams: _Tracks) -> Iterator[Event]:
    """Yield when each record of an event completed, and when each wait for one was over."""
    for op, what in enumerate(timeline.schedule.ops):
        if isinstance(what, RecordEvent | WaitEvent) and timeline.end[op] >= 0:
            yield {
                "ph": "i",
                "s": "t",
                "pid": STREAMS,
                "tid": streams.of[op],
                "name": label(what),
                "cat": "event",
                "ts": _us(timeline.end[op]),
                "args": {"op": op},
            }


# Arrows


def _arrows(timeline: Timeline, engines: _Tracks) -> Iterator[Event]:
    """Yield pairs: from inside the last tick of the span that comes first to the start of the span of the op."""
    number = 0
    for category, thread, leaves, op in chain(_issues(timeline), _dependences(timeline, engines)):
        ends: Event = {"cat": category, "name": category, "id": (number := number + 1)}
        process = HOST if category == ISSUE else ENGINES
        yield {"ph": "s", "pid": process, "tid": thread, "ts": _us(leaves), **ends}
        yield {"ph": "f", "bp": "e", "pid": ENGINES, "tid": engines.of[op], "ts": _us(timeline.start[op]), **ends}


def _issues(timeline: Timeline) -> Iterator[tuple[str, int, int, int]]:
    """Yield (category, thread and tick it leaves, op) for each op whose call took the host time."""
    if timeline.schedule.launch == "live":
        for op in _on_card(timeline):
            issued, start = timeline.issued[op], timeline.start[op]
            if 0 <= issued < timeline.returned[op] and issued <= start:
                track = HOST_TRACK + timeline.schedule.ops[op].thread
                yield ISSUE, track, min(timeline.returned[op] - 1, start), op


def _dependences(timeline: Timeline, engines: _Tracks) -> Iterator[tuple[str, int, int, int]]:
    """Yield the same for each op that waits for another, unless both are in one stream and on one engine.

    A measured time line does not know them.
    """
    if timeline.device is None:
        return
    lowered = lower(timeline.schedule, timeline.device)
    ops, followers = timeline.schedule.ops, lowered.followers()
    for earlier in _on_card(timeline):
        for op in followers(earlier):
            same_stream = ops[earlier].stream == ops[op].stream
            if not same_stream or timeline.engine[earlier] != timeline.engine[op]:
                category = "stream order" if same_stream else _across(ops[earlier], ops[op])
                yield category, engines.of[earlier], timeline.end[earlier] - 1, op


def _across(earlier: Op, later: Op) -> str:
    return "default stream" if LEGACY_STREAM in (earlier.stream, later.stream) else "event"
