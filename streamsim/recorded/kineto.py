"""Traces of PyTorch's profiler: Kineto's JSON, plain or packed with gzip, read, and written of simulated programs.

An event's category shows whether it is a call or work. Only its name shows the direction of a copy and the memory on
the host's side. A record of an event has no stream; the wait for the event names the stream.

Events are decoded some at a time, so that a large trace takes little more memory than its text.

A trace that is written is what the profiler would write if recording took no time. With it, every step to a faster
program can be tried without a card. It replays within a percent of the simulated time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from typing import Annotated, Any

import msgspec

from streamsim.errors import InputError, shown
from streamsim.files import replacing_packed
from streamsim.program import Copy, HostWork, Kernel, Op, RecordEvent, Synchronize, WaitEvent, WaitThread
from streamsim.recorded import recording as recordings
from streamsim.recorded.builder import UNKNOWN_PROCESS, RecordingBuilder, foreign
from streamsim.recorded.recording import NONE, AnnotationKind, CopyDirection, CopyMemory, Recording, WorkKind
from streamsim.rules import TICKS_PER_US
from streamsim.timeline import Timeline, call_name

Id = int | float | str | None
Whole = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Three = tuple[Whole, Whole, Whole]
# Categories of PyTorch 1.13 and newer, and of 1.8 to 1.12.
CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
WORK = {"gpu_memcpy": WorkKind.COPY, "kernel": WorkKind.KERNEL, "gpu_memset": WorkKind.MEMSET}
WORK |= {"Memcpy": WorkKind.COPY, "Kernel": WorkKind.KERNEL, "Memset": WorkKind.MEMSET}
NOTES = {"cpu_op": AnnotationKind.OP, "user_annotation": AnnotationKind.RANGE}
NOTES |= {"Operator": AnnotationKind.OP, "operator": AnnotationKind.OP}
# Categories without further facts: arrows, annotations repeated on the card, frames of Python, the profiler itself.
SAYS_NOTHING_MORE = ("ac2g", "async_gpu", "fwdbwd", "gpu_user_annotation", "overhead", "python_function", "Trace")
LEGACY_STREAM = 7  # CUPTI's number of the first context's null stream
FARTHEST_US = Decimal(1 << 61) / 1000
_COPY = re.compile(r"(?:Memcpy\s*|Copy)(\w+?)\b.*?(?:\((\w+) -> (\w+)\))?\s*\Z", re.ASCII)
_DIRECTIONS = dict.fromkeys(("HtoD", "HostToDevice"), CopyDirection.H2D)
_DIRECTIONS |= dict.fromkeys(("DtoH", "DeviceToHost"), CopyDirection.D2H)
_DIRECTIONS |= dict.fromkeys(("DtoD", "DeviceToDevice"), CopyDirection.D2D)
_DIRECTIONS |= dict.fromkeys(("PtoP", "PeerToPeer"), CopyDirection.PEER)
MENDED = ("text that is no JSON", "not UTF-8, or numbers such as inf; replaced")
AT_ONCE = 50_000  # events that are decoded together
BEGINNING = 1 << 20  # bytes in which a trace names the tool that wrote it
_NO_NUMBER = re.compile(rb"(?<=[:,\[])(\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,\]}])", re.IGNORECASE)
_MEMORIES = {"Pageable": CopyMemory.PAGEABLE, "Pinned": CopyMemory.PINNED}


class _Card(msgspec.Struct):
    id: int = 0
    name: str = ""
    memory_bytes: int = msgspec.field(default=0, name="totalGlobalMem")
    multiprocessors: int = msgspec.field(default=0, name="numSms")


class _Events(msgspec.Struct):
    events: list[msgspec.Raw] = msgspec.field(name="traceEvents")


class _Trace(_Events):
    cards: list[_Card] = msgspec.field(default=[], name="deviceProperties")
    shapes: Id = msgspec.field(default=None, name="record_shapes")
    stack: Id = msgspec.field(default=None, name="with_stack")
    simulated: bool = False


class _Args(msgspec.Struct, gc=False):
    correlation: Whole = NONE
    device: Id = NONE
    context: Whole = NONE
    stream: Id = NONE
    bytes: Id = 0  # AMD's calls have a text
    grid: Three = (0, 0, 0)
    block: Three = (0, 0, 0)
    wait_on_stream: Whole = NONE
    wait_on_cuda_event_record_corr_id: Whole = NONE
    wait_on_cuda_event_id: Whole = NONE


class _TraceEvent(msgspec.Struct, gc=False):
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
_ALL_EVENTS, _ONE_EVENT = msgspec.json.Decoder(list[_TraceEvent]), msgspec.json.Decoder(_TraceEvent)
COLUMNS = {
    "calls": ("start_ns", "end_ns", "process", "pid", "tid", "name", "correlation"),
    "work": (
        *("start_ns", "end_ns", "context", "stream_id", "device", "correlation", "kind", "name", "bytes", "direction"),
        *("memory", "grid", "block"),
    ),
    "annotations": ("start_ns", "end_ns", "pid", "tid", "kind", "name"),
    "records": ("context", "stream_id", "device", "correlation", "event"),
    "waits": ("context", "stream_id", "device", "correlation", "event", "recorded"),
}  # of the builder; the process of work, records and waits is not known


def read_kineto(path: str | os.PathLike[str], blocks: Iterable[bytes]) -> Recording:
    """Return the recording in the ``blocks`` of a trace. Raises InputError of one line, which begins with ``path``."""
    builder = RecordingBuilder("Kineto", str(path))
    text = b"".join(blocks)
    trace = _decoded(builder, text)
    builder.tool = _tool(trace)
    for card in trace.cards:
        builder.cards[card.id] = recordings.RecordedCard(card.id, card.name, card.memory_bytes, card.multiprocessors)
    reader = _EventReader(builder)
    for first in range(0, len(trace.events), AT_ONCE):
        reader.take(_events_of(builder, trace.events[first : first + AT_ONCE]))
    remedy = "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
    other = foreign(path, text[:BEGINNING])
    return builder.recording(other or f"has no CUDA calls, copies or kernels; {remedy}")


def _decoded(builder: RecordingBuilder, text: bytes) -> _Trace:
    """Return a file with its events still to be decoded. If another field has a wrong type, only the events count."""
    try:
        try:
            return msgspec.json.decode(text, type=_Trace)
        except msgspec.ValidationError:
            return _Trace(msgspec.json.decode(text, type=_Events).events)
    except msgspec.ValidationError:
        why = "has no list traceEvents; expected a trace of the PyTorch profiler"
    except RecursionError:
        why = "is nested too deeply; record it again"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        mended = _mended(_NO_NUMBER.sub(rb"\1null", text))
        if mended != text:
            builder.count(MENDED)
            return _decoded(builder, mended)
        what = "cut short" if "truncated" in str(error) else f"malformed ({error})"
        why = f"is {what}; copy it again, or let the profiler finish writing it"
    raise InputError(f"{builder.where}: {why}")


def _mended(text: bytes) -> bytes:
    return text.decode(errors="replace").encode()


def _events_of(builder: RecordingBuilder, raws: Sequence[msgspec.Raw]) -> Iterable[_TraceEvent]:
    """Return decoded events, without those of which a field has another type."""
    try:
        return _ALL_EVENTS.decode(b"[" + b",".join(raws) + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return filter(None, (_event_of(builder, bytes(raw)) for raw in raws))


def _event_of(builder: RecordingBuilder, raw: bytes) -> _TraceEvent | None:
    mended = _mended(raw)
    builder.count(MENDED, int(mended != raw))
    try:
        return _ONE_EVENT.decode(mended)
    except msgspec.DecodeError:
        builder.count(("events with a field that is no number or text", "left out"))
        return None


def _tool(trace: _Trace) -> str:
    """Return the profiler's name, and what it was told to record."""
    if trace.simulated:
        return recordings.SIMULATED
    options = [word for word, on in (("shapes", trace.shapes), ("stack", trace.stack)) if on not in (None, 0, "0")]
    return f"PyTorch profiler{', with ' if options else ''}{' and '.join(options)}"


