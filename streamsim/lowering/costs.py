"""The costs of a schedule's ops on a device, in whole ticks: their calls, engines and use of the link.

Bytes on a link are counted in fixed point, ``1 << BYTE_BITS`` units a byte, and rates in units per tick, so that
sharing a link is exact integer arithmetic.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

from streamsim import rules
from streamsim.device import LINEAR, Device, HandOver, LinkDirection
from streamsim.program import (
    Copy,
    Direction,
    EqualChunks,
    HostWork,
    Kernel,
    Launch,
    Op,
    RecordEvent,
    Schedule,
    Synchronize,
    WaitEvent,
    WaitThread,
    Workload,
    remembered,
)

Calls = dict[type[Op] | str, int]  # ticks by type of op, or by name of a kernel whose call has a cost of its own
# How a kernel comes directly behind another: in a graph, or in a live program recorded from a program with a graph.
Behind = Literal["graph", "recorded"]
BYTE_BITS = 20
NO_KERNEL = (0,) * (rules.PACES + 1)
COPIES = (rules.H2D, rules.D2H)


class Rate(NamedTuple):
    """The use of the link by a kind of copy.

    - ``alone``, ``shared``: units per tick, alone and beside a copy in the other direction.
    - ``latency``, ``duplex_latency``: ticks before the bytes flow, alone and beside a copy in the other direction, for
      each level of crowding from 0 to ``CROWD - 1``.
    """

    alone: int
    shared: int
    latency: tuple[int, ...]
    duplex_latency: tuple[int, ...]

    def duration(self, units: int) -> int:
        """Return the ticks of a copy of so many units that has the link to itself."""
        return self.latency[0] + rules.ticks_for(units, self.alone)

    @property
    def feels_crowds(self) -> bool:
        """Whether its latencies grow with the level of crowding."""
        return self.latency[-1] > self.latency[0] or self.duplex_latency[-1] > self.duplex_latency[0]

    @property
    def feels_the_other_direction(self) -> bool:
        """Whether it takes longer beside a copy in the other direction."""
        return self.shared < self.alone or self.duplex_latency != self.latency


NO_COPY = Rate(1, 1, (0,) * rules.CROWD, (0,) * rules.CROWD)


class OpCost(NamedTuple):
    """The costs of an op on a device. Many ops of a schedule share a cost."""

    kind: int  # H2D, D2H, KERNEL or NOTHING
    call: int  # ticks that the host spends on the call
    duration: int = 0  # ticks alone on the engine, a copy's latency included
    units: int = 0  # copy: its bytes in fixed point
    rate: Rate = NO_COPY  # copy: its use of the link
    fill: int = rules.FULL_CARD  # kernel: the share of the multiprocessors that it keeps busy while it works
    threads: int = rules.FULL_CARD  # kernel: the share of the card's threads that it holds
    warps: int = 0  # kernel: the share of the threads that it holds if kernels share the card by warps; else 0
    drain: int = 0  # kernel: ticks at its end in which its work is done and the card is free for others
    idle: tuple[int, ...] = NO_KERNEL  # kernel: the idle part of the card with 0 to PACES steps of its threads in use
    holds: bool = False  # whether its call may hold its thread; the call of a copy holds it until the copy has ended

    @property
    def busy(self) -> int:
        """The ticks for which it occupies its engine: its duration without its drain."""
        return self.duration - self.drain


def copy_cost(
    device: Device,
    direction: Direction,
    n_bytes: int,
    is_pageable: bool,
    blocking: bool,
    call: int,
    launch: Launch = "live",
) -> OpCost:
    """Return the cost of a copy whose call takes ``call`` ticks.

    A ``blocking`` copy holds the host. A pageable one does so if it goes back to the host or exceeds the profile's
    ``pageable_immediate_bytes``.
    """
    rate = rate_of(device, direction, n_bytes, is_pageable, launch)
    units, holds = n_bytes << BYTE_BITS, blocking
    if is_pageable:
        holds = direction == "d2h" or n_bytes > device.host.pageable_immediate_bytes
    return OpCost(rules.H2D if direction == "h2d" else rules.D2H, call, rate.duration(units), units, rate, holds=holds)


@lru_cache(maxsize=64)
def hand_over_table(
    hand_over: HandOver, launch: Launch = "live", streams: int = 1, with_kernels: int = 1
) -> tuple[int, ...]:
    """Return the ticks from the end of an op of one kind until an op of another kind that waits for it may start.

    They stand row by row, as :func:`~streamsim.rules.crossing` reads them: within a stream, then from stream
    to stream. From stream to stream, an event is added. The queues of a program's ``streams`` delay events
    (:func:`~streamsim.rules.delaying_streams`). The queues of the streams ``with_kernels`` delay kernels that
    follow kernels. A graph has no events: its hand-overs between branches equal those within a branch.
    """
    names = ("h2d", "d2h", "kernel", "nothing")
    assert len(names) == rules.KINDS
    within = [rules.ticks(getattr(hand_over, f"{a}_to_{b}_s", 0.0)) for a in names for b in names]
    if launch == "graph":
        return (*within, *within)
    each, event = rules.ticks(hand_over.event_streams_s), rules.ticks(hand_over.event_s)
    across = [between + event + rules.delaying_streams(streams) * each for between in within]
    within[rules.KERNEL * rules.KINDS + rules.KERNEL] += rules.delaying_streams(with_kernels) * each
    return (*within, *across)


def kernel_cost(device: Device, kernel: Kernel, call: int = 0, behind: Behind | None = None) -> OpCost:
    """Return the cost of a kernel whose call takes ``call`` ticks: at least one tick and one unit of the card.

    ``behind``: how the kernel comes to the card directly behind another one of its stream; None if it does not. With a
    given time it then takes this time, even if the time is below the profile's ``floor_s``. In a graph, a gap follows
    in which kernels of other streams have room. A recorded time contains this gap.
    """
    compute = device.compute
    is_behind = behind is not None and kernel.duration_s is not None
    use = device.occupancy(kernel, has_floor=not (is_behind and _is_below_floor(kernel, compute.floor_s)))
    share = use.share
    if use.drain_s:  # all of its work is done before the drain
        share = min(1.0, share * use.alone_s / (use.alone_s - use.drain_s))
    gap = rules.ticks(compute.graph_gap_s) if is_behind and behind == "graph" else 0
    return OpCost(
        rules.KERNEL,
        call,
        max(1, rules.ticks(use.alone_s)) + gap,
        fill=max(1, round(share * rules.FULL_CARD)),
        threads=max(1, round(use.threads * rules.FULL_CARD)),
        warps=round(use.resident * rules.FULL_CARD),
        drain=rules.ticks(use.drain_s) + (gap if device.runs_side_by_side else 0),
        idle=_idle(device.kernel_paces(kernel, rules.PACES)),
    )


def _is_below_floor(kernel: Kernel, floor_s: float) -> bool:
    """Return True if the whole launch takes less than the floor, or if nothing is known but its time."""
    seconds = kernel.duration_s or 0.0
    return (kernel.share == 1 and not kernel.elements) or seconds / kernel.share < floor_s


@lru_cache(maxsize=64)
def _idle(paces: tuple[float, ...]) -> tuple[int, ...]:
    """Return the idle part of the card for each pace, in units of 1 / ``FULL_CARD``."""
    return tuple(rules.FULL_CARD - round(pace * rules.FULL_CARD) for pace in paces)


def copy_rate(link: LinkDirection, n_bytes: int, launch: Launch = "live") -> Rate:
    """Return the use of the link by a copy of ``n_bytes`` of pinned memory.

    A crowd delays the first bytes of every copy. It slows the bytes of copies outside graphs, too.
    """
    least, whole = rules.ticks(link.latency_s), link.in_flight_bytes
    behind = min(n_bytes, whole)
    slowed = n_bytes if launch == "live" else 0
    slower = rules.ticks(slowed / link.crowded_bandwidth_bytes_per_s - slowed / link.bandwidth_bytes_per_s)

    def latency(most_s: float) -> int:
        """Return the latency of so many bytes, to the nearest tick, if that of long copies is ``most_s``."""
        return least + (2 * behind * (rules.ticks(most_s) - least) + whole) // (2 * whole)

    return Rate(
        _units(link.bandwidth_bytes_per_s),
        _units(link.duplex_bandwidth_bytes_per_s),
        _by_crowd(least, latency(link.crowded_latency_s) + slower),
        _by_crowd(latency(link.duplex_latency_s), latency(link.crowded_duplex_latency_s) + slower),
    )


def _by_crowd(quiet: int, crowded: int) -> tuple[int, ...]:
    """Return the latency at each level of crowding: equal steps from ``quiet`` to ``crowded``, to the nearest tick."""
    steps = rules.CROWD - 1
    return tuple(quiet + (2 * (crowded - quiet) * level + steps) // (2 * steps) for level in range(rules.CROWD))


def rate_of(device: Device, direction: Direction, n_bytes: int, is_pageable: bool, launch: Launch = "live") -> Rate:
    """Return the use of the link by a copy of ``n_bytes``."""
    link = device.h2d if direction == "h2d" else device.d2h
    if not is_pageable:
        return copy_rate(link, n_bytes, launch)
    latency, alone = (rules.ticks(link.pageable_latency_s),) * rules.CROWD, _units(link.pageable_bandwidth_bytes_per_s)
    return Rate(alone, alone, latency, latency)  # the pace of the staging


def _units(bytes_per_s: float) -> int:
    """Return a bandwidth in units per tick."""
    return max(1, round(bytes_per_s * (1 << BYTE_BITS) / rules.TICKS_PER_S))


# By type of op: the fields that its cost depends on. The cost of a copy depends on its host memory, too.
_COST_FIELDS: dict[type[Op], Callable[[Any], object]] = dict.fromkeys(get_args(Op), type) | {
    Copy: attrgetter("direction", "bytes", "blocking"),
    Kernel: attrgetter("duration_s", "elements", "fill", "name", "parameter", "share", "threads", "parts"),
}


@dataclass(frozen=True, slots=True, eq=False)
class CostGroups:
    """The ops of a schedule in groups. The ops of a group have the same cost on every device.

    - ``of_op``: the number of each op's group. ``examples``: one op of each group.
    - ``behind``: by group of kernels that follow directly behind kernels: how (:func:`behind_kernels`).

    A value equals only itself, so that results made of it can be remembered.
    """

    of_op: array[int]
    examples: tuple[Op, ...]
    behind: dict[int, Behind]


@remembered
def cost_groups(schedule: Schedule) -> CostGroups:
    """Return the groups of a schedule's ops."""
    cost_fields, pageable = _COST_FIELDS, schedule.pageable_names
    if pageable:
        of_copy = cost_fields[Copy]
        cost_fields = cost_fields | {Copy: lambda copy: (of_copy(copy), copy.uses_host(pageable))}
    behind = behind_kernels(schedule)
    keys: Iterator[object] = (cost_fields[type(op)](op) for op in schedule.ops)
    if behind:
        keys = ((behind[i], key) if i in behind else key for i, key in enumerate(keys))
    number: dict[object, int] = defaultdict(count().__next__)
    of_op = array("i", map(number.__getitem__, keys))
    example = dict(zip(of_op, schedule.ops, strict=True))
    examples = tuple(map(example.__getitem__, range(len(number))))
    return CostGroups(of_op, examples, {of_op[i]: how for i, how in behind.items()})


