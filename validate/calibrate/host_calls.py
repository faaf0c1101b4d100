"""The host's costs of its calls: of whole programs, of calls that wait, and of a graph's launch. Probes, fit, spread.

The same calls take longer in a program than in a chain: each works on memory of its own, copies, launches and events
take turns, and the first calls of each stream are cold. So the probes are small programs of many kinds, and the fitted
costs explain them all best. A host changes its speed within tenths of a second, so each run is set beside a chain of
calls, the pace, that is issued just before and just after it. Older samples have no such programs; their mixes of calls
are fitted instead.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from streamsim.device import Device, Host
from streamsim.errors import InputError
from streamsim.program import (
    Copy,
    Direction,
    Kernel,
    Op,
    RecordEvent,
    Schedule,
    Synchronize,
    WaitEvent,
    Workload,
    WorkloadKernel,
    breadth_first,
    depth_first,
    prefetch,
    ring,
)
from streamsim_validate.calibrate.engines import CYCLES, KERNELS, kernel_kind
from streamsim_validate.calibrate.front_ends import non_negative
from streamsim_validate.calibrate.links import Link
from streamsim_validate.calibrate.samples import (
    BUFFERS,
    FLOAT_BYTES,
    KI,
    LINK_BYTES,
    MIX_BYTES,
    TINY,
    Probe,
    Samples,
    misfits,
    moved,
    nearest_number,
    probe_of,
    rms,
    tiny,
    with_kernel,
)
from streamsim_validate.records import (
    MIX_LENGTH,
    MIXES,
    RECORD_CHAINS,
    SYNCHRONISE_CHAINS,
    WAIT_CHAINS,
    Chain,
    HostCalls,
    mix_kind,
    relative_deviation,
    relay,
)

SMALL, LARGE = 32 * KI, 256 * KI  # elements of a chunk: copies of 128 KiB and 1 MiB, whose calls take longer
PREFETCH_BUFFERS = 2


def _workload(chunks: int, elements: int = SMALL, inputs: int = 1, kernels: int = 1) -> Workload:
    kernel = WorkloadKernel(TINY.name, parameter=TINY.parameter)
    return Workload(chunks * elements, (FLOAT_BYTES,) * inputs, (FLOAT_BYTES,), (kernel,) * kernels)


# By what a program is: how many chunks over how many streams, and how it is made. The streams of ``prefetch`` are
# three, and those of a ring with one buffer more are handed on by events.
PROGRAMS: Mapping[str, tuple[tuple[tuple[int, int], ...], Callable[[int, int], Schedule]]] = {
    "depth-first": (
        ((2, 1), (4, 2), (9, 3), (16, 16), (40, 5), (64, 2), (96, 24)),
        lambda chunks, streams: depth_first(_workload(chunks), chunks, streams),
    ),
    "large copies": (
        ((3, 2), (8, 8), (20, 4), (48, 3), (64, 32)),
        lambda chunks, streams: depth_first(_workload(chunks, LARGE), chunks, streams),
    ),
    "breadth-first": (
        ((3, 3), (12, 4), (24, 24), (48, 7)),
        lambda chunks, streams: breadth_first(_workload(chunks), chunks, streams),
    ),
    "breadth-first, large copies": (
        ((5, 1), (32, 12)),
        lambda chunks, streams: breadth_first(_workload(chunks, LARGE), chunks, streams),
    ),
    "two kernels": (
        ((6, 2), (20, 8), (32, 3)),
        lambda chunks, streams: depth_first(_workload(chunks, kernels=2), chunks, streams),
    ),
    "two inputs": (
        ((5, 5), (30, 3)),
        lambda chunks, streams: depth_first(_workload(chunks, LARGE, inputs=2), chunks, streams),
    ),
    "relay": (((4, 2), (14, 3), (40, 9)), lambda chunks, streams: relay(_workload(chunks), chunks, streams)),
    "prefetch": (
        ((4, 3), (12, 3), (32, 3)),
        lambda chunks, _: prefetch(_workload(chunks, LARGE), chunks, PREFETCH_BUFFERS),
    ),
    "ring": (((8, 2), (28, 2)), lambda chunks, streams: ring(_workload(chunks), chunks, streams + 1, streams)),
}
PROGRAM_KINDS = {f"program {name}" for name in PROGRAMS}
CALLS = (Copy, Kernel, RecordEvent, WaitEvent)


def mixes() -> Iterator[Probe]:
    """Yield copies and launches in the mix of a live pipeline, over few and many streams: they show the host's speed.

    They are short and name no buffers, so they can be measured among other schedules.
    """
    for letters, streams in MIXES:
        ops = [op for i in range(MIX_LENGTH) for op in _mix(letters, 1 + i % streams)]
        yield probe_of(mix_kind(letters), streams, MIX_LENGTH, ops, streams)


def _mix(letters: str, stream: int) -> Iterator[Op]:
    made: dict[str, Op] = {"h": Copy("h2d", MIX_BYTES, stream), "d": Copy("d2h", MIX_BYTES, stream), "k": tiny(stream)}
    return (made[letter] for letter in letters)


def programs() -> Iterator[Probe]:
    """Yield every program. The size of its chain is its number of streams, and the length its number of chunks."""
    for name, (sizes, made) in PROGRAMS.items():
        for chunks, streams in sizes:
            chain = Chain(f"program {name}", streams, chunks)
            schedule = made(chunks, streams)
            assert len(schedule.used_streams) == streams, chain
            yield chain, replace(schedule, name=f"probe {chain.key}")


class _Fit(NamedTuple):
    """The fitted calls, the standard deviation of each in seconds, and the relative misfit of each program."""

    calls: HostCalls
    deviations: HostCalls
    missed: np.ndarray


def fit_calls(samples: Samples, after_wait_s: float = 0.0) -> HostCalls:
    """Return the costs of calls that explain the programs best, with relative errors.

    ``after_wait_s``: the extra time of the first copy and the first kernel of a program. Raises InputError if programs
    have no runs or no paces, or took less than that, and if there are no chains of events.
    """
    return _fit(samples, after_wait_s).calls


def refit_calls(samples: Samples, device: Device) -> Device:
    """Return the device with calls fitted again, now that the extra time of first calls after a wait is known.

    Once is enough: copies and kernels move by 0.06 us at most (eight calibrations on two cards).
    """
    return with_calls(device, fit_calls(samples, device.host.after_wait_s))


def with_calls(device: Device, calls: HostCalls) -> Device:
    """Return the device with these costs of calls."""
    return replace(device, host=replace(device.host, **calls._asdict()))


def _fit(samples: Samples, after_wait_s: float) -> _Fit:
    """Return the least squares fit. Records and waits come in pairs: their ratio is the one of their own chains."""
    events_s = {kind: max(0.0, samples.per_link(kind, 0, "issue_s")) for kind in (RECORD_CHAINS, WAIT_CHAINS)}
    found = _issued(samples)
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
    return _Fit(_calls(samples, each, events_s), _calls(samples, deviations, events_s), missed)


def _issued(samples: Samples) -> list[tuple[Schedule, float]]:
    """Return the programs with the seconds in which the host issued each; or the mixes of calls."""
    if not samples.has(PROGRAM_KINDS):
        return [(schedule, samples.median(chain, "issue_s")) for chain, schedule in mixes()]
    return [(schedule, took_in_paces(samples, chain) * samples.pace_s) for chain, schedule in programs()]


def _calls(samples: Samples, each: np.ndarray, events_s: Mapping[str, float]) -> HostCalls:
    copy_s, kernel_s, events, first_on_stream_s = map(float, each)
    return HostCalls(
        copy_s=copy_s,
        kernel_s=kernel_s,
        record_s=events * events_s[RECORD_CHAINS],
        wait_s=events * events_s[WAIT_CHAINS],
        synchronize_s=max(0.0, samples.per_link(SYNCHRONISE_CHAINS, 0, "wall_s")),
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
    copies, kernels, records, waits = (sum(isinstance(op, call) for op in schedule.ops) for call in CALLS)
    queues = {(op.stream, getattr(op, "direction", "")) for op in schedule.ops if isinstance(op, Copy | Kernel)}
    return copies, kernels, records * events_s[RECORD_CHAINS] + waits * events_s[WAIT_CHAINS], len(queues)


def calls_spread(samples: Samples, after_wait_s: float) -> dict[str, float]:
    """Return the relative spread of each call that waits for nothing.

    It is the scatter of the programs' runs and the misfit, in quadrature. The first call on a stream adds its own
    standard deviation, because the fit can tell it least from the others.
    """
    found, of_programs = _fit(samples, after_wait_s), samples.has(PROGRAM_KINDS)
    kinds = PROGRAM_KINDS if of_programs else {chain.kind for chain, _ in mixes()}
    runs = (own for chain, own in samples.timings.items() if chain.kind in kinds)
    scatter = median(relative_deviation(tuple(timing.issue_s for timing in own)) for own in runs)
    missed = rms(found.missed) if of_programs else _among_others(samples, found.calls)
    spread = dict.fromkeys(HostCalls._fields, math.hypot(scatter, missed))
    if seconds := found.calls.first_on_stream_s:
        own = found.deviations.first_on_stream_s / seconds
        spread["first_on_stream_s"] = min(1.0, math.hypot(scatter, missed, own))
    return spread


def _among_others(samples: Samples, calls: HostCalls) -> float:
    """Return how far the calls of the cycles are from the mixes', relative to their median."""
    calls_s = {"h": calls.copy_s, "d": calls.copy_s, "k": calls.kernel_s}
    issued_s = (samples.per_link(f"cycle {cycle}", 0, "issue_s") for cycle in CYCLES)
    found = [seconds / sum(map(calls_s.__getitem__, cycle)) for seconds, cycle in zip(issued_s, CYCLES, strict=True)]
    return rms(one / median(found) - 1 for one in found)


