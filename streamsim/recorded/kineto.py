"""Traces of PyTorch's profiler: Kineto's JSON, plain or packed with gzip.

An event's category shows whether it is a call or work. Only its name shows the direction of a copy and the memory on
the host's side. A record of an event has no stream; the wait for the event names the stream.

A file is never in memory as a whole, packed or not: it is read in blocks. A block is cut behind its last ``}`` before
``, {``, and decoded. If this place is inside an event, the text does not decode, and the place before it is tried. The
text begins with an event, so a text that decodes as a list ends with one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import islice
from typing import Annotated, Any

import msgspec

from streamsim.errors import InputError
from streamsim.recorded.builder import UNKNOWN_PROCESS, RecordingBuilder
from streamsim.recorded.foreign import foreign
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
_DIRECTIONS = dict.fromkeys(("HtoD", "HostToDevice"), CopyDirection.H2D)
_DIRECTIONS |= dict.fromkeys(("DtoH", "DeviceToHost"), CopyDirection.D2H)
_DIRECTIONS |= dict.fromkeys(("DtoD", "DeviceToDevice"), CopyDirection.D2D)
_DIRECTIONS |= dict.fromkeys(("PtoP", "PeerToPeer"), CopyDirection.PEER)
_MEMORIES = {"Pageable": CopyMemory.PAGEABLE, "Pinned": CopyMemory.PINNED}


class _Card(msgspec.Struct):
    id: int = 0
    name: str = ""
    memory_bytes: int = msgspec.field(default=0, name="totalGlobalMem")
    multiprocessors: int = msgspec.field(default=0, name="numSms")


class _TraceHead(msgspec.Struct):
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
    bytes: Id = 0  # AMD's calls have a text
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


def read_kineto(path: str | os.PathLike[str], blocks: Iterator[bytes]) -> Recording:
    """Return the recording in the ``blocks`` of a trace. Raises InputError of one line, which begins with ``path``."""
    file = _EventFile(path, blocks)
    builder = RecordingBuilder("Kineto", str(path))
    builder.tool = _tool(file.head)
    for card in file.head.cards:
        builder.cards[card.id] = RecordedCard(card.id, card.name, card.memory_bytes, card.multiprocessors)
    reader = _EventReader(builder)
    for events in file:
        reader.take(events)
    builder.count(("events with a field that is no number or text", "left out"), file.bad)
    builder.count(("text that is no JSON", "not UTF-8, or numbers such as inf; replaced"), int(file.mended))
    if not builder.calls.count + builder.work.count:
        remedy = "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
        other = foreign(path, "\n".join(builder.processes.values()).encode())
        raise InputError(one_line(f"{path}: {other or f'has no CUDA calls, copies or kernels; {remedy}'}"))
    return builder.recording()


def _tool(head: _TraceHead) -> str:
    """Return the profiler's name, the version of CUPTI, and what it was told to record."""
    if head.simulated:
        return SIMULATED
    version = f", CUPTI {head.cupti}" if isinstance(head.cupti, int) else ""
    options = [word for word, on in (("shapes", head.shapes), ("stack", head.stack)) if on not in (None, 0, "0")]
    return f"PyTorch profiler{version}{', with ' if options else ''}{' and '.join(options)}"


