"""Devices and schedules for the tests: one builder in ticks and bytes, and hypothesis strategies on top of it.

A tick is a nanosecond, so 1e9 bytes/s is one byte per tick: on the plain device a copy of n bytes lasts n ticks.
Random sizes come from small sets, so that ties are the rule and not the exception.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, get_args

import msgspec
from hypothesis import strategies as st

from streamsim.device import Arbitration, Compute, CopyEngines, Device, HandOver, Host, KernelCost, LinkDirection
from streamsim.program import (
    Buffer,
    Copy,
    Direction,
    HostWork,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
    WaitThread,
    Workload,
    WorkloadKernel,
)

NS = 1e-9
MS_KERNEL = WorkloadKernel(duration_s=1e-3)
BYTE_PER_TICK = 1e9
LATENCIES = (  # each is at least the other
    ("duplex_latency_s", "latency_s"),
    ("crowded_latency_s", "latency_s"),
    ("crowded_duplex_latency_s", "duplex_latency_s"),
    ("crowded_duplex_latency_s", "crowded_latency_s"),
)
SLOWER = ("duplex_bandwidth_bytes_per_s", "crowded_bandwidth_bytes_per_s")  # none is above bandwidth_bytes_per_s
HAND_OVERS = tuple(HandOver.__struct_fields__)
HOST_TICKS = tuple(f for f in Host.__struct_fields__ if f.endswith("_s"))
CARD_TICKS = tuple(f for f in Compute.__struct_fields__ if f.endswith("_s") and f != "floor_s")
SOURCES = dict.fromkeys(
    ("connections", "h2d", "d2h", "copy_engines", "compute", "hand_over", "host"), "assumed: a device for tests"
)


def ticks(seconds: float) -> int:
    """Whole nanoseconds, the nearest."""
    return round(seconds / NS)


def pipeline_of(elements: int) -> Workload:
    """4 bytes an element in, 4 out, and a kernel of a millisecond."""
    return Workload(elements, (4,), (4,), (MS_KERNEL,))


def link(
    latency: int = 0,
    rate: float = 1,
    shared: float | None = None,
    pageable_latency: int = 0,
    pageable_rate: float = 1,
    duplex_latency: int | None = None,
    crowded_latency: int | None = None,
    crowded_duplex_latency: int | None = None,
    in_flight: int = 1,
    crowded_rate: float | None = None,
) -> LinkDirection:
    """One direction: latencies in ticks, rates in bytes per tick (``shared``: while the other one is busy)."""
    duplex = latency if duplex_latency is None else duplex_latency
    crowded = latency if crowded_latency is None else crowded_latency
    most = max(duplex, crowded) if crowded_duplex_latency is None else crowded_duplex_latency
    return LinkDirection(
        latency_s=latency * NS,
        duplex_latency_s=duplex * NS,
        crowded_latency_s=crowded * NS,
        crowded_duplex_latency_s=most * NS,
        in_flight_bytes=in_flight,
        bandwidth_bytes_per_s=rate * BYTE_PER_TICK,
        duplex_bandwidth_bytes_per_s=(rate if shared is None else shared) * BYTE_PER_TICK,
        crowded_bandwidth_bytes_per_s=(rate if crowded_rate is None else crowded_rate) * BYTE_PER_TICK,
        pageable_latency_s=pageable_latency * NS,
        pageable_bandwidth_bytes_per_s=pageable_rate * BYTE_PER_TICK,
    )


def make_device(
    *,
    copy_engines: int = 2,
    connections: int = 32,
    copy_connections: int | None = None,
    h2d: LinkDirection | None = None,
    d2h: LinkDirection | None = None,
    copy_rule: str = "issue-order",
    kernel_rule: str = "issue-order",
    concurrent_kernels: int = 1,
    resident_threads: int = 0,
    floor: int = 0,
    kernel_signal: str = "each",
    kernels: tuple[KernelCost, ...] = (),
    immediate_bytes: int = 0,
    **ticks: int,
) -> Device:
    """A device with every effect off but those named; ``ticks``: times of host, hand-overs or card without ``_s``.

    ``make_device(copy=2, h2d_to_kernel=5)`` charges the host 2 ticks a copy call and 5 ticks a hand-over.
    """
    costs: dict[str, Any] = {f"{name}_s": value * NS for name, value in ticks.items()}
    unknown = set(costs) - {*HAND_OVERS, *HOST_TICKS, *CARD_TICKS}
    assert not unknown, unknown
    return Device(
        name="test",
        description="a device for tests",
        connections=connections,
        h2d=h2d or link(),
        d2h=d2h or link(),
        copy_engines=CopyEngines(copy_engines, copy_connections or connections, copy_rule),  # type: ignore[arg-type]
        compute=Compute(
            floor_s=floor * NS,
            concurrent_kernels=concurrent_kernels,
            resident_threads=resident_threads,
            arbitration=kernel_rule,  # type: ignore[arg-type]
            kernel_signal=kernel_signal,  # type: ignore[arg-type]
            kernels=kernels,
            **{name: costs.get(name, 0.0) for name in CARD_TICKS},
        ),
        hand_over=HandOver(**{name: costs.get(name, 0.0) for name in HAND_OVERS}),
        host=Host(**{name: costs.get(name, 0.0) for name in HOST_TICKS}, pageable_immediate_bytes=immediate_bytes),
        sources=SOURCES,
    )


def h2d(stream: int, n_bytes: int, **more: Any) -> Copy:
    """A copy to the card."""
    return Copy("h2d", n_bytes, stream, **more)


def d2h(stream: int, n_bytes: int, **more: Any) -> Copy:
    """A copy from the card."""
    return Copy("d2h", n_bytes, stream, **more)


def kernel(stream: int, ticks: int, **more: Any) -> Kernel:
    """A kernel of so many ticks alone on the card."""
    return Kernel(stream, duration_s=ticks * NS, **more)


def plan(*ops: Op, streams: int = 4, kind: str = "non-blocking", **more: Any) -> Schedule:
    """A schedule over ``streams`` streams of one kind, with as many events as it names."""
    events = (
        max(
            (op.event for op in ops if isinstance(op, RecordEvent | WaitEvent | Synchronize) and op.event is not None),
            default=-1,
        )
        + 1
    )
    return Schedule(tuple(ops), (kind,) * streams, events=events, **more)  # type: ignore[arg-type]


PAGEABLE = Buffer("pageable", 1 << 20, "pageable")
PINNED = Buffer("pinned", 1 << 20, "pinned")
ON_CARD = Buffer("card", 1 << 20, "device")
BUFFERS = (PAGEABLE, PINNED, ON_CARD)
# A card of 16 threads needs 1/4 tick an element at its full pace: of a launch of 16, 4 ticks are not its elements'.
COST = KernelCost("table", 7, (8, 16, 32), (6 * NS, 8 * NS, 12 * NS))
# 3/8 tick an element and 4 ticks, with a quarter of the threads half of the pace. 1/8 tick an element and 8 ticks: more
# than a launch of few threads takes. 1/2 tick, and nothing.
COSTS = (
    COST,
    KernelCost("table", 7, (4, 16, 32), (4 * NS, 10 * NS, 16 * NS)),
    KernelCost("table", 7, (8, 16, 32), (4 * NS, 10 * NS, 12 * NS)),
    KernelCost("table", 7, (8, 16, 32), (8 * NS, 8 * NS, 16 * NS)),
)

# The shortest copy (8 bytes at 2 bytes per tick) and the shortest kernel last 4 ticks; a hand-over and an event's
# extra are at most 2 each. So a dependence that others imply never adds anything, and the laws need not say
# which of several equivalent ways of writing the dependences down is meant.
SIZES = st.sampled_from((8, 8, 8, 12, 16, 17))
KERNEL_TICKS = st.sampled_from((4, 4, 8, 8, 9, 12))
SMALL_TICKS = st.sampled_from((0, 0, 0, 1, 2))
FILLS = st.sampled_from((1.0, 1.0, 0.5, 0.25, 0.3))
RULES = st.sampled_from(get_args(Arbitration))


# Strategies are made once, not where they are drawn from: hypothesis looks through each one that it has not met yet.
RATES = st.sampled_from(((1, 1), (1, 0.5), (1, 0.75), (2, 1), (2, 1.5), (1.5, 1)))
MORE_TICKS, PAGEABLE_RATES = st.sampled_from((0, 0, 1, 3)), st.sampled_from((1, 0.5))
IN_FLIGHT = st.sampled_from((1, 1, 12, 64))


@st.composite
def links(draw: st.DrawFn) -> LinkDirection:
    """A direction that loses nothing, a quarter, a third or half of its rate to the other."""
    rate, shared = draw(RATES)
    latency = draw(SMALL_TICKS)
    duplex, crowded, both = (latency + draw(MORE_TICKS) for _ in range(3))
    return link(
        latency,
        rate,
        shared,
        draw(SMALL_TICKS),
        draw(PAGEABLE_RATES),
        duplex,
        crowded,
        max(duplex, crowded, both),
        draw(IN_FLIGHT),
        draw(_crowded_rates(shared)),
    )


@cache
def _crowded_rates(shared: float) -> st.SearchStrategy[float | None]:
    return st.sampled_from((None, None, shared, 0.25))


OF_DEVICES: dict[str, st.SearchStrategy[Any]] = {
    "copy_engines": st.sampled_from((2, 2, 1, 0)),
    "connections": st.sampled_from((1, 2, 3, 8, 32)),
    "copy_connections": st.sampled_from((None, None, 1, 3, 32)),
    "h2d": links(),
    "d2h": links(),
    "copy_rule": RULES,
    "kernel_rule": RULES,
    "concurrent_kernels": st.sampled_from((1, 2, 3, 16)),
    "resident_threads": st.sampled_from((16, 16, 0)),
    "floor": st.sampled_from((0, 0, 4, 8)),  # so that no drain is half a tick
    "kernels": st.sampled_from([(cost,) for cost in COSTS]),
    "kernel_signal": st.sampled_from(("each", "each", "run")),
    "immediate_bytes": st.sampled_from((0, 8, 64)),
    **{f.removesuffix("_s"): SMALL_TICKS for f in (*HAND_OVERS, *HOST_TICKS, *CARD_TICKS)},
}


@st.composite
def devices(draw: st.DrawFn, /, **fixed: Any) -> Device:
    """Any device: 0, 1 or 2 copy engines, 1..32 connections, every rule and every effect on or off."""
    return make_device(**{name: fixed[name] if name in fixed else draw(choice) for name, choice in OF_DEVICES.items()})


@st.composite
def draining(draw: st.DrawFn) -> tuple[Schedule, Device]:
    """Kernels of several streams that leave the card to each other before they end, and some copies."""
    stream = st.integers(1, 4)
    op = st.one_of(*[costed_kernels(stream)] * 3, kernels(stream), copies(stream, True))
    ops = draw(st.lists(op, min_size=2, max_size=20))
    few = {"copy_engines": draw(st.sampled_from((2, 1))), "concurrent_kernels": draw(st.sampled_from((1, 2, 16)))}
    return plan(*ops, buffers=BUFFERS), draw(plain_devices(resident_threads=16, **few))


def plain_devices(**fixed: Any) -> st.SearchStrategy[Device]:
    """Devices on which the card alone sets the times: the host costs nothing."""
    return devices(**{f.removesuffix("_s"): 0 for f in HOST_TICKS} | fixed)


@st.composite
def free_calls(draw: st.DrawFn) -> tuple[Schedule, Device]:
    """Calls that cost nothing, and waits that mostly find nothing to wait for: many of both fall on one tick."""
    stream = st.integers(1, 4)
    op = st.one_of(*[copies(stream, True)] * 2, kernels(stream), st.builds(Synchronize, stream=stream))
    ops = draw(st.lists(op, min_size=4, max_size=14))
    if draw(SELDOM):
        ops = draw(hosted(ops))
    return plan(*ops, buffers=BUFFERS), draw(plain_devices())


CAPTURABLE = st.sampled_from((None, None, PINNED))
ANY_MEMORY = st.sampled_from((None, None, PINNED, PAGEABLE))
OFFSETS, SELDOM = st.integers(0, 64), st.sampled_from((False, False, False, True))
WAYS: st.SearchStrategy[Direction] = st.sampled_from(("h2d", "d2h"))


@st.composite
def copies(draw: st.DrawFn, stream: st.SearchStrategy[int], capturable: bool) -> Copy:
    """A copy: to or from, blocking or not, of memory of its own, pinned or pageable memory."""
    n_bytes = draw(SIZES)
    memory = draw(CAPTURABLE if capturable else ANY_MEMORY)
    host = Region(memory.name, draw(OFFSETS), n_bytes) if memory else None
    card = Region(ON_CARD.name, draw(OFFSETS), n_bytes) if memory else None
    blocking = not capturable and draw(SELDOM)
    return Copy(draw(WAYS), n_bytes, draw(stream), host, card, blocking)


@cache
def costed_kernels(stream: st.SearchStrategy[int]) -> st.SearchStrategy[Kernel]:
    """A kernel whose cost is in the profile, of few threads, as many as fill a card, or more."""
    return st.builds(Kernel, stream, st.just(COST.name), st.sampled_from((8, 4, 12, 24, 64)), st.just(COST.parameter))


OPERATIONS = st.sampled_from(("kernel", "kernel", "kernel", "linear"))  # of which a call may cost otherwise
EITHER, PART_TICKS = st.booleans(), st.integers(1, 40)
LAUNCHED = st.sampled_from(
    ((0, 0, 1.0), (0, 0, 1.0), (8, 0, 1.0), (0, 0, 0.25), (8, 0, 0.5), (4, 1, 0.125), (16, 64, 0.5))
)
KNOWN_PARTS = st.sampled_from(((), (), (1 / 8,), (1 / 8, 1 / 2)))


@st.composite
def kernels(draw: st.DrawFn, stream: st.SearchStrategy[int]) -> Kernel:
    """A kernel of a given duration (and perhaps fewer threads than the card holds), or one from the cost table."""
    if draw(EITHER):
        return draw(costed_kernels(stream))
    elements, threads, share = draw(LAUNCHED)
    duration_s = draw(KERNEL_TICKS) * NS
    known = draw(KNOWN_PARTS) if share < 1 else ()
    longest = max(1, int(duration_s / share / NS))  # parts that take longer than the whole are nobody's measurement
    times = sorted(min(draw(PART_TICKS), longest) * NS for _ in known)
    of_launch: dict[str, Any] = {"share": share, "threads": threads, "parts": tuple(zip(known, times, strict=True))}
    name = draw(OPERATIONS)
    return Kernel(draw(stream), name, elements=elements, duration_s=duration_s, fill=draw(FILLS), **of_launch)


LAUNCH = st.sampled_from(("live", "live", "graph"))


@cache
def _kinds(most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(("non-blocking", "blocking")), min_size=1, max_size=most)


@cache
def _issued(graph: bool, streams: int, most: int) -> st.SearchStrategy[st.SearchStrategy[list[Op]]]:
    """A bit of everything, kernels that crowd the card, or a tangle of events."""
    stream = st.integers(1 if graph else 0, streams)
    event = st.integers(0, 2)
    work = st.one_of(copies(stream, graph), copies(stream, graph), kernels(stream))
    order = st.one_of(st.builds(RecordEvent, event, stream), st.builds(WaitEvent, event, stream))
    syncs = st.one_of(
        st.builds(Synchronize), st.builds(Synchronize, stream=stream), st.builds(Synchronize, event=event)
    )
    host = st.one_of(syncs, syncs, st.builds(HostWork, SMALL_TICKS.map(lambda n: 3 * n * NS)))
    mixed = st.one_of(work, work, order, *([] if graph else [host]))
    ops = (mixed, mixed, mixed, kernels(stream), st.one_of(kernels(stream), order, order))
    return st.sampled_from([st.lists(op, min_size=1, max_size=most) for op in ops])


OWN_CALLS, THREADS = st.sampled_from((None, None, 0, 1, 5)), st.sampled_from((1, 2, 2, 3))


@st.composite
def hosted(draw: st.DrawFn, issued: Sequence[Op], count: st.SearchStrategy[int] = THREADS) -> list[Op]:
    """The ops issued by several threads that wait for each other now and then, with calls that cost what they say."""
    threads = draw(count)
    found: list[Op] = []
    for op in issued:
        thread = draw(st.integers(0, threads - 1))
        if threads > 1 and draw(SELDOM):
            found.append(WaitThread((thread + draw(st.integers(1, threads - 1))) % threads, thread))
        own = None if isinstance(op, HostWork) else draw(OWN_CALLS)
        found.append(msgspec.structs.replace(op, thread=thread, **({} if own is None else {"call_s": own * NS})))
    return found


@st.composite
def schedules(
    draw: st.DrawFn, most: int = 14, streams: int = 4, launch: str | None = None, one_thread: bool = False
) -> Schedule:
    """Any schedule: every kind of op over legacy, blocking and non-blocking streams, live or (where legal) a graph.

    ``one_thread``: of one host thread, whose calls cost what the device says.
    """
    launch = launch or draw(LAUNCH)
    kinds = draw(_kinds(streams))
    graph = launch == "graph"
    issued: list[Op] = draw(draw(_issued(graph, len(kinds), most)))
    if not graph and not one_thread and draw(SELDOM):
        issued = draw(hosted(issued))
    last: list[Op] = [Synchronize()] if graph and draw(EITHER) else []
    return Schedule(tuple(issued + last), tuple(kinds), BUFFERS, 3, launch)  # type: ignore[arg-type]


@st.composite
def runs(draw: st.DrawFn) -> tuple[Schedule, Device]:
    """A graph whose kernels mostly stand right behind others of their stream, over as few queues as make them wait."""
    stream, event = st.integers(1, 5), st.integers(0, 2)
    order = st.one_of(st.builds(RecordEvent, event, stream), st.builds(WaitEvent, event, stream))
    op = st.one_of(*[kernels(stream)] * 5, *[copies(stream, True)] * 2, order, order)
    ops = draw(st.lists(op, min_size=6, max_size=30))
    few = {"connections": draw(st.sampled_from((1, 2, 3))), "copy_connections": draw(st.sampled_from((None, 2)))}
    return plan(*ops, streams=5, launch="graph", buffers=BUFFERS), draw(devices(**few))


@st.composite
def long_hand_overs(draw: st.DrawFn) -> tuple[Schedule, Device]:
    """Hand-overs longer than ops, so that an end may be heard of before earlier ones.

    No events and no legacy stream: each op waits for one other at most, and no dependence is implied by others.
    """
    stream = st.integers(1, 4)
    ops = draw(st.lists(st.one_of(copies(stream, False), kernels(stream)), min_size=2, max_size=20))
    hand_overs = {f.removesuffix("_s"): draw(st.integers(0, 30)) for f in HAND_OVERS}
    return plan(*ops, buffers=BUFFERS), draw(devices(kernel_signal="each", **hand_overs))


CROWDED = devices(copy_engines=2, concurrent_kernels=3, kernel_rule="ready-order")
CASES: st.SearchStrategy[tuple[Schedule, Device]] = st.one_of(
    *[st.tuples(schedules(), devices())] * 2,
    st.tuples(schedules(most=40, streams=8), CROWDED),
    draining(),
    free_calls(),
    runs(),
    long_hand_overs(),
)


@st.composite
def small_workloads(draw: st.DrawFn) -> Workload:
    """0..3 inputs and outputs, 0..3 kernels, few elements, so that many chunks do not divide them."""
    sizes = st.lists(st.integers(1, 8), max_size=3)
    inputs, outputs = draw(sizes), draw(sizes)
    least = 0 if inputs or outputs else 1
    kernels = draw(st.lists(st.builds(WorkloadKernel, OPERATIONS, st.just(1e-6)), min_size=least, max_size=3))
    return Workload(draw(st.integers(1, 40)), tuple(inputs), tuple(outputs), tuple(kernels))
