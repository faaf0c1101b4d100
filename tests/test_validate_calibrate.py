"""Calibration's fits: what they make of samples whose truth is known, and of a recorded calibration."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import msgspec
import pytest

import streamsim_validate
from streamsim import load_device
from streamsim.device import ARBITRATIONS, Arbitration, Device, KernelCost, LinkDirection, number_names
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim_validate import fits
from streamsim_validate.calibrate import read_samples, write_samples
from streamsim_validate.compare import predict_device_s
from streamsim_validate.fits import Link, Samples, Timing
from streamsim_validate.gpu import Card
from streamsim_validate.probes import KERNELS, RULES, elements_of, probes, rules
from streamsim_validate.replay import closed, used_streams

CARD = Card("NVIDIA Test", "0000:00:00.0", 1 << 37, 132, 2048, 3, "9.0", "580.1", "13.0", "13.0", "14.2")


def link(direction: LinkDirection, *latencies_s: float) -> LinkDirection:
    names = ("latency_s", "duplex_latency_s", "crowded_latency_s", "crowded_duplex_latency_s")
    return msgspec.structs.replace(direction, **dict(zip(names, latencies_s, strict=True)), in_flight_bytes=100_000)


@cache
def truth() -> Device:
    """The shipped H200 with every effect on and a straight cost for every kernel of the probes."""
    device = load_device("h200")
    costs = tuple(
        KernelCost(name, parameter, sizes, tuple(3e-6 + n * (1 + parameter) * 1e-12 for n in sizes))
        for name, parameter in KERNELS
        for sizes in [elements_of(name, CARD.resident_threads)]
    )
    return msgspec.structs.replace(
        device,
        connections=16,
        h2d=link(device.h2d, 2.5e-6, 4e-6, 3.5e-6, 4.5e-6),
        d2h=link(device.d2h, 1.5e-6, 5e-6, 2e-6, 5.5e-6),
        copy_engines=msgspec.structs.replace(device.copy_engines, connections=5, arbitration="same-queue-first"),
        compute=msgspec.structs.replace(device.compute, floor_s=3e-6, kernels=costs, arbitration="ready-order"),
        hand_over=msgspec.structs.replace(device.hand_over, kernel_to_kernel_s=0.0),
        sources=dict.fromkeys(number_names(device) | {"compute.kernels"}, "assumed: a truth to be found again"),
    )


@cache
def samples() -> Samples:
    """What the probes would show on a card that is exactly as the model thinks."""
    timings = {}
    for chain, schedule in probes(CARD.resident_threads):
        host = simulate(closed(schedule), truth())
        issue_s = (host.issued[len(schedule.ops) - 1]) * 1e-9
        device_s = predict_device_s(schedule, truth()) if used_streams(schedule) else 0.0
        timings[chain] = [Timing(device_s, host.host_s, issue_s)]
    return Samples(CARD, "2026-01-01", timings)


@cache
def found() -> Device:
    return fits.fit(samples())


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("h2d.latency_s", 0.02),
        ("h2d.bandwidth_bytes_per_s", 0.002),
        ("h2d.duplex_latency_s", 0.1),
        ("h2d.duplex_bandwidth_bytes_per_s", 0.01),
        ("h2d.pageable_bandwidth_bytes_per_s", 0.02),
        ("d2h.latency_s", 0.02),
        ("d2h.duplex_latency_s", 0.1),
        ("d2h.duplex_bandwidth_bytes_per_s", 0.01),
        ("h2d.crowded_latency_s", 0.05),
        ("h2d.crowded_duplex_latency_s", 0.05),
        ("h2d.in_flight_bytes", 0.1),
        ("d2h.crowded_latency_s", 0.05),
        ("d2h.crowded_duplex_latency_s", 0.05),
        ("compute.floor_s", 0.01),
        ("host.copy_s", 0.01),
        ("host.kernel_s", 0.01),
        ("host.record_s", 0.01),
        ("host.wait_s", 0.01),
        ("hand_over.event_s", 0.05),
    ],
)
def test_a_known_card_is_found_again(name: str, within: float) -> None:
    """The probes simulated on a known device and fitted give that device back."""
    part, field = name.split(".")
    wanted = getattr(getattr(truth(), part), field)
    assert getattr(getattr(found(), part), field) == pytest.approx(wanted, rel=within)


def test_queues_and_rules_of_a_known_card_are_found_again() -> None:
    profile = found()
    assert (profile.connections, profile.copy_engines.connections) == (16, 5)
    assert (profile.compute.arbitration, profile.copy_engines.arbitration) == ("ready-order", "same-queue-first")


@pytest.mark.parametrize("rule", ARBITRATIONS)
def test_the_probes_tell_the_rules_apart(rule: Arbitration) -> None:
    """One op at a time, stream 1's second op is the second of the five long ones, the fourth or the last."""
    device = truth()
    device = msgspec.structs.replace(
        device,
        compute=msgspec.structs.replace(device.compute, arbitration=rule, concurrent_kernels=1),
        copy_engines=msgspec.structs.replace(device.copy_engines, arbitration=rule),
    )
    for chain, schedule in rules():
        spans = simulate(schedule, device).spans
        engine = "compute" if chain.kind == RULES["compute"] else "h2d"
        long = sorted((s.start_s, s.stream) for s in spans if s.engine == engine and s.end_s - s.start_s > 20e-6)
        order = [stream for _, stream in long]
        assert (
            order
            == {
                "same-queue-first": [1, 1, 2, 3, 4],
                "issue-order": [1, 4, 2, 1, 3],
                "ready-order": [1, 4, 3, 2, 1],
            }[rule]
        )


