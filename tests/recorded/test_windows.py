"""Parts of a recording: which calls and which work belong to a card, a process, a window."""

from pathlib import Path
from typing import Any

import pytest
from made_recordings import PID, PINNED_IN, TID, call, copy, export, kernel, recording_of, span

from streamsim.recorded import Recording, part_of, read_recording

# Two steps of a copy and a kernel. The second step's copy runs beside the first's kernel, as prefetching does; the
# first's kernel runs into the second step.
EVENTS = [
    span("user_annotation", "all", 0, 100),
    span("user_annotation", "ProfilerStep#1", 0, 40),
    call("cudaMemcpyAsync", 2, 3, 1),
    call("cudaLaunchKernel", 10, 3, 2),
    copy(PINNED_IN, 6, 10, 1),
    kernel(20, 30, 2),
    span("user_annotation", "ProfilerStep#2", 40, 40),
    span("user_annotation", "load", 40, 10),
    call("cudaMemcpyAsync", 42, 3, 3),
    call("cudaLaunchKernel", 50, 3, 4),
    copy(PINNED_IN, 46, 10, 3),
    kernel(60, 30, 4),
    span("user_annotation", "load", 90, 10),
    call("cudaDeviceSynchronize", 95, 5, 5),
]
OUTSIDE = "work whose call lies outside the window"


@pytest.fixture
def recording() -> Recording:
    return recording_of(*EVENTS)


def starts(recording: Recording) -> tuple[list[int], list[int]]:
    """Of calls and work, in microseconds."""
    return (recording.calls.start_ns // 1000).tolist(), (recording.work.start_ns // 1000).tolist()


@pytest.mark.parametrize(
    ("window", "calls", "work", "outside"),
    [
        ("all", [2, 10, 42, 50, 95], [6, 20, 46, 60], 0),
        ("ProfilerStep#1", [2, 10], [6, 20], 0),  # its kernel ends in the next step, and is its own all the same
        ("ProfilerStep#2", [42, 50], [46, 60], 1),
        ("load", [42], [46], 1),
        ("load[1]", [42], [46], 1),
        ("load[2]", [95], [], 0),
        ("10us..42us", [10], [20], 1),  # from its beginning, without its end; the copy ends at 16
        ("0..1ms", [2, 10, 42, 50, 95], [6, 20, 46, 60], 0),
    ],
)
def test_a_window_has_the_calls_that_begin_in_it_and_their_work(
    window: str, calls: list[int], work: list[int], outside: int, recording: Recording
) -> None:
    found = part_of(recording, window=window)
    assert starts(found) == (calls, work)
    assert found.work.call.tolist() == [found.calls.correlation.tolist().index(t) for t in found_ids(found)]
    assert {unread.what: unread.count for unread in found.unread} == ({OUTSIDE: outside} if outside else {})


def found_ids(recording: Recording) -> list[int]:
    """The correlation of each work's call, by where the work stands in the file."""
    return [{6: 1, 20: 2, 46: 3, 60: 4}[start] for start in starts(recording)[1]]


def test_the_first_copy_or_launch_is_left_out_with_all_before_it(recording: Recording) -> None:
    found = part_of(recording, skip_first=True)
    assert starts(found) == ([10, 42, 50, 95], [20, 46, 60])
    assert [(unread.what, unread.count) for unread in found.unread] == [
        ("work whose call lies outside what --skip-first leaves", 1)
    ]


def test_processes_and_cards(tmp_path: Path) -> None:
    """Each process uses its own card, with the same ids; times of the second are 1 ms later."""
    made = export()
    for table, rows in list(made.rows.items()):
        for row in list(rows):
            other: dict[str, Any] = {**row, "start": row["start"] + 10**6, "end": row["end"] + 10**6}
            for name in ("globalPid", "globalTid"):
                if name in row:
                    other[name] = row[name] + ((7 - PID) << 24)
            made.add(table, **other | ({"deviceId": 1} if "deviceId" in row else {}))
    both = read_recording(made.write(tmp_path / "t.sqlite"))
    alone = read_recording(export().write(tmp_path / "t.sqlite"))
    for first in (part_of(both, card=0), part_of(both, process=PID), part_of(both, 0, PID)):
        assert starts(first) == starts(alone)
        assert first.work.call.tolist() == alone.work.call.tolist()
        assert len(first.annotations) == len(alone.annotations)
    second = part_of(both, card=1)
    assert (second.calls.start_ns - 10**6).tolist() == alone.calls.start_ns.tolist()
    assert {second.threads[thread].id for thread in second.calls.thread} == {TID}
