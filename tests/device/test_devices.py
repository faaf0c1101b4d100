"""Device profiles as values, the cost of kernels, the shipped profiles, and those made from a card's name."""

import copy
import re
from operator import attrgetter

import msgspec
import pytest
import strategies as card
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from streamsim import device
from streamsim.errors import InputError, Notice
from streamsim.files import dump_toml
from streamsim.model import simulate
from streamsim.program import Kernel

COST = device.KernelCost("table", 7, (10, 20, 40), (5e-6, 7e-6, 17e-6))
SHIPPED = device.device_names()
REAL = [name for name in SHIPPED if not name.startswith("ideal")]
MEAN = "the mean of "  # of the calibrated cards, or of their hosts


@given(card.devices())
def test_a_device_is_frozen_and_comes_back_from_json_as_it_was(profile: device.Device) -> None:
    assert copy.deepcopy(profile) == profile
    for value in (profile, profile.h2d, profile.compute, profile.host, profile.hand_over, profile.copy_engines):
        with pytest.raises(AttributeError):
            setattr(value, value.__struct_fields__[0], None)
    assert msgspec.json.decode(msgspec.json.encode(profile), type=device.Device) == profile


# Kernels


def test_kernel_costs_are_linear_between_the_points() -> None:
    # Below the first point as there; half-way between 10 and 20: 6; between 20 and 40: 7 + 5 x 10 / 20; beyond: the
    # last slope, 0.5 us an element.
    found = [COST.at(n) * 1e6 for n in (1, 10, 15, 20, 25, 40, 41, 60)]
    assert found == pytest.approx([5, 5, 6, 7, 9.5, 17, 17.5, 27])
    assert COST.s_per_element == pytest.approx(0.5e-6)


def test_kernel_time_and_share_of_the_card() -> None:
    profile = card.make_device(kernels=(COST,), floor=6000, resident_threads=1000)
    # A sixteenth of a launch of 80 us and 4 waves, of 250 threads. Beyond the floor the launch takes 74 us, a quarter
    # of a wave 74/16 = 4.625; from an eighth of a wave on, 1/32 of the launch, a line: 4.625 + (74 - 4.625) / 31 more.
    # Its work is a sixteenth of the 74 us, or half of that with fill 1/2.
    part, took_us = Kernel(1, duration_s=5e-6, share=1 / 16, threads=250), 6 + 4.625 + 69.375 / 31
    for kernel, alone_s, share in (
        (Kernel(1, "table", 10, 7), 6e-6, 5 / 6),  # 10 elements need 10 x 0.5 = 5 of the floor's 6 us
        (Kernel(1, "table", 40, 7), 17e-6, 1.0),
        (part, took_us * 1e-6, 4.625 / took_us),
        (msgspec.structs.replace(part, fill=0.5), took_us * 1e-6, 4.625 / 2 / took_us),
        (Kernel(1, elements=250, duration_s=8e-6), 8e-6, 2 / 4 / 8),  # a whole launch, on a quarter of the card
        (Kernel(1, duration_s=3e-6), 6e-6, 0.0),  # the floor is the least, and no work
        (Kernel(1, elements=5000, duration_s=30e-6), 30e-6, 24 / 30),
    ):
        assert profile.occupancy(kernel)[:2] == pytest.approx((alone_s, share))


@pytest.mark.parametrize(
    ("elements", "times", "launched", "expected"),
    [
        # A card of 20 threads: of the 7 us that 20 elements take, none is beyond their 20 x 0.5 = 10.
        ((10, 20, 40), (5e-6, 7e-6, 17e-6), 20, (7e-6, 1.0, 0.0)),
        # Of 20 us, 10 are: all of the floor's 6, and of the other 4 a half for 10 elements. The work is 5 us, and 10.
        ((20, 40), (20e-6, 30e-6), 10, (20e-6, 0.25, 8e-6)),
        ((20, 40), (20e-6, 30e-6), 20, (20e-6, 0.5, 10e-6)),
        ((20, 40), (20e-6, 30e-6), 30, (25e-6, 0.6, 10e-6)),
        # On a curve that bends, 8 us of 10 threads' 12 us: 4 are left for 5 of work, on all of the card.
        ((10, 20, 40), (12e-6, 20e-6, 30e-6), 10, (12e-6, 1 / 3, 8e-6)),
    ],
)
def test_what_leaves_the_card_to_others_is_part_of_a_kernels_time(
    elements: tuple[int, ...], times: tuple[float, ...], launched: int, expected: tuple[float, ...]
) -> None:
    cost = device.KernelCost("table", 7, elements, times)
    profile = card.make_device(kernels=(cost,), floor=6000, resident_threads=20)
    assert profile.occupancy(Kernel(1, "table", launched, 7))[:3] == pytest.approx(expected)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_elements_never_take_less_time(few: int, more: int) -> None:
    profile = card.make_device(kernels=(COST,), floor=5)
    few, more = sorted((few, more))
    assert (
        profile.occupancy(Kernel(1, "table", few, 7)).alone_s <= profile.occupancy(Kernel(1, "table", more, 7)).alone_s
    )


def test_a_kernel_without_a_cost_is_named() -> None:
    profile = card.make_device(kernels=(COST,))
    for kernel in (Kernel(1, "other", 10, 7), Kernel(1, "table", 10, 8)):
        with pytest.raises(InputError, match=rf"kernel '{kernel.name}' with parameter {kernel.parameter}.*table\(7\)"):
            simulate(card.plan(kernel), profile)


# Shipped profiles


