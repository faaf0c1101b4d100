"""Summaries of recordings: their contents, the busy and idle time of each card with reasons, and unread parts."""

from collections import Counter
from functools import cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.device import Device
from streamsim.displayed import Displayed
from streamsim.errors import counted, short
from streamsim.recorded import times
from streamsim.recorded.recording import NONE, CardWork, Format, Recording, Unread, WorkKind
from streamsim.text import format_ratio, format_seconds

ENGINES = ("H2D", "D2H", "kernels", "within the card", "memsets", "unified memory", "other copies", "graphs")
KERNELS = ENGINES.index("kernels")
NS_PER_S = 1e9
# The index in ENGINES of work by its kind, and of copies by their direction.
_OF_KINDS, _OF_DIRECTIONS = np.array([6, 2, 4, 7]), np.array([6, 0, 1, 3, 6, 5, 6])
_WAYS = ("", "H2D", "D2H", "within the card", "to another card", "of unified memory", "of unknown direction")
_MEMORIES = ("", ", pageable", ", pinned", ", memory unknown")  # by CopyMemory; the ways by CopyDirection
_WORK = {WorkKind.KERNEL: "kernels", WorkKind.MEMSET: "memsets", WorkKind.GRAPH: "graphs, each as a whole"}


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
    - ``pages_s``, ``pages_bytes``: seconds in which pages of unified memory moved to the card that no call had
      prefetched, and their bytes.
    - ``overlap_s``: seconds in which two engines or more are busy.
    - ``idle_s``: seconds in which no engine is busy, divided into the reasons in ``idle``.
    - ``without_kernel_s``: seconds in which no kernel runs, divided into the reasons in ``without_kernel``.
    """

    id: int
    name: str
    start_s: float
    end_s: float
    engines: tuple[RecordedEngine, ...]
    pages_s: float
    pages_bytes: int
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

    - ``start_s``, ``end_s``: seconds since the recording's beginning.
    - ``work``: amounts by kind. ``pages``: moves and faults of unified memory's pages. ``calls``: the host's calls by
      name.
    - ``cards``: the use of each card; ``unread``: parts that are left out or not understood.
    """

    format: Format
    tool: str
    start_s: float
    end_s: float
    work: tuple[RecordedAmount, ...]
    pages: tuple[RecordedAmount, ...]
    cards: tuple[RecordedCardUse, ...]
    calls: tuple[RecordedCalls, ...]
    unread: tuple[Unread, ...]

    def __repr__(self) -> str:
        span = format_seconds(self.end_s - self.start_s)
        cards = counted(len(self.cards), "card")
        return short(f"RecordingSummary({self.format}: {span} on {cards})")


def summarise(recording: Recording) -> RecordingSummary:
    """Return the contents of a recording, or of a part of one, with each card's busy and idle time."""
    work, pages = recording.work, recording.pages
    return RecordingSummary(
        recording.format,
        recording.tool,
        recording.start_ns / NS_PER_S,
        recording.end_ns / NS_PER_S,
        _work_amounts(recording),
        tuple(_amount(what, pages, rows, int(pages.count[rows].sum())) for what, rows in times.groups_of(recording)),
        tuple(_card(recording, card) for card in np.unique(work.card).tolist()),
        _call_uses(recording),
        recording.unread,
    )


def _amount(what: str, table: Any, rows: NDArray[Any], count: int) -> RecordedAmount:
    """Return the amount of some rows, which stand for ``count`` things."""
    took_ns = (table.end_ns - table.start_ns)[rows]
    return RecordedAmount(what, count, int(table.bytes[rows].sum()), int(took_ns.sum()) / NS_PER_S)


def _work_amounts(recording: Recording) -> tuple[RecordedAmount, ...]:
    """Return the amounts of copies by direction and memory, and of kernels, memsets and graphs."""
    work = recording.work
    keys = np.stack([work.kind, work.direction, work.memory], axis=1)
    found = []
    for kind, direction, memory in np.unique(keys, axis=0).tolist():
        mine = (keys == (kind, direction, memory)).all(axis=1)
        what = _WORK.get(kind) or f"copies {_WAYS[direction]}{_MEMORIES[memory]}"
        found.append(_amount(what, work, mine, int(mine.sum())))
    return tuple(found)


def engines_of(work: CardWork) -> NDArray[np.int64]:
    """Return the index in ``ENGINES`` of each row of ``work``; shape (rows,)."""
    return np.asarray(np.where(work.kind == WorkKind.COPY, _OF_DIRECTIONS[work.direction], _OF_KINDS[work.kind]))


