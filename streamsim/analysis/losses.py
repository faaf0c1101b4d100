"""What loses time: the causes, the same work without them, and how they share what they lose together.

A cause is removed by changing the schedule or the device, whether that can be done or not, and the model says what is
left. What can be done to a program is made by :mod:`streamsim.transform`. Causes share what they lost together by
their Shapley values, as :mod:`streamsim.advice.explanation` says. What lies in the bound itself is how evenly the work
loads the engines, and the streams each engine.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from itertools import combinations
from operator import is_
from typing import NamedTuple

from msgspec.structs import replace

from streamsim import transform
from streamsim.analysis.bounds import ENGINE_WORDS, lower_bound
from streamsim.compiled import simulate_one_of_many
from streamsim.device import MOST_CONNECTIONS, Device, without
from streamsim.errors import SHORTEST_KERNEL_S
from streamsim.lowering import ENGINES
from streamsim.program import Copy, HostWork, Kernel, Op, Schedule, WaitThread, remembered
from streamsim.rules import D2H, H2D, KERNEL, S_PER_TICK, TICKS_PER_S, ticks
from streamsim.transform import calls_and_memory as calls

Key = str  # of a cause


class Cause(NamedTuple):
    """Something that loses time, for people; ``meaning``: what happens, and what can be done about it."""

    title: str
    meaning: str


CAUSES: dict[Key, Cause] = {
    "pageable-memory": Cause(
        "pageable host memory", "pageable copies are staged and hold the host; pin the host memory"
    ),
    "legacy-stream": Cause(
        "legacy default stream",
        "ops of that stream and of blocking streams wait for each other; give every kernel and copy a non-blocking"
        " stream",
    ),
    "host-waits": Cause(
        "synchronising or blocking call",
        "the host waits for the card before it issues more; copy asynchronously, allocate and free outside of the"
        " pipeline, and wait as late and as seldom as the results allow",
    ),
    "issue-order": Cause(
        "issue order",
        "an op that must wait blocks those that were issued after it; use another order if the data allows one",
    ),
    "needless-order": Cause(
        "wait that serialises", "chunks wait for each other; give independent chunks streams and buffers of their own"
    ),
    "copied-once": Cause(
        "copied once, before or after all chunks",
        "all chunks wait for one copy, or one copy waits for all; keep that array on the card from run to run, or copy"
        " each chunk its part",
    ),
    "connections": Cause(
        "more streams than connections",
        "streams share a hardware queue; use fewer streams",
    ),
    "many-streams": Cause(
        "more streams than pay",
        "each stream makes calls and hand-overs slower; use fewer streams if chunks have streams of their own",
    ),
    "host-work": Cause(
        "work of the host between its calls",
        "the card waits while the host works between its calls; do that work beforehand, or in another thread",
    ),
    "slow-calls": Cause(
        "single calls that hold the host",
        "a single call holds the host far longer than other calls of its kind; make that call once before",
    ),
    "host-issue": Cause(
        "host issue cost",
        "the host's calls set the time; issue fewer and larger ops, in a graph if one can hold them",
    ),
    "small-chunks": Cause(
        "chunks too small (latencies, hand-overs, kernel floor)",
        "what each op costs beside its work sets the time; issue fewer and larger ops",
    ),
    "duplex": Cause("duplex contention", "both directions share the link, whatever the schedule; move fewer bytes"),
    "few-blocks": Cause(
        "kernels of too few blocks",
        "such kernels leave multiprocessors of the card without work; launch more blocks, or several such kernels side"
        " by side",
    ),
    "few-chunks": Cause(
        "too few chunks (fill and drain)",
        "the first copy in and the last copy out run alone; cut the work finer where it can be cut",
    ),
    "same-direction": Cause(
        "same-direction copies that queue",
        "one direction carries one copy at a time, in any stream; move fewer bytes",
    ),
    "full-kernels": Cause(
        "kernels that fill the card",
        "kernels that fill the card cannot run side by side; make the kernels faster",
    ),
    "unbalanced": Cause(
        "unbalanced pipeline (little to overlap with)",
        "the other stages hide behind the longest stage; shorten that stage",
    ),
}
# Removed after it: to blame for what is then left.
BEHIND: dict[Key, Key] = {
    "needless-order": "issue-order",
    "connections": "issue-order",
    "host-issue": "slow-calls",
}
SIMULATIONS = 100  # of a schedule without its causes, or about
BUDGET = 20_000  # ops simulated for an exact split; beyond, two orders


# The same work without a cause


def has_few_connections(work: transform.Work) -> bool:
    """Return True if streams must share a hardware queue in front of some engine."""
    least = min(work.device.connections, work.device.copy_engines.connections)
    used = {stream or 1 for stream in transform.working_streams(work.schedule)}  # the legacy one uses stream 1's
    return len(used) > least


def _with(work: transform.Work, change: Callable[[Op], Op], device: Device) -> transform.Work:
    """Return the program with each op changed, on another device; the same schedule if no op changes."""
    schedule = work.schedule
    ops = tuple(map(change, schedule.ops))
    return transform.Work(schedule if all(map(is_, ops, schedule.ops)) else replace(schedule, ops=ops), device)


def _without_host_costs(work: transform.Work) -> transform.Work:
    """Return the program in which the host's calls take no time."""

    def free(op: Op) -> Op:
        return op if isinstance(op, HostWork | WaitThread) or not op.call_s else replace(op, call_s=0.0)

    return _with(work, free, without(work.device, "host"))


