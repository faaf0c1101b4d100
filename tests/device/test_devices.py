"""The shipped profiles: complete, sourced, loadable by name and by path, and honest about what they claim."""

import re
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from streamsim.device import (
    SOURCE_KINDS,
    Device,
    device_names,
    left_out,
    load_device,
    number_names,
)
from streamsim.model import simulate
from streamsim.program import Workload, WorkloadKernel, one_stream

SHIPPED = device_names()
REAL = [name for name in SHIPPED if not name.startswith("ideal")]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_profile_bears_the_name_of_its_file_and_sources_for_every_number(name: str) -> None:
    device = load_device(name)
    assert device.name == name
    assert device.description
    for number in number_names(device) - left_out(device):
        kind, text = device.source(number)
        assert kind in SOURCE_KINDS
        assert len(text.split()) >= 2, f"{number}: {text!r} does not say where or why"


@pytest.mark.parametrize("name", REAL)
def test_a_published_figure_names_a_place(name: str) -> None:
    """An address, or the name of the document or program that printed it."""
    for number, source in load_device(name).sources.items():
        if source.startswith("published:"):
            assert "http" in source or "output of" in source or "notes of" in source, f"{number}: {source!r}"


MEAN = ("assumed: the mean of an H100 and an H200", "assumed: the mean of the hosts of an H100 and an H200")


@pytest.mark.parametrize("name", REAL)
def test_what_is_assumed_as_on_calibrated_cards_is_what_they_show(name: str) -> None:
    """The mean of the two shipped profiles of today, to two digits; else a profile tells of cards that nobody has."""
    device = load_device(name)
    numbers = [number for number in number_names(device) if device.sources.get(number, "").startswith(MEAN)]
    numbers += [
        number
        for number in number_names(device) - left_out(device)
        if number not in device.sources and device.sources.get(number.split(".")[0], "").startswith(MEAN)
    ]
    calibrated = [load_device(card) for card in ("h100", "h200")]
    for number in numbers:
        shown = [attrgetter(number)(card) for card in calibrated]
        assert attrgetter(number)(device) == pytest.approx(sum(shown) / 2, rel=0.05), number
    assert bool(numbers) == (name not in ("h100", "h200"))


@pytest.mark.parametrize("name", REAL)
def test_a_real_card_has_memory_and_names_its_link(name: str) -> None:
    """As much as its generation had, and a generation of PCIe that its rates fit: 8b/10b or 128b/130b and 16 lanes."""
    device = load_device(name)
    assert device.memory_bytes is not None
    assert 3 << 30 <= device.memory_bytes <= 192 << 30
    found = re.fullmatch(r"PCIe gen ([2-5]) x(8|16)", device.link)
    assert found is not None
    generation, lanes = map(int, found.groups())
    line_rate = {2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9}[generation] * lanes
    for link in (device.h2d, device.d2h):
        assert 0.6 * line_rate < link.bandwidth_bytes_per_s < line_rate


def test_a_shipped_name_wins_over_a_file_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ideal").write_text("not a profile")
    monkeypatch.chdir(tmp_path)
    assert load_device("ideal").name == "ideal"


@pytest.mark.parametrize("name", ["ideal", "ideal-one-copy-engine"])
def test_the_ideal_devices_have_every_effect_off(name: str) -> None:
    device = load_device(name)
    assert device.connections == device.compute.concurrent_kernels == 1
    for part in (device.hand_over, device.host):
        assert set(msgspec.structs.astuple(part)) == {0}
    for link in (device.h2d, device.d2h):
        rates = {value for field, value in msgspec.structs.asdict(link).items() if field.endswith("bytes_per_s")}
        assert len(rates) == 1
        assert link.latency_s == link.pageable_latency_s == 0
    assert device.compute.floor_s == device.compute.resident_threads == 0


def test_the_ideal_device_gives_whole_nanoseconds_for_powers_of_two() -> None:
    # 64 bytes a nanosecond: 64 MiB last 2^20 ns; N chunks in one stream last the serial sum
    workload = Workload(64 << 20, (1,), (1,), (WorkloadKernel(duration_s=570_000e-9),))
    for chunks in (1, 2, 8):
        timeline = simulate(one_stream(workload, chunks), load_device("ideal"))
        assert max(timeline.end) == (1 << 20) + 570_000 + (1 << 20)


@pytest.mark.parametrize(
    ("name", "copy_engines", "connections", "concurrent_kernels", "signal"),
    [("c1060", 1, 1, 1, "each"), ("c2050", 2, 1, 16, "run"), ("k20c", 2, 32, 32, "each"), ("h200", 2, 8, 128, "each")],
)
def test_what_the_generations_can_do(
    name: str, copy_engines: int, connections: int, concurrent_kernels: int, signal: str
) -> None:
    device = load_device(name)
    assert device.copy_engines.count == copy_engines
    assert device.connections == connections
    assert device.compute.concurrent_kernels == concurrent_kernels
    assert device.compute.kernel_signal == signal


@pytest.mark.parametrize("name", SHIPPED)
def test_pageable_memory_is_no_faster_than_pinned(name: str) -> None:
    device: Device = load_device(name)
    for link in (device.h2d, device.d2h):
        assert link.pageable_bandwidth_bytes_per_s <= link.bandwidth_bytes_per_s
        assert link.pageable_latency_s >= link.latency_s
