"""An independent, slow second opinion: CUDA's order written down as a graph, and what each op needs of a card.

:mod:`oracle_queues` says through which queues ops come to it, and :mod:`oracle_card` steps that card tick by tick.

Nothing here imports ``streamsim.model``. The rules are those of the CUDA documentation and of the docstrings of
``streamsim.program.schedule`` and ``streamsim.device.profile``; the arithmetic is exact fractions of a byte.
"""

import itertools
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from streamsim.device import Device
from streamsim.program import Copy, HostWork, Kernel, Op, RecordEvent, Schedule, Synchronize, WaitEvent, WaitThread

TICKS_PER_S = 10**9
HALF = Fraction(1, 2)
EIGHTHS = 8  # of the card's threads, between which its pace is on a straight line
PARTS = 1 << 20  # in which the card is shared out


def in_ticks(seconds: float) -> int:
    """Whole nanoseconds, the nearest."""
    return int(seconds * TICKS_PER_S + 0.5)


def is_work(op: Op) -> bool:
    """Whether the op occupies an engine."""
    return isinstance(op, Copy | Kernel)


def is_in_stream(op: Op) -> bool:
    """Whether the op is a command in a stream; else only the host knows of it."""
    return isinstance(op, Copy | Kernel | RecordEvent | WaitEvent)


def kind_of(op: Op) -> str:
    """h2d, d2h or kernel."""
    return op.direction if isinstance(op, Copy) else "kernel"


# -- order ----------------------------------------------------------------------------------------------------------


@dataclass
class Order:
    """Who follows whom by CUDA's rules, op by op.

    ``edges[i]``: the earlier commands that command i comes directly after. ``works[i]``: the copies and kernels that
    must end before op i, looking through records and waits. ``awaited[i]``: the work that host call i waits for.
    """

    edges: list[set[int]] = field(default_factory=list)
    works: list[set[int]] = field(default_factory=list)
    awaited: list[set[int]] = field(default_factory=list)


def is_pageable(schedule: Schedule, op: Copy) -> bool:
    """Whether the host side of a copy is pageable memory."""
    return op.host is not None and any(b.name == op.host.buffer and b.memory == "pageable" for b in schedule.buffers)


def holds_host(schedule: Schedule, device: Device, op: Copy) -> bool:
    """Whether the call returns only once the copy is done."""
    if not is_pageable(schedule, op):
        return op.blocking
    small = op.direction == "h2d" and op.bytes <= device.host.pageable_immediate_bytes
    return not small


def cuda_order(schedule: Schedule, device: Device) -> Order:  # noqa: C901 - the whole rule in one place
    """Stream order, events, the legacy default stream and what host calls wait for."""
    order = Order()
    ops = schedule.ops
    ordinary = {0} | {s for s, kind in enumerate(schedule.streams, 1) if kind == "blocking"}

    def latest(stream: int, before: int) -> int | None:
        mine = [j for j in range(before) if is_in_stream(ops[j]) and ops[j].stream == stream]
        return mine[-1] if mine else None

    def latest_record(event: int, before: int) -> set[int]:
        mine = [j for j, op in enumerate(ops[:before]) if isinstance(op, RecordEvent) and op.event == event]
        return set(mine[-1:])

    def everything_in(stream: int, before: int) -> set[int]:
        # "The legacy stream first waits on all blocking streams, the action is queued in the legacy stream, and then
        # all blocking streams wait on the legacy stream" (CUDA runtime, stream synchronization behavior).
        streams = ordinary if stream == 0 else {stream, 0} if stream in ordinary else {stream}
        return {j for s in streams if (j := latest(s, before)) is not None}

    def waited_for(i: int, op: Op) -> set[int]:
        if isinstance(op, Copy) and holds_host(schedule, device, op):
            return {i}
        if not isinstance(op, Synchronize):
            return set()
        if op.event is not None:
            return latest_record(op.event, i)
        streams = range(len(schedule.streams) + 1) if op.stream is None else (op.stream,)
        return {j for s in streams for j in everything_in(s, i)}

    for i, op in enumerate(ops):
        edges: set[int] = set()
        if isinstance(op, Copy | Kernel | RecordEvent | WaitEvent):
            edges = everything_in(op.stream, i)
        if isinstance(op, WaitEvent):
            edges |= latest_record(op.event, i)
        order.edges.append(edges)
        order.works.append(_works_behind(ops, order.edges, edges))
        order.awaited.append(_works_behind(ops, order.edges, waited_for(i, op)))
    return order


