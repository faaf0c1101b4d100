"""Traces of PyTorch's profiler: Kineto's JSON, plain or packed with gzip.

An event's category shows whether it is a call or work. Only its name shows the direction of a copy and the memory on
the host's side. A record of an event has no stream; the wait for the event names the stream.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec

from streamsim.errors import InputError
from streamsim.recorded.builder import STEP, UNKNOWN_PROCESS, RecordingBuilder
from streamsim.recorded.call_names import kind_of_call
from streamsim.recorded.json_stream import EventFile
from streamsim.recorded.recording import (
    NONE,
    SIMULATED,
    AnnotationKind,
    CopyDirection,
    CopyMemory,
    RecordedCard,
    Recording,
    WorkKind,
)
from streamsim.text import one_line, shown

Id = int | float | str | None
Whole = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Three = tuple[Whole, Whole, Whole]
# Categories of PyTorch 1.13 and newer, and of 1.8 to 1.12.
CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
WORK = {"gpu_memcpy": WorkKind.COPY, "kernel": WorkKind.KERNEL, "gpu_memset": WorkKind.MEMSET}
WORK |= {"Memcpy": WorkKind.COPY, "Kernel": WorkKind.KERNEL, "Memset": WorkKind.MEMSET}
NOTES = {"cpu_op": AnnotationKind.OP, "overhead": AnnotationKind.OVERHEAD, "user_annotation": AnnotationKind.RANGE}
NOTES |= {"Operator": AnnotationKind.OP, "operator": AnnotationKind.OP}
# Categories without further facts: arrows, annotations repeated on the card, frames of Python, the profiler itself.
SAYS_NOTHING_MORE = ("ac2g", "async_gpu", "fwdbwd", "gpu_user_annotation", "python_function", "Trace")
NO_STREAM = 0xFFFFFFFF
LEGACY_STREAM = 7  # CUPTI's number of the first context's null stream
FARTHEST_US = Decimal(1 << 61) / 1000
_COPY = re.compile(r"(?:Memcpy\s*|Copy)(\w+?)\b.*?(?:\((\w+) -> (\w+)\))?\s*\Z", re.ASCII)
_DIRECTIONS = {
    "HtoD": CopyDirection.H2D,
    "DtoH": CopyDirection.D2H,
    "DtoD": CopyDirection.D2D,
    "PtoP": CopyDirection.PEER,
}
_DIRECTIONS |= {
    "HostToDevice": CopyDirection.H2D,
    "DeviceToHost": CopyDirection.D2H,
    "DeviceToDevice": CopyDirection.D2D,
}
_DIRECTIONS |= {"PeerToPeer": CopyDirection.PEER}
_MEMORIES = {"Pageable": CopyMemory.PAGEABLE, "Pinned": CopyMemory.PINNED}


class _Card(msgspec.Struct):
    id: int = 0
    name: str = ""
    memory_bytes: int = msgspec.field(default=0, name="totalGlobalMem")
    multiprocessors: int = msgspec.field(default=0, name="numSms")


class _Head(msgspec.Struct):
    cards: list[_Card] = msgspec.field(default=[], name="deviceProperties")
    schema: Id = msgspec.field(default=None, name="schemaVersion")
    shapes: Id = msgspec.field(default=None, name="record_shapes")
    stack: Id = msgspec.field(default=None, name="with_stack")
    cupti: Id = msgspec.field(default=None, name="cupti_version")
    simulated: bool = False


class _Args(msgspec.Struct, gc=False):
    correlation: Whole = NONE
    device: Id = NONE
    context: Whole = NONE
    stream: Id = NONE
    bytes: Whole = 0
    grid: Three = (0, 0, 0)
    block: Three = (0, 0, 0)
    registers: Whole = msgspec.field(default=0, name="registers per thread")
    shared_bytes: Whole = msgspec.field(default=0, name="shared memory")
    graph: Whole = msgspec.field(default=NONE, name="graph id")
    node: Whole = msgspec.field(default=NONE, name="graph node id")
    wait_on_stream: Whole = NONE
    wait_on_cuda_event_record_corr_id: Whole = NONE
    wait_on_cuda_event_id: Whole = NONE
    name: str | None = None  # of a process or thread


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str | None = ""
    pid: Id = None
    tid: Id = None
    ts: Decimal | None = None
    dur: Decimal | None = None
    args: _Args | None = None


NO_ARGS = _Args()
NO_COPY = (CopyDirection.NONE, CopyMemory.NONE)


class _Known(dict[Any, Any]):
    """The results of a function, by its argument; each is computed once."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __missing__(self, value: Any) -> Any:
        found = self[value] = self._function(value)
        return found


