"""Reading of recordings from files, and their detection among files: the file's content shows its format."""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections.abc import Generator
from contextlib import closing
from itertools import chain
from typing import BinaryIO

from streamsim.errors import InputError
from streamsim.files import file_error
from streamsim.recorded.builder import ENDINGS, foreign
from streamsim.recorded.cupti import FORMAT, read_captured
from streamsim.recorded.kineto import read_kineto
from streamsim.recorded.nsys import read_nsys
from streamsim.recorded.recording import Recording
from streamsim.text import GZIP_MAGIC, WORDS, kind_of

BLOCK_BYTES = 1 << 20
MOST_UNPACKED_BYTES = 1 << 32
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SQLITE = b"SQLite format 3\0"
CAPTURED = re.compile(rb'\{\s*"' + FORMAT.encode())
REPORTS = (".nsys-rep", ".qdrep")  # reports of Nsight Systems, which only its own tools read
RECORDINGS = (".gz", ".sqlite", ".sqlite3", ".db")  # endings that no schedule's file has
KNOWN = (
    "a trace of the PyTorch profiler (.json, .json.gz), an SQLite export of Nsight Systems or what"
    " streamsim-validate capture wrote"
)
READERS = {"export": lambda path, _: read_nsys(path), "capture": read_captured, "trace": read_kineto}
EXPORT = "of a report, make one with: nsys export --type sqlite FILE.nsys-rep"


def kind_given(path: str | os.PathLike[str]) -> str:
    """Return "recording" or "schedule" for a file's content, or "" for anything else.

    Reports and packed files are detected by their names. A pipe gives "", as it can be read only once. Raises
    InputError if the file cannot be read.
    """
    if str(path).lower().endswith((*REPORTS, *RECORDINGS, *ENDINGS)):
        return "recording"
    if not os.path.isfile(path):
        return ""
    with closing(blocks_of(path)) as blocks:
        start = next(blocks, b"").removeprefix(BYTE_ORDER_MARK)
    kind = _format_of(start)
    if kind in READERS or (not kind and foreign(path, start)):
        return "recording"
    return kind if kind == "schedule" else ""


def _format_of(start: bytes) -> str:
    """Return the format of a recording that begins so, or the kind of another file of streamsim; "" if unknown."""
    if start.startswith(SQLITE):
        return "export"
    if CAPTURED.match(start):
        return "capture"
    return "trace" if b'"traceEvents"' in start else kind_of(start)


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read the recording in a file, detecting its format from its content.

    - a trace of the PyTorch profiler (Kineto's JSON), perhaps packed with gzip;
    - a file that ``streamsim-validate capture`` wrote, perhaps packed with gzip;
    - an SQLite export of Nsight Systems.

    Nothing in the file is executed. Its memory is bounded, whatever size it unpacks to. Raises InputError of one line.
    """
    if str(path).lower().endswith(REPORTS):
        raise InputError(f"{path}: is a report of Nsight Systems; {EXPORT.replace('FILE.nsys-rep', str(path))}")
    blocks = blocks_of(path)
    start = next(blocks, b"").removeprefix(BYTE_ORDER_MARK)
    kind = _format_of(start)
    other = "" if kind else foreign(path, start)
    if not kind and start.lstrip()[:1] == b"{" and not other:
        kind = "trace"
    if kind in READERS:
        return READERS[kind](path, chain((start,), blocks))  # read once: it may be a pipe
    what = f"is {WORDS[kind]}" if kind else "is of no format known" if start else "is empty"
    raise InputError(f"{path}: {other or f'{what}; give {KNOWN}; {EXPORT}'}")


def blocks_of(path: str | os.PathLike[str]) -> Generator[bytes, None, None]:
    """Yield the content of a file in blocks, unpacked if it is packed. Raises InputError of one line."""
    total = 0
    try:
        with open(path, "rb") as file:
            if not (stat.S_ISREG(os.fstat(file.fileno()).st_mode) or stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)):
                raise InputError(f"{path}: is not a regular file; give a file or a pipe")
            is_packed = file.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
            content: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=file) if is_packed else file
            while block := content.read(BLOCK_BYTES):
                total += len(block)
                if total > MOST_UNPACKED_BYTES:
                    most = f"{MOST_UNPACKED_BYTES >> 30} GiB"
                    raise InputError(f"{path}: has over {most} of text; record a shorter part of the program")
                yield block
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path}: its gzip data is damaged or cut short ({error}); copy it again") from None
    except (OSError, ValueError) as error:
        raise file_error(path, error, "read") from None
