"""Time lines as Chrome Trace Event JSON, which Perfetto, chrome://tracing and speedscope open.

Each time line is a process whose tracks are, from top to bottom, the calls of each host thread, the engines, recorded
spans beside them, and the streams. Every copy and kernel is a span on its engine's track and again on its stream's
track; events show on the stream's track as instants. Spans on a track never overlap: kernels that run side by side take
further tracks of the same engine (``compute #2``). Arrows lead to an op, on its engine's track, from the call that
issued it and from the ops that it waits for, except where the two tracks show the order themselves: one stream, one
engine.

Format: Google, "Trace Event Format" (phases M, X, i, s and f).
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, count, islice
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
Key = tuple[int, int, int]  # of a track: its group, its row there (a thread, an engine, a stream), and its lane

HOST, ENGINES, BESIDE, STREAMS = range(4)  # groups of tracks
PLACES = 1 << 24  # more tracks than a time line has: viewers tell tracks apart by their number alone
ARROWS = 1 << 40  # more than a time line has
EVENTS_AT_ONCE = 256


def write_trace(timeline: Timeline, path: str | Path) -> None:
    """Write ``timeline`` to ``path`` event by event; the file appears only when it is complete. ``.gz``: packed.

    Raises InputError when it cannot be written.
    """
    write_traces({timeline.schedule.name or "schedule": timeline}, path)


def write_traces(timelines: Mapping[str, Timeline], path: str | Path) -> None:
    """Write several time lines, by what they are called, as :func:`write_trace` writes one; all begin at 0."""
    about = {"makespan_s": {name: timeline.makespan_s for name, timeline in timelines.items()}}
    events = (trace_events(timeline, name, k) for k, (name, timeline) in enumerate(timelines.items(), 1))
    with replacing_packed(path) as file:
        file.writelines(_encoded(about, chain.from_iterable(events)))


def _encoded(about: dict[str, Any], events: Iterator[Event]) -> Iterator[bytes]:
    """Yield the file in pieces, each a line of some hundred events."""
    encode = msgspec.json.Encoder().encode
    yield b'{"displayTimeUnit":"ns","otherData":%b,"traceEvents":[' % encode(about)
    comma = b"\n"
    while some := list(islice(events, EVENTS_AT_ONCE)):
        yield comma + encode(some)[1:-1]  # without the brackets of a list
        comma = b",\n"
    yield b"\n]}\n"


def trace_events(timeline: Timeline, name: str = "", process: int = 1) -> Iterator[Event]:
    """Yield the events one by one: the names of the tracks, the spans and instants, then the arrows.

    ``ts`` and ``dur`` are in microseconds; a tick of the clock is a thousandth, so three decimals are exact.
    """
    tracks = _Tracks(timeline, process)
    yield from tracks.names(name)
    yield from _host_spans(timeline, tracks)
    for op, engine in enumerate(timeline.engine):
        if engine >= 0:
            yield from _op_spans(timeline, tracks, op)
    for row, lane in enumerate(timeline.tracks):
        for start, end in zip(lane.start, lane.end, strict=True):
            yield tracks.span((BESIDE, row, 0), lane.name, "pages", start, end, {})
    yield from _instants(timeline, tracks)
    yield from _arrows(timeline, tracks)


class _Tracks:
    """The tracks of a time line: for each row (an engine, a stream) as many as have spans at the same time."""

    def __init__(self, timeline: Timeline, process: int) -> None:
        ops, self._timeline, self.process = timeline.schedule.ops, timeline, process
        self._streams = [-1 if op.stream is None or isinstance(op, HostOp) else op.stream for op in ops]
        self._lanes = {
            ENGINES: lane_of_each_op(timeline, timeline.engine),
            STREAMS: lane_of_each_op(timeline, self._streams),
        }
        keys = {(HOST, op.thread, 0) for op in ops} | {(BESIDE, row, 0) for row in range(len(timeline.tracks))}
        keys |= {self.engine(op) for op, engine in enumerate(timeline.engine) if engine >= 0}
        keys |= {self.stream(op) for op, stream in enumerate(self._streams) if stream >= 0}
        self._places = {key: process * PLACES + place for place, key in enumerate(sorted(keys), 1)}

    def engine(self, op: int) -> Key:
        """Return the track of a copy or kernel on its engine."""
        return ENGINES, self._timeline.engine[op], self._lanes[ENGINES][op]

    def stream(self, op: int) -> Key:
        """Return the track of an op in its stream; events are on the first one."""
        return STREAMS, self._streams[op], max(0, self._lanes[STREAMS][op])

    def names(self, process_name: str) -> Iterator[Event]:
        """Yield the names of the process and of its tracks, and the order in which they are shown."""
        yield from self._named("process", 0, process_name, self.process)
        several = max((row for group, row, _ in self._places if group == HOST), default=0) > 0
        named: dict[int, Callable[[int], str]] = {
            HOST: lambda thread: f"calls of thread {thread}" if several else "calls",
            ENGINES: self._timeline.engine_names.__getitem__,
            BESIDE: lambda row: self._timeline.tracks[row].name,
            STREAMS: stream_name,
        }
        for (group, row, lane), place in self._places.items():
            yield from self._named("thread", place, named[group](row) + (f" #{lane + 1}" if lane else ""), place)

    def _named(self, what: str, thread: int, name: str, place: int) -> Iterator[Event]:
        for key, args in ((f"{what}_name", {"name": name}), (f"{what}_sort_index", {"sort_index": place})):
            yield {"ph": "M", "pid": self.process, "tid": thread, "name": key, "args": args}

    def event(self, phase: str, key: Key, name: str, category: str, ticks: int, more: Event) -> Event:
        """Return an event at a time on a track. Microseconds in their shortest digits are exact below 100 days."""
        place = {"pid": self.process, "tid": self._places[key]}
        return {"ph": phase, **place, "name": name, "cat": category, "ts": ticks / TICKS_PER_US, **more}

    def span(self, key: Key, name: str, category: str, start: int, end: int, args: Event) -> Event:
        """Return a span on a track."""
        return self.event("X", key, name, category, start, {"dur": (end - start) / TICKS_PER_US, "args": args})


# Spans and instants


def _host_spans(timeline: Timeline, tracks: _Tracks) -> Iterator[Event]:
    """Yield the host's calls; of a captured graph only its launch and what the host waits for after it."""
    is_graph = timeline.schedule.launch == "graph"
    if is_graph and timeline.launched > 0:
        yield tracks.span((HOST, 0, 0), "launch graph", "host", 0, timeline.launched, {})
    for op, what in enumerate(timeline.schedule.ops):
        if timeline.issued[op] >= 0 and not (is_graph and not isinstance(what, HostOp)):
            name = f"issue {label(what)}" if isinstance(what, Copy | Kernel) else label(what)
            at = timeline.issued[op], timeline.returned[op]
            yield tracks.span((HOST, what.thread, 0), name, "host", *at, {"op": op})


