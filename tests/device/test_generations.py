"""Profiles of cards that have none: by the name, which tells the link; nothing in them pretends to be measured."""

import re

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from streamsim.device import (
    GENERATIONS,
    OTHER_LINKS,
    as_recorded,
    assumptions_of,
    device_names,
    dump_device,
    generation_of,
    link_limit,
    load_device,
    parse_device,
    profile_from_name,
    profile_named,
)
from streamsim.errors import InputError, Notice


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100-PCIE-40GB", "a100"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 3080", "rtx3080"),
        ("GeForce RTX 2080 Ti", "rtx2080ti"),
        ("GeForce GTX 1080 Ti", "gtx1080ti"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
    ],
)
def test_a_card_has_the_profile_of_its_name(card: str, name: str) -> None:
    assert profile_named(card) == name


@pytest.mark.parametrize(
    "card",
    [
        *("NVIDIA GeForce RTX 3080 Ti", "NVIDIA GeForce RTX 3080 Laptop GPU", "NVIDIA GeForce RTX 2080 SUPER"),
        *("NVIDIA GeForce RTX 4090 D", "NVIDIA H100 NVL", "NVIDIA A10G", "NVIDIA H20", "NVIDIA L40", "ideal", ""),
    ],
)
def test_another_variant_is_another_card(card: str) -> None:
    assert profile_named(card) is None


@pytest.mark.parametrize(
    ("card", "link"),
    [
        ("GeForce GTX 1650", "PCIe gen 3 x16"),
        ("NVIDIA GeForce RTX 2080 SUPER", "PCIe gen 3 x16"),
        ("NVIDIA GeForce RTX 3080 Ti", "PCIe gen 4 x16"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "PCIe gen 4 x8"),
        ("NVIDIA GeForce RTX 4060 Ti", "PCIe gen 4 x8"),
        ("NVIDIA GeForce RTX 5060 Ti", "PCIe gen 5 x8"),
        ("NVIDIA GeForce RTX 5080", "PCIe gen 5 x16"),
        ("NVIDIA A30", "PCIe gen 4 x16"),
        ("NVIDIA A40", "PCIe gen 4 x16"),
        ("NVIDIA H800", "PCIe gen 5 x16"),
        ("NVIDIA H20", "PCIe gen 5 x16"),
        ("NVIDIA H100 NVL", "PCIe gen 5 x16"),
        ("NVIDIA GH200 480GB", "NVLink-C2C"),
        ("NVIDIA GB200", "NVLink-C2C of Blackwell"),
        ("NVIDIA RTX 6000 Ada Generation", "PCIe gen 4 x16"),
        ("Quadro RTX 6000", "PCIe gen 3 x16"),
        ("AMD Instinct MI300X", "PCIe gen 5 x16"),
        ("Orin", "memory of the host"),
        ("NVIDIA GeForce ABC 990", ""),
    ],
)
def test_a_name_tells_the_link(card: str, link: str) -> None:
    assert generation_of(card).link == link


@pytest.mark.parametrize("name", sorted({"NVIDIA GeForce ABC 990", "", "NVIDIA H800", "NVIDIA GeForce RTX 5060 Ti"}))
def test_nothing_of_a_made_profile_is_measured_and_all_of_it_can_be_read_again(name: str) -> None:
    made = profile_from_name(name, 14, 4 << 30, 1)
    told = {key for key, source in made.sources.items() if source.startswith("measured")}
    assert told <= {"memory_bytes", "copy_engines.count"}  # which the recording says
    assert parse_device(dump_device(made)) == made
    assert (made.memory_bytes, made.copy_engines.count) == (4 << 30, 1)
    assert made.h2d.bandwidth_bytes_per_s <= link_limit(made.link)
    line = assumptions_of(made)
    assert "nobody measured" in line
    assert "\n" not in line


def test_a_made_profile_holds_the_threads_of_its_multiprocessors() -> None:
    """16 of Turing with 1,024 each; of a card that nobody knows nothing is said."""
    assert profile_from_name("GeForce GTX 1660", 16).compute.resident_threads == 16 * 1024
    assert profile_from_name("GeForce GTX 1660").compute.resident_threads == 0
    assert profile_from_name("ABC 990", 16).compute.resident_threads == 0


@pytest.mark.parametrize(
    ("given", "name", "link"),
    [
        ("GTX 1060", "gtx1060", "PCIe gen 3 x16"),
        ("nvidia geforce gtx1060 6GB", "gtx1060-6gb", "PCIe gen 3 x16"),
        ("rtx5070ti", "rtx5070ti", "PCIe gen 5 x16"),
        ("Orin", "orin", "memory of the host"),
        ("AMD Instinct MI300X VF", "instinct-mi300x-vf", "PCIe gen 5 x16"),
        ("GH200", "gh200", "NVLink-C2C"),
    ],
)
def test_a_card_without_a_profile_is_loaded_by_its_name_and_one_line_says_what_is_assumed(
    given: str, name: str, link: str
) -> None:
    with pytest.warns(Notice, match=f"^{name}: nobody measured its pinned copies; .*$") as told:
        found = load_device(given)
    assert len(told) == 1
    assert (found.name, found.link) == (name, link)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *(("NVIDIA GeForce RTX 4090", "rtx4090"), ("RTX 4090", "rtx4090"), ("Tesla T4", "t4")),
        *(("geforce gtx 1080 ti", "gtx1080ti"), ("H100 PCIe", "h100-pcie"), ("H200", "h200")),
    ],
)
def test_a_shipped_card_is_loaded_by_any_way_to_write_its_name(given: str, name: str) -> None:
    assert load_device(given) == load_device(name)
    assert load_device(f"{given}:cupy").name == load_device(f"{name}:cupy").name


@pytest.mark.parametrize("given", ["no/such/t4", "GTX 1060/card"])
def test_a_path_is_no_name_of_a_card(given: str) -> None:
    with pytest.raises(InputError, match="neither a shipped profile"):
        load_device(given)


def test_a_grace_hopper_carries_more_to_the_card_than_back() -> None:
    """411 to 421 GB/s there and 170 back were reported."""
    made = profile_from_name("NVIDIA GH200 480GB")
    assert (made.h2d.bandwidth_bytes_per_s, made.d2h.bandwidth_bytes_per_s) == (411e9, 170e9)
    assert "411 and 170 GB/s" in assumptions_of(made)


def test_every_link_has_a_rate() -> None:
    for kind in GENERATIONS:
        assert kind.link in OTHER_LINKS or 0.2e9 < link_limit(kind.link) < 130e9
        re.compile(kind.names)


def test_of_a_shipped_card_the_recording_says_memory_and_engines() -> None:
    """Three engines copy no better than two: one for each direction."""
    t4 = load_device("t4")
    assert as_recorded(t4) == t4
    assert as_recorded(t4, copy_engines=3) == t4
    assert as_recorded(t4, copy_engines=1).copy_engines.count == 1
    assert as_recorded(t4, memory_bytes=1 << 30).memory_bytes == 1 << 30


@examples(100)
@given(st.text(max_size=40))
def test_any_name_makes_a_profile(card: str) -> None:
    made = profile_from_name(card)
    assert parse_device(dump_device(made)) == made
    assert profile_named(card) in (None, *device_names())