def _works_behind(ops: tuple[Op, ...], edges: list[set[int]], first: set[int]) -> set[int]:
    """The nearest work on every way back."""
    found: set[int] = set()
    ways = list(first)
    while ways:
        j = ways.pop()
        if is_work(ops[j]):
            found.add(j)
        else:
            ways += edges[j]
    return found


def dependences(schedule: Schedule, device: Device, order: Order) -> list[dict[int, int]]:
    """For each op the work it waits for, and the ticks from that work's end until the op may start.

    With kernel_signal "run" a copy hears of a kernel's end only when the whole run of kernels around it has ended.
    """
    run_of, found = runs(schedule), []
    for i, op in enumerate(schedule.ops):
        waits: dict[int, int] = {}
        for j in order.works[i] if is_work(op) else ():
            late = device.compute.kernel_signal == "run" and isinstance(op, Copy) and j in run_of
            for k in run_of[j] if late else (j,):
                waits[k] = hand_over_ticks(schedule, device, k, i)
        found.append(waits)
    return found


def runs(schedule: Schedule) -> dict[int, list[int]]:
    """For each kernel those that are issued with it, no copy in between."""
    run_of: dict[int, list[int]] = {}
    run: list[int] = []
    for i, op in enumerate(schedule.ops):
        if isinstance(op, Kernel):
            run.append(i)
            run_of[i] = run
        elif isinstance(op, Copy):
            run = []
    return run_of


def latest_of_each_stream(schedule: Schedule, ops: Iterable[int]) -> set[int]:
    """Of some ops those that stand for all of them: an op stands for what was before it in its stream."""
    return set({schedule.ops[j].stream: j for j in sorted(ops)}.values())


def engine_name(op: Op, device: Device) -> str:
    """Where an op runs."""
    count = device.copy_engines.count
    if count == 0:
        return "gpu"
    if isinstance(op, Kernel):
        return "compute"
    return "copy" if count == 1 else kind_of(op)


def hand_over_ticks(schedule: Schedule, device: Device, before: int, after: int) -> int:
    """From the end of ``before`` until ``after``, which depends on it, may start."""
    a, b = schedule.ops[before], schedule.ops[after]
    base = in_ticks(getattr(device.hand_over, f"{kind_of(a)}_to_{kind_of(b)}_s", 0.0))
    if schedule.launch == "graph":
        return base
    if a.stream != b.stream:
        return base + event_ticks(schedule, device)
    behind = isinstance(a, Kernel) and isinstance(b, Kernel)
    kernels = {op.stream for op in schedule.ops if isinstance(op, Kernel)}
    return base + (in_the_way(kernels) * in_ticks(device.hand_over.event_streams_s) if behind else 0)


def in_the_way(streams: Collection[int | None]) -> int:
    """How many of them hold up a hand-over of a live program: the third to the sixth."""
    return sum(n in (3, 4, 5, 6) for n in range(1, len(streams) + 1))


def event_ticks(schedule: Schedule, device: Device) -> int:
    """What an event adds to a hand-over of a live program."""
    hand_over, used = device.hand_over, {op.stream for op in schedule.ops if is_in_stream(op)}
    return in_ticks(hand_over.event_s) + in_the_way(used) * in_ticks(hand_over.event_streams_s)


