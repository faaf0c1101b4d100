"""From the raw samples of the calibration's probes to a profile: pure arithmetic, the same with or without a card.

Where a number shows in a probe alone it is read off; where several act together, those are sought with which
the model, run on the same probes, shows what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median, variance
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from streamsim.checks import LARGEST_BYTES
from streamsim.device.kernel_costs import KernelCost
from streamsim.device.profile import (
    ARBITRATIONS,
    MODEL_SPREAD,
    Arbitration,
    Compute,
    CopyEngines,
    Device,
    HandOver,
    Host,
    LinkDirection,
    number_names,
)
from streamsim.errors import InputError
from streamsim.lowering.costs import FEW_STREAMS
from streamsim.model import simulate
from streamsim_validate.calibrate import probes as p
from streamsim_validate.calibrate.probes import DIRECTIONS, KI, Chain
from streamsim_validate.gpu.card import Card  # noqa: TC001 (msgspec reads the annotation when it decodes)
from streamsim_validate.records.record import CALIBRATED_ON, Row, median_and_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streamsim.program.schedule import Direction, Schedule
    from streamsim_validate.calibrate.probes import Probe

Part = TypeVar("Part", bound=msgspec.Struct)

SAMPLES_VERSION = 2
SHORTEST_S, LONGEST_S = 1e-9, 86_400.0  # of a run: no clock here resolves less, and no probe takes a day
NORMAL = 1.4826  # standard deviations in half the distance between the quartiles of what scatters normally


class Timing(NamedTuple):
    """One run: on the card between events, for the host until all was done, and until all was issued."""

    device_s: float
    wall_s: float
    issue_s: float


Timings = Mapping[Chain, Sequence[Timing]]  # of each chain its runs


class PlainSamples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Samples as a file holds them."""

    card: Card
    date: str
    timings: tuple[Row, ...]
    schema_version: int = SAMPLES_VERSION


@dataclass(frozen=True)
class Samples:
    """The raw samples of a calibration."""

    card: Card
    date: str
    timings: dict[Chain, list[Timing]]

    def plain(self) -> PlainSamples:
        """As a file holds them."""
        return PlainSamples(self.card, self.date, rows_of(self.timings))

    @classmethod
    def from_plain(cls, plain: PlainSamples) -> Samples:
        """From what a file holds.

        Without the probes of effects that are no longer in the model. Raises InputError when it is of another version,
        or has a chain without runs or times that no clock shows.
        """
        if plain.schema_version != SAMPLES_VERSION:
            raise InputError(
                f"schema_version = {plain.schema_version}: this streamsim-validate reads samples of {SAMPLES_VERSION};"
                " use the version that wrote it, or calibrate again"
            )
        timings = timings_of(row for row in plain.timings if row[0] not in p.RETIRED)
        for chain, runs in timings.items():
            _check_runs(chain, runs)
        return cls(plain.card, plain.date, timings)

    def per_link(self, kind: str, size: int, column: str = "device_s") -> float:
        """Seconds that one more link of a chain takes; see :func:`per_link`."""
        return per_link(self.timings, kind, size, column)

    def points(self, kind: str, column: str = "device_s") -> list[tuple[int, float]]:
        """(length, median seconds) of every chain of a kind of one size."""
        return sorted((chain.length, self.median(chain, column)) for chain in self.timings if chain.kind == kind)

    def scatter(self, kind: str, column: str = "device_s") -> float:
        """Relative standard deviation of the runs of a chain of a kind, typical of them; outliers count for little."""
        found = []
        for chain in self.of(kind):
            middle, half = median_and_spread(tuple(getattr(t, column) for t in self.timings[chain]))
            found.append(NORMAL * half / middle)
        return float(median(found))

    def of(self, kind: str) -> list[Chain]:
        """The chains of a kind. Raises InputError when there are none."""
        found = [chain for chain in self.timings if chain.kind == kind]
        if not found:
            raise InputError(f"calibration: no probes of {kind!r}; calibrate again")
        return found

    def median(self, chain: Chain, column: str) -> float:
        """Of a chain's runs."""
        return float(median(getattr(t, column) for t in self.timings[chain]))


