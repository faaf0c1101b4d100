"""Whether a file holds a recording, told by its name and how it begins: no reader is loaded for that."""

from __future__ import annotations

import os
import re
from contextlib import closing

from streamsim.recorded.json_stream import BYTE_ORDER_MARK, blocks_of
from streamsim.text.recognise import kind_of

FORMAT = "streamsim_capture"  # the key of the first line of what was captured, and its value the version
SQLITE = b"SQLite format 3\0"
CAPTURED = re.compile(rb'\{\s*"' + FORMAT.encode())
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
    if is_list or start.startswith(SQLITE) or CAPTURED.match(start) or kind_of(start) == "trace":
        return "recording"
    return "schedule" if kind_of(start) == "schedule" else ""
