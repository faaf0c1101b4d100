"""Exports of Nsight Systems: what is read from small files, each with one of the traps that real ones hold."""

from pathlib import Path

import pytest
from made_recordings import PID, PLACED, TID, Export, export, kineto, pipeline, process, unread

from streamsim import recorded


@pytest.fixture
def made() -> Export:
    return export()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.sqlite"


def test_a_pipeline_is_that_of_the_other_format(made: Export, path: Path, tmp_path: Path) -> None:
    """But for names, and what either of them does not say."""
    other = tmp_path / "t.json"
    other.write_text(kineto(*pipeline()))
    ours, theirs = recorded.read_recording(made.write(path)), recorded.read_recording(other)
    for name in ("kind", "start_ns", "end_ns", "correlation", "stream", "event", "record"):
        assert getattr(ours.calls, name).tolist() == getattr(theirs.calls, name).tolist(), name
    for name in ("kind", "start_ns", "end_ns", "call", "bytes", "direction", "memory", "grid", "block", "stream"):
        assert getattr(ours.work, name).tolist() == getattr(theirs.work, name).tolist(), name
    assert ours.names[ours.work.name[1]] == "k(int)"
    assert ours.tool == "Nsight Systems 2024.5.1.113"
    assert ours.annotations.kind.tolist() == [recorded.AnnotationKind.RANGE]
    assert [(thread.process, thread.id) for thread in ours.threads] == [(PID, TID)]
    assert not ours.unread


def test_kinds_of_streams_are_those_of_their_process_and_context(made: Export, path: Path) -> None:
    for flag, stream in ((1, 13), (2, 14), (3, 15)):
        made.add("TARGET_INFO_CUDA_STREAM", streamId=stream, processId=PID, contextId=1, flag=flag)
    made.add("TARGET_INFO_CUDA_STREAM", streamId=13, processId=9, contextId=1, flag=2)
    made.add("TARGET_INFO_CUDA_CONTEXT_INFO", nullStreamId=7, processId=PID, contextId=1)
    for stream in (14, 15, 7, 16):
        made.work("MEMSET", 160_000, 160_001, 99, streamId=stream, bytes=4)
    found = recorded.read_recording(made.write(path))
    kinds = {stream.id: stream.kind for stream in found.streams}
    assert kinds == {13: "blocking", 14: "non-blocking", 15: "legacy", 7: "legacy", 16: "unknown"}


def test_a_wait_goes_with_its_record_and_handles_are_used_again(made: Export, path: Path) -> None:
    """The handle is 5 both times; eventSyncId tells the records apart. deviceId says 0 whatever the card is."""
    for i, (record, wait) in enumerate(((21, 22), (23, 24))):
        made.call("cudaEventRecordWithFlags_v11010", 60_000 + 10 * i, 60_001 + 10 * i, record)
        made.call("cudaStreamWaitEvent_v3020", 60_002 + 10 * i, 60_003 + 10 * i, wait)
        made.work("CUDA_EVENT", 0, 0, record, streamId=13 + i, eventId=5, eventSyncId=100 + i)
        made.work("SYNCHRONIZATION", 60_002, 60_003, wait, streamId=14 - i, syncType=7, eventId=5, eventSyncId=100 + i)
    found = recorded.read_recording(made.write(path))
    calls = found.calls.rows(found.calls.correlation > 20)
    assert [found.streams[stream].id for stream in calls.stream] == [13, 14, 14, 13]
    assert calls.event.tolist() == [5] * 4
    first = found.calls.correlation.tolist().index(21)
    assert calls.record.tolist() == [-1, first, -1, first + 2]
    assert not found.unread


def test_equal_ids_of_two_processes_are_two_calls(made: Export, path: Path) -> None:
    made.call("cudaLaunchKernel_v7000", 300_000, 300_010, 2, pid=7)
    made.work("KERNEL", 300_020, 300_030, 2, pid=7, deviceId=1)
    found = recorded.read_recording(made.write(path))
    assert found.work.call.tolist() == [0, 1, 2, 4]
    assert [found.threads[thread].process for thread in found.calls.thread[[1, 4]]] == [PID, 7]
    assert not found.unread


def test_peer_copies_graphs_and_memsets(made: Export, path: Path) -> None:
    made.work("MEMCPY", 160_001, 160_002, 51, bytes=1, copyKind=10, srcKind=2, dstKind=2)
    made.work("GRAPH_TRACE", 160_003, 160_004, 52, graphId=3, graphExecId=4)
    made.call("cudaGraphLaunch_v10000", 160_000, 160_001, 52)
    made.work("MEMSET", 160_004, 160_005, 53, bytes=16)
    found = recorded.read_recording(made.write(path))
    work = found.work.rows(found.work.start_ns >= 160_000)
    assert work.kind.tolist() == [recorded.WorkKind.COPY, recorded.WorkKind.GRAPH, recorded.WorkKind.MEMSET]
    assert work.direction.tolist() == [recorded.CopyDirection.PEER, 0, 0]
    assert found.calls.kind[work.call[1]] == recorded.CallKind.GRAPH_LAUNCH
    assert not found.unread