def _without_once(schedule: Schedule, once: Collection[Copy]) -> Schedule:
    """Return the schedule with the copies ``once`` in a stream of their own and in nobody's way.

    Those to the card come last and those from it first: none waits for another op, and none for it.
    """
    which, own = {(op.direction, op.device) for op in once}, len(schedule.streams) + 1
    last, found = transform.last_work(schedule) + 1, defaultdict[str, list[Op]](list)
    for i, op in enumerate(schedule.ops):
        if isinstance(op, Copy) and (op.direction, op.device) in which:
            found[op.direction].append(replace(op, stream=own, blocking=False))
        elif i < last:
            found["others"].append(op)
    ops = (*found["d2h"], *found["others"], *found["h2d"], *schedule.ops[last:])
    return replace(schedule, ops=ops, streams=(*schedule.streams, *transform.NON_BLOCKING))


def _without_host_work(work: transform.Work) -> transform.Work:
    """Return the program in which the host does nothing between its calls before the last copy or kernel is issued."""
    last, ops = transform.last_work(work.schedule), work.schedule.ops
    kept = tuple(op for i, op in enumerate(ops) if i > last or not (isinstance(op, HostWork) and op.duration_s))
    return work._replace(schedule=replace(work.schedule, ops=kept))


def without_latencies(work: transform.Work) -> transform.Work:
    """Return the program in which copies take their bytes' time and kernels their elements', and hand-overs none.

    A crowd of copies costs a copy's first bytes nothing, either.
    """

    def bare(op: Op) -> Op:
        if not isinstance(op, Kernel) or op.duration_s is not None:
            return op
        alone_s, share, *_ = work.device.occupancy(op)
        return replace(op, duration_s=alone_s * share, fill=1.0, share=1.0, threads=0, parts=())

    return _with(work, bare, without(work.device, "crowd", "copy-latency", "launch", "hand-over"))


def _with_enough_blocks(work: transform.Work) -> transform.Work:
    """Return the program whose kernels all fill the card, and end so much earlier."""

    def filled(op: Op) -> Op:
        if not isinstance(op, Kernel) or op.fill is None or op.duration_s is None:
            return op
        return replace(op, fill=1.0, threads=0, duration_s=max(SHORTEST_KERNEL_S, op.duration_s * op.fill))

    return _with(work, filled, work.device)


# How evenly the work loads the engines, and the streams each engine


def loads_of(work: transform.Work) -> dict[str, tuple[float, float]]:
    """Return the seconds that each engine which is used has to work, and its busiest stream's part of them.

    Bytes go at the rate of pinned memory, and kernels have no latencies.
    """
    names, engine_of = ENGINES[work.device.copy_engines.count]
    schedule, device = without_latencies(work)[:2]
    busy, of_streams = defaultdict[str, float](float), defaultdict[str, dict[int, float]](lambda: defaultdict(float))
    for op in schedule.ops:
        if isinstance(op, Copy):
            kind, link = (H2D, device.h2d) if op.direction == "h2d" else (D2H, device.d2h)
            own_s = alone_s = op.bytes / link.bandwidth_bytes_per_s
        elif isinstance(op, Kernel):
            kind, use = KERNEL, device.occupancy(op)
            own_s, alone_s = use.alone_s * use.share, use.alone_s
        else:
            continue
        busy[names[engine_of[kind]]] += own_s
        of_streams[names[engine_of[kind]]][op.stream] += alone_s
    return {name: (all_s, min(all_s, max(of_streams[name].values()))) for name, all_s in busy.items() if all_s}


def _limits(work: transform.Work, floor: int) -> dict[Key, int]:
    """Return what raises the bound to ``floor`` from the ticks of a perfectly even load."""
    loads, parts = loads_of(work), Counter[Key]()
    for engine, (busy, busiest) in loads.items():
        key = "full-kernels" if engine == "compute" else "same-direction"
        parts[key] += round((busy - busiest) / len(loads) / S_PER_TICK)
    if len(loads) > 1:
        mean = sum(busy for busy, _ in loads.values()) / len(loads)
        parts["unbalanced"] = max(0, floor - round(mean / S_PER_TICK))
    return parts


