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
from strategies import d2h, devices, h2d, kernel, make_device, pipeline_of, plan, schedules

from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import Copy, Kernel, RecordEvent, Schedule, WaitEvent, depth_first
from streamsim.report import stream_name, trace_events, write_trace, write_traces
from streamsim.timeline import Timeline

Event = dict[str, Any]

# The host spends 2 ns on a copy call, 3 on a launch, 1 each on a record and a wait; 1 byte a ns; kernels one at a time.
DEVICE = make_device(copy=2, kernel=3, record=1, wait=1, h2d_to_kernel=5, kernel_to_d2h=4, event=2)
SCHEDULE = plan(
    h2d(1, 10),  # 0: call 0..2, on the card at once: 2..12
    RecordEvent(0, 1),  # 1: call 2..3; completes with the copy at 12
    kernel(1, 20),  # 2: call 3..6; after 0 and its hand-over at 17: 17..37
    WaitEvent(0, 2),  # 3: call 6..7; over when a kernel of stream 2 could start: at 12 + 5 + 2 = 19
    kernel(2, 8),  # 4: call 7..10; after 0 by the event at 12 + 5 + 2 = 19; the engine is busy until 37: 37..45
    d2h(1, 6),  # 5: call 10..12; after 2 at 37 + 4: 41..47
    h2d(3, 4),  # 6: call 12..14; the engine is free: 14..18
    h2d(3, 4),  # 7: call 14..16; after 6: 18..22
)


def told(timeline: Timeline) -> list[Event]:
    """The events of a time line as a viewer reads them: times in exact ns, and each on its track by name."""
    events: list[Event] = json.loads(json.dumps(list(trace_events(timeline))), parse_float=Decimal)
    return read(events)


def read(events: list[Event]) -> list[Event]:
    tracks = track_names(events)
    for event in events:
        assert event["ph"] == "M" or (event["pid"], event["tid"]) in tracks
        event["track"] = tracks.get((event["pid"], event["tid"]))
        for key in {"ts", "dur"} & set(event):
            assert event[key] * 1000 % 1 == 0
            event[key] = int(event[key] * 1000)
    return events


def track_names(events: Iterable[Event]) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}


def spans(events: Iterable[Event]) -> list[tuple[int, str, int, int]]:
    """Op, track, from and to of the copies and kernels."""
    found = [e for e in events if e["ph"] == "X" and e["cat"] != "host"]
    return [(e["args"]["op"], e["track"], e["ts"], e["ts"] + e["dur"]) for e in found]


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
    (op,) = (
        e["args"]["op"]
        for e in events
        if e["ph"] == "X" and e["track"] == end["track"] and 0 <= end["ts"] - e["ts"] < e["dur"]
    )
    return int(op)


def measured(schedule: Schedule, engines: tuple[str, ...], *rows: tuple[int, int, int]) -> Timeline:
    """Make a time line as the validator makes one: engine, start and end of each op, and nothing else."""
    engine, start, end = (array("q", column) for column in zip(*rows, strict=True))
    unknown = array("q", [-1]) * len(rows)
    return Timeline(schedule, engines, engine, unknown, unknown, unknown, start, end)


# Exact traces


