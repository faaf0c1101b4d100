"""Builders of recordings: they order and join the rows of a reader, and count rows that do not fit.

A profiler's file may have unknown or repeated ids, clocks that run backwards, or one call under two names. Rows that a
:class:`Recording` cannot hold are left out and counted here, for every format.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.recorded.call_names import QUERIES, kind_of_call, places
from streamsim.recorded.recording import (
    ISSUES,
    LATEST_NS,
    NONE,
    AnnotationKind,
    Annotations,
    CallKind,
    CardWork,
    Format,
    HostCalls,
    PageEvents,
    RecordedCard,
    RecordedStream,
    RecordedStreamKind,
    RecordedThread,
    Recording,
    Unread,
    dtype_of,
    shape_of,
)

Columns = dict[str, NDArray[Any]]

STEP = "ProfilerStep#"  # how the names of the profiler's steps begin
MOST_RECORDS = 10_000_000
MOST_NAME_BYTES = 1 << 28
LONGEST_NAME = 4096
MOST_KINDS_UNREAD = 40
SHORTER = "record a shorter part of the program"
UNKNOWN_PROCESS = -1
SEVERAL = -2
FAR = 1 << 61  # two of them have a difference

NEGATIVE = ("records that end before they start", "the clock ran backwards; left out")
NEGATIVE_BYTES = ("copies and memsets of fewer than 0 bytes", "taken as 0")
OUT_OF_RANGE = ("records with times far from all others", "not within 52 days; left out")
TWICE = ("calls recorded again under a second name", "runtime and driver; the outer one is kept")
PUTS_NONE = (
    CallKind.RECORD,
    CallKind.WAIT,
    CallKind.SYNCHRONIZE_STREAM,
    CallKind.SYNCHRONIZE_EVENT,
    CallKind.SYNCHRONIZE_DEVICE,
)
WITHOUT_WORK = (
    "copies, memsets and launches without work",
    "it was not recorded, or they were captured into a graph; they take what they took, and nothing runs",
)
ASTRAY = (
    "work of calls that put none on a card",
    "one that no longer records calls gives it the last one's id; its call is taken not to be there",
)
REPEATED = ("calls whose correlation id is taken", "the id repeats; work goes with the first of them")
BEFORE_CALL = ("work that starts before its call", "the card's and the host's clocks differ")
LOST_RECORD = ("waits whose event's record is not known", "whom they wait for is not known")
AMBIGUOUS = ("work that may be of several processes", "their ids are the same; it has no call")
DANGLING = ("stream and event records without a call", "their call was not recorded")


# The number that stands in a column that is not given, if it is not -1.
ZERO = ("kind", "bytes", "direction", "memory", "grid", "block", "registers", "shared_bytes", "cause")
DEFAULTS = dict.fromkeys(ZERO, 0) | {"count": 1}


class _Rows:
    """Blocks of columns, already in their final types."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names, self._blocks, self.count = tuple(names), list[Columns](), 0

    def add(self, columns: Mapping[str, Any]) -> None:
        """Add rows: columns by name, of which the first has an entry a row. One number stands for a whole column."""
        count = len(next(iter(columns.values())))
        block = {}
        for name in self._names:
            kind = np.iinfo(dtype_of(name))
            column = np.asarray(columns.get(name, DEFAULTS.get(name, NONE))).clip(kind.min, kind.max)
            block[name] = np.broadcast_to(column, shape_of(name, count)).astype(kind.dtype)
        self._blocks.append(block)
        self.count += count

    def columns(self) -> Columns:
        """Return all columns, and forget them."""
        empty = {name: np.empty(shape_of(name, 0), dtype_of(name)) for name in self._names}
        found = {name: np.concatenate([none, *(b.pop(name) for b in self._blocks)]) for name, none in empty.items()}
        self._blocks, self.count = [], 0
        return found


def mapped(ids: NDArray[Any], to: Callable[[int], int]) -> NDArray[np.int64]:
    """Return ``to`` of each id; it is called once for each distinct id."""
    unique, inverse = np.unique(ids, return_inverse=True)
    return np.array([to(number) for number in unique.tolist()], np.int64)[inverse.reshape(-1)]