def read_kineto(path: str | os.PathLike[str], blocks: Iterator[bytes]) -> Recording:
    """Return the recording in the ``blocks`` of a trace. Raises InputError of one line, which begins with ``path``."""
    file = EventFile(path, blocks, _Head, _Event)
    builder = RecordingBuilder("Kineto", str(path))
    version = f" {file.head.cupti}" if isinstance(file.head.cupti, int) else ""
    builder.tool = f"PyTorch profiler, CUPTI{version}" if version else "PyTorch profiler"
    options = [
        word for word, on in (("shapes", file.head.shapes), ("stack", file.head.stack)) if on not in (None, 0, "0")
    ]
    builder.tool += f", with {' and '.join(options)}" if options else ""
    if file.head.simulated:
        builder.tool = SIMULATED
    for card in file.head.cards:
        builder.cards[card.id] = RecordedCard(card.id, card.name, card.memory_bytes, card.multiprocessors)
    reader = _Reader(builder)
    for events in file:
        reader.take(events)
    builder.count(("events with a field that is no number or text", "left out"), file.bad)
    builder.count(("text that is no JSON", "not UTF-8, or numbers such as inf; replaced"), int(file.mended))
    if not builder.calls.count + builder.work.count:
        remedy = "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
        raise InputError(one_line(f"{path}: has no CUDA calls, copies or kernels; {remedy}"))
    return builder.recording()


class _Reader:
    """A reader of events, which adds their rows to a builder block by block."""

    def __init__(self, builder: RecordingBuilder) -> None:
        self._builder = builder
        self._kinds: dict[str, int] = {}
        self._copies = _Known(_copy)
        self._numbers = _Known(_number)
        self._takers: dict[str, Callable[[_Event, tuple[int, int]], None]] = dict.fromkeys(CALLS, self._call)
        self._takers |= dict.fromkeys(WORK, self._work) | dict.fromkeys(NOTES, self._note)
        self._takers["cuda_sync"] = self._mark
        self._rows: dict[str, list[Any]] = {}

    def take(self, events: list[_Event]) -> None:
        """Add the events of one block."""
        self._rows = {"calls": [], "work": [], "annotations": [], "marks": []}
        builder, takers = self._builder, self._takers
        for event in events:
            taker = takers.get(event.cat)
            if event.ph != "X" or taker is None:
                self._other(event)
                continue
            times = _times(event)
            if times is None:
                builder.count(("events without a time", "left out"))
            else:
                taker(event, times)
        for name, rows in self._rows.items():
            if rows:
                columns = dict(zip(_COLUMNS[name], zip(*rows, strict=True), strict=True))
                getattr(builder, name).add(len(rows), columns)
        builder.check_size()

    def _call(self, event: _Event, row: tuple[int, int]) -> None:
        name = event.name or ""
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = int(kind_of_call(name))
        process, args = self._numbers[event.pid], event.args or NO_ARGS
        thread = self._builder.thread(process, self._numbers[event.tid])
        self._rows["calls"].append((*row, process, kind, self._builder.name(name), thread, args.correlation))

    def _work(self, event: _Event, row: tuple[int, int]) -> None:
        args, name, builder = event.args or NO_ARGS, event.name or "", self._builder
        kind, (direction, memory) = WORK[event.cat], NO_COPY
        if kind == WorkKind.COPY:
            direction, memory = self._copies[name]
        card = self._numbers[event.pid if args.device == NONE else args.device]
        stream = self._stream(card, args.context, self._numbers[event.tid if args.stream == NONE else args.stream])
        if args.bytes < 0:
            builder.count(("copies and memsets of fewer than 0 bytes", "taken as 0"))
        placed = (UNKNOWN_PROCESS, kind, builder.name(name), builder.card(card), stream, args.correlation)
        amounts = (max(args.bytes, 0), direction, memory, args.grid, args.block, args.registers, args.shared_bytes)
        self._rows["work"].append((*row, *placed, *amounts, args.graph, args.node))

    def _note(self, event: _Event, row: tuple[int, int]) -> None:
        name, kind = event.name or "", NOTES[event.cat]
        if kind == AnnotationKind.RANGE and name.startswith(STEP):
            kind = AnnotationKind.STEP
        thread = self._builder.thread(self._numbers[event.pid], self._numbers[event.tid])
        self._rows["annotations"].append((*row, kind, self._builder.name(name), thread))

    def _mark(self, event: _Event, _: tuple[int, int]) -> None:
        args = event.args or NO_ARGS
        card = self._numbers[event.pid if args.device == NONE else args.device]
        streams = [
            NONE if number in (NONE, NO_STREAM) else self._stream(card, args.context, number)
            for number in (self._numbers[args.stream], args.wait_on_stream)
        ]
        recorded = (args.wait_on_cuda_event_id, args.wait_on_cuda_event_record_corr_id, streams[1])
        self._rows["marks"].append((UNKNOWN_PROCESS, args.correlation, streams[0], *recorded))

    def _other(self, event: _Event) -> None:
        if event.ph == "M" and event.args is not None and event.args.name:
            if event.name == "process_name" and isinstance(event.pid, int):
                self._builder.processes[event.pid] = event.args.name[:100]
            elif event.name == "thread_name":
                self._builder.threads[self._numbers[event.pid], self._numbers[event.tid]] = event.args.name[:100]
        elif event.ph in ("X", "B", "E") and event.cat not in SAYS_NOTHING_MORE:
            category = shown(event.cat) if event.ph == "X" else f"begun and ended apart ({event.ph})"
            self._builder.count((f"events of category {category}", "not read"))

    def _stream(self, card: int, context: int, number: int) -> int:
        key = (UNKNOWN_PROCESS, card if context == NONE else context, number)
        if number == LEGACY_STREAM:
            self._builder.stream_kinds[key] = "legacy"
        return self._builder.stream(*key, card=card)


