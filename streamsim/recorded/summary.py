"""Summaries of recordings: their contents, the busy and idle time of each card with reasons, and unread parts."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.displayed import Displayed
from streamsim.recorded.call_names import plain
from streamsim.recorded.idle import Reasons, gaps, length, merged
from streamsim.recorded.recording import (
    NONE,
    AnnotationKind,
    CallKind,
    CardWork,
    CopyDirection,
    CopyMemory,
    Format,
    Recording,
    Unread,
    WorkKind,
)
from streamsim.recorded.unified import first_prefetch, groups_of
from streamsim.text import counted, format_seconds, short

ENGINES = ("H2D", "D2H", "kernels", "within the card", "memsets", "other copies", "graphs")
KERNELS = ENGINES.index("kernels")
NS_PER_S = 1e9
_ENGINE_OF = {CopyDirection.H2D: 0, CopyDirection.D2H: 1, CopyDirection.D2D: 3}
_WAYS = {
    CopyDirection.D2D: "within the card",
    CopyDirection.PEER: "to another card",
    CopyDirection.UNIFIED: "of unified memory",
}
_WAYS |= {CopyDirection.H2D: "H2D", CopyDirection.D2H: "D2H", CopyDirection.OTHER: "of unknown direction"}
_MEMORIES = {CopyMemory.PAGEABLE: ", pageable", CopyMemory.PINNED: ", pinned", CopyMemory.UNKNOWN: ", memory unknown"}
_WORK = {WorkKind.KERNEL: "kernels", WorkKind.MEMSET: "memsets", WorkKind.GRAPH: "graphs, each as a whole"}
_CALLS = {
    CallKind.COPY: "blocking copies",
    CallKind.COPY_ASYNC: "asynchronous copies",
    CallKind.LAUNCH: "launches",
    CallKind.MEMSET: "memsets",
    CallKind.RECORD: "events recorded",
    CallKind.WAIT: "waits for events",
    CallKind.SYNCHRONIZE_STREAM: "synchronisations of a stream",
    CallKind.SYNCHRONIZE_EVENT: "synchronisations of an event",
    CallKind.SYNCHRONIZE_DEVICE: "synchronisations of a card",
    CallKind.GRAPH_LAUNCH: "graph launches",
    CallKind.HOST_FUNCTION: "host functions",
    CallKind.ALLOCATE: "allocations",
    CallKind.FREE: "frees",
    CallKind.PREFETCH: "prefetches of unified memory",
    CallKind.OTHER: "other calls",
}
_NOTES = {
    AnnotationKind.RANGE: "ranges",
    AnnotationKind.STEP: "steps",
    AnnotationKind.OP: "recorded operations",
    AnnotationKind.OVERHEAD: "of the profiler itself",
}


class RecordedAmount(msgspec.Struct, frozen=True):
    """The number of rows of one kind, the sum of their bytes, and the sum of their times in seconds."""

    what: str
    count: int
    bytes: int
    time_s: float


class RecordedCalls(msgspec.Struct, frozen=True):
    """The host's calls of one name. Times are in seconds; ``longest_at_s``: the start of the longest call."""

    name: str
    count: int
    total_s: float
    median_s: float
    longest_s: float
    longest_at_s: float


class RecordedReason(msgspec.Struct, frozen=True):
    """A reason why an engine or card was idle, and the seconds it explains."""

    why: str
    time_s: float


class RecordedEngine(msgspec.Struct, frozen=True):
    """The use of an engine of a card: operations, bytes, and busy seconds; ``alone_s``: busy with no other engine."""

    name: str
    count: int
    bytes: int
    busy_s: float
    alone_s: float


class RecordedCardUse(msgspec.Struct, frozen=True):
    """The use of a card, from the call of its first work to the end of its last work.

    - ``start_s``, ``end_s``: seconds since the recording's beginning.
    - ``overlap_s``: seconds in which two engines or more are busy.
    - ``idle_s``: seconds in which no engine is busy, divided into the reasons in ``idle``.
    - ``without_kernel_s``: seconds in which no kernel runs, divided into the reasons in ``without_kernel``.
    """

    id: int
    name: str
    start_s: float
    end_s: float
    engines: tuple[RecordedEngine, ...]
    overlap_s: float
    idle_s: float
    idle: tuple[RecordedReason, ...]
    without_kernel_s: float
    without_kernel: tuple[RecordedReason, ...]

    @property
    def span_s(self) -> float:
        """Seconds from the call of the first work to the end of the last work."""
        return self.end_s - self.start_s


