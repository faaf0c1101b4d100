"""SQLite exports of Nsight Systems, of 2020 to 2026.

An export has a table or column only if something was recorded. A process is its globalPid without the low bits, which
number threads; ids of calls, streams and contexts are unique within a process. The name of a synchronisation's call
shows its kind; its syncType differs between versions.

Views, virtual tables and computed columns of the file would execute parts of it, and count as missing. A row is left
out and counted if a needed value is not a whole number.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.files import file_error
from streamsim.recorded.builder import RecordingBuilder, mapped
from streamsim.recorded.cupti import COPY_KINDS, STREAM_KINDS, Activities, Columns
from streamsim.recorded.foreign import foreign
from streamsim.recorded.recording import (
    NONE,
    AnnotationKind,
    CopyDirection,
    CopyMemory,
    PageCause,
    PageKind,
    RecordedCard,
    RecordedStreamKind,
    Recording,
    WorkKind,
)
from streamsim.recorded.unified import with_prefetches
from streamsim.text import GZIP_MAGIC, one_line, uncapitalised

EXPORT_AGAIN = "export it again: nsys export --type sqlite --lazy=false FILE.nsys-rep"
META = ("META_DATA_EXPORT", "EXPORT_META_DATA")
CUPTI = "CUPTI_ACTIVITY_KIND_"
PROCESS_BITS = 24
THREAD_MASK = (1 << PROCESS_BITS) - 1
PAGE_KINDS = {11: PageKind.IN, 12: PageKind.OUT, 13: PageKind.BETWEEN_CARDS}
MEMORIES = {0: CopyMemory.PAGEABLE, 1: CopyMemory.PINNED}  # where ENUM_CUDA_MEM_KIND does not say it
NAMELESS = "a range without a name"
NVTX_RANGES = (59, 60, 70, 71)  # pushed and popped, started and ended; their variants
_PAGES = {"HTOD": PageKind.IN, "DTOH": PageKind.OUT, "DTOD": PageKind.BETWEEN_CARDS}
_SUFFIXES = {"HTOD": CopyDirection.H2D, "DTOH": CopyDirection.D2H, "HTOA": CopyDirection.H2D, "ATOH": CopyDirection.D2H}
_SUFFIXES |= dict.fromkeys(("ATOA", "ATOD", "DTOA", "DTOD"), CopyDirection.D2D) | {"PTOP": CopyDirection.PEER}

# Columns of the export, as the builder names them.
_TIMES = {"start": "start_ns", "end": "end_ns"}
_CALL = {"correlationId": "correlation", "globalPid": "pid"}
_PLACED = _TIMES | {"deviceId": "device", "streamId": "stream_id"} | _CALL
_IN_CONTEXT = {"contextId": "context", "graphId": "graph", "graphNodeId": "node"}
_MOVED = _TIMES | {"deviceId": "device", "globalPid": "pid", "bytes": "bytes", "copyKind": "copy_kind"}
_COPIED = {"srcKind": "src_kind", "dstKind": "dst_kind", "srcDeviceId": "src_device", "dstDeviceId": "dst_device"}
_SHAPE = {f"{name}{axis}": f"{name}_{axis.lower()}" for name in ("grid", "block") for axis in "XYZ"}
_SHAPE |= {"registersPerThread": "registers", "staticSharedMemory": "static_shared"}
_SHAPE |= {"dynamicSharedMemory": "dynamic_shared", "shortName": "short", "demangledName": "name"}
_MARK = {"streamId": "stream_id", "eventId": "event", "eventSyncId": "sync", "contextId": "context"}
_IN_THREAD = _TIMES | {"globalTid": "thread", "nameId": "name"}

ROWS_AT_ONCE = 20_000
LONGEST_VALUE_BYTES = 1 << 20
CACHE_KIB = 16 << 10


def read_nsys(path: str | os.PathLike[str]) -> Recording:
    """Return the recording in an SQLite export. Raises InputError of one line, which begins with ``path``."""
    with open_tables(path) as tables:
        if not any(name in tables for name in (*META, "StringIds")):
            other = foreign(path, "\n".join(tables).encode())
            what = other or f"is an SQLite file, but no export of Nsight Systems; {EXPORT_AGAIN}"
            raise InputError(one_line(f"{path}: {what}"))
        builder = RecordingBuilder("Nsight Systems", str(path))
        _Export(builder, tables).read()
        if not builder.calls.count + builder.work.count:
            remedy = "record with: nsys profile --trace=cuda,nvtx"
            raise InputError(one_line(f"{path}: has no CUDA calls, copies or kernels; {remedy}"))
        builder.count(("texts that are not UTF-8", "what cannot be read in them is replaced"), tables.replaced)
        return with_prefetches(builder.recording())


class _Export:
    """A reader of the tables of an export, which adds their rows to a builder."""

    def __init__(self, builder: RecordingBuilder, tables: Tables) -> None:
        self._builder, self._tables = builder, tables
        self._directions, self._page_kinds, self._memories = dict(COPY_KINDS), dict(PAGE_KINDS), dict(MEMORIES)
        self._activities = Activities(builder, self._directions, self._memories)
        self._strings: dict[int, str] = {}

    def read(self) -> None:
        """Read all tables."""
        self._read_version()
        self._read_enums()
        self._read_names()
        self._read_cards()
        for block in self._blocks(f"{CUPTI}RUNTIME", _IN_THREAD | {"correlationId": "correlation"}):
            self._builder.calls.add(block)
        of_pages = f'coalesce("copyKind", -1) IN ({", ".join(map(str, self._page_kinds))})'
        for block in self._blocks(f"{CUPTI}MEMCPY", _MOVED, {"migrationCause": "cause"}, where=of_pages):
            self._add_moves(block)
        for block in self._blocks(f"{CUPTI}MEMCPY", _PLACED | _MOVED, _IN_CONTEXT | _COPIED, where=f"NOT {of_pages}"):
            self._activities.copies(block)
        for block in self._blocks(f"{CUPTI}KERNEL", _PLACED, _IN_CONTEXT | _SHAPE):
            self._activities.kernels(block)
        for block in self._blocks(f"{CUPTI}MEMSET", _PLACED | {"bytes": "bytes"}, _IN_CONTEXT):
            self._activities.work(block, WorkKind.MEMSET, "memset")
        # Graphs that are recorded whole, as nsys does without --cuda-graph-trace=node.
        for block in self._blocks(f"{CUPTI}GRAPH_TRACE", _PLACED, _IN_CONTEXT | {"graphExecId": "instance"}):
            block["graph"] = np.where(block["instance"] >= 0, block["instance"], block["graph"])
            self._activities.work(block, WorkKind.GRAPH, "graph")
        self._read_notes()
        for block in self._blocks(f"{CUPTI}CUDA_EVENT", _CALL, _MARK):
            self._activities.events(block)
        for block in self._blocks(f"{CUPTI}SYNCHRONIZATION", _CALL, _MARK):
            self._activities.waits(block)
        self._read_stream_kinds()
        self._read_faults()

    # Names

    def _read_version(self) -> None:
        said = (
            value
            for table in META
            for name, value in self._tables.pairs(table, "name", "value")
            if name == "EXPORT_PRODUCT_VERSION" and isinstance(value, str)
        )
        self._builder.tool = f"Nsight Systems {next(said, '')[:40]}".rstrip()

    def _read_enums(self) -> None:
        """Read what the export's numbers mean, where it says so."""
        for number, name in self._tables.pairs("ENUM_CUDA_MEMCPY_OPER", "id", "name"):
            if isinstance(name, str) and isinstance(number, int):
                suffix = name.rpartition("_")[2]
                self._page_kinds.pop(number, None)
                if "_UVM_" in name:
                    self._page_kinds[number] = _PAGES.get(suffix, PageKind.BETWEEN_CARDS)
                else:
                    self._directions[number] = _SUFFIXES.get(suffix, CopyDirection.OTHER)
        for number, name in self._tables.pairs("ENUM_CUDA_MEM_KIND", "id", "name"):
            if isinstance(name, str) and isinstance(number, int):
                words = {"PAGEABLE": CopyMemory.PAGEABLE, "PINNED": CopyMemory.PINNED}
                self._memories[number] = words.get(name.rpartition("_")[2], CopyMemory.UNKNOWN)

    def _read_names(self) -> None:
        """Read the names that calls, kernels and ranges use."""
        used: set[int] = set()
        for table, column in NAMED:
            if self._tables.has(table, column):
                for block in self._tables.blocks(table, (column,)):
                    used.update(np.unique(block[column]).tolist())
        for number, text in self._tables.pairs("StringIds", "id", "value"):
            if number in used and isinstance(text, str):
                self._builder.name(text)  # counted, as long as it may be
                self._strings[number] = text

    # Rows

    def _blocks(
        self,
        table: str,
        needed: dict[str, str],
        others: dict[str, str] | None = None,
        texts: tuple[str, ...] = (),
        where: str = "true",
    ) -> Iterator[Columns]:
        """Yield a table's columns as the builder names them, with its indices of names and threads."""
        lost = (f"rows of {table} without a needed number", "left out")
        names = needed | (others or {})
        unread = partial(self._builder.count, lost)
        for block in self._tables.blocks(table, tuple(needed), tuple(others or ()), texts, where, unread):
            columns = {names.get(name, name): column for name, column in block.items()}
            if "thread" in columns:
                columns["process"] = columns["thread"] >> PROCESS_BITS
                columns["thread"] = mapped(columns["thread"], self._thread)
            if "pid" in columns:
                columns["process"] = columns["pid"] >> PROCESS_BITS
                columns["pid"] = columns["process"] & THREAD_MASK
            if "short" in columns:
                columns["name"] = np.where(columns["name"] >= 0, columns["name"], columns["short"])
            if "name" in columns:
                columns["name"] = mapped(columns["name"], self._name)
            yield columns
            self._builder.check_size()

    def _thread(self, number: int) -> int:
        return self._builder.thread((number >> PROCESS_BITS) & THREAD_MASK, number & THREAD_MASK)

    def _name(self, number: int) -> int:
        return self._builder.name(self._strings.get(number, f"name {number}"))

    def _add_moves(self, block: Columns) -> None:
        """Add the moves of unified memory's pages, which no call issued."""
        cause = block["cause"]
        columns = {"kind": mapped(block["copy_kind"], self._page_kinds.__getitem__), "process": block["pid"]}
        columns["cause"] = np.where((cause >= 0) & (cause < len(PageCause)), cause, PageCause.UNKNOWN)
        self._builder.pages.add(block | columns | {"card": mapped(block["device"], self._builder.card)})

    def _read_faults(self) -> None:
        owner = {"start": "start_ns", "globalPid": "pid"}
        for block in self._blocks("CUDA_UM_CPU_PAGE_FAULT_EVENTS", owner):
            columns = {"end_ns": block["start_ns"], "kind": PageKind.HOST_FAULT, "process": block["pid"]}
            self._builder.pages.add(block | columns)
        of_card = owner | {"end": "end_ns", "deviceId": "device"}
        for block in self._blocks("CUDA_UM_GPU_PAGE_FAULT_EVENTS", of_card, {"numberOfPageFaults": "count"}):
            columns = {"kind": PageKind.CARD_FAULTS, "process": block["pid"], "count": block["count"].clip(1)}
            self._builder.pages.add(block | columns | {"card": mapped(block["device"], self._builder.card)})

    def _read_notes(self) -> None:
        open_ended = ("NVTX marks, and ranges without an end", "no span of time")
        needed, others = {"start": "start_ns", "globalTid": "thread"}, {"end": "end_ns"}
        others |= {"eventType": "type", "textId": "text_id"}
        for block in self._blocks("NVTX_EVENTS", needed, others, ("text",)):
            texts = zip(block.pop("text"), block["text_id"].tolist(), strict=True)
            names = [text if isinstance(text, str) else self._strings.get(of, NAMELESS) for text, of in texts]
            block["name"] = np.array([self._builder.name(name) for name in names], np.int64)
            ranges = (block["end_ns"] >= 0) & np.isin(block["type"], NVTX_RANGES)
            self._builder.count(open_ended, int((~ranges).sum()))
            block = {name: column[ranges] for name, column in block.items()}
            self._builder.annotations.add(block | {"kind": AnnotationKind.RANGE})
        for table in ("PROFILER_OVERHEAD", f"{CUPTI}OVERHEAD"):
            for block in self._blocks(table, _IN_THREAD):
                self._builder.annotations.add(block | {"kind": AnnotationKind.OVERHEAD})

    # Cards, processes, threads and streams

    def _read_cards(self) -> None:
        columns = ("id", "name", "totalMemory", "smCount", "asyncEngines", "deviceId")
        for row in self._tables.rows("TARGET_INFO_GPU", *columns):
            if isinstance(number := row.get("id", row.get("deviceId")), int):  # exports of 2020 have the latter
                name = row.get("name")
                counts = [max(v, 0) if isinstance(v := row.get(c), int) else 0 for c in columns[2:5]]
                self._builder.cards[number] = RecordedCard(number, name[:100] if isinstance(name, str) else "", *counts)
        for row in self._tables.rows("PROCESSES", "pid", "name"):
            if isinstance(row.get("pid"), int) and isinstance(row.get("name"), str):
                self._builder.processes[row["pid"]] = row["name"][:100]
        for number, name in self._tables.pairs("ThreadNames", "globalTid", "nameId"):
            if isinstance(number, int) and name in self._strings:
                key = ((number >> PROCESS_BITS) & THREAD_MASK, number & THREAD_MASK)
                self._builder.threads[key] = self._strings[name][:100]

    def _read_stream_kinds(self) -> None:
        kinds: dict[tuple[int, ...], RecordedStreamKind] = {}
        for key, flag in self._numbers("TARGET_INFO_CUDA_STREAM", "streamId", "flag"):
            if flag in STREAM_KINDS:
                kinds[key] = STREAM_KINDS[flag]
        for table, column in NULL_STREAMS:
            for key, _ in self._numbers(table, column, column):
                kinds[key] = "legacy"
        self._builder.stream_kinds |= kinds

    def _numbers(self, table: str, stream: str, other: str) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield each stream's process, context and number in a ``table``, and its value in the ``other`` column."""
        columns = ("processId", "contextId", stream, other)
        if self._tables.has(table, *columns):
            for row in self._tables.rows(table, *dict.fromkeys(columns)):
                found = [row[column] for column in columns]
                if all(type(value) is int for value in found):
                    yield tuple(found[:3]), found[3]