_COLUMNS = {
    "calls": ("start_ns", "end_ns", "process", "kind", "name", "thread", "correlation"),
    "work": (
        *("start_ns", "end_ns", "process", "kind", "name", "card", "stream", "correlation", "bytes", "direction"),
        *("memory", "grid", "block", "registers", "shared_bytes", "graph", "node"),
    ),
    "annotations": ("start_ns", "end_ns", "kind", "name", "thread"),
    "marks": ("process", "correlation", "stream", "event", "recorded", "recorded_in"),
}


def _times(event: _Event) -> tuple[int, int] | None:
    """Return the exact start and end in nanoseconds; microseconds since 1970 have more digits than a float."""
    start, length = event.ts, event.dur
    if start is None or length is None:
        return None
    try:
        if -FARTHEST_US < start < FARTHEST_US and -FARTHEST_US < length < FARTHEST_US:
            begin = int(start * 1000)
            return begin, begin + int(length * 1000)
    except InvalidOperation:  # not a number
        pass
    return None


def _copy(name: str) -> tuple[CopyDirection, CopyMemory]:
    """Return what a copy's name shows, such as ``Memcpy HtoD (Pinned -> Device)``; AMD's ``Host`` shows no memory."""
    match = _COPY.match(name[:200])
    if not match:
        return CopyDirection.OTHER, CopyMemory.UNKNOWN
    if "Managed" in (match[2], match[3]) or "Unified" in name:
        return CopyDirection.UNIFIED, CopyMemory.NONE
    direction = _DIRECTIONS.get(match[1], CopyDirection.OTHER)
    if direction not in (CopyDirection.H2D, CopyDirection.D2H):
        return direction, CopyMemory.NONE
    return direction, _MEMORIES.get(match[2 if direction == CopyDirection.H2D else 3], CopyMemory.UNKNOWN)


def _number(value: Id) -> int:
    """Return an id as a number; -1 for a word or None."""
    if isinstance(value, str):
        value = int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else NONE
    if value is None or not -(1 << 62) < value < 1 << 62:  # NaN is not in this range
        return NONE
    return int(value)
