"""The fit of a profile to the raw samples of the calibration's probes: pure arithmetic, with or without a card.

If a probe shows one number alone, that number is read off. If several numbers act together, the fit looks for those
with which the model, run on the same probes, predicts the measured times.
"""

import msgspec

from streamsim.device import COMPILED, CopyEngines, Device, number_names
from streamsim.errors import InputError
from streamsim_validate.calibrate.all_probes import LATER, probes
from streamsim_validate.calibrate.copies import COLD_KINDS, COPY_BYTES, fit_link, quiet_link, warm_link
from streamsim_validate.calibrate.front_ends import fit_front_end
from streamsim_validate.calibrate.hand_overs import (
    event_streams_spread,
    fit_event_streams,
    fit_hand_overs,
    hand_over_spread,
)
from streamsim_validate.calibrate.host_probes import (
    after_wait_spread,
    fit_after_wait,
    fit_host,
    host_spread,
)
from streamsim_validate.calibrate.kernels import fit_compute, kernel_spread
from streamsim_validate.calibrate.link_spread import link_spread
from streamsim_validate.calibrate.probe import DIRECTIONS
from streamsim_validate.calibrate.program_calls import refit_calls
from streamsim_validate.calibrate.queues import QUEUES, fit_queues, fit_rules
from streamsim_validate.calibrate.recorders import fit_recorder
from streamsim_validate.calibrate.samples import Samples
from streamsim_validate.calibrate.shared_link import fit_crowded, fit_duplex
from streamsim_validate.records import CALIBRATED_ON, Chain


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
    alone = {d: fit_link([(n, samples.per_link(d, n)) for n in COPY_BYTES]) for d in DIRECTIONS}
    host = fit_host(samples, alone["h2d"])
    queues = {engine: fit_queues(samples, kind) for engine, kind in QUEUES.items()}
    device = Device(
        name=_slug(samples.card.name),
        description=f"{CALIBRATED_ON}{samples.card.name}, driver {samples.card.driver}, {samples.date}",
        connections=queues["compute"],
        h2d=quiet_link(samples, "h2d", host, alone["h2d"]),
        d2h=quiet_link(samples, "d2h", host, alone["d2h"]),
        copy_engines=CopyEngines(min(samples.card.copy_engines, 2), queues["copies"], "same-queue-first"),
        compute=fit_compute(samples),
        hand_over=fit_hand_overs(samples, alone),
        host=host,
        sources=SOURCES,
        memory_bytes=samples.card.memory_bytes,
    )
    for adjust in (fit_rules, fit_after_wait, refit_calls, fit_duplex, fit_crowded, fit_event_streams):
        device = adjust(samples, device)
    front_ends = {
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
    for d in (d for d, kind in COLD_KINDS.items() if samples.has({kind})):
        warm = warm_link(samples, d, host, alone[d])
        sources[f"{d}.pageable_bandwidth_bytes_per_s"] += f"; {1e-9 / warm.s_per_byte:.2f} GB/s from the host's caches"
    device = msgspec.structs.replace(device, front_ends=front_ends, recorders=recorders)
    return msgspec.structs.replace(device, sources=sources, spread=spread(samples, device))


def _check_complete(samples: Samples) -> None:
    """Raise InputError unless the samples are of today's probes, on which the model is run."""
    chains = dict.fromkeys(chain for chain, _ in probes(samples.card.resident_threads))  # a set in their order
    missing = next((c for c in chains if c not in samples.timings and not _is_later(samples, c)), None)
    if missing is not None:
        raise InputError(f"calibration: no chain {missing.key!r}, of an earlier version or cut short; calibrate again")
    other = next((chain for chain in samples.timings if chain not in chains), None)
    if other is not None:
        raise InputError(f"calibration: chain {other.key!r} is no probe of this version; calibrate again")


def _is_later(samples: Samples, chain: Chain) -> bool:
    """Return whether the chain is of a group of probes that older samples lack as a whole. Its effect is then off."""
    return any(chain.kind in kinds and not samples.has(kinds) for kinds in LATER)


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
    for part in (
        link_spread,
        kernel_spread,
        host_spread,
        hand_over_spread,
        after_wait_spread,
        event_streams_spread,
    ):
        found |= part(samples, device)
    return found


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
