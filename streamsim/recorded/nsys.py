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
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError, uncapitalised
from streamsim.files import file_error
from streamsim.recorded.builder import (
    STREAM_KINDS,
    Columns,
    RecordingBuilder,
    add_activities,
    card_of,
    chosen,
    foreign,
    mapped,
)
from streamsim.recorded.recording import NONE, AnnotationKind, PageCause, PageKind, Recording
from streamsim.recorded.times import with_prefetches
from streamsim.text import GZIP_MAGIC

EXPORT_AGAIN = "export it again: nsys export --type sqlite --lazy=false FILE.nsys-rep"
META = ("META_DATA_EXPORT", "EXPORT_META_DATA")
CUPTI = "CUPTI_ACTIVITY_KIND_"
PROCESS_BITS = 24
ID_MASK = (1 << PROCESS_BITS) - 1
PAGE_KINDS = {11: PageKind.IN, 12: PageKind.OUT, 13: PageKind.BETWEEN_CARDS}  # kinds of copies that CUPTI lacks
NVTX_RANGES = (59, 60, 70, 71)  # pushed and popped, started and ended; their variants
TEXT, NAMELESS = "text", "a range without a name"
MOST_FACTS = 100_000  # rows that are read of a small table
_COUNTS = ("totalMemory", "smCount", "asyncEngines")  # facts of a card

# By activity: the table of the export, its needed columns, and others.
_PLACED = "start end deviceId streamId correlationId globalPid"
_SHAPE = "gridX gridY gridZ blockX blockY blockZ"
_MARK = ("correlationId globalPid", "streamId eventId eventSyncId contextId")
_KINDS = "streamId correlationId contextId srcKind dstKind srcDeviceId dstDeviceId migrationCause"  # pages lack most
TABLES = {
    "calls": ("RUNTIME", "start end globalTid nameId correlationId", ""),
    "copies": ("MEMCPY", "start end deviceId globalPid bytes copyKind", _KINDS),
    "kernels": ("KERNEL", _PLACED, f"contextId {_SHAPE} shortName demangledName"),
    "memsets": ("MEMSET", f"{_PLACED} bytes", "contextId"),
    "graphs": ("GRAPH_TRACE", _PLACED, "contextId"),  # whole ones, as nsys has them without --cuda-graph-trace=node
    "events": ("CUDA_EVENT", *_MARK),
    "synchronizations": ("SYNCHRONIZATION", *_MARK),
}
# Columns of the export, as the builder and the activities name them.
_NAMES = {"start": "start_ns", "end": "end_ns", "deviceId": "device", "streamId": "stream_id"}
_NAMES |= {"nameId": "name", "textId": "name", "shortName": "name", "demangledName": "long"}
_NAMES |= {"correlationId": "correlation", "contextId": "context", "numberOfPageFaults": "count"}
_NAMES |= {"copyKind": "copy_kind", "srcKind": "src_kind", "dstKind": "dst_kind", "migrationCause": "cause"}
_NAMES |= {"srcDeviceId": "src_device", "dstDeviceId": "dst_device", "eventId": "event", "eventSyncId": "sync"}
_NAMES |= {f"{name}{axis}": f"{name}_{axis.lower()}" for name in ("grid", "block") for axis in "XYZ"}
NULL_STREAMS = (("TARGET_INFO_CUDA_CONTEXT_INFO", "nullStreamId"), ("TARGET_INFO_CUDA_NULL_STREAM", "streamId"))

ROWS_AT_ONCE = 20_000
LONGEST_VALUE_BYTES = 1 << 20


def read_nsys(path: str | os.PathLike[str]) -> Recording:
    """Return the recording in an SQLite export. Raises InputError of one line, which begins with ``path``."""
    with open_tables(path) as tables:
        if not any(name in tables.columns for name in (*META, "StringIds")):
            other = foreign(path, "\n".join(tables.columns).encode())
            what = other or f"is an SQLite file, but no export of Nsight Systems; {EXPORT_AGAIN}"
            raise InputError(f"{path}: {what}")
        builder = RecordingBuilder("Nsight Systems", str(path))
        _Export(builder, tables).read()
        remedy = "record with: nsys profile --trace=cuda,nvtx"
        return with_prefetches(builder.recording(f"has no CUDA calls, copies or kernels; {remedy}"))