def _op_spans(timeline: Timeline, tracks: _Tracks, op: int) -> Iterator[Event]:
    """Yield the span of a copy or kernel on its engine, with all that is known of it, and that in its stream."""
    what, at = timeline.schedule.ops[op], (timeline.start[op], timeline.end[op])
    name, category = label(what), "copy" if isinstance(what, Copy) else "kernel"
    args: Event = {"op": op, "stream": what.stream}
    for field, column in (("issued_us", timeline.issued), ("ready_us", timeline.ready)):
        if column[op] >= 0:
            args[field] = column[op] / TICKS_PER_US
    if isinstance(what, Copy):
        args |= {
            "direction": what.direction,
            "bytes": what.bytes,
            "bytes_per_ns": round(what.bytes / (at[1] - at[0]), 3),
        }
        args |= {side: _range(at) for side, at in (("host", what.host), ("device", what.device)) if at is not None}
    elif isinstance(what, Kernel):
        args |= {"elements": what.elements} if what.elements else {}
        args |= {side: [*map(_range, at)] for side, at in (("reads", what.reads), ("writes", what.writes)) if at}
    yield tracks.span(tracks.engine(op), name, category, *at, args)
    engine = timeline.engine_names[timeline.engine[op]]
    yield tracks.span(tracks.stream(op), name, category, *at, {"op": op, "engine": engine})


def _range(region: Region) -> str:
    return f"{region.buffer}[{region.offset}:{region.offset + region.bytes}]"


def _instants(timeline: Timeline, tracks: _Tracks) -> Iterator[Event]:
    """Yield when each record of an event completed, and when each wait for one was over."""
    for op, what in enumerate(timeline.schedule.ops):
        if isinstance(what, RecordEvent | WaitEvent) and timeline.end[op] >= 0:
            more: Event = {"s": "t", "args": {"op": op}}
            yield tracks.event("i", tracks.stream(op), label(what), "event", timeline.end[op], more)


# Arrows


def _arrows(timeline: Timeline, tracks: _Tracks) -> Iterator[Event]:
    """Yield pairs: from inside the last tick of the span that comes first to the start of the span of the op."""
    numbers = count(tracks.process * ARROWS)
    for category, track, leaves, op in chain(_issues(timeline), _dependences(timeline, tracks)):
        number: Event = {"id": next(numbers)}
        yield tracks.event("s", track, category, category, leaves, number)
        yield tracks.event("f", tracks.engine(op), category, category, timeline.start[op], {"bp": "e", **number})


def _issues(timeline: Timeline) -> Iterator[tuple[str, Key, int, int]]:
    """Yield (category, track and tick it leaves, op) for each copy and kernel whose call took the host time."""
    if timeline.schedule.launch == "graph":
        return
    for op, engine in enumerate(timeline.engine):
        issued, start = timeline.issued[op], timeline.start[op]
        if engine >= 0 and 0 <= issued < timeline.returned[op] and issued <= start:
            yield "issue", (HOST, timeline.schedule.ops[op].thread, 0), min(timeline.returned[op] - 1, start), op


def _dependences(timeline: Timeline, tracks: _Tracks) -> Iterator[tuple[str, Key, int, int]]:
    """Yield the same for each op that waits for another, unless both are in one stream and on one engine.

    A measured time line does not know them.
    """
    if timeline.device is None:
        return
    ops, followers = timeline.schedule.ops, lower(timeline.schedule, timeline.device).followers()
    for earlier, engine in enumerate(timeline.engine):
        for op in followers(earlier) if engine >= 0 else ():
            same_stream = ops[earlier].stream == ops[op].stream
            if not same_stream or engine != timeline.engine[op]:
                category = "stream order" if same_stream else _across(ops[earlier], ops[op])
                yield category, tracks.engine(earlier), timeline.end[earlier] - 1, op


def _across(earlier: Op, later: Op) -> str:
    return "default stream" if LEGACY_STREAM in (earlier.stream, later.stream) else "event"
