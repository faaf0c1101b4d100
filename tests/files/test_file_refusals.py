"""What files are refused for: one line that names the file, the field and the value."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from file_texts import COPY, document, edited
from strategies import make_device

from streamsim.device import dump_device, load_device, parse_device, read_device
from streamsim.errors import LONGEST_LINE, InputError
from streamsim.files import check_writable, replacing, write_text
from streamsim.program import (
    Copy,
    Schedule,
    parse_schedule,
    parse_workload,
    read_schedule,
    read_workload,
    write_schedule,
)

DEVICE = dump_device(make_device())
H200 = dump_device(load_device("h200"))
DEVICES = [  # a field of a profile, its value, and what is said
    ("latency_s", '"2.7GB/s"', "h2d.latency_s = '2.7GB/s': expected a time"),
    ("latency_s", "-1e-6", "h2d.latency_s = -1e-06: expected a number from 0 to"),
    ("latency_s", "2020-01-01", "h2d.latency_s = datetime.date(2020, 1, 1): expected float, got date"),
    ("bandwidth_bytes_per_s", '"55.3Gb/s"', "h2d.bandwidth_bytes_per_s = '55.3Gb/s': expected a bandwidth"),
    ("count", "3", "copy_engines.count = 3: expected a whole number from 0 to 2"),
    ("h2d", "1", "sources.h2d = 1: expected str, got int"),
]
SCHEDULES = [
    (document(COPY.replace("8", '"abc"')), "ops[1].bytes = 'abc': expected int, got str"),
    (document(COPY.replace("8", "1e999")), "ops[1].bytes = inf: number out of range"),
    (document('{"stream":1}'), "ops[1].op: is missing"),
    (document('{"op":"copy","direction":"h2d","stream":1}'), "ops[1].bytes: is missing"),
    (document("7"), "ops[1] = 7: expected object, got int"),
    (document('{"op":"kernel","stream":1,"duration_s":NaN}'), "cannot be read: JSON is malformed"),
    (document(COPY.replace("8", '8,"bytes":9')), "'bytes' stands twice in one object"),
    (b"[]", "the file = []: expected object, got array"),
    (b"", "is empty; expected a schedule"),
    (document()[:-3], "is cut short (cannot be read: expecting ',' delimiter: line 1 column"),
    (document() + b"x", "cannot be read: extra data"),
    (b'{"ops":"\xff"}', "is not UTF-8 text (byte 8)"),
    (b'{"ops":' + b"[" * 100_000, "is nested too deeply"),
    (document(COPY.replace("8", "9" * 5000)), "cannot be read: exceeds the limit (4300 digits)"),
]
WORKLOADS: list[tuple[str | bytes, str]] = [
    ('elements = "64MiB"', "elements = '64MiB': expected a count"),
    ("elements = 5\nelements = 6", "cannot be read: cannot overwrite a value"),
    ("elements = 5\nchunk = 3", "chunk = 3: unknown field"),
    ('elements = 5\ninputs = ["4us"]', "inputs[0] = '4us': expected a size"),
    ("x = " + "[" * 100_000, "is nested too deeply"),
    (".".join("a" * 3_000) + " = 1", "a = {"),
    ("elements = " + "9" * 5000, "cannot be read: exceeds the limit"),
    (b"abc\xff", "is not UTF-8 text (byte 3)"),
]
TOO_LONG = "0x" + "1" * 5000  # of more digits than Python is willing to write, and TOML holds it
BEYOND = "1" + "0" * 400  # more than any float
PROFILES = [  # a whole profile, and what is said
    (DEVICE.replace("latency_s = 0.0\n", "", 1), "h2d.latency_s: is missing"),
    (
        DEVICE.replace("[host]", '[host]\ncolour = "red"'),
        "host.colour = 'red': unknown field; streamsim init --schema says what is known",
    ),
    (
        DEVICE.replace("[spread]", "") + '\n[spread]\nconnections = "x"\n',
        "spread.connections = 'x': expected float, got str",
    ),
    (DEVICE.replace('compute = "assumed: a device for tests"\n', ""), "compute.concurrent_kernels: has no source"),
]
for number in (TOO_LONG, BEYOND):
    PROFILES += [
        (H200.replace("connections = 8", f"connections = {number}"), "connections = "),
        (H200.replace("[spread]\n", f'[spread]\n"host.copy_engine" = {number}\n'), "spread.host.copy_engine = "),
        (H200.replace("[host]\n", f"[host]\nwidth = {number}\n"), "host.width = "),
    ]
    WORKLOADS.append((f"elements = 4\ninputs = [{number}]\n", "inputs[0] = "))
for other, field in (("host", "crowded_bytes"), ("compute", "graph_edge_s")):  # retired; they were in other tables
    PROFILES += [
        (H200.replace(f"[{other}]\n", f"[{other}]\n{field} = 0.0\n"), f"{other}.{field} = 0.0: unknown field"),
        (
            H200.replace("[sources]\n", f'[sources]\n"{other}.{field}" = "measured: then"\n'),
            f"sources.{other}.{field} ",
        ),
    ]
FAULTS: list[tuple[Callable[[str], object], str]] = [
    *((partial(parse_device, edited(make_device(), field, text)), said) for field, text, said in DEVICES),
    *((partial(parse_device, text), said) for text, said in PROFILES),
    *((partial(parse_schedule, data), said) for data, said in SCHEDULES),
    *((partial(parse_workload, text), said) for text, said in WORKLOADS),
]


@pytest.mark.parametrize(("parse", "said"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_names_file_field_and_value(parse: Callable[[str], object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse("my.file")
    assert str(caught.value).startswith(f"my.file: {said}")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= LONGEST_LINE + 20


# Places: in a folder with a file, a loop of links, and a link to nowhere

PLACES = [  # what is said by those who read, and by those who write
    (".", "is a directory", "is a directory"),
    ("none/x", "no such file", "no such file"),
    ("file/x", "not a directory", "not a directory"),
    ("x" * 300, "file name too long", "file name too long"),
    ("a\0b", "embedded null byte", "embedded null byte"),
    ("/dev/null", "is not a regular file", None),
    ("/proc/x", "no such file", "no such file|permission"),
]


@pytest.mark.parametrize(("place", "unread", "unwritten"), PLACES)
def test_a_place_that_cannot_be_read_or_written_is_named(
    place: str, unread: str, unwritten: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("before")
    for read in (read_schedule, read_workload, read_device):
        with pytest.raises(InputError, match=unread):
            read(Path(place))
    if unwritten is not None:
        with pytest.raises(InputError, match=unwritten):
            write_text("text", Path(place))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "before"


def full_disk() -> None:
    with replacing("out.json"):
        raise OSError(28, os.strerror(28))


UNWRITABLE = Schedule((Copy("h2d", 4, 1),), ("blocking",), name="\ud800")
WRITES: list[tuple[Callable[[], object], str]] = [
    (full_disk, "cannot write it: no space left"),
    (partial(write_schedule, UNWRITABLE, "x"), "not text that UTF-8 can hold"),
    (partial(check_writable, Path("link")), "there is no folder"),
]


@pytest.mark.parametrize(("write", "said"), WRITES)
def test_what_cannot_be_written_leaves_nothing(
    write: Callable[[], object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "none" / "file")
    with pytest.raises(InputError, match=said):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
