"""What the calls of whole programs cost the host: probes, their fit and its spread.

The same calls take longer in a program than in a chain of their own: each works on memory of its own, copies, launches
and events take turns, and the first of each kind and of each stream are cold. So the probes are small programs of
many makes, and what a call costs is what explains them all best. A host runs at another speed from one tenth of a
second to the next, so each run is set beside a chain of calls that is issued just before it and just after, the pace.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from streamsim.errors import InputError
from streamsim.program.patterns import breadth_first, depth_first, prefetch, ring
from streamsim.program.schedule import Copy, Kernel, RecordEvent, WaitEvent
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim_validate.calibrate.probe import FLOAT_BYTES, KI, TINY
from streamsim_validate.records import (
    RECORD_CHAINS,
    SYNCHRONISE_CHAINS,
    WAIT_CHAINS,
    Chain,
    HostCalls,
    relative_deviation,
    relay,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from streamsim.program.schedule import Schedule
    from streamsim_validate.calibrate.probe import Probe
    from streamsim_validate.calibrate.samples import Samples

SMALL, LARGE = 32 * KI, 256 * KI  # elements of a chunk: copies of 128 KiB and 1 MiB, whose calls take longer
BUFFERS = 2


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
    "relay": (
        ((4, 2), (14, 3), (40, 9)),
        lambda chunks, streams: relay(_workload(chunks), chunks, streams),
    ),
    "prefetch": (
        ((4, 3), (12, 3), (32, 3)),
        lambda chunks, _: prefetch(_workload(chunks, LARGE), chunks, BUFFERS),
    ),
    "ring": (
        ((8, 2), (28, 2)),
        lambda chunks, streams: ring(_workload(chunks), chunks, streams + 1, streams),
    ),
}
PROGRAM_KINDS = {f"program {name}" for name in PROGRAMS}
CALLS = (Copy, Kernel, RecordEvent, WaitEvent)


def programs() -> Iterator[Probe]:
    """Every program; its chain's size is how many streams it has, and its length how many chunks."""
    for name, (sizes, made) in PROGRAMS.items():
        for chunks, streams in sizes:
            chain = Chain(f"program {name}", streams, chunks)
            schedule = made(chunks, streams)
            assert len(schedule.used_streams) == streams, chain
            yield chain, replace(schedule, name=f"probe {chain.key}")


class _Fit(NamedTuple):
    """The calls, with which standard deviation each is known, in seconds, and what they leave of the programs' times.

    ``missed``: of each program, relative.
    """

    calls: HostCalls
    deviations: HostCalls
    missed: np.ndarray


def fit_calls(samples: Samples) -> HostCalls:
    """What explains the programs best, relative error for relative error.

    Raises InputError when there are none, or no chains of events.
    """
    return _fit(samples).calls


def _fit(samples: Samples) -> _Fit:
    """Least squares. Records and waits come in pairs, so what each costs is to the other as in chains of its own."""
    chains = {kind: samples.per_link(kind, 0, "issue_s") for kind in (RECORD_CHAINS, WAIT_CHAINS)}
    found = list(programs())
    took = np.array([took_in_paces(samples, chain) for chain, _ in found]) * samples.pace_s
    shares = np.array([_counts(schedule, chains) for _, schedule in found]) / took[:, None]
    each = np.linalg.lstsq(shares, np.ones(len(found)), rcond=None)[0].clip(min=0)
    missed = 1 - shares @ each
    variance = float(missed @ missed) / (len(found) - len(each))
    deviations = np.sqrt(variance * np.linalg.inv(shares.T @ shares).diagonal())
    return _Fit(_calls(samples, each, chains), _calls(samples, deviations, chains), missed)


def _calls(samples: Samples, each: np.ndarray, chains: Mapping[str, float]) -> HostCalls:
    copy_s, kernel_s, events, first_call_s, first_on_stream_s = map(float, each)
    return HostCalls(
        copy_s=copy_s,
        kernel_s=kernel_s,
        record_s=events * chains[RECORD_CHAINS],
        wait_s=events * chains[WAIT_CHAINS],
        synchronize_s=max(0.0, samples.per_link(SYNCHRONISE_CHAINS, 0, "wall_s")),
        first_call_s=first_call_s,
        first_on_stream_s=first_on_stream_s,
    )


def took_in_paces(samples: Samples, chain: Chain) -> float:
    """How many times as long as the pace beside it issuing a program takes. Raises InputError without runs or paces."""
    if not samples.timings.get(chain) or chain not in samples.paces_s:
        raise InputError(f"calibration: no chain {chain.key!r} with the pace beside it; calibrate again")
    runs = zip(samples.timings[chain], samples.paces_s[chain], strict=True)
    return float(median(run.issue_s / pace_s for run, pace_s in runs))


def _counts(schedule: Schedule, chains: Mapping[str, float]) -> tuple[float, ...]:
    """Copies, kernels, seconds of events in chains of their own; first calls of their kind, and so in their streams."""
    copies, kernels, records, waits = (sum(isinstance(op, call) for op in schedule.ops) for call in CALLS)
    events_s = records * chains[RECORD_CHAINS] + waits * chains[WAIT_CHAINS]
    kinds = sum(count > 0 for count in (copies, kernels, records, waits))
    queues = {(op.stream, getattr(op, "direction", "")) for op in schedule.ops if isinstance(op, Copy | Kernel)}
    return copies, kernels, events_s, kinds, len(queues)


def calls_spread(samples: Samples) -> dict[str, float]:
    """Of each call that waits for nothing, relative to it.

    The scatter of the programs' runs and, in quadrature, what the fit misses of them; of what it can tell least from
    the rest, its own standard deviation.
    """
    found = _fit(samples)
    runs = (samples.timings[chain] for chain, _ in programs())
    scatter = median(relative_deviation(tuple(timing.issue_s for timing in own)) for own in runs)
    issue = math.hypot(scatter, math.sqrt(float(np.mean(found.missed**2))))
    spread = dict.fromkeys(HostCalls._fields, issue)
    for name in ("first_call_s", "first_on_stream_s"):
        seconds, deviation_s = getattr(found.calls, name), getattr(found.deviations, name)
        del spread[name]
        if seconds:
            spread[name] = min(1.0, deviation_s / seconds)
    return spread