def costs_of(schedule: Schedule, groups: CostGroups, device: Device) -> list[OpCost]:
    """Return the cost of each group's ops on a device."""
    pageable, launch = schedule.pageable_names, schedule.launch
    calls = call_ticks(launch, device)
    return [_cost(op, device, calls, pageable, launch, groups.behind.get(k)) for k, op in enumerate(groups.examples)]


def behind_kernels(schedule: Schedule) -> dict[int, Behind]:
    """Return how kernels with a given time come to the card directly behind another kernel of their stream.

    In a graph, these are all such kernels. In a live program, they are those recorded in a graph: their calls take no
    time.
    """
    is_graph, latest, found = schedule.launch == "graph", dict[int | None, bool](), dict[int, Behind]()
    if not is_graph and 0 not in map(attrgetter("call_s"), schedule.ops):
        return found
    for i, op in enumerate(schedule.ops):
        if type(op) is Kernel and latest.get(op.stream) and op.duration_s is not None:
            if is_graph:
                found[i] = "graph"
            elif op.call_s == 0 and op.share == 1 and not op.elements:
                found[i] = "recorded"
        latest[op.stream] = type(op) is Kernel
    return found


def _cost(
    op: Op, device: Device, calls: Calls, pageable_names: frozenset[str], launch: Launch, behind: Behind | None
) -> OpCost:
    call = calls[type(op)]
    if isinstance(op, Copy):
        is_pageable = op.uses_host(pageable_names)
        return copy_cost(device, op.direction, op.bytes, is_pageable, op.blocking, call, launch)
    if isinstance(op, Kernel):
        return kernel_cost(device, op, kernel_call(calls, op.name), behind)
    return OpCost(rules.NOTHING, call, holds=isinstance(op, Synchronize | WaitThread))


