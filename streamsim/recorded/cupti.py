"""CUPTI's activity records, in columns: as rows of a recording, and as ``streamsim-validate capture`` writes them.

A capture is lines of JSON, plain or packed with gzip. The first line holds the format's name and version. Each other
line holds some rows of a table as columns of whole numbers, or names. Columns refer to names by their places in the
file. The last line says that nothing is missing. Times are nanoseconds of CUPTI's clock, except in ``untraced``: these
runs were timed with another clock, without CUPTI.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.recorded.builder import FAR, RecordingBuilder, mapped
from streamsim.recorded.call_names import plain
from streamsim.recorded.recording import (
    NONE,
    AnnotationKind,
    Annotations,
    CopyDirection,
    CopyMemory,
    RecordedCard,
    RecordedStreamKind,
    Recording,
    WorkKind,
)
from streamsim.text import one_line, shown

Columns = dict[str, NDArray[Any]]

NO_ID = 0xFFFFFFFF
COPY_KINDS = {1: CopyDirection.H2D, 2: CopyDirection.D2H, 3: CopyDirection.H2D, 4: CopyDirection.D2H}
COPY_KINDS |= dict.fromkeys((5, 6, 7, 8), CopyDirection.D2D) | {10: CopyDirection.PEER}
MEMORIES = {1: CopyMemory.PAGEABLE, 2: CopyMemory.PINNED}  # CUPTI_ACTIVITY_MEMORY_KIND_...
MANAGED = 5  # CUPTI_ACTIVITY_MEMORY_KIND_MANAGED
STREAM_KINDS: dict[int, RecordedStreamKind] = {1: "blocking", 2: "non-blocking", 3: "legacy"}
OF_THE_PROFILER = 1  # who named a range; 0: the program
MANAGED_CALL = "MallocManaged"


def is_id(number: int) -> bool:
    """Return False for CUPTI's "none": 32 ones, or 64 ones, which a signed number holds as -1."""
    return number >= 0 and number != NO_ID