def call_ticks(schedule: Schedule, device: Device, op: Op) -> int:
    """What the host spends on a call."""
    host = device.host
    if isinstance(op, HostWork):
        return in_ticks(op.duration_s)
    if isinstance(op, WaitThread):
        return 0
    if op.call_s is not None:
        return in_ticks(op.call_s)
    if isinstance(op, Synchronize):
        return in_ticks(host.synchronize_s)
    if schedule.launch == "graph":
        return in_ticks(host.graph_node_s) if isinstance(op, Copy) else 0
    if isinstance(op, Copy | Kernel):
        own_s = host.copy_s if isinstance(op, Copy) else host.kernel_s
        if isinstance(op, Kernel) and op.name == "linear" and host.linear_s > 0:
            own_s = host.linear_s
        return in_ticks(own_s)
    return in_ticks(host.record_s if isinstance(op, RecordEvent) else host.wait_s)


def is_entered(op: Copy | Kernel, block: list[Copy | Kernel]) -> bool:
    """Whether the host makes the stream of ``op`` the current one: another, or for a new chunk in the same.

    ``block``: what it has issued since it did so last. An array is copied again, or an op has moved on in one.
    """
    stages = ("h2d", "kernel", "d2h")
    if op.stream == 0 or not block or op.stream != block[-1].stream:
        return op.stream != 0
    copied = {other.host.buffer for other in block if isinstance(other, Copy) and other.host}
    again = isinstance(op, Copy) and op.host is not None and op.host.buffer in copied
    places: dict[str, range] = {}  # by array, the bytes of the latest op on it
    for other in block:
        places |= bytes_on_card(other)
    pairs = [(here, places[name]) for name, here in bytes_on_card(op).items() if name in places]
    again |= any(max(a.start, b.start) >= min(a.stop, b.stop) for a, b in pairs)  # has moved on
    return again or stages.index(kind_of(op)) < stages.index(kind_of(block[-1]))


def bytes_on_card(op: Copy | Kernel) -> dict[str, range]:
    """Which bytes of each array it works on, of several regions of one the last."""
    regions = (*op.reads, *op.writes) if isinstance(op, Kernel) else (op.device,)
    return {r.buffer: range(r.offset, r.offset + r.bytes) for r in regions if r}


def calls(schedule: Schedule, device: Device) -> list[int]:
    """What the host spends on each call.

    Unless they say themselves: longer on a thread's first copy and kernel after each call of it that may wait, and on a
    stream's first copy in each direction and first kernel, where the thread's call before was of another kind, and on
    the first kernel of each name; in a graph for each op of another kind that one waits for.
    """
    found = [call_ticks(schedule, device, op) for op in schedule.ops]
    if schedule.launch == "graph":
        return found
    for i in first_of_streams(schedule):
        found[i] += in_ticks(device.host.first_on_stream_s) if schedule.ops[i].call_s is None else 0
    for i in first_of_kernels(schedule):
        found[i] += in_ticks(device.host.first_launch_s) if schedule.ops[i].call_s is None else 0
    for i in turns_of(schedule):
        found[i] += in_ticks(device.host.turn_s) if schedule.ops[i].call_s is None else 0
    feels = {Copy, Kernel} <= set(map(type, schedule.ops))
    for thread in {op.thread for op in schedule.ops}:
        cold, block = {Copy, Kernel}, list[Copy | Kernel]()
        for i, op in enumerate(schedule.ops):
            if op.thread != thread:
                continue
            if isinstance(op, Copy | Kernel):
                more = in_ticks(device.host.enter_s) * (entered := is_entered(op, block))
                block = [op] if entered or op.stream == 0 else [*block, op]
                more += in_ticks(device.host.after_wait_s) * (feels and type(op) in cold)
                found[i] += more if op.call_s is None else 0
                cold.discard(type(op))
            if isinstance(op, Synchronize | WaitThread) or (isinstance(op, Copy) and holds_host(schedule, device, op)):
                cold = {Copy, Kernel}
    return found


def first_of_kernels(schedule: Schedule) -> list[int]:
    """The first kernel of each name."""
    kernels = {op.name: i for i, op in reversed(list(enumerate(schedule.ops))) if isinstance(op, Kernel)}
    return list(kernels.values())


