"""What every op of a schedule costs on a device, in whole ticks: its call, its time on its engine, its use of the link.

Bytes on a link are counted in fixed point, ``1 << BYTE_BITS`` units a byte, and rates in units per tick, so that
sharing a link is exact integer arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streamsim.program.schedule import Copy, Kernel, Launch, Op, RecordEvent, Schedule, Synchronize, WaitEvent
from streamsim.rules.clock import TICKS_PER_S, ticks
from streamsim.rules.crowding import CROWD
from streamsim.rules.hand_overs import KINDS
from streamsim.rules.link import ticks_for
from streamsim.rules.side_by_side import FULL_CARD, PACES

if TYPE_CHECKING:
    from streamsim.device.profile import Device, HandOver, LinkDirection
    from streamsim.program.schedule import Direction
BYTE_BITS = 20
NO_KERNEL = (0,) * (PACES + 1)
FEW_STREAMS = 4  # up to so many, calls cost the host no more for being spread over them
PAIR, MOST_IN_THE_WAY = 2, 4  # streams of a program, and more of them, that make an event's hand-over no longer


# What an op does, as the link and the hand-over table see it.
H2D, D2H, KERNEL, NOTHING = 0, 1, 2, 3
COPIES = (H2D, D2H)


class Rate(NamedTuple):
    """How a kind of copy uses the link.

    Units per tick, alone and with a copy in the other direction; and ticks before the bytes flow, alone and so,
    for each level of crowding from 0 to ``CROWD - 1``.
    """

    alone: int
    shared: int
    latency: tuple[int, ...]
    duplex_latency: tuple[int, ...]

    def duration(self, units: int) -> int:
        """Ticks that a copy takes with the link to itself."""
        return self.latency[0] + ticks_for(units, self.alone)

    @property
    def feels_crowds(self) -> bool:
        """Whether its latencies grow as kernels wait."""
        return self.latency[-1] > self.latency[0] or self.duplex_latency[-1] > self.duplex_latency[0]

    @property
    def feels_the_other_direction(self) -> bool:
        """Whether it takes longer beside a copy in the other direction."""
        return self.shared < self.alone or self.duplex_latency != self.latency


NO_COPY = Rate(1, 1, (0,) * CROWD, (0,) * CROWD)


class Shape(NamedTuple):
    """What ops of one make have in common: many ops of a schedule share a shape."""

    kind: int  # H2D, D2H, KERNEL or NOTHING
    call: int  # ticks that the host spends on the call
    duration: int = 0  # ticks alone on the engine, a copy's latency included
    units: int = 0  # copy: its bytes in fixed point
    rate: Rate = NO_COPY  # copy: how it uses the link
    width: int = FULL_CARD  # kernel: the share of the card that it keeps busy while it works
    threads: int = FULL_CARD  # kernel: the share of the card's threads that it holds
    drain: int = 0  # kernel: ticks at its end, when its work is done and the card is free for others
    idle: tuple[int, ...] = NO_KERNEL  # kernel: of the card, with 0 to PACES PACES-ths of its threads held

    @property
    def works(self) -> int:
        """Ticks alone that it occupies its engine: all but a kernel's drain."""
        return self.duration - self.drain


def hand_over_table(hand_over: HandOver) -> tuple[int, ...]:
    """Ticks from the end of an op of one kind until one of another that waits for it may start, row by row of kinds."""
    names = ("h2d", "d2h", "kernel", "nothing")
    assert len(names) == KINDS
    return tuple(ticks(getattr(hand_over, f"{a}_to_{b}_s", 0.0)) for a in names for b in names)


def kernel_shape(device: Device, kernel: Kernel, call: int = 0) -> Shape:
    """A kernel of at least one tick and one unit of the card, whose call takes ``call`` ticks."""
    alone_s, share = device.kernel_time(kernel)
    drain_s = device.kernel_drain_s(kernel)
    if drain_s:  # it does all of its work before
        share = min(1.0, share * alone_s / (alone_s - drain_s))
    return Shape(
        KERNEL,
        call,
        max(1, ticks(alone_s)),
        width=max(1, round(share * FULL_CARD)),
        threads=max(1, round(device.kernel_threads(kernel) * FULL_CARD)),
        drain=ticks(drain_s),
        idle=tuple(FULL_CARD - round(pace * FULL_CARD) for pace in device.kernel_paces(kernel, PACES)),
    )


def copy_rate(link: LinkDirection, n_bytes: int) -> Rate:
    """How a copy of ``n_bytes`` of pinned memory uses the link."""
    least, whole = ticks(link.latency_s), link.in_flight_bytes
    behind = min(n_bytes, whole)
    slowed = min(n_bytes, link.crowded_bytes)
    slower = ticks(slowed / link.crowded_bandwidth_bytes_per_s - slowed / link.bandwidth_bytes_per_s)

    def latency(most_s: float) -> int:  # the clock has whole ticks: half up
        return least + (2 * behind * (ticks(most_s) - least) + whole) // (2 * whole)

    return Rate(
        _units(link.bandwidth_bytes_per_s),
        _units(link.duplex_bandwidth_bytes_per_s),
        _by_crowd(least, latency(link.crowded_latency_s) + slower),
        _by_crowd(latency(link.duplex_latency_s), latency(link.crowded_duplex_latency_s) + slower),
    )


