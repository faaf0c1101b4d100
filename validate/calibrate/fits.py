"""The fit of a profile to the raw samples, with its sources and its spread. Pure arithmetic.

If a probe shows one number alone, that number is read off. If several numbers act together, the fit looks for those
with which the model, run on the same probes, predicts the measured times. A row of ``ADJUSTMENTS`` fits numbers that
act on the model's time of their probes; a row of ``SPREADS`` says how far numbers would have to move.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import mean, median, variance
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from streamsim.device import (
    ARBITRATIONS,
    COMPILED,
    Arbitration,
    Compute,
    CopyEngines,
    Device,
    HandOver,
    Host,
    KernelCost,
    LinkDirection,
    number_names,
    with_values,
)
from streamsim.errors import InputError
from streamsim.program import Copy, Direction, Kernel, RecordEvent, Schedule, WaitEvent
from streamsim_validate.calibrate import probes
from streamsim_validate.calibrate.front_ends import fit_front_end, non_negative
from streamsim_validate.calibrate.samples import (
    Samples,
    misfits,
    nearest_number,
    nearest_numbers,
    rms,
    simulated_issue_s,
)
from streamsim_validate.records import CALIBRATED_ON, CallCosts, Chain, relative_deviation


class Link(NamedTuple):
    """Seconds of latency and seconds per byte."""

    latency_s: float
    s_per_byte: float

    def at(self, n_bytes: int) -> float:
        """Return the seconds of a copy."""
        return self.latency_s + n_bytes * self.s_per_byte


def fit_link(points: Sequence[tuple[float, float]]) -> Link:
    """Return the weighted least squares line through (bytes, seconds): errors are relative to each point's time."""
    weights = [1 / took_s for _, took_s in points]  # ZeroDivisionError where longer chains took no longer
    n_bytes, seconds = np.array(points).T
    slope, latency_s = map(float, np.polyfit(n_bytes, seconds, 1, w=weights))
    return Link(max(0.0, latency_s), slope)


def quiet_link(samples: Samples, direction: Direction, host: Host, link: Link) -> LinkDirection:
    """Return a direction with the link to itself and nobody waiting."""
    pageable, states = cold_link(samples, direction, host, link), ("", "duplex_", "crowded_")
    return LinkDirection(
        **{f"{state}latency_s": link.latency_s for state in (*states, "crowded_duplex_")},
        **{f"{state}bandwidth_bytes_per_s": 1 / link.s_per_byte for state in states},
        in_flight_bytes=1,
        pageable_latency_s=pageable.latency_s,
        pageable_bandwidth_bytes_per_s=1 / pageable.s_per_byte,
    )


def cold_link(samples: Samples, direction: Direction, host: Host, pinned: Link) -> Link:
    """Return pageable copies of memory that no cache holds; of warm memory if the samples have no cold copies.

    The latency is the one of warm copies, because all cold copies have one size. Cold copies are never faster than warm
    ones.
    """
    warm, kind = warm_link(samples, direction, host, pinned), probes.COLD_KINDS[direction]
    if not samples.has({kind}):
        return warm
    copy_s = samples.per_link(kind, probes.LARGEST_PAGEABLE_BYTES) - _held_s(host) - warm.latency_s
    return Link(warm.latency_s, max(warm.s_per_byte, copy_s / probes.LARGEST_PAGEABLE_BYTES))


def warm_link(samples: Samples, direction: Direction, host: Host, pinned: Link) -> Link:
    """Return pageable copies of memory that has just been copied.

    The latency is at least the one of pinned memory, whatever the noise of the line gives. If the line gives less, the
    rate is the median over the sizes: small copies may come out of the host's caches, three times as fast as large
    ones.
    """
    kind = f"pageable {direction}"
    points = [(n, samples.per_link(kind, n) - _held_s(host)) for n in probes.PAGEABLE_BYTES]
    free = fit_link(points)
    if free.latency_s >= pinned.latency_s:
        return free
    return Link(pinned.latency_s, median((seconds - pinned.latency_s) / n for n, seconds in points))