def test_tables_are_there_only_if_something_was_recorded(made: Export, path: Path) -> None:
    full = recorded.read_recording(made.write(path))
    for table in ("SYNCHRONIZATION", "NVTX_EVENTS", "KERNEL", "MEMCPY"):
        del made.rows[table]
        found = recorded.read_recording(made.write(path))
        assert len(found.calls) == len(full.calls)
    assert len(found.work) == len(found.annotations) == 0


@pytest.mark.parametrize("column", ["contextId", "gridX", "eventSyncId", "srcKind"])
def test_columns_that_some_versions_lack(column: str, made: Export, path: Path) -> None:
    assert len(recorded.read_recording(made.write(path, without=(column,))).work) == 3


def test_a_wait_of_exports_without_sync_ids_is_for_the_last_record_of_its_event(made: Export, path: Path) -> None:
    """Of the same handle in the same process, in 2022 to 2024."""
    for k, (name, event) in enumerate(
        [
            *(("cudaEventRecord", 5), ("cudaEventRecord", 6), ("cudaStreamWaitEvent", 5), ("cudaEventRecord", 5)),
            *(("cudaEventSynchronize", 5), ("cudaStreamWaitEvent", 7)),
        ]
    ):
        made.call(f"{name}_v3020", 160_000 + k, 160_000 + k, 10 + k)
        table = "CUDA_EVENT" if "Record" in name else "SYNCHRONIZATION"
        made.add(table, **PLACED, globalPid=process(PID), correlationId=10 + k, eventId=event)
    found = recorded.read_recording(made.write(path, without=("eventSyncId",)))
    assert found.calls.record.tolist()[-6:] == [-1, -1, 4, -1, 7, -1]
    assert unread(found) == {"waits whose event's record is not known": 1}


def test_values_that_are_no_numbers_lose_their_row_only(made: Export, path: Path) -> None:
    for wrong in (None, "x", b"\xff", 1.5):
        made.work("KERNEL", wrong, 2, 1)
    made.work("KERNEL", 170_000, 170_001, 1, gridX="x", gridY=-5)
    made.work("MEMCPY", 3, 1, 1, bytes=1, copyKind=1)
    made.work("MEMCPY", 170_000, 170_001, 1, bytes=-1, copyKind=1, srcKind=1)
    found = recorded.read_recording(made.write(path))
    assert found.work.grid[-2].tolist() == [0, 0, 0]
    assert unread(found) == {
        "rows of CUPTI_ACTIVITY_KIND_KERNEL without a needed number": 4,
        "records that end before they start": 1,
        "copies and memsets of fewer than 0 bytes": 1,
    }


def test_text_that_is_not_utf_8_is_read_all_the_same(made: Export, path: Path) -> None:
    made.call(b"cuda\xff", 160_000, 160_001, 9)
    found = recorded.read_recording(made.write(path))
    assert "cuda\ufffd" in found.names


def test_ranges_have_their_text_or_its_number_and_marks_are_counted(made: Export, path: Path) -> None:
    where = {"globalTid": process(PID) | TID, "start": 5, "text": None, "textId": None}
    made.add("NVTX_EVENTS", **{**where, "end": 6, "eventType": 60, "textId": made.string("by its number")})
    made.add("NVTX_EVENTS", **{**where, "end": None, "eventType": 34, "text": "a mark"})
    made.add("NVTX_EVENTS", **{**where, "end": 7, "eventType": 59})
    found = recorded.read_recording(made.write(path))
    names = {found.names[name] for name in found.annotations.name}
    assert names == {"step", "by its number", "a range without a name"}


# Bad files


def test_views_are_not_there(made: Export, path: Path) -> None:
    """They would run what the file says, here without end."""
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x AS start, x AS end FROM n"
    made.others = [f"CREATE VIEW CUPTI_ACTIVITY_KIND_MEMSET AS {endless}"]
    assert len(recorded.read_recording(made.write(path)).work) == 3


def test_exports_of_2020_name_versions_and_a_cards_number_otherwise(made: Export, path: Path) -> None:
    made.meta = "EXPORT_META_DATA"
    made.add("TARGET_INFO_GPU", deviceId=0, name="NVIDIA GeForce RTX 3080")
    found = recorded.read_recording(made.write(path))
    assert (found.cards[0].id, found.cards[0].name) == (0, "NVIDIA GeForce RTX 3080")
    assert found.tool == "Nsight Systems 2024.5.1.113"
