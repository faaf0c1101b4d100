"""Calibration's fits: what they make of samples whose truth is known, and of a recorded calibration."""

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from fake_gpu import cuda
from msgspec.structs import replace
from once import numbers_of

from streamsim import load_device
from streamsim.device import Device, KernelCost, number_names, with_values
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Kernel, Op, RecordEvent, Schedule, WaitEvent
from streamsim_validate.calibrate import Samples, all_probes, fits, probes, read_samples, write_samples
from streamsim_validate.calibrate.fits import Link, cold_link, fit_programs, warm_link
from streamsim_validate.compare import predict_device_s
from streamsim_validate.records import PACE_CHAIN, Chain, Timing, closed, rows_of

CARD = replace(cuda.CARD, multiprocessors=132)


LATENCIES = ("latency_s", "duplex_latency_s", "crowded_latency_s", "crowded_duplex_latency_s")
TRUE = {
    **dict(zip((f"h2d.{name}" for name in LATENCIES), (2.5e-6, 4e-6, 3.5e-6, 4.5e-6), strict=True)),
    **dict(zip((f"d2h.{name}" for name in LATENCIES), (1.5e-6, 5e-6, 2e-6, 5.5e-6), strict=True)),
    **{"h2d.crowded_bandwidth_bytes_per_s": 54e9, "d2h.crowded_bandwidth_bytes_per_s": 48e9},
    **{"h2d.in_flight_bytes": 100_000, "d2h.in_flight_bytes": 100_000},
    **{"copy_engines.connections": 5, "copy_engines.arbitration": "same-queue-first"},
    **{"compute.floor_s": 3e-6, "compute.graph_gap_s": 1.2e-6, "compute.arbitration": "ready-order"},
    **{"hand_over.kernel_to_kernel_s": 0.0, "hand_over.event_streams_s": 0.5e-6, "host.after_wait_s": 1.2e-6},
    **{"host.copy_s": 1.6e-6, "host.kernel_s": 3.5e-6, "host.record_s": 0.4e-6, "host.wait_s": 0.2e-6},
    "host.first_on_stream_s": 0.7e-6,
}


@cache
def truth() -> Device:
    """The shipped H200 with every effect on but one, and a straight cost for every kernel of the probes.

    The host is fast: calls that take longer than a short copy are no longer hidden behind it.
    """
    device = load_device("h200")
    costs = tuple(
        KernelCost(name, parameter, sizes, tuple(3e-6 + n * (1 + parameter) * 1e-12 for n in sizes))
        for name, parameter in probes.KERNELS
        for sizes in [probes.elements_of(name, CARD.resident_threads)]
    )
    return replace(
        with_values(device, TRUE | {"compute.kernels": costs}),
        connections=16,
        sources=dict.fromkeys(number_names(device) | {"compute.kernels"}, "assumed: a truth to be found again"),
    )


@cache
def samples() -> Samples:
    """What the probes would show on a card that is exactly as the model thinks."""
    timings = {}
    for chain, schedule in all_probes(CARD.resident_threads):
        host = simulate(closed(schedule), truth())
        issue_s = (host.issued[len(schedule.ops) - 1]) * 1e-9
        device_s = predict_device_s(schedule, truth()) if schedule.used_streams else 0.0
        timings[chain] = [Timing(device_s, host.host_s, issue_s)]
    pace_s = timings[PACE_CHAIN][0].issue_s
    return of_runs(timings, {chain: [pace_s] for chain in timings if is_program(chain)})


def of_runs(timings: Mapping[Chain, Sequence[Timing]], paces_s: Mapping[Chain, Sequence[float]] = {}) -> Samples:
    return Samples(CARD, "2026-01-01", rows_of(timings), pace_rows=rows_of(paces_s))


def is_program(chain: Chain) -> bool:
    return chain.kind in probes.PROGRAM_KINDS


@cache
def found() -> Device:
    return fits.fit(samples())


WITHIN = {  # relative, of numbers that the probes show
    0.002: "h2d.bandwidth_bytes_per_s",
    0.01: "h2d.duplex_bandwidth_bytes_per_s d2h.duplex_bandwidth_bytes_per_s h2d.crowded_bandwidth_bytes_per_s"
    " d2h.crowded_bandwidth_bytes_per_s compute.floor_s compute.graph_gap_s host.copy_s host.kernel_s"
    " host.record_s host.wait_s host.graph_node_s",
    0.02: "h2d.latency_s h2d.pageable_bandwidth_bytes_per_s d2h.latency_s host.first_on_stream_s",
    0.05: "h2d.crowded_latency_s h2d.crowded_duplex_latency_s d2h.crowded_latency_s"
    " d2h.crowded_duplex_latency_s hand_over.event_s",
    0.1: "h2d.duplex_latency_s d2h.duplex_latency_s h2d.in_flight_bytes host.after_wait_s hand_over.event_streams_s",
}