def _check_runs(chain: Chain, runs: Sequence[Timing]) -> None:
    """The fits divide by medians of every time but those of chains that do nothing on the card."""
    if not runs:
        raise InputError(f"calibration: chain {chain.key!r} has no runs; calibrate again")
    for timing in runs:
        for column, seconds in timing._asdict().items():
            nothing_done = column == "device_s" and chain.kind in p.NOTHING_ON_CARD and seconds == 0
            if not (nothing_done or SHORTEST_S <= seconds <= LONGEST_S):
                raise InputError(
                    f"calibration: chain {chain.key!r} has a run of {column} = {seconds!r}, which no clock shows;"
                    " calibrate again"
                )


def rows_of(timings: Timings) -> tuple[Row, ...]:
    """As a file holds them."""
    return tuple((*chain, tuple((t.device_s, t.wall_s, t.issue_s) for t in runs)) for chain, runs in timings.items())


def timings_of(rows: Iterable[Row]) -> dict[Chain, list[Timing]]:
    """From what a file holds of them."""
    return {Chain(kind, size, n): [Timing(*run) for run in runs] for kind, size, n, runs in rows}


def per_link(timings: Timings, kind: str, size: int, column: str = "device_s") -> float:
    """Seconds that one more link of a chain takes: the slope between its shortest and longest length.

    Of medians; of the runs of chains that show how copies go, the means of the faster halves. (Cycles, in which a copy
    is one link among others, and chains that hold the host count by their medians.) Raises InputError unless there are
    two lengths.
    """
    lengths = sorted(chain.length for chain in timings if (chain.kind, chain.size) == (kind, size))
    if len(lengths) < 2:
        raise InputError(f"calibration: no chains of {kind!r} of size {size}; calibrate again")
    first, last = lengths[0], lengths[-1]
    typical = _undisturbed if kind in p.COPY_KINDS else median
    short, long = (typical([getattr(t, column) for t in timings[Chain(kind, size, n)]]) for n in (first, last))
    return float(long - short) / (last - first)


