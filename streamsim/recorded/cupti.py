"""Captures: CUPTI's activity records as ``streamsim-validate capture`` writes them.

A capture is lines of JSON, plain or packed with gzip. The first line holds the format's name and version. Each other
line holds some rows of a table as columns of whole numbers, or names. Columns refer to names by their places in the
file. The last line says that nothing is missing. Times are nanoseconds of CUPTI's clock, except in ``untraced``: these
runs were timed with another clock, without CUPTI.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
import numpy as np

from streamsim.errors import InputError, shown
from streamsim.recorded import builder
from streamsim.recorded.builder import Columns, RecordingBuilder
from streamsim.recorded.recording import NONE, Annotations, Recording

FORMAT = "streamsim_capture"  # the key in the first line of a captured file; its value is the version
VERSION = 1
CAPTURE_AGAIN = "capture the program again"
LOST = ("records that CUPTI lost", "it had no room for them, or they could not be read")

# The needed columns of each table, and the optional ones.
PLACED = "start end device context stream correlation"
MARKED = "correlation context stream event sync"
SHAPE = "grid_x grid_y grid_z block_x block_y block_z"
TABLES = {
    "calls": ("start end thread correlation name", ""),
    "copies": (f"{PLACED} bytes copy_kind src_kind dst_kind", "src_device dst_device"),
    "memsets": (f"{PLACED} bytes", ""),
    "kernels": (f"{PLACED} name", SHAPE),
    "synchronizations": (MARKED, ""),
    "events": (MARKED, ""),
    "streams": ("context stream flag", ""),
    "contexts": ("context device null_stream", ""),
    "devices": ("id name", "memory_bytes multiprocessors copy_engines"),
    "ranges": ("start end thread name by", ""),
    "untraced": ("run start end thread name", ""),
}
# Columns as the builder names them.
NAMED = {"start": "start_ns", "end": "end_ns", "stream": "stream_id", "thread": "tid"}
_WHOLE = Annotated[int, msgspec.Meta(ge=-builder.FAR, le=builder.FAR)]


class _CaptureHead(msgspec.Struct):
    version: int = msgspec.field(name=FORMAT)
    tool: str = ""
    process: _WHOLE = 0


class _CaptureLine(msgspec.Struct):
    table: str = ""
    columns: dict[str, list[_WHOLE]] = {}
    names: list[str] = []
    dropped: int = 0
    end: bool = False


def read_captured(path: str | os.PathLike[str], blocks: Iterable[bytes]) -> Recording:
    """Return the recording in the ``blocks`` of a capture. Raises InputError of one line, which begins with ``path``.

    The recording is empty if the program put nothing on a card.
    """
    reader = _CaptureReader(str(path))
    ended = False
    for number, line in enumerate(b"".join(blocks).split(b"\n"), 1):
        ended = reader.take(number, line) if line or number == 1 else ended
    if not ended:
        raise InputError(f"{path}: is cut short; {CAPTURE_AGAIN}, or copy it again")
    return reader.recording()


class _CaptureReader:
    """A translator of lines into rows of a builder. Names are known at the end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._builder = RecordingBuilder("CUPTI", path)
        self._line = msgspec.json.Decoder(_CaptureLine)
        self._process = 0
        self._names: list[str] = []
        self._blocks: dict[str, list[dict[str, list[int]]]] = {table: [] for table in TABLES}

    def take(self, number: int, line: bytes) -> bool:
        """Take the line of this ``number``, from 1. Return True for the last line."""
        try:
            if number == 1:
                self._take_head(msgspec.json.decode(line, type=_CaptureHead))
                return False
            found = self._line.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._error(f"line {number}: {error}") from None
        for name in found.names:
            self._builder.name(name)  # counted, as long as it may be
        self._names += found.names
        self._builder.count(LOST, max(found.dropped, 0))
        if found.table in TABLES:
            self._check_columns(number, found)
            self._blocks[found.table].append(found.columns)
        elif found.table:
            self._builder.count((f"records of table {shown(found.table)}", "not read"))
        return found.end

    def _error(self, reason: str) -> InputError:
        return InputError(f"{self._path}: {reason}; {CAPTURE_AGAIN}")

    def _take_head(self, head: _CaptureHead) -> None:
        if head.version != VERSION:
            raise self._error(f"is of version {head.version}, and {VERSION} is read")
        self._builder.tool = head.tool[:100] or "CUPTI"
        self._process = head.process

    def _check_columns(self, number: int, line: _CaptureLine) -> None:
        missing = [name for name in TABLES[line.table][0].split() if name not in line.columns]
        if missing or len(set(map(len, line.columns.values()))) > 1:
            what = f"has no column {missing[0]}" if missing else "has columns of several lengths"
            raise self._error(f"line {number}: table {line.table} {what}")

    def recording(self) -> Recording:
        """Return the recording of all lines."""
        for number, name, *counts in _rows(self._joined("devices")):
            self._builder.cards[number] = builder.card_of(number, self._name(name), *counts)
        self._add_streams()
        for activity in filter(TABLES.__contains__, builder.ACTIVITIES):
            builder.add_activities(self._builder, activity, self._owned(self._joined(activity)), self._name)
        untraced = tuple(self._untraced(self._joined("untraced")))
        return msgspec.structs.replace(self._builder.recording(), untraced=untraced)

    def _name(self, place: int) -> str:
        return self._names[place] if 0 <= place < len(self._names) else "a name that is missing"

    def _joined(self, table: str) -> Columns:
        needed, others = (names.split() for names in TABLES[table])
        found = {name: list[int]() for name in (*needed, *others)}
        for block in self._blocks.pop(table):
            for name, column in found.items():
                column += block.get(name, [NONE] * len(block[needed[0]]))
        return {name: np.array(column, np.int64) for name, column in found.items()}

    def _owned(self, block: Columns) -> Columns:
        """Return the columns as the builder names them, with their process."""
        process = np.full(len(next(iter(block.values()))), self._process)
        named = {NAMED.get(name, name): column for name, column in block.items()}
        return named | {"process": process, "pid": process}

    def _add_streams(self) -> None:
        """Add all streams, used or not: their order is that of their creation, in which they get hardware queues."""
        contexts, streams = self._joined("contexts"), self._joined("streams")
        kinds = self._builder.stream_kinds
        for context, stream, flag in _rows(streams):
            kinds[self._process, context, stream] = builder.STREAM_KINDS.get(flag, "unknown")
        card_of_context = {}
        for context, card, null_stream in _rows(contexts):
            kinds[self._process, context, null_stream], card_of_context[context] = "legacy", card
        contexts["stream"] = contexts["null_stream"]
        for table in (contexts, streams):
            table["device"] = np.array([card_of_context.get(context, NONE) for context in table["context"].tolist()])
            self._builder.add("streams", self._owned(table))

    def _untraced(self, table: Columns) -> Iterator[Annotations]:
        """Yield the ranges of each run without CUPTI, in the order of their starts."""
        right = (table["end"] >= table["start"]) & (table["end"] - table["start"] < 1 << 52)
        self._builder.count(("untraced ranges that end before they start", "left out"), int((~right).sum()))
        named = builder.mapped(table["name"], lambda place: self._builder.name(self._name(place)))
        for run in np.unique(table["run"][right]).tolist():
            rows = np.flatnonzero(right & (table["run"] == run))
            rows = rows[np.argsort(table["start"][rows], kind="stable")]
            first_ns = int(table["start"][rows[0]])
            rows = rows[table["start"][rows] - first_ns < 1 << 51]
            columns = {NAMED[side]: table[side][rows] - first_ns for side in ("start", "end")}
            yield Annotations.of(columns | {"kind": rows * 0, "thread": rows * 0 + NONE, "name": named[rows]})


def _rows(table: Columns) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in table.values()), strict=True)
