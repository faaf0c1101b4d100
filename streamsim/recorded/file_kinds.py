"""Detection of recordings among files by their names and first bytes, without loading a reader."""

from __future__ import annotations

import os
import re
from contextlib import closing

from streamsim.recorded.json_stream import BYTE_ORDER_MARK, blocks_of
from streamsim.text import kind_of

FORMAT = "streamsim_capture"  # the key in the first line of a captured file; its value is the version
SQLITE = b"SQLite format 3\0"
CAPTURED = re.compile(rb'\{\s*"' + FORMAT.encode())
REPORTS = (".nsys-rep", ".qdrep")  # reports of Nsight Systems, which only its own tools read
RECORDINGS = (".gz", ".sqlite", ".sqlite3", ".db")  # endings that no schedule's file has


def kind_given(path: str | os.PathLike[str]) -> str:
    """Return "recording" or "schedule" for a file's content, or "" for anything else.

    Reports and packed files are detected by their names. A pipe gives "", as it can be read only once. Raises
    InputError if the file cannot be read.
    """
    if str(path).lower().endswith((*REPORTS, *RECORDINGS)):
        return "recording"
    if not os.path.isfile(path):
        return ""
    with closing(blocks_of(path)) as blocks:
        start = next(blocks, b"").removeprefix(BYTE_ORDER_MARK)
    is_list = start.lstrip()[:1] == b"["
    if is_list or start.startswith(SQLITE) or CAPTURED.match(start) or kind_of(start) == "trace":
        return "recording"
    return "schedule" if kind_of(start) == "schedule" else ""
