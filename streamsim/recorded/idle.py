"""Reasons for idle time of a card or engine, as far as a recording shows them.

A gap ends when the next work starts. That work was issued by its call, and waited behind the work before it in its
stream. Each part of a gap therefore has one of three reasons: the stream was busy elsewhere; the host had not reached
the call or was still in it; or neither of these.
"""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsim.recorded.call_names import plain
from streamsim.recorded.recording import NONE, CardWork, Recording

BETWEEN_CALLS = "the host is between calls"
IN_CALL = "the host is in {}"
ON_THE_WAY = "called, and on its way"
OTHERS_BUSY = "called, while others are at work: an event or a queue"
NO_CALL = "its call was not recorded"
AFTER = "nothing more comes"
BEHIND = "behind {} of its stream"
BEFORE_IT = {"H2D": "an H2D copy", "D2H": "a D2H copy", "kernels": "a kernel"}
BEFORE_IT |= {"within the card": "a copy within the card", "memsets": "a memset"}
OTHER_WORK = "other work"

Intervals = tuple[Any, Any]  # starts and ends


def merged(start: NDArray[np.int64], end: NDArray[np.int64]) -> Intervals:
    """Return the union of intervals as disjoint intervals, in order."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    new = np.ones(len(start), bool)
    new[1:] = start[1:] > reach[:-1]
    last = np.append(np.flatnonzero(new)[1:] - 1, len(start) - 1)
    return start[new], reach[last]


def length(intervals: Intervals) -> int:
    """Return the total length of disjoint intervals."""
    return int((intervals[1] - intervals[0]).sum())


class Covered:
    """The time covered by disjoint, ordered intervals."""

    def __init__(self, intervals: Intervals) -> None:
        start, end = intervals
        total = np.cumsum(end - start)
        self._at = np.stack([start, end], axis=1).reshape(-1)
        self._sum = np.stack([total - (end - start), total], axis=1).reshape(-1)

    def within(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
        """Return the covered time within the spans ``start`` to ``end``, all together."""
        if not len(self._at):
            return 0
        return round(float((np.interp(end, self._at, self._sum) - np.interp(start, self._at, self._sum)).sum()))


def gaps(busy: Intervals, first_ns: int, last_ns: int) -> Intervals:
    """Return the intervals between ``first_ns`` and ``last_ns`` that are not busy."""
    start = np.append(np.int64(first_ns), busy[1])
    end = np.append(busy[0], np.int64(last_ns))
    real = end > start
    return start[real], end[real]


class HostTime:
    """The time that each thread of a recording spent in calls, by their names."""

    def __init__(self, recording: Recording) -> None:
        self._calls, self._names = recording.calls, [plain(name) for name in recording.names]
        self._covered: dict[int, dict[str, Covered]] = {}

    def of(self, thread: int) -> dict[str, Covered]:
        """Return the thread's time in calls of each name, without calls inside other calls."""
        if thread not in self._covered:
            mine = self._calls.rows(self._calls.thread == thread)
            reach = np.maximum.accumulate(mine.end_ns)
            outer = np.ones(len(mine), bool)
            outer[1:] = mine.start_ns[1:] >= reach[:-1]
            mine = mine.rows(outer)
            rows: dict[str, list[NDArray[np.int64]]] = {}
            for name in np.unique(mine.name).tolist():
                rows.setdefault(self._names[name], []).append(np.flatnonzero(mine.name == name))
            self._covered[thread] = {
                name: Covered(merged(mine.start_ns[np.concatenate(of)], mine.end_ns[np.concatenate(of)]))
                for name, of in rows.items()
            }
        return self._covered[thread]


class Reasons:
    """The division of one card's gaps into reasons."""

    def __init__(self, recording: Recording, work: CardWork, engine: NDArray[Any], engines: tuple[str, ...]) -> None:
        self._calls, self._host, self._work = recording.calls, HostTime(recording), work
        self._engine, self._engines = engine, engines
        self._before = _before_in_stream(work)
        self._busy = Covered(merged(work.start_ns, work.end_ns))

    def of(self, found: Intervals, rows: NDArray[np.int64]) -> Counter[str]:
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
        for number, name in enumerate(self._engines):
            behind = has & (self._engine[before] == number)
            words = BEHIND.format(BEFORE_IT.get(name, OTHER_WORK))
            reasons[words] += int((ends - starts)[behind].sum())
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
            mine = threads == thread
            reasons += self._in_calls(thread, (start[mine], returns[mine]))
        others = self._busy.within(returns, end)
        reasons[OTHERS_BUSY] += others
        reasons[ON_THE_WAY] += length((returns, end)) - others
        return reasons

    def _in_calls(self, thread: int, spans: Intervals) -> Counter[str]:
        """Return the thread's time in these spans, by the name of the call that it was in."""
        found = Counter({IN_CALL.format(name): calls.within(*spans) for name, calls in self._host.of(thread).items()})
        found[BETWEEN_CALLS] = length(spans) - found.total()
        return found


def _before_in_stream(work: CardWork) -> NDArray[np.int64]:
    """Return for each row the row before it in its stream; -1 for the first one and for an unknown stream."""
    order = np.argsort(work.stream, kind="stable")
    found = np.full(len(work), NONE, np.int64)
    same = (np.diff(work.stream[order]) == 0) & (work.stream[order][1:] >= 0)
    found[order[1:][same]] = order[:-1][same]
    return found