NAMED = [(CUPTI + table, "nameId") for table in ("RUNTIME", "OVERHEAD")] + [("PROFILER_OVERHEAD", "nameId")]
NAMED += [(f"{CUPTI}KERNEL", "demangledName"), (f"{CUPTI}KERNEL", "shortName")]
NAMED += [("NVTX_EVENTS", "textId"), ("ThreadNames", "nameId")]
NULL_STREAMS = (("TARGET_INFO_CUDA_CONTEXT_INFO", "nullStreamId"), ("TARGET_INFO_CUDA_NULL_STREAM", "streamId"))


# Tables


class Tables:
    """The stored tables of a file, and the stored columns of each."""

    def __init__(self, path: str | os.PathLike[str], connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection
        self._columns: dict[str, frozenset[str]] = {}
        self.replaced = 0  # texts that are not UTF-8
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
            if isinstance(name, str) and isinstance(sql, str) and sql[:12].upper() == "CREATE TABLE":
                stored = connection.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,))
                self._columns[name] = frozenset(column for (column,) in stored)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def has(self, table: str, *columns: str) -> bool:
        """Return True if a table has all of these columns."""
        return self._columns.get(table, frozenset()).issuperset(columns)

    def blocks(
        self,
        table: str,
        needed: tuple[str, ...],
        others: tuple[str, ...] = (),
        texts: tuple[str, ...] = (),
        where: str = "true",
        unread: Callable[[int], None] = lambda _: None,
    ) -> Iterator[dict[str, Any]]:
        """Yield columns of whole numbers by name, some rows at a time; nothing for a missing table.

        - ``needed``: columns that must be there. ``unread`` is called with the number of rows that lack one.
        - ``others``: columns that may be missing; -1 stands for a missing number.
        - ``texts``: columns of any type, as lists; None stands for a missing value.
        - ``where``: the rows, as an expression of SQL.

        Raises InputError naming the table and column if a needed column is missing.
        """
        if table not in self._columns:
            return
        for name in needed:
            if not self.has(table, name):
                raise InputError(one_line(f"{self._path}: table {table} has no column {name}; {EXPORT_AGAIN}"))
        names = [name for name in (*needed, *others, *texts) if self.has(table, name)]
        chosen = ", ".join(f'"{name}"' for name in names)
        cursor = self._connection.execute(f'SELECT {chosen} FROM "{table}" WHERE {where}')
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            there = dict(zip(names, zip(*rows, strict=True), strict=True))
            numbers = {name: _whole(there[name]) for name in names if name not in texts}
            right = np.logical_and.reduce([numbers[name][1] for name in needed])
            unread(int((~right).sum()))
            block: dict[str, Any] = {name: np.full(int(right.sum()), NONE, np.int64) for name in others}
            block |= {name: column[right] for name, (column, _) in numbers.items()}
            kept = right.tolist()
            for name in texts:
                block[name] = list(compress(there.get(name, (None,) * len(rows)), kept))
            yield block

    def pairs(self, table: str, key: str, value: str) -> Iterator[tuple[Any, Any]]:
        """Yield two columns of any type, row by row; nothing if one is missing."""
        if self.has(table, key, value):
            yield from self._connection.execute(f'SELECT "{key}", "{value}" FROM "{table}"')

    def rows(self, table: str, *columns: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a small table, with those of ``columns`` that it has."""
        there = [name for name in columns if self.has(table, name)]
        if there:
            chosen = ", ".join(f'"{name}"' for name in there)
            for row in self._connection.execute(f'SELECT {chosen} FROM "{table}" LIMIT 100000'):
                yield dict(zip(there, row, strict=True))

    def text(self, data: bytes) -> str:
        """Return a text with a replacement for bytes that are not UTF-8."""
        found = data.decode(errors="replace")
        self.replaced += "\ufffd" in found
        return found


def _whole(column: tuple[Any, ...]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the whole numbers in a column, -1 for other values, and True where there is a whole number."""
    if set(map(type, column)) == {int}:  # SQLite's numbers fit into 64 bits
        return np.array(column, np.int64), np.ones(len(column), bool)
    known = np.fromiter((type(value) is int for value in column), bool, len(column))
    whole = (value if type(value) is int else NONE for value in column)
    return np.fromiter(whole, np.int64, len(column)), known


@contextmanager
def open_tables(path: str | os.PathLike[str]) -> Iterator[Tables]:
    """Yield the tables of a file. Raises InputError of one line, also for faults that show while they are read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(one_line(f"{path}: is not a regular file; an SQLite file has to be one"))
        with open(path, "rb") as file:
            if file.read(2) == GZIP_MAGIC:
                raise InputError(one_line(f"{path}: is a packed SQLite file; unpack it: gunzip FILE"))
        address = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True)
    except (OSError, ValueError) as error:
        raise file_error(path, error, "read") from None
    except sqlite3.Error as error:
        raise InputError(one_line(f"{path}: cannot read it: {uncapitalised(str(error))}")) from None
    try:
        for setting in (
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "query_only = ON",
            f"cache_size = -{CACHE_KIB}",
        ):
            connection.execute(f"PRAGMA {setting}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE_BYTES)
        pages, page_bytes = (connection.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size"))
        if os.stat(path).st_size < pages * page_bytes:  # SQLite itself looks at whole pages only
            raise sqlite3.DatabaseError("its last page is not whole")
        connection.text_factory = lambda data: data.decode(errors="replace")
        tables = Tables(path, connection)
        connection.text_factory = tables.text
        yield tables
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as error:  # also of its own messages
        reason = uncapitalised(str(error))
        raise InputError(one_line(f"{path}: is damaged or cut short ({reason}); copy it, or {EXPORT_AGAIN}")) from None
    finally:
        connection.close()