class _EventReader:
    """A translator of events into rows of a builder."""

    def __init__(self, builder: RecordingBuilder) -> None:
        self._builder = builder
        self._copy, self._number = cache(_copy), cache(_number)
        self._takers: dict[str, Callable[[_TraceEvent, tuple[int, int]], None]] = dict.fromkeys(CALLS, self._call)
        self._takers |= dict.fromkeys(WORK, self._work) | dict.fromkeys(NOTES, self._note)
        self._takers["cuda_sync"] = self._mark
        self._shapes: dict[int, tuple[Three, Three]] = {}  # by correlation: AMD's launches have them, not their kernels
        self._rows: dict[str, list[Any]] = {}

    def take(self, events: Iterable[_TraceEvent]) -> None:
        """Add the rows of some events."""
        self._rows = {table: [] for table in COLUMNS}
        for event in events:
            taker = self._takers.get(event.cat)
            if event.ph != "X" or taker is None:
                self._other(event)
                continue
            times = _times(event)
            if times is None:
                self._builder.count(("events without a time", "left out"))
            else:
                taker(event, times)
        for table, rows in self._rows.items():
            if rows:
                self._builder.add(table, dict(zip(COLUMNS[table], zip(*rows, strict=True), strict=True)))

    def _call(self, event: _TraceEvent, row: tuple[int, int]) -> None:
        pid, args = self._number(event.pid), event.args or NO_ARGS
        if args.grid[0]:
            self._shapes[args.correlation] = args.grid, args.block
        name = self._builder.name(event.name or "")
        self._rows["calls"].append((*row, pid, pid, self._number(event.tid), name, args.correlation))

    def _work(self, event: _TraceEvent, row: tuple[int, int]) -> None:
        args, name = event.args or NO_ARGS, event.name or ""
        kind, (direction, memory) = WORK[event.cat], NO_COPY
        if kind == WorkKind.COPY:
            direction, memory = self._copy(name)
        stream = self._placed(event, self._number(event.tid if args.stream == NONE else args.stream))
        shape = args.grid, args.block
        shape = shape if args.grid[0] else self._shapes.get(args.correlation, shape)
        amounts = (self._number(args.bytes), direction, memory, *shape)
        named = (args.correlation, kind, self._builder.name(name))
        self._rows["work"].append((*row, *stream, *named, *amounts))

    def _note(self, event: _TraceEvent, row: tuple[int, int]) -> None:
        thread = (self._number(event.pid), self._number(event.tid))
        self._rows["annotations"].append((*row, *thread, NOTES[event.cat], self._builder.name(event.name or "")))

    def _mark(self, event: _TraceEvent, _: tuple[int, int]) -> None:
        args = event.args or NO_ARGS
        of_event, recorded = args.wait_on_cuda_event_id, args.wait_on_cuda_event_record_corr_id
        stream = self._placed(event, self._number(args.stream))
        self._rows["waits"].append((*stream, args.correlation, of_event, recorded))
        self._rows["records"].append((*self._placed(event, args.wait_on_stream), recorded, of_event))

    def _other(self, event: _TraceEvent) -> None:
        if event.ph in ("X", "B", "E") and event.cat not in SAYS_NOTHING_MORE:
            category = shown(event.cat) if event.ph == "X" else f"begun and ended apart ({event.ph})"
            self._builder.count((f"events of category {category}", "not read"))

    def _placed(self, event: _TraceEvent, number: int) -> tuple[int, int, int]:
        """Return the context, the stream of this ``number`` and the card."""
        args = event.args or NO_ARGS
        card = self._number(event.pid if args.device == NONE else args.device)
        context = card if args.context == NONE else args.context
        if number == LEGACY_STREAM:
            self._builder.stream_kinds[UNKNOWN_PROCESS, context, number] = "legacy"
        return context, number, card


