"""Kernels over their elements, hand-overs, hardware queues and the rule of the next head: probes, fit and spread."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import mean, variance

import numpy as np
from msgspec.structs import replace

from streamsim.device import ARBITRATIONS, Arbitration, Compute, Device, HandOver, KernelCost
from streamsim.program import Copy, Direction, Kernel, Op, RecordEvent, Region, Synchronize, WaitEvent
from streamsim.rules import MANY, PAIR
from streamsim_validate.calibrate.front_ends import non_negative
from streamsim_validate.calibrate.links import Link
from streamsim_validate.calibrate.samples import (
    BUFFERS,
    DEVICE_IN,
    DEVICE_OUT,
    FLOAT_BYTES,
    KI,
    LINK_BYTES,
    MI,
    MOST_ELEMENTS,
    TINY,
    Probe,
    Samples,
    cycle_bytes,
    gate,
    misfits,
    probe_of,
    rms,
    simulated_issue_s,
    simulated_per_link,
    tiny,
)

KERNELS = (
    ("sincos", 2),
    ("sincos", 10),
    ("sincos", 40),
    ("sincos", 176),
    ("vector_add", 0),
    ("copy", 0),
    ("sleep", 100_000),
)
SMALL_ELEMENTS = (KI, 4 * KI, 16 * KI, 64 * KI, 128 * KI, 192 * KI, 256 * KI, 320 * KI, 384 * KI, 512 * KI, 768 * KI)
LARGE_ELEMENTS = (MI, 3 * MI // 2, 2 * MI, 3 * MI, 4 * MI, 8 * MI, 16 * MI, MOST_ELEMENTS)
WAVES, BLOCK = (1, 2, 3, 4), 256
# What passes between two kernels of a graph, as a share of the least that one takes by itself: on an H100 1.0 of 2.5 us
# and on an H200 0.9 of 2.2 us, in chains of 200 launches over kernels that spin for 0 to 10 us.
GRAPH_GAP = 0.4


def kernel_kind(name: str, parameter: int) -> str:
    """Return the kind of the chains of a kernel."""
    return f"kernel {name}({parameter})"


def elements_of(name: str, resident_threads: int) -> tuple[int, ...]:
    """Return the sizes at which a kernel is measured: also full waves of the card, and a block more."""
    waves = [wave * resident_threads + more for wave in WAVES for more in (0, BLOCK)]
    large = LARGE_ELEMENTS if name != "sleep" else LARGE_ELEMENTS[:-2]
    return tuple(sorted({*SMALL_ELEMENTS, *waves, *large}))


def kernels(resident_threads: int) -> Iterator[Probe]:
    """Yield each kernel back to back in one stream, over its elements.

    All launches use the same memory, so it is in the card's cache, like memory that a copy or a kernel has just
    written.
    """
    for name, parameter in KERNELS:
        for elements in elements_of(name, resident_threads):
            touched = Region(DEVICE_IN, 0, elements * FLOAT_BYTES)
            reads = (touched, touched) if name == "vector_add" else (touched,)
            writes = (Region(DEVICE_OUT, 0, elements * FLOAT_BYTES),)
            kernel = Kernel(1, name, elements, parameter, reads=reads, writes=writes)
            for n in (8, 40) if elements < MI // 2 else (2, 8) if elements < 8 * MI else (1, 3):
                yield probe_of(kernel_kind(name, parameter), elements, n, [gate(), *[kernel] * n], buffers=BUFFERS)


# The fit


def fit_compute(samples: Samples) -> Compute:
    """Return the kernels' costs, and the numbers of the card's specification."""
    card = samples.card
    kernels = tuple(_fit_kernel(samples, name, parameter) for name, parameter in KERNELS)
    floor_s = min(cost.duration_s[0] for cost in kernels)
    return Compute(
        floor_s=floor_s,
        graph_gap_s=GRAPH_GAP * floor_s,
        concurrent_kernels=128,
        resident_threads=card.resident_threads,
        arbitration="ready-order",
        kernel_signal="each",
        kernels=kernels,
    )


def _fit_kernel(samples: Samples, name: str, parameter: int) -> KernelCost:
    """Return the cost from launches back to back in one stream, including the time between two kernels."""
    sizes = elements_of(name, samples.card.resident_threads)
    times = [samples.per_link(kernel_kind(name, parameter), n) for n in sizes]
    for i, (before, after) in enumerate(pairwise(times)):
        times[i + 1] = max(after, before)  # noise must not make a larger kernel faster
    layer, waves = samples.card.multiprocessors * BLOCK, max(WAVES) * samples.card.resident_threads
    elements, duration_s = zip(*stairs(list(zip(sizes, times, strict=True)), layer, waves), strict=True)
    return KernelCost(name, parameter, elements, duration_s)


def stairs(points: Sequence[tuple[int, float]], layer: int, most: int) -> list[tuple[int, float]]:
    """Return a kernel's curve, (elements, seconds) ascending, with its stairs up to ``most`` elements.

    Blocks are whole, and the multiprocessors share them evenly. So a launch takes as long as the multiprocessor with
    the most blocks: the same time from one full ``layer``, a block on each, to the next. The largest known launch of a
    stair gives its time. Unknown stairs lie on a line between the nearest known ones.
    """
    known = {-(-elements // layer): seconds for elements, seconds in points}
    found = [point for point in points if point[0] < layer]
    for stair in range(1, most // layer + 1):
        seconds = _on_line(known, stair)
        found += [((stair - 1) * layer + 1, seconds)] if stair > 1 else []
        found.append((stair * layer, seconds))
    return found + [point for point in points if point[0] > found[-1][0]]


def _on_line(known: Mapping[int, float], at: int) -> float:
    """Return the value at ``at``, on the line between the nearest known ones; beyond all of them, the nearest one."""
    above = min((x for x in known if x >= at), default=max(known))
    below = max((x for x in known if x <= at), default=above)
    if above == below:
        return known[below]
    return known[below] + (known[above] - known[below]) * (at - below) / (above - below)  # shipped profiles have this


def kernel_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of all kernels' times together."""
    missed = misfits(samples, list(kernels(samples.card.resident_threads)), device)
    scatter = rms(samples.scatter(kernel_kind(*kernel)) for kernel in KERNELS)
    return {"compute.kernels": math.hypot(scatter, rms(m.relative for m in missed))}


