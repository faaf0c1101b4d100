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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.files import file_error
from streamsim.recorded.activities import (
    BY_PROFILER,
    COPY_KINDS,
    ORDER,
    STREAM_KINDS,
    Activities,
    Columns,
    card_of,
)
from streamsim.recorded.builder import RecordingBuilder, mapped
from streamsim.recorded.foreign import foreign
from streamsim.recorded.recording import NONE, AnnotationKind, CopyDirection, CopyMemory, PageCause, PageKind, Recording
from streamsim.recorded.unified import with_prefetches
from streamsim.text import GZIP_MAGIC, one_line, uncapitalised

EXPORT_AGAIN = "export it again: nsys export --type sqlite --lazy=false FILE.nsys-rep"
META = ("META_DATA_EXPORT", "EXPORT_META_DATA")
CUPTI = "CUPTI_ACTIVITY_KIND_"
PROCESS_BITS = 24
THREAD_MASK = (1 << PROCESS_BITS) - 1
PAGE_KINDS = {11: PageKind.IN, 12: PageKind.OUT, 13: PageKind.BETWEEN_CARDS}
MEMORIES = {0: CopyMemory.PAGEABLE, 1: CopyMemory.PINNED}  # where ENUM_CUDA_MEM_KIND does not say it
NVTX_RANGES = (59, 60, 70, 71)  # pushed and popped, started and ended; their variants
NAMELESS = "a range without a name"
OPEN_ENDED = ("NVTX marks, and ranges without an end", "no span of time")
_PAGES = {"HTOD": PageKind.IN, "DTOH": PageKind.OUT, "DTOD": PageKind.BETWEEN_CARDS}
_SUFFIXES = {"HTOD": CopyDirection.H2D, "DTOH": CopyDirection.D2H, "HTOA": CopyDirection.H2D, "ATOH": CopyDirection.D2H}
_SUFFIXES |= dict.fromkeys(("ATOA", "ATOD", "DTOA", "DTOD"), CopyDirection.D2D) | {"PTOP": CopyDirection.PEER}

