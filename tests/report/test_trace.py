"""The trace: what is in the file, its exact times, that spans nest, and that arrows tell the true dependences."""

import gzip
import json
import tracemalloc
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from strategies import d2h, devices, h2d, kernel, make_device, pipeline_of, program, schedules

from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import Copy, Kernel, RecordEvent, Schedule, Synchronize, WaitEvent, depth_first
from streamsim.report import ENGINES, HOST, STREAMS, trace_events, write_trace, write_traces
from streamsim.timeline import Timeline

Event = dict[str, Any]

# The host spends 2 ns on a copy call, 3 on a launch, 1 each on a record and a wait; 1 byte a ns; kernels one at a time.
DEVICE = make_device(copy=2, kernel=3, record=1, wait=1, h2d_to_kernel=5, kernel_to_d2h=4, event=2)
SCHEDULE = program(
    h2d(1, 10),  # 0: call 0..2, on the card at once: 2..12
    RecordEvent(0, 1),  # 1: call 2..3; completes with the copy at 12
    kernel(1, 20),  # 2: call 3..6; after 0 and its hand-over at 17: 17..37
    WaitEvent(0, 2),  # 3: call 6..7; over when a kernel of stream 2 could start: at 12 + 5 + 2 = 19
    kernel(2, 8),  # 4: call 7..10; after 0 by the event at 12 + 5 + 2 = 19; the engine is busy until 37: 37..45
    d2h(1, 6),  # 5: call 10..12; after 2 at 37 + 4: 41..47
    h2d(3, 4),  # 6: call 12..14; the engine is free: 14..18
    h2d(3, 4),  # 7: call 14..16; after 6: 18..22
)
ON_ENGINE = {0: ("h2d", 2, 12), 2: ("compute", 17, 37), 4: ("compute", 37, 45), 5: ("d2h", 41, 47), 6: ("h2d", 14, 18),
             7: ("h2d", 18, 22)}  # fmt: skip


def parse(timeline: Timeline, path: Path) -> list[Event]:
    """Write the trace and read it back, numbers exact and in ns."""
    write_trace(timeline, path)
    trace = json.loads(path.read_text(), parse_float=Decimal)
    assert trace["displayTimeUnit"] == "ns"
    events: list[Event] = trace["traceEvents"]
    for event in events:
        event.update({key: in_ns(event[key]) for key in ("ts", "dur") if key in event})
    return events


def in_ns(us: Decimal | int) -> int:
    """Whole ns of exact microseconds."""
    assert us * 1000 % 1 == 0, us
    return int(us * 1000)


def spans(events: Iterable[Event], process: int) -> list[Event]:
    return [event for event in events if event["ph"] == "X" and event["pid"] == process]


def track_names(events: Iterable[Event]) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}


def arrows(events: Iterable[Event]) -> list[tuple[Event, Event]]:
    """Join the two ends of each arrow, found by the identity that viewers use."""
    ends: dict[tuple[str, str, int], dict[str, Event]] = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            both = ends[event["cat"], event["name"], event["id"]]
            assert event["ph"] not in both, "an identity is used twice"
            both[event["ph"]] = event
    assert all(set(both) == {"s", "f"} for both in ends.values())
    return [(both["s"], both["f"]) for both in ends.values()]


def op_at(events: Iterable[Event], end: Event) -> int:
    """Find the op of the span that encloses an end of an arrow, as a viewer finds it."""
    inside = [
        e["args"]["op"]
        for e in events
        if e["ph"] == "X" and e["pid"] == end["pid"] and e["tid"] == end["tid"] and 0 <= end["ts"] - e["ts"] < e["dur"]
    ]
    assert len(inside) == 1
    return int(inside[0])


def measured(schedule: Schedule, engines: tuple[str, ...], *rows: tuple[int, int, int]) -> Timeline:
    """Make a time line as the validator makes one: engine, start and end of each op, and nothing else."""
    engine, start, end = (array("q", column) for column in zip(*rows, strict=True))
    unknown = array("q", [-1]) * len(rows)
    return Timeline(schedule, engines, engine, unknown, unknown, unknown, start, end)


# Exact traces


def test_spans_have_the_exact_times_of_the_model(tmp_path: Path) -> None:
    events = parse(simulate(SCHEDULE, DEVICE), tmp_path / "trace.json")
    names = track_names(events)
    on_engine = [
        (e["args"]["op"], (names[ENGINES, e["tid"]], e["ts"], e["ts"] + e["dur"])) for e in spans(events, ENGINES)
    ]
    assert len(on_engine) == len(ON_ENGINE)
    assert dict(on_engine) == ON_ENGINE
    in_stream = {
        (e["args"]["op"], names[STREAMS, e["tid"]], e["ts"], e["ts"] + e["dur"]) for e in spans(events, STREAMS)
    }
    stream_of = {0: 1, 2: 1, 4: 2, 5: 1, 6: 3, 7: 3}
    assert in_stream == {(op, f"stream {stream_of[op]}", *when) for op, (_, *when) in ON_ENGINE.items()}
    calls = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in spans(events, HOST)]
    assert calls == [
        ("issue H2D", 0, 2), ("record event 0", 2, 3), ("issue kernel", 3, 6), ("wait event 0", 6, 7),
        ("issue kernel", 7, 10), ("issue D2H", 10, 12), ("issue H2D", 12, 14), ("issue H2D", 14, 16),
    ]  # fmt: skip