def turns_of(schedule: Schedule) -> list[int]:
    """The calls that are not right behind one of their kind in their thread; work of no tick is not there."""
    before: dict[int, str] = {}
    found = []
    for i, op in enumerate(schedule.ops):
        if isinstance(op, HostWork) and not in_ticks(op.duration_s):
            continue
        called = op.direction if isinstance(op, Copy) else type(op).__name__
        if called != before.get(op.thread) and not isinstance(op, HostWork | WaitThread):
            found.append(i)
        before[op.thread] = called
    return found


def first_of_streams(schedule: Schedule) -> list[int]:
    """The first copy in each direction and the first kernel of every stream."""
    works = {(op.stream, kind_of(op)): i for i, op in reversed(list(enumerate(schedule.ops))) if is_work(op)}
    return list(works.values())


def launch_ticks(schedule: Schedule, device: Device) -> int:
    """What the launch of a graph costs before its first op."""
    return 0 if schedule.launch == "live" else in_ticks(device.host.graph_launch_s)


# -- what an op needs ------------------------------------------------------------------------------------------------


@dataclass
class Need:
    """A copy's latency and bytes per tick alone and shared, or a kernel's ticks alone and share of the card.

    Of those ticks a kernel works all but the last ``drain``, on that share. ``threads``: the share of the card's that
    it holds; ``paces``: of a card with 0, 1/8, ... 1 of its threads held by such kernels, as shares of its full pace.
    """

    latency: int = 0
    duplex_latency: int = 0
    crowded_latency: int = 0
    crowded_duplex_latency: int = 0
    bytes: int = 0
    alone: Fraction = Fraction(0)
    shared: Fraction = Fraction(0)
    ticks: int = 0
    share: Fraction = Fraction(1)
    drain: int = 0
    threads: Fraction = Fraction(1)
    paces: tuple[Fraction, ...] = tuple(Fraction(k, EIGHTHS) for k in range(EIGHTHS + 1))

    @property
    def works(self) -> int:
        """Ticks of a kernel alone in which it keeps others out."""
        return self.ticks - self.drain

    def pace(self, held: Fraction) -> Fraction:
        """Of the card with so much of its threads held: between eighths on a straight line, rounded down."""
        k = int(held * EIGHTHS)
        low, high = self.paces[k : k + 2]
        return low + Fraction(math.floor((high - low) * (held * EIGHTHS - k) * PARTS), PARTS)


@dataclass
class Times:
    """What the oracle says, in ticks, -1 where there is nothing."""

    issued: list[int]
    returned: list[int]
    ready: list[int]
    start: list[int]
    end: list[int]


def is_behind_a_kernel(schedule: Schedule, i: int) -> bool:
    """Whether op i is a kernel, and so is the command or wait of the host before it in its stream."""
    op = schedule.ops[i]
    before = next((other for other in reversed(schedule.ops[:i]) if other.stream == op.stream), None)
    return isinstance(op, Kernel) and isinstance(before, Kernel)


def gap_behind(schedule: Schedule, device: Device, i: int) -> int | None:
    """Ticks that kernel ``i`` takes beyond its time, right behind another one; None: it is launched by itself.

    In a program of calls a graph is what one call put on the card: all but the first of its ops have calls of no time.
    What such a kernel took is what it takes, if its time is all that is known of it.
    """
    op = schedule.ops[i]
    if not isinstance(op, Kernel) or op.duration_s is None or not is_behind_a_kernel(schedule, i):
        return None
    if schedule.launch == "graph":
        return in_ticks(device.compute.graph_gap_s)
    return 0 if is_told(op) and op.call_s == 0 else None


def is_told(op: Kernel) -> bool:
    """Whether nothing but its time is known of a kernel."""
    return op.share == 1 and not op.elements