# By table of the activities: the table of the export, its needed columns, and others.
_PLACED = "start end deviceId streamId correlationId globalPid"
_IN_GRAPH = "contextId graphId graphNodeId"
_SHAPE = "gridX gridY gridZ blockX blockY blockZ registersPerThread staticSharedMemory dynamicSharedMemory"
_MARK = ("correlationId globalPid", "streamId eventId eventSyncId contextId")
_MOVED = "start end deviceId globalPid bytes copyKind"
TABLES = {
    "calls": (f"{CUPTI}RUNTIME", "start end globalTid nameId correlationId", ""),
    "copies": (f"{CUPTI}MEMCPY", f"{_PLACED} bytes copyKind", f"{_IN_GRAPH} srcKind dstKind srcDeviceId dstDeviceId"),
    "kernels": (f"{CUPTI}KERNEL", _PLACED, f"{_IN_GRAPH} {_SHAPE} shortName demangledName"),
    "memsets": (f"{CUPTI}MEMSET", f"{_PLACED} bytes", _IN_GRAPH),
    # Graphs that are recorded whole, as nsys does without --cuda-graph-trace=node.
    "graphs": (f"{CUPTI}GRAPH_TRACE", _PLACED, f"{_IN_GRAPH} graphExecId"),
    "events": (f"{CUPTI}CUDA_EVENT", *_MARK),
    "synchronizations": (f"{CUPTI}SYNCHRONIZATION", *_MARK),
}
# Columns of the export, as the builder and the activities name them.
_NAMES = {"start": "start_ns", "end": "end_ns", "deviceId": "device", "streamId": "stream_id", "globalPid": "pid"}
_NAMES |= {"globalTid": "thread", "nameId": "name", "demangledName": "name", "shortName": "short", "textId": "name"}
_NAMES |= {"correlationId": "correlation", "contextId": "context", "graphId": "graph", "graphNodeId": "node"}
_NAMES |= {"copyKind": "copy_kind", "srcKind": "src_kind", "dstKind": "dst_kind", "migrationCause": "cause"}
_NAMES |= {"srcDeviceId": "src_device", "dstDeviceId": "dst_device", "eventId": "event", "eventSyncId": "sync"}
_NAMES |= {f"{name}{axis}": f"{name}_{axis.lower()}" for name in ("grid", "block") for axis in "XYZ"}
_NAMES |= {"registersPerThread": "registers", "staticSharedMemory": "static_shared"}
_NAMES |= {"dynamicSharedMemory": "dynamic_shared", "graphExecId": "instance", "numberOfPageFaults": "count"}
NULL_STREAMS = (("TARGET_INFO_CUDA_CONTEXT_INFO", "nullStreamId"), ("TARGET_INFO_CUDA_NULL_STREAM", "streamId"))

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
        self._text = cache(tables.text_of)
        self._activities = Activities(
            builder, lambda number: self._text(number) or f"name {number}", _thread, self._directions, self._memories
        )

    def read(self) -> None:
        """Read all tables."""
        self._read_facts()
        of_pages = f'coalesce("copyKind", -1) IN ({", ".join(map(str, self._page_kinds))})'
        for block in self._blocks(f"{CUPTI}MEMCPY", _MOVED, "migrationCause", where=of_pages):
            cause = block["cause"]
            known = np.where((cause >= 0) & (cause < len(PageCause)), cause, PageCause.UNKNOWN)
            self._add_pages(block, mapped(block["copy_kind"], self._page_kinds.__getitem__), cause=known)
        for table in ORDER:
            if table == "ranges":
                self._read_ranges()
                continue
            where = f"NOT {of_pages}" if table == "copies" else "true"
            for block in self._blocks(*TABLES[table], where=where):
                self._activities.add(table, block)
        self._read_stream_kinds()
        for block in self._blocks("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "start globalPid"):
            self._add_pages(block | {"end_ns": block["start_ns"]}, PageKind.HOST_FAULT)
        faults = ("CUDA_UM_GPU_PAGE_FAULT_EVENTS", "start globalPid end deviceId", "numberOfPageFaults")
        for block in self._blocks(*faults):
            self._add_pages(block, PageKind.CARD_FAULTS, count=block["count"].clip(1))

    def _read_facts(self) -> None:
        """Read the version, what numbers mean where the export says so, and the names of cards and processes."""
        builder, tables = self._builder, self._tables
        said = [row for table in META for row in tables.rows(table, "name", "value")]
        versions = (row.get("value") for row in said if row.get("name") == "EXPORT_PRODUCT_VERSION")
        builder.tool = f"Nsight Systems {next((v for v in versions if isinstance(v, str)), '')[:40]}".rstrip()
        for number, name in tables.named("ENUM_CUDA_MEMCPY_OPER", "id", "name"):
            suffix = name.rpartition("_")[2]
            self._page_kinds.pop(number, None)
            if "_UVM_" in name:
                self._page_kinds[number] = _PAGES.get(suffix, PageKind.BETWEEN_CARDS)
            else:
                self._directions[number] = _SUFFIXES.get(suffix, CopyDirection.OTHER)
        for number, name in tables.named("ENUM_CUDA_MEM_KIND", "id", "name"):
            words = {"PAGEABLE": CopyMemory.PAGEABLE, "PINNED": CopyMemory.PINNED}
            self._memories[number] = words.get(name.rpartition("_")[2], CopyMemory.UNKNOWN)
        columns = ("id", "name", "totalMemory", "smCount", "asyncEngines", "deviceId")
        for row in tables.rows("TARGET_INFO_GPU", *columns):
            card = row.get("id", row.get("deviceId"))  # exports of 2020 have the latter
            if isinstance(card, int):
                builder.cards[card] = card_of(card, row.get("name"), map(row.get, columns[2:5]))
        builder.processes |= {number: name[:100] for number, name in tables.named("PROCESSES", "pid", "name")}
        for row in tables.rows("ThreadNames", "globalTid", "nameId"):
            thread, text = row.get("globalTid"), self._text(row.get("nameId"))
            if isinstance(thread, int) and text:
                builder.threads[_thread(thread)] = text[:100]

    def _blocks(
        self, table: str, needed: str, others: str = "", texts: tuple[str, ...] = (), where: str = "true"
    ) -> Iterator[Columns]:
        """Yield a table's columns as the builder and the activities name them, with their processes."""
        lost = (f"rows of {table} without a needed number", "left out")
        unread = partial(self._builder.count, lost)
        for block in self._tables.blocks(table, needed.split(), others.split(), texts, where, unread):
            columns = {_NAMES.get(name, name): column for name, column in block.items()}
            columns["process"] = columns["pid" if "pid" in columns else "thread"] >> PROCESS_BITS
            columns["pid"] = columns["process"] & THREAD_MASK
            if "short" in columns:
                columns["name"] = np.where(columns["name"] >= 0, columns["name"], columns["short"])
            if "instance" in columns:
                columns["graph"] = np.where(columns["instance"] >= 0, columns["instance"], columns["graph"])
            yield columns
            self._builder.check_size()

    def _add_pages(self, block: Columns, kind: NDArray[np.int64] | PageKind, **more: NDArray[np.int64]) -> None:
        """Add moves or faults of unified memory's pages, which no call issued."""
        card = mapped(block["device"], self._builder.card) if "device" in block else NONE
        self._builder.pages.add(block | {"kind": kind, "process": block["pid"], "card": card} | more)

    def _read_ranges(self) -> None:
        for block in self._blocks("NVTX_EVENTS", "start globalTid", "end eventType textId", ("text",)):
            texts = zip(block.pop("text"), block["name"].tolist(), strict=True)
            names = [text if isinstance(text, str) else self._text(number) or NAMELESS for text, number in texts]
            block["name"] = np.array([self._builder.name(name) for name in names], np.int64)
            block["thread"] = mapped(block["thread"], lambda number: self._builder.thread(*_thread(number)))
            ranges = (block["end_ns"] >= 0) & np.isin(block["eventType"], NVTX_RANGES)
            self._builder.count(OPEN_ENDED, int((~ranges).sum()))
            block = {name: column[ranges] for name, column in block.items()}
            self._builder.annotations.add(block | {"kind": AnnotationKind.RANGE})
        for table in ("PROFILER_OVERHEAD", f"{CUPTI}OVERHEAD"):
            for block in self._blocks(table, "start end globalTid nameId"):
                self._activities.add("ranges", block | {"by": np.full(len(block["name"]), BY_PROFILER)})

    def _read_stream_kinds(self) -> None:
        flags = (key for key in self._numbers("TARGET_INFO_CUDA_STREAM", "streamId", "flag"))
        kinds = {key: STREAM_KINDS[flag] for key, flag in flags if flag in STREAM_KINDS}
        for table, column in NULL_STREAMS:
            kinds |= {key: "legacy" for key, _ in self._numbers(table, column, column)}
        self._builder.stream_kinds |= kinds

    def _numbers(self, table: str, stream: str, other: str) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield each stream's process, context and number in a ``table``, and its value in the ``other`` column."""
        columns = ("processId", "contextId", stream, other)
        for row in self._tables.rows(table, *dict.fromkeys(columns)):
            found: list[Any] = [row.get(column) for column in columns]
            if all(type(value) is int for value in found):
                yield tuple(found[:3]), found[3]


def _thread(number: int) -> tuple[int, int]:
    """Return the process and thread of a globalTid."""
    return (number >> PROCESS_BITS) & THREAD_MASK, number & THREAD_MASK


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
        needed: Sequence[str],
        others: Sequence[str],
        texts: Sequence[str],
        where: str,
        unread: Callable[[int], None],
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

    def named(self, table: str, key: str, value: str) -> Iterator[tuple[int, str]]:
        """Yield the numbers and texts in two columns, row by row; nothing if one is missing."""
        for row in self.rows(table, key, value):
            number, text = row.get(key), row.get(value)
            if isinstance(number, int) and isinstance(text, str):
                yield number, text

    def text_of(self, number: object) -> str:
        """Return the text of this number in StringIds, or "" if there is none."""
        if not self.has("StringIds", "id", "value"):
            return ""
        found = self._connection.execute("SELECT value FROM StringIds WHERE id = ?", (number,)).fetchone()
        return found[0] if found and isinstance(found[0], str) else ""

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