CYCLES = ("hk", "kd", "hd", "hkd", "hdk")
ROUNDS, ROUND_STREAMS = ("k", "hk", "kd", "hd"), (PAIR, MANY)
ROUND_KINDS = {f"round {letters}" for letters in ROUNDS}  # older samples have none
STEPS = ("hk", "kd", "hd", "kh", "dk", "dh")
EVENT, PING_PONG = "event_s", "ping-pong"
NO_STEPS = (EVENT, "event_streams_s", "kernel_to_kernel_s")  # of the numbers of hand-overs


def hand_overs() -> Iterator[Probe]:
    """Yield cycles of ops of known time in one stream, behind a gate; and ops from stream to stream by events."""
    for cycle in CYCLES:
        for n in (8, 40):
            yield probe_of(f"cycle {cycle}", 0, n, [gate(), *_cycle(cycle, n)])
    for n in (8, 40):
        ops: list[Op] = []
        for i in range(n):
            here, there = 1 + i % 2, 2 - i % 2
            ops += (tiny(here), RecordEvent(i, here), WaitEvent(i, there))
        yield probe_of("ping-pong", 0, n, [gate(), RecordEvent(n, 1), WaitEvent(n, 2), *ops], 2, events=n + 1)


def _cycle(cycle: str, n: int) -> Iterator[Op]:
    sizes = map(cycle_bytes, itertools.count())
    directions: dict[str, Direction] = {"h": "h2d", "d": "d2h"}
    for letter in cycle * n:
        yield Copy(directions[letter], next(sizes), 1) if letter in directions else TINY


def rounds() -> Iterator[Probe]:
    """Yield turns of ops that go round over two streams or more; an event orders each turn behind the one before."""
    directions: dict[str, Direction] = {"h": "h2d", "d": "d2h"}
    for letters in ROUNDS:
        for streams in ROUND_STREAMS:
            for n in (8, 40):
                sizes = map(cycle_bytes, itertools.count())
                ops: list[Op] = [gate()]
                for i in range(n):
                    here, there = 1 + i % streams, 1 + (i + 1) % streams
                    ops += (Copy(directions[c], next(sizes), here) if c in directions else tiny(here) for c in letters)
                    ops += (RecordEvent(i, here), WaitEvent(i, there))
                yield probe_of(f"round {letters}", streams, n, ops, streams, events=n)