def _card(recording: Recording, card: int) -> RecordedCardUse:
    work = recording.work.rows(recording.work.card == card)
    first = times.first_call(recording, work)
    first_ns = int(work.start_ns[0] if first == NONE else min(recording.calls.start_ns[first], work.end_ns.max()))
    work = work.rows(work.end_ns >= first_ns)  # what had ended by then is no part of the program
    work = msgspec.structs.replace(work, start_ns=np.maximum(work.start_ns, first_ns))
    engine = engines_of(work)
    reasons = _Reasons(recording, work, engine)
    last_ns = int(work.end_ns.max())
    busy = times.merged(work.start_ns, work.end_ns)
    engines = tuple(_engine(work, engine == n, ENGINES[n], times.length(busy)) for n in np.unique(engine).tolist())
    is_kernel = engine == KERNELS
    idle = times.gaps(busy, first_ns, last_ns)
    no_kernel = times.gaps(times.merged(work.start_ns[is_kernel], work.end_ns[is_kernel]), first_ns, last_ns)
    what, pages = recording.cards[card], times.unexpected_moves(recording, card, first_ns, last_ns)
    return RecordedCardUse(
        what.id,
        what.name,
        first_ns / NS_PER_S,
        last_ns / NS_PER_S,
        engines,
        times.length(times.merged(*(side.clip(first_ns, last_ns) for side in (pages.start_ns, pages.end_ns))))
        / NS_PER_S,
        int(pages.bytes.sum()),
        (times.length(busy) - round(sum(use.alone_s for use in engines) * NS_PER_S)) / NS_PER_S,
        times.length(idle) / NS_PER_S,
        _reasons(reasons.of(idle, np.arange(len(work)))),
        times.length(no_kernel) / NS_PER_S,
        _reasons(reasons.of(no_kernel, np.flatnonzero(is_kernel))),
    )


def _engine(work: CardWork, mine: NDArray[np.bool_], name: str, busy_ns: int) -> RecordedEngine:
    """Return the use of an engine with the rows ``mine``; ``busy_ns``: the time in which any engine is busy."""
    own, others = (times.length(times.merged(work.start_ns[rows], work.end_ns[rows])) for rows in (mine, ~mine))
    count, n_bytes = int(mine.sum()), int(work.bytes[mine].sum())
    return RecordedEngine(name, count, n_bytes, own / NS_PER_S, (busy_ns - others) / NS_PER_S)


def _reasons(found: Counter[str]) -> tuple[RecordedReason, ...]:
    return tuple(RecordedReason(why, ns / NS_PER_S) for why, ns in found.most_common() if ns > 0)


def _call_uses(recording: Recording) -> tuple[RecordedCalls, ...]:
    """Return the host's calls by name, the name with the longest total first."""
    calls, found = recording.calls, []
    lengths = calls.end_ns - calls.start_ns
    for name in np.unique(calls.name).tolist():
        rows = np.flatnonzero(calls.name == name)
        longest = rows[np.argmax(lengths[rows])]
        took = (lengths[rows].sum(), np.median(lengths[rows]), lengths[longest], calls.start_ns[longest])
        found.append(RecordedCalls(recording.names[name], len(rows), *(float(time) / NS_PER_S for time in took)))
    return tuple(sorted(found, key=lambda use: -use.total_s))


BETWEEN_CALLS = "the host is between calls"
IN_CALL = "the host is in {}"
ON_THE_WAY = "called, and on its way"
OTHERS_BUSY = "called, while others are at work: an event or a queue"
NO_CALL = "its call was not recorded"
AFTER = "nothing more comes"
BEHIND = "behind {} of its stream"
# What an engine's work is called, in the order of ENGINES.
BEFORE_IT = (
    *("an H2D copy", "a D2H copy", "a kernel", "a copy within the card", "a memset", "a move of pages"),
    *("other work", "other work"),
)