def test_an_event_shows_when_it_completes(tmp_path: Path) -> None:
    events = parse(simulate(SCHEDULE, DEVICE), tmp_path / "trace.json")
    names = track_names(events)
    instants = [(e["name"], names[e["pid"], e["tid"]], e["ts"]) for e in events if e["ph"] == "i"]
    assert instants == [("record event 0", "stream 1", 12), ("wait event 0", "stream 2", 19)]


def test_arrows_are_the_dependences(tmp_path: Path) -> None:
    events = parse(simulate(SCHEDULE, DEVICE), tmp_path / "trace.json")
    found = {(s["cat"], s["ts"], op_at(events, s), f["ts"], op_at(events, f)) for s, f in arrows(events)}
    # A call's arrow leaves in its last ns, an op's in the last ns of the op. 6 -> 7 share stream and engine.
    assert found == {
        ("issue", 1, 0, 2, 0), ("issue", 5, 2, 17, 2), ("issue", 9, 4, 37, 4),
        ("issue", 11, 5, 41, 5), ("issue", 13, 6, 14, 6), ("issue", 15, 7, 18, 7),
        ("stream order", 11, 0, 17, 2), ("stream order", 36, 2, 41, 5), ("event", 11, 0, 37, 4),
    }  # fmt: skip


def test_kernels_side_by_side_take_further_tracks(tmp_path: Path) -> None:
    # Two of half the card run together 0..10, the third follows when one has ended: it takes the first track again.
    schedule = program(*(kernel(stream, 10, fill=0.5) for stream in (1, 2, 3)))
    events = parse(simulate(schedule, make_device(concurrent_kernels=2)), tmp_path / "trace.json")
    names = track_names(events)
    placed = [(e["args"]["op"], names[ENGINES, e["tid"]], e["ts"]) for e in spans(events, ENGINES)]
    assert placed == [(0, "compute", 0), (1, "compute #2", 0), (2, "compute", 10)]