class RecordingSummary(Displayed, msgspec.Struct, frozen=True):
    """The contents of a recording.

    - ``start_s``, ``end_s``: seconds since the recording's beginning; ``processes``, ``threads``, ``streams``: counts.
    - ``work``, ``pages``, ``host``, ``annotations``: amounts by kind; ``pages``: moves and faults of unified memory's
      pages; ``calls``: the host's calls by name.
    - ``cards``: the use of each card; ``unread``: parts that are left out or not understood.
    """

    format: Format
    tool: str
    start_s: float
    end_s: float
    processes: int
    threads: int
    streams: int
    work: tuple[RecordedAmount, ...]
    pages: tuple[RecordedAmount, ...]
    host: tuple[RecordedAmount, ...]
    annotations: tuple[RecordedAmount, ...]
    cards: tuple[RecordedCardUse, ...]
    calls: tuple[RecordedCalls, ...]
    unread: tuple[Unread, ...]

    def __repr__(self) -> str:
        span = format_seconds(self.end_s - self.start_s)
        cards = counted(len(self.cards), "card")
        return short(f"RecordingSummary({self.format}: {span} on {cards})")


def summarise(recording: Recording) -> RecordingSummary:
    """Return the contents of a recording, or of a part of one, with each card's busy and idle time."""
    calls, work, notes = recording.calls, recording.work, recording.annotations
    threads = [recording.threads[thread] for thread in np.unique(calls.thread).tolist()]
    return RecordingSummary(
        recording.format,
        recording.tool,
        recording.start_ns / NS_PER_S,
        recording.end_ns / NS_PER_S,
        len({thread.process for thread in threads}),
        len(threads),
        len(np.unique(work.stream[work.stream >= 0])),
        _work_amounts(work),
        _page_amounts(recording),
        _amounts(calls, _CALLS),
        _amounts(notes, _NOTES),
        tuple(_card(recording, card) for card in np.unique(work.card).tolist()),
        _call_uses(recording),
        (*recording.unread, *_not_understood(recording)),
    )


def _amounts(table: Any, words: Mapping[Any, str]) -> tuple[RecordedAmount, ...]:
    """Return the amounts of calls or annotations, by kind."""
    took = table.end_ns - table.start_ns
    kinds = [(word, table.kind == kind) for kind, word in words.items()]
    return tuple(
        RecordedAmount(word, int(mine.sum()), 0, int(took[mine].sum()) / NS_PER_S) for word, mine in kinds if mine.any()
    )


def _work_amounts(work: CardWork) -> tuple[RecordedAmount, ...]:
    """Return the amounts of copies by direction and memory, of kernels, memsets and graphs."""
    took = work.end_ns - work.start_ns
    keys = np.stack([work.kind, work.direction, work.memory], axis=1)
    found = []
    for kind, direction, memory in np.unique(keys, axis=0).tolist():
        mine = (keys == (kind, direction, memory)).all(axis=1)
        what = _WORK.get(kind) or f"copies {_WAYS[direction]}{_MEMORIES.get(memory, '')}"
        found.append(
            RecordedAmount(what, int(mine.sum()), int(work.bytes[mine].sum()), int(took[mine].sum()) / NS_PER_S)
        )
    return tuple(found)


def _page_amounts(recording: Recording) -> tuple[RecordedAmount, ...]:
    """Return the amounts of moves of pages and of page faults, by kind and cause."""
    pages, took = recording.pages, recording.pages.end_ns - recording.pages.start_ns
    return tuple(
        RecordedAmount(
            what, int(pages.count[rows].sum()), int(pages.bytes[rows].sum()), int(took[rows].sum()) / NS_PER_S
        )
        for what, rows in groups_of(recording)
    )


def engines_of(work: CardWork) -> NDArray[np.int64]:
    """Return the index in ``ENGINES`` of each row of ``work``; shape (rows,)."""
    found = np.full(len(work), ENGINES.index("other copies"), np.int64)
    for direction, engine in _ENGINE_OF.items():
        found[work.direction == direction] = engine
    for kind, name in ((WorkKind.KERNEL, "kernels"), (WorkKind.MEMSET, "memsets"), (WorkKind.GRAPH, "graphs")):
        found[work.kind == kind] = ENGINES.index(name)
    return found