def _undisturbed(runs: Sequence[float]) -> float:
    """The mean of the faster half: whatever else goes through the host's memory only ever slows a copy."""
    return mean(sorted(runs)[: (len(runs) + 1) // 2])


class Link(NamedTuple):
    """Seconds of latency and seconds per byte."""

    latency_s: float
    s_per_byte: float

    def at(self, n_bytes: int) -> float:
        """Seconds of a copy."""
        return self.latency_s + n_bytes * self.s_per_byte


def fit_link(points: Sequence[tuple[float, float]]) -> Link:
    """Least squares of latency + bytes * s_per_byte over (bytes, seconds), every point's error relative to its time."""
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    above = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
    slope = above / sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    return Link(max(0.0, mean_y - slope * mean_x), slope)


def fit(samples: Samples) -> Device:
    """The profile that explains the samples.

    Raises InputError when probes are missing or were others than today's, and when no card can have shown them.
    """
    _check_complete(samples)
    try:
        return _fit(samples)
    except ArithmeticError as error:  # a slope of 0: times that are each possible, but not together
        raise InputError(
            f"calibration: the samples give no profile ({error}): longer chains took no longer; calibrate again"
        ) from error


def _fit(samples: Samples) -> Device:
    alone = {d: fit_link([(n, samples.per_link(d, n)) for n in p.COPY_BYTES]) for d in DIRECTIONS}
    host = _fit_host(samples, alone["h2d"])
    queues = {engine: _fit_queues(samples, kind) for engine, kind in p.QUEUES.items()}
    device = Device(
        name=_slug(samples.card.name),
        description=f"{CALIBRATED_ON}{samples.card.name}, driver {samples.card.driver}, {samples.date}",
        connections=queues["compute"],
        h2d=_quiet(samples, "h2d", host, alone["h2d"]),
        d2h=_quiet(samples, "d2h", host, alone["d2h"]),
        copy_engines=CopyEngines(min(samples.card.copy_engines, 2), queues["copies"], "same-queue-first"),
        compute=_fit_compute(samples),
        hand_over=_fit_hand_overs(samples, alone),
        host=host,
        sources=SOURCES,
        memory_bytes=samples.card.memory_bytes,
    )
    for adjust in (_fit_rules, _fit_after_wait, _fit_duplex, _fit_crowded, _fit_event_streams):
        device = adjust(samples, device)
    sources = {name: _source(samples, name) for name in sorted(number_names(device))}
    return msgspec.structs.replace(device, sources=sources, spread=_spread(samples, device))


def _check_complete(samples: Samples) -> None:
    """The model is run on the probes as they are now: what others have shown would give another profile unnoticed."""
    chains = dict.fromkeys(chain for chain, _ in p.probes(samples.card.resident_threads))  # a set in their order
    missing = next((c for c in chains if c not in samples.timings and not _is_later(samples, c)), None)
    if missing is not None:
        raise InputError(f"calibration: no chain {missing.key!r}, of an earlier version or cut short; calibrate again")
    other = next((chain for chain in samples.timings if chain not in chains), None)
    if other is not None:
        raise InputError(f"calibration: chain {other.key!r} is no probe of this version; calibrate again")


def _is_later(samples: Samples, chain: Chain) -> bool:
    """Whether samples of before there were such chains are complete without them: what they show is off."""
    return chain.kind in p.LATER and not _has(samples, p.LATER)


def _has(samples: Samples, kinds: Collection[str]) -> bool:
    return any(chain.kind in kinds for chain in samples.timings)


SOURCES = dict.fromkeys(
    ("connections", "h2d", "d2h", "copy_engines", "compute", "hand_over", "host", "memory_bytes"),
    "measured: not yet all of it",
)


def _fit_queues(samples: Samples, kind: str) -> int:
    """Hardware queues: with so many streams blocked, the next one's op waits for them."""
    held = (chain.length for chain in samples.of(kind) if samples.median(chain, "issue_s") > p.QUEUE_GATE_S / 2)
    return min(held, default=p.MOST_QUEUES)


def _fit_rules(samples: Samples, device: Device) -> Device:
    """For each engine the arbitration rule under which the model comes closest to what its probe shows."""
    schedules = {chain.kind: schedule for chain, schedule in p.rules()}

    def best(kind: str, with_rule: Callable[[Arbitration], Device]) -> Arbitration:
        (chain,) = samples.of(kind)
        measured_s = samples.median(chain, "issue_s")
        return min(ARBITRATIONS, key=lambda rule: abs(_issue_s(schedules[kind], with_rule(rule)) - measured_s))

    compute, copy_engines = device.compute, device.copy_engines
    kernels = best(p.RULES["compute"], lambda rule: _replace(device, compute=_replace(compute, arbitration=rule)))
    copies = best(p.RULES["h2d"], lambda rule: _replace(device, copy_engines=_replace(copy_engines, arbitration=rule)))
    return _replace(
        device,
        compute=_replace(compute, arbitration=kernels),
        copy_engines=_replace(copy_engines, arbitration=copies),
    )


def _fit_after_wait(samples: Samples, device: Device) -> Device:
    """What the first calls after a wait take longer: what the model misses of serial chunks."""

    def made(seconds: float) -> Device:
        return _replace(device, host=_replace(device.host, after_wait_s=seconds))

    return made(_missed(samples, list(p.serial()), made)) if _has(samples, p.LATER) else device


def _fit_event_streams(samples: Samples, device: Device) -> Device:
    """What the streams beyond two add to an event's hand-over: what rounds over six take more than the model has."""
    if not _has(samples, p.LATER):
        return device
    shown = _per_link(p.rounds(), device)
    missed = {key: samples.per_link(*key) - seconds for key, seconds in shown.items()}
    few, many = p.ROUND_STREAMS
    more_s = mean(missed[f"round {c}", many] - missed[f"round {c}", few] for c in p.ROUNDS) / (many - few)
    return _replace(device, hand_over=_replace(device.hand_over, event_streams_s=max(0.0, more_s)))


def _missed(samples: Samples, probes: Sequence[Probe], made: Callable[[float], Device]) -> float:
    """The number, at least 0, in which the model's chains are linear, with which they come closest to the samples."""
    without, some = _per_link(probes, made(0.0)), _per_link(probes, made(A_LITTLE_S))
    more = {key: some[key] - seconds for key, seconds in without.items()}
    missed = sum(more[key] * (samples.per_link(*key) - seconds) for key, seconds in without.items())
    return max(0.0, A_LITTLE_S * missed / sum(m * m for m in more.values()))


A_LITTLE_S = 1e-6


def _issue_s(schedule: Schedule, device: Device) -> float:
    """Until the host has issued all but the last call, which waits for everything."""
    return simulate(schedule, device).issued[-1] * 1e-9


def _per_link(probes: Iterable[Probe], device: Device) -> dict[tuple[str, int], float]:
    """What the model shows in chains, as ``Samples.per_link`` does of the measured ones."""
    ends: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for chain, schedule in probes:
        ends.setdefault((chain.kind, chain.size), []).append((chain.length, simulate(schedule, device).makespan_s))
    return {key: (b - a) / (long - short) for key, ((short, a), (long, b)) in ends.items()}


MOST_STEPS, STEP, ENOUGH = 12, 0.1, 0.01  # enough: a step that lowers the sum of the squares by less is the last one


def _solve(
    samples: Samples,
    probes: list[Probe],
    made: Callable[[Sequence[float]], Device],
    starts: Sequence[Sequence[float]],
) -> list[float]:
    """The positive numbers with which the model's chains come closest to the measured ones, error for error relative.

    Levenberg and Marquardt's steps in the logarithms, with differences for derivatives; the best of what several
    starts lead to, since the errors have more than one least.
    """
    import numpy as np

    def errors(logarithms: np.ndarray) -> np.ndarray:
        shown = _per_link(probes, made([float(x) for x in np.exp(logarithms)]))
        return np.array([seconds / samples.per_link(*key) - 1 for key, seconds in shown.items()])

    def descend(at: np.ndarray) -> tuple[float, np.ndarray]:
        now, damping = errors(at), 1e-2
        for _ in range(MOST_STEPS):
            slopes = np.array([(errors(at + STEP * axis) - now) / STEP for axis in np.eye(len(at))])
            square = slopes @ slopes.T
            step = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-12), -slopes @ now).clip(-1, 1)
            tried = errors(at + step)
            if tried @ tried < now @ now:
                gain = 1 - (tried @ tried) / (now @ now)
                at, now, damping = at + step, tried, damping / 5
                if gain < ENOUGH:
                    break
            else:
                damping *= 10
        return float(now @ now), at

    _, best = min((descend(np.log(np.array(start))) for start in starts), key=lambda found: found[0])
    return [float(x) for x in np.exp(best)]


