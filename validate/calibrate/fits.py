"""Every probe of a calibration, their measurement on a card, and the fit of a profile to the raw samples.

The fit is pure arithmetic. If a probe shows one number alone, that number is read off. If several numbers act together,
the fit looks for those with which the model, run on the same probes, predicts the measured times.
"""

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from typing import NamedTuple

import msgspec

from streamsim.collector import collector_off
from streamsim.device import COMPILED, CopyEngines, Device, number_names
from streamsim.errors import InputError
from streamsim_validate.calibrate import engines, front_ends, host_calls, links
from streamsim_validate.calibrate.samples import COPY_KINDS, DIRECTIONS, Probe, Samples
from streamsim_validate.gpu import Bench, Gpu, Replayer, prepare
from streamsim_validate.progress import OnStep, quietly, shuffled_rounds
from streamsim_validate.records import CALIBRATED_ON, MIXES, PACE_CHAIN, Chain, Timing, mix_kind

# Groups of kinds, each added after the one before. Kept samples may lack the last groups as a whole.
LATER = host_calls.SERIAL_KINDS | engines.ROUND_KINDS, host_calls.PROGRAM_KINDS, set(links.COLD_KINDS.values())
PROBES = (  # with those of the kernels, which the card's size sets
    links.copies,
    links.duplex,
    links.crowded,
    links.pageable,
    engines.hand_overs,
    host_calls.host_calls,
    host_calls.programs,
    host_calls.waiting_calls,
    host_calls.serial,
    engines.rounds,
    engines.queues,
    engines.rules,
)
ADJUSTMENTS = (
    engines.fit_rules,
    host_calls.fit_after_wait,
    host_calls.refit_calls,
    links.fit_duplex,
    links.fit_crowded,
    engines.fit_event_streams,
)
SPREADS = (
    links.link_spread,
    engines.kernel_spread,
    host_calls.host_spread,
    engines.hand_over_spread,
    host_calls.after_wait_spread,
    engines.event_streams_spread,
)


def probes(resident_threads: int) -> Iterator[Probe]:
    """Yield every probe, and its schedule, for a card that holds ``resident_threads`` threads."""
    yield from engines.kernels(resident_threads)
    for part in PROBES:
        yield from part()


WARM_UP_RUNS, REPEATS = 1, 7  # rounds
OVER_MANY_STREAMS = {*engines.QUEUES.values(), *(mix_kind(letters) for letters, _ in MIXES)}  # mixes: run by run
FIRST, OVER_MANY, OF_PROGRAMS = PARTS = (
    "calibrating",
    "calibrating over many streams",
    "calibrating the calls of programs",
)
SWEPT = bytearray(8 << 20)  # more than a core's own caches hold; without it programs are issued 2 % faster (H200)
RUNS = dict.fromkeys(COPY_KINDS, 2) | dict.fromkeys(host_calls.PROGRAM_KINDS, 4)  # in each round, of what scatters most


def measure_probes(gpu: Gpu, on_step: OnStep = quietly) -> Samples:
    """Measure every probe, repeats interleaved in shuffled order and some more often. Return the raw samples.

    The probes that need a stream for each of many queues come late: once the driver has made its queues, everything
    else is a little slower. Last come the programs. Each stands between two runs of the pace and behind a sweep of the
    host's caches, which stands for the other programs between two runs of one in a record.
    """
    found = dict(probes(gpu.card.resident_threads))
    timings: dict[Chain, list[Timing]] = {chain: [] for chain in found}
    paces_s: dict[Chain, list[float]] = {chain: [] for chain in found if chain.kind in host_calls.PROGRAM_KINDS}
    bench, rng = Bench(gpu, in_order=False), random.Random(0)  # which queue a stream has matters to no probe
    try:
        prepare(bench, found.values())
        with closing(Replayer(found[PACE_CHAIN], bench)) as pace:
            for what in PARTS:
                part = [chain for chain in found if _part_of(chain) == what]
                beside = pace if what == OF_PROGRAMS else None
                ready = [(c, _Ready(Replayer(found[c], bench), timings[c], beside, paces_s.get(c, []))) for c in part]
                _measure([one for chain, one in ready for _ in range(RUNS.get(chain.kind, 1))], rng, what, on_step)
    finally:
        bench.close()
    return Samples(gpu.card, date.today().isoformat(), timings, paces_s=paces_s)