def _by_crowd(quiet: int, crowded: int) -> tuple[int, ...]:
    steps = CROWD - 1
    return tuple(quiet + (2 * (crowded - quiet) * level + steps) // (2 * steps) for level in range(CROWD))


def pageable_rate(link: LinkDirection) -> Rate:
    """How a copy of pageable memory uses the link: the staging, not the link, sets its pace."""
    latency, alone = ticks(link.pageable_latency_s), _units(link.pageable_bandwidth_bytes_per_s)
    return Rate(alone, alone, (latency,) * CROWD, (latency,) * CROWD)


def rate_of(device: Device, direction: Direction, n_bytes: int, is_pageable: bool) -> Rate:
    """How a copy of ``n_bytes`` uses the link."""
    link = device.h2d if direction == "h2d" else device.d2h
    return pageable_rate(link) if is_pageable else copy_rate(link, n_bytes)


def _units(bytes_per_s: float) -> int:
    return max(1, round(bytes_per_s * (1 << BYTE_BITS) / TICKS_PER_S))


class _Shapes:
    """Makes the shapes of a schedule's ops on a device, one for each combination of what matters."""

    def __init__(self, schedule: Schedule, device: Device) -> None:
        self.made: list[Shape] = []
        self._device = device
        self._pageable = schedule.pageable_names
        streams = len(schedule.used_streams) if device.host.streams_s else 1  # counted only where it matters
        self._call = call_ticks(schedule.launch, device, streams)
        self._known: dict[tuple[object, ...], int] = {}

    def index(self, op: Op) -> int:
        """The index in ``made`` of the op's shape."""
        if isinstance(op, Copy):
            key: tuple[object, ...] = (op.direction, op.bytes, op.host and op.host.buffer)
        elif isinstance(op, Kernel):
            key = (op.duration_s, op.elements, op.fill, op.name, op.parameter, op.share, op.threads, op.parts)
        else:
            key = (type(op),)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self.made)
            self.made.append(self._make(op))
        return known

    def _make(self, op: Op) -> Shape:
        call = self._call[type(op)]
        if isinstance(op, Copy):
            is_pageable = op.host is not None and op.host.buffer in self._pageable
            rate = rate_of(self._device, op.direction, op.bytes, is_pageable)
            units = op.bytes << BYTE_BITS
            return Shape(H2D if op.direction == "h2d" else D2H, call, rate.duration(units), units, rate)
        if isinstance(op, Kernel):
            return kernel_shape(self._device, op, call)
        return Shape(NOTHING, call)


def call_ticks(launch: Launch, device: Device, streams: int = 1) -> dict[type[Op], int]:
    """What the host spends on a call, by type of op, in a program that uses so many streams."""
    host = device.host
    synchronize = ticks(host.synchronize_s)
    if launch == "graph":  # the launch hands its copies to the card one by one, the rest with them
        return {Copy: ticks(host.graph_node_s), Kernel: 0, RecordEvent: 0, WaitEvent: 0, Synchronize: synchronize}
    more = streams_ticks(device, streams)
    return {
        Copy: ticks(host.copy_s) + more,
        Kernel: ticks(host.kernel_s) + more,
        RecordEvent: ticks(host.record_s),
        WaitEvent: ticks(host.wait_s),
        Synchronize: synchronize,
    }


def after_wait_ticks(launch: Launch, device: Device, copies: bool, kernels: bool) -> int:
    """What the first copy and the first kernel after a wait take longer, by whether the program has such."""
    return ticks(device.host.after_wait_s) * (launch == "live" and copies and kernels)


def enter_ticks(launch: Launch, device: Device) -> int:
    """What the host spends on entering a stream; the launch of a graph enters none."""
    return ticks(device.host.enter_s) * (launch == "live")


def event_ticks(device: Device, streams: int = 1) -> int:
    """What an event adds to a hand-over in a program of so many streams."""
    in_the_way = min(max(streams - PAIR, 0), MOST_IN_THE_WAY)
    return ticks(device.hand_over.event_s) + in_the_way * ticks(device.hand_over.event_streams_s)


def streams_ticks(device: Device, streams: int) -> int:
    """What the call of a copy or kernel takes longer with so many streams than with few."""
    return ticks(device.host.streams_s) * max(0, streams.bit_length() - FEW_STREAMS.bit_length())  # whole doublings


def holds_host(copy: Copy, pageable_names: frozenset[str], immediate_bytes: int) -> bool:
    """Whether the call returns only when the copy is done: blocking, or pageable beyond the immediate size."""
    if copy.host is None or copy.host.buffer not in pageable_names:
        return copy.blocking
    return copy.direction == "d2h" or copy.bytes > immediate_bytes
