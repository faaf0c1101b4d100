"""What record files and journals of every version have in common: their bytes, and what these say."""

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from streamsim.errors import InputError
from streamsim.text.shown import one_line
from streamsim_validate.records.record import SCHEMA_VERSION, Record

# Files of version 1 left these out of a workload where it had them; since then, what is left out is not there.
VERSION_1_WORKLOAD = {"inputs": [4], "outputs": [4], "kernels": [{"duration_s": 1e-3}]}
READABLE = (1, SCHEMA_VERSION)
LARGEST_RECORD_BYTES = 1 << 28


def read_bytes(path: Path) -> bytes:
    """Of a file. Raises InputError when it cannot be read or is larger than any record."""
    try:
        size = path.stat().st_size
        if size > LARGEST_RECORD_BYTES:
            raise InputError(f"{path}: is larger than {LARGEST_RECORD_BYTES} bytes; no record is that large")
        return path.read_bytes()
    except OSError as error:
        raise InputError(one_line(f"{path}: cannot read it: {error.strerror}")) from None


def check_version(path: Path, version: int) -> None:
    """Raise InputError unless files of that version can be read."""
    if version not in READABLE:
        raise InputError(
            f"{path}: schema_version = {version}: this streamsim-validate reads {' and '.join(map(str, READABLE))};"
            " use the version that wrote it, or measure again"
        )


def decoded(data: bytes, kind: Any, version: int) -> Any:
    """The ``kind`` (a record, or a line of a journal) that the JSON ``data`` of a file of that version holds."""
    if version != 1:
        return msgspec.json.decode(data, type=kind)
    plain = msgspec.json.decode(data)
    with contextlib.suppress(AttributeError, KeyError, TypeError):  # where it is damaged, its types say so below
        for entry in [entry for run in plain["runs"] for entry in run["entries"]] if kind is Record else [plain]:
            if "case" in entry:
                entry["case"]["workload"] = VERSION_1_WORKLOAD | entry["case"]["workload"]
    return msgspec.convert(plain, kind)
