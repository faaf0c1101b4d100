"""Small recordings as their profilers would write them: Kineto's JSON, exports of Nsight Systems, captures of CUPTI."""

import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from streamsim.recorded import Recording, read_recording

SHARED = Path(__file__).parents[3] / "shared" / "traces"  # recordings by others, beside the project; not everywhere
PID, TID = 420, 421
PINNED_IN, PINNED_OUT = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"
NO_ID = 0xFFFFFFFF


# Kineto: times in microseconds


def span(cat: str, name: str, ts: Any, dur: Any, pid: Any = PID, tid: Any = TID, **args: Any) -> dict[str, Any]:
    """A complete event; ``args`` with _ for a space in their names."""
    named = {name.replace("_of_", " "): value for name, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": named}


def call(name: str, ts: Any, dur: Any, correlation: int = 0, **more: Any) -> dict[str, Any]:
    """Of the runtime, by the host."""
    return span("cuda_runtime", name, ts, dur, correlation=correlation, **more)


def copy(name: str, ts: Any, dur: Any, correlation: int, stream: int = 7, size: int = 1 << 20) -> dict[str, Any]:
    """On the card."""
    args = {"device": 0, "context": 1, "stream": stream, "correlation": correlation, "bytes": size}
    return span("gpu_memcpy", name, ts, dur, pid=0, tid=stream, **args)


def kernel(ts: Any, dur: Any, correlation: int, stream: int = 7, name: str = "k", **more: Any) -> dict[str, Any]:
    """On the card."""
    args = {"device": 0, "context": 1, "stream": stream, "correlation": correlation}
    shape = {"grid": [8, 2, 1], "block": [128, 1, 1]}
    return span("kernel", name, ts, dur, pid=0, tid=stream, **args, **shape, **more)


def kineto(*events: dict[str, Any], **head: Any) -> str:
    """A file with these events."""
    card = {"id": 0, "name": "a card", "totalGlobalMem": 1 << 30, "numSms": 4}
    return json.dumps({"schemaVersion": 1, "deviceProperties": [card], **head, "traceEvents": list(events), "z": "end"})


def recording_of(*events: dict[str, Any], **head: Any) -> Recording:
    """The recording of these events, by way of its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.json")
        path.write_text(kineto(*events, **head))
        return read_recording(path)


def unread(recording: Recording) -> dict[str, int]:
    """What is not understood, and how often."""
    return {found.what: found.count for found in recording.unread}


def pipeline() -> list[dict[str, Any]]:
    """A copy in, a kernel behind it, a copy back, and the host's wait for them; and a range around it all."""
    return [
        span("user_annotation", "step", 0, 200),
        span("cpu_op", "aten::to", 8, 14),
        call("cudaMemcpyAsync", 10, 5, 1),
        call("cudaLaunchKernel", 20, 10, 2),
        call("cudaMemcpyAsync", 40, 5, 3),
        call("cudaStreamSynchronize", 50, 100, 4),
        copy(PINNED_IN, 20, 40, 1),
        kernel(65, 30, 2),
        copy(PINNED_OUT, 100, 40, 3),
        span("cuda_sync", "Stream Sync", 50, 90, 0, 7, device=0, context=1, stream=7, correlation=4),
    ]


# Nsight Systems: times in nanoseconds

COLUMNS = {
    "RUNTIME": "start end eventClass globalTid correlationId nameId returnValue",
    "MEMCPY": "start end deviceId contextId streamId correlationId globalPid bytes copyKind srcKind dstKind"
    " migrationCause",
    "KERNEL": "start end deviceId contextId streamId correlationId globalPid demangledName shortName gridX gridY gridZ"
    " blockX blockY blockZ registersPerThread staticSharedMemory dynamicSharedMemory graphNodeId",
    "MEMSET": "start end deviceId contextId streamId correlationId globalPid value bytes memKind",
    "SYNCHRONIZATION": "start end deviceId contextId streamId correlationId globalPid syncType eventId eventSyncId",
    "CUDA_EVENT": "deviceId contextId streamId correlationId globalPid eventId eventSyncId",
    "GRAPH_TRACE": "start end deviceId contextId streamId correlationId globalPid graphId graphExecId",
}
PLACED = {"deviceId": 0, "contextId": 1, "streamId": 13}


def process(pid: int) -> int:
    """Its globalPid."""
    return 1 << 48 | pid << 24


class Export:
    """An export in the making: ``rows["RUNTIME"]`` and so on hold what it has, by the names of columns."""

    def __init__(self, meta: str = "META_DATA_EXPORT") -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.strings: dict[Any, int] = {}
        self.others: list[str] = []  # SQL that makes other tables
        self.meta = meta

    def string(self, text: Any) -> int:
        """Its id."""
        return self.strings.setdefault(text, len(self.strings) + 1)

    def call(self, name: Any, start: Any, end: Any, correlation: int, pid: int = PID, tid: int = TID) -> None:
        """Of the host."""
        where = {"globalTid": process(pid) | tid, "correlationId": correlation, "nameId": self.string(name)}
        self.add("RUNTIME", start=start, end=end, **where)

    def work(self, table: str, start: Any, end: Any, correlation: int, pid: int = PID, **more: Any) -> None:
        """Of a card."""
        where = {**PLACED, "globalPid": process(pid), "correlationId": correlation}
        self.add(table, **{"start": start, "end": end, **where, **more})

    def add(self, table: str, **row: Any) -> None:
        """A row."""
        self.rows.setdefault(table, []).append(row)

    def write(self, path: Path, without: tuple[str, ...] = ()) -> Path:
        """As a file; ``without``: columns that are not there."""
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as connection:
            connection.execute(f"CREATE TABLE {self.meta} (name TEXT, value TEXT)")
            connection.execute(f"INSERT INTO {self.meta} VALUES ('EXPORT_PRODUCT_VERSION', '2024.5.1.113')")
            connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
            for text, number in self.strings.items():
                value = "CAST(? AS TEXT)" if isinstance(text, bytes) else "?"
                connection.execute(f"INSERT INTO StringIds VALUES (?, {value})", (number, text))
            for table, rows in self.rows.items():
                full = f"CUPTI_ACTIVITY_KIND_{table}" if table in COLUMNS else table
                known = COLUMNS.get(table, " ".join(dict.fromkeys(name for row in rows for name in row)))
                names = [name for name in known.split() if name not in without]
                connection.execute(f"CREATE TABLE {full} ({', '.join(names)})")
                marks = ", ".join("?" * len(names))
                values = [[row.get(name) for name in names] for row in rows]
                connection.executemany(f"INSERT INTO {full} VALUES ({marks})", values)
            for statement in self.others:
                connection.execute(statement)
        connection.close()
        return path


def export() -> Export:
    """The pipeline of above, in nanoseconds."""
    made = Export()
    made.call("cudaMemcpyAsync_v3020", 10_000, 15_000, 1)
    made.call("cudaLaunchKernel_v7000", 20_000, 30_000, 2)
    made.call("cudaMemcpyAsync_v3020", 40_000, 45_000, 3)
    made.call("cudaStreamSynchronize_v3020", 50_000, 150_000, 4)
    made.work("MEMCPY", 20_000, 60_000, 1, bytes=1 << 20, copyKind=1, srcKind=1, dstKind=2)
    shape = {"gridX": 8, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    made.work("KERNEL", 65_000, 95_000, 2, shortName=made.string("k"), demangledName=made.string("k(int)"), **shape)
    made.work("MEMCPY", 100_000, 140_000, 3, bytes=1 << 20, copyKind=2, srcKind=2, dstKind=1)
    made.work("SYNCHRONIZATION", 50_000, 140_000, 4, syncType=3, eventId=NO_ID)
    where = {"globalTid": process(PID) | TID}
    made.add("NVTX_EVENTS", start=0, end=200_000, eventType=59, text="step", textId=None, **where)
    made.add("PROFILER_OVERHEAD", start=1_000, end=9_000, nameId=made.string("flush"), **where)
    return made


# Captures: times in nanoseconds


def capture() -> str:
    """The pipeline of above, an event and a wait for it, a step that was timed twice."""
    names = ["cudaMemcpyAsync", "cudaLaunchKernel", "cudaStreamSynchronize", "k", "step", "a card", "cudaEventRecord"]
    placed = {"device": 0, "context": 1, "stream": 7}
    shape = {"grid_x": 8, "grid_y": 2, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1}
    called = ((10_000, 15_000, 0), (20_000, 30_000, 1), (40_000, 45_000, 0), (46_000, 47_000, 6), (50_000, 150_000, 2))
    rows: dict[str, list[dict[str, int]]] = {
        "devices": [{"id": 0, "name": 5, "memory_bytes": 1 << 30, "multiprocessors": 4, "copy_engines": 2}],
        "contexts": [{"context": 1, "device": 0, "null_stream": 7}],
        "streams": [{"context": 1, "stream": 13, "flag": 2}],
        "calls": [
            {"start": start, "end": end, "thread": TID, "correlation": number, "name": name}
            for number, (start, end, name) in enumerate(called, 1)
        ],
        "copies": [
            {"start": start, "end": start + 40_000, **placed, "correlation": number, "bytes": 1 << 20, **kinds}
            for start, number, kinds in (
                (20_000, 1, {"copy_kind": 1, "src_kind": 2, "dst_kind": 3}),
                (100_000, 3, {"copy_kind": 2, "src_kind": 3, "dst_kind": 2}),
            )
        ],
        "kernels": [{"start": 65_000, "end": 95_000, **placed, "correlation": 2, "name": 3, **shape}],
        "memsets": [{"start": 96_000, "end": 97_000, **placed, "correlation": 2, "bytes": 64}],
        "events": [{"correlation": 4, "context": 1, "stream": 7, "event": 5, "sync": 100}],
        "synchronizations": [{"correlation": 5, "context": 1, "stream": 7, "event": -1, "sync": 100}],
        "ranges": [{"start": 0, "end": 160_000, "thread": TID, "name": 4, "by": 0}],
        "untraced": [{"run": run, "start": 0, "end": 150_000 + run, "thread": TID, "name": 4} for run in range(2)],
    }
    lines: list[dict[str, Any]] = [{"streamsim_capture": 1, "process": PID, "tool": "CUPTI"}, {"names": names}]
    for table, some in rows.items():
        lines.append({"table": table, "columns": {name: [row[name] for row in some] for name in some[0]}})
    return "".join(json.dumps(line) + "\n" for line in [*lines, {"end": True}])
