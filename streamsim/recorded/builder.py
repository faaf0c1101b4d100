"""Builders of recordings: they number, order and join the rows of a reader, and count rows that do not fit.

Readers translate a profiler's rows into the columns of ``TABLES``, with the profiler's own numbers. CUPTI's activity
records, which captures and exports of Nsight Systems hold, have translators of their own here. A file may have unknown
or repeated ids, clocks that run backwards, or one call under two names. Rows that a :class:`Recording` cannot hold are
left out and counted here, for every format.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.recorded import recording as recordings
from streamsim.recorded.recording import NONE, CallKind, CopyDirection, CopyMemory, RecordedCard, Recording, WorkKind
from streamsim.recorded.times import numbered

Columns = dict[str, NDArray[Any]]

STEP = "ProfilerStep#"  # how the names of the profiler's steps begin
MOST_RECORDS = 10_000_000
MOST_NAME_BYTES = 1 << 28
LONGEST_NAME = 4096
MOST_KINDS_UNREAD = 40
SHORTER = "record a shorter part of the program"
UNKNOWN_PROCESS = -1
NOTHING = np.empty(0)
SEVERAL = -2
NO_ID = 0xFFFFFFFF  # CUPTI's "none", which a signed number may hold as -1
FAR = 1 << 61  # two of them have a difference

NEGATIVE = ("records that end before they start", "the clock ran backwards; left out")
NEGATIVE_BYTES = ("copies and memsets of fewer than 0 bytes", "taken as 0")
OUT_OF_RANGE = ("records with times far from all others", "not within 52 days; left out")
TWICE = ("calls recorded again under a second name", "runtime and driver; the outer one is kept")
WITHOUT_WORK = (
    "copies, memsets and launches without work",
    "it was not recorded, or they were captured into a graph; they take what they took, and nothing runs",
)
ASTRAY = (
    "work of calls that put none on a card",
    "one that no longer records calls gives it the last one's id; its call is taken not to be there",
)
REPEATED = ("calls whose correlation id is taken", "the id repeats; work goes with the first of them")
LOST_RECORD = ("waits whose event's record is not known", "whom they wait for is not known")
AMBIGUOUS = ("work that may be of several processes", "their ids are the same; it has no call")
DANGLING = ("stream and event records without a call", "their call was not recorded")

_SPAN, _THREAD = ("start_ns", "end_ns"), ("pid", "tid")
_STREAM = ("pid", "context", "stream_id", "device")
_MARK = ("process", "correlation", *_STREAM, "event", "sync")
# The columns of each table. ``process`` is the owner of correlations, ``pid`` the system's number; ``name`` is an index
# that :meth:`RecordingBuilder.name` returned. ``records`` and ``waits`` are further facts on the calls that record
# events and that wait. A wait names its record by that one's ``sync``, or by the correlation ``recorded``.
TABLES: dict[str, tuple[str, ...]] = {
    "calls": (*_SPAN, "process", "correlation", *_THREAD, "name"),
    "work": (
        *(*_SPAN, "process", "correlation", *_STREAM, "kind", "name", "bytes", "direction", "memory"),
        *("grid", "block"),
    ),
    "annotations": (*_SPAN, *_THREAD, "kind", "name"),
    "pages": (*_SPAN, "process", "device", "kind", "cause", "bytes", "count"),
    "records": _MARK,
    "waits": (*_MARK, "recorded"),
    "streams": _STREAM,  # streams that count even if they are not used
}
# The number that stands in a column that is not given, if it is not -1.
ZERO = ("kind", "bytes", "direction", "memory", "grid", "block", "cause")
DEFAULTS = dict.fromkeys(ZERO, 0) | {"count": 1}


def chosen(table: Columns, rows: NDArray[Any]) -> Columns:
    """Return some rows of a table, chosen by a mask or by their indices."""
    return {name: column[rows] for name, column in table.items()}


def mapped(ids: NDArray[Any], to: Callable[[int], int]) -> NDArray[np.int64]:
    """Return ``to`` of each id; it is called once for each distinct id."""
    unique, inverse = np.unique(ids, return_inverse=True)
    return np.array([to(number) for number in unique.tolist()], np.int64)[inverse.reshape(-1)]


class RecordingBuilder:
    """A builder of a recording from the rows of a reader.

    - ``tool``: the profiler.
    - ``cards``: facts by the profiler's number; ``stream_kinds``: kinds by process, context and number.
    - ``size``: the number of rows so far in each table.
    """

    def __init__(self, format: recordings.Format, where: str) -> None:
        self.format, self.where, self.tool = format, where, ""
        self.cards: dict[int, RecordedCard] = {}
        self.stream_kinds: dict[tuple[int, ...], recordings.RecordedStreamKind] = {}
        self.size: Counter[str] = Counter()
        self._unread: Counter[tuple[str, str]] = Counter()
        self._names: dict[str, int] = {}
        self._name_bytes = 0
        self._blocks: dict[str, list[Columns]] = {table: [] for table in TABLES}
        for table, (first, *_) in TABLES.items():
            self.add(table, {first: ()})

    def add(self, table: str, columns: Mapping[str, Any]) -> None:
        """Add rows of one of the ``TABLES``: columns by name, of which the first has an entry a row.

        One number stands for a whole column. A missing column is -1; kinds and sizes are 0. Raises InputError for more
        than ten million records.
        """
        count = len(next(iter(columns.values())))
        block = {}
        for name in TABLES[table]:
            kind = np.iinfo(recordings.dtype_of(name))
            column = np.asarray(columns.get(name, DEFAULTS.get(name, NONE))).clip(kind.min, kind.max)
            block[name] = np.broadcast_to(column, recordings.shape_of(name, count)).astype(kind.dtype)
        self._blocks[table].append(block)
        self.size[table] += count
        if self.size.total() > MOST_RECORDS:
            raise InputError(f"{self.where}: has over {MOST_RECORDS:,} records; {SHORTER}")

    def count(self, what: tuple[str, str], times: int = 1) -> None:
        """Count something that is left out or not understood: ``what`` it is and the reason, and how many ``times``."""
        if times:
            if what not in self._unread and len(self._unread) >= MOST_KINDS_UNREAD:
                what = ("records of other kinds", "not read")
            self._unread[what] += times

    def name(self, text: str) -> int:
        """Return the index of a name, which is kept up to 4096 letters. Raises InputError for too many names."""
        kept = text[:LONGEST_NAME]
        if kept not in self._names:
            self._name_bytes += len(kept)
            if self._name_bytes > MOST_NAME_BYTES:
                raise InputError(f"{self.where}: has over {MOST_NAME_BYTES >> 20} MiB of names; {SHORTER}")
        return self._names.setdefault(kept, len(self._names))

    def recording(self, remedy: str = "") -> Recording:
        """Return the recording, with all rows in order. Raises InputError with the ``remedy``, if any, for no rows."""
        if remedy and not self.size["calls"] + self.size["work"]:
            raise InputError(f"{self.where}: {remedy}")
        tables = {table: self._joined(table) for table in TABLES}
        timed = [tables[table] for table in ("calls", "work", "annotations", "pages")]
        for table in timed:  # shapes below 0 are not counted
            self.count(NEGATIVE_BYTES, int((table.get("bytes", NOTHING) < 0).sum()))
            table |= {name: table[name].clip(0) for name in table.keys() & {"bytes", "grid", "block"}}
        self._set_origin(timed)
        calls, work, notes, pages = map(self._in_order, timed)
        records, waits = tables["records"], tables["waits"]
        keys = np.concatenate([_stacked(table, _THREAD) for table in (calls, notes)])
        numbers, first = numbered(keys)
        _set("thread", numbers, (calls, notes))
        cards = self._numbered_cards(work, pages, records, waits, tables["streams"])
        streams = self._numbered_streams(work, records, waits, tables["streams"])
        self._set_kinds(calls, notes)
        calls = self._once(calls)
        self._mark(calls, records, waits)
        work["call"] = self._call_of(calls, work["process"], work["correlation"])
        self.count(AMBIGUOUS, int((work["call"] == SEVERAL).sum()))
        work["call"] = work["call"].clip(NONE)
        self._set_astray(calls, work)
        self._set_streams(calls, work)
        return Recording(
            self.format,
            self.tool,
            tuple(self._names),
            tuple(recordings.RecordedThread(*thread) for thread in keys[first].tolist()),
            streams,
            cards,
            recordings.HostCalls.of(calls),
            recordings.CardWork.of(work),
            recordings.Annotations.of(notes),
            tuple(recordings.Unread(what, times, why) for (what, why), times in self._unread.items()),
            pages=recordings.PageEvents.of(pages),
        )

    def _joined(self, table: str) -> Columns:
        """Return all columns of a table, and forget its blocks."""
        blocks = self._blocks.pop(table)
        return {name: np.concatenate([block.pop(name) for block in blocks]) for name in TABLES[table]}

    def _set_origin(self, tables: Sequence[Columns]) -> None:
        """Set all times to those since the first record that is near the median time."""
        starts = np.concatenate([table["start_ns"] for table in tables]).clip(-FAR, FAR)
        middle = int(np.median(starts)) if len(starts) else 0
        origin = int(starts[np.abs(starts - middle) < recordings.LATEST_NS // 2].min(initial=middle))
        for table in tables:
            for side in _SPAN:
                table[side] = table[side].clip(-FAR, FAR) - origin

    def _in_order(self, table: Columns) -> Columns:
        """Return the rows by start, of equal starts the longest first, without rows whose times cannot be."""
        start, end = table["start_ns"], table["end_ns"]
        within = (start >= 0) & (np.abs(end) <= recordings.LATEST_NS)
        right = within & (end >= start)
        self.count(OUT_OF_RANGE, int((~within).sum()))
        self.count(NEGATIVE, int((within & ~right).sum()))
        order = np.flatnonzero(right)
        order = order[np.lexsort((-end[order], start[order]))]
        return chosen(table, order)

    def _numbered_cards(self, work: Columns, *others: Columns) -> tuple[RecordedCard, ...]:
        """Return the cards, and set each table's ``card``.

        An only card has the facts of the only one listed: AMD's traces number cards in two ways.
        """
        known = [table["device"][table["device"] >= 0] for table in others]
        numbers = np.unique(np.concatenate([work["device"], *known]))
        for table in (work, *others):
            table["card"] = np.searchsorted(numbers, table["device"])
        for table in others:
            table["card"][table["device"] < 0] = NONE
        listed = [card for number, card in self.cards.items() if card != RecordedCard(number)]
        if len(numbers) == len(listed) == 1:
            return (msgspec.structs.replace(listed[0], id=int(numbers[0])),)
        return tuple(self.cards.get(number, RecordedCard(number)) for number in numbers.tolist())

    def _numbered_streams(self, *tables: Columns) -> tuple[recordings.RecordedStream, ...]:
        """Return the streams in order of their numbers, mostly that of creation, and set each table's ``stream``."""
        keys = np.concatenate([np.full((1, 3), NONE), *(_stacked(table, _STREAM[:3]) for table in tables)])
        keys[(keys[:, 2] < 0) | (keys[:, 2] == NO_ID)] = np.iinfo(np.int64).min  # no stream: the first key
        numbers, first = numbered(keys)
        cards = np.concatenate([[NONE], *(table["card"] for table in tables)])
        known = np.flatnonzero(cards >= 0)[::-1]
        card_of = np.full(len(first), NONE)
        card_of[numbers[known]] = cards[known]  # the first one is set last
        _set("stream", numbers[1:] - 1, tables)
        found = zip(map(tuple, keys[first[1:]].tolist()), card_of[1:].tolist(), strict=True)
        kinds = self.stream_kinds
        made = recordings.RecordedStream
        return tuple(made(key[0], card, key[1], key[2], kinds.get(key, "unknown")) for key, card in found)

    def _set_kinds(self, calls: Columns, notes: Columns) -> None:
        """Set the names of calls without versions, their kinds, and those of ranges that are steps of the profiler."""
        names = list(self._names)
        calls["name"] = mapped(calls["name"], lambda name: self.name(recordings.plain(names[name])))
        names = list(self._names)
        calls["kind"] = mapped(calls["name"], lambda name: recordings.kind_of_call(names[name])).astype(np.int8)
        are_steps = mapped(notes["name"], lambda name: names[name].startswith(STEP)) > 0
        notes["kind"][are_steps & (notes["kind"] == recordings.AnnotationKind.RANGE)] = recordings.AnnotationKind.STEP

    def _once(self, calls: Columns) -> Columns:
        """Return the calls without those inside another call of the same process, thread and correlation."""
        ids = calls["process"], calls["correlation"]
        first = _lookup(*ids, *ids)
        others = np.flatnonzero((first != NONE) & (first != np.arange(len(first))))
        outer = first[others]
        inside = calls["end_ns"][others] <= calls["end_ns"][outer]
        inside &= calls["thread"][others] == calls["thread"][outer]
        self.count(TWICE, int(inside.sum()))
        self.count(REPEATED, int((~inside).sum()))
        kept = np.ones(len(first), bool)
        kept[others[inside]] = False
        return chosen(calls, kept)

    def _call_of(self, calls: Columns, process: Any, correlation: Any) -> NDArray[np.int64]:
        """Return the rows of the calls with these correlations; -1 for none, -2 for several of an unknown process."""
        found = _lookup(calls["process"], calls["correlation"], process, correlation)
        anyone = process == UNKNOWN_PROCESS
        found[anyone] = NONE
        for owner in np.unique(calls["process"]) if anyone.any() else ():
            mine = np.full(int(anyone.sum()), owner)
            rows = _lookup(calls["process"], calls["correlation"], mine, correlation[anyone])
            taken = found[anyone]
            found[anyone] = np.where(rows < 0, taken, np.where(taken == NONE, rows, SEVERAL))
        return found

    def _mark(self, calls: Columns, records: Columns, waits: Columns) -> None:
        """Set the streams and events of calls that record or wait, and the records that are waited for."""
        calls |= {name: np.full(len(calls["name"]), NONE) for name in ("stream", "event", "record")}
        rows_of_records, rows = (self._call_of(calls, of["process"], of["correlation"]) for of in (records, waits))
        self.count(DANGLING, int((rows < 0).sum()))
        for marks, of_marks in ((records, rows_of_records), (waits, rows)):
            for name in ("stream", "event"):
                said = (of_marks >= 0) & (marks[name] >= 0) & (marks[name] != NO_ID)
                calls[name][of_marks[said]] = marks[name][said]
        by_sync = _lookup(records["process"], records["sync"], waits["process"], waits["sync"])
        found = self._call_of(calls, waits["process"], waits["recorded"])
        found = np.where(by_sync >= 0, np.append(rows_of_records, NONE)[by_sync], found)
        unnamed = np.flatnonzero((rows >= 0) & (found < 0) & (waits["event"] >= 0) & (waits["event"] != NO_ID))
        found[unnamed] = _latest_records(calls, rows[unnamed])
        may_wait = np.isin(calls["kind"], (CallKind.WAIT, CallKind.SYNCHRONIZE_EVENT))
        right = np.flatnonzero((rows >= 0) & (found >= 0) & (found < rows))
        right = right[may_wait[rows[right]] & (calls["kind"][found[right]] == CallKind.RECORD)]
        calls["record"][rows[right]] = found[right]
        self.count(LOST_RECORD, int((may_wait & (calls["record"] < 0)).sum()))

    def _set_astray(self, calls: Columns, work: Columns) -> None:
        """Take work from calls that put none on a card: those that ask, wait, or record an event."""
        asks = np.isin(calls["name"], recordings.places(self._names, recordings.QUERIES))
        puts_none = asks | np.isin(calls["kind"], (*recordings.WAITS, CallKind.RECORD, CallKind.WAIT))
        astray = np.append(puts_none, False)[work["call"]]  # the last one is of no call
        work["call"][astray] = NONE
        self.count(ASTRAY, int(astray.sum()))

    def _set_streams(self, calls: Columns, work: Columns) -> None:
        """Set the stream of each call that names none to that of its first work. Count calls without work."""
        has = work["call"] >= 0
        rows, streams = work["call"][has][::-1], work["stream"][has][::-1]  # the first work of a call is set last
        self.count(WITHOUT_WORK, len(np.setdiff1d(np.flatnonzero(np.isin(calls["kind"], recordings.ISSUES)), rows)))
        without = calls["stream"][rows] < 0
        calls["stream"][rows[without]] = streams[without]