# The fit


def fit_hand_overs(samples: Samples, alone: dict[Direction, Link]) -> HandOver:
    """Return the hand-overs that cycles of ops in one stream show.

    A cycle gives the sum of its hand-overs, and no sums of cycles tell all six apart. The smallest solution shares them
    out evenly. If it has one below zero, the nearest solution without one is taken.
    """
    kernel_s = samples.per_link(kernel_kind(*KERNELS[0]), KI)
    rows: list[Sequence[float]] = []
    sums: list[float] = []
    for cycle in CYCLES:
        steps = [a + b for a, b in zip(cycle, cycle[1:] + cycle[0], strict=True)]
        rows.append([float(steps.count(step)) for step in STEPS])
        sums.append(samples.per_link(f"cycle {cycle}", 0) - _own_s(samples, cycle, alone, kernel_s))
    each = np.linalg.lstsq(np.array(rows), np.array(sums))[0]
    if each.min() < 0:
        each = non_negative(rows, sums)
    found = dict(zip(STEPS, map(float, each), strict=True))
    return HandOver(
        h2d_to_kernel_s=found["hk"],
        kernel_to_d2h_s=found["kd"],
        h2d_to_d2h_s=found["hd"],
        kernel_to_h2d_s=found["kh"],
        d2h_to_kernel_s=found["dk"],
        d2h_to_h2d_s=found["dh"],
        kernel_to_kernel_s=0.0,  # part of the kernels' own times
        event_s=max(0.0, samples.per_link("ping-pong", 0) - kernel_s),
    )


def _own_s(samples: Samples, cycle: str, alone: dict[Direction, Link], kernel_s: float) -> float:
    """Return the seconds that the ops of one turn of a cycle take alone: the mean over the turns between its chains."""
    short, long = (length for length, _ in samples.points(f"cycle {cycle}"))
    links = {"h": alone["h2d"], "d": alone["d2h"]}
    copies = [links[letter] for letter in cycle * long if letter in links]
    first = len(copies) * short // long
    copies_s = sum(link.at(cycle_bytes(i)) for i, link in enumerate(copies) if i >= first)
    return copies_s / (long - short) + cycle.count("k") * kernel_s


def fit_event_streams(samples: Samples, device: Device) -> Device:
    """Return the device with the cost that streams beyond two add to an event's hand-over, from rounds over six."""
    if not samples.has(ROUND_KINDS):
        return device
    shown = simulated_per_link(rounds(), device)
    missed = {key: samples.per_link(*key) - seconds for key, seconds in shown.items()}
    few, many = ROUND_STREAMS
    more_s = mean(missed[f"round {c}", many] - missed[f"round {c}", few] for c in ROUNDS) / (many - few)
    return replace(device, hand_over=replace(device.hand_over, event_streams_s=max(0.0, more_s)))


# Spread


def hand_over_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of a run's mean hand-over: single ones scatter more, but a program has many."""
    steps = {f: getattr(device.hand_over, f) for f in HandOver.__struct_fields__ if f not in NO_STEPS}
    mean_s = sum(steps.values()) / len(steps)
    scatter_s = rms(math.sqrt(variance) / count for variance, count in _cycle_runs(samples))
    found = {f"hand_over.{f}": scatter_s / mean_s for f, seconds in steps.items() if seconds}
    event_s = device.hand_over.event_s
    if event_s:
        ping_pong = [m for m in misfits(samples, list(hand_overs()), device) if m.kind == PING_PONG]
        misfit = rms(m.missed_s / event_s for m in ping_pong)
        found[f"hand_over.{EVENT}"] = math.hypot(samples.scatter(PING_PONG), misfit)
    return found


def _cycle_runs(samples: Samples) -> Iterator[tuple[float, int]]:
    """Yield for the long chain of each cycle its runs' variance, in square seconds, and its number of hand-overs."""
    for cycle in CYCLES:
        longest = max(samples.of(f"cycle {cycle}"), key=lambda chain: chain.length)
        runs = [timing.device_s for timing in samples.timings[longest]]
        yield (variance(runs) if len(runs) > 1 else 0.0), longest.length * len(cycle)