class RecordingBuilder:
    """A builder of a recording from the rows of a reader.

    - ``calls``, ``work``, ``annotations``, ``pages``: take columns with the names of the recording's tables. ``calls``
      and ``work`` also take ``process``, and ``work`` takes ``correlation``.
    - ``marks``: takes further facts on waits, synchronisations and records: the process and correlation of the call,
      its stream and event, and for waits the correlation and stream of the event's record (``recorded``,
      ``recorded_in``).

    Columns that are not given are -1; kinds and sizes are 0.
    """

    def __init__(self, format: Format, where: str) -> None:
        self.format, self.where, self.tool = format, where, ""
        self.processes: dict[int, str] = {}
        self.cards: dict[int, RecordedCard] = {}
        self.stream_kinds: dict[tuple[int, ...], RecordedStreamKind] = {}
        self.threads: dict[tuple[int, int], str] = {}
        self._unread: Counter[tuple[str, str]] = Counter()
        self._names: dict[str, int] = {}
        self._name_bytes = 0
        self._streams: dict[tuple[int, int, int], int] = {}
        self._cards_of_streams: dict[tuple[int, ...], int] = {}
        self._cards: dict[int, int] = {}
        self._threads: dict[tuple[int, int], int] = {}
        self.calls = _Rows((*HostCalls.__struct_fields__, "process"))
        self.work = _Rows((*CardWork.__struct_fields__, "process", "correlation"))
        self.annotations = _Rows(Annotations.__struct_fields__)
        self.pages = _Rows(PageEvents.__struct_fields__)
        self.marks = _Rows(("process", "correlation", "stream", "event", "recorded", "recorded_in"))

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

    def card(self, number: int) -> int:
        """Return the index of the card with the profiler's ``number``."""
        if number not in self._cards:
            self.cards.setdefault(number, RecordedCard(number))
            self._cards[number] = len(self._cards)
        return self._cards[number]

    def stream(self, process: int, context: int, number: int, card: int = NONE) -> int:
        """Return the index of a stream; ``card``: the profiler's number of its card, or -1 if it is not known."""
        key = (process, context, number)
        if card != NONE:
            self._cards_of_streams.setdefault(key, self.card(card))
        return self._streams.setdefault(key, len(self._streams))

    def thread(self, process: int, number: int) -> int:
        """Return the index of the thread with the system's ``number``."""
        return self._threads.setdefault((process, number), len(self._threads))

    def check_size(self, more: int = 0) -> None:
        """Raise InputError if there are more than ten million records, counting ``more`` that are still to come."""
        tables = (self.calls, self.work, self.annotations, self.pages, self.marks)
        if more + sum(rows.count for rows in tables) > MOST_RECORDS:
            raise InputError(f"{self.where}: has over {MOST_RECORDS:,} records; {SHORTER}")

    def recording(self) -> Recording:
        """Return the recording, with all rows in order."""
        self.check_size()
        tables = [rows.columns() for rows in (self.calls, self.work, self.annotations, self.pages)]
        self._set_sizes(*tables)
        calls, work, notes, pages = map(self._in_order, self._from_origin(tables))
        self._set_kinds(calls, notes)
        calls = self._once(calls)
        self._mark(calls, self.marks.columns())
        work["call"] = self._call_of(calls, work["process"], work["correlation"])
        self._set_astray(calls, work)
        self._set_streams(calls, work)
        self._set_only_card()
        cards, kinds = self._cards_of_streams, self.stream_kinds
        return Recording(
            self.format,
            self.tool,
            tuple(self._names),
            tuple(sorted(self.processes.items())),
            tuple(RecordedThread(*key, self.threads.get(key, "")) for key in self._threads),
            tuple(
                RecordedStream(key[0], cards.get(key, NONE), *key[1:], kinds.get(key, "unknown"))
                for key in self._streams
            ),
            tuple(self.cards[number] for number in self._cards),
            HostCalls.of(calls),
            CardWork.of(work),
            Annotations.of(notes),
            tuple(Unread(what, times, why) for (what, why), times in self._unread.items()),
            pages=PageEvents.of(pages),
        )

    def _from_origin(self, tables: list[Columns]) -> Iterator[Columns]:
        """Yield the tables with times from the first record near the median time, without records far from it."""
        starts = np.concatenate([table["start_ns"] for table in tables]).clip(-FAR, FAR)
        middle = int(np.median(starts)) if len(starts) else 0
        origin = int(starts[np.abs(starts - middle) < LATEST_NS // 2].min(initial=middle))
        for table in tables:
            for side in ("start_ns", "end_ns"):
                table[side] = table[side].clip(-FAR, FAR) - origin
            within = (table["start_ns"] >= 0) & (np.abs(table["end_ns"]) <= LATEST_NS)
            self.count(OUT_OF_RANGE, int((~within).sum()))
            yield {name: column[within] for name, column in table.items()}

    def _in_order(self, table: Columns) -> Columns:
        """Return the rows by start, of equal starts the longest first, without rows that end before they start."""
        right = table["end_ns"] >= table["start_ns"]
        self.count(NEGATIVE, int((~right).sum()))
        order = np.flatnonzero(right)
        order = order[np.lexsort((-table["end_ns"][order], table["start_ns"][order]))]
        return {name: column[order] for name, column in table.items()}

    def _set_kinds(self, calls: Columns, notes: Columns) -> None:
        """Set the kinds of calls by their names, and those of ranges that are steps of the profiler."""
        names = list(self._names)
        calls["kind"] = mapped(calls["name"], lambda name: kind_of_call(names[name])).astype(np.int8)
        are_steps = mapped(notes["name"], lambda name: names[name].startswith(STEP)) > 0
        notes["kind"][are_steps & (notes["kind"] == AnnotationKind.RANGE)] = AnnotationKind.STEP

    def _set_sizes(self, *tables: Columns) -> None:
        """Set sizes below 0 to 0, and count them; likewise shapes of kernels, without a count."""
        for table in tables:
            if "bytes" in table:
                self.count(NEGATIVE_BYTES, int((table["bytes"] < 0).sum()))
            for name in table.keys() & {"bytes", "grid", "block", "registers", "shared_bytes"}:
                table[name] = table[name].clip(0)

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
        return {name: column[kept] for name, column in calls.items()}

    def _call_of(self, calls: Columns, process: Any, correlation: Any) -> NDArray[np.int64]:
        """Return the rows of the calls with these correlations; -1 for none, and for several of an unknown process."""
        found = np.full(len(correlation), NONE, np.int64)
        anyone = process == UNKNOWN_PROCESS
        found[~anyone] = _lookup(calls["process"], calls["correlation"], process[~anyone], correlation[~anyone])
        for owner in np.unique(calls["process"]) if anyone.any() else ():
            mine = np.full(int(anyone.sum()), owner)
            rows = _lookup(calls["process"], calls["correlation"], mine, correlation[anyone])
            taken = found[anyone]
            found[anyone] = np.where(rows < 0, taken, np.where(taken == NONE, rows, SEVERAL))
        self.count(AMBIGUOUS, int((found == SEVERAL).sum()))
        found[found == SEVERAL] = NONE
        return found

    def _set_astray(self, calls: Columns, work: Columns) -> None:
        """Take work from calls that put none on a card: those that ask, wait, or record an event."""
        if not len(calls["name"]):
            return
        puts_none = np.isin(calls["name"], places(self._names, QUERIES)) | np.isin(calls["kind"], PUTS_NONE)
        astray = (work["call"] != NONE) & puts_none[work["call"]]
        work["call"][astray] = NONE
        self.count(ASTRAY, int(astray.sum()))

    def _set_only_card(self) -> None:
        """Give the only card with work the facts of the only card listed: AMD's traces number cards in two ways."""
        listed = [card for number, card in self.cards.items() if card != RecordedCard(number)]
        if len(self._cards) == len(listed) == 1:
            (number,) = self._cards
            self.cards[number] = msgspec.structs.replace(listed[0], id=number)

    def _set_streams(self, calls: Columns, work: Columns) -> None:
        """Set the stream of each call that names none to that of its first work. Count calls and work that disagree."""
        has = work["call"] >= 0
        rows, streams = work["call"][has][::-1], work["stream"][has][::-1]  # the first work of a call is set last
        self.count(WITHOUT_WORK, len(np.setdiff1d(np.flatnonzero(np.isin(calls["kind"], ISSUES)), rows)))
        self.count(BEFORE_CALL, int((work["start_ns"][has] < calls["start_ns"][work["call"][has]]).sum()))
        without = calls["stream"][rows] < 0
        calls["stream"][rows[without]] = streams[without]

    def _mark(self, calls: Columns, marks: Columns) -> None:
        """Set the streams, events and records of waits and synchronisations, and of the records that they name."""
        rows = self._call_of(calls, marks["process"], marks["correlation"])
        self.count(DANGLING, int((rows < 0).sum()))
        records = self._call_of(calls, marks["process"], marks["recorded"])
        known = rows >= 0
        for name in ("stream", "event"):
            said = known & (marks[name] >= 0)
            calls[name][rows[said]] = marks[name][said]
        waits = np.isin(calls["kind"], (CallKind.WAIT, CallKind.SYNCHRONIZE_EVENT))
        is_record = calls["kind"] == CallKind.RECORD
        unnamed = np.flatnonzero(known & (records < 0) & (marks["event"] >= 0))
        records[unnamed] = _latest_records(calls, rows[unnamed])
        right = known & (records >= 0)
        right[right] = is_record[records[right]] & waits[rows[right]] & (records[right] < rows[right])
        calls["record"][rows[right]] = records[right]
        calls["event"][records[right]] = marks["event"][right]
        where = right & (marks["recorded_in"] >= 0)
        calls["stream"][records[where]] = marks["recorded_in"][where]
        self.count(LOST_RECORD, int((waits & (calls["record"] < 0)).sum()))


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
