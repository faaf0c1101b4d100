"""Time lines as Chrome Trace Event JSON, which Perfetto, chrome://tracing and speedscope open.

Each time line is a process whose tracks are, from top to bottom, the calls of each host thread, the engines, recorded
spans beside them, and the streams. Every copy and kernel is a span on its engine's track and again on its stream's
track; events show on the stream's track as instants. Spans on a track never overlap: kernels that run side by side take
further tracks of the same engine (``compute #2``). Arrows lead to an op, on its engine's track, from the call that
issued it and from the ops that it waits for, except where the two tracks show the order themselves: one stream, one
engine.

Format: Google, "Trace Event Format" (phases M, X, i, s and f).
"""

from collections.abc import Iterator, Mapping
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import msgspec

from streamsim.files import replacing_packed
from streamsim.lowering import lower
from streamsim.program import LEGACY_STREAM, Copy, HostOp, Kernel, RecordEvent, WaitEvent
from streamsim.report.bars import lane_of_each_op, stream_name
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
    events = chain.from_iterable(
        trace_events(timeline, name, k) for k, (name, timeline) in enumerate(timelines.items(), 1)
    )
    encode, comma = msgspec.json.Encoder().encode, b"\n"
    with replacing_packed(path) as file:
        file.write(b'{"displayTimeUnit":"ns","otherData":%b,"traceEvents":[' % encode(about))
        while some := list(islice(events, EVENTS_AT_ONCE)):
            file.write(comma + encode(some)[1:-1])  # without the brackets of a list
            comma = b",\n"
        file.write(b"\n]}\n")


def trace_events(timeline: Timeline, name: str = "", process: int = 1) -> Iterator[Event]:
    """Yield the events one by one: the names of the tracks, the spans and instants, then the arrows.

    ``ts`` and ``dur`` are in microseconds; a tick of the clock is a thousandth, so three decimals are exact.
    """
    trace = _Trace(timeline, process)
    yield from trace.names(name)
    yield from trace.calls()
    yield from trace.work()
    yield from trace.arrows()