HOST_LENGTHS = (16, 64)
GRAPH_NODES = (8, 32, 128)
SERIAL_KINDS = {"serial hkd", "serial hgkd"}  # older samples have none


def host_calls() -> Iterator[Probe]:
    """Yield mixes of calls, and chains of one other call: without named buffers, to be measured among schedules."""
    yield from mixes()
    for n in HOST_LENGTHS:
        yield probe_of(RECORD_CHAINS, 0, n, [RecordEvent(i, 1 + i % 4) for i in range(n)], 4, events=n)
        records: list[Op] = [RecordEvent(i, 1 + i) for i in range(4)]
        waits: list[Op] = [WaitEvent(i % 4, 1 + (i + 1) % 4) for i in range(n)]
        yield probe_of(WAIT_CHAINS, 0, n, records + waits, 4, events=4)  # a wait for what was never recorded is cheaper
        yield probe_of(SYNCHRONISE_CHAINS, 0, n, [Synchronize(stream=1)] * n)


def waiting_calls() -> Iterator[Probe]:
    """Yield probes of calls that wait, and of a graph's launch."""
    for n in HOST_LENGTHS:
        yield probe_of("blocking copy", LINK_BYTES, n, [Copy("h2d", LINK_BYTES, 1, blocking=True)] * n)
        yield probe_of("blocking kernel", 0, n, [TINY, Synchronize(stream=1)] * n)
    for n in GRAPH_NODES:
        yield probe_of("graph", LINK_BYTES, n, [Copy("h2d", LINK_BYTES, 1)] * n, launch="graph")


