"""SQLite exports of Nsight Systems, of 2020 to 2026.

An export has a table or column only if something was recorded. A process is its globalPid without the low bits, which
number threads; ids of calls, streams and contexts are unique within a process. The name of a synchronisation's call
shows its kind; its syncType differs between versions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.recorded.builder import RecordingBuilder, mapped, times_of
from streamsim.recorded.call_names import kind_of_call
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
from streamsim.recorded.sqlite_tables import EXPORT_AGAIN, Tables, open_tables
from streamsim.text import one_line

META = ("META_DATA_EXPORT", "EXPORT_META_DATA")
CUPTI = "CUPTI_ACTIVITY_KIND_"
PROCESS_BITS = 24
THREAD_MASK = (1 << PROCESS_BITS) - 1
NO_ID = 0xFFFFFFFF
# CUPTI's numbers. The tables ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND of an export have its own.
COPY_KINDS = {
    1: CopyDirection.H2D,
    2: CopyDirection.D2H,
    3: CopyDirection.H2D,
    4: CopyDirection.D2H,
    10: CopyDirection.PEER,
}
COPY_KINDS |= dict.fromkeys((5, 6, 7, 8), CopyDirection.D2D)
PAGE_KINDS = {11: PageKind.IN, 12: PageKind.OUT, 13: PageKind.BETWEEN_CARDS}
MEMORIES = {0: CopyMemory.PAGEABLE, 1: CopyMemory.PINNED}
STREAM_KINDS: dict[int, RecordedStreamKind] = {1: "blocking", 2: "non-blocking", 3: "legacy"}
NAMELESS = "a range without a name"
NVTX_RANGES = (59, 60, 70, 71)  # pushed and popped, started and ended; their variants
_PAGES = {"HTOD": PageKind.IN, "DTOH": PageKind.OUT, "DTOD": PageKind.BETWEEN_CARDS}
_SUFFIXES = {"HTOD": CopyDirection.H2D, "DTOH": CopyDirection.D2H, "HTOA": CopyDirection.H2D, "ATOH": CopyDirection.D2H}
_SUFFIXES |= dict.fromkeys(("ATOA", "ATOD", "DTOA", "DTOD"), CopyDirection.D2D) | {"PTOP": CopyDirection.PEER}


def read_nsys(path: str | os.PathLike[str]) -> Recording:
    """Return the recording in an SQLite export. Raises InputError of one line, which begins with ``path``."""
    with open_tables(path) as tables:
        if not any(name in tables for name in (*META, "StringIds")):
            raise InputError(one_line(f"{path}: is an SQLite file, but no export of Nsight Systems; {EXPORT_AGAIN}"))
        reader = _Reader(path, tables)
        reader.read()
        builder = reader.builder
        if not builder.calls.count + builder.work.count:
            remedy = "record with: nsys profile --trace=cuda,nvtx"
            raise InputError(one_line(f"{path}: has no CUDA calls, copies or kernels; {remedy}"))
        builder.count(("texts that are not UTF-8", "what cannot be read in them is replaced"), tables.replaced)
        return builder.recording()


class _Reader:
    """A reader of tables, which adds their rows to a builder."""

    def __init__(self, path: str | os.PathLike[str], tables: Tables) -> None:
        self._tables = tables
        self.builder = RecordingBuilder("Nsight Systems", str(path))
        self._directions, self._page_kinds, self._memories = dict(COPY_KINDS), dict(PAGE_KINDS), dict(MEMORIES)
        self._read_enums()
        self._strings: dict[int, str] = {}

    def read(self) -> None:
        """Read all tables."""
        self.builder.tool = self._version()
        self._names()
        self._cards()
        self._calls()
        self._copies()
        self._kernels()
        self._memsets()
        self._graphs()
        self._notes()
        self._marks()
        self._stream_kinds()
        self._faults()

    # Names

    def _version(self) -> str:
        for table in META:
            for name, value in self._tables.pairs(table, "name", "value"):
                if name == "EXPORT_PRODUCT_VERSION" and isinstance(value, str):
                    return f"Nsight Systems {value[:40]}"
        return "Nsight Systems"

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

    def _names(self) -> None:
        """Read the names that calls, kernels and ranges use."""
        used: set[int] = set()
        for table, column in NAMED:
            if self._tables.has(table, column):
                for block in self._tables.blocks(table, (column,)):
                    used.update(np.unique(block[column]).tolist())
        for number, text in self._tables.pairs("StringIds", "id", "value"):
            if number in used and isinstance(text, str):
                self.builder.name(text)  # counted, as long as it may be
                self._strings[number] = text

    def _named(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of the names with these ids."""
        return mapped(ids, lambda number: self.builder.name(self._strings.get(number, f"name {number}")))

    # Rows

    def _blocks(
        self, table: str, needed: tuple[str, ...], others: tuple[str, ...] = (), texts: tuple[str, ...] = ()
    ) -> Iterator[dict[str, Any]]:
        lost = (f"rows of {table} without a needed number", "left out")
        for block in self._tables.blocks(table, needed, others, texts, lambda times: self.builder.count(lost, times)):
            yield block
            self.builder.check_size()

    def _calls(self) -> None:
        needed = ("start", "end", "globalTid", "correlationId", "nameId")
        kinds: dict[int, int] = {}
        for block in self._blocks(f"{CUPTI}RUNTIME", needed):
            for number in np.unique(block["nameId"]).tolist():
                kinds.setdefault(number, int(kind_of_call(self._strings.get(number, ""))))
            columns = times_of(block) | {"process": block["globalTid"] >> PROCESS_BITS}
            columns["kind"] = mapped(block["nameId"], kinds.__getitem__)
            columns["name"] = self._named(block["nameId"])
            columns["thread"] = self._threads(block["globalTid"])
            columns["correlation"] = block["correlationId"]
            self.builder.calls.add(len(block["start"]), columns)

    def _threads(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return mapped(ids, lambda tid: self.builder.thread((tid >> PROCESS_BITS) & THREAD_MASK, tid & THREAD_MASK))

    def _placed(self, block: dict[str, NDArray[np.int64]], kind: WorkKind) -> dict[str, Any]:
        """Return the columns that all work has: times, process, card, stream, call and graph."""
        process = block["globalPid"] >> PROCESS_BITS
        card = mapped(block["deviceId"], self.builder.card)
        columns = times_of(block) | {"kind": kind, "process": process, "card": card}
        columns["stream"] = self._streams(process, block["contextId"], block["streamId"], block["deviceId"])
        columns["correlation"] = block["correlationId"]
        columns["graph"], columns["node"] = block["graphId"], block["graphNodeId"]
        return columns

    def _streams(self, *keys: NDArray[np.int64]) -> NDArray[np.int32]:
        rows = np.stack([key & THREAD_MASK if i == 0 else key for i, key in enumerate(keys)], axis=1)
        unique, inverse = np.unique(rows, axis=0, return_inverse=True)
        indices = [self.builder.stream(*key) for key in unique.tolist()]
        return np.array(indices, np.int32)[inverse.reshape(-1)] if indices else np.empty(0, np.int32)

    def _copies(self) -> None:
        others = (*OTHERS, "srcKind", "dstKind", "srcDeviceId", "dstDeviceId", "migrationCause")
        for block in self._blocks(f"{CUPTI}MEMCPY", (*PLACED, "bytes", "copyKind"), others):
            of_pages = np.isin(block["copyKind"], list(self._page_kinds))
            if of_pages.any():
                self._moves({name: column[of_pages] for name, column in block.items()})
                block = {name: column[~of_pages] for name, column in block.items()}
            columns = self._placed(block, WorkKind.COPY)
            direction = mapped(block["copyKind"], lambda kind: self._directions.get(kind, CopyDirection.OTHER))
            source, target = block["srcDeviceId"], block["dstDeviceId"]
            between = (source != target) & (source >= 0) & (target >= 0) & (direction == CopyDirection.D2D)
            direction[between] = CopyDirection.PEER
            kinds = np.where(direction == CopyDirection.H2D, block["srcKind"], block["dstKind"])
            memory = mapped(kinds, lambda kind: self._memories.get(kind, CopyMemory.UNKNOWN))
            one_side = (direction == CopyDirection.H2D) | (direction == CopyDirection.D2H)
            columns["direction"], columns["memory"] = direction, np.where(one_side, memory, CopyMemory.NONE)
            columns["bytes"] = self.builder.sizes(block["bytes"])
            columns["name"] = mapped(block["copyKind"], lambda kind: self.builder.name(f"copy kind {kind}"))
            self.builder.work.add(len(block["start"]), columns)

    def _moves(self, block: dict[str, NDArray[np.int64]]) -> None:
        """Take the moves of unified memory's pages, which no call issued."""
        causes = block["migrationCause"]
        known = (causes >= 0) & (causes < len(PageCause))
        columns = times_of(block) | {"process": _number_of(block["globalPid"])}
        columns["kind"] = mapped(block["copyKind"], self._page_kinds.__getitem__)
        columns["cause"] = np.where(known, causes, PageCause.UNKNOWN)
        columns["card"] = mapped(block["deviceId"], self.builder.card)
        columns["bytes"] = self.builder.sizes(block["bytes"])
        self.builder.pages.add(len(block["start"]), columns)

    def _faults(self) -> None:
        for block in self._blocks("CUDA_UM_CPU_PAGE_FAULT_EVENTS", ("start", "globalPid")):
            columns = {"start_ns": block["start"], "end_ns": block["start"], "kind": PageKind.HOST_FAULT}
            self.builder.pages.add(len(block["start"]), columns | {"process": _number_of(block["globalPid"])})
        needed = ("start", "end", "globalPid", "deviceId")
        for block in self._blocks("CUDA_UM_GPU_PAGE_FAULT_EVENTS", needed, ("numberOfPageFaults",)):
            columns = times_of(block) | {"kind": PageKind.CARD_FAULTS, "process": _number_of(block["globalPid"])}
            columns |= {"card": mapped(block["deviceId"], self.builder.card)}
            columns |= {"count": block["numberOfPageFaults"].clip(1)}
            self.builder.pages.add(len(block["start"]), columns)

    def _kernels(self) -> None:
        shape = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        memory = ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
        others = (*OTHERS, *shape, *memory, "shortName", "demangledName")
        for block in self._blocks(f"{CUPTI}KERNEL", PLACED, others):
            columns = self._placed(block, WorkKind.KERNEL)
            full, short = block["demangledName"], block["shortName"]
            columns["name"] = self._named(np.where(full >= 0, full, short))
            columns["grid"] = np.stack([block[name].clip(0) for name in shape[:3]], axis=1)
            columns["block"] = np.stack([block[name].clip(0) for name in shape[3:]], axis=1)
            columns["registers"] = block["registersPerThread"].clip(0)
            columns["shared_bytes"] = sum(block[name].clip(0, 1 << 30) for name in memory[1:])
            self.builder.work.add(len(block["start"]), columns)

    def _memsets(self) -> None:
        for block in self._blocks(f"{CUPTI}MEMSET", (*PLACED, "bytes"), OTHERS):
            columns = self._placed(block, WorkKind.MEMSET) | {"bytes": self.builder.sizes(block["bytes"])}
            self.builder.work.add(len(block["start"]), columns | {"name": self.builder.name("memset")})

    def _graphs(self) -> None:
        """Add graphs that are recorded whole, as nsys does without --cuda-graph-trace=node."""
        for block in self._blocks(f"{CUPTI}GRAPH_TRACE", PLACED, (*OTHERS, "graphExecId")):
            columns = self._placed(block, WorkKind.GRAPH) | {"name": self.builder.name("graph")}
            columns["graph"] = np.where(block["graphExecId"] >= 0, block["graphExecId"], columns["graph"])
            self.builder.work.add(len(block["start"]), columns)

    def _notes(self) -> None:
        open_ended = ("NVTX marks, and ranges without an end", "no span of time")
        for block in self._blocks("NVTX_EVENTS", ("start", "globalTid"), ("end", "eventType", "textId"), ("text",)):
            ranges = (block["end"] >= 0) & np.isin(block["eventType"], NVTX_RANGES)
            self.builder.count(open_ended, int((~ranges).sum()))
            texts = zip(block.pop("text"), block["textId"].tolist(), strict=True)
            names = [text if isinstance(text, str) else self._strings.get(of, NAMELESS) for text, of in texts]
            block["name"] = np.array([self.builder.name(name) for name in names], np.int64)
            self._note({name: column[ranges] for name, column in block.items()}, AnnotationKind.RANGE)
        for table in ("PROFILER_OVERHEAD", f"{CUPTI}OVERHEAD"):
            for block in self._blocks(table, ("start", "end", "globalTid", "nameId")):
                block["name"] = self._named(block["nameId"])
                self._note(block, AnnotationKind.OVERHEAD)

    def _note(self, block: dict[str, NDArray[np.int64]], kind: AnnotationKind) -> None:
        columns = times_of(block) | {"kind": kind, "name": block["name"], "thread": self._threads(block["globalTid"])}
        self.builder.annotations.add(len(block["start"]), columns)

    def _marks(self) -> None:
        records = self._recorded_events()
        others = ("streamId", "eventId", "eventSyncId", "contextId")
        for block in self._blocks(f"{CUPTI}SYNCHRONIZATION", ("correlationId", "globalPid"), others):
            columns = self._mark(block)
            key = zip(columns["process"].tolist(), block["eventSyncId"].tolist(), strict=True)
            found = [records.get((process, sync), (NONE, NONE)) if sync >= 0 else (NONE, NONE) for process, sync in key]
            columns["recorded"] = np.array([row[0] for row in found], np.int64)
            columns["recorded_in"] = np.array([row[1] for row in found], np.int64)
            self.builder.marks.add(len(block["globalPid"]), columns)

    def _mark(self, block: dict[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
        process = block["globalPid"] >> PROCESS_BITS
        known = (block["streamId"] >= 0) & (block["streamId"] != NO_ID)
        stream = np.full(len(process), NONE, np.int64)
        keys = (process, block["contextId"], block["streamId"])  # its deviceId is not to be trusted
        stream[known] = self._streams(*(key[known] for key in keys))
        event = np.where(block["eventId"] == NO_ID, NONE, block["eventId"])
        return {"process": process, "correlation": block["correlationId"], "stream": stream, "event": event}

    def _recorded_events(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return each record's call (correlation) and stream, by its process and number."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        others = ("streamId", "eventId", "eventSyncId", "contextId")
        for block in self._blocks(f"{CUPTI}CUDA_EVENT", ("correlationId", "globalPid"), others):
            columns = self._mark(block)
            self.builder.marks.add(len(block["globalPid"]), columns)
            keys = zip(columns["process"].tolist(), block["eventSyncId"].tolist(), strict=True)
            values = zip(columns["correlation"].tolist(), columns["stream"].tolist(), strict=True)
            found.update((key, value) for key, value in zip(keys, values, strict=True) if key[1] >= 0)
        return found

    # Cards, processes, threads and streams

    def _cards(self) -> None:
        columns = ("id", "name", "totalMemory", "smCount", "asyncEngines", "deviceId")
        for row in self._tables.rows("TARGET_INFO_GPU", *columns):
            if isinstance(number := row.get("id", row.get("deviceId")), int):  # exports of 2020 have the latter
                name = row.get("name")
                counts = [max(v, 0) if isinstance(v := row.get(c), int) else 0 for c in columns[2:5]]
                self.builder.cards[number] = RecordedCard(number, name[:100] if isinstance(name, str) else "", *counts)
        for row in self._tables.rows("PROCESSES", "pid", "name"):
            if isinstance(row.get("pid"), int) and isinstance(row.get("name"), str):
                self.builder.processes[row["pid"]] = row["name"][:100]
        for number, name in self._tables.pairs("ThreadNames", "globalTid", "nameId"):
            if isinstance(number, int) and name in self._strings:
                key = ((number >> PROCESS_BITS) & THREAD_MASK, number & THREAD_MASK)
                self.builder.threads[key] = self._strings[name][:100]

    def _stream_kinds(self) -> None:
        kinds: dict[tuple[int, ...], RecordedStreamKind] = {}
        for key, flag in self._numbers("TARGET_INFO_CUDA_STREAM", "streamId", "flag"):
            if flag in STREAM_KINDS:
                kinds[key] = STREAM_KINDS[flag]
        for table, column in NULL_STREAMS:
            for key, _ in self._numbers(table, column, column):
                kinds[key] = "legacy"
        for key in self.builder.known_streams():
            self.builder.stream_kinds[key] = kinds.get(key, "unknown")

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
PLACED = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
OTHERS = ("contextId", "graphId", "graphNodeId")


def _times(block: dict[str, NDArray[np.int64]]) -> dict[str, Any]:
    return {"start_ns": block["start"], "end_ns": block["end"]}


def _number_of(processes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the system's numbers of processes from their globalPid."""
    return processes >> PROCESS_BITS & THREAD_MASK
