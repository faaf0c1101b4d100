"""Profiles by a card's name, which tells the link; nothing in a made profile pretends to be measured."""

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from streamsim.device import (
    assumptions_of,
    device_names,
    dump_device,
    link_limit,
    load_device,
    parse_device,
    profile_of_card,
)
from streamsim.errors import InputError, Notice

GPU = "NVIDIA GeForce "


@pytest.mark.parametrize(
    ("card", "name"),
    [
        *(("NVIDIA A100-SXM4-40GB", "a100"), ("NVIDIA A100-PCIE-40GB", "a100"), ("Tesla T4", "t4")),
        *((f"{GPU}RTX 3080", "rtx3080"), ("GeForce RTX 2080 Ti", "rtx2080ti"), ("geforce gtx 1080 ti", "gtx1080ti")),
        *(("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H100 PCIe", "h100-pcie"), ("H200", "h200")),
    ],
)
def test_a_card_has_the_profile_of_its_name(card: str, name: str) -> None:
    assert load_device(card) == profile_of_card(card) == load_device(name)
    assert load_device(f"{card}:cupy").name == load_device(f"{name}:cupy").name


@pytest.mark.parametrize(
    ("card", "link"),
    [
        *(("GTX 1060", "PCIe gen 3 x16"), ("Quadro RTX 6000", "PCIe gen 3 x16")),
        *((f"{GPU}RTX 2080 SUPER", "PCIe gen 3 x16"), (f"{GPU}RTX 3080 Ti", "PCIe gen 4 x16")),
        *((f"{GPU}RTX 3080 Laptop GPU", "PCIe gen 4 x8"), (f"{GPU}RTX 4060 Ti", "PCIe gen 4 x8")),
        *(
            (f"{GPU}RTX 4090 D", "PCIe gen 4 x16"),
            (f"{GPU}RTX 5060 Ti", "PCIe gen 5 x8"),
            ("rtx5080", "PCIe gen 5 x16"),
        ),
        *(("NVIDIA A10G", "PCIe gen 4 x16"), ("NVIDIA A30", "PCIe gen 4 x16"), ("NVIDIA L40", "PCIe gen 4 x16")),
        *(("NVIDIA H20", "PCIe gen 5 x16"), ("NVIDIA H100 NVL", "PCIe gen 5 x16"), ("GH200 480GB", "NVLink-C2C")),
        *(("NVIDIA GB200", "NVLink-C2C of Blackwell"), ("NVIDIA RTX 6000 Ada Generation", "PCIe gen 4 x16")),
        *(("AMD Instinct MI300X", "PCIe gen 5 x16"), ("Orin", "memory of the host")),
    ],
)
def test_another_variant_is_another_card_and_one_line_says_what_is_assumed(card: str, link: str) -> None:
    with pytest.warns(Notice, match=r"^[a-z0-9-]+: nobody measured its pinned copies; .*$") as told:
        made = load_device(card)
    assert len(told) == 1
    assert made.name not in device_names()
    assert made.link == link
    assert made == profile_of_card(card)


@pytest.mark.parametrize("card", ["ABC 990", "", "NVIDIA H800", f"{GPU}RTX 5060 Ti"])
def test_nothing_of_a_made_profile_is_measured_but_what_the_recording_says(card: str) -> None:
    made = profile_of_card(card, 14, 4 << 30, 1)
    told = {key for key, source in made.sources.items() if source.startswith("measured")}
    assert told <= {"memory_bytes", "copy_engines.count"}
    assert (made.memory_bytes, made.copy_engines.count) == (4 << 30, 1)
    assert made.h2d.bandwidth_bytes_per_s <= link_limit(made.link)
    assert "nobody measured" in assumptions_of(made)


def test_a_made_profile_holds_the_threads_of_its_multiprocessors() -> None:
    """16 of Turing with 1,024 each; of a card that nobody knows nothing is said."""
    assert profile_of_card("GeForce GTX 1660", 16).compute.resident_threads == 16 * 1024
    assert profile_of_card("GeForce GTX 1660").compute.resident_threads == 0
    assert profile_of_card("ABC 990", 16).compute.resident_threads == 0


@pytest.mark.parametrize("given", ["no/such/t4", "GTX 1060/card"])
def test_a_path_is_no_name_of_a_card(given: str) -> None:
    with pytest.raises(InputError, match="neither a shipped profile"):
        load_device(given)


def test_a_grace_hopper_carries_more_to_the_card_than_back() -> None:
    """411 to 421 GB/s there and 170 back were reported."""
    made = profile_of_card("NVIDIA GH200 480GB")
    assert (made.h2d.bandwidth_bytes_per_s, made.d2h.bandwidth_bytes_per_s) == (411e9, 170e9)
    assert "411 and 170 GB/s" in assumptions_of(made)


def test_of_a_shipped_card_the_recording_says_memory_and_engines() -> None:
    """Three engines copy no better than two: one for each direction."""
    t4 = load_device("t4")
    assert profile_of_card("t4", copy_engines=3) == t4
    assert profile_of_card("t4", copy_engines=1).copy_engines.count == 1
    assert profile_of_card("t4", memory_bytes=1 << 30).memory_bytes == 1 << 30


@examples(100)
@given(st.text(max_size=40))
def test_any_name_makes_a_profile(card: str) -> None:
    made = profile_of_card(card)
    assert parse_device(dump_device(made)) == made