class _Trace:
    """A time line with its tracks: for each row (an engine, a stream) as many as have spans at the same time."""

    def __init__(self, timeline: Timeline, process: int) -> None:
        self._ops, self._timeline, self._process = timeline.schedule.ops, timeline, process
        self._is_graph = timeline.schedule.launch == "graph"
        self._streams = [-1 if op.stream is None or isinstance(op, HostOp) else op.stream for op in self._ops]
        self._lanes = [lane_of_each_op(timeline, rows) for rows in (timeline.engine, self._streams)]
        keys = {(HOST, op.thread, 0) for op in self._ops} | {(BESIDE, row, 0) for row in range(len(timeline.tracks))}
        keys |= {self._engine(op) for op, engine in enumerate(timeline.engine) if engine >= 0}
        keys |= {self._stream(op) for op, stream in enumerate(self._streams) if stream >= 0}
        self._places = {key: process * PLACES + place for place, key in enumerate(sorted(keys), 1)}

    def _engine(self, op: int) -> Key:
        """Return the track of a copy or kernel on its engine."""
        return ENGINES, self._timeline.engine[op], self._lanes[0][op]

    def _stream(self, op: int) -> Key:
        """Return the track of an op in its stream; events are on the first one."""
        return STREAMS, self._streams[op], max(0, self._lanes[1][op])

    def names(self, name: str) -> Iterator[Event]:
        """Yield the names of the process and of its tracks, and the order in which they are shown."""
        several = any(group == HOST and row for group, row, _ in self._places)
        yield from self._named("process", 0, name, self._process)
        for (group, row, lane), place in self._places.items():
            words = {
                HOST: lambda row: f"calls of thread {row}" if several else "calls",
                ENGINES: lambda row: self._timeline.engine_names[row],
                BESIDE: lambda row: self._timeline.tracks[row].name,
                STREAMS: stream_name,
            }[group](row)
            yield from self._named("thread", place, words + (f" #{lane + 1}" if lane else ""), place)

    def _named(self, what: str, thread: int, name: str, place: int) -> Iterator[Event]:
        for key, args in ((f"{what}_name", {"name": name}), (f"{what}_sort_index", {"sort_index": place})):
            yield {"ph": "M", "pid": self._process, "tid": thread, "name": key, "args": args}

    def _event(self, phase: str, key: Key, name: str, category: str, ticks: int, more: Event) -> Event:
        """Return an event at a time on a track. Microseconds in their shortest digits are exact below 100 days."""
        place = {"pid": self._process, "tid": self._places[key]}
        return {"ph": phase, **place, "name": name, "cat": category, "ts": ticks / TICKS_PER_US, **more}

    def _span(self, key: Key, name: str, category: str, start: int, end: int, args: Event) -> Event:
        return self._event("X", key, name, category, start, {"dur": (end - start) / TICKS_PER_US, "args": args})

    def calls(self) -> Iterator[Event]:
        """Yield the host's calls; of a captured graph only its launch and what the host waits for after it."""
        timeline = self._timeline
        if self._is_graph and timeline.launched > 0:
            yield self._span((HOST, 0, 0), "launch graph", "host", 0, timeline.launched, {})
        for op, what in enumerate(self._ops):
            if timeline.issued[op] >= 0 and not (self._is_graph and not isinstance(what, HostOp)):
                name = f"issue {label(what)}" if isinstance(what, Copy | Kernel) else label(what)
                at = timeline.issued[op], timeline.returned[op]
                yield self._span((HOST, what.thread, 0), name, "host", *at, {"op": op})

    def work(self) -> Iterator[Event]:
        """Yield copies and kernels with all that is known of them, spans beside them, and the ends of events' calls."""
        timeline = self._timeline
        for op, what in enumerate(self._ops):
            start, end = timeline.start[op], timeline.end[op]
            if isinstance(what, RecordEvent | WaitEvent) and end >= 0:
                yield self._event("i", self._stream(op), label(what), "event", end, {"s": "t", "args": {"op": op}})
            if timeline.engine[op] < 0:
                continue
            name, category = label(what), "copy" if isinstance(what, Copy) else "kernel"
            times = {"issued_us": timeline.issued[op], "ready_us": timeline.ready[op]}
            known = {key: ticks / TICKS_PER_US for key, ticks in times.items() if ticks >= 0}
            args = {**msgspec.to_builtins(what), **known, "op": op}
            yield self._span(self._engine(op), name, category, start, end, args)
            engine = timeline.engine_names[timeline.engine[op]]
            yield self._span(self._stream(op), name, category, start, end, {"op": op, "engine": engine})
        for row, lane in enumerate(timeline.tracks):
            for start, end in zip(lane.start, lane.end, strict=True):
                yield self._span((BESIDE, row, 0), lane.name, "pages", start, end, {})

    def arrows(self) -> Iterator[Event]:
        """Yield pairs: from inside the last tick of the span that comes first to the start of the span of the op."""
        numbers = count(self._process * ARROWS)
        for category, track, leaves, op in chain(self._issues(), self._dependences()):
            number: Event = {"id": next(numbers)}
            yield self._event("s", track, category, category, leaves, number)
            start = self._timeline.start[op]
            yield self._event("f", self._engine(op), category, category, start, {"bp": "e", **number})

    def _issues(self) -> Iterator[tuple[str, Key, int, int]]:
        """Yield (category, track and tick it leaves, op) for each copy and kernel whose call took the host time."""
        timeline = self._timeline
        for op, engine in enumerate(() if self._is_graph else timeline.engine):
            issued, start = timeline.issued[op], timeline.start[op]
            if engine >= 0 and 0 <= issued < timeline.returned[op] and issued <= start:
                yield "issue", (HOST, self._ops[op].thread, 0), min(timeline.returned[op] - 1, start), op

    def _dependences(self) -> Iterator[tuple[str, Key, int, int]]:
        """Yield the same for each op that waits for another, unless both are in one stream and on one engine.

        A measured time line does not know them.
        """
        timeline = self._timeline
        if timeline.device is None:
            return
        followers = lower(timeline.schedule, timeline.device).followers()
        for earlier, engine in enumerate(timeline.engine):
            for op in followers(earlier) if engine >= 0 else ():
                streams = self._streams[earlier], self._streams[op]
                if streams[0] != streams[1] or engine != timeline.engine[op]:
                    across = "default stream" if LEGACY_STREAM in streams else "event"
                    category = "stream order" if streams[0] == streams[1] else across
                    yield category, self._engine(earlier), timeline.end[earlier] - 1, op
