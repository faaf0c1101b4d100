"""The shipped profiles: complete, sourced, loadable by name and by path, and honest about what they claim."""

import re
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from streamsim.device import device_names, link_words, load_device, number_names
from streamsim.model import simulate
from streamsim.program import Workload, WorkloadKernel, one_stream

SHIPPED = device_names()
REAL = [name for name in SHIPPED if not name.startswith("ideal")]
MEAN = "the mean of "  # of the calibrated cards, or of their hosts


@pytest.mark.parametrize("name", SHIPPED)
def test_a_profile_bears_the_name_of_its_file_and_its_link_is_one_short_line(name: str) -> None:
    device, words = load_device(name), link_words(name)
    assert device.name == name
    assert device.description
    assert words.startswith(f"{device.link}; H2D ")
    assert len(words) <= 200
    for link in (device.h2d, device.d2h):
        assert link.pageable_bandwidth_bytes_per_s <= link.bandwidth_bytes_per_s
        assert link.pageable_latency_s >= link.latency_s
    for number, source in device.sources.items():
        assert len(source.split()) >= 3, f"{number}: {source!r} does not say where or why"
        is_named = "http" in source or "output of" in source or "notes of" in source
        assert is_named or not source.startswith("published:"), f"{number}: {source!r} names no place"


@pytest.mark.parametrize("name", REAL)
def test_what_is_assumed_as_on_calibrated_cards_is_what_they_show(name: str) -> None:
    """The mean of the two shipped profiles of today, to two digits; else a profile tells of cards that nobody has."""
    device = load_device(name)
    numbers = [number for number in number_names(device) if device.source(number)[1].startswith(MEAN)]
    calibrated = [load_device(card) for card in ("h100", "h200")]
    for number in numbers:
        if attrgetter(number)(device):
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


@pytest.mark.parametrize(
    ("name", "copy_engines", "connections", "concurrent_kernels"),
    [("c1060", 1, 1, 1), ("c2050", 2, 1, 16), ("k20c", 2, 32, 32), ("h200", 2, 8, 128)],
)
def test_what_the_generations_can_do(name: str, copy_engines: int, connections: int, concurrent_kernels: int) -> None:
    device = load_device(name)
    found = device.copy_engines.count, device.connections, device.compute.concurrent_kernels
    assert found == (copy_engines, connections, concurrent_kernels)


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
