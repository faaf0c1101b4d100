"""What a file of a schedule, workload, layers or device is refused for, and any file in place of another."""

import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from effort import examples
from file_texts import COPY, WORKLOAD, document, edited
from hypothesis import given
from hypothesis import strategies as st
from layered import layers_of
from refusals import contents, refusal, shows
from strategies import make_device, pipeline_of

from streamsim import program
from streamsim.device import load_device, parse_device, read_device
from streamsim.errors import InputError
from streamsim.files import check_writable, dump_toml, write_text, write_toml
from streamsim.model import simulate
from streamsim.report import write_trace
from streamsim.search import read_asked, sweep_of
from streamsim.text import WORDS
from streamsim_validate.calibrate import read_samples
from streamsim_validate.records import Header, read_record

# Texts: each kind of fault once for each format, and each rule of a kind of file

SCHEDULE = program.ring(pipeline_of(64), chunks=4, buffers=3, streams=2)
DEVICE, H200 = dump_toml(make_device()), dump_toml(load_device("h200"))
LAYER = "[[layers]]\nweight_bytes = {}\nkernels = {}\n"
BEYOND = "1" + "0" * 400  # more than any float
SCHEDULES: list[tuple[bytes, str]] = [
    (b"", "is empty; expected a schedule"),
    (document()[:-3], "cannot be read: expecting ',' delimiter: line 1 column...; write it again"),
    (b'{"ops":"\xff"}', "is not UTF-8 text (byte 8)"),
    (b'{"ops":' + b"[" * 100_000, "is nested too deeply"),
    (document('{"stream":1}'), "ops[1].op: is missing"),
    (document(COPY.replace("8", '"abc"')), "ops[1].bytes = 'abc': expected int, got str"),
    (document(COPY.replace("8", "9" * 5000)), "cannot be read: exceeds the limit (4300 digits)"),
    (document('{"op":"kernel","stream":1,"duration_s":NaN}'), "cannot be read: JSON is malformed"),
    (document(COPY.replace('"stream":1', '"stream":3')), "ops[1].stream = 3: unkn"),
    (b"elements = 5", "is a workload, for `streamsim predict`; expected a schedule"),
]
WORKLOADS: list[tuple[bytes | str, str]] = [
    ("what is it", "cannot be read: expected '=' after a key in a key/value pair (at line 1"),
    ("x = " + "[" * 100_000, "is nested too deeply"),
    ("elements = " + "9" * 5000, "cannot be read: exceeds the limit"),
    ('elements = "64MiB"', "elements = '64MiB': expected a whole number"),
    ("inputs = [4]\nkernel = ['4ms']", "kernel = ['4ms']: unknown field; did you mean kernels?"),
    ("kernels = [{ points = [{ on = 3 }] }]", "kernels[0].points[0].on = 3: unknown field; streamsim init --schema"),
    ("kernels = ['1ms', 0]", "kernels[1] = '0s': duration_s = 0.0: expected"),
    ("inputs = [64]\nfront_end = 3", "front_end...3"),
]
LAYERS: list[tuple[bytes | str, str]] = [
    ("[[layers]]\nweight_bytes = 4", "layers[0].kernels: is missing"),
    (LAYER.format(4, "['1ms']") + "name = 'a,b'", "layers[0].name = 'a,b': expected no comma"),
    ((LAYER.format(4, "['1ms']") + "name = 'a'\n") * 2, "layers: 2 are called 'a'"),
]
DEVICES: list[tuple[bytes | str, str]] = [
    (edited(make_device(), "latency_s", '"2.7GB/s"'), "h2d.latency_s = '2.7GB/s': expected a time"),
    (edited(make_device(), "latency_s", "-1e-6"), "h2d.latency_s = -1e-06: expected a number from 0 to"),
    (edited(make_device(), "count", "3"), "copy_engines.count = 3: expected a whole number from 0 to 2"),
    (DEVICE.replace("latency_s = 0.0\n", "", 1), "h2d.latency_s: is missing"),
    (DEVICE.replace("[host]", '[host]\ncolour = "red"'), "host.colour = 'red': unknown field; streamsim init --schema"),
    (DEVICE.replace('compute = "assumed: a device for tests"\n', ""), "compute.concurrent_kernels: has no source"),
    (H200.replace("connections = 8", "connections = 0x" + "1" * 5000), "connections = "),
    (H200.replace("[spread]\n", f'[spread]\n"host.copy_engine" = {BEYOND}\n'), "spread.host.copy_engine = "),
    (H200.replace("[host]\n", "[host]\ncrowded_bytes = 0.0\n"), "host.crowded_bytes = 0.0: unknown field"),  # retired
]
TEXTS: list[tuple[Callable[..., object], bytes | str, str]] = [
    *((program.parse_schedule, *row) for row in SCHEDULES),
    *((program.parse_workload, *row) for row in WORKLOADS),
    *((program.parse_layers, *row) for row in LAYERS),
    *((parse_device, *row) for row in DEVICES),
]