def test_the_hand_overs_of_a_known_card_add_up() -> None:
    """Single steps cannot be told apart, the cycles can: H2D, kernel, D2H and round again."""
    sums, wanted = found().hand_over, truth().hand_over
    for steps in (("h2d_to_kernel_s", "kernel_to_d2h_s", "d2h_to_h2d_s"), ("h2d_to_kernel_s", "kernel_to_h2d_s")):
        assert sum(getattr(sums, s) for s in steps) == pytest.approx(sum(getattr(wanted, s) for s in steps), rel=0.02)


def test_a_straight_line_is_found_exactly() -> None:
    # 2 us + bytes / (50 GB/s)
    points = [(n, 2e-6 + n / 50e9) for n in (1 << 16, 1 << 20, 1 << 24)]
    assert fits.fit_link(points) == pytest.approx(Link(2e-6, 1 / 50e9))


RECORDED = Path(streamsim_validate.__file__).parent / "records" / "calibration-h200.samples.gz"


def test_the_shipped_profile_is_what_the_recorded_samples_say() -> None:
    """Anyone can make the h200 profile again from the raw samples beside the records."""
    found, shipped = fits.fit(read_samples(RECORDED)), load_device("h200")
    for part in ("h2d", "d2h", "copy_engines", "compute", "hand_over", "host"):
        assert getattr(found, part) == getattr(shipped, part)
    assert found.spread == shipped.spread


def test_samples_survive_their_file(tmp_path: Path) -> None:
    write_samples(samples(), tmp_path / "samples.gz")
    assert read_samples(tmp_path / "samples.gz") == samples()


@pytest.mark.parametrize(
    "data", [b"", b"no gzip", gzip.compress(b"{}", mtime=0), gzip.compress(b'{"card": 1', mtime=0)]
)
def test_a_file_that_holds_no_samples_is_one_clear_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(InputError, match="no calibration samples") as error:
        read_samples(tmp_path / "x")
    assert "\n" not in str(error.value)


def test_missing_probes_are_named() -> None:
    some = {chain: timings for chain, timings in samples().timings.items() if not chain.kind.startswith("duplex")}
    with pytest.raises(InputError, match="duplex h2d"):
        fits.fit(Samples(CARD, "2026-01-01", some))
