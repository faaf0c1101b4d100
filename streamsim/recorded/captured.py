"""Captures of ``streamsim-validate capture``: CUPTI's activity records, as lines of JSON, plain or packed with gzip.

The first line holds the format's name and version. Each other line holds some rows of a table as columns of whole
numbers, or names. Columns refer to names by their places in the file. The last line says that nothing is missing. Times
are nanoseconds of CUPTI's clock, except in ``untraced``: these runs were timed with another clock, without CUPTI.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.recorded.builder import FAR, STEP, RecordingBuilder, mapped, times_of
from streamsim.recorded.call_names import kind_of_call, plain
from streamsim.recorded.file_kinds import FORMAT
from streamsim.recorded.nsys import COPY_KINDS, NO_ID, STREAM_KINDS
from streamsim.recorded.recording import (
    NONE,
    AnnotationKind,
    Annotations,
    CopyDirection,
    CopyMemory,
    RecordedCard,
    Recording,
    WorkKind,
)
from streamsim.text import one_line, shown

Columns = dict[str, NDArray[np.int64]]

VERSION = 1
LARGEST_LINE_BYTES = 1 << 24
CAPTURE_AGAIN = "capture the program again"
MANAGED = 5  # CUPTI_ACTIVITY_MEMORY_KIND_MANAGED
MEMORIES = {1: CopyMemory.PAGEABLE, 2: CopyMemory.PINNED}  # CUPTI_ACTIVITY_MEMORY_KIND_...
OF_THE_PROFILER = 1  # who named a range; 0: the program
MANAGED_CALL = "MallocManaged"

PLACED = ("start", "end", "device", "context", "stream", "correlation")
IN_GRAPH = ("graph", "node")
MARKED = ("correlation", "context", "stream", "event", "sync")
SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # needed columns of each table, and optional ones
    "calls": (("start", "end", "thread", "correlation", "name"), ()),
    "copies": ((*PLACED, "bytes", "copy_kind", "src_kind", "dst_kind"), (*IN_GRAPH, "src_device", "dst_device")),
    "memsets": ((*PLACED, "bytes"), IN_GRAPH),
    "kernels": (
        (*PLACED, "name"),
        (*SHAPE, "registers", "static_shared", "dynamic_shared", *IN_GRAPH),
    ),
    "synchronizations": (MARKED, ()),
    "events": (MARKED, ()),
    "streams": (("context", "stream", "flag"), ()),
    "contexts": (("context", "device", "null_stream"), ()),
    "devices": (("id", "name"), ("memory_bytes", "multiprocessors", "copy_engines")),
    "ranges": (("start", "end", "thread", "name", "by"), ()),
    "untraced": (("run", "start", "end", "thread", "name"), ()),
}
_WHOLE = Annotated[int, msgspec.Meta(ge=-FAR, le=FAR)]


class _Head(msgspec.Struct):
    version: int = msgspec.field(name=FORMAT)
    tool: str = ""
    program: str = ""
    process: _WHOLE = 0


class _Line(msgspec.Struct):
    table: str = ""
    columns: dict[str, list[_WHOLE]] = {}
    names: list[str] = []
    dropped: int = 0
    end: bool = False


class _Event(NamedTuple):
    """The record of an event: the correlation of its call, and the index of its stream."""

    correlation: int
    stream: int


def read_captured(path: str | os.PathLike[str], blocks: Iterator[bytes]) -> Recording:
    """Return the recording in the ``blocks`` of a capture. Raises InputError of one line, which begins with ``path``.

    The recording is empty if the program put nothing on a card.
    """
    reader = _Reader(str(path))
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


class _Reader:
    """A reader of lines. It adds the card's rows last, so that streams have the order of their creation."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._builder = RecordingBuilder("CUPTI", path)
        self._line = msgspec.json.Decoder(_Line)
        self._process = 0
        self._names: list[int] = []  # by place in the file, the builder's index
        self._tables: dict[str, list[Columns]] = {name: [] for name in TABLES}
        self._rows = 0

    def take(self, number: int, line: bytes) -> bool:
        """Take the line of this ``number``, from 1. Return True for the last line."""
        try:
            if number == 1:
                self._head(msgspec.json.decode(line, type=_Head))
                return False
            found = self._line.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(one_line(f"{self._path}: line {number}: {error}; {CAPTURE_AGAIN}")) from None
        self._names += [self._builder.name(name) for name in found.names]
        self._builder.count(
            ("records that CUPTI lost", "it had no room for them, or they could not be read"), max(found.dropped, 0)
        )
        if found.table:
            self._table(number, found)
        return found.end

    def _head(self, head: _Head) -> None:
        if head.version != VERSION:
            raise InputError(
                one_line(f"{self._path}: is of version {head.version}, and {VERSION} is read; {CAPTURE_AGAIN}")
            )
        self._builder.tool = head.tool[:100] or "CUPTI"
        self._process = head.process
        if head.program:
            self._builder.processes[head.process] = head.program[:100]

    def _table(self, number: int, line: _Line) -> None:
        if line.table not in TABLES:
            return self._builder.count((f"records of table {shown(line.table)}", "not read"))
        needed, others = TABLES[line.table]
        sizes = {len(column) for column in line.columns.values()} or {0}
        missing = [name for name in needed if name not in line.columns]
        if missing or len(sizes) > 1:
            what = f"has no column {missing[0]}" if missing else "has columns of several lengths"
            raise InputError(one_line(f"{self._path}: line {number}: table {line.table} {what}; {CAPTURE_AGAIN}"))
        (size,) = sizes
        block = {name: np.full(size, NONE, np.int64) for name in others}
        block |= {
            name: np.array(column, np.int64) for name, column in line.columns.items() if name in (*needed, *others)
        }
        self._tables[line.table].append(block)
        self._rows += size
        self._builder.check_size(self._rows)
        return None

    def recording(self) -> Recording:
        """Return the recording of all lines."""
        tables = {name: _joined(name, blocks) for name, blocks in self._tables.items()}
        self._know(tables)
        self._calls(tables["calls"])
        self._copies(tables["copies"])
        self._memsets(tables["memsets"])
        self._kernels(tables["kernels"])
        self._marks(tables)
        self._ranges(tables["ranges"])
        runs = tuple(self._untraced(tables["untraced"]))
        return msgspec.structs.replace(self._builder.recording(), untraced=runs)

    # Cards, streams and names

    def _know(self, tables: dict[str, Columns]) -> None:
        """Tell the builder of all cards, and of all streams in the order of their creation, used or not.

        Their numbers show this order, in which streams get their hardware queues.
        """
        builder = self._builder
        for row, name in zip(_rows(tables["devices"]), self._texts(tables["devices"]["name"]), strict=True):
            counts = (max(row[column], 0) for column in ("memory_bytes", "multiprocessors", "copy_engines"))
            builder.cards[row["id"]] = RecordedCard(row["id"], name[:100], *counts)
        kinds = {(row["context"], row["stream"]): STREAM_KINDS.get(row["flag"]) for row in _rows(tables["streams"])}
        kinds |= {(row["context"], row["null_stream"]): "legacy" for row in _rows(tables["contexts"])}
        card_of = {row["context"]: row["device"] for row in _rows(tables["contexts"])}
        known = {*kinds, *(key for name in ("copies", "memsets", "kernels") for key in _keys(tables[name]))}
        known |= {key for name in ("synchronizations", "events") for key in _keys(tables[name])}
        for context, stream in sorted(key for key in known if _is_id(key[1])):
            builder.stream(self._process, context, stream, card_of.get(context, NONE))
            builder.stream_kinds[self._process, context, stream] = kinds.get((context, stream)) or "unknown"

    def _texts(self, places: NDArray[np.int64]) -> list[str]:
        """Return the names at these places in the file."""
        indices, names = self._named(places), self._builder.names()
        return [names[index] for index in indices.tolist()]

    def _named(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the builder's indices of the names at these places in the file."""
        there = (places >= 0) & (places < len(self._names))
        found = np.array([*self._names, NONE], np.int64)[np.where(there, places, len(self._names))]
        if not there.all():
            found[~there] = self._builder.name("a name that is missing")
        return found

    # Rows

    def _calls(self, table: Columns) -> None:
        columns: dict[str, Any] = times_of(table) | {"process": self._process, "correlation": table["correlation"]}
        columns["name"] = self._named(table["name"])
        names = self._builder.names()
        kinds = {name: int(kind_of_call(names[name])) for name in np.unique(columns["name"]).tolist()}
        columns["kind"] = mapped(columns["name"], kinds.__getitem__)
        columns["thread"] = self._threads(table["thread"])
        self._builder.calls.add(len(table["start"]), columns)
        managed = [name for name in kinds if MANAGED_CALL in plain(names[name])]
        unified = ("calls that allocate unified memory", "when its pages move is not recorded")
        self._builder.count(unified, int(np.isin(columns["name"], managed).sum()))

    def _threads(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return mapped(ids, lambda number: self._builder.thread(self._process, number))

    def _placed(self, table: Columns, kind: WorkKind) -> dict[str, Any]:
        """Return the columns that all work has: times, process, card, stream, call and graph."""
        columns: dict[str, Any] = times_of(table) | {"kind": kind, "process": self._process}
        columns["card"] = mapped(table["device"], self._builder.card)
        columns["stream"] = self._streams(table, table["device"])
        columns |= {"correlation": table["correlation"], "graph": table["graph"], "node": table["node"]}
        in_graph = (table["graph"] > 0) & (table["graph"] != NO_ID)
        columns["graph"], columns["node"] = (np.where(in_graph, table[name], NONE) for name in IN_GRAPH)
        return columns

    def _streams(self, table: Columns, device: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        cards = np.full(len(table["stream"]), NONE) if device is None else device
        keys = zip(table["context"].tolist(), table["stream"].tolist(), cards.tolist(), strict=True)
        found = (self._builder.stream(self._process, *key) if _is_id(key[1]) else NONE for key in keys)
        return np.fromiter(found, np.int64, len(cards))

    def _copies(self, table: Columns) -> None:
        columns = self._placed(table, WorkKind.COPY)
        direction = mapped(table["copy_kind"], lambda kind: COPY_KINDS.get(kind, CopyDirection.OTHER))
        source, target = table["src_device"], table["dst_device"]
        direction[(source >= 0) & (target >= 0) & (source != target)] = CopyDirection.PEER
        direction[(table["src_kind"] == MANAGED) | (table["dst_kind"] == MANAGED)] = CopyDirection.UNIFIED
        of_host = np.where(direction == CopyDirection.H2D, table["src_kind"], table["dst_kind"])
        memory = mapped(of_host, lambda kind: MEMORIES.get(kind, CopyMemory.UNKNOWN))
        one_side = (direction == CopyDirection.H2D) | (direction == CopyDirection.D2H)
        columns |= {"direction": direction, "memory": np.where(one_side, memory, CopyMemory.NONE)}
        columns |= {"bytes": self._builder.sizes(table["bytes"]), "name": self._builder.name("copy")}
        self._builder.work.add(len(table["start"]), columns)

    def _memsets(self, table: Columns) -> None:
        columns = self._placed(table, WorkKind.MEMSET)
        columns |= {"bytes": self._builder.sizes(table["bytes"]), "name": self._builder.name("memset")}
        self._builder.work.add(len(table["start"]), columns)

    def _kernels(self, table: Columns) -> None:
        columns = self._placed(table, WorkKind.KERNEL) | {"name": self._named(table["name"])}
        columns["grid"] = np.stack([table[name].clip(0) for name in SHAPE[:3]], axis=1)
        columns["block"] = np.stack([table[name].clip(0) for name in SHAPE[3:]], axis=1)
        columns["registers"] = table["registers"].clip(0)
        columns["shared_bytes"] = table["static_shared"].clip(0, 1 << 30) + table["dynamic_shared"].clip(0, 1 << 30)
        self._builder.work.add(len(table["start"]), columns)

    def _marks(self, tables: dict[str, Columns]) -> None:
        """Add the records of events, and what waits and synchronisations wait for."""
        events, waits = tables["events"], tables["synchronizations"]
        in_streams = self._streams(events)
        rows = zip(events["sync"].tolist(), events["correlation"].tolist(), in_streams.tolist(), strict=True)
        known = {sync: _Event(correlation, stream) for sync, correlation, stream in rows if sync >= 0}
        nothing = _Event(NONE, NONE)
        found = [known.get(sync, nothing) for sync in waits["sync"].tolist()]
        of_waits = {"recorded": np.array([event.correlation for event in found], np.int64)}
        of_waits["recorded_in"] = np.array([event.stream for event in found], np.int64)
        for table, streams, more in ((events, in_streams, {}), (waits, self._streams(waits), of_waits)):
            event = np.where(table["event"] == NO_ID, NONE, table["event"])
            columns = {"process": self._process, "correlation": table["correlation"], "stream": streams, "event": event}
            self._builder.marks.add(len(event), columns | more)

    def _ranges(self, table: Columns) -> None:
        name = self._named(table["name"])
        names = self._builder.names()
        kind = np.full(len(name), AnnotationKind.RANGE)
        kind[np.isin(name, [n for n in np.unique(name).tolist() if names[n].startswith(STEP)])] = AnnotationKind.STEP
        kind[table["by"] == OF_THE_PROFILER] = AnnotationKind.OVERHEAD
        columns = times_of(table) | {"kind": kind, "name": name, "thread": self._threads(table["thread"])}
        self._builder.annotations.add(len(name), columns)

    def _untraced(self, table: Columns) -> Iterator[Annotations]:
        """Yield the ranges of each run without CUPTI, in the order of their starts."""
        right = (table["end"] >= table["start"]) & (table["end"] - table["start"] < 1 << 52)
        self._builder.count(("untraced ranges that end before they start", "left out"), int((~right).sum()))
        for run in np.unique(table["run"][right]).tolist():
            rows = np.flatnonzero(right & (table["run"] == run))
            start, end = table["start"][rows], table["end"][rows]
            origin = int(start.min())
            near = start - origin < 1 << 51
            rows, start, end = rows[near], start[near] - origin, end[near] - origin
            order = np.argsort(start, kind="stable")
            columns = {"start_ns": start[order], "end_ns": end[order], "kind": np.zeros(len(order), np.int8)}
            columns["name"] = self._named(table["name"][rows][order])
            yield Annotations.of(columns | {"thread": np.full(len(order), NONE)})


def _joined(table: str, blocks: list[Columns]) -> Columns:
    needed, others = TABLES[table]
    nothing = np.empty(0, np.int64)
    return {name: np.concatenate([nothing, *(block.pop(name) for block in blocks)]) for name in (*needed, *others)}


def _rows(table: Columns) -> Iterator[dict[str, int]]:
    for values in zip(*(column.tolist() for column in table.values()), strict=True):
        yield dict(zip(table, values, strict=True))


def _keys(table: Columns) -> set[tuple[int, int]]:
    return set(zip(table["context"].tolist(), table["stream"].tolist(), strict=True))


def _is_id(number: int) -> bool:
    """Return False for CUPTI's "none": 32 ones, or 64 ones, which a capture holds as -1."""
    return number >= 0 and number != NO_ID