def call_ticks(launch: Launch, device: Device) -> Calls:
    """Return the ticks that the host spends on a call, by type of op.

    Kernels with calls of another cost are there by name: see :func:`kernel_call`.
    """
    host = device.host
    found: Calls = {Synchronize: rules.ticks(host.synchronize_s), HostWork: 0, WaitThread: 0}
    if launch == "graph":  # the launch hands the graph's copies to the card one by one, and the other ops with them
        return found | {Copy: rules.ticks(host.graph_node_s), Kernel: 0, RecordEvent: 0, WaitEvent: 0}
    if host.linear_s:
        found[LINEAR] = rules.ticks(host.linear_s)
    found |= {Copy: rules.ticks(host.copy_s), Kernel: rules.ticks(host.kernel_s)}
    return found | {RecordEvent: rules.ticks(host.record_s), WaitEvent: rules.ticks(host.wait_s)}


def kernel_call(calls: Calls, kernel: str) -> int:
    """Return the ticks of the call of the ``kernel`` of this name. ``calls``: those of :func:`call_ticks`."""
    return calls.get(kernel, calls[Kernel])


def surcharges_of(launch: Launch, device: Device, copies: bool = True, kernels: bool = True) -> rules.Surcharges:
    """Return the surcharges of calls on a device. A graph has none.

    ``copies``, ``kernels``: whether the program has any. A program without one of them has no surcharge after a wait.
    """
    if launch == "graph":
        return rules.Surcharges()
    found = rules.Surcharges(*[rules.ticks(getattr(device.host, f"{name}_s")) for name in rules.Surcharges._fields])
    return found if copies and kernels else found._replace(after_wait=0)


