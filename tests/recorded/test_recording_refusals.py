"""What the room refuses, commands, files and values: one line that begins with what is wrong, and no file."""

import gzip
import re
import sqlite3
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from made_recordings import Export, capture, export, kernel, kineto, pipeline
from msgspec.structs import replace
from perfect_profiler import recorded
from strategies import d2h, h2d, make_device, program

from streamsim.cli import main
from streamsim.device import RecorderCost
from streamsim.errors import InputError
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

COMMANDS = [  # in a folder with a recording of the pipeline, t.json
    ("explain t.json --gpu 3", "--gpu = 3: not in the recording; it has 0"),
    ("explain t.json --window stop", "--window = 'stop': no annotation has this name (--list; or times"),
    ("explain t.json --window 9s..10s", "--window 9s..10s: no call and no work is in it"),
    ("explain t.json --untraced-time fast", "--untraced-time = 'fast': expected a time"),
    ("explain t.json --trace t.json", "--trace t.json: is the file that is read; give another name"),
]


@pytest.mark.parametrize(("line", "said"), COMMANDS)
def test_a_command_says_in_one_line_what_is_wrong(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.json").write_text(kineto(*pipeline()))
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.removeprefix("streamsim: error: ").startswith(said)
    assert [path.read_text() for path in tmp_path.iterdir()] == [kineto(*pipeline())]


# Files: their bytes, or what writes them, and what is said behind their names

KINETO = [
    ("", "is empty; give a trace of the PyTorch profiler"),
    ("{}", "has no list traceEvents"),
    (
        '{"streams":["blocking"],"ops":[]}',
        "is a schedule, for `streamsim predict`; give a trace of the PyTorch profiler",
    ),
    ('{"traceEvents": []}', "has no CUDA calls, copies or kernels; record with activities="),
    ('{"traceEvents": [{"ph": "X"}, {"ph" "X"}, {"ph": "X"}]}', "is malformed .*byte 36"),
    ('{"traceEvents": [{"x": ' + "[" * 100_000, "is nested too deeply"),
]
HEADS = [  # of a capture
    (b'{"streamsim_capture": 2}', "is of version 2, and 1 is read"),
    (b'{"streamsim_capture": 1', "line 1: Input data was truncated"),
]
LINES = [  # the sixth of a capture
    (b'{"table": "calls", "columns": {"start": [1]}}', "table calls has no column end"),
    (b'{"table": "contexts", "columns": {"context":[1],"device":[0,1],"null_stream":[7]}}', ".*several lengths"),
    (b'{"table": "streams", "columns": {"context":["x"]}}', "Expected `int`, got `str`"),
    (b"[" * 100_000, ""),
    (b'\xff{"names": []}', ""),
]
EXPORTED: list[tuple[Callable[[Export], object], str]] = [
    (lambda made: made.rows.clear(), "has no CUDA calls, copies or kernels; record with: nsys profile"),
    (
        # A column that computes a gigabyte is as good as not there.
        lambda made: made.others.extend(
            (
                "CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS"
                " (start, globalPid, end AS (length(zeroblob(1000000000))), deviceId)",
                "INSERT INTO CUDA_UM_GPU_PAGE_FAULT_EVENTS VALUES (1, 2, 3)",
            )
        ),
        "table CUDA_UM_GPU_PAGE_FAULT_EVENTS has no column end",
    ),
    (lambda made: made.others.append("CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (x)"), "table .* has no column start"),
    (lambda made: setattr(made, "meta", "another"), "is an SQLite file, but no export of Nsight Systems; export it"),
    (lambda made: made.call("x" * (1 << 21), 1, 2, 9), "is damaged or cut short"),  # longer than any name
]
NEEDED = ("start", "end", "correlationId", "streamId", "deviceId", "copyKind", "globalTid")


# Files of other profilers, which their names tell
ROCPROF, NVPROF = "is a file of rocprof; of AMD's cards, traces", "is a profile of nvprof"
OTHERS = {"t.rocpd": ROCPROF, "t.xplane.pb": "is a profile of JAX or TensorFlow (XPlane); ", "t.NVVP": NVPROF}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_profilers_are_told_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK\x03")
    refused(path, re.escape(OTHERS[name]))
    assert main(["explain", str(path)]) == 2
    assert capsys.readouterr().err.partition(": error: ")[2].startswith(f"{path}: {OTHERS[name]}")


def with_line(line: bytes, place: int) -> bytes:
    """A capture with another line at ``place``."""
    lines = capture().encode().splitlines()
    return b"\n".join([*lines[:place], line, *lines[place + 1 :]])


def damaged() -> list[bytes]:
    packed = gzip.compress(kineto(*pipeline()).encode())
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    wrong_sum = packed[:-8] + b"\0" * 8
    return [packed[:-9], packed[: len(packed) // 2], packed[:-3], bytes(flipped), wrong_sum]


def exported(path: Path, change: Callable[[Export], object], packed: bool = False) -> None:
    made = export()
    change(made)
    if made.meta == "another":  # no table of an export
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE x (y)")
        connection.close()
        return
    made.write(path)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))


FILES: list[tuple[bytes | Callable[[Path], object], str]] = [
    *((text.encode(), said) for text, said in KINETO),
    *((data, "its gzip data is damaged or cut short") for data in damaged()),
    *((with_line(line, 0), said) for line, said in HEADS),
    *((with_line(line, 5), f"line 6: {said}") for line, said in LINES),
    *((partial(exported, change=change), said) for change, said in EXPORTED),
    (partial(exported, change=lambda _: None, packed=True), "is a packed SQLite file; unpack it"),
    *(
        (
            lambda path, column=column: export().write(path, without=(column,)),
            f"table .* has no column {column}; export it again: nsys",
        )
        for column in NEEDED
    ),
]


@pytest.mark.parametrize(("file", "said"), FILES, ids=range(len(FILES)))
def test_a_file_is_refused_in_one_line(file: bytes | Callable[[Path], object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(file) if isinstance(file, bytes) else file(path)
    refused(path, said)


def refused(path: Path, said: str = "") -> None:
    with pytest.raises(InputError) as caught:
        read_recording(path)
    assert str(caught.value).isprintable()
    assert re.match(f"{re.escape(str(path))}: {said}", str(caught.value)), str(caught.value)


@pytest.mark.parametrize("kind", ["capture", "packed capture", "export"])
def test_a_file_that_is_cut_short_anywhere_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = export().write(path).read_bytes() if kind == "export" else capture().encode()
    data = gzip.compress(data) if kind == "packed capture" else data
    for size in range(0, len(data) - 1, {"capture": 97, "packed capture": 31, "export": 1024}[kind]):
        path.write_bytes(data[:size])
        refused(path)


# Limits, made small

EVENTS = b'{"traceEvents": ['
LIMITS: list[tuple[object, str, int, bytes, str]] = [
    (builder, "MOST_RECORDS", 5, kineto(*pipeline()).encode(), "has over 5 records; record a shorter part"),
    (
        builder,
        "MOST_NAME_BYTES",
        1 << 20,
        kineto(*(kernel(i, 1, i, name=f"{i}" + "x" * 5000) for i in range(300))).encode(),
        "has over 1 MiB of names; record a shorter part",
    ),
    (read, "MOST_UNPACKED_BYTES", 1 << 21, gzip.compress(EVENTS + b"{}," * (1 << 20), 1), ".* of text; record"),
]


@pytest.mark.parametrize(("module", "limit", "most", "data", "said"), LIMITS, ids=range(len(LIMITS)))
def test_size_is_bounded(
    module: object, limit: str, most: int, data: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, most)
    (tmp_path / "t").write_bytes(data)
    refused(tmp_path / "t", said)


# Values


def two_cards() -> Recording:
    """The pipeline, and one of another process on another card."""
    made = export()
    made.call("cudaMemcpyAsync_v3020", 500_000, 500_010, 9, pid=7)
    made.work("MEMCPY", 500_020, 500_030, 9, pid=7, deviceId=1, bytes=1 << 20, copyKind=1, srcKind=1, dstKind=2)
    with tempfile.TemporaryDirectory() as folder:
        return read_recording(made.write(Path(folder) / "t.sqlite"))


def with_times(times: str) -> object:
    text = dump_schedule(program(h2d(1, 5), d2h(1, 5), streams=1)).decode()
    return parse_schedule(text.replace("]}\n", '],"recorded":' + times + "}").encode())


COPIED = recorded(simulate(program(h2d(1, 4), Synchronize()), make_device()))
WITHOUT_WORK = replace(COPIED, work=COPIED.work.rows(COPIED.work.kind < 0))
WITHOUT_CALLS = replace(WITHOUT_WORK, calls=COPIED.calls.rows(COPIED.calls.kind < 0))
TIMES = [
    ('"issued_ns":[0],"returned_ns":[1],"start_ns":[1],"end_ns":[2]', "recorded: has times of 1 ops; there are 2"),
    ('"issued_ns":[3],"returned_ns":[1],"start_ns":[1],"end_ns":[2]', "recorded.returned_ns[0]: is before"),
    ('"issued_ns":[-2],"returned_ns":[1],"start_ns":[1],"end_ns":[2]', "recorded.issued_ns: expected times from"),
    (
        '"issued_ns":[],"returned_ns":[],"start_ns":[],"end_ns":[],'
        '"lanes":[{"name":"x","start_ns":[0,1],"end_ns":[2,3]}]',
        "recorded.lanes[0].start_ns, end_ns: expected spans one after the other",
    ),
]
WINDOWS = [
    ({"window": "step[2]"}, "--window = 'step[2]': there are 1 of that name"),
    ({"window": "5us..2us"}, "--window = '5us..2us': expected the earlier time first"),
    ({"card": 2}, "--gpu = 2: not in the recording; it has 0, 1"),
    ({"card": 1, "process": 420}, "--gpu 1, --process 420: no call and no work is in it"),
]
VALUES: list[tuple[Callable[[], object], str]] = [
    *((partial(with_times, f"{{{times}}}"), f"schedule: {said}") for times, said in TIMES),
    *((lambda part=part: part_of(two_cards(), **part), said) for part, said in WINDOWS),
    (lambda: program_of(two_cards()), "the recording has work on 2 cards: choose one with --gpu (0, 1)"),
    (
        lambda: program_of(WITHOUT_WORK),
        "1 calls put work on the card, and nothing of the card is recorded; record ProfilerActivity",
    ),
    (lambda: program_of(WITHOUT_CALLS), "no call of the recording issued a copy or a kernel"),
    (lambda: without_recording(COPIED, make_device(), 0), "untraced_s = 0: expected a time above zero"),
    (
        lambda: write_recording(simulate(replace(program(h2d(1, 4)), launch="graph"), make_device()), "none/t.json"),
        "a recording is written of a simulated program that issues its ops one by one",
    ),
    (
        lambda: RecorderCost(ratio=1.5, backward=2.0, least=1.4, most=1.7, source="measured: by hand"),
        "backward = 2: above most = 1.7",
    ),
]


@pytest.mark.parametrize(("make", "said"), VALUES, ids=range(len(VALUES)))
def test_a_value_is_refused_in_one_line(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(said)