class _Reasons:
    """The division of one card's gaps into reasons."""

    def __init__(self, recording: Recording, work: CardWork, engine: NDArray[np.int64]) -> None:
        self._recording, self._calls, self._work, self._engine = recording, recording.calls, work, engine
        self._before = np.where(work.stream >= 0, times.before_in(work.stream), NONE)
        self._busy = times.Covered(times.merged(work.start_ns, work.end_ns))
        self._in_calls = cache(self._time_in_calls)

    def _time_in_calls(self, thread: int) -> dict[str, times.Covered]:
        """Return the thread's time in calls of each name, without calls inside other calls."""
        calls, names = self._calls, self._recording.names
        own = (calls.thread == thread) & (calls.start_ns >= times.latest_before(calls.thread, calls.end_ns))
        rows_of = {name: own & (calls.name == name) for name in np.unique(calls.name[own]).tolist()}
        spans = {names[name]: (calls.start_ns[rows], calls.end_ns[rows]) for name, rows in rows_of.items()}
        return {IN_CALL.format(name): times.Covered(times.merged(*of)) for name, of in spans.items()}

    def of(self, found: times.Intervals, rows: NDArray[np.int64]) -> Counter[str]:
        """Return the nanoseconds of the gaps ``found``, by reason. They add up to the length of the gaps.

        Each gap ends with the first of ``rows`` that starts at its end or later.
        """
        start, end = found
        at = np.asarray(np.searchsorted(self._work.start_ns[rows], end))
        last = at == len(rows)
        reasons: Counter[str] = Counter({AFTER: int((end - start)[last].sum())})
        start, end, row = start[~last], end[~last], rows[at[~last]]
        before = self._before[row]
        has = before >= 0
        starts = np.where(has, self._work.start_ns[before], start).clip(start, end)
        ends = np.where(has, self._work.end_ns[before], start).clip(starts, end)
        reasons += self._host_then_card(start, starts, before)
        for number, words in enumerate(BEFORE_IT):
            behind = has & (self._engine[before] == number)
            reasons[BEHIND.format(words)] += int((ends - starts)[behind].sum())
        reasons += self._host_then_card(ends, end, row)
        return reasons

    def _host_then_card(self, start: Any, end: Any, row: Any) -> Counter[str]:
        """Return the reasons of spans before work: the host until the work's call returns, then the card."""
        real = end > start
        start, end, call = start[real], end[real], self._work.call[row[real]]
        has = call != NONE
        reasons: Counter[str] = Counter({NO_CALL: int((end - start)[~has].sum())})
        start, end, call = start[has], end[has], call[has]
        returns = self._calls.end_ns[call].clip(start, end)
        threads = self._calls.thread[call]
        for thread in np.unique(threads).tolist():
            spans = start[threads == thread], returns[threads == thread]
            here = Counter({words: time.within(*spans) for words, time in self._in_calls(thread).items()})
            reasons += here + Counter({BETWEEN_CALLS: times.length(spans) - here.total()})
        others = self._busy.within(returns, end)
        reasons[OTHERS_BUSY] += others
        reasons[ON_THE_WAY] += times.length((returns, end)) - others
        return reasons


BINDING = 0.6  # share of the time from which the busiest engine is called the limit
MOVING = 0.2  # share of the time from which pages that move are worth a prefetch


def verdict_of(use: RecordedCardUse) -> tuple[str, str]:
    """Return what binds on a card, and what stands still and why."""

    def part(seconds: float) -> str:
        return f"{seconds / use.span_s:.0%}" if use.span_s else "0 %"

    span, busiest = format_seconds(use.span_s), max(use.engines, key=lambda engine: engine.busy_s)
    binds = f"{busiest.name}, busy for {part(busiest.busy_s)} of {span}"
    if use.pages_s >= BINDING * use.span_s > 0:
        binds = f"pages of unified memory that nobody prefetched, which move for {part(use.pages_s)} of {span}"
    elif busiest.busy_s < use.idle_s:
        binds = f"the host; no engine of the card is busy for {part(use.idle_s)} of {span}"
    elif busiest.busy_s < BINDING * use.span_s:
        binds = f"no engine; they wait for each other, the busiest is {binds}"
    still = "nothing; a kernel runs all the time"
    if use.without_kernel and use.without_kernel_s:
        why = next((reason for reason in use.without_kernel if reason.why != AFTER), use.without_kernel[0])
        still = f"no kernel runs for {part(use.without_kernel_s)} of the time; for {format_seconds(why.time_s)} of it"
        still += f": {why.why}"
    return f"binds: {binds}", f"stands still: {still}"


def pages_to_prefetch(use: RecordedCardUse, device: Device) -> tuple[str, float]:
    """Return the advice to prefetch pages, and the seconds that it saves at most; no words if few pages move.

    At most, kernels do nothing but wait for pages, and the prefetch runs at the link's rate before them.
    """
    kernels_s = sum(engine.busy_s for engine in use.engines if engine.name == "kernels")
    saved_s = kernels_s - use.pages_bytes / device.h2d.bandwidth_bytes_per_s
    if use.pages_s < MOVING * use.span_s or saved_s <= 0:
        return "", 0.0
    gain = f"up to {format_ratio(use.span_s / (use.span_s - saved_s))} as fast (the kernels' own time is not known)"
    return f"prefetch the pages of unified memory (cudaMemPrefetchAsync): {gain}", saved_s