def _held_s(host: Host) -> float:
    """Return the seconds for which a pageable copy holds the host beside the copy: the call, and there and back."""
    return host.copy_s + host.submit_s + host.wake_s


# Seconds of H2D and of D2H, then shares of both: most of what the other direction costs on either side. The last number
# is the bytes in flight. Of crowded copies, the seconds of both ways stand in the middle.
DUPLEX_STARTS = [(1e-6, 4e-6, 0.1, 0.05, 64.0 * probes.KI), (3e-6, 1e-6, 0.05, 0.1, 64.0 * probes.KI)]
CROWDED_STARTS = [(1e-6, 1e-6, 0.5e-6, 0.05, 0.05)]


def fit_duplex(samples: Samples, device: Device) -> Device:
    """Return the device with the costs of the other direction: latencies, bandwidths, and bytes in flight."""

    def made(numbers: Sequence[float]) -> Device:
        new: dict[str, float] = {}
        for d, more_s, slower in zip(probes.DIRECTIONS, numbers[:2], numbers[2:4], strict=True):
            link = getattr(device, d)
            new[f"{d}.duplex_latency_s"] = new[f"{d}.crowded_duplex_latency_s"] = link.latency_s + more_s
            new[f"{d}.duplex_bandwidth_bytes_per_s"] = link.bandwidth_bytes_per_s / (1 + slower)
            new[f"{d}.in_flight_bytes"] = max(1, round(numbers[4]))
        return with_values(device, new)

    return made(nearest_numbers(samples, list(probes.duplex()), made, DUPLEX_STARTS))


def fit_crowded(samples: Samples, device: Device) -> Device:
    """Return the device with the cost for a copy of kernels that wait in several queues, one way and both ways."""
    if device.connections == 1:
        return device

    def made(numbers: Sequence[float]) -> Device:
        new: dict[str, float] = {}
        for d, more_s, slower in zip(probes.DIRECTIONS, numbers[:2], numbers[3:], strict=True):
            link = getattr(device, d)
            new[f"{d}.crowded_latency_s"] = link.latency_s + more_s
            both_s = link.duplex_latency_s + numbers[2]
            new[f"{d}.crowded_duplex_latency_s"] = max(link.latency_s + more_s, both_s)
            new[f"{d}.crowded_bandwidth_bytes_per_s"] = link.bandwidth_bytes_per_s / (1 + slower)
        return with_values(device, new)

    return made(nearest_numbers(samples, list(probes.crowded()), made, CROWDED_STARTS))


# What passes between two kernels of a graph, as a share of the least that one takes by itself: on an H100 1.0 of 2.5 us
# and on an H200 0.9 of 2.2 us, in chains of 200 launches over kernels that spin for 0 to 10 us.
GRAPH_GAP = 0.4


def fit_compute(samples: Samples) -> Compute:
    """Return the kernels' costs, and the numbers of the card's specification."""
    card = samples.card
    kernels = tuple(_fit_kernel(samples, name, parameter) for name, parameter in probes.KERNELS)
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
    sizes = probes.elements_of(name, samples.card.resident_threads)
    times = [samples.per_link(probes.kernel_kind(name, parameter), n) for n in sizes]
    for i, (before, after) in enumerate(pairwise(times)):
        times[i + 1] = max(after, before)  # noise must not make a larger kernel faster
    layer, waves = samples.card.multiprocessors * probes.BLOCK, max(probes.WAVES) * samples.card.resident_threads
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
        seconds = float(np.interp(stair, list(known), list(known.values())))
        found += [((stair - 1) * layer + 1, seconds)] if stair > 1 else []
        found.append((stair * layer, seconds))
    return found + [point for point in points if point[0] > found[-1][0]]


NAMES = {"h": "h2d", "k": "kernel", "d": "d2h"}
STEPS = {step: f"{NAMES[step[0]]}_to_{NAMES[step[1]]}_s" for step in ("hk", "kd", "hd", "kh", "dk", "dh")}