def _times(event: _TraceEvent) -> tuple[int, int] | None:
    """Return the exact start and end in nanoseconds; microseconds since 1970 have more digits than a float."""
    start, length = event.ts, event.dur
    if start is None or length is None or start.is_nan() or length.is_nan():
        return None
    if max(abs(start), abs(length)) >= FARTHEST_US:
        return None
    begin = int(start * 1000)
    return begin, begin + int(length * 1000)


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


# Traces of simulated programs

Event = dict[str, Any]
PROCESS = 1
THREADS_OF_A_BLOCK = 256


def write_recording(timeline: Timeline, path: str | os.PathLike[str]) -> None:
    """Write a simulated program to ``path`` as PyTorch's profiler writes a recorded one (Kineto); ``.gz``: packed.

    Raises InputError if the time line was measured, is that of a graph, or cannot be written.
    """
    if timeline.device is None or timeline.schedule.launch == "graph":
        raise InputError("a recording is written of a simulated program that issues its ops one by one")
    card = {"id": 0, "name": timeline.device.name, "totalGlobalMem": timeline.device.memory_bytes or 0}
    head = {"schemaVersion": 1, "simulated": True, "deviceProperties": [card], "traceEvents": [*_events(timeline)]}
    with replacing_packed(path) as file:
        file.write(msgspec.json.encode(head))