class _Export:
    """A translator of the tables of an export into rows of a builder."""

    def __init__(self, builder: RecordingBuilder, tables: Tables) -> None:
        self._builder, self._tables = builder, tables
        self._text = cache(tables.text_of)

    def read(self) -> None:
        """Read all tables."""
        self._read_facts()
        self._read_stream_kinds()
        for activity, (table, *columns) in TABLES.items():
            for block in self._blocks(f"{CUPTI}{table}", *columns):
                if activity == "copies":
                    block |= {side: block[side] + 1 for side in ("src_kind", "dst_kind")}  # CUPTI counts from 1
                    moves = np.isin(block["copy_kind"], list(PAGE_KINDS))
                    self._add_moves(chosen(block, moves))
                    block = chosen(block, ~moves)
                add_activities(self._builder, activity, block, self._name)
        self._read_ranges()
        for block in self._blocks("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "start globalPid"):
            self._add_pages(block, PageKind.HOST_FAULT, end_ns=block["start_ns"])
        faults = ("CUDA_UM_GPU_PAGE_FAULT_EVENTS", "start globalPid end deviceId", "numberOfPageFaults")
        for block in self._blocks(*faults):
            self._add_pages(block, PageKind.CARD_FAULTS, count=block["count"].clip(1))

    def _name(self, number: int) -> str:
        return self._text(number) or f"name {number}"

    def _read_facts(self) -> None:
        """Read the version, and the facts of cards."""
        builder, tables = self._builder, self._tables
        said = dict(row for table in META for row in tables.typed(table, name=str, value=str))
        builder.tool = f"Nsight Systems {said.get('EXPORT_PRODUCT_VERSION', '')[:40]}".rstrip()
        for number in ("id", "deviceId"):  # exports of 2020 have the latter
            facts = {number: int, "name": str} | dict.fromkeys(_COUNTS, object)
            builder.cards |= {row[0]: card_of(*row) for row in tables.typed("TARGET_INFO_GPU", **facts)}

    def _read_stream_kinds(self) -> None:
        context, kinds = {"processId": int, "contextId": int}, self._builder.stream_kinds
        for *stream, flag in self._tables.typed("TARGET_INFO_CUDA_STREAM", **context, streamId=int, flag=int):
            if flag in STREAM_KINDS:
                kinds[tuple(stream)] = STREAM_KINDS[flag]
        for table, column in NULL_STREAMS:
            kinds |= dict.fromkeys(self._tables.typed(table, **context, **{column: int}), "legacy")

    def _blocks(self, table: str, needed: str, others: str = "") -> Iterator[dict[str, Any]]:
        """Yield a table's columns as the builder and the activities name them, with their processes."""
        for block, lost in self._tables.blocks(table, needed.split(), others.split()):
            self._builder.count((f"rows of {table} without a needed number", "left out"), lost)
            columns: dict[str, Any] = {_NAMES.get(name, name): column for name, column in block.items()}
            number = columns["globalTid" if "globalTid" in columns else "globalPid"]
            columns |= {"process": number >> PROCESS_BITS, "tid": number & ID_MASK}
            columns["pid"] = columns["process"] & ID_MASK
            if "long" in columns:
                columns["name"] = np.where(columns["long"] >= 0, columns["long"], columns["name"])
            yield columns

    def _add_moves(self, block: Columns) -> None:
        is_known = (block["cause"] >= 0) & (block["cause"] < len(PageCause))
        cause = np.where(is_known, block["cause"], PageCause.UNKNOWN)
        self._add_pages(block, mapped(block["copy_kind"], PAGE_KINDS.__getitem__), cause=cause)

    def _add_pages(self, block: Columns, kind: NDArray[np.int64] | PageKind, **more: NDArray[np.int64]) -> None:
        """Add moves or faults of unified memory's pages, which no call issued."""
        self._builder.add("pages", block | {"kind": kind, "process": block["pid"]} | more)

    def _read_ranges(self) -> None:
        for block in self._blocks("NVTX_EVENTS", "start globalTid", "end eventType textId text"):
            texts = zip(block.pop("text"), block["name"].tolist(), strict=True)
            names = [text if isinstance(text, str) else self._text(number) or NAMELESS for text, number in texts]
            block["name"] = np.array([self._builder.name(name) for name in names], np.int64)
            ranges = (block["end_ns"] >= 0) & np.isin(block["eventType"], NVTX_RANGES)
            self._builder.add("annotations", chosen(block, ranges) | {"kind": AnnotationKind.RANGE})


# Tables


class Tables:
    """The stored tables of a file, and the stored ``columns`` of each."""

    def __init__(self, path: str | os.PathLike[str], connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection
        self.columns: dict[str, frozenset[str]] = {}
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
            if isinstance(name, str) and isinstance(sql, str) and sql[:12].upper() == "CREATE TABLE":
                stored = connection.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,))
                self.columns[name] = frozenset(column for (column,) in stored)

    def blocks(self, table: str, needed: list[str], others: list[str]) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield some rows of a table at a time as columns of whole numbers, and how many rows were left out of them.

        - ``needed``: columns that must be there. Rows in which one is no whole number are left out.
        - ``others``: columns that may be missing; -1 stands for a missing number. ``text`` is a column of any values.

        A missing table has no rows. Raises InputError naming the table and column if a needed column is missing.
        """
        for name in needed if table in self.columns else ():
            if name not in self.columns[table]:
                raise InputError(f"{self._path}: table {table} has no column {name}; {EXPORT_AGAIN}")
        columns = (*needed, *others)
        for rows in self._rows(table, columns, ROWS_AT_ONCE):
            whole = [row for row in rows if all(type(value) is int for value in row[: len(needed)])]
            values = zip(*whole, strict=True) if whole else [()] * len(columns)
            found: dict[str, Any] = dict(zip(columns, values, strict=True))
            for name in found.keys() - {TEXT}:
                numbers = (value if type(value) is int else NONE for value in found[name])
                found[name] = np.fromiter(numbers, np.int64, len(whole))
            yield found, len(rows) - len(whole)

    def typed(self, table: str, **kinds: type) -> Iterator[tuple[Any, ...]]:
        """Yield rows of a small table: columns by name with their types. Rows of other types are left out."""
        for row in next(self._rows(table, tuple(kinds), MOST_FACTS), ()):
            if all(map(isinstance, row, kinds.values())):
                yield row

    def _rows(self, table: str, columns: tuple[str, ...], count: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield ``count`` rows at a time; a missing column is NULL."""
        there = self.columns.get(table, frozenset())
        if there:
            chosen = ", ".join(f'"{name}"' if name in there else "NULL" for name in columns)
            cursor = self._connection.execute(f'SELECT {chosen} FROM "{table}"')
            while rows := cursor.fetchmany(count):
                yield rows

    def text_of(self, number: object) -> str:
        """Return the text of this number in StringIds, or "" if there is none."""
        if not self.columns.get("StringIds", frozenset()).issuperset(("id", "value")):
            return ""
        found = self._connection.execute("SELECT value FROM StringIds WHERE id = ?", (number,)).fetchone()
        return found[0] if found and isinstance(found[0], str) else ""


@contextmanager
def open_tables(path: str | os.PathLike[str]) -> Iterator[Tables]:
    """Yield the tables of a file. Raises InputError of one line, also for faults that show while they are read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(f"{path}: is not a regular file; an SQLite file has to be one")
        with open(path, "rb") as file:
            if file.read(2) == GZIP_MAGIC:
                raise InputError(f"{path}: is a packed SQLite file; unpack it: gunzip FILE")
        address = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True)
    except (OSError, ValueError) as error:
        raise file_error(path, error, "read") from None
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot read it: {uncapitalised(str(error))}") from None
    try:
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE_BYTES)
        pages, page_bytes = (connection.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size"))
        if os.stat(path).st_size < pages * page_bytes:  # SQLite itself looks at whole pages only
            raise sqlite3.DatabaseError("its last page is not whole")
        connection.text_factory = lambda data: data.decode(errors="replace")
        yield Tables(path, connection)
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as error:  # also of its own messages
        reason = uncapitalised(str(error))
        raise InputError(f"{path}: is damaged or cut short ({reason}); copy it, or {EXPORT_AGAIN}") from None
    finally:
        connection.close()