def fit_hand_overs(samples: Samples, alone: dict[Direction, Link]) -> HandOver:
    """Return the hand-overs that cycles of ops in one stream show.

    A cycle gives the sum of its hand-overs, and no sums of cycles tell all six apart. The smallest solution shares them
    out evenly. If it has one below zero, the nearest solution without one is taken.
    """
    kernel_s = samples.per_link(probes.kernel_kind(*probes.KERNELS[0]), probes.KI)
    rows: list[Sequence[float]] = []
    sums: list[float] = []
    for cycle in probes.CYCLES:
        steps = [a + b for a, b in zip(cycle, cycle[1:] + cycle[0], strict=True)]
        rows.append([float(steps.count(step)) for step in STEPS])
        sums.append(samples.per_link(f"cycle {cycle}", 0) - _own_s(samples, cycle, alone, kernel_s))
    each = np.linalg.lstsq(np.array(rows), np.array(sums))[0]
    if each.min() < 0:
        each = non_negative(rows, sums)
    found = dict(zip(STEPS.values(), map(float, each), strict=True))
    event_s = max(0.0, samples.per_link("ping-pong", 0) - kernel_s)
    return HandOver(**found, kernel_to_kernel_s=0.0, event_s=event_s)  # kernels' own times have theirs


def _own_s(samples: Samples, cycle: str, alone: dict[Direction, Link], kernel_s: float) -> float:
    """Return the seconds that the ops of one turn of a cycle take alone: the mean over the turns between its chains."""
    short, long = (length for length, _ in samples.points(f"cycle {cycle}"))
    links = {"h": alone["h2d"], "d": alone["d2h"]}
    copies = [links[letter] for letter in cycle * long if letter in links]
    first = len(copies) * short // long
    copies_s = sum(link.at(probes.cycle_bytes(i)) for i, link in enumerate(copies) if i >= first)
    return copies_s / (long - short) + cycle.count("k") * kernel_s


def fit_event_streams(samples: Samples, device: Device) -> Device:
    """Return the device with the cost that streams beyond two add to an event's hand-over, from rounds over six."""
    more_s = -mean(_missed_per_stream(samples, device))
    return with_values(device, {"hand_over.event_streams_s": max(0.0, more_s)})


def _missed_per_stream(samples: Samples, device: Device) -> list[float]:
    """Return for each kind of round by how many seconds the model misses what a stream more adds."""
    few, many = probes.ROUND_STREAMS
    missed = {(m.kind, m.size): m.missed_s for m in misfits(samples, list(probes.rounds()), device)}
    return [(missed[f"round {c}", many] - missed[f"round {c}", few]) / (many - few) for c in probes.ROUNDS]


def fit_queues(samples: Samples, kind: str) -> int:
    """Return the number of hardware queues: the fewest blocked streams that also block the next one."""
    held = (chain.length for chain in samples.of(kind) if samples.median(chain, "issue_s") > probes.QUEUE_GATE_S / 2)
    return min(held, default=probes.MOST_QUEUES)


def fit_rules(samples: Samples, device: Device) -> Device:
    """Return the device with the arbitration rule of each engine that brings the model closest to its probe."""
    schedules = {chain.kind: schedule for chain, schedule in probes.rules()}
    found: dict[str, Arbitration] = {}
    for kind, (engine, _) in probes.RULES.items():
        (chain,) = samples.of(kind)
        measured_s = samples.median(chain, "issue_s")
        name = f"{engine}.arbitration"
        missed_s = {
            rule: abs(simulated_issue_s(schedules[kind], with_values(device, {name: rule})) - measured_s)
            for rule in ARBITRATIONS
        }
        found[name] = min(missed_s, key=missed_s.__getitem__)
    return with_values(device, found)


class CallsFit(NamedTuple):
    """The fitted calls, the standard deviation of each in seconds, and the relative misfit of each program."""

    calls: CallCosts
    deviations: CallCosts
    missed: np.ndarray