def event_streams_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the cost of more streams at an event's hand-over: the share that the model misses."""
    streams_s = device.hand_over.event_streams_s
    if not streams_s:
        return {}
    few, many = ROUND_STREAMS
    missed = {(m.kind, m.size): m.missed_s for m in misfits(samples, list(rounds()), device)}
    missed_s = rms((missed[f"round {c}", many] - missed[f"round {c}", few]) / (many - few) for c in ROUNDS)
    return {"hand_over.event_streams_s": min(1.0, missed_s / streams_s)}


MOST_QUEUES = 32
QUEUE_GATE_S = 500e-6
QUEUES, RULES = {"compute": "queues compute", "copies": "queues copies"}, {"compute": "rule compute", "h2d": "rule h2d"}
FULL = Kernel(1, "sincos", MI, 176)  # four waves of the largest cards: it leaves no room beside it until its last part


def queues() -> Iterator[Probe]:
    """Yield probes of the queues: with ops blocked in n streams, the next stream's op is blocked if there are n queues.

    The host waits for that op and then issues one more, so its issue time tells.
    """
    ops: dict[str, Callable[[int], Op]] = {
        "compute": lambda stream: replace(TINY, stream=stream),
        "copies": lambda stream: Copy("d2h", LINK_BYTES, stream),
    }
    for engine, kind in QUEUES.items():
        make = ops[engine]
        for n in range(1, MOST_QUEUES):
            free, gate = n + 1, n + 2
            blocked = [op for stream in range(1, free) for op in (WaitEvent(0, stream), make(stream))]
            last: list[Op] = [make(free), Synchronize(stream=free), make(gate)]
            opening: list[Op] = [Kernel(gate, duration_s=QUEUE_GATE_S, fill=0.01), RecordEvent(0, gate)]
            yield probe_of(kind, 0, n, [*opening, *blocked, *last], gate, events=1)


def rules() -> Iterator[Probe]:
    """Yield probes that show which of several ready heads goes first: the host waits for stream 1's second op.

    Stream 1 has two ops. Stream 4 has one, issued between them, which is ready at once and takes the room that the
    first kernel leaves. Streams 2 and 3 have one each behind a copy back, issued between them and last; they become
    ready while the first op runs, stream 3's before stream 2's. So the second op of stream 1 comes first under
    same-queue-first, after stream 4's and stream 2's in issue order, and last in ready order. Kernels leave the card
    before they end, and with them the turn of their queue: same-queue-first shows as ready order.
    """
    makers: dict[str, Callable[[int], Op]] = {
        "compute": lambda stream: replace(FULL, stream=stream),
        "h2d": lambda stream: Copy("h2d", 16 * MI, stream),
    }
    for engine, kind in RULES.items():
        make = makers[engine]
        early: list[Op] = [Copy("d2h", 64 * KI, 3), Copy("d2h", 2 * MI, 2)]
        heads = [make(stream) for stream in (1, 4, 2, 1, 3)]
        yield probe_of(kind, 0, 1, [*early, *heads, Synchronize(stream=1), TINY], 4)


# The fit


def fit_queues(samples: Samples, kind: str) -> int:
    """Return the number of hardware queues: the fewest blocked streams that also block the next one."""
    held = (chain.length for chain in samples.of(kind) if samples.median(chain, "issue_s") > QUEUE_GATE_S / 2)
    return min(held, default=MOST_QUEUES)


def fit_rules(samples: Samples, device: Device) -> Device:
    """Return the device with the arbitration rule of each engine that brings the model closest to its probe."""
    schedules = {chain.kind: schedule for chain, schedule in rules()}

    def best(kind: str, with_rule: Callable[[Arbitration], Device]) -> Arbitration:
        (chain,) = samples.of(kind)
        measured_s = samples.median(chain, "issue_s")
        return min(ARBITRATIONS, key=lambda rule: abs(simulated_issue_s(schedules[kind], with_rule(rule)) - measured_s))

    compute, copy_engines = device.compute, device.copy_engines
    kernels = best(RULES["compute"], lambda rule: replace(device, compute=replace(compute, arbitration=rule)))
    copies = best(RULES["h2d"], lambda rule: replace(device, copy_engines=replace(copy_engines, arbitration=rule)))
    return replace(
        device, compute=replace(compute, arbitration=kernels), copy_engines=replace(copy_engines, arbitration=copies)
    )