def need_of(schedule: Schedule, device: Device, i: int) -> Need:
    """What op ``i`` asks of its engine, from the profile."""
    op = schedule.ops[i]
    if isinstance(op, Copy):
        side = device.h2d if op.direction == "h2d" else device.d2h
        if is_pageable(schedule, op):
            rate = Fraction(side.pageable_bandwidth_bytes_per_s) / TICKS_PER_S
            latency = in_ticks(side.pageable_latency_s)
            return Need(latency, latency, latency, latency, op.bytes, rate, rate)
        alone = Fraction(side.bandwidth_bytes_per_s) / TICKS_PER_S
        shared = Fraction(side.duplex_bandwidth_bytes_per_s) / TICKS_PER_S
        behind = min(Fraction(1), Fraction(op.bytes, side.in_flight_bytes))
        least = in_ticks(side.latency_s)
        latencies = [
            int(least + behind * (in_ticks(most_s) - least) + Fraction(1, 2))
            for most_s in (
                side.latency_s,
                side.duplex_latency_s,
                side.crowded_latency_s,
                side.crowded_duplex_latency_s,
            )
        ]
        crowded = Fraction(side.crowded_bandwidth_bytes_per_s) / TICKS_PER_S
        for at in (2, 3):  # so much longer than on a quiet card, whatever goes the other way
            slowed = 0 if schedule.launch == "graph" else op.bytes
            latencies[at] += int(slowed / crowded - slowed / alone + Fraction(1, 2))
        latency, duplex, crowded_alone, crowded_duplex = latencies
        return Need(latency, duplex, crowded_alone, crowded_duplex, op.bytes, alone, shared)
    assert isinstance(op, Kernel)
    floor = Fraction(in_ticks(device.compute.floor_s))
    if op.duration_s is None:
        return _from_table(device, op, floor)
    gap = gap_behind(schedule, device, i)
    if gap is not None and (is_told(op) or Fraction(op.duration_s) / Fraction(op.share) * TICKS_PER_S < floor):
        floor = Fraction(0)  # its time is its own
    need = _given(device, op, floor)
    if gap:
        need.ticks += gap
        need.drain += gap if device.compute.resident_threads and device.copy_engines.count else 0
    return need


def _of_launch(
    whole: Fraction, share: Fraction, waves: Fraction, floor: Fraction, known: list[tuple[Fraction, Fraction]]
) -> Fraction:
    """Ticks of a share of a launch of so many waves of the card's threads (0: unknown).

    A launch is its floor and the rest. Of the rest a part takes its share, on a line that ends at an eighth of a wave
    with a quarter of a wave's time; smaller parts take as long. Several waves take as many times a wave's time, less
    than one lies on that line of the wave: it rises by 6/7 of its time from an eighth of it on. Where parts are known
    lines go through them, and what is smaller than the smallest is a part of that (if nothing is known of waves, it
    takes as long). If that takes more than its share, larger ones take as long, up to an eighth of a wave.
    """
    if share == 1 or whole <= floor:
        return max(whole, floor)
    if known and share < known[0][0]:
        part, ticks = known[0]
        least = max(ticks, floor)
        return _of_launch(least, share / part, waves * part, floor, []) if waves else least
    rest, eighth = whole - floor, 1 / (8 * waves) if waves else Fraction(0)
    lines = [(part, max(Fraction(0), ticks - floor)) for part, ticks in known]
    if not lines:
        of_a_wave = waves if waves >= 1 else Fraction(1, 4) + max(Fraction(0), waves - Fraction(1, 8)) * 6 / 7
        lines = [(eighth, rest / 4 / of_a_wave if waves else Fraction(0))]
    elif lines[0][0] < eighth and lines[0][1] > rest * lines[0][0]:
        lines = [(eighth, lines[0][1])] + [point for point in lines if point[0] > eighth]
    if lines[0][0] >= 1 or lines[0][1] >= rest:
        return whole
    at = max(share, lines[0][0])
    (x0, y0), (x1, y1) = next(two for two in itertools.pairwise([*lines, (Fraction(1), rest)]) if at <= two[1][0])
    return floor + y0 + (y1 - y0) * (at - x0) / (x1 - x0)