# Seconds, shares and bytes: most of what the other direction costs on either side.
DUPLEX_STARTS = [(1e-6, 4e-6, 0.1, 0.05, 64.0 * KI), (3e-6, 1e-6, 0.05, 0.1, 64.0 * KI)]


def _fit_duplex(samples: Samples, device: Device) -> Device:
    """What the other direction costs: latencies, bandwidths, and the bytes in flight that a command waits behind."""

    def made(numbers: Sequence[float]) -> Device:
        there_s, back_s, there_slower, back_slower, in_flight = numbers
        h2d, d2h = (
            _replace(
                link,
                duplex_latency_s=link.latency_s + more_s,
                crowded_duplex_latency_s=link.latency_s + more_s,
                duplex_bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / (1 + slower),
                in_flight_bytes=max(1, round(in_flight)),
            )
            for link, more_s, slower in ((device.h2d, there_s, there_slower), (device.d2h, back_s, back_slower))
        )
        return _replace(device, h2d=h2d, d2h=d2h)

    return made(_solve(samples, list(p.duplex()), made, DUPLEX_STARTS))


def _fit_crowded(samples: Samples, device: Device) -> Device:
    """What kernels waiting in several queues cost a copy, alone and beside the other direction."""
    if device.connections == 1:
        return device

    def made(numbers: Sequence[float]) -> Device:
        there_s, back_s, both_s, there_slower, back_slower, slowed = numbers
        h2d, d2h = (
            _replace(
                link,
                crowded_bytes=min(LARGEST_BYTES, max(1, round(slowed))),
                crowded_latency_s=link.latency_s + more_s,
                crowded_duplex_latency_s=max(link.latency_s + more_s, link.duplex_latency_s + both_s),
                crowded_bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / (1 + slower),
            )
            for link, more_s, slower in ((device.h2d, there_s, there_slower), (device.d2h, back_s, back_slower))
        )
        return _replace(device, h2d=h2d, d2h=d2h)

    return made(_solve(samples, list(p.crowded()), made, [(1e-6, 1e-6, 0.5e-6, 0.05, 0.05, 2.0 * p.MI)]))