@pytest.mark.parametrize(
    ("name", "within"), [(name, within) for within, names in WITHIN.items() for name in names.split()]
)
@pytest.mark.usefixtures("fitting_once")
def test_a_known_card_is_found_again(name: str, within: float) -> None:
    """The probes simulated on a known device and fitted give that device back."""
    part, field = name.split(".")
    wanted = getattr(getattr(truth(), part), field)
    assert getattr(getattr(found(), part), field) == pytest.approx(wanted, rel=within)


def test_queues_rules_and_hand_overs_of_a_known_card_are_found_again() -> None:
    """Single steps cannot be told apart, the cycles can: H2D, kernel, D2H and round again."""
    profile, wanted = found(), truth().hand_over
    assert (profile.connections, profile.copy_engines.connections) == (16, 5)
    assert (profile.compute.arbitration, profile.copy_engines.arbitration) == ("ready-order", "same-queue-first")
    for steps in (("h2d_to_kernel_s", "kernel_to_d2h_s", "d2h_to_h2d_s"), ("h2d_to_kernel_s", "kernel_to_h2d_s")):
        sums = [sum(getattr(one, step) for step in steps) for one in (profile.hand_over, wanted)]
        assert sums[0] == pytest.approx(sums[1], rel=0.02)


def test_a_host_that_is_slow_for_some_programs_has_the_calls_of_the_pace_beside_them() -> None:
    """Each program at a speed of its own, and its pace with it: the calls are those at the speed of most."""
    speeds = dict(zip(samples().paces_s, itertools.cycle((1, 1, 2.5)), strict=False))
    timings = {
        chain: [timing._replace(issue_s=speeds.get(chain, 1) * timing.issue_s) for timing in runs]
        for chain, runs in samples().timings.items()
    }
    paces_s = {chain: [speeds[chain] * pace_s for pace_s in paces] for chain, paces in samples().paces_s.items()}
    assert fit_programs(of_runs(timings, paces_s)).calls == pytest.approx(fit_programs(samples()).calls)


def test_the_pageable_rate_is_that_of_cold_memory_with_the_warm_one_beside_it() -> None:
    """By hand: a copy of 16 MiB of cold memory takes 1 ms more than a warm one, and its chain 7 and 31 more than that.

    Samples of before there were cold chains have the warm rate; cold memory is never faster.
    """
    h2d = truth().h2d
    alone, host = Link(h2d.latency_s, 1 / h2d.bandwidth_bytes_per_s), found().host
    warm = warm_link(samples(), "h2d", host, alone)

    def moved(more_s: float) -> Samples:
        slower = {
            chain: [runs[0]._replace(device_s=runs[0].device_s + chain.length * more_s)]
            for chain, runs in samples().timings.items()
            if chain.kind == probes.COLD_KINDS["h2d"]
        }
        assert [chain.length for chain in slower] == [8, 32]
        return replace(samples(), rows=rows_of({**samples().timings, **slower}))

    def s_per_byte(of: Samples) -> float:
        return cold_link(of, "h2d", host, alone).s_per_byte

    assert s_per_byte(moved(1e-3)) == pytest.approx(s_per_byte(samples()) + 1e-3 / (16 << 20), rel=1e-6)
    assert s_per_byte(moved(-1e-3)) == warm.s_per_byte
    older = {c: runs for c, runs in samples().timings.items() if c.kind not in probes.COLD_KINDS.values()}
    assert s_per_byte(replace(samples(), rows=rows_of(older))) == warm.s_per_byte
    source = found().sources["h2d.pageable_bandwidth_bytes_per_s"]
    assert source.endswith(f"; {1e-9 / warm.s_per_byte:.2f} GB/s from the host's caches")


RECORDS = Path(__file__).parents[2] / "validate" / "campaigns" / "records"


@pytest.mark.measured
@pytest.mark.parametrize("card", ["h100", "h200"])
@pytest.mark.usefixtures("fitting_once")
def test_a_shipped_profile_is_what_the_recorded_samples_say(card: str) -> None:
    """Anyone can make it again, but for the last digits, which depend on the linear algebra of the machine."""
    found, shipped = fits.fit(read_samples(RECORDS / f"calibration-{card}.samples.gz")), load_device(card)
    assert numbers_of(found) == pytest.approx(numbers_of(shipped), rel=1e-9, abs=1e-15)
    assert found.spread == pytest.approx(shipped.spread, rel=1e-6)


# Chains of 128 kernels over 7 streams, less such of 32, a kernel: an H200, driver 580.159.04, 2026-11-22.
SIDE_BY_SIDE = [
    ("sincos", 2, 256 * probes.KI, 1.89e-6),
    ("sincos", 40, 64 * probes.KI, 4.53e-6),
    ("sincos", 40, 256 * probes.KI, 17.98e-6),
]


