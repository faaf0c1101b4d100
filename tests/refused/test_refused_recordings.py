"""What recordings are refused for: files of Kineto, Nsight Systems, CUPTI and others, parts and times."""

import gzip
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from made_recordings import Export, capture, export, kernel, kineto, pipeline
from msgspec.structs import replace
from perfect_profiler import profiled
from refusals import refusal
from strategies import d2h, h2d, make_device, plan

from streamsim.model import simulate
from streamsim.program import Synchronize, dump_schedule, parse_schedule
from streamsim.recorded import (
    Recording,
    builder,
    part_of,
    program_of,
    read,
    read_recording,
    without_recording,
    write_recording,
)

KINETO = kineto(*pipeline()).encode()


def with_line(line: bytes, place: int) -> bytes:
    """A capture with another line at ``place``."""
    lines = capture().encode().splitlines()
    return b"\n".join([*lines[:place], line, *lines[place + 1 :]])


def damaged() -> list[bytes]:
    """The pipeline's file, packed, cut short or with other bytes."""
    packed = gzip.compress(KINETO)
    middle = len(packed) // 2
    flipped = packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :]
    return [packed[:-9], packed[:middle], packed[:-3], flipped, packed[:-8] + b"\0" * 8]


# The bytes of files, and what is said behind their names
BYTES: list[tuple[bytes, str]] = [
    (b"", "is empty; give a trace of the PyTorch profiler"),
    (b'{"streams":["blocking"],"ops":[]}', "is a schedule, for `streamsim predict`; give a trace of the PyTorch pro"),
    (b'{"traceEvents": []}', "has no CUDA calls, copies or kernels; record with activities="),
    (b'{"traceEvents": [{"ph": "X"}, {"ph" "X"}, {"ph": "X"}]}', "is malformed ...byte 36"),
    (b'{"traceEvents": [{"x": ' + b"[" * 100_000, "is nested too deeply"),
    *((data, "its gzip data is damaged or cut short") for data in damaged()),
    (with_line(b'{"streamsim_capture": 2}', 0), "is of version 2, and 1 is read"),
    (
        with_line(b'{"table": "contexts", "columns": {"context":[1],"device":[0,1],"null_stream":[7]}}', 5),
        "line 6: ...several lengths",
    ),
    (with_line(b'{"table": "streams", "columns": {"context":["x"]}}', 5), "line 6: Expected `int`, got `str`"),
    (with_line(b'\xff{"names": []}', 5), "line 6: "),
]
FAULTS = "CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start, globalPid, end AS (length(zeroblob({}))), deviceId)"
EXPORTS: list[tuple[Callable[[Export], object], str]] = [
    (lambda made: made.rows.clear(), "has no CUDA calls, copies or kernels; record with: nsys profile"),
    # A column that computes a gigabyte is as good as not there.
    (lambda made: made.others.append(FAULTS.format(1 << 30)), "table CUDA_UM_GPU_PAGE_FAULT_EVENTS has no column end"),
    (lambda made: made.others.append("CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (x)"), "table ...no column start"),
    (lambda made: made.call("x" * (1 << 21), 1, 2, 9), "is damaged or cut short"),  # longer than any name
]


def exported(change: Callable[[Export], object], path: Path) -> None:
    made = export()
    change(made)
    made.write(path)