@pytest.mark.parametrize(("parse", "text", "said"), TEXTS, ids=range(len(TEXTS)))
def test_a_fault_names_file_field_and_value(parse: Callable[..., object], text: bytes | str, said: str) -> None:
    refusal(partial(parse, text, "my.file"), f"my.file: {said}")


# Files of every kind, and what reads them


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file of every kind."""
    folder, records = tmp_path_factory.mktemp("kinds"), Path("validate/campaigns/records")
    found = {kind: folder / kind for kind in WORDS}
    found |= {"record": records / "races-h200.json.gz", "samples": records / "calibration-h200.samples.gz"}
    program.write_schedule(SCHEDULE, found["schedule"])
    write_toml(pipeline_of(64), found["workload"])
    write_toml(layers_of((4, 5), (6, 3)), found["layers"])
    write_toml(load_device("ideal"), found["device"])
    write_trace(simulate(SCHEDULE, load_device("ideal")), found["trace"])
    found["loop"].write_text('batch = 2\nbatch_bytes = "1MiB"\nstep = "1ms"\n')
    found["sweep"].write_text('h2d = ["1MiB"]\nchunks = "1..4"\n')
    record = read_record(found["record"])
    found["journal"].write_bytes(msgspec.json.encode(Header(record.card, record.machine, "quick", "1")) + b"\n")
    return found


READERS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {  # and what else each takes
    "schedule": (program.read_schedule, ()),
    "workload": (program.read_workload, ()),
    "layers": (program.read_layers, ()),
    "device": (read_device, ()),
    "sweep": (lambda path: sweep_of(read_asked(path)), ("workload",)),
    "record": (read_record, ("journal",)),
    "samples": (read_samples, ()),
}


@pytest.mark.parametrize("expected", READERS)
def test_any_kind_of_file_in_place_of_another_is_named(expected: str, one_of_each: dict[str, Path]) -> None:
    read, as_well = READERS[expected]
    for kind, path in one_of_each.items():
        if kind in (expected, *as_well):
            read(path)
        else:
            refusal(partial(read, path), f"{path}: is {WORDS[kind]}; expected ")


# Places: in a folder with a file and a link to nowhere

PLACES = [  # what is said by those who read, and by those who write
    (".", "is a directory", "is a directory"),
    ("none/x", "no such file", "no such file"),
    ("file/x", "not a directory", "not a directory"),
    ("x" * 300, "file name too long", "file name too long"),
    ("a\0b", "embedded null byte", "embedded null byte"),
    ("/dev/zero", "is not a regular file; give a file or a pipe", None),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("before")
    Path("link").symlink_to(tmp_path / "none" / "file")


@pytest.mark.parametrize(("place", "unread", "unwritten"), PLACES)
@pytest.mark.usefixtures("folder")
def test_a_place_that_cannot_be_read_or_written_is_named(place: str, unread: str, unwritten: str | None) -> None:
    before = contents()
    for read in (program.read_schedule, program.read_workload, read_device, read_record, read_samples, read_asked):
        refusal(partial(read, Path(place)), f"...{unread}")
    if unwritten is not None:
        refusal(partial(write_text, "text", Path(place)), f"...{unwritten}")
    assert contents() == before


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_written_leaves_nothing() -> None:
    before = contents()
    unwritable = program.Schedule((program.Copy("h2d", 4, 1),), ("blocking",), name="\ud800")
    refusal(partial(program.write_schedule, unwritable, "x"), "...not text that UTF-8 can hold")
    refusal(partial(check_writable, Path("link")), "...there is no folder")
    assert contents() == before


# Files that are too large, and pipes


@pytest.mark.usefixtures("folder")
def test_a_file_too_large_is_refused_before_it_is_read() -> None:
    with Path("s.json").open("wb") as file:
        file.truncate((1 << 30) + 1)  # sparse: takes no room
    assert peak_of(program.read_schedule, Path("s.json"), "is larger than 1073741824 bytes") < 1 << 20
    assert peak_of(read_device, Path("s.json"), "is larger than 1048576 bytes") < 1 << 20


@pytest.mark.parametrize("read", [read_record, read_samples])
@pytest.mark.usefixtures("folder")
def test_what_unpacks_to_more_than_was_measured_is_refused(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    """16 KB of packed zeros are 16 MB, and would be 340 MB of numbers."""
    packer, path = zlib.compressobj(wbits=31), Path("zeros.gz")
    begins = b'{"timings":[' if read is read_samples else b'{"schema_version":2,"machine":['
    path.write_bytes(packer.compress(begins) + packer.compress(b"0," * (1 << 23)) + packer.flush())
    assert path.stat().st_size < 1 << 15
    assert peak_of(read, path, "holds more than 6000000 values; no run measures that many") < 1 << 28
    for place in ("records", "records.files"):
        monkeypatch.setattr(f"streamsim_validate.{place}.LARGEST_BYTES", 1 << 20)
    assert peak_of(read, path, "unpacks to more than 1048576 bytes; no run measures that much") < 1 << 22


def peak_of(read: Callable[[Path], object], path: Path, reason: str) -> int:
    """The bytes that it takes to refuse the file for that reason."""
    tracemalloc.start()
    refusal(partial(read, path), f"{path}: ...{reason}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


# Any bytes at all

TOKENS = (
    *(b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b'""', b"[]", b"{}"),
    *(b"9" * 30, b"9" * 5000, b'"\xff"', b'"64m"'),
)


@st.composite
def mutated(draw: st.DrawFn, original: bytes) -> bytes:
    """``original`` with a few pieces cut out, doubled, or replaced by bytes that a reader may trip over."""
    data = original
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from((0, 1, 2, 5, 40))))
        piece = draw(st.one_of(st.binary(max_size=6), st.sampled_from(TOKENS), st.just(data[start:end] * 2)))
        data = data[:start] + piece + data[end:]
    return data


@examples(400)
@given(
    st.one_of(
        st.tuples(
            st.just((program.parse_schedule, program.dump_schedule)),
            st.binary() | mutated(program.dump_schedule(SCHEDULE)),
        ),
        st.tuples(st.just((parse_device, dump_toml)), st.binary() | mutated(dump_toml(make_device()).encode())),
        st.tuples(st.just((program.parse_workload, dump_toml)), st.binary() | mutated(WORKLOAD.encode())),
    )
)
def test_any_bytes_are_a_value_that_comes_back_exactly_or_an_error_of_one_line(
    case: tuple[tuple[Callable[..., object], Callable[[Any], Any]], bytes],
) -> None:
    (parse, dump), data = case
    message, value = "file: ", None
    try:
        value = parse(data, "file")
    except InputError as error:
        message = str(error)
    assert value is None or parse(dump(value)) == value
    shows(message, "file: ")