def _given(device: Device, op: Kernel, floor: Fraction) -> Need:
    """A kernel with a duration, alone or as a part of a launch. Side by side what is beyond the constant counts.

    That is the floor, or where the line through the largest part and the whole begins: of what this is above the floor
    as much as that part is of a wave, up to all.
    """
    assert op.duration_s is not None
    share, card = Fraction(op.share), device.compute.resident_threads
    whole = Fraction(op.duration_s) * TICKS_PER_S / share
    waves = Fraction(op.threads or op.elements) / share / card if card else Fraction(0)
    known = [(Fraction(part), Fraction(seconds) * TICKS_PER_S) for part, seconds in op.parts]
    alone = _of_launch(whole, share, waves, floor, known)
    ticks = max(1, int(alone + HALF))
    side_by_side = card > 0 and device.copy_engines.count > 0
    launch = constant = floor if side_by_side else Fraction(0)
    if side_by_side and known and known[-1][0] < 1:
        part, took = known[-1]
        begins = took - part * max(Fraction(0), whole - took) / (1 - part)
        constant += max(Fraction(0), begins - floor) * min(Fraction(1), waves * part)
    fill = Fraction(op.fill) if op.fill else min(Fraction(1), waves or Fraction(1))
    drain = max(0, min(int(launch + HALF), ticks - 1))
    work = max(Fraction(0), whole - constant) * share * fill
    busy = in_parts(min(Fraction(1), work / alone))
    return Need(ticks=ticks, share=in_parts(min(Fraction(1), work / (alone - drain))), drain=drain, threads=busy)


def in_parts(share: Fraction) -> Fraction:
    """The card is shared out in whole parts, of which a kernel has one at least."""
    return Fraction(max(1, round(share * PARTS)), PARTS)


@dataclass
class Table:
    """A measured cost: points of elements and ticks, on a card of ``full`` threads (0: not known)."""

    points: list[tuple[int, Fraction]]
    full: int
    floor: Fraction

    def ticks(self, n: int) -> Fraction:
        """Of a launch of n elements."""
        points = self.points
        (x0, y0), (x1, y1) = next(((a, b) for a, b in itertools.pairwise(points) if n < b[0]), points[-2:])
        return points[0][1] if n <= points[0][0] else y0 + (y1 - y0) * (n - x0) / (x1 - x0)

    def at_full_pace(self, n: int) -> Fraction:
        """Ticks of n more elements in a long launch."""
        (xa, ya), (xb, yb) = self.points[-2:]
        return n * (yb - ya) / (xb - xa)

    def drain(self, n: int) -> Fraction:
        """What a full card's launch loses: the floor, or all if it is less, and the rest by the threads launched."""
        lost = max(Fraction(0), self.ticks(self.full) - self.at_full_pace(self.full))
        return min(self.floor, lost) + max(Fraction(0), lost - self.floor) * min(Fraction(1), Fraction(n, self.full))

    def pace(self, n: int) -> Fraction:
        """Of a card with n threads, from a launch of as many."""
        works = self.ticks(n) - self.drain(n)
        return min(Fraction(1), self.at_full_pace(n) / works) if works > 0 else Fraction(1)


def _from_table(device: Device, op: Kernel, floor: Fraction) -> Need:
    cost = next(c for c in device.compute.kernels if (c.name, c.parameter) == (op.name, op.parameter))
    points = [(n, Fraction(in_ticks(s))) for n, s in zip(cost.elements, cost.duration_s, strict=True)]
    n, full = op.elements, device.compute.resident_threads
    table = Table(points, full, floor)
    alone = max(table.ticks(n), floor)
    ticks = int(alone + HALF)
    drain = 0
    if full and device.copy_engines.count:
        drain = min(int(table.drain(n) + HALF), ticks - 1)
    share = in_parts(min(Fraction(1), table.at_full_pace(n) / (alone - drain)))
    need = Need(ticks=ticks, share=share, drain=drain, threads=share)
    if full:
        need.threads = in_parts(min(Fraction(1), Fraction(n, full)))
    if full >= EIGHTHS:
        need.paces = tuple(
            Fraction(round(table.pace(full * k // EIGHTHS) * PARTS) if k else 0, PARTS) for k in range(EIGHTHS + 1)
        )
    return need