def test_a_measured_time_line_shows_what_it_knows(tmp_path: Path) -> None:
    # Measured ends and starts may overlap by the clock's error: the second copy then takes a further track.
    schedule = program(h2d(1, 10), h2d(1, 10), Synchronize())
    timeline = measured(schedule, ("h2d", "d2h", "compute"), (0, 0, 11), (0, 10, 20), (-1, -1, -1))
    events = parse(timeline, tmp_path / "trace.json")
    names = track_names(events)
    placed = [(names[e["pid"], e["tid"]], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert sorted(placed) == [("h2d", 0, 11), ("h2d #2", 10, 10), ("stream 1", 0, 11), ("stream 1 #2", 10, 10)]
    assert not arrows(events)


# Laws


IN_100_DAYS_NS = 100 * 86_400 * 10**9
MEMBERS = {
    "M": {"ph", "pid", "tid", "name", "args"},
    "X": {"ph", "pid", "tid", "name", "cat", "ts", "dur", "args"},
    "i": {"ph", "pid", "tid", "name", "cat", "ts", "s", "args"},
    "s": {"ph", "pid", "tid", "name", "cat", "ts", "id"},
    "f": {"ph", "pid", "tid", "name", "cat", "ts", "id", "bp"},
}


@given(schedules(), devices())
def test_every_event_has_the_members_of_its_phase_and_a_named_track(schedule: Schedule, device: Device) -> None:
    events = list(trace_events(simulate(schedule, device)))
    named = set(track_names(events))
    for event in events:
        assert set(event) == MEMBERS[event["ph"]]
        assert event["ph"] == "M" or event.get("ts", 0) >= 0
        assert event["ph"] == "M" or (event["pid"], event["tid"]) in named
        assert event.get("bp", "e") == "e"
    indexes = Counter((e["pid"], e["args"]["sort_index"]) for e in events if e["name"] == "thread_sort_index")
    assert set(indexes.values()) == {1}
    assert all(thread > 0 for _, thread in named)


@given(schedules(), devices())
def test_spans_on_a_track_are_apart(schedule: Schedule, device: Device) -> None:
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in trace_events(simulate(schedule, device)):
        if event["ph"] == "X":
            start, duration = round(event["ts"] * 1000), round(event["dur"] * 1000)
            tracks[event["pid"], event["tid"]].append((start, start + duration))
    for on_track in tracks.values():
        on_track.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(on_track))


@given(schedules(), devices())
def test_every_op_is_once_on_its_engine_and_once_in_its_stream(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    events = list(trace_events(timeline))
    names = track_names(events)
    found = Counter(
        (e["args"]["op"], names[e["pid"], e["tid"]].partition(" #")[0], round(e["ts"] * 1000), round(e["dur"] * 1000))
        for e in events
        if e["ph"] == "X" and e["pid"] != HOST
    )
    expected: Counter[tuple[int, str, int, int]] = Counter()
    for op, what in enumerate(schedule.ops):
        if isinstance(what, Copy | Kernel):
            when = timeline.start[op], timeline.end[op] - timeline.start[op]
            stream = f"stream {what.stream}" if what.stream else "default stream"
            expected.update([(op, timeline.engine_names[timeline.engine[op]], *when), (op, stream, *when)])
    assert found == expected


@given(schedules(), devices())
def test_arrows_pair_up_and_go_forward_between_spans(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    events = list(trace_events(timeline))
    for event in events:
        event.update({key: round(event[key] * 1000) for key in ("ts", "dur") if key in event})
    for leaves, arrives in arrows(events):
        assert leaves["ts"] <= arrives["ts"]
        earlier, later = op_at(events, leaves), op_at(events, arrives)
        assert arrives["ts"] == timeline.start[later]
        if leaves["cat"] == "issue":
            assert earlier == later
        else:
            assert timeline.end[earlier] <= timeline.start[later]


@given(st.integers(0, IN_100_DAYS_NS), st.integers(1, IN_100_DAYS_NS))
def test_times_are_exact_in_decimal(start: int, length: int) -> None:
    timeline = measured(program(h2d(1, 10)), ("h2d",), (0, start, start + length))
    (span,) = spans(trace_events(timeline), ENGINES)
    written = json.loads(json.dumps(span), parse_float=Decimal)
    assert [Decimal(written[name]) * 1000 for name in ("ts", "dur")] == [Decimal(start), Decimal(length)]


# The file


def test_the_file_is_written_as_it_goes(tmp_path: Path) -> None:
    timeline = simulate(depth_first(pipeline_of(4000), 4000, 4), make_device(copy=1, kernel=1))
    path = tmp_path / "trace.json"
    tracemalloc.start()
    write_trace(timeline, path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 12,000 ops make some 9 MB of text; what is held grows by the lanes and indexes only, some 100 bytes an op.
    assert peak < path.stat().st_size / 4
    assert len(json.loads(path.read_text())["traceEvents"]) > 7 * 12_000


def test_names_are_quoted(tmp_path: Path) -> None:
    name = 'a "kernel" \\ of\n<T>'
    events = parse(simulate(program(kernel(1, 5, name=name)), make_device()), tmp_path / "trace.json")
    assert [e["name"] for e in spans(events, ENGINES)] == [name]


# Several time lines


def process_names(events: Iterable[Event]) -> dict[int, str]:
    return {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}


@given(schedules(), schedules(), devices())
def test_several_time_lines_are_a_process_each_with_the_tracks_of_one(
    before: Schedule, after: Schedule, device: Device
) -> None:
    """Spans, instants and arrows are those of each alone; no track and no arrow is of two of them."""
    timelines = {"recorded": simulate(before, device), "predicted": simulate(after, device)}
    with TemporaryDirectory() as folder:
        write_traces(timelines, f"{folder}/both.json")
        together: list[Event] = json.loads(Path(folder, "both.json").read_text())["traceEvents"]
    assert process_names(together) == {1: "recorded", 2: "predicted"}
    assert all(first["pid"] == then["pid"] for first, then in arrows(together))
    tracks = Counter(tid for _, tid in track_names(together))
    assert set(tracks.values()) <= {1}
    for number, timeline in enumerate(timelines.values(), 1):
        alone = list(trace_events(timeline))
        own = [event for event in together if event["pid"] == number]
        assert told(own) == told(alone)
        assert arrows_told(own) == arrows_told(alone)
        in_order = [name for _, name in sorted(sorting(own).items())]
        assert in_order == [name for _, name in sorted(sorting(alone, of_processes=True).items())]


def told(events: list[Event]) -> Counter[tuple[Any, ...]]:
    """What is shown, and on which track, by its name."""
    names = track_names(events)
    return Counter(
        (names[e["pid"], e["tid"]], e["ph"], e["name"], e["ts"], e.get("dur"), json.dumps(e.get("args")))
        for e in events
        if e["ph"] in "Xi"
    )


def arrows_told(events: list[Event]) -> Counter[tuple[Any, ...]]:
    names = track_names(events)
    return Counter((s["cat"], *((names[e["pid"], e["tid"]], e["ts"]) for e in (s, f))) for s, f in arrows(events))


def sorting(events: list[Event], of_processes: bool = False) -> dict[tuple[int, int], str]:
    """Track names by their places; those of several processes by the processes' first."""
    names = track_names(events)
    return {
        (e["pid"] if of_processes else 0, e["args"]["sort_index"]): names[e["pid"], e["tid"]]
        for e in events
        if e["name"] == "thread_sort_index"
    }


def test_a_trace_whose_name_ends_in_gz_is_packed(tmp_path: Path) -> None:
    timeline = simulate(SCHEDULE, DEVICE)
    write_trace(timeline, tmp_path / "t.json")
    write_trace(timeline, tmp_path / "t.json.gz")
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()) == (tmp_path / "t.json").read_bytes()
    write_traces({"a": timeline, "b": timeline}, tmp_path / "both.json.gz")
    assert json.loads(gzip.decompress((tmp_path / "both.json.gz").read_bytes()))["traceEvents"]