def _stacked(table: Columns, columns: Sequence[str]) -> NDArray[np.int64]:
    return np.stack([table[column] for column in columns], axis=1)


def _set(name: str, values: NDArray[np.int64], tables: Sequence[Columns]) -> None:
    """Set the column ``name`` of the tables to their parts of the ``values``."""
    ends = np.cumsum([len(table["pid"]) for table in tables])
    for table, own in zip(tables, np.split(values, ends[:-1]), strict=True):
        table[name] = own


def _latest_records(calls: Columns, waits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each of the ``waits`` the last call before it that recorded its event; -1 for none."""
    keys = list(zip(calls["process"].tolist(), calls["event"].tolist(), strict=True))
    latest: dict[tuple[int, int], int] = {}
    found = {}
    for row in sorted({*np.flatnonzero(calls["kind"] == CallKind.RECORD).tolist(), *waits.tolist()}):
        found[row] = latest.get(keys[row], NONE)
        if calls["kind"][row] == CallKind.RECORD:
            latest[keys[row]] = row
    return np.array([found[row] for row in waits.tolist()], np.int64)


def _lookup(processes: Any, correlations: Any, process: Any, correlation: Any) -> NDArray[np.int64]:
    """Return the first row of each process and correlation; -1 for none, and for a correlation of 0 or below."""
    found = np.full(len(correlation), NONE, np.int64)
    for owner in np.unique(processes):
        mine = np.flatnonzero(processes == owner)
        order = mine[np.argsort(correlations[mine], kind="stable")]
        asked = np.flatnonzero((process == owner) & (correlation > 0))
        at = np.searchsorted(correlations[order], correlation[asked])
        at[at == len(order)] = 0
        rows = order[at]
        found[asked] = np.where(correlations[rows] == correlation[asked], rows, NONE)
    return found


# CUPTI's activity records in columns

COPY_KINDS = {1: CopyDirection.H2D, 2: CopyDirection.D2H, 3: CopyDirection.H2D, 4: CopyDirection.D2H}
COPY_KINDS |= dict.fromkeys((5, 6, 7, 8), CopyDirection.D2D) | {10: CopyDirection.PEER}
MEMORIES = {1: CopyMemory.PAGEABLE, 2: CopyMemory.PINNED}  # CUPTI_ACTIVITY_MEMORY_KIND_...
MANAGED = 5  # CUPTI_ACTIVITY_MEMORY_KIND_MANAGED
STREAM_KINDS: dict[int, recordings.RecordedStreamKind] = {1: "blocking", 2: "non-blocking", 3: "legacy"}
BY_PROFILER = 1  # who named a range; 0: the program
# The table of the builder, the kind and the name, if the records have none.
WORK = {"copies": (WorkKind.COPY, "copy"), "kernels": (WorkKind.KERNEL, "")}
WORK |= {"memsets": (WorkKind.MEMSET, "memset"), "graphs": (WorkKind.GRAPH, "graph")}
OTHERS = {"calls": "calls", "ranges": "annotations", "events": "records", "synchronizations": "waits"}
ACTIVITIES = (*WORK, *OTHERS)


def add_activities(builder: RecordingBuilder, activity: str, block: Columns, name_of: Callable[[int], str]) -> None:
    """Add records of one of the ``ACTIVITIES``, with the builder's names of columns. Raises InputError for too many.

    ``name_of``: returns the text of a name's number.
    """
    if "name" in block:
        block["name"] = mapped(block["name"], lambda number: builder.name(name_of(number)))
    if activity == "copies":
        block |= _copied(block)
    elif activity == "kernels":
        block |= {side: np.stack([block[f"{side}_{axis}"] for axis in "xyz"], axis=1) for side in ("grid", "block")}
    elif activity == "ranges":
        block = chosen(block, block["by"] != BY_PROFILER)
    if activity in OTHERS:
        builder.add(OTHERS[activity], block)
        return
    kind, name = WORK[activity]
    named = {"name": builder.name(name)} if name else {}
    builder.add("work", {**block, "kind": kind, **named})


def _copied(block: Columns) -> Columns:
    """Return the directions of copies, and the memory on the host's side of those to or from a card."""
    direction = mapped(block["copy_kind"], lambda kind: COPY_KINDS.get(kind, CopyDirection.OTHER))
    source, target = block["src_device"], block["dst_device"]
    between = (source != target) & (source >= 0) & (target >= 0) & (direction == CopyDirection.D2D)
    direction[between] = CopyDirection.PEER
    direction[(block["src_kind"] == MANAGED) | (block["dst_kind"] == MANAGED)] = CopyDirection.UNIFIED
    of_host = np.where(direction == CopyDirection.H2D, block["src_kind"], block["dst_kind"])
    memory = mapped(of_host, lambda kind: MEMORIES.get(kind, CopyMemory.UNKNOWN))
    memory[(direction != CopyDirection.H2D) & (direction != CopyDirection.D2H)] = CopyMemory.NONE
    return {"direction": direction, "memory": memory}


def card_of(number: int, name: object, *counts: object) -> RecordedCard:
    """Return a card from values of a file: its memory, multiprocessors and copy engines count if they are numbers."""
    known = (max(count, 0) if isinstance(count, int) else 0 for count in counts)
    return RecordedCard(number, name[:100] if isinstance(name, str) else "", *known)


# Files of other profilers: what they are, and what to record instead

RECORD_NSYS = "record with: nsys profile --trace=cuda,nvtx PROGRAM; then nsys export --type sqlite FILE.nsys-rep"
RECORD_TORCH = "of AMD's cards, traces of PyTorch's profiler are read: ProfilerActivity.CPU and ProfilerActivity.CUDA"
NVPROF = f"is a profile of nvprof or the Visual Profiler; {RECORD_NSYS}"
ROCPROF = f"is a file of rocprof; {RECORD_TORCH}"
XPLANE = f"is a profile of JAX or TensorFlow (XPlane); {RECORD_NSYS}"
# Endings of names, patterns of the content, and words for the file.
FOREIGN = (
    ((".nvvp", ".nvprof"), rb"\bStringTable\b", NVPROF),
    ((".pftrace", ".rocpd"), rb'"rocprofiler-sdk-tool"|\brocpd_|\bHIP API\b', ROCPROF),
    ((), rb'\A"?(?:Kind|Domain|Index|Name|Dispatch_ID)"?,"?(?:Agent_Id|Function|KernelName|Calls|GPU_ID)', ROCPROF),
    ((".xplane.pb",), rb"/(?:host|device):\w", XPLANE),
)
ENDINGS = tuple(ending for endings, _, _ in FOREIGN for ending in endings)


def foreign(path: str | os.PathLike[str], content: bytes) -> str:
    """Return what a file of another profiler is, and what to record instead; "" for any other file.

    ``content``: the beginning of the file, or the names of its tables or processes, one a line.
    """
    name = str(path).lower()
    shown = next((words for _, pattern, words in FOREIGN if re.search(pattern, content)), "")
    return shown or next((words for endings, _, words in FOREIGN if name.endswith(endings)), "")