class _EventReader:
    """A reader of events, which adds their rows to a builder block by block."""

    def __init__(self, builder: RecordingBuilder) -> None:
        self._builder = builder
        self._copy, self._number = cache(_copy), cache(_number)
        self._takers: dict[str, Callable[[_TraceEvent, tuple[int, int]], None]] = dict.fromkeys(CALLS, self._call)
        self._takers |= dict.fromkeys(WORK, self._work) | dict.fromkeys(NOTES, self._note)
        self._takers["cuda_sync"] = self._mark
        self._shapes: dict[int, tuple[Three, Three]] = {}  # by correlation: AMD's launches have them, not their kernels
        self._rows: dict[str, list[Any]] = {}

    def take(self, events: list[_TraceEvent]) -> None:
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
                getattr(builder, name).add(dict(zip(_COLUMNS[name], zip(*rows, strict=True), strict=True)))
        builder.check_size()

    def _call(self, event: _TraceEvent, row: tuple[int, int]) -> None:
        process, args = self._number(event.pid), event.args or NO_ARGS
        thread = self._builder.thread(process, self._number(event.tid))
        if args.grid[0]:
            self._shapes[args.correlation] = args.grid, args.block
        self._rows["calls"].append((*row, process, self._builder.name(event.name or ""), thread, args.correlation))

    def _work(self, event: _TraceEvent, row: tuple[int, int]) -> None:
        args, name, builder = event.args or NO_ARGS, event.name or "", self._builder
        kind, (direction, memory) = WORK[event.cat], NO_COPY
        if kind == WorkKind.COPY:
            direction, memory = self._copy(name)
        card = self._number(event.pid if args.device == NONE else args.device)
        stream = self._stream(card, args.context, self._number(event.tid if args.stream == NONE else args.stream))
        placed = (UNKNOWN_PROCESS, kind, builder.name(name), builder.card(card), stream, args.correlation)
        shape = args.grid, args.block
        shape = shape if args.grid[0] else self._shapes.get(args.correlation, shape)
        amounts = (self._number(args.bytes), direction, memory, *shape, args.registers, args.shared_bytes)
        self._rows["work"].append((*row, *placed, *amounts, args.graph, args.node))

    def _note(self, event: _TraceEvent, row: tuple[int, int]) -> None:
        thread = self._builder.thread(self._number(event.pid), self._number(event.tid))
        self._rows["annotations"].append((*row, NOTES[event.cat], self._builder.name(event.name or ""), thread))

    def _mark(self, event: _TraceEvent, _: tuple[int, int]) -> None:
        args = event.args or NO_ARGS
        card = self._number(event.pid if args.device == NONE else args.device)
        streams = [
            NONE if number in (NONE, NO_STREAM) else self._stream(card, args.context, number)
            for number in (self._number(args.stream), args.wait_on_stream)
        ]
        recorded = (args.wait_on_cuda_event_id, args.wait_on_cuda_event_record_corr_id, streams[1])
        self._rows["marks"].append((UNKNOWN_PROCESS, args.correlation, streams[0], *recorded))

    def _other(self, event: _TraceEvent) -> None:
        if event.ph == "M" and event.args is not None and event.args.name:
            if event.name == "process_name" and isinstance(event.pid, int):
                self._builder.processes[event.pid] = event.args.name[:100]
            elif event.name == "thread_name":
                self._builder.threads[self._number(event.pid), self._number(event.tid)] = event.args.name[:100]
        elif event.ph in ("X", "B", "E") and event.cat not in SAYS_NOTHING_MORE:
            category = shown(event.cat) if event.ph == "X" else f"begun and ended apart ({event.ph})"
            self._builder.count((f"events of category {category}", "not read"))

    def _stream(self, card: int, context: int, number: int) -> int:
        key = (UNKNOWN_PROCESS, card if context == NONE else context, number)
        if number == LEGACY_STREAM:
            self._builder.stream_kinds[key] = "legacy"
        return self._builder.stream(*key, card=card)


_COLUMNS = {
    "calls": ("start_ns", "end_ns", "process", "name", "thread", "correlation"),
    "work": (
        *("start_ns", "end_ns", "process", "kind", "name", "card", "stream", "correlation", "bytes", "direction"),
        *("memory", "grid", "block", "registers", "shared_bytes", "graph", "node"),
    ),
    "annotations": ("start_ns", "end_ns", "kind", "name", "thread"),
    "marks": ("process", "correlation", "stream", "event", "recorded", "recorded_in"),
}


def _times(event: _TraceEvent) -> tuple[int, int] | None:
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


# Blocks of a file, cut into events

LARGEST_HEAD_BYTES = 1 << 24
LARGEST_EVENT_BYTES = 1 << 24
MOST_CUTS = 8  # tried in a text before it is read on to twice its length
MOST_BRACES = 256  # looked at for the next of them
MOST_HEADS = 8
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_CUT = re.compile(rb"\}(?=\s{0,999},\s{0,999}\{)")
_AT = re.compile(r"\(byte (\d+)\)$")
_NO_NUMBER = re.compile(rb"(?<=[:,\[])(\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,\]}])", re.IGNORECASE)
_RAW = msgspec.json.Decoder(list[msgspec.Raw])
_HEAD, _ONE_EVENT = msgspec.json.Decoder(_TraceHead), msgspec.json.Decoder(_TraceEvent)
_ALL_EVENTS = msgspec.json.Decoder(list[_TraceEvent])