class Activities:
    """A translator of activity records, which adds them to a ``builder``.

    The columns of a table have the builder's names. In place of indices, ``device``, ``context`` and ``stream_id`` have
    CUPTI's numbers, and ``pid`` the system's number of the process. ``process`` is the owner of the correlations.
    ``directions``, ``memories``: what the numbers of copies mean; ``managed``: that of unified memory.
    """

    def __init__(
        self,
        builder: RecordingBuilder,
        directions: Mapping[int, CopyDirection],
        memories: Mapping[int, CopyMemory],
        managed: int = NO_ID,
    ) -> None:
        self._builder, self._directions, self._memories, self._managed = builder, directions, memories, managed
        self._records: dict[tuple[int, int], tuple[int, int]] = {}  # by process and sync: the call and the stream

    def work(self, table: Columns, kind: WorkKind, name: str = "") -> None:
        """Add work of a kind. Without a column ``name``, all of it has this ``name``."""
        card, stream = mapped(table["device"], self._builder.card), self._streams(table, table["device"])
        in_graph = (table["graph"] > 0) & (table["graph"] != NO_ID)
        graph, node = (np.where(in_graph, table[number], NONE) for number in ("graph", "node"))
        columns: dict[str, Any] = {"kind": kind, "card": card, "stream": stream, "graph": graph, "node": node}
        columns |= {"name": self._builder.name(name)} if name else {}
        self._builder.work.add(table | columns)

    def copies(self, table: Columns) -> None:
        """Add copies. A copy has memory on the host's side if it is to or from the card."""
        direction = mapped(table["copy_kind"], lambda kind: self._directions.get(kind, CopyDirection.OTHER))
        source, target = table["src_device"], table["dst_device"]
        between = (source != target) & (source >= 0) & (target >= 0) & (direction == CopyDirection.D2D)
        direction[between] = CopyDirection.PEER
        direction[(table["src_kind"] == self._managed) | (table["dst_kind"] == self._managed)] = CopyDirection.UNIFIED
        of_host = np.where(direction == CopyDirection.H2D, table["src_kind"], table["dst_kind"])
        memory = mapped(of_host, lambda kind: self._memories.get(kind, CopyMemory.UNKNOWN))
        memory[(direction != CopyDirection.H2D) & (direction != CopyDirection.D2H)] = CopyMemory.NONE
        self.work(table | {"direction": direction, "memory": memory}, WorkKind.COPY, "copy")

    def kernels(self, table: Columns) -> None:
        """Add kernels, with the shapes of their grids and blocks."""
        for name in ("grid", "block"):
            table[name] = np.stack([table[f"{name}_{axis}"] for axis in "xyz"], axis=1)
        table["shared_bytes"] = table["static_shared"].clip(0, 1 << 30) + table["dynamic_shared"].clip(0, 1 << 30)
        self.work(table, WorkKind.KERNEL)

    def events(self, table: Columns) -> None:
        """Add records of events. Waits for them are added later."""
        streams = self._streams(table)
        self._builder.marks.add(table | {"stream": streams, "event": self._events(table)})
        keys = zip(table["process"].tolist(), table["sync"].tolist(), strict=True)
        values = zip(table["correlation"].tolist(), streams.tolist(), strict=True)
        self._records |= {key: value for key, value in zip(keys, values, strict=True) if key[1] >= 0}

    def waits(self, table: Columns) -> None:
        """Add what waits and synchronisations wait for."""
        keys = zip(table["process"].tolist(), table["sync"].tolist(), strict=True)
        recorded = np.array([self._records.get(key, (NONE, NONE)) for key in keys], np.int64).reshape(-1, 2)
        columns = {"recorded": recorded[:, 0], "recorded_in": recorded[:, 1]}
        self._builder.marks.add(table | columns | {"stream": self._streams(table), "event": self._events(table)})

    def _events(self, table: Columns) -> NDArray[np.int64]:
        return np.where(table["event"] == NO_ID, NONE, table["event"])

    def _streams(self, table: Columns, device: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the indices of streams, -1 for none; ``device``: their cards, if known."""
        cards = np.full(len(table["stream_id"]), NONE) if device is None else device
        keys = np.stack([table["pid"], table["context"], table["stream_id"], cards], axis=1)
        unique, inverse = np.unique(keys, axis=0, return_inverse=True)
        found = [self._builder.stream(*key) if is_id(key[2]) else NONE for key in unique.tolist()]
        return np.array(found, np.int64)[inverse.reshape(-1)]


# Captures

FORMAT = "streamsim_capture"  # the key in the first line of a captured file; its value is the version
VERSION = 1
LARGEST_LINE_BYTES = 1 << 24
CAPTURE_AGAIN = "capture the program again"

PLACED = ("start", "end", "device", "context", "stream", "correlation")
IN_GRAPH = ("graph", "node")
MARKED = ("correlation", "context", "stream", "event", "sync")
SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # needed columns of each table, and optional ones
    "calls": (("start", "end", "thread", "correlation", "name"), ()),
    "copies": ((*PLACED, "bytes", "copy_kind", "src_kind", "dst_kind"), (*IN_GRAPH, "src_device", "dst_device")),
    "memsets": ((*PLACED, "bytes"), IN_GRAPH),
    "kernels": ((*PLACED, "name"), (*SHAPE, "registers", "static_shared", "dynamic_shared", *IN_GRAPH)),
    "synchronizations": (MARKED, ()),
    "events": (MARKED, ()),
    "streams": (("context", "stream", "flag"), ()),
    "contexts": (("context", "device", "null_stream"), ()),
    "devices": (("id", "name"), ("memory_bytes", "multiprocessors", "copy_engines")),
    "ranges": (("start", "end", "thread", "name", "by"), ()),
    "untraced": (("run", "start", "end", "thread", "name"), ()),
}
IN_STREAMS = ("copies", "memsets", "kernels", "synchronizations", "events")
NAMED = {"start": "start_ns", "end": "end_ns", "stream": "stream_id"}  # as the builder names columns
_WHOLE = Annotated[int, msgspec.Meta(ge=-FAR, le=FAR)]


class _CaptureHead(msgspec.Struct):
    version: int = msgspec.field(name=FORMAT)
    tool: str = ""
    program: str = ""
    process: _WHOLE = 0


class _CaptureLine(msgspec.Struct):
    table: str = ""
    columns: dict[str, list[_WHOLE]] = {}
    names: list[str] = []
    dropped: int = 0
    end: bool = False


def read_captured(path: str | os.PathLike[str], blocks: Iterator[bytes]) -> Recording:
    """Return the recording in the ``blocks`` of a capture. Raises InputError of one line, which begins with ``path``.

    The recording is empty if the program put nothing on a card.
    """
    reader = _CaptureReader(str(path))
    ended = False
    for number, line in enumerate(_lines(path, blocks), 1):
        ended = reader.take(number, line)
    if not ended:
        raise InputError(one_line(f"{path}: is cut short; {CAPTURE_AGAIN}, or copy it again"))
    return reader.recording()


def _lines(path: str | os.PathLike[str], blocks: Iterator[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        *whole, rest = block.split(b"\n")
        for line in whole:
            yield b"".join([*parts, line])
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > LARGEST_LINE_BYTES:
            raise InputError(one_line(f"{path}: has a line of over {LARGEST_LINE_BYTES >> 20} MiB; {CAPTURE_AGAIN}"))
    if size:
        yield b"".join(parts)


class _CaptureReader:
    """A reader of lines. It adds the card's rows last, so that streams have the order of their creation."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._builder = RecordingBuilder("CUPTI", path)
        self._line = msgspec.json.Decoder(_CaptureLine)
        self._process = 0
        self._names: list[int] = []  # by place in the file, the builder's index
        self._blocks: dict[str, list[Columns]] = {name: [] for name in TABLES}
        self._rows = 0

    def take(self, number: int, line: bytes) -> bool:
        """Take the line of this ``number``, from 1. Return True for the last line."""
        try:
            if number == 1:
                self._take_head(msgspec.json.decode(line, type=_CaptureHead))
                return False
            found = self._line.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(one_line(f"{self._path}: line {number}: {error}; {CAPTURE_AGAIN}")) from None
        self._names += [self._builder.name(name) for name in found.names]
        lost = ("records that CUPTI lost", "it had no room for them, or they could not be read")
        self._builder.count(lost, max(found.dropped, 0))
        if found.table in TABLES:
            self._take_rows(number, found)
        elif found.table:
            self._builder.count((f"records of table {shown(found.table)}", "not read"))
        return found.end

    def _take_head(self, head: _CaptureHead) -> None:
        if head.version != VERSION:
            wrong = f"is of version {head.version}, and {VERSION} is read"
            raise InputError(one_line(f"{self._path}: {wrong}; {CAPTURE_AGAIN}"))
        self._builder.tool = head.tool[:100] or "CUPTI"
        self._process = head.process
        if head.program:
            self._builder.processes[head.process] = head.program[:100]

    def _take_rows(self, number: int, line: _CaptureLine) -> None:
        needed, others = TABLES[line.table]
        sizes = {len(column) for column in line.columns.values()} or {0}
        missing = [name for name in needed if name not in line.columns]
        if missing or len(sizes) > 1:
            what = f"has no column {missing[0]}" if missing else "has columns of several lengths"
            raise InputError(one_line(f"{self._path}: line {number}: table {line.table} {what}; {CAPTURE_AGAIN}"))
        (size,) = sizes
        nothing = [NONE] * size
        columns = {name: line.columns.get(name, nothing) for name in (*needed, *others)}
        self._blocks[line.table].append({name: np.array(column, np.int64) for name, column in columns.items()})
        self._rows += size
        self._builder.check_size(self._rows)

    def recording(self) -> Recording:
        """Return the recording of all lines."""
        self._declare_cards()
        tables = {name: self._table(name) for name in ("calls", *IN_STREAMS, "ranges")}
        self._declare_streams(tables)
        builder, activities = self._builder, Activities(self._builder, COPY_KINDS, MEMORIES, MANAGED)
        builder.calls.add(tables["calls"])
        managed = [i for i, name in enumerate(builder.names()) if MANAGED_CALL in plain(name)]
        unified = ("calls that allocate unified memory", "when its pages move is not recorded")
        builder.count(unified, int(np.isin(tables["calls"]["name"], managed).sum()))
        activities.copies(tables["copies"])
        activities.work(tables["memsets"], WorkKind.MEMSET, "memset")
        activities.kernels(tables["kernels"])
        activities.events(tables["events"])
        activities.waits(tables["synchronizations"])
        of_the_profiler = tables["ranges"]["by"] == OF_THE_PROFILER
        kind = np.where(of_the_profiler, AnnotationKind.OVERHEAD, AnnotationKind.RANGE)
        builder.annotations.add(tables["ranges"] | {"kind": kind})
        untraced = tuple(self._untraced(self._joined("untraced")))
        return msgspec.structs.replace(builder.recording(), untraced=untraced)

    def _joined(self, table: str) -> Columns:
        nothing = np.empty(0, np.int64)
        names = (*TABLES[table][0], *TABLES[table][1])
        return {name: np.concatenate([nothing, *(block.pop(name) for block in self._blocks[table])]) for name in names}

    def _table(self, name: str) -> Columns:
        """Return the columns of a table as the builder names them, with its indices of names and threads."""
        table = {NAMED.get(column, column): values for column, values in self._joined(name).items()}
        if "name" in table:
            table["name"] = self._named(table["name"])
        if "thread" in table:
            table["thread"] = mapped(table["thread"], lambda number: self._builder.thread(self._process, number))
        size = len(next(iter(table.values())))
        return table | {"process": np.full(size, self._process), "pid": np.full(size, self._process)}

    def _declare_cards(self) -> None:
        table = self._joined("devices")
        named, names = self._named(table["name"]).tolist(), self._builder.names()
        for name, row in zip(named, _rows(table), strict=True):
            counts = (max(row[column], 0) for column in ("memory_bytes", "multiprocessors", "copy_engines"))
            self._builder.cards[row["id"]] = RecordedCard(row["id"], names[name][:100], *counts)

    def _declare_streams(self, tables: Mapping[str, Columns]) -> None:
        """Declare all streams in the order of their creation, used or not.

        Their numbers show this order, in which streams get their hardware queues.
        """
        contexts = list(_rows(self._joined("contexts")))
        streams = _rows(self._joined("streams"))
        kinds = {(row["context"], row["stream"]): STREAM_KINDS.get(row["flag"], "unknown") for row in streams}
        kinds |= {(row["context"], row["null_stream"]): "legacy" for row in contexts}
        card_of = {row["context"]: row["device"] for row in contexts}
        used = (tables[name] for name in IN_STREAMS)
        keys = (zip(table["context"].tolist(), table["stream_id"].tolist(), strict=True) for table in used)
        for context, stream in sorted({*kinds, *(key for of_table in keys for key in of_table)}):
            if is_id(stream):
                self._builder.stream(self._process, context, stream, card_of.get(context, NONE))
                self._builder.stream_kinds[self._process, context, stream] = kinds.get((context, stream), "unknown")

    def _named(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the builder's indices of the names at these places in the file."""
        there = (places >= 0) & (places < len(self._names))
        found = np.array([*self._names, NONE], np.int64)[np.where(there, places, len(self._names))]
        if not there.all():
            found[~there] = self._builder.name("a name that is missing")
        return found

    def _untraced(self, table: Columns) -> Iterator[Annotations]:
        """Yield the ranges of each run without CUPTI, in the order of their starts."""
        right = (table["end"] >= table["start"]) & (table["end"] - table["start"] < 1 << 52)
        self._builder.count(("untraced ranges that end before they start", "left out"), int((~right).sum()))
        for run in np.unique(table["run"][right]).tolist():
            rows = np.flatnonzero(right & (table["run"] == run))
            rows = rows[np.argsort(table["start"][rows], kind="stable")]
            first_ns = int(table["start"][rows[0]])
            rows = rows[table["start"][rows] - first_ns < 1 << 51]
            columns = {NAMED[side]: table[side][rows] - first_ns for side in ("start", "end")}
            columns |= {"kind": np.zeros(len(rows)), "thread": np.full(len(rows), NONE)}
            yield Annotations.of(columns | {"name": self._named(table["name"][rows])})


def _rows(table: Columns) -> Iterator[dict[str, int]]:
    for values in zip(*(column.tolist() for column in table.values()), strict=True):
        yield dict(zip(table, values, strict=True))