def _part_of(chain: Chain) -> str:
    if chain.kind in host_calls.PROGRAM_KINDS:
        return OF_PROGRAMS
    return OVER_MANY if chain.kind in OVER_MANY_STREAMS else FIRST


class _Ready(NamedTuple):
    """A probe that is ready, the lists for its samples, and the pace to issue beside it, if any."""

    replayer: Replayer
    timings: list[Timing]
    pace: Replayer | None
    paces_s: list[float]

    def run(self, counts: bool) -> None:
        """Measure the probe. The sample is kept if it ``counts``."""
        if self.pace:
            bytes(SWEPT)
        sample, paces_s = self.replayer.run_beside([self.pace.issue] if self.pace else [])
        if counts:
            self.timings.append(Timing(sample.device_s, sample.wall_s, sample.issue_s))
            self.paces_s.extend(paces_s)


def _measure(ready: list[_Ready], rng: random.Random, what: str, on_step: OnStep) -> None:
    with collector_off():
        for turn, one in shuffled_rounds(ready, WARM_UP_RUNS + REPEATS, rng, what, on_step):
            one.run(counts=turn >= WARM_UP_RUNS)
    for one in ready:
        one.replayer.close()


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
    alone = {d: links.fit_link([(n, samples.per_link(d, n)) for n in links.COPY_BYTES]) for d in DIRECTIONS}
    host = host_calls.fit_host(samples, alone["h2d"])
    queues = {engine: engines.fit_queues(samples, kind) for engine, kind in engines.QUEUES.items()}
    device = Device(
        name="-".join("".join(c if c.isalnum() else " " for c in samples.card.name.lower()).split()),
        description=f"{CALIBRATED_ON}{samples.card.name}, driver {samples.card.driver}, {samples.date}",
        connections=queues["compute"],
        h2d=links.quiet_link(samples, "h2d", host, alone["h2d"]),
        d2h=links.quiet_link(samples, "d2h", host, alone["d2h"]),
        copy_engines=CopyEngines(min(samples.card.copy_engines, 2), queues["copies"], "same-queue-first"),
        compute=engines.fit_compute(samples),
        hand_over=engines.fit_hand_overs(samples, alone),
        host=host,
        sources=SOURCES,
        memory_bytes=samples.card.memory_bytes,
    )
    for adjust in ADJUSTMENTS:
        device = adjust(samples, device)
    known = {
        name: front_ends.fit_front_end(
            library.rounds, _source(samples, f"host.{name}", library.version), is_library=name != COMPILED
        )
        for name, library in samples.front_ends.items()
    }
    recorders = {
        name: front_ends.fit_recorder(measured.pairs, _source(samples, f"host.{name}", measured.version))
        for name, measured in samples.recorders.items()
    }
    sources = {name: _source(samples, name) for name in sorted(number_names(device))}
    for d in (d for d, kind in links.COLD_KINDS.items() if samples.has({kind})):
        warm = links.warm_link(samples, d, host, alone[d])
        sources[f"{d}.pageable_bandwidth_bytes_per_s"] += f"; {1e-9 / warm.s_per_byte:.2f} GB/s from the host's caches"
    device = msgspec.structs.replace(device, front_ends=known, recorders=recorders)
    return msgspec.structs.replace(device, sources=sources, spread=spread(samples, device))


def _check_complete(samples: Samples) -> None:
    """Raise InputError unless the samples are of today's probes, on which the model is run."""
    chains = dict.fromkeys(chain for chain, _ in probes(samples.card.resident_threads))  # a set in their order
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
    found: dict[str, float] = {}
    for part in SPREADS:
        found |= part(samples, device)
    return found
