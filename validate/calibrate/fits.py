"""The fit of a profile to the raw samples, with its sources and its spread. Pure arithmetic.

A row of ``ADJUSTMENTS`` fits numbers that act on the model's time of their probes; a row of ``SPREADS`` says how far
numbers would have to move.
"""

import math
from collections.abc import Iterator
from statistics import median, variance

import msgspec

from streamsim.device import COMPILED, CopyEngines, Device, HandOver, number_names
from streamsim.errors import InputError
from streamsim_validate.calibrate import parts, probes
from streamsim_validate.calibrate.front_ends import fit_front_end, fit_recorder
from streamsim_validate.calibrate.samples import Samples, misfits, rms
from streamsim_validate.records import CALIBRATED_ON, HostCalls, relative_deviation

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


EVENT, PING_PONG = "event_s", "ping-pong"
NO_STEPS = (EVENT, "event_streams_s", "kernel_to_kernel_s")  # of the numbers of hand-overs


def hand_over_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of a run's mean hand-over: single ones scatter more, but a program has many."""
    steps = {f: getattr(device.hand_over, f) for f in HandOver.__struct_fields__ if f not in NO_STEPS}
    mean_s = sum(steps.values()) / len(steps)
    scatter_s = rms(math.sqrt(variance) / count for variance, count in _cycle_runs(samples))
    found = {f"hand_over.{f}": scatter_s / mean_s for f, seconds in steps.items() if seconds}
    event_s = device.hand_over.event_s
    if event_s:
        ping_pong = [m for m in misfits(samples, list(probes.hand_overs()), device) if m.kind == PING_PONG]
        misfit = rms(m.missed_s / event_s for m in ping_pong)
        found[f"hand_over.{EVENT}"] = math.hypot(samples.scatter(PING_PONG), misfit)
    return found


def _cycle_runs(samples: Samples) -> Iterator[tuple[float, int]]:
    """Yield for the long chain of each cycle its runs' variance, in square seconds, and its number of hand-overs."""
    for cycle in probes.CYCLES:
        longest = max(samples.of(f"cycle {cycle}"), key=lambda chain: chain.length)
        runs = [timing.device_s for timing in samples.timings[longest]]
        yield (variance(runs) if len(runs) > 1 else 0.0), longest.length * len(cycle)


def event_streams_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the cost of more streams at an event's hand-over: the share that the model misses."""
    streams_s = device.hand_over.event_streams_s
    if not streams_s:
        return {}
    few, many = probes.ROUND_STREAMS
    missed = {(m.kind, m.size): m.missed_s for m in misfits(samples, list(probes.rounds()), device)}
    missed_s = rms((missed[f"round {c}", many] - missed[f"round {c}", few]) / (many - few) for c in probes.ROUNDS)
    return {"hand_over.event_streams_s": min(1.0, missed_s / streams_s)}


def calls_spread(samples: Samples, after_wait_s: float) -> dict[str, float]:
    """Return the relative spread of each call that waits for nothing.

    It is the scatter of the programs' runs and the misfit, in quadrature. The first call on a stream adds its own
    standard deviation, because the fit can tell it least from the others.
    """
    found, of_programs = parts.fit_programs(samples, after_wait_s), samples.has(probes.PROGRAM_KINDS)
    kinds = probes.PROGRAM_KINDS if of_programs else {chain.kind for chain, _ in probes.mixes()}
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


def after_wait_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the extra time of first calls after a wait: the share that the model misses."""
    after_wait_s = device.host.after_wait_s
    if not after_wait_s:
        return {}
    missed_s = rms(m.missed_s / len(m.kind.split()[-1]) for m in misfits(samples, list(probes.serial()), device))
    return {"host.after_wait_s": min(1.0, missed_s / after_wait_s)}


# Groups of kinds, each added after the one before. Kept samples may lack the last groups as a whole.
LATER = probes.SERIAL_KINDS | probes.ROUND_KINDS, probes.PROGRAM_KINDS, set(probes.COLD_KINDS.values())
ADJUSTMENTS = (
    parts.fit_rules,
    parts.fit_after_wait,
    parts.refit_calls,
    parts.fit_duplex,
    parts.fit_crowded,
    parts.fit_event_streams,
)
SPREADS = (link_spread, kernel_spread, host_spread, hand_over_spread, after_wait_spread, event_streams_spread)


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
    alone = {d: parts.fit_link([(n, samples.per_link(d, n)) for n in probes.COPY_BYTES]) for d in probes.DIRECTIONS}
    host = parts.fit_host(samples, alone["h2d"])
    queues = {engine: parts.fit_queues(samples, kind) for engine, kind in probes.QUEUES.items()}
    device = Device(
        name="-".join("".join(c if c.isalnum() else " " for c in samples.card.name.lower()).split()),
        description=f"{CALIBRATED_ON}{samples.card.name}, driver {samples.card.driver}, {samples.date}",
        connections=queues["compute"],
        h2d=parts.quiet_link(samples, "h2d", host, alone["h2d"]),
        d2h=parts.quiet_link(samples, "d2h", host, alone["d2h"]),
        copy_engines=CopyEngines(min(samples.card.copy_engines, 2), queues["copies"], "same-queue-first"),
        compute=parts.fit_compute(samples),
        hand_over=parts.fit_hand_overs(samples, alone),
        host=host,
        sources=SOURCES,
        memory_bytes=samples.card.memory_bytes,
    )
    for adjust in ADJUSTMENTS:
        device = adjust(samples, device)
    known = {
        name: fit_front_end(
            library.rounds, _source(samples, f"host.{name}", library.version), is_library=name != COMPILED
        )
        for name, library in samples.front_ends.items()
    }
    recorders = {
        name: fit_recorder(measured.pairs, _source(samples, f"host.{name}", measured.version))
        for name, measured in samples.recorders.items()
    }
    sources = {name: _source(samples, name) for name in sorted(number_names(device))}
    for d in (d for d, kind in probes.COLD_KINDS.items() if samples.has({kind})):
        warm = parts.warm_link(samples, d, host, alone[d])
        sources[f"{d}.pageable_bandwidth_bytes_per_s"] += f"; {1e-9 / warm.s_per_byte:.2f} GB/s from the host's caches"
    device = msgspec.structs.replace(device, front_ends=known, recorders=recorders)
    return msgspec.structs.replace(device, sources=sources, spread=spread(samples, device))


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


SOURCES = dict.fromkeys(
    ("connections", "h2d", "d2h", "copy_engines", "compute", "hand_over", "host", "memory_bytes"),
    "measured: not yet all of it",
)
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