class ChunkCosts(NamedTuple):
    """The costs of a workload's chunks on a device, without a schedule. They equal those of the schedule's ops.

    - ``calls``: the ticks of host calls (:func:`~streamsim.lowering.costs.call_ticks`).
    - ``is_blocking``: copies of pinned memory hold the host, too.

    The methods raise InputError if the device has no cost for a kernel of the workload.
    """

    workload: Workload
    device: Device
    calls: Calls
    is_pageable: bool
    is_blocking: bool = False
    launch: Launch = "live"

    def chunk(self, part: EqualChunks, behind: Behind | None = None) -> list[OpCost]:
        """Return the costs of a chunk's copies in, launches and copies back, in issue order.

        ``behind``: how each kernel comes to the card directly behind another one of its stream; None if it does not.
        """
        kernels: list[OpCost] = []
        for launch, many in self.workload.kernels_of(part):
            kernels += [kernel_cost(self.device, launch, kernel_call(self.calls, launch.name), behind)] * many
        copies_in = [self._copy("h2d", n_bytes) for n_bytes in part.inputs]
        return [*copies_in, *kernels, *(self._copy("d2h", n_bytes) for n_bytes in part.outputs)]

    def once(self) -> list[OpCost]:
        """Return the costs of the copies made once: those before the first chunk, then those behind the last one."""
        return [
            *(self._copy("h2d", n_bytes) for n_bytes in self.workload.h2d_once),
            *(self._copy("d2h", n_bytes) for n_bytes in self.workload.d2h_once),
        ]

    def _copy(self, direction: Direction, n_bytes: int) -> OpCost:
        if not n_bytes:
            return OpCost(rules.NOTHING, 0)  # the chunk has no byte of the array
        kind = self.is_pageable, self.is_blocking, self.calls[Copy], self.launch
        return copy_cost(self.device, direction, n_bytes, *kind)
