"""Kineto's JSON: what is read from small files, each with one of the traps that real ones hold."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from made_recordings import call, copy, kernel, kineto, pipeline, recording_of, span, unread

from streamsim.recorded import (
    NONE,
    AnnotationKind,
    CallKind,
    CopyDirection,
    CopyMemory,
    WorkKind,
    read_recording,
)
from streamsim.recorded import kineto as decoding

WITHOUT_WORK = "copies, memsets and launches without work"


def test_a_pipeline_is_read_whole() -> None:
    found = recording_of(*pipeline())
    calls, work = found.calls, found.work
    assert [found.names[name] for name in calls.name] == [
        "cudaMemcpyAsync",
        "cudaLaunchKernel",
        "cudaMemcpyAsync",
        "cudaStreamSynchronize",
    ]
    kinds = [CallKind.COPY_ASYNC, CallKind.LAUNCH, CallKind.COPY_ASYNC, CallKind.SYNCHRONIZE_STREAM]
    assert calls.kind.tolist() == kinds
    assert calls.start_ns.tolist() == [10_000, 20_000, 40_000, 50_000]
    assert calls.end_ns.tolist() == [15_000, 30_000, 45_000, 150_000]
    assert work.kind.tolist() == [WorkKind.COPY, WorkKind.KERNEL, WorkKind.COPY]
    assert work.call.tolist() == [0, 1, 2]
    assert work.bytes.tolist() == [1 << 20, 0, 1 << 20]
    assert work.direction.tolist() == [CopyDirection.H2D, CopyDirection.NONE, CopyDirection.D2H]
    assert work.memory.tolist() == [CopyMemory.PINNED, CopyMemory.NONE, CopyMemory.PINNED]
    assert work.grid.tolist() == [[0, 0, 0], [8, 2, 1], [0, 0, 0]]
    assert work.block.tolist()[1] == [128, 1, 1]
    assert calls.stream.tolist() == [0, 0, 0, 0]  # of the work, and what the synchronisation waits for
    assert (found.streams[0].id, found.streams[0].kind) == (7, "legacy")
    assert found.annotations.kind.tolist() == [AnnotationKind.RANGE, AnnotationKind.OP]
    assert (found.cards[0].name, found.cards[0].memory_bytes) == ("a card", 1 << 30)
    assert not found.unread


def test_the_same_packed_by_any_name_from_a_pipe_or_behind_a_byte_order_mark(tmp_path: Path) -> None:
    text = kineto(*pipeline()).encode()
    files = {
        "t.json": text,
        "t.json.gz": gzip.compress(text),
        "t.sqlite": gzip.compress(text),
        "t": b"\xef\xbb\xbf" + text,
    }
    files["two members"] = gzip.compress(text[:700]) + gzip.compress(text[700:])
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    first, *others = [read_recording(tmp_path / name) for name in files]
    assert others == [first] * len(others)


def test_names_with_braces_and_quotes_however_many_events_are_decoded_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nasty = span("cpu_op", 'a}, {"b": [1]}, {\\" \\\\', 5, 1, shapes=[{"a": 1}, {"a": {"b": 2}}])
    expected = recording_of(*pipeline(), nasty, kernel(150, 1, 9, name=nasty["name"] * 20))
    assert expected.names.count(nasty["name"]) == 1
    monkeypatch.setattr(decoding, "AT_ONCE", 3)
    assert recording_of(*pipeline(), nasty, kernel(150, 1, 9, name=nasty["name"] * 20)) == expected


@pytest.mark.parametrize(
    ("name", "direction", "memory"),
    [
        ("Memcpy HtoD (Pinned -> Device)", CopyDirection.H2D, CopyMemory.PINNED),
        ("Memcpy HtoD (Pageable -> Device)", CopyDirection.H2D, CopyMemory.PAGEABLE),
        ("Memcpy HtoD (Host -> Device)", CopyDirection.H2D, CopyMemory.UNKNOWN),  # AMD
        ("CopyHostToDevice", CopyDirection.H2D, CopyMemory.UNKNOWN),
        ("Memcpy DtoD (Device -> Device)", CopyDirection.D2D, CopyMemory.NONE),
        ("Memcpy PtoP (Device -> Device)", CopyDirection.PEER, CopyMemory.NONE),
        ("Memcpy HtoD (Managed -> Device)", CopyDirection.UNIFIED, CopyMemory.NONE),
        ("something else", CopyDirection.OTHER, CopyMemory.UNKNOWN),
    ],
)
def test_what_only_the_name_of_a_copy_says(name: str, direction: int, memory: int) -> None:
    work = recording_of(copy(name, 1, 1, 1)).work
    assert (work.direction[0], work.memory[0]) == (direction, memory)


def test_amd_s_calls_have_bytes_as_text_and_their_cards_other_numbers() -> None:
    """The card listed as 0 is called 2 by its work; a copy with a stream of its own is blocking all the same.

    A launch has the shape of its kernel.
    """
    events = [call("hipMemcpyWithStream", 0, 30, 1, bytes="1048576", kind="1"), call("hipFree", 40, 5, 2)]
    events.append(copy("Memcpy HtoD (Host -> Device)", 5, 20, 1))
    events[-1]["args"] |= {"device": 2, "bytes": "1048576"}
    events += [call("hipLaunchKernel", 50, 5, 3, grid=[7, 2, 1], block=[64, 1, 1]), kernel(60, 5, 3)]
    events[-1]["args"] |= {"device": 2}
    del events[-1]["args"]["grid"], events[-1]["args"]["block"]
    found = recording_of(*events)
    assert found.calls.kind.tolist() == [CallKind.COPY, CallKind.FREE, CallKind.LAUNCH]
    assert (found.work.bytes.tolist(), found.work.call.tolist()) == ([1 << 20, 0], [0, 2])
    assert (found.work.grid[1].tolist(), found.work.block[1].tolist()) == ([7, 2, 1], [64, 1, 1])
    assert [(card.id, card.name, card.multiprocessors) for card in found.cards] == [(2, "a card", 4)]
    assert not found.unread


def test_a_time_since_1970_is_exact(tmp_path: Path) -> None:
    """As a float 1695835542514261.123 us would be off by 0.127 us."""
    text = kineto(call("cudaMalloc", 0, 1), call("cudaFree", 1, 1))
    text = text.replace('"ts": 0', '"ts": 1695835542514261.123').replace('"ts": 1,', '"ts": 1695835542514262.124,')
    (tmp_path / "t").write_text(text)
    assert read_recording(tmp_path / "t").calls.start_ns.tolist() == [0, 1001]


def wait(correlation: int, record: int, stream: int, on: int, event: int = 5) -> dict[str, Any]:
    names = {"stream": stream, "correlation": correlation, "wait_on_stream": on, "wait_on_cuda_event_id": event}
    names["wait_on_cuda_event_record_corr_id"] = record
    return span("cuda_sync", "Stream Wait Event", 0, 1, 0, stream, device=0, context=1, **names)


def test_a_wait_tells_in_which_stream_its_event_was_recorded() -> None:
    found = recording_of(
        call("cudaEventRecord", 1, 1, 11),
        call("cudaStreamWaitEvent", 3, 1, 12),
        call("cudaEventRecord", 5, 1, 13),  # the same handle again
        call("cudaStreamWaitEvent", 7, 1, 14),
        wait(12, 11, stream=20, on=13),
        wait(14, 13, stream=13, on=20),
    )
    calls = found.calls
    ids = [found.streams[stream].id for stream in calls.stream]
    assert ids == [13, 20, 20, 13]
    assert calls.event.tolist() == [5] * 4
    assert calls.record.tolist() == [-1, 0, -1, 2]
    assert not found.unread


@pytest.mark.parametrize("name", ["cudaGetLastError_v3020", "cudaEventSynchronize", "cudaEventRecord"])
def test_work_of_a_call_that_puts_none_on_a_card_has_no_call(name: str) -> None:
    """As of a recorder that was told to record no more calls: it gives later work the id of the last one."""
    found = recording_of(call("cudaLaunchKernel", 1, 5, 1), kernel(8, 1, 1), call(name, 9, 1, 2), kernel(20, 1, 2))
    assert found.work.call.tolist() == [0, NONE]
    assert unread(found)["work of calls that put none on a card"] == 1


def wrong_fields() -> list[dict[str, Any]]:
    """Kernels with a field of another type each."""
    wrong = [kernel(200, 1, 1) for _ in range(4)]
    wrong[0]["args"]["grid"] = [1, 2]
    wrong[1]["args"]["correlation"] = "x"
    wrong[2]["args"] = 5
    wrong[3]["args"]["grid"] = [1 << 70, 1, 1]
    return wrong


COUNTED: dict[str, tuple[list[dict[str, Any]], int, dict[str, int]]] = {  # events, pieces of work left, what is counted
    "ids that lead nowhere: -1 as Kineto leaves it, a later record, itself, a call that records nothing": (
        [
            call("cudaMalloc", 0, 1, 10),
            *(call("cudaStreamWaitEvent", t, 1, 10 + t) for t in (1, 2, 3, 4)),
            call("cudaEventRecord", 5, 1, 15),
            *(wait(11 + k, record, 20, 13) for k, record in enumerate((-1, 15, 13, 10))),
            wait(99, 15, 20, 13),
        ],
        0,
        {"waits whose event's record is not known": 4, "stream and event records without a call": 1},
    ),
    "the driver's call inside the runtime's; an id that comes again": (
        [
            span("cuda_driver", "cuLaunchKernel", 2, 3, correlation=1),
            *(call("cudaLaunchKernel", 1, 5, 1), call("cudaLaunchKernel", 9, 1, 1), kernel(8, 1, 1)),
        ],
        1,
        {"calls recorded again under a second name": 1, "calls whose correlation id is taken": 1, WITHOUT_WORK: 1},
    ),
    "times that cannot be": (
        [
            *(call("cudaLaunchKernel", 10, 5, 1), kernel(5, 1, 1), kernel(20, -1, 2)),
            kernel(1e15, 1, 3),  # 30 years later
            *({**kernel(0, 1, 4), "ts": "NaN"}, kernel("nan", 1, 5), {**kernel(0, 1, 6), "dur": None}),
        ],
        1,
        {
            "records that end before they start": 1,
            "records with times far from all others": 1,
            "events without a time": 3,
        },
    ),
    "fields of another type": (
        [*pipeline(), *wrong_fields()],
        3,
        {"events with a field that is no number or text": 4},
    ),
    "what it does not know; arrows, marks and what says nothing more are not counted": (
        [
            *pipeline(),
            {"ph": "s", "id": 1, "pid": 0, "tid": 7, "ts": 1, "cat": "ac2g", "name": "ac2g"},
            {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 9},
            {"ph": "B", "name": "x", "cat": "other", "pid": 1, "tid": 1, "ts": 1},
            *(span("mtia_runtime", "x", 1, 1), span("fwdbwd", "x", 1, 1)),
        ],
        3,
        {"events of category begun and ended apart (B)": 1, "events of category 'mtia_runtime'": 1},
    ),
    "equal ids of two processes: a card's record does not say whose it is": (
        [call("cudaLaunchKernel", 0, 1, 1), call("cudaLaunchKernel", 1, 1, 1, pid=7), kernel(5, 1, 1)],
        1,
        {"work that may be of several processes": 1, WITHOUT_WORK: 2},
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_not_understood_is_counted(name: str) -> None:
    events, work, counts = COUNTED[name]
    found = recording_of(*events)
    assert (len(found.work), unread(found)) == (work, counts)
    assert set(found.calls.record.tolist()) <= {NONE}


def test_numbers_that_json_lacks_and_text_that_is_not_utf_8(tmp_path: Path) -> None:
    text = kineto(*pipeline(), kernel(160, 1, 9, name="XX", blocks_of_per=0.25))
    data = text.replace("0.25", "inf").encode().replace(b"XX", b"a\xffb")
    (tmp_path / "t").write_bytes(data)
    found = read_recording(tmp_path / "t")
    assert found.names[found.work.name[-1]] == "a\ufffdb"
    assert unread(found) == {"text that is no JSON": 1}


def test_names_of_steps_and_what_was_to_be_recorded() -> None:
    events = (*pipeline(), span("user_annotation", "ProfilerStep#3", 5, 10))
    found = recording_of(*events, record_shapes=1, with_stack=1)
    assert AnnotationKind.STEP in found.annotations.kind
    assert found.tool == "PyTorch profiler, with shapes and stack"


def test_files_of_older_versions_have_other_categories() -> None:
    """Those of PyTorch 1.8 to 1.12: the same recording."""
    now = recording_of(*pipeline())
    older = {"cuda_runtime": "Runtime", "gpu_memcpy": "Memcpy", "kernel": "Kernel", "cpu_op": "Operator"}
    events = [{**event, "cat": older.get(event["cat"], event["cat"])} for event in pipeline()]
    assert recording_of(*events) == now