def refit_calls(samples: Samples, device: Device) -> Device:
    """Return the device with calls fitted again, now that the extra time of first calls after a wait is known.

    Once is enough: copies and kernels move by 0.06 us at most (eight calibrations on two cards).
    """
    calls = fit_programs(samples, device.host.after_wait_s).calls
    return with_values(device, {f"host.{call}": seconds for call, seconds in calls._asdict().items()})


def fit_programs(samples: Samples, after_wait_s: float = 0.0) -> CallsFit:
    """Return the costs of calls that explain the programs best, with relative errors.

    Records and waits come in pairs: their ratio is the one of their own chains. ``after_wait_s``: the extra time of the
    first copy and the first kernel of a program. Raises InputError if programs have no runs or no paces, or took less
    than that, and if there are no chains of events.
    """
    events_s = {
        kind: max(0.0, samples.per_link(kind, 0, "issue_s")) for kind in (probes.RECORD_CHAINS, probes.WAIT_CHAINS)
    }
    if samples.has(probes.PROGRAM_KINDS):
        found = [(schedule, took_in_paces(samples, chain) * samples.pace_s) for chain, schedule in probes.programs()]
    else:  # older samples
        found = [(schedule, samples.median(chain, "issue_s")) for chain, schedule in probes.mixes()]
    # the first copy and the first kernel come after a wait
    firsts = [2 * ({Copy, Kernel} <= {type(op) for op in schedule.ops}) for schedule, _ in found]
    took_s = np.array([seconds - after_wait_s * first for (_, seconds), first in zip(found, firsts, strict=True)])
    if took_s.min() <= 0:
        raise InputError("calibration: a program was issued sooner than its first calls alone take; calibrate again")
    shares = np.array([_counts(schedule, events_s) for schedule, _ in found]) / took_s[:, None]
    each = non_negative(shares, np.ones(len(took_s)))
    told, deviations = np.flatnonzero(each), np.zeros(len(each))
    if not shares[:, EVENTS].any():
        each[EVENTS] = 1.0  # where no program has any
    missed = 1 - shares[:, told] @ each[told]
    variance = float(missed @ missed) / max(1, len(took_s) - len(told))
    deviations[told] = np.sqrt(variance * np.linalg.pinv(shares[:, told].T @ shares[:, told]).diagonal())
    return CallsFit(_calls(samples, each, events_s), _calls(samples, deviations, events_s), missed)


def _calls(samples: Samples, each: np.ndarray, events_s: Mapping[str, float]) -> CallCosts:
    copy_s, kernel_s, events, first_on_stream_s = map(float, each)
    return CallCosts(
        copy_s=copy_s,
        kernel_s=kernel_s,
        record_s=events * events_s[probes.RECORD_CHAINS],
        wait_s=events * events_s[probes.WAIT_CHAINS],
        synchronize_s=max(0.0, samples.per_link(probes.SYNCHRONISE_CHAINS, 0, "wall_s")),
        first_on_stream_s=first_on_stream_s,
    )


def took_in_paces(samples: Samples, chain: Chain) -> float:
    """Return the issue time of a program over its pace's. Raises InputError without runs or paces."""
    if not samples.timings.get(chain) or chain not in samples.paces_s:
        raise InputError(f"calibration: no chain {chain.key!r} with the pace beside it; calibrate again")
    runs = zip(samples.timings[chain], samples.paces_s[chain], strict=True)
    return float(median(run.issue_s / pace_s for run, pace_s in runs))


EVENTS = 2  # where they stand among the counts


def _counts(schedule: Schedule, events_s: Mapping[str, float]) -> tuple[float, ...]:
    """Return the copies, kernels, seconds of events in chains of their own, and first calls of a kind in a stream."""
    calls = (Copy, Kernel, RecordEvent, WaitEvent)
    copies, kernels, records, waits = (sum(isinstance(op, call) for op in schedule.ops) for call in calls)
    queues = {(op.stream, getattr(op, "direction", "")) for op in schedule.ops if isinstance(op, Copy | Kernel)}
    return copies, kernels, records * events_s[probes.RECORD_CHAINS] + waits * events_s[probes.WAIT_CHAINS], len(queues)