def _card(recording: Recording, card: int) -> RecordedCardUse:
    mine = recording.work.card == card
    work = recording.work.rows(mine)
    engine = engines_of(work)
    busy = [merged(work.start_ns[engine == n], work.end_ns[engine == n]) for n in range(len(ENGINES))]
    reasons = Reasons(recording, work, engine, ENGINES)
    called_ns = recording.calls.start_ns[work.call[work.call >= 0]]
    first_ns = int(min(work.start_ns[0], called_ns.min(initial=work.start_ns[0])))
    if (first := first_prefetch(recording)) != NONE:
        first_ns = min(first_ns, int(recording.calls.start_ns[first]))
    last_ns = int(work.end_ns.max())
    idle = gaps(merged(work.start_ns, work.end_ns), first_ns, last_ns)
    no_kernel = gaps(busy[KERNELS], first_ns, last_ns)
    what = recording.cards[card]
    return RecordedCardUse(
        what.id,
        what.name,
        first_ns / NS_PER_S,
        last_ns / NS_PER_S,
        tuple(_engine(n, work.rows(engine == n), busy) for n in range(len(ENGINES)) if (engine == n).any()),
        length(_at_least_two(busy)) / NS_PER_S,
        length(idle) / NS_PER_S,
        _reasons(reasons.of(idle, np.arange(len(work)))),
        length(no_kernel) / NS_PER_S,
        _reasons(reasons.of(no_kernel, np.flatnonzero(engine == KERNELS))),
    )


def _engine(number: int, work: CardWork, busy: list[Any]) -> RecordedEngine:
    others = [intervals for n, intervals in enumerate(busy) if n != number]
    elsewhere = merged(*(np.concatenate([intervals[side] for intervals in others]) for side in (0, 1)))
    took = length(busy[number])
    alone = took - length(_at_least_two([busy[number], elsewhere]))
    return RecordedEngine(ENGINES[number], len(work), int(work.bytes.sum()), took / NS_PER_S, alone / NS_PER_S)


def _at_least_two(unions: list[Any]) -> Any:
    """Return the intervals in which two or more of the ``unions`` of intervals overlap."""
    times = np.concatenate([side for union in unions for side in union])
    steps = np.concatenate([np.repeat((1, -1), len(start)) for start, _ in unions])
    order = np.argsort(times, kind="stable")
    times, depth = times[order], np.cumsum(steps[order])
    inside = depth[:-1] >= 2
    return times[:-1][inside], times[1:][inside]


def _reasons(found: Counter[str]) -> tuple[RecordedReason, ...]:
    return tuple(RecordedReason(why, ns / NS_PER_S) for why, ns in found.most_common() if ns > 0)


def _call_uses(recording: Recording) -> tuple[RecordedCalls, ...]:
    """Return the host's calls by name, the name with the longest total first."""
    calls, found = recording.calls, []
    lengths = calls.end_ns - calls.start_ns
    rows_of: dict[str, list[NDArray[np.int64]]] = {}
    for name in np.unique(calls.name).tolist():
        rows_of.setdefault(plain(recording.names[name]), []).append(np.flatnonzero(calls.name == name))
    for name, parts in rows_of.items():
        rows = np.concatenate(parts)
        longest = rows[np.argmax(lengths[rows])]
        times = (lengths[rows].sum(), np.median(lengths[rows]), lengths[longest], calls.start_ns[longest])
        found.append(RecordedCalls(name, len(rows), *(float(time) / NS_PER_S for time in times)))
    return tuple(sorted(found, key=lambda use: -use.total_s))


def _not_understood(recording: Recording) -> list[Unread]:
    work, calls = recording.work, recording.calls
    nowhere = calls.stream < 0
    waits, records = calls.kind == CallKind.SYNCHRONIZE_STREAM, calls.kind == CallKind.RECORD
    cases = (
        (nowhere & waits, "synchronisations of a stream", "which stream it was is not recorded"),
        (nowhere & records, "events recorded", "in which stream is not recorded"),
        (work.direction == CopyDirection.PEER, "copies between cards", "one card at a time is modelled"),
        (work.direction == CopyDirection.OTHER, "copies of unknown direction", "the recording does not say"),
        (work.memory == CopyMemory.UNKNOWN, "copies from or to unknown memory", "pinned or pageable; it does not say"),
        (work.call < 0, "work without a recorded call", "when it was asked for is not known"),
        (work.kind == WorkKind.GRAPH, "graphs recorded whole", "no kernels show; nsys --cuda-graph-trace=node"),
    )
    return [Unread(what, int(rows.sum()), why) for rows, what, why in cases if rows.any()]