@pytest.mark.measured
@pytest.mark.parametrize(("name", "parameter", "elements", "measured_s"), SIDE_BY_SIDE)
def test_kernels_side_by_side_took_what_their_costs_alone_say(
    name: str, parameter: int, elements: int, measured_s: float
) -> None:
    """Nothing is fitted to them; those that would start less than 1.1 us apart start that far apart on the card."""
    device, ends, gate = load_device("h200"), {}, Kernel(8, duration_s=1e-3, fill=0.01)
    for n in (32, 128):
        opening: list[Op] = [gate, RecordEvent(0, 8), *(WaitEvent(0, s) for s in range(1, 8))]
        kernels = [Kernel(1 + i % 7, name, elements, parameter) for i in range(n)]
        ends[n] = simulate(Schedule((*opening, *kernels), ("non-blocking",) * 8, events=1), device).makespan_s
    assert (ends[128] - ends[32]) / 96 == pytest.approx(measured_s, rel=0.05)


# Spread

UNFITTED = 1.5**0.5  # a third as many numbers were fitted as there are chains, in each group of the link's probes


def test_a_card_that_is_as_the_model_thinks_has_next_to_no_spread() -> None:
    """No scatter; no misfit but whole nanoseconds, and what the timing events of few streams or many add."""
    found = fits.spread(samples(), truth())
    numbers = ("latency_s", "duplex_latency_s", "crowded_duplex_latency_s", "bandwidth_bytes_per_s")
    assert max(found["compute.kernels"], *(found[f"{d}.{n}"] for d in ("h2d", "d2h") for n in numbers)) < 2e-3
    assert found["hand_over.h2d_to_d2h_s"] == 0


def test_scatter_and_a_wrong_latency_become_spread() -> None:
    """Runs of 0.9 to 1.1 times the median: half the quartile distance is 0.05 of it.

    A latency that is 10 % too long misses each small copy by just that; large ones hardly notice.
    """
    for kind, name in (("pageable", "latency_s"), ("cold pageable", "bandwidth_bytes_per_s")):
        plain = samples()
        changed = {
            chain: [runs[0]._replace(device_s=runs[0].device_s * times) for times in (0.9, 0.95, 1, 1.05, 1.1)]
            for chain, runs in plain.timings.items()
            if chain.kind == f"{kind} h2d"
        }
        found = fits.spread(replace(plain, rows=rows_of({**plain.timings, **changed})), truth())
        assert found[f"h2d.pageable_{name}"] == pytest.approx(1.4826 * 0.05)
        assert found[f"d2h.pageable_{name}"] == 0
    late = with_values(truth(), {"d2h.latency_s": 1.1 * truth().d2h.latency_s})
    found = fits.spread(samples(), late)
    assert found["d2h.latency_s"] == pytest.approx(UNFITTED * 0.1 / 1.1, rel=0.01)
    assert found["d2h.bandwidth_bytes_per_s"] < 0.002
    assert found["h2d.latency_s"] < 1e-3


def test_samples_survive_their_file_and_a_profile_spreads_numbers_that_it_has(tmp_path: Path) -> None:
    write_samples(samples(), tmp_path / "samples.gz")
    assert read_samples(tmp_path / "samples.gz") == samples()
    profile = found()
    assert set(profile.spread) <= number_names(profile)
    assert min(profile.spread.values()) >= 0


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ((), "has no runs"),
        ((Timing(0.0, 1e-3, 1e-4),), r"device_s = 0\.0"),
        ((Timing(1, 1e300, 1),), r"wall_s = 1e\+300"),
    ],
)
def test_times_that_no_clock_shows_are_refused_and_their_chain_named(run: tuple[Timing, ...], message: str) -> None:
    (kind, size, length, _), *others = samples().rows
    changed = replace(samples(), rows=((kind, size, length, run), *others))
    with pytest.raises(InputError, match=rf"'{re.escape(kind)} {size} x{length}' .*{message}.*; calibrate again$"):
        changed.check()


def test_samples_that_give_no_profile_are_one_clear_line() -> None:
    """Each time is possible, but longer chains take no longer; a probe is of another version; or one is missing."""
    known = samples().timings
    with pytest.raises(InputError, match="issued sooner than its first calls alone take"):
        fit_programs(samples(), after_wait_s=1e-3)
    with pytest.raises(InputError, match=r"schema_version = 1: .* reads 2; .* again$"):
        replace(samples(), schema_version=1).check()
    for timings, message in (
        ({chain: [Timing(1e-3, 1e-3, 1e-4)] for chain in known}, "longer chains took no longer; calibrate again"),
        (known | {Chain("cycle hk", 0, 9): [Timing(1e-3, 1e-3, 1e-4)]}, r"'cycle hk 0 x9' is no probe of this version"),
        ({chain: runs for chain, runs in known.items() if not chain.kind.startswith("duplex")}, "duplex h2d"),
    ):
        with pytest.raises(InputError, match=message):
            fits.fit(of_runs(timings))
