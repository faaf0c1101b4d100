"""Hand-overs between two ops of a stream, or of two streams that an event orders: probes, fit and spread."""

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import mean, variance

import numpy as np
from msgspec.structs import replace

from streamsim.device import Device, HandOver
from streamsim.program import Copy, Op, RecordEvent, WaitEvent
from streamsim.program.schedule import Direction
from streamsim.rules import MANY, PAIR
from streamsim_validate.calibrate.copies import Link
from streamsim_validate.calibrate.kernels import KERNELS, kernel_kind
from streamsim_validate.calibrate.least_squares import non_negative
from streamsim_validate.calibrate.probe import KI, TINY, Probe, cycle_bytes, gate, probe_of, tiny
from streamsim_validate.calibrate.samples import Samples
from streamsim_validate.calibrate.simulated import misfits, rms, simulated_per_link

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