def fit_host(samples: Samples, h2d: Link) -> Host:
    """Return the costs of the host's calls. A call that waits also holds the host for the way to the card and back."""
    calls = fit_programs(samples).calls
    tiny_s = samples.per_link(probes.kernel_kind(*probes.KERNELS[0]), probes.KI)
    held = (
        samples.per_link("blocking copy", probes.LINK_BYTES, "wall_s") - calls.copy_s - h2d.at(probes.LINK_BYTES),
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
        graph_node_s=max(0.0, samples.per_link("graph", probes.LINK_BYTES, "issue_s")),
        pageable_immediate_bytes=64 * probes.KI,
    )


def fit_after_wait(samples: Samples, device: Device) -> Device:
    """Return the device with the extra time of first calls after a wait: the model's misfit of serial chunks."""

    def made(seconds: float) -> Device:
        return with_values(device, {"host.after_wait_s": seconds})

    return made(nearest_number(samples, list(probes.serial()), made))


FITTED = {probes.copies: 4, probes.duplex: 5, probes.crowded: 6}  # probes: how many numbers were fitted to them
TWO_IN_SERIES = "duplex h2d", "duplex d2h"  # two copies beside one: the misfit of one is twice theirs
LATENCY_BYTES = probes.MI  # copies of at most so much tell of the latency, larger ones of the bandwidth


def link_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the numbers of both directions, each from the chains that show it."""
    missed = [m for made, numbers in FITTED.items() for m in misfits(samples, list(made()), device, numbers)]
    found: dict[str, float] = {}
    for d in probes.DIRECTIONS:
        cold, warm = probes.COLD_KINDS[d], f"pageable {d}"
        found[f"{d}.pageable_latency_s"] = samples.scatter(warm)
        found[f"{d}.pageable_bandwidth_bytes_per_s"] = samples.scatter(cold if samples.has({cold}) else warm)
        for state, kinds in (
            ("", (d,)),
            ("duplex_", (f"duplex {d}", "duplex")),
            ("crowded_", (f"crowded {d}",)),
            ("crowded_duplex_", ("crowded",)),  # which has no bandwidth of its own
        ):
            scatter, own = rms(map(samples.scatter, kinds)), [m for m in missed if m.kind in kinds]
            name, link = f"{state}latency_s", getattr(device, d)
            if latency_s := getattr(link, name):
                small = (m.missed_s / latency_s for m in own if m.size <= LATENCY_BYTES)
                found[f"{d}.{name}"] = math.hypot(scatter, rms(small))
            name = f"{state}bandwidth_bytes_per_s"
            if hasattr(link, name):
                large = [m for m in own if m.size > LATENCY_BYTES] or own
                of_copies = (m.relative * (2 if m.kind in TWO_IN_SERIES else 1) for m in large)
                found[f"{d}.{name}"] = math.hypot(scatter, rms(of_copies))
    return found


def kernel_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of all kernels' times together."""
    missed = misfits(samples, list(probes.kernels(samples.card.resident_threads)), device)
    scatter = rms(samples.scatter(probes.kernel_kind(*kernel)) for kernel in probes.KERNELS)
    return {"compute.kernels": math.hypot(scatter, rms(m.relative for m in missed))}


def hand_over_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of a run's mean hand-over: single ones scatter more, but a program has many."""
    steps = {f"hand_over.{step}": getattr(device.hand_over, step) for step in STEPS.values()}
    mean_s = sum(steps.values()) / len(steps)
    scatter_s = rms(math.sqrt(variance) / count for variance, count in _cycle_runs(samples))
    found = {name: scatter_s / mean_s for name, seconds in steps.items() if seconds}
    if event_s := device.hand_over.event_s:
        missed = misfits(samples, list(probes.hand_overs()), device)
        misfit = rms(m.missed_s / event_s for m in missed if m.kind == "ping-pong")
        found["hand_over.event_s"] = math.hypot(samples.scatter("ping-pong"), misfit)
    return found