def _replace(value: Part, **fields: object) -> Part:
    return msgspec.structs.replace(value, **fields)


ATTRIBUTES = {
    "copy_engines.count": "measured: the card's asyncEngineCount",
    "memory_bytes": "measured: the card's totalGlobalMem",
    "compute.resident_threads": "measured: the card's multiprocessors times their threads",
    "compute.concurrent_kernels": "published: compute capability 7.0 and later, technical specifications,"
    " https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
    "host.pageable_immediate_bytes": "published: 64 KB, CUDA runtime API, API synchronization behavior,"
    " https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html",
}


def _source(samples: Samples, name: str) -> str:
    card = samples.card
    on = f"{card.name}, driver {card.driver}, CUDA {card.cuda_runtime}, CuPy {card.cupy}, {samples.date}"
    return ATTRIBUTES.get(name, f"measured: streamsim-validate calibrate on {on}")


def _quiet(samples: Samples, direction: Direction, host: Host, link: Link) -> LinkDirection:
    """A direction with the link to itself and nobody waiting."""
    pageable = _fit_pageable(samples, direction, host, link)
    return LinkDirection(
        latency_s=link.latency_s,
        duplex_latency_s=link.latency_s,
        crowded_latency_s=link.latency_s,
        crowded_duplex_latency_s=link.latency_s,
        in_flight_bytes=1,
        bandwidth_bytes_per_s=1 / link.s_per_byte,
        duplex_bandwidth_bytes_per_s=1 / link.s_per_byte,
        crowded_bandwidth_bytes_per_s=1 / link.s_per_byte,
        pageable_latency_s=pageable.latency_s,
        pageable_bandwidth_bytes_per_s=1 / pageable.s_per_byte,
    )


def _fit_pageable(samples: Samples, direction: Direction, host: Host, pinned: Link) -> Link:
    """A pageable copy holds the host: its chain's link holds the call, and the way to the card and back, too.

    Its latency is no less than that of pinned memory, whatever the noise of the line says. Then its rate is the middle
    one of those that the sizes show: small copies may come out of the host's caches, three times as fast as large ones.
    """
    held_s = host.copy_s + host.submit_s + host.wake_s
    points = [(n, samples.per_link(f"pageable {direction}", n) - held_s) for n in p.PAGEABLE_BYTES]
    free = fit_link(points)
    if free.latency_s >= pinned.latency_s:
        return free
    return Link(pinned.latency_s, median((seconds - pinned.latency_s) / n for n, seconds in points))


def _fit_compute(samples: Samples) -> Compute:
    card = samples.card
    kernels = tuple(_fit_kernel(samples, name, parameter) for name, parameter in p.KERNELS)
    return Compute(
        floor_s=min(cost.duration_s[0] for cost in kernels),
        concurrent_kernels=128,
        resident_threads=card.resident_threads,
        arbitration="ready-order",
        kernel_signal="each",
        kernels=kernels,
    )


def _fit_kernel(samples: Samples, name: str, parameter: int) -> KernelCost:
    """Back to back in one stream: the time includes what passes between two kernels of a stream."""
    sizes = p.elements_of(name, samples.card.resident_threads)
    times = [samples.per_link(p.kernel_kind(name, parameter), n) for n in sizes]
    for i, (before, after) in enumerate(pairwise(times)):
        times[i + 1] = max(after, before)  # noise must not make a larger kernel faster
    return KernelCost(name, parameter, sizes, tuple(times))


STEPS = ("hk", "kd", "hd", "kh", "dk", "dh")