def no_export(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE x (y)")


def packed_export(path: Path) -> None:
    path.write_bytes(gzip.compress(export().write(path).read_bytes()))


FILES: list[tuple[str, bytes | Callable[[Path], object], str]] = [
    *(("t", data, said) for data, said in BYTES),
    *(("t", partial(exported, change), said) for change, said in EXPORTS),
    *(
        ("t", partial(export().write, without=(column,)), f"table ...has no column {column}; export it again: nsys")
        for column in ("start", "correlationId", "copyKind", "globalTid")
    ),
    ("t", no_export, "is an SQLite file, but no export of Nsight Systems; export it"),
    ("t", packed_export, "is a packed SQLite file; unpack it"),
    # Of other profilers, which their names or contents tell
    ("t.json", b'{"rocprofiler-sdk-tool": []}', "is a file of rocprof; of AMD's cards, traces"),
    ("t.csv", b'"Kind","Agent_Id","Queue_Id"\n', "is a file of rocprof; "),
    ("t.nvvp", no_export, "is a profile of nvprof"),
    ("t.xplane.pb", b"PK\x03", "is a profile of JAX or TensorFlow (XPlane); "),
    ("t.NVVP", b"PK\x03", "is a profile of nvprof"),
    ("r.nsys-rep", b"whatever", "...nsys export --type sqlite "),
]


@pytest.mark.parametrize(("name", "holds", "said"), FILES, ids=range(len(FILES)))
def test_a_file_is_refused_in_one_line(
    name: str, holds: bytes | Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(holds) if isinstance(holds, bytes) else holds(path)
    refusal(partial(read_recording, path), f"{path}: {said}")


@pytest.mark.parametrize("kind", ["capture", "packed capture", "export"])
def test_a_file_that_is_cut_short_anywhere_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = export().write(path).read_bytes() if kind == "export" else capture().encode()
    data = gzip.compress(data) if kind == "packed capture" else data
    for size in range(0, len(data) - 1, {"capture": 97, "packed capture": 31, "export": 1024}[kind]):
        path.write_bytes(data[:size])
        refusal(partial(read_recording, path), f"{path}: ")


NAMES = [kernel(i, 1, i, name=f"{i}" + "x" * 5000) for i in range(300)]
LIMITS: list[tuple[object, str, int, bytes, str]] = [  # made small
    (builder, "MOST_RECORDS", 5, KINETO, "has over 5 records; record a shorter part"),
    (builder, "MOST_NAME_BYTES", 1 << 20, kineto(*NAMES).encode(), "has over 1 MiB of names; record a shorter part"),
    (read, "MOST_UNPACKED_BYTES", 1 << 21, gzip.compress(b'{"traceEvents": [' + b"{}," * (1 << 20), 1), "...record"),
]


@pytest.mark.parametrize(("module", "limit", "most", "data", "said"), LIMITS, ids=range(len(LIMITS)))
def test_size_is_bounded(
    module: object, limit: str, most: int, data: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, most)
    path = tmp_path / "t"
    path.write_bytes(data)
    refusal(partial(read_recording, path), f"{path}: {said}")


# Parts of recordings, and times in the files of schedules


def two_cards(folder: Path) -> Recording:
    """The pipeline, and one of another process on another card."""
    made = export()
    made.call("cudaMemcpyAsync_v3020", 500_000, 500_010, 9, pid=7)
    made.work("MEMCPY", 500_020, 500_030, 9, pid=7, deviceId=1, bytes=1 << 20, copyKind=1, srcKind=1, dstKind=2)
    return read_recording(made.write(folder / "t.sqlite"))


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    recording = two_cards(tmp_path)
    for said, part in {
        "--window = 'step[2]': there are 1 of that name": {"window": "step[2]"},
        "--window = '5us..2us': expected the earlier time first": {"window": "5us..2us"},
        "--gpu = 2: not in the recording; it has 0, 1": {"card": 2},
        "--gpu 1, --process 420: no call and no work is in it": {"card": 1, "process": 420},
    }.items():
        refusal(partial(part_of, recording, **part), said)  # type: ignore[arg-type]
    refusal(partial(program_of, recording), "the recording has work on 2 cards: choose one with --gpu (0, 1)")


def with_times(times: str) -> object:
    text = dump_schedule(plan(h2d(1, 5), d2h(1, 5), streams=1)).decode()
    return parse_schedule(text.replace("]}\n", '],"recorded":{' + times + "}}").encode())


TIMES = '"issued_ns":[%s],"returned_ns":[%s],"start_ns":[%s],"end_ns":[%s]'
LANES = ',"lanes":[{"name":"x","start_ns":[0,1],"end_ns":[2,3]}]'
COPIED = profiled(simulate(plan(h2d(1, 4), Synchronize()), make_device()))
WITHOUT_WORK = replace(COPIED, work=COPIED.work.rows(COPIED.work.kind < 0))
WITHOUT_CALLS = replace(WITHOUT_WORK, calls=COPIED.calls.rows(COPIED.calls.kind < 0))
GRAPH = simulate(replace(plan(h2d(1, 4)), launch="graph"), make_device())
VALUES: list[tuple[Callable[[], object], str]] = [
    (lambda: with_times(TIMES % (0, 1, 1, 2)), "schedule: recorded: has times of 1 ops; there are 2"),
    (
        lambda: with_times(TIMES % (3, 1, 1, 2)),
        "schedule: recorded.issued_ns[0], returned_ns[0] = 3, 1: expected times from",
    ),
    (
        lambda: with_times(TIMES % (-2, 1, 1, 2)),
        "schedule: recorded.issued_ns[0], returned_ns[0] = -2, 1: expected times from",
    ),
    (
        lambda: with_times(TIMES % ("", "", "", "") + LANES),
        "schedule: recorded.lanes[0].start_ns, end_ns: expected spans one after the other",
    ),
    (lambda: program_of(WITHOUT_WORK), "1 calls put work on the card, and nothing of the card is recorded; record"),
    (lambda: program_of(WITHOUT_CALLS), "no call of the recording issued a copy or a kernel"),
    (lambda: without_recording(COPIED, make_device(), 0), "untraced_s = 0: expected a time above zero"),
    (lambda: write_recording(GRAPH, "none/t.json"), "a recording is written of a simulated program that issues its"),
]


@pytest.mark.parametrize(("make", "said"), VALUES, ids=range(len(VALUES)))
def test_a_value_is_refused_in_one_line(make: Callable[[], object], said: str) -> None:
    refusal(make, said)
