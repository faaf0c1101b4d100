"""Files that cannot be read, and any bytes at all: a value or one line, never anything else."""

import os
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from file_texts import WORKLOAD, document
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_device, pipeline_of

from streamsim.device import dump_device, parse_device, read_device
from streamsim.errors import InputError
from streamsim.files import dump_toml
from streamsim.program import (
    LARGEST_JSON_BYTES,
    dump_schedule,
    parse_schedule,
    parse_workload,
    read_schedule,
    ring,
)
from streamsim.search import read_asked
from streamsim_validate.calibrate import read_samples
from streamsim_validate.records import read_record

# Files that cannot be read


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(document())
    path.chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        read_schedule(path)


def test_a_file_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    with path.open("wb") as file:
        file.truncate(LARGEST_JSON_BYTES + 1)  # sparse: takes no room
    tracemalloc.start()
    with pytest.raises(InputError, match="is larger than 1073741824 bytes"):
        read_schedule(path)
    with pytest.raises(InputError, match="is larger than 1048576 bytes"):
        read_device(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_pipe_with_a_name_is_read_however_slowly_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer says nothing before the reader's patience is at an end, and then a piece at a time."""
    monkeypatch.setattr("streamsim.files.WRITER_S", 0.01)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    keeps_open = os.open(path, os.O_RDWR)

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            os.close(keeps_open)
            for piece in (document()[:1], document()[1:9], document()[9:]):
                time.sleep(0.03)
                file.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_schedule(path) == parse_schedule(document())
    writer.join()


READERS = (read_schedule, read_device, read_record, read_samples, read_asked)


@pytest.mark.parametrize("read", READERS)
def test_neither_a_pipe_that_nobody_writes_to_nor_a_device_is_waited_for(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device, of which some have no end."""
    monkeypatch.setattr("streamsim.files.WRITER_S", 0.01)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe: is a pipe that nobody writes to$"):
        read(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"^/dev/zero: is not a regular file; give a file or a pipe$"):
        read(Path("/dev/zero"))


@pytest.mark.parametrize("read", [read_record, read_samples])
def test_what_unpacks_to_more_than_was_measured_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    """16 KB of packed zeros are 16 MB, and would be 340 MB of numbers."""
    path = tmp_path / "zeros.gz"
    begins = b'{"timings":[' if read is read_samples else b'{"schema_version":2,"machine":['
    path.write_bytes(bomb(begins, 1 << 24))
    assert path.stat().st_size < 1 << 15
    assert peak_of(read, path, "holds more than 6000000 values; no run measures that many") < 1 << 28
    monkeypatch.setattr("streamsim_validate.records.files.LARGEST_BYTES", 1 << 20)
    assert peak_of(read, path, "unpacks to more than 1048576 bytes; no run measures that much") < 1 << 22


def peak_of(read: Callable[[Path], object], path: Path, reason: str) -> int:
    """The bytes that it takes to refuse the file for that reason."""
    tracemalloc.start()
    with pytest.raises(InputError, match=rf"{path.name}: .*{reason}"):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def bomb(begins: bytes, n_bytes: int) -> bytes:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(begins)
    for _ in range(n_bytes >> 20):
        packed += packer.compress(b"0," * (1 << 19))
    return packed + packer.flush()


# Any bytes at all

TOKENS = (
    *(b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b'""', b"[]", b"{}"),
    *(b"9" * 30, b"9" * 5000, b'"\xff"', b'"64m"'),
)
SCHEDULE_BYTES = dump_schedule(ring(pipeline_of(64), chunks=4, buffers=3, streams=2))


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
        st.tuples(st.just((parse_schedule, dump_schedule)), st.binary() | mutated(SCHEDULE_BYTES)),
        st.tuples(st.just((parse_device, dump_device)), st.binary() | mutated(dump_device(make_device()).encode())),
        st.tuples(st.just((parse_workload, dump_toml)), st.binary() | mutated(WORKLOAD.encode())),
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
    assert message.startswith("file: ")
    assert message.isprintable()
    assert len(message) < 600