# Simulations without some causes


# What is removed from the program; the others are removed behind these.
_PROGRAM = {"legacy-stream", "host-waits", "issue-order", "needless-order", "slow-calls", "copied-once", "host-work"}


class Removals:
    """Simulates a schedule on a device, the ``work``, without some of the causes that are ``present`` in it.

    ``is_exact``: over all orders of removal; else over two.
    """

    def __init__(self, work: transform.Work) -> None:
        self.work = work
        schedule, device = work[:2]
        self._needs = needs = transform.dependences_of(schedule)
        self.is_racy = needs.is_racy
        once = [op for i in sorted(needs.common) if isinstance(op := schedule.ops[i], Copy)]
        directions = {op.direction for op in schedule.ops if isinstance(op, Copy)}
        # What is changed behind the order and the calls, each after those before it.
        self._without: dict[Key, Callable[[transform.Work], transform.Work]] = {
            "slow-calls": lambda made: made._replace(schedule=calls.without_slow_calls(made)),
            "copied-once": lambda made: made._replace(schedule=_without_once(made.schedule, once)),
            "host-work": _without_host_work,
            "pageable-memory": lambda made: made._replace(schedule=calls.pinned(made.schedule)),
            "connections": lambda made: made._replace(device=made.device.with_connections(MOST_CONNECTIONS)),
            "duplex": lambda made: made._replace(device=without(made.device, "duplex")),
            "host-issue": _without_host_costs,
            "small-chunks": without_latencies,
        }
        is_present = {
            "pageable-memory": calls.has_pageable(schedule),
            "legacy-stream": transform.has_legacy(schedule),
            "host-waits": calls.has_host_waits(schedule),
            "issue-order": bool(needs.orders),
            "needless-order": needs.has_needless_order,
            "copied-once": bool(once),
            "connections": has_few_connections(work),
        }
        is_present |= {key: change(work) != work for key, change in self._without.items() if key not in is_present}
        is_present["duplex"] &= len(directions) == device.copy_engines.count == 2
        self.present = [key for key in CAUSES if is_present.get(key)]
        self.is_exact = len(schedule.ops) << len(self.present) <= BUDGET
        self._changed = remembered(self._without_in_program)
        self.timeline, self.simulations = simulate_one_of_many(schedule, device, many=SIMULATIONS), 1
        self.makespan = ticks(self.timeline.makespan_s)
        self._known = {frozenset[Key](): self.makespan}
        self._order = self._best_order()

    def _best_order(self) -> str | None:
        """Return the order of issue that helps most alone."""
        orders = {order: self._needs.reordered(self.work.schedule, order, holds=True) for order in self._needs.orders}
        if len(orders) < 2:
            return next(iter(orders), None)
        return min(orders, key=lambda order: self.run(self.work._replace(schedule=orders[order])))

    def time(self, removed: frozenset[Key]) -> int:
        """Return the makespan in ticks without the causes ``removed``."""
        if removed not in self._known:
            self._known[removed] = self.run(self.scenario(removed))
        return self._known[removed]

    def worth_s(self, key: Key) -> float | None:
        """Return by how much the makespan shrinks, in seconds, without a cause; None for one that is not removed."""
        if key == "few-blocks":
            alone = self.run(_with_enough_blocks(self.work))
        elif key in self.present:
            alone = self.time(frozenset((key,)))
        else:
            return None
        return (self.makespan - alone) / TICKS_PER_S

    def run(self, work: transform.Work) -> int:
        """Return the makespan of any program, in ticks."""
        self.simulations += 1
        return ticks(simulate_one_of_many(*work[:2], many=SIMULATIONS).makespan_s)

    def scenario(self, removed: frozenset[Key]) -> transform.Work:
        """Return the program without the causes ``removed``."""
        return self._changed_by(self._changed(self.work.schedule, removed & _PROGRAM), removed - _PROGRAM)

    def _without_in_program(self, schedule: Schedule, removed: frozenset[Key]) -> transform.Work:
        made = self.work._replace(schedule=self._reissued(schedule, removed))
        return self._changed_by(made, removed)

    def _changed_by(self, work: transform.Work, removed: Collection[Key]) -> transform.Work:
        for key, change in self._without.items():
            work = change(work) if key in removed else work
        return work

    def _reissued(self, schedule: Schedule, removed: frozenset[Key]) -> Schedule:
        holds = "host-waits" not in removed
        is_ordered = not removed & {"needless-order", "issue-order"}
        if not holds:
            schedule = calls.without_host_waits(schedule) if is_ordered else calls.unblocked(schedule)
        schedule = transform.without_legacy(schedule) if "legacy-stream" in removed else schedule
        if is_ordered:
            return transform.still_ordered(self.work.schedule, schedule)
        order = self._order if "issue-order" in removed else None
        if "needless-order" in removed:
            connections = self.work.device.connections
            most = connections if connections > 1 else MOST_CONNECTIONS
            return self._needs.unordered(schedule, order, holds, most)
        assert order is not None
        return self._needs.reordered(schedule, order, holds)


