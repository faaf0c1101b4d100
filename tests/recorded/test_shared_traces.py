"""Recordings of real programs, where the folder that holds them is there: beside the project, as ../shared/traces.

What is expected of each was counted in its file by other means: SQL for exports, json for Kineto's files. None of them
is part of the project.
"""

import gzip
import json
import sqlite3
import statistics
from functools import cache
from typing import Any

import pytest
from made_recordings import SHARED

from streamsim import recorded
from streamsim.model import simulate

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(not SHARED.is_dir(), reason="no folder ../shared/traces beside the project"),
]

H200 = ("cupy-8-1", "infer-pageable", "infer-pinned-2streams", "infer-pinned-4streams", "infer-pinned-async")
KINETO = [*(f"h200/{name}.json.gz" for name in (*H200, "infer-pinned-blocking")), "public/a100-alexnet.json.gz"]
T4_PINNED, T4_PAGEABLE = "public/t4-4streams-pinned.sqlite", "public/t4-2streams-pageable.sqlite"
CLOVERLEAF, TWO_H100 = "public/a100-cloverleaf.sqlite", "public/h100-2gpu.sqlite"
NSYS = [T4_PINNED, T4_PAGEABLE, CLOVERLEAF, TWO_H100]


@cache
def read(name: str) -> recorded.Recording:
    return recorded.read_recording(SHARED / name)


def sql(name: str, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(f"{(SHARED / name).as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("name", KINETO)
def test_all_that_a_kineto_file_has_is_read(name: str) -> None:
    events = json.loads(gzip.decompress((SHARED / name).read_bytes()))["traceEvents"]
    found = read(name)
    spans = [event for event in events if event["ph"] == "X"]
    calls = [event for event in spans if event["cat"] in ("cuda_runtime", "cuda_driver")]
    work = [event for event in spans if event["cat"] in ("gpu_memcpy", "kernel", "gpu_memset")]
    assert (len(found.calls), len(found.work)) == (len(calls), len(work))
    assert found.work.bytes.sum() == sum(event["args"].get("bytes", 0) for event in work)
    assert (found.work.call >= 0).all()
    names = [found.names[found.calls.name[row]] for row in found.work.call]
    by_id = {event["args"]["correlation"]: event["name"] for event in calls}
    assert sorted(names) == sorted(by_id[event["args"]["correlation"]] for event in work)
    length_us = max(e["ts"] + e["dur"] for e in calls + work) - min(e["ts"] for e in calls + work)
    assert (found.end_ns - found.start_ns) / 1e3 == pytest.approx(length_us, abs=1)
    ids = {event["args"]["stream"] for event in work}
    assert {found.streams[stream].id for stream in found.work.stream} == ids


@pytest.mark.parametrize("name", NSYS)
def test_all_that_an_export_has_is_read(name: str) -> None:
    tables = {row[0] for row in sql(name, "SELECT name FROM sqlite_master")}
    found = read(name)
    assert len(found.calls) == sql(name, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME")[0][0]
    for kind, table in (
        (recorded.WorkKind.COPY, "MEMCPY"),
        (recorded.WorkKind.KERNEL, "KERNEL"),
        (recorded.WorkKind.MEMSET, "MEMSET"),
    ):
        table = f"CUPTI_ACTIVITY_KIND_{table}"
        expected = sql(name, f"SELECT count(*), sum(end - start) FROM {table}")[0] if table in tables else (0, None)
        rows = found.work.rows(found.work.kind == kind)
        assert (len(rows), int((rows.end_ns - rows.start_ns).sum())) == (expected[0], expected[1] or 0)
        if table in tables:
            calls = set(sql(name, "SELECT correlationId, globalTid >> 24 FROM CUPTI_ACTIVITY_KIND_RUNTIME"))
            asked = sql(name, f"SELECT correlationId, globalPid >> 24 FROM {table}")
            assert (rows.call < 0).sum() == sum(key not in calls for key in asked)


def replays() -> dict[tuple[str, int | None], recorded.Replay]:
    """Every recording of the folder on its card's profile, of two cards each taken alone."""
    parts: list[tuple[str, int | None]] = [(name, None) for name in (*KINETO, *NSYS) if name != TWO_H100]
    return {
        part: recorded.replay(recorded.part_of(read(part[0]), part[1]))
        for part in [*parts, (TWO_H100, 0), (TWO_H100, 1)]
    }


def test_recordings_are_replayed_to_three_per_cent() -> None:
    """Against the recorded time, from the call of the first work to the end of the last; the worst to ten.

    Nothing was fitted to them but the pace of pageable copies, which the host of each stages, and where the card has no
    profile the rates of all copies: what the replay takes from a recording and what it predicts is told with it.
    """
    errors = {part: abs(found.error) for part, found in replays().items()}
    assert len(errors) == 12
    assert statistics.median(errors.values()) < 0.03
    assert max(errors.values()) < 0.10, errors


def test_without_what_recording_cost_a_program_takes_its_untraced_time() -> None:
    """On an H200, recorded up to 53 % slower: the median of six to 2 %; the host of one was slow behind its waits."""
    times = json.loads((SHARED / "h200/times.json").read_bytes())
    errors = []
    for name, untraced_times in times.items():
        recording = read(f"h200/{name}.json.gz")
        device = recorded.profile_of(recording)
        timeline = simulate(recorded.without_recording(recording, device).program.schedule, device)
        errors.append(abs(max(timeline.makespan_s, timeline.host_s) / untraced_times["median_s"] - 1))
    assert statistics.median(errors) < 0.02
    assert max(errors) < 0.15