def _fit_hand_overs(samples: Samples, alone: dict[Direction, Link]) -> HandOver:
    """From cycles of ops in one stream.

    A cycle gives the sum of its hand-overs, and no sums of cycles tell all six apart; the smallest solution
    shares them out evenly.
    """
    import numpy as np

    kernel_s = samples.per_link(p.kernel_kind(*p.KERNELS[0]), KI)
    rows, sums = [], []
    for cycle in p.CYCLES:
        steps = [a + b for a, b in zip(cycle, cycle[1:] + cycle[0], strict=True)]
        rows.append([float(steps.count(step)) for step in STEPS])
        sums.append(samples.per_link(f"cycle {cycle}", 0) - _own_s(samples, cycle, alone, kernel_s))
    found = dict(
        zip(STEPS, (max(0.0, float(s)) for s in np.linalg.lstsq(np.array(rows), np.array(sums))[0]), strict=True)
    )
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
    """Seconds that the ops of one turn of a cycle take alone, mean of the turns that its chains differ by."""
    short, long = (length for length, _ in samples.points(f"cycle {cycle}"))
    links = {"h": alone["h2d"], "d": alone["d2h"]}
    copies = [links[letter] for letter in cycle * long if letter in links]
    first = len(copies) * short // long
    copies_s = sum(link.at(p.cycle_bytes(i)) for i, link in enumerate(copies) if i >= first)
    return copies_s / (long - short) + cycle.count("k") * kernel_s


class HostCalls(NamedTuple):
    """Seconds that calls which wait for nothing cost the host: numbers of :class:`streamsim.device.profile.Host`."""

    copy_s: float
    kernel_s: float
    streams_s: float
    record_s: float
    wait_s: float
    synchronize_s: float


def fit_host_calls(timings: Timings) -> HostCalls:
    """From the chains of :func:`streamsim_validate.calibrate.probes.host_calls`. Raises InputError when one is missing.

    Copies and kernels at what they cost in the mean of a whole chain: its first calls find the host's caches cold, as
    those of any run do that follows a wait. What more streams cost is read off runs of the same round, since a host
    may run at another speed for seconds.
    """
    copies_s, all_s = _few_streams_s(timings, p.COPIES), _few_streams_s(timings, p.CHUNK)
    found = HostCalls(
        copy_s=copies_s / 2,
        kernel_s=all_s - copies_s,
        streams_s=all_s / len(p.CHUNK) * (float(median(_growths(timings))) - 1) / DOUBLINGS,
        record_s=per_link(timings, "record", 0, "issue_s"),
        wait_s=per_link(timings, "wait", 0, "issue_s"),
        synchronize_s=per_link(timings, "synchronise", 0, "wall_s"),
    )
    return HostCalls(*(max(0.0, seconds) for seconds in found))


DOUBLINGS = math.log2(p.MANY_STREAMS / FEW_STREAMS)


def _few_streams_s(timings: Timings, letters: str) -> float:
    """Seconds in which the host issues a link of a mix over few streams, in the mean of its chain."""
    return float(median(timing.issue_s for timing in _runs(timings, letters, FEW_STREAMS))) / p.MIX_LENGTH


def _growths(timings: Timings) -> list[float]:
    """How many times as long the longer mix takes over many streams as over few, in each round of runs."""
    few, many = (_runs(timings, p.CHUNK, streams) for streams in (FEW_STREAMS, p.MANY_STREAMS))
    return [b.issue_s / a.issue_s for a, b in zip(few, many, strict=False)]  # an interrupted round has but one


def _runs(timings: Timings, letters: str, streams: int) -> Sequence[Timing]:
    chain = p.mix_chain(letters, streams)
    if chain not in timings:
        raise InputError(f"calibration: no chain {chain.key!r}; calibrate again")
    return timings[chain]


def _fit_host(samples: Samples, h2d: Link) -> Host:
    calls = fit_host_calls(samples.timings)
    tiny_s = samples.per_link(p.kernel_kind(*p.KERNELS[0]), KI)
    held = (
        samples.per_link("blocking copy", p.LINK_BYTES, "wall_s") - calls.copy_s - h2d.at(p.LINK_BYTES),
        samples.per_link("blocking kernel", 0, "wall_s") - calls.kernel_s - tiny_s,
    )
    there_and_back_s = max(0.0, sum(held) / 2)  # to the card and back; which way takes how long does not show
    nodes = samples.points("graph")
    (first, first_s), (last, last_s) = nodes[0], nodes[-1]
    copies_s = first * (last_s - first_s) / (last - first)  # those of the shortest, which take longer than their issue
    return Host(
        **calls._asdict(),
        submit_s=there_and_back_s / 2,
        wake_s=there_and_back_s / 2,
        graph_launch_s=max(0.0, first_s - copies_s - there_and_back_s / 2),
        graph_node_s=max(0.0, samples.per_link("graph", p.LINK_BYTES, "issue_s")),
        pageable_immediate_bytes=64 * KI,
    )