# How causes share what they have lost together


class Split(NamedTuple):
    """The time of a schedule: the bound of its work, ``floor`` in ticks, and the ``parts`` of the causes above it.

    ``limits``: what raises the bound from the ticks of a perfectly even load to ``floor``. ``bound_by``: the engine
    that sets the bound; ``own_s``: the lower bound of the schedule as it stands.
    """

    parts: dict[Key, int]
    limits: dict[Key, int]
    floor: int
    bound_by: str
    own_s: float


def split_of(removals: Removals) -> Split:
    """Return what each cause that is present has lost, in ticks; the parts and the floor add up to the makespan.

    The work takes each engine the less of its two bounds: without its latencies a kernel has no launch, in which others
    have the card.
    """
    times = _shortest(removals)
    everything = frozenset(removals.present)
    bare, own = removals.scenario(everything), lower_bound(*removals.work[:2])
    both = own.each, lower_bound(*bare[:2]).each
    work = {name: min(each.get(name, 0.0) for each in both) for name in ENGINE_WORDS.values()}
    bound_by = max(work, key=work.__getitem__)
    best = times[everything]
    floor = min(best, *map(ticks, (work[bound_by], own.seconds)))
    filled = max(floor, min(best, removals.run(_with_enough_blocks(bare))))
    gains = mean_gains(times)
    gains |= {"few-blocks": Fraction(best - filled), "few-chunks": Fraction(filled - floor)}
    parts = _whole({key: gains[key] for key in CAUSES if key in gains}, removals.makespan - floor)
    return Split(parts, _limits(removals.work, floor), floor, bound_by, own.seconds)


def _whole(parts: dict[Key, Fraction], whole: int) -> dict[Key, int]:
    """Return ``parts`` in whole ticks that still add up to ``whole``: rounded down, the largest remainders up."""
    rounded = {key: int(part) for key, part in parts.items()}
    missing = whole - sum(rounded.values())
    for key in sorted(parts, key=lambda key: rounded[key] - parts[key])[:missing]:
        rounded[key] += 1
    return rounded


def _shortest(removals: Removals) -> dict[frozenset[Key], int]:
    """Return by causes the shortest makespan with these removed, or only some of them: none, more and more, and all.

    No set has a cause without the one that it is BEHIND. If the split is not exact, they are those of two orders.
    """
    keys, found = removals.present, dict[frozenset[Key], int]()
    if removals.is_exact:
        several = [frozenset(some) for many in range(len(keys) + 1) for some in combinations(keys, many)]
        several = [some for some in several if all(BEHIND.get(key) not in {*keys} - some for key in some)]
    else:
        orders = _in_turn(keys), _in_turn(keys[::-1])
        several = [frozenset(order[:many]) for many in range(len(keys) + 1) for order in orders]
    for removed in several:
        smaller = (found[removed - {key}] for key in removed if removed - {key} in found)
        found[removed] = min([removals.time(removed), *smaller])
    return found


def _in_turn(keys: Sequence[Key]) -> list[Key]:
    """Return ``keys`` in this order, but each after the one that it is BEHIND."""
    found: dict[Key, None] = {}
    for key in keys:
        found |= dict.fromkeys(one for one in (BEHIND.get(key, key), key) if one in keys)
    return list(found)


def mean_gains(v: dict[frozenset[Key], int]) -> dict[Key, Fraction]:
    """Return the mean, over all ways from no cause removed to all, of what each cause gains in its turn.

    ``v``: the time by causes removed, the smallest sets first. A step is on as many ways as lead to it times as many as
    lead on.
    """
    everything = max(v, key=len)
    steps = [(removed, key, removed | {key}) for removed in v for key in everything - removed if removed | {key} in v]
    to, onward = Counter({frozenset[Key](): 1}), Counter({everything: 1})
    for less, _, more in steps:
        to[more] += to[less]
    for less, _, more in reversed(steps):
        onward[less] += onward[more]
    gains = dict.fromkeys(everything, Fraction(0))
    for less, key, more in steps:
        gains[key] += Fraction(to[less] * onward[more] * (v[less] - v[more]), to[everything])
    return gains
