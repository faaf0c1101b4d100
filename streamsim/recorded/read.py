"""A recording from a file, whose format is told by its content."""

from __future__ import annotations

import os
import re
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

from streamsim.errors import InputError
from streamsim.recorded.captured import FORMAT, read_captured
from streamsim.recorded.json_stream import BYTE_ORDER_MARK, blocks_of
from streamsim.recorded.kineto import read_kineto
from streamsim.recorded.nsys import read_nsys
from streamsim.text.recognise import kind_of
from streamsim.text.shown import one_line

if TYPE_CHECKING:
    from streamsim.recorded.recording import Recording

SQLITE = b"SQLite format 3\0"
_JSON = re.compile(rb"\s*\{")
_CAPTURED = re.compile(rb'\{\s*"' + FORMAT.encode())
KNOWN = (
    "a trace of the PyTorch profiler (.json, .json.gz), an SQLite export of Nsight Systems or what"
    " streamsim-validate capture wrote"
)
EXPORT = "of a report, make one with: nsys export --type sqlite FILE.nsys-rep"
REPORTS = (".nsys-rep", ".qdrep")  # of Nsight Systems, which only its own tools read
RECORDINGS = (".gz", ".sqlite", ".sqlite3", ".db")  # names that no schedule has


def kind_given(path: str | os.PathLike[str]) -> str:
    """What a file holds: "recording", "schedule" or "" for anything else. Names tell reports and packed files.

    A pipe is not looked at, since it can be read only once. Raises InputError where a file cannot be read.
    """
    if str(path).lower().endswith((*REPORTS, *RECORDINGS)):
        return "recording"
    if not os.path.isfile(path):
        return ""
    with closing(blocks_of(path)) as blocks:
        start = next(blocks, b"").removeprefix(BYTE_ORDER_MARK)
    is_list = start.lstrip()[:1] == b"["
    if is_list or start.startswith(SQLITE) or _CAPTURED.match(start) or kind_of(start) == "trace":
        return "recording"
    return "schedule" if kind_of(start) == "schedule" else ""


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """The program recorded in a file: Kineto's JSON, what was captured, or an SQLite export of Nsight Systems.

    The first two may be packed with gzip.

    Nothing in it is executed, and memory is bounded whatever it unpacks to. Raises InputError of one line.
    """
    if str(path).lower().endswith(REPORTS):
        raise InputError(
            one_line(f"{path}: is a report of Nsight Systems; {EXPORT.replace('FILE.nsys-rep', str(path))}")
        )
    blocks = blocks_of(path)
    start = next(blocks, b"").removeprefix(BYTE_ORDER_MARK)
    if start.startswith(SQLITE):
        blocks.close()
        return read_nsys(path)
    if _CAPTURED.match(start):
        return read_captured(path, chain((start,), blocks))
    if start.lstrip()[:1] == b"[":  # PyTorch's files of 2020 are the list of events alone
        return read_kineto(path, chain((b'{"traceEvents":', start), blocks, (b"}",)))
    if _JSON.match(start):
        return read_kineto(path, chain((start,), blocks))  # read once: it may be a pipe
    what = "is of no format known" if start else "is empty"
    raise InputError(one_line(f"{path}: {what}; give {KNOWN}; {EXPORT}"))