# Spread


def _spread(samples: Samples, device: Device) -> dict[str, float]:
    """Relative standard deviation of each number as calibration measures it.

    The scatter of the repeats and, in quadrature, the misfit: how far the number would have to move for the model to
    show in the probes behind it what was measured. A number that is 0 has none.
    """
    links = [m for probes, numbers in FITTED.items() for m in _misfits(samples, list(probes()), device, numbers)]
    found = {MODEL_SPREAD: rms(m.relative for m in links)}
    for d in DIRECTIONS:
        found |= {f"{d}.{name}": value for name, value in _link_spread(samples, d, getattr(device, d), links).items()}
    return (
        found
        | _kernel_spread(samples, device)
        | _host_spread(samples, device.host)
        | _hand_over_spread(samples, device)
        | _later_spread(samples, device)
    )


FITTED = {p.copies: 4, p.duplex: 5, p.crowded: 6}  # probes: how many numbers were fitted to them


class Misfit(NamedTuple):
    """A chain of a profile's probes: seconds of one link as measured, and what the model misses of it."""

    kind: str
    size: int
    measured_s: float
    missed_s: float

    @property
    def relative(self) -> float:
        """Of the time of a link."""
        return self.missed_s / self.measured_s

    @property
    def of_copy(self) -> float:
        """Of the time of a copy: of two in series in ``duplex h2d`` and ``duplex d2h`` only one is beside another."""
        return self.relative * (2 if self.kind in TWO_IN_SERIES else 1)


TWO_IN_SERIES = tuple(f"duplex {d}" for d in DIRECTIONS)
LATENCY_BYTES = p.MI  # copies of at most so much tell of the latency, larger ones of the bandwidth


def _misfits(samples: Samples, probes: Sequence[Probe], device: Device, fitted: int = 0) -> list[Misfit]:
    """What the model misses of probes, had it not been fitted to them.

    Numbers that were ``fitted`` to n chains make their mean square smaller by (n - fitted) / n.
    """
    shown = _per_link(probes, device)
    more = math.sqrt(len(shown) / (len(shown) - fitted))
    measured = {key: samples.per_link(*key) for key in shown}
    return [Misfit(*key, measured[key], (shown[key] - measured[key]) * more) for key in shown]


def _link_spread(samples: Samples, d: Direction, link: LinkDirection, misfits: Sequence[Misfit]) -> dict[str, float]:
    """Of the numbers of one direction, each from the chains in which it shows."""
    kinds = {
        "": (d,),
        "duplex_": (f"duplex {d}", "duplex"),
        "crowded_": (f"crowded {d}",),
        "crowded_duplex_": ("crowded",),
    }
    found = dict.fromkeys(("pageable_latency_s", "pageable_bandwidth_bytes_per_s"), samples.scatter(f"pageable {d}"))
    for which, chains in kinds.items():
        scatter = rms(samples.scatter(kind) for kind in chains)
        own = [m for m in misfits if m.kind in chains]
        name = f"{which}latency_s"
        latency_s = getattr(link, name)
        if latency_s:
            found[name] = math.hypot(scatter, rms(m.missed_s / latency_s for m in own if m.size <= LATENCY_BYTES))
        name = f"{which}bandwidth_bytes_per_s"
        if hasattr(link, name):
            large = [m for m in own if m.size > LATENCY_BYTES]
            found[name] = math.hypot(scatter, rms(m.of_copy for m in large or own))
    return found


def _kernel_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Of all the kernels' times together."""
    misfits = _misfits(samples, list(p.kernels(samples.card.resident_threads)), device)
    scatter = rms(samples.scatter(p.kernel_kind(*kernel)) for kernel in p.KERNELS)
    return {"compute.kernels": math.hypot(scatter, rms(m.relative for m in misfits))}