def serial() -> Iterator[Probe]:
    """Yield chunks whose copies all hold the host, each from memory of its own: most calls come after a wait."""
    made: dict[str, Callable[[int], list[Op]]] = {
        "hkd": lambda i: [_held("h2d", i), *_touched(i), _held("d2h", i)],
        "hgkd": lambda i: [_held("h2d", 2 * i), _held("h2d", 2 * i + 1), *_touched(i), _held("d2h", i)],
    }
    for letters, chunk in made.items():
        for n in HOST_LENGTHS:
            ops = [op for i in range(n) for op in chunk(i)]
            yield probe_of(f"serial {letters}", MIX_BYTES, n, ops, buffers=BUFFERS)


def _held(direction: Direction, number: int) -> Copy:
    return replace(moved(direction, MIX_BYTES, 1, number), blocking=True)


def _touched(number: int) -> list[Op]:
    return [with_kernel("h2d", MIX_BYTES, 1, number)[1]]


# The fit


def fit_host(samples: Samples, h2d: Link) -> Host:
    """Return the costs of the host's calls. A call that waits also holds the host for the way to the card and back."""
    calls = fit_calls(samples)
    tiny_s = samples.per_link(kernel_kind(*KERNELS[0]), KI)
    held = (
        samples.per_link("blocking copy", LINK_BYTES, "wall_s") - calls.copy_s - h2d.at(LINK_BYTES),
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
        graph_node_s=max(0.0, samples.per_link("graph", LINK_BYTES, "issue_s")),
        pageable_immediate_bytes=64 * KI,
    )


def fit_after_wait(samples: Samples, device: Device) -> Device:
    """Return the device with the extra time of first calls after a wait: the model's misfit of serial chunks."""

    def made(seconds: float) -> Device:
        return replace(device, host=replace(device.host, after_wait_s=seconds))

    return made(nearest_number(samples, list(serial()), made)) if samples.has(SERIAL_KINDS) else device


# Spread


def host_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the host's calls: of programs, and from the scatter of the chains of other calls."""
    host = device.host
    found = calls_spread(samples, host.after_wait_s)
    found["synchronize_s"] = samples.scatter(SYNCHRONISE_CHAINS, "wall_s")
    found |= dict.fromkeys(("submit_s", "wake_s"), samples.scatter("blocking kernel", "wall_s"))
    found |= dict.fromkeys(("graph_launch_s", "graph_node_s"), samples.scatter("graph"))
    return {f"host.{call}": scatter for call, scatter in found.items()}


def after_wait_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the extra time of first calls after a wait: the share that the model misses."""
    after_wait_s = device.host.after_wait_s
    if not after_wait_s:
        return {}
    missed_s = rms(m.missed_s / len(m.kind.split()[-1]) for m in misfits(samples, list(serial()), device))
    return {"host.after_wait_s": min(1.0, missed_s / after_wait_s)}