def _cycle_runs(samples: Samples) -> Iterator[tuple[float, int]]:
    """Yield for the long chain of each cycle its runs' variance, in square seconds, and its number of hand-overs."""
    for cycle in probes.CYCLES:
        longest = max(samples.of(f"cycle {cycle}"), key=lambda chain: chain.length)
        runs = [timing.device_s for timing in samples.timings[longest]]
        yield (variance(runs) if len(runs) > 1 else 0.0), longest.length * len(cycle)


def calls_spread(samples: Samples, after_wait_s: float) -> dict[str, float]:
    """Return the relative spread of each call that waits for nothing.

    It is the scatter of the programs' runs and the misfit, in quadrature. The first call on a stream adds its own
    standard deviation, because the fit can tell it least from the others.
    """
    found, of_programs = fit_programs(samples, after_wait_s), samples.has(probes.PROGRAM_KINDS)
    kinds = probes.PROGRAM_KINDS if of_programs else {chain.kind for chain, _ in probes.mixes()}
    runs = (own for chain, own in samples.timings.items() if chain.kind in kinds)
    scatter = median(relative_deviation(tuple(timing.issue_s for timing in own)) for own in runs)
    missed = rms(found.missed) if of_programs else _among_others(samples, found.calls)
    spread = dict.fromkeys(CallCosts._fields, math.hypot(scatter, missed))
    if seconds := found.calls.first_on_stream_s:
        own = found.deviations.first_on_stream_s / seconds
        spread["first_on_stream_s"] = min(1.0, math.hypot(scatter, missed, own))
    return spread


def _among_others(samples: Samples, calls: CallCosts) -> float:
    """Return how far the calls of the cycles are from the mixes', relative to their median."""
    calls_s = {"h": calls.copy_s, "d": calls.copy_s, "k": calls.kernel_s}
    issued_s = (samples.per_link(f"cycle {cycle}", 0, "issue_s") for cycle in probes.CYCLES)
    found = [seconds / sum(calls_s[c] for c in cycle) for seconds, cycle in zip(issued_s, probes.CYCLES, strict=True)]
    return rms(one / median(found) - 1 for one in found)


def host_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the host's calls: of programs, and from the scatter of the chains of other calls."""
    host = device.host
    found = calls_spread(samples, host.after_wait_s)
    found["synchronize_s"] = samples.scatter(probes.SYNCHRONISE_CHAINS, "wall_s")
    found |= dict.fromkeys(("submit_s", "wake_s"), samples.scatter("blocking kernel", "wall_s"))
    found |= dict.fromkeys(("graph_launch_s", "graph_node_s"), samples.scatter("graph"))
    return {f"host.{call}": scatter for call, scatter in found.items()}


