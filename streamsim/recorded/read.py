"""Reading of recordings from files; the file's content shows its format."""

from __future__ import annotations

import os
import re
from itertools import chain

from streamsim.errors import InputError
from streamsim.recorded.captured import read_captured
from streamsim.recorded.file_kinds import CAPTURED, REPORTS, SQLITE
from streamsim.recorded.json_stream import BYTE_ORDER_MARK, blocks_of
from streamsim.recorded.kineto import read_kineto
from streamsim.recorded.nsys import read_nsys
from streamsim.recorded.recording import Recording
from streamsim.text import WORDS, kind_of, one_line

_JSON = re.compile(rb"\s*\{")
KNOWN = (
    "a trace of the PyTorch profiler (.json, .json.gz), an SQLite export of Nsight Systems or what"
    " streamsim-validate capture wrote"
)
EXPORT = "of a report, make one with: nsys export --type sqlite FILE.nsys-rep"


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read the recording in a file, detecting its format from its content.

    - a trace of the PyTorch profiler (Kineto's JSON), perhaps packed with gzip;
    - a file that ``streamsim-validate capture`` wrote, perhaps packed with gzip;
    - an SQLite export of Nsight Systems.

    Nothing in the file is executed. Its memory is bounded, whatever size it unpacks to. Raises InputError of one line.
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
    if CAPTURED.match(start):
        return read_captured(path, chain((start,), blocks))
    if start.lstrip()[:1] == b"[":  # PyTorch's files of 2020 are the list of events alone
        return read_kineto(path, chain((b'{"traceEvents":', start), blocks, (b"}",)))
    kind = "" if b'"traceEvents"' in start else kind_of(start)  # of another file of streamsim
    if _JSON.match(start) and not kind:
        return read_kineto(path, chain((start,), blocks))  # read once: it may be a pipe
    what = f"is {WORDS[kind]}" if kind else "is of no format known" if start else "is empty"
    raise InputError(one_line(f"{path}: {what}; give {KNOWN}; {EXPORT}"))