@pytest.mark.parametrize("name", SHIPPED)
def test_a_profile_bears_the_name_of_its_file_and_every_number_has_a_source(name: str) -> None:
    profile, words = device.load_device(name), device.link_words(name)
    assert (profile.name, bool(profile.description)) == (name, True)
    assert words.startswith(f"{profile.link}; H2D ")
    assert len(words) <= 200
    for number, source in profile.sources.items():
        assert len(source.split()) >= 3, f"{number}: {source!r} does not say where or why"
        is_named = "http" in source or "output of" in source or "notes of" in source
        assert is_named or not source.startswith("published:"), f"{number}: {source!r} names no place"


@pytest.mark.parametrize("name", REAL)
def test_what_is_assumed_as_on_calibrated_cards_is_what_they_show(name: str) -> None:
    """The mean of the two shipped profiles of today, to two digits; else a profile tells of cards that nobody has."""
    profile = device.load_device(name)
    numbers = [number for number in device.number_names(profile) if profile.source(number)[1].startswith(MEAN)]
    calibrated = [device.load_device(card) for card in ("h100", "h200")]
    for number in numbers:
        if attrgetter(number)(profile):
            shown = [attrgetter(number)(card) for card in calibrated]
            assert attrgetter(number)(profile) == pytest.approx(sum(shown) / 2, rel=0.05), number
    assert bool(numbers) == (name not in ("h100", "h200"))


@pytest.mark.parametrize("name", REAL)
def test_a_real_card_has_memory_and_rates_that_its_link_can_carry(name: str) -> None:
    profile = device.load_device(name)
    assert profile.memory_bytes is not None
    assert 3 << 30 <= profile.memory_bytes <= 192 << 30
    assert re.fullmatch(r"PCIe gen ([2-5]) x(8|16)", profile.link)
    for link in (profile.h2d, profile.d2h):
        assert 0.6 * device.link_limit(profile.link) < link.bandwidth_bytes_per_s < device.link_limit(profile.link)


@pytest.mark.parametrize("name", ["ideal", "ideal-one-copy-engine"])
def test_the_ideal_devices_have_every_effect_off(name: str) -> None:
    profile = device.load_device(name)
    assert profile == device.without(profile, *device.EFFECTS)
    assert profile.connections == 1
    for link in (profile.h2d, profile.d2h):
        assert link.pageable_bandwidth_bytes_per_s == link.bandwidth_bytes_per_s


# Cards by name. Nothing in a made profile pretends to be measured.

PROFILES = {
    "NVIDIA A100-SXM4-40GB": "a100",
    "NVIDIA GeForce RTX 3080": "rtx3080",
    "GeForce RTX 2080 Ti": "rtx2080ti",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 PCIe": "h100-pcie",
    "H200": "h200",
}
LINKS = {
    "GTX 1060": "PCIe gen 3 x16",
    "NVIDIA GeForce RTX 3080 Ti": "PCIe gen 4 x16",
    "NVIDIA GeForce RTX 4060 Ti": "PCIe gen 4 x8",
    "NVIDIA GeForce RTX 4090 D": "PCIe gen 4 x16",
    "rtx5080": "PCIe gen 5 x16",
    "NVIDIA H100 NVL": "PCIe gen 5 x16",
    "GH200 480GB": "NVLink-C2C",
    "AMD Instinct MI300X": "PCIe gen 5 x16",
    "Orin": "memory of the host",
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_card_has_the_profile_of_its_name(name: str) -> None:
    assert device.load_device(name) == device.profile_of_card(name) == device.load_device(PROFILES[name])
    assert device.load_device(f"{name}:cupy").name == device.load_device(f"{PROFILES[name]}:cupy").name


@pytest.mark.parametrize("name", LINKS)
def test_another_variant_is_another_card_and_one_line_says_what_is_assumed(name: str) -> None:
    with pytest.warns(Notice, match=r"^[a-z0-9-]+: nobody measured its pinned copies; .*$") as told:
        made = device.load_device(name)
    assert len(told) == 1
    assert made.name not in SHIPPED
    assert made.link == LINKS[name]
    assert made == device.profile_of_card(name)


@pytest.mark.parametrize("name", ["ABC 990", "", "NVIDIA H800", "NVIDIA GeForce RTX 5060 Ti"])
def test_nothing_of_a_made_profile_is_measured_but_what_the_recording_says(name: str) -> None:
    made = device.profile_of_card(name, 14, 4 << 30, 1)
    told = {key for key, source in made.sources.items() if source.startswith("measured")}
    assert told <= {"memory_bytes", "copy_engines.count"}
    assert (made.memory_bytes, made.copy_engines.count) == (4 << 30, 1)
    assert made.h2d.bandwidth_bytes_per_s <= device.link_limit(made.link)
    assert "nobody measured" in device.assumptions_of(made)


def test_what_a_name_and_a_recording_say_of_a_card() -> None:
    """16 of Turing with 1,024 threads each; of a card that nobody knows nothing is said. 411 GB/s to it, 170 back."""
    made = device.profile_of_card("NVIDIA GH200 480GB")
    assert (made.h2d.bandwidth_bytes_per_s, made.d2h.bandwidth_bytes_per_s) == (411e9, 170e9)
    threads = [("GeForce GTX 1660", 16, 16 * 1024), ("GeForce GTX 1660", 0, 0), ("ABC 990", 16, 0)]
    for name, multiprocessors, expected in threads:
        assert device.profile_of_card(name, multiprocessors).compute.resident_threads == expected
    assert device.profile_of_card("t4", copy_engines=3) == device.load_device("t4")  # three copy no better than two
    assert device.profile_of_card("t4", copy_engines=1).copy_engines.count == 1
    assert device.profile_of_card("t4", memory_bytes=1 << 30).memory_bytes == 1 << 30


@examples(100)
@given(st.text(max_size=40))
def test_any_name_makes_a_profile(name: str) -> None:
    made = device.profile_of_card(name)
    assert device.parse_device(dump_toml(made)) == made
