"""What the files of measurements have in common: how many bytes and values they hold, and what these say.

A file of some kilobytes can unpack to gigabytes, and a byte of JSON can become forty of memory. So as much is read as
a run could honestly have measured, and no more.
"""

import contextlib
import os
import zlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from streamsim.errors import InputError
from streamsim.files import atomic_files
from streamsim_validate.records.recipe import threads_told
from streamsim_validate.records.record import SCHEMA_VERSION, Entry, Record, Run

# Files of version 1 left these out of a workload where it had them; since then, what is left out is not there.
VERSION_1_WORKLOAD = {"inputs": [4], "outputs": [4], "kernels": [{"duration_s": 1e-3}]}
TELLS_THREADS = 3  # since when a timed kernel without threads need not have one for every 4 bytes
READABLE = (1, 2, SCHEMA_VERSION)
LARGEST_BYTES = 1 << 27  # packed, and unpacked: forty times the record of the suite standard
MOST_VALUES = 6_000_000  # twenty times those of that record; in memory they take less than a gigabyte
_BEFORE_VALUES = (b",", b"[", b"{")  # one of them stands before every value of a document


def read_stored(path: str | os.PathLike[str]) -> bytes:
    """Of a file or pipe. Raises InputError when it cannot be read or is larger than any file of measurements."""
    return atomic_files.read_bytes(path, LARGEST_BYTES)


def unzipped(data: bytes) -> bytes:
    """What gzip has packed.

    Raises InputError when it is larger or holds more values than any file of measurements, EOFError when its
    end is missing, and ValueError when it is damaged.
    """
    decompressor = zlib.decompressobj(wbits=31)  # gzip
    try:
        plain = decompressor.decompress(data, LARGEST_BYTES)
    except zlib.error as error:
        raise ValueError(error) from None
    if decompressor.unconsumed_tail:
        raise InputError(f"unpacks to more than {LARGEST_BYTES} bytes; no run measures that much")
    if not decompressor.eof:
        raise EOFError("is truncated")
    return check_values(plain)


def check_values(data: bytes) -> bytes:
    """The same document. Raises InputError when it has more values than any run measures."""
    if sum(map(data.count, _BEFORE_VALUES)) > MOST_VALUES:
        raise InputError(f"holds more than {MOST_VALUES} values; no run measures that many")
    return data


def check_version(path: Path, version: int) -> None:
    """Raise InputError unless files of that version can be read."""
    if version not in READABLE:
        raise InputError(
            f"{path}: schema_version = {version}: this streamsim-validate reads {', '.join(map(str, READABLE))};"
            " use the version that wrote it, or measure again"
        )


def decoded(data: bytes, kind: Any, version: int) -> Any:
    """The ``kind`` (a record, or a line of a journal) that the JSON ``data`` of a file of that version holds."""
    if version >= TELLS_THREADS:
        return msgspec.json.decode(data, type=kind)
    if version > 1:
        return _with_threads(msgspec.json.decode(data, type=kind))
    plain = msgspec.json.decode(data)
    with contextlib.suppress(AttributeError, KeyError, TypeError):  # where it is damaged, its types say so below
        for entry in [entry for run in plain["runs"] for entry in run["entries"]] if kind is Record else [plain]:
            if "case" in entry:
                entry["case"]["workload"] = VERSION_1_WORKLOAD | entry["case"]["workload"]
    return _with_threads(msgspec.convert(plain, kind))


def _with_threads(found: Any) -> Any:
    """The same, in which timed kernels tell the threads that all of them had when it was measured."""
    if isinstance(found, Record):
        return replace(found, runs=tuple(map(_with_threads, found.runs)))
    if isinstance(found, Run):
        return replace(found, entries=tuple(map(_with_threads, found.entries)))
    if not isinstance(found, Entry) or found.recipe is None:
        return found
    return replace(found, recipe=replace(found.recipe, workload=threads_told(found.recipe.workload)))
