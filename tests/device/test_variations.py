"""A profile with numbers changed: names, what follows what, and one line for whatever is wrong."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import LATENCIES, SLOWER

from streamsim.cli import main
from streamsim.device import (
    changed,
    current,
    device_names,
    full_name,
    link_words,
    load_device,
    names,
    with_memory_limit,
)
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Workload, WorkloadKernel, depth_first, ring

H200, A100 = load_device("h200"), load_device("a100")
PIPELINE = ["--h2d", "1MiB", "--kernel", "20us", "--d2h", "1MiB"]


# Names


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("h2d.bandwidth", "h2d.bandwidth_bytes_per_s"),
        ("H2D.Bandwidth", "h2d.bandwidth_bytes_per_s"),
        ("d2h.duplex_latency", "d2h.duplex_latency_s"),
        ("h2d.in_flight", "h2d.in_flight_bytes"),
        ("host.copy", "host.copy_s"),
        ("link.pageable_bandwidth", "link.pageable_bandwidth_bytes_per_s"),
        ("copy_engines.count", "copy_engines.count"),
        ("compute.arbitration", "compute.arbitration"),
    ],
)
def test_a_name_without_its_unit_is_as_good(short: str, full: str) -> None:
    assert full_name(H200, short) == full
    assert current(H200, short) == names(H200)[full]


def test_no_two_names_are_the_same_without_their_units() -> None:
    """Else a short name would stand for one of them in silence."""
    known = list(names(H200))
    assert len({full_name(H200, name) for name in known}) == len(known)
    shorts = {name.removesuffix("_s").removesuffix("_bytes_per").removesuffix("_bytes") for name in known}
    assert len(shorts) == len(known)


# What follows


def test_the_longest_latency_follows_whichever_of_the_others_changes_more() -> None:
    us, device = 1e-6, load_device("h200")
    duplex_s, crowded_s = device.h2d.duplex_latency_s + 3 * us, device.h2d.crowded_latency_s + us
    link = changed(device, {"h2d.duplex_latency_s": duplex_s, "h2d.crowded_latency_s": crowded_s}).h2d
    assert link.crowded_duplex_latency_s == pytest.approx(device.h2d.crowded_duplex_latency_s + 3 * us)
    assert link.latency_s == device.h2d.latency_s


RATES = st.floats(2e9, 1e12)
DEPENDENT = st.sampled_from([*SLOWER, "pageable_bandwidth_bytes_per_s"])


@given(st.sampled_from(device_names()), RATES)
def test_the_link_is_both_directions_and_all_that_depends_on_a_bandwidth_goes_with_it(name: str, rate: float) -> None:
    """In proportion, but pageable memory: no faster than pinned, and otherwise as fast as the host stages it."""
    device = load_device(name)
    new = changed(device, {"link.bandwidth": rate})
    assert new == changed(device, {"h2d.bandwidth": rate, "d2h.bandwidth": rate})
    for before, after in ((device.h2d, new.h2d), (device.d2h, new.d2h)):
        assert after.bandwidth_bytes_per_s == rate
        for slower in SLOWER:
            kept = getattr(before, slower) / before.bandwidth_bytes_per_s
            assert getattr(after, slower) / rate == pytest.approx(kept)
        assert after.pageable_bandwidth_bytes_per_s == min(before.pageable_bandwidth_bytes_per_s, rate)
        assert after.latency_s == before.latency_s


@given(st.sampled_from(device_names()), st.floats(0, 1e-3))
def test_no_latency_ends_up_below_one_that_it_must_not_be_below(name: str, latency_s: float) -> None:
    new = changed(load_device(name), {"link.latency": latency_s})
    for link in (new.h2d, new.d2h):
        assert link.latency_s == latency_s
        assert all(getattr(link, more) >= getattr(link, less) for more, less in LATENCIES)
        assert link.pageable_latency_s >= latency_s


def test_every_command_takes_the_setting(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And predicts what the library predicts on the changed device."""
    shape = ["--chunks", "4", "--streams", "2"]
    setting = ["--set", "link.bandwidth=5GB/s", "--set", "host.copy=9us"]
    schedule = depth_first(Workload(None, (1 << 20,), (1 << 20,), (WorkloadKernel(duration_s=20e-6),)), 4, 2)
    expected = simulate(schedule, changed(H200, {"link.bandwidth": 5e9, "host.copy": 9e-6})).makespan_s
    plan = str(tmp_path / "plan.json")
    assert main(["code", *PIPELINE, *shape, "--as", "schedule", "-o", plan]) == 0
    for command in (["predict", *PIPELINE, *shape], ["predict", plan], ["explain", *PIPELINE, *shape]):
        assert main([*command, *setting, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["makespan_s"] == expected
        assert said["inputs"]["set"] == ["link.bandwidth=5GB/s", "host.copy=9us"]
        assert said["link"].startswith("PCIe gen 5 x16 as changed; H2D 5, D2H 5 GB/s assumed (as set); both at once")
    one = ["--max-chunks", "4", "--max-streams", "1", "--order", "serial"]
    assert main(["best", *PIPELINE, *one, *setting, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["serial_s"] > 2 * (1 << 20) / 5e9
    assert "as set" in said["link"]


# The card's memory


BIG = Workload(1 << 18, inputs=(4, 2), outputs=(1,), kernels=(WorkloadKernel(duration_s=20e-6),))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(-2, 2))
def test_what_has_room_is_predicted_and_one_byte_more_is_not(chunks: int, buffers: int, spare: int) -> None:
    schedule = ring(BIG, chunks, buffers)
    n_bytes = sum(b.bytes for b in schedule.buffers if b.memory == "device")
    assert schedule.device_bytes == n_bytes
    card = with_memory_limit(H200, n_bytes + spare)
    assert card.memory_bytes == n_bytes + spare
    if spare >= 0:
        card.check_room(n_bytes)
    else:
        with pytest.raises(InputError, match=rf"^device buffers of {n_bytes} bytes .*; use a ring"):
            card.check_room(n_bytes)


def test_a_limit_never_gives_a_card_more_than_it_has() -> None:
    assert with_memory_limit(A100, 1 << 42) is A100
    assert with_memory_limit(A100, None) is A100
    assert with_memory_limit(load_device("ideal"), 7).memory_bytes == 7


def test_best_leaves_out_what_has_no_room_on_the_card(capsys: pytest.CaptureFixture[str]) -> None:
    """Too large for a T4, it comes in rings; those that do not fit are counted: 64 GiB in n chunks, k at a time."""
    sizes = ["--h2d", "32GiB", "--kernel", "1s", "--d2h", "32GiB", "--elements", "64Ki", "--device", "t4"]
    assert main(["best", *sizes, "--max-chunks", "16", "--max-streams", "1", "--order", "depth-first", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    memory = load_device("t4").memory_bytes
    assert memory is not None
    distinct = {(n, k if k is None else min(k, n)) for n in range(1, 17) for k in (None, 2, 3, 4, 8)}
    needs = [64 << 30 if k is None else -(-(1 << 16) // n) * k << 20 for n, k in distinct]
    assert said["left_out"] == sum(n > memory for n in needs)
    assert said["programs"] + said["left_out"] == len(distinct)
    assert said["left_out_why"] == "they need more than 14.56 GiB on the card"
    assert said["device_bytes"] <= said["memory_bytes"] == memory
    assert said["best"]["buffers"] is not None
    assert said["usual_fits"] is False


# The link, in words


def test_the_words_have_the_numbers_and_how_they_are_known() -> None:
    assert link_words(A100) == (
        "PCIe gen 4 x16; H2D 25.7, D2H 25.8 GB/s published (one report);"
        " both at once H2D 12, D2H 24 GB/s published (two reports)"
    )
    assert link_words(load_device("c1060")).endswith("published (one report); one direction at a time")
    words = link_words(H200, pageable=True)
    assert words.startswith("PCIe gen 5 x16; H2D 55.3, D2H 54.4 GB/s measured (+- 0.9% and +- 1.7%); both at once ")
    assert "; pageable H2D " in words
    nameless = msgspec.structs.replace(H200, link="", spread={})
    assert link_words(nameless).startswith("H2D 55.3, D2H 54.4 GB/s measured; both at once H2D ")