def test_spans_instants_and_arrows_have_the_exact_times_of_the_model() -> None:
    events = told(simulate(SCHEDULE, DEVICE))
    calls = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "host"]
    assert calls == [
        ("issue H2D", 0, 2), ("record event 0", 2, 3), ("issue kernel", 3, 6), ("wait event 0", 6, 7),
        ("issue kernel", 7, 10), ("issue D2H", 10, 12), ("issue H2D", 12, 14), ("issue H2D", 14, 16),
    ]  # fmt: skip
    assert sorted(spans(events)) == [
        (0, "h2d", 2, 12), (0, "stream 1", 2, 12), (2, "compute", 17, 37), (2, "stream 1", 17, 37),
        (4, "compute", 37, 45), (4, "stream 2", 37, 45), (5, "d2h", 41, 47), (5, "stream 1", 41, 47),
        (6, "h2d", 14, 18), (6, "stream 3", 14, 18), (7, "h2d", 18, 22), (7, "stream 3", 18, 22),
    ]  # fmt: skip
    instants = [(e["name"], e["track"], e["ts"]) for e in events if e["ph"] == "i"]
    assert instants == [("record event 0", "stream 1", 12), ("wait event 0", "stream 2", 19)]
    # A call's arrow leaves in its last ns, an op's in the last ns of the op. 6 -> 7 share stream and engine.
    assert {(s["cat"], s["ts"], op_at(events, s), f["ts"], op_at(events, f)) for s, f in arrows(events)} == {
        ("issue", 1, 0, 2, 0), ("issue", 5, 2, 17, 2), ("issue", 9, 4, 37, 4),
        ("issue", 11, 5, 41, 5), ("issue", 13, 6, 14, 6), ("issue", 15, 7, 18, 7),
        ("stream order", 11, 0, 17, 2), ("stream order", 36, 2, 41, 5), ("event", 11, 0, 37, 4),
    }  # fmt: skip


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
def test_events_have_their_members_spans_are_apart_each_op_is_there_and_arrows_go_forward(
    schedule: Schedule, device: Device
) -> None:
    """Each copy and kernel is once on its engine and once in its stream."""
    timeline = simulate(schedule, device)
    events, on_track = told(timeline), defaultdict(list)
    for event in events:
        assert set(event) - {"track"} == MEMBERS[event["ph"]]
        assert event.get("ts", 0) >= 0
        assert event.get("bp", "e") == "e"
        if event["ph"] == "X":
            on_track[event["track"]].append((event["ts"], event["ts"] + event["dur"]))
    for of_track in on_track.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(of_track)))
    indexes = Counter(e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index")
    assert set(indexes.values()) == {1}
    found = Counter((op, track.partition(" #")[0], *at) for op, track, *at in spans(events))
    expected: Counter[tuple[int, str, int, int]] = Counter()
    for op, what in enumerate(schedule.ops):
        if isinstance(what, Copy | Kernel):
            rows = timeline.engine_names[timeline.engine[op]], stream_name(what.stream)
            expected.update((op, row, timeline.start[op], timeline.end[op]) for row in rows)
    assert found == expected
    for leaves, arrives in arrows(events):
        assert leaves["ts"] <= arrives["ts"] == timeline.start[later := op_at(events, arrives)]
        earlier = op_at(events, leaves)
        assert earlier == later if leaves["cat"] == "issue" else timeline.end[earlier] <= timeline.start[later]


@given(st.integers(0, IN_100_DAYS_NS), st.integers(1, IN_100_DAYS_NS))
def test_times_are_exact_in_decimal(start: int, length: int) -> None:
    events = told(measured(plan(h2d(1, 10)), ("h2d",), (0, start, start + length)))
    assert spans(events)[0] == (0, "h2d", start, start + length)


# The file


def test_the_file_is_written_as_it_goes_and_packed_if_its_name_says_so(tmp_path: Path) -> None:
    timeline = simulate(depth_first(pipeline_of(1500), 1500, 4), make_device(copy=1, kernel=1))
    path = tmp_path / "trace.json"
    tracemalloc.start()
    write_trace(timeline, path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 4,500 ops make some 3 MB of text; what is held grows by the lanes and indexes only, some 100 bytes an op.
    assert peak < path.stat().st_size / 4
    written = json.loads(path.read_text())
    assert written["displayTimeUnit"] == "ns"
    assert len(written["traceEvents"]) > 7 * 4500
    write_trace(timeline, tmp_path / "t.json.gz")
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()) == path.read_bytes()


@given(schedules(), schedules(), devices())
def test_several_time_lines_are_a_process_each_with_the_tracks_of_one(
    before: Schedule, after: Schedule, device: Device
) -> None:
    """Spans, instants and arrows are those of each alone; no track and no arrow is of two of them."""
    timelines = {'a "name"\n<T>': simulate(before, device), "predicted": simulate(after, device)}
    with TemporaryDirectory() as folder:
        write_traces(timelines, f"{folder}/both.json")
        written = json.loads(Path(folder, "both.json").read_text(), parse_float=Decimal)["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in written if e["name"] == "process_name"}
    assert processes == dict(enumerate(timelines, 1))
    assert set(Counter(tid for _, tid in track_names(written)).values()) <= {1}
    together = read(written)
    assert all(first["pid"] == then["pid"] for first, then in arrows(together))
    for number, timeline in enumerate(timelines.values(), 1):
        own, alone = [event for event in together if event["pid"] == number][2:], told(timeline)[2:]
        assert [of_one(event) for event in own] == [of_one(event) for event in alone]


def of_one(event: Event) -> Event:
    """An event without the numbers that tell time lines apart."""
    numbers = {"pid", "tid", "id"} | ({"args"} if event["name"] == "thread_sort_index" else set())
    return {name: value for name, value in event.items() if name not in numbers}