def _events(timeline: Timeline) -> Iterator[Event]:
    """Yield the calls in the order in which they were made, each with what it waits for, then the work of the card."""
    records = _records_waited_for(timeline)
    called = [op for op, what in enumerate(timeline.schedule.ops) if not isinstance(what, HostWork | WaitThread)]
    for op in sorted(called, key=timeline.issued.__getitem__):
        what = timeline.schedule.ops[op]
        yield _span("cuda_runtime", _call(what), what.thread, timeline.issued[op], timeline.returned[op], {}, op)
        if isinstance(what, Synchronize | WaitEvent):
            yield _wait(timeline, op, records)
    for op, engine in enumerate(timeline.engine):
        if engine >= 0:
            yield _work(timeline, op)


def _records_waited_for(timeline: Timeline) -> dict[int, int]:
    """Return for each wait for an event the op that recorded that event last before it."""
    latest: dict[int, int] = {}
    found = {}
    for op, what in enumerate(timeline.schedule.ops):
        if isinstance(what, RecordEvent):
            latest[what.event] = op
        elif isinstance(what, WaitEvent | Synchronize) and what.event in latest:
            found[op] = latest[what.event]
    return found


def _call(op: Op) -> str:
    return "cudaMemcpy" if isinstance(op, Copy) and op.blocking else call_name(op)


def _span(category: str, name: str, thread: int, start: int, end: int, args: Event, op: int) -> Event:
    times = {"ts": start / TICKS_PER_US, "dur": (end - start) / TICKS_PER_US}
    args = {"correlation": op + 1, **args}
    return {"ph": "X", "cat": category, "name": name, "pid": PROCESS, "tid": thread, **times, "args": args}


def _wait(timeline: Timeline, op: int, records: dict[int, int]) -> Event:
    """Return the profiler's note on what the call of ``op`` waits for."""
    ops = timeline.schedule.ops
    args: Event = {"device": 0, "context": 1, **_in_stream(ops[op])}
    if op in records:
        record = ops[records[op]]
        assert isinstance(record, RecordEvent)
        args |= {"wait_on_stream": LEGACY_STREAM + record.stream, "wait_on_cuda_event_id": record.event}
        args["wait_on_cuda_event_record_corr_id"] = records[op] + 1
    return _span("cuda_sync", _call(ops[op]), 0, timeline.issued[op], timeline.returned[op], args, op)


def _in_stream(op: Op) -> Event:
    """Return the stream of an op by the profiler's number; the default stream of the first context is 7."""
    return {} if op.stream is None else {"stream": LEGACY_STREAM + op.stream}


def _work(timeline: Timeline, op: int) -> Event:
    what = timeline.schedule.ops[op]
    args: Event = {"device": 0, "context": 1, **_in_stream(what)}
    if isinstance(what, Copy):
        memory = "Pageable" if what.uses_host(timeline.schedule.pageable_names) else "Pinned"
        way = f"HtoD ({memory} -> Device)" if what.direction == "h2d" else f"DtoH (Device -> {memory})"
        category, name = "gpu_memcpy", f"Memcpy {way}"
        args["bytes"] = what.bytes
    else:
        assert isinstance(what, Kernel)
        blocks = max(1, -(-(what.threads or what.elements) // THREADS_OF_A_BLOCK))
        category, name = "kernel", what.name
        args |= {"grid": [blocks, 1, 1], "block": [THREADS_OF_A_BLOCK, 1, 1]}
    return _span(category, name, 0, timeline.start[op], timeline.end[op], args, op)