class _EventFile:
    """The ``head`` of a file, before ``traceEvents``, and its events. Iteration yields lists of events, once.

    ``bad``: the number of events that are left out because a field has another type. ``mended``: True if text that is
    not UTF-8, or numbers that JSON lacks (``inf``), were replaced.
    """

    def __init__(self, path: str | os.PathLike[str], blocks: Iterator[bytes]) -> None:
        self._path, self._blocks = path, blocks
        self.bad, self.events_read, self.mended = 0, 0, False
        self.head, self._text = self._read_head()

    def __iter__(self) -> Iterator[list[_TraceEvent]]:
        text, self._text = self._text, b""
        ended, retry_bytes = False, 0
        for block in self._blocks:
            if ended:
                continue  # read to the end: a damaged file may show only there
            text += block
            if len(text) < retry_bytes:
                continue
            before = len(text)
            events, text, ended = self._cut(text)
            if events:
                yield events
            stuck = not ended and len(text) == before
            if stuck and before > LARGEST_EVENT_BYTES:
                where = f"after {self.events_read:,} events"
                raise self._error(f"{where} {LARGEST_EVENT_BYTES >> 20} MiB follow that are no event; record it again")
            retry_bytes = min(2 * before, LARGEST_EVENT_BYTES + 1) if stuck else 0
        if not ended:
            yield self._last(text)

    def _read_head(self) -> tuple[_TraceHead, bytes]:
        text = b""
        for block in self._blocks:
            text += block
            for match in islice(_EVENTS.finditer(text), MOST_HEADS):
                try:
                    return _HEAD.decode(self._mend(text[: match.end()]) + b"]}"), text[match.end() :]
                except msgspec.ValidationError:
                    return _TraceHead(), text[match.end() :]
                except (msgspec.DecodeError, RecursionError):
                    continue  # inside a string or another object
            if len(text) > LARGEST_HEAD_BYTES:
                break
        raise self._error("has no list traceEvents; expected a trace of the PyTorch profiler")

    def _cut(self, text: bytes) -> tuple[list[_TraceEvent], bytes, bool]:
        """Return the events of the text up to its last whole one, the rest, and True if the list has ended."""
        end = len(text)
        for _ in range(MOST_CUTS):
            found = _last_cut(text, end)
            if found < 0:
                break
            events, ended, whole = self._decode(text[:found], b"]")
            if whole:
                rest = text[found:].lstrip()[1:] if not ended else b""
                return events, rest, ended
            end = found - 1
        return [], text, False

    def _last(self, text: bytes) -> list[_TraceEvent]:
        """Return the events up to the end of the file, where the list must end."""
        events, ended, whole = self._decode(text, b"")
        if not (ended or whole):
            read = f"after {self.events_read:,} events"
            raise self._error(f"is cut short {read}; copy it again, or let the profiler finish writing it")
        return events

    def _decode(self, text: bytes, end: bytes) -> tuple[list[_TraceEvent], bool, bool]:
        """Return the events of the text, True if their list ends in it, and True if all its events are whole."""
        data = b"[" + text + end
        decode, mended, ended = self._all, False, False
        while True:
            try:
                return decode(data), ended, True
            except msgspec.ValidationError:
                decode = self._one_by_one
                continue
            except RecursionError:
                raise self._error("is nested too deeply; record it again") from None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                message = str(error)
            at = _AT.search(message)
            if "trailing characters" in message and at and not ended:
                data, ended = data[: int(at[1]) - 1], True
                continue
            if "truncated" in message or (at and end and int(at[1]) >= len(data) - 1):
                return [], False, False
            if mended:
                raise self._error(f"is malformed after {self.events_read:,} events ({message}); record it again")
            data, mended = self._mend(data), True

    def _all(self, data: bytes) -> list[_TraceEvent]:
        events: list[_TraceEvent] = _ALL_EVENTS.decode(data)
        self.events_read += len(events)
        return events

    def _one_by_one(self, data: bytes) -> list[_TraceEvent]:
        found = []
        for raw in _RAW.decode(data):
            try:
                found.append(_ONE_EVENT.decode(raw))
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.bad += 1
        self.events_read += len(found)
        return found

    def _mend(self, data: bytes) -> bytes:
        """Replace numbers and letters that JSON does not have."""
        mended = _NO_NUMBER.sub(rb"\1null", data).decode(errors="replace").encode()
        self.mended |= mended != data
        return mended

    def _error(self, reason: str) -> InputError:
        return InputError(one_line(f"{self._path}: {reason}"))


def _last_cut(text: bytes, end: int) -> int:
    """Return the place behind the last ``}`` before ``end`` that another object follows; -1 if there is none."""
    for _ in range(MOST_BRACES):
        end = text.rfind(b"}", 0, end)
        if end < 0 or _CUT.match(text, end):
            return end + 1 or -1
    return -1
