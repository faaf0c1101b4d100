"""The bound as issued: a lower bound on the makespan of a schedule, whatever order the engines choose.

The simulated makespan is never below it. Another schedule of the same work may well be faster: what no way to cut and
issue it beats is the bound of the work (:mod:`streamsim.analysis.work_bound`).
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path

import msgspec

from streamsim.device import Device, as_device
from streamsim.lowering import D2H, H2D, NO_SEGMENT, NOTHING, Lowered, OpCost, lower
from streamsim.program import Schedule
from streamsim.rules import FULL_CARD, TICKS_PER_S, release_tick
from streamsim.text import format_seconds

ENGINE_WORDS = {
    "h2d": "H2D copy engine",
    "d2h": "D2H copy engine",
    "copy": "copy engine",
    "compute": "compute engine",
    "gpu": "copies and kernels in turn",
}
BOUND_OF_WORK, BOUND_AS_ISSUED, BUSIEST_ENGINE = "bound of the work", "bound as issued", "busiest engine alone"
LINK, HOST, CHAIN = "link, both directions", "host issue", "longest chain"


class Bound(msgspec.Struct, frozen=True):
    """Something takes no less than ``seconds`` on a device: a schedule, or every way to cut and issue a workload.

    ``bound_by``: what sets it, in words for people. ``each``: the bound of every resource by itself, in seconds.
    """

    seconds: float
    bound_by: str
    each: dict[str, float]

    def __repr__(self) -> str:
        return f"Bound({format_seconds(self.seconds)} by {self.bound_by})"


def bound_json(name: str, bound: Bound | None) -> dict[str, float | str | None]:
    """A bound as JSON has it, under its name; None: it is not known."""
    found = (None, None) if bound is None else (bound.seconds, bound.bound_by)
    return dict(zip((f"{name}_bound_s", f"{name}_bound_by"), found, strict=True))


def lower_bound(schedule: Schedule, device: Device | str | Path) -> Bound:
    """Bound the makespan of this schedule as it is issued: by its engines, the link, the host and the longest chain.

    ``device``: a Device, or the name or file of one. Linear time. Raises InputError for an unknown device, and when it
    has no cost for a kernel that the schedule names.
    """
    return bound_of(lower(schedule, as_device(device)))


def bound_of(lowered: Lowered) -> Bound:
    """:func:`lower_bound` of a schedule that is lowered for its device already."""
    counts = Counter(lowered.cost)
    amounts = [(cost, counts[index]) for index, cost in enumerate(lowered.costs)]
    longest, arrivals = _longest_chain(lowered), _arrivals(lowered)
    engines = list(_engine_work(lowered, amounts, arrivals))
    called_late = max((arrival + busy for _, arrival, busy in engines if arrival > busy), default=0)
    ticks = {
        HOST: max(called_late, longest.end if longest.is_calls else _host_work(lowered, arrivals)),
        **{ENGINE_WORDS[name]: arrival + busy for name, arrival, busy in engines},
        LINK: _link_work(lowered, amounts, arrivals),
        CHAIN: longest.end,
    }
    bound_by = max(ticks, key=lambda name: ticks[name])  # the first of equals
    return Bound(ticks[bound_by] / TICKS_PER_S, bound_by, {name: tick / TICKS_PER_S for name, tick in ticks.items()})


Amounts = Sequence[tuple[OpCost, int]]  # shapes of ops, and how many there are of each


class _Chain(msgspec.Struct, frozen=True):
    """The longest chain of dependences ends at the tick ``end``; ``is_calls``: host calls take most of it."""

    end: int
    is_calls: bool


def _longest_chain(lowered: Lowered) -> _Chain:
    """When the last op could end if every engine were free at once and ran any number of ops.

    One pass in issue order, in which dependences only point forwards; the host issues and waits on the way. Once a
    thread has waited its calls may come later than here, and what they issue may find all ended that it waits for: no
    hand-over is counted then.
    """
    n, kind = len(lowered.kind), lowered.kind
    durations = [cost.duration for cost in lowered.costs]
    end, calls_in = [0] * n, [0] * n  # each op's chain: when it ends, and the ticks of host calls in it
    predecessors, crossing = lowered.predecessors(), lowered.crossing
    threads = dict.fromkeys(lowered.threads, (lowered.launch, lowered.launch))  # the same when each has come so far
    waited: set[int] = set()  # the threads that have waited
    returned: list[tuple[int, int]] = []  # the same of every segment
    for segment in lowered.segments:
        now, calls = threads[segment.thread]
        for op in range(segment.first, segment.last):
            call = lowered.call[op]
            now += call
            calls += call
            if kind[op] == NOTHING:
                continue
            comes, in_chain = now + lowered.submit, calls
            start = comes
            for earlier in sorted(predecessors(op)):
                hand_over = 0 if segment.thread in waited else crossing(earlier, op)
                released = release_tick(end[earlier], hand_over, comes)
                if released > start:
                    start, in_chain = released, calls_in[earlier]
            end[op], calls_in[op] = start + durations[lowered.cost[op]], in_chain
        if segment.waits_for or segment.behind != NO_SEGMENT:
            waited.add(segment.thread)
        last = max(segment.waits_for, key=end.__getitem__, default=-1)
        if last >= 0 and end[last] + lowered.wake > now:
            now, calls = end[last] + lowered.wake, calls_in[last]
        if segment.behind != NO_SEGMENT and returned[segment.behind][0] > now:
            now, calls = returned[segment.behind]
        threads[segment.thread] = now, calls
        returned.append((now, calls))
    latest = max(range(n), key=end.__getitem__)
    return _Chain(end[latest], 2 * calls_in[latest] > end[latest])


def _arrivals(lowered: Lowered) -> list[int]:
    """For every op the tick at which the card has it if no call ever waits for the card."""
    returned: list[int] = []
    now = dict.fromkeys(lowered.threads, lowered.launch)
    for segment in lowered.segments:
        before = now[segment.thread]
        returned += islice(accumulate(lowered.call[segment.first : segment.last], initial=before), 1, None)
        if segment.behind != NO_SEGMENT:
            returned[-1] = max(returned[-1], returned[lowered.segments[segment.behind].last - 1])
        now[segment.thread] = returned[-1]
    return [tick + lowered.submit for tick in returned]


def _first_arrival(lowered: Lowered, arrivals: Sequence[int], *kinds: int) -> int:
    """None of the ops of these kinds can be on the card before this tick."""
    return min(tick for tick, kind in zip(arrivals, lowered.kind, strict=True) if kind in kinds)


def _host_work(lowered: Lowered, arrivals: Sequence[int]) -> int:
    """Ticks until the last op is on the card if no call ever waits."""
    return max((tick for tick, kind in zip(arrivals, lowered.kind, strict=True) if kind != NOTHING), default=0)


def _engine_work(lowered: Lowered, amounts: Amounts, arrivals: Sequence[int]) -> Iterator[tuple[str, int, int]]:
    """Each engine, the tick at which the first of its ops can be on the card, and the ticks of all one after another.

    While a kernel drains others may work; behind the last to work there is a drain that none hides.
    """
    for engine, name in enumerate(lowered.engine_names):
        kinds = [kind for kind, its_engine in enumerate(lowered.engine_of) if its_engine == engine]
        own = [(cost, count) for cost, count in amounts if cost.kind in kinds]
        if own:
            busy = sum(cost.busy * count for cost, count in own)
            if name == "compute":
                busy = _side_by_side(lowered, own, busy) + min(cost.drain for cost, _ in own)
            yield name, _first_arrival(lowered, arrivals, *kinds), busy


def _side_by_side(lowered: Lowered, kernels: Amounts, one_by_one: int) -> int:
    """Kernels share the card by the part that they fill, and at most ``concurrent_kernels`` of them run at once."""
    most = lowered.device.compute.concurrent_kernels
    if most == 1:
        return one_by_one
    area = sum(cost.busy * cost.fill * count for cost, count in kernels)
    return max(-(-area // FULL_CARD), -(-one_by_one // most))


def _link_work(lowered: Lowered, amounts: Amounts, arrivals: Sequence[int]) -> int:
    """Ticks that both directions together need on a link on which they slow each other down."""
    if len(lowered.engine_names) < 3 or not any(cost.kind in (H2D, D2H) for cost, _ in amounts):
        return 0
    there, back = (_flow([(cost, count) for cost, count in amounts if cost.kind == kind]) for kind in (H2D, D2H))
    return _first_arrival(lowered, arrivals, H2D, D2H) + math.floor(duplex_bound(there, back))


class Flow(msgspec.Struct, frozen=True):
    """What one direction of a link has to move, in any unit of time.

    ``latency``: in all, during which no bytes flow. ``alone``: the time its bytes take with the link to
    themselves; ``immune`` of it by copies that the other direction does not slow down. ``loss``: the share of
    its rate (0..1) that it loses while the other direction flows too.
    """

    latency: float
    alone: float
    loss: float
    immune: float = 0.0


def _flow(copies: Amounts) -> Flow:
    latency = sum(cost.rate.latency[0] * count for cost, count in copies)
    times = [(cost.rate, cost.units * count / cost.rate.alone) for cost, count in copies]
    return Flow(
        latency=latency,
        alone=sum(time for _, time in times),
        loss=max((1 - rate.shared / rate.alone for rate, _ in times), default=0.0),
        immune=sum(time for rate, time in times if rate.shared == rate.alone),
    )


def duplex_bound(there: Flow, back: Flow) -> float:
    """Find the shortest time in which both directions can move what they have to.

    Let c be the time during which both directions flow. A direction that moves A units, at the rate r alone
    and s < r while the other flows, needs A = r (t - c) + s c, so it flows for t(c) = A/r + c (1 - s/r); what
    it moves by copies that are not slowed down may lie in c for nothing. Then for every c >= 0

        T >= L1 + t1(c),   T >= L2 + t2(c)       each direction's latencies and bytes take their time in turn
        T >= t1(c) + t2(c) - c                   the time during which at least one direction flows

    The first two grow with c. The third falls with c as long as overlap pays. All are convex and piecewise
    linear, so the smallest of their maximum lies at a corner or where two of them cross: a linear program
    in two unknowns, T and c.
    """

    def lines(c: float) -> tuple[float, float, float]:
        t1, t2 = (f.alone + f.loss * max(0.0, c - f.immune) for f in (there, back))
        return there.latency + t1, back.latency + t2, t1 + t2 - c

    corners = sorted({0.0, there.immune, back.immune})
    beyond = corners[-1] + there.latency + there.alone + back.latency + back.alone + 1.0
    candidates = [0.0]
    for low, high in zip(corners, (*corners[1:], beyond), strict=True):
        candidates += [high, *_crossings(low, high, lines(low), lines(high))]
    return min(max(lines(c)) for c in candidates)


def _crossings(low: float, high: float, at_low: tuple[float, ...], at_high: tuple[float, ...]) -> Iterator[float]:
    """Where the third of three straight lines between ``low`` and ``high`` crosses one of the others."""
    for a, b in zip(at_low[:2], at_high[:2], strict=True):
        gap_low, gap_high = at_low[2] - a, at_high[2] - b
        if gap_low > 0 > gap_high:
            yield low + (high - low) * gap_low / (gap_low - gap_high)