def _host_spread(samples: Samples, host: Host) -> dict[str, float]:
    """Of the host's calls: the scatter of the chains in which they show; what more streams cost is a difference.

    Calls that do not wait: and, in quadrature, by how much more or less they cost among others.
    """
    issue = math.hypot(samples.scatter(p.mix_kind(p.CHUNK), "issue_s"), _among_others(samples, host))
    found = dict.fromkeys(HostCalls._fields, issue)
    del found["streams_s"]
    if host.streams_s:
        growth, half = median_and_spread(tuple(_growths(samples.timings)))
        found["streams_s"] = min(1.0, NORMAL * half / (growth - 1))  # of a difference near 0 there is no more to say
    found["synchronize_s"] = samples.scatter("synchronise", "wall_s")
    found |= dict.fromkeys(("submit_s", "wake_s"), samples.scatter("blocking kernel", "wall_s"))
    found |= dict.fromkeys(("graph_launch_s", "graph_node_s"), samples.scatter("graph"))
    return {f"host.{call}": scatter for call, scatter in found.items()}


def _among_others(samples: Samples, host: Host) -> float:
    """How far the calls of the cycles are from the mixes', each relative to the middle one.

    Not how far all of them are: a host that has changed its speed between the two has done so for every call.
    """
    calls_s = {"h": host.copy_s, "d": host.copy_s, "k": host.kernel_s}
    issued_s = (samples.per_link(f"cycle {cycle}", 0, "issue_s") for cycle in p.CYCLES)
    found = [seconds / sum(map(calls_s.__getitem__, cycle)) for seconds, cycle in zip(issued_s, p.CYCLES, strict=True)]
    middle = median(found)
    return rms(one / middle - 1 for one in found)


EVENT, PING_PONG = "event_s", "ping-pong"
NO_STEPS = (EVENT, "event_streams_s", "kernel_to_kernel_s")  # of the numbers of hand-overs


def _hand_over_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Of the mean hand-over of a run: single ones scatter by more, and a program has many."""
    steps = {f: getattr(device.hand_over, f) for f in HandOver.__struct_fields__ if f not in NO_STEPS}
    mean_s = sum(steps.values()) / len(steps)
    scatter_s = rms(math.sqrt(variance) / count for variance, count in _cycle_runs(samples))
    found = {f"hand_over.{f}": scatter_s / mean_s for f, seconds in steps.items() if seconds}
    event_s = device.hand_over.event_s
    if event_s:
        ping_pong = [m for m in _misfits(samples, list(p.hand_overs()), device) if m.kind == PING_PONG]
        misfit = rms(m.missed_s / event_s for m in ping_pong)
        found[f"hand_over.{EVENT}"] = math.hypot(samples.scatter(PING_PONG), misfit)
    return found


def _later_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Of the numbers whose chains they do not explain alone: what the model misses of a chain, as a part of them."""
    after_wait_s, streams_s = device.host.after_wait_s, device.hand_over.event_streams_s
    found = {}
    if after_wait_s:
        missed_s = rms(m.missed_s / len(m.kind.split()[-1]) for m in _misfits(samples, list(p.serial()), device))
        found["host.after_wait_s"] = min(1.0, missed_s / after_wait_s)
    if streams_s:
        few, many = p.ROUND_STREAMS
        missed = {(m.kind, m.size): m.missed_s for m in _misfits(samples, list(p.rounds()), device)}
        missed_s = rms((missed[f"round {c}", many] - missed[f"round {c}", few]) / (many - few) for c in p.ROUNDS)
        found["hand_over.event_streams_s"] = min(1.0, missed_s / streams_s)
    return found


def _cycle_runs(samples: Samples) -> Iterator[tuple[float, int]]:
    """Of the long chain of each cycle the variance of its runs, in square seconds, and the number of hand-overs."""
    for cycle in p.CYCLES:
        longest = max(samples.of(f"cycle {cycle}"), key=lambda chain: chain.length)
        runs = [timing.device_s for timing in samples.timings[longest]]
        yield (variance(runs) if len(runs) > 1 else 0.0), longest.length * len(cycle)


def rms(values: Iterable[float]) -> float:
    """Root of the mean square."""
    found = list(values)
    return math.sqrt(sum(value * value for value in found) / len(found))


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