def missed_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of what first calls after a wait, and more streams, take longer: the share that is missed."""
    found, after_wait_s, streams_s = {}, device.host.after_wait_s, device.hand_over.event_streams_s
    if after_wait_s:
        missed_s = rms(m.missed_s / len(m.kind.split()[-1]) for m in misfits(samples, list(probes.serial()), device))
        found["host.after_wait_s"] = min(1.0, missed_s / after_wait_s)
    if streams_s:
        found["hand_over.event_streams_s"] = min(1.0, rms(_missed_per_stream(samples, device)) / streams_s)
    return found


# Groups of kinds, each added after the one before. Kept samples may lack the last groups as a whole.
LATER = probes.PROGRAM_KINDS, set(probes.COLD_KINDS.values())
ADJUSTMENTS = (fit_rules, fit_after_wait, refit_calls, fit_duplex, fit_crowded, fit_event_streams)
SPREADS = (link_spread, kernel_spread, host_spread, hand_over_spread, missed_spread)


def fit(samples: Samples) -> Device:
    """Return the profile that explains the samples.

    Raises InputError if probes are missing or differ from today's, and if no card can have shown these times.
    """
    _check_complete(samples)
    try:
        return _fit(samples)
    except ArithmeticError as error:  # a slope of 0: times that are each possible, but not together
        raise InputError(
            f"calibration: the samples give no profile ({error}): longer chains took no longer; calibrate again"
        ) from error


def _fit(samples: Samples) -> Device:
    alone = {d: fit_link([(n, samples.per_link(d, n)) for n in probes.COPY_BYTES]) for d in probes.DIRECTIONS}
    host = fit_host(samples, alone["h2d"])
    queues, copy_queues = (fit_queues(samples, kind) for kind in probes.QUEUES)
    device = Device(
        name="-".join("".join(c if c.isalnum() else " " for c in samples.card.name.lower()).split()),
        description=f"{CALIBRATED_ON}{samples.card.name}, driver {samples.card.driver}, {samples.date}",
        connections=queues,
        h2d=quiet_link(samples, "h2d", host, alone["h2d"]),
        d2h=quiet_link(samples, "d2h", host, alone["d2h"]),
        copy_engines=CopyEngines(min(samples.card.copy_engines, 2), copy_queues, "same-queue-first"),
        compute=fit_compute(samples),
        hand_over=fit_hand_overs(samples, alone),
        host=host,
        sources=dict.fromkeys(PARTS, "measured: not yet all of it"),
        memory_bytes=samples.card.memory_bytes,
    )
    for adjust in ADJUSTMENTS:
        device = adjust(samples, device)
    front_ends = {
        name: fit_front_end(own.rounds, _source(samples, f"host.{name}", own.version), is_library=name != COMPILED)
        for name, own in samples.front_ends.items()
    }
    sources = {name: _source(samples, name) for name in sorted(number_names(device))}
    for d, kind in probes.COLD_KINDS.items():
        if samples.has({kind}):
            warm = 1e-9 / warm_link(samples, d, host, alone[d]).s_per_byte
            sources[f"{d}.pageable_bandwidth_bytes_per_s"] += f"; {warm:.2f} GB/s from the host's caches"
    return replace(device, front_ends=front_ends, sources=sources, spread=spread(samples, device))


def _check_complete(samples: Samples) -> None:
    """Raise InputError unless the samples are of today's probes, on which the model is run."""
    chains = dict.fromkeys(chain for chain, _ in probes.all_probes(samples.card.resident_threads))  # a set, in order
    later = set().union(*(kinds for kinds in LATER if not samples.has(kinds)))  # older samples lack a whole group
    missing = next((c for c in chains if c not in samples.timings and c.kind not in later), None)
    if missing is not None:
        raise InputError(f"calibration: no chain {missing.key!r}, of an earlier version or cut short; calibrate again")
    other = next((chain for chain in samples.timings if chain not in chains), None)
    if other is not None:
        raise InputError(f"calibration: chain {other.key!r} is no probe of this version; calibrate again")


PARTS = ("connections", "h2d", "d2h", "copy_engines", "compute", "hand_over", "host", "memory_bytes")
ATTRIBUTES = {
    "copy_engines.count": "measured: the card's asyncEngineCount",
    "memory_bytes": "measured: the card's totalGlobalMem",
    "compute.resident_threads": "measured: the card's multiprocessors times their threads",
    "compute.graph_gap_s": "assumed: two fifths of compute.floor_s, as measured on an H100 and an H200",
    "compute.concurrent_kernels": "published: compute capability 7.0 and later, technical specifications,"
    " https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
    "host.pageable_immediate_bytes": "published: 64 KB, CUDA runtime API, API synchronization behavior,"
    " https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html",
}


def _source(samples: Samples, name: str, library: str = "") -> str:
    card = samples.card
    library = library or f"CuPy {card.cupy}"
    on = f"{card.name}, driver {card.driver}, CUDA {card.cuda_runtime}, {library}, {samples.date}"
    return ATTRIBUTES.get(name, f"measured: streamsim-validate calibrate on {on}")


def spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the relative standard deviation of each number as calibration measures it.

    The scatter of the repeats and, in quadrature, the misfit: how far the number would have to move for the model to
    show in the probes behind it what was measured. A number that is 0 has none.
    """
    return {name: value for part in SPREADS for name, value in part(samples, device).items()}
