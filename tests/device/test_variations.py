"""A profile with numbers changed: what its fields declare, names, what follows what, effects off, faster, means."""

import json
from operator import attrgetter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import LATENCIES, SLOWER, devices, make_device

from streamsim import device
from streamsim.cli import main
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Workload, WorkloadKernel, depth_first, ring

H200, A100 = device.load_device("h200"), device.load_device("a100")
DECLARED = [(name.partition(".")[0], field) for name, _, field in device.declared(make_device())]
IDS = [f"{name}.{field.name}" for name, field in DECLARED]
TIMES = [name for name in IDS if name.endswith("_s") and not name.endswith("_per_s")]


# The declarations


@pytest.mark.parametrize(("table", "field"), DECLARED, ids=IDS)
def test_a_field_is_declared_by_fields_of_its_own_table_and_known_effects(table: str, field: device.Field) -> None:
    own = [other.name for name, other in DECLARED if name == table]
    spec = field.spec
    assert {*spec.at_least, *spec.at_most} <= set(own[: own.index(field.name)])  # declared before it
    assert spec.off.keys() <= device.EFFECTS.keys()
    assert {value for value in spec.off.values() if isinstance(value, str)} <= {*own, *device.ARBITRATIONS}
    assert spec.drawn_with in ("", *own)
    assert not (spec.at_least and spec.at_most)


def test_every_effect_has_a_field() -> None:
    assert {effect for _, field in DECLARED for effect in field.spec.off} == device.EFFECTS.keys()


# Switched off, set, faster, and the mean of two


@given(devices(), st.sampled_from(sorted(device.EFFECTS)))
def test_without_all_effects_nothing_takes_time_but_bytes_and_kernels_and_each_goes_once(
    profile: device.Device, effect: str
) -> None:
    bare, once = device.without(profile, *device.EFFECTS), device.without(profile, effect)
    assert device.without(once, effect) == once
    assert {attrgetter(name)(bare) for name in TIMES} == {0.0}
    for link in (bare.h2d, bare.d2h):
        assert link.duplex_bandwidth_bytes_per_s == link.crowded_bandwidth_bytes_per_s == link.bandwidth_bytes_per_s
    assert bare.compute.kernels == profile.compute.kernels


def test_without_the_other_direction_only_the_crowd_is_felt() -> None:
    link = device.without(H200, "duplex").h2d
    assert link.duplex_latency_s == link.latency_s < link.crowded_latency_s == link.crowded_duplex_latency_s
    assert link.crowded_bandwidth_bytes_per_s < link.duplex_bandwidth_bytes_per_s == link.bandwidth_bytes_per_s


@pytest.mark.parametrize("name", [name for name in IDS if not name.startswith("compute.kernels")])
def test_every_field_can_be_set_to_what_it_is(name: str) -> None:
    value = attrgetter(name)(H200)
    assert device.with_values(H200, {name: value}) == H200
    again = device.changed(H200, {name: value})
    assert msgspec.structs.replace(again, sources=H200.sources, link=H200.link) == H200


@pytest.mark.parametrize("name", device.device_names())
def test_what_is_multiplied_by_one_is_what_it_was(name: str) -> None:
    profile = device.load_device(name)
    assert device.multiplied(profile, dict.fromkeys(device.number_names(profile), 1.0)) == profile
    assert device.mean_of(profile, profile) == profile


@given(devices(), devices())
def test_a_mean_is_half_way_between_two_calibrations_and_rules_are_the_first_ones(
    one: device.Device, other: device.Device
) -> None:
    mean = device.mean_of(one, other)
    for name in set(IDS) - {"compute.kernels"}:
        values = [attrgetter(name)(profile) for profile in (one, other)]
        middle = values[0] if isinstance(values[0], str) else type(values[0])(sum(values) / 2)
        assert attrgetter(name)(mean) == middle
    assert mean.sources == one.sources


# Names, and what follows


def test_a_name_without_its_unit_is_as_good_and_no_two_are_the_same() -> None:
    """Else a short name would stand for one of them in silence."""
    shorts = {
        full: full.removesuffix("_s").removesuffix("_bytes_per").removesuffix("_bytes") for full in device.names(H200)
    }
    assert len(set(shorts.values())) == len(shorts)
    for full, short in shorts.items():
        assert (
            device.full_name(H200, full)
            == device.full_name(H200, short)
            == device.full_name(H200, short.upper())
            == full
        )
        assert device.current(H200, short) == device.names(H200)[full]


def test_the_longest_latency_follows_whichever_of_the_others_changes_more() -> None:
    us, link = 1e-6, H200.h2d
    longer = {
        "h2d.duplex_latency_s": link.duplex_latency_s + 3 * us,
        "h2d.crowded_latency": link.crowded_latency_s + us,
    }
    new = device.changed(H200, longer).h2d
    assert new.crowded_duplex_latency_s == pytest.approx(link.crowded_duplex_latency_s + 3 * us)
    assert new.latency_s == link.latency_s


@given(st.sampled_from(device.device_names()), st.floats(2e9, 1e12), st.floats(0, 1e-3))
def test_the_link_is_both_directions_and_all_that_depends_on_it_goes_with_it(
    name: str, rate: float, latency_s: float
) -> None:
    """In proportion, but pageable memory: no faster than pinned, and otherwise as fast as the host stages it."""
    profile = device.load_device(name)
    new = device.changed(profile, {"link.bandwidth": rate})
    assert new == device.changed(profile, {"h2d.bandwidth": rate, "d2h.bandwidth": rate})
    for before, after in ((profile.h2d, new.h2d), (profile.d2h, new.d2h)):
        assert after.bandwidth_bytes_per_s == rate
        for slower in SLOWER:
            kept = getattr(before, slower) / before.bandwidth_bytes_per_s
            assert getattr(after, slower) / rate == pytest.approx(kept)
        assert after.pageable_bandwidth_bytes_per_s == min(before.pageable_bandwidth_bytes_per_s, rate)
        assert after.latency_s == before.latency_s
    new = device.changed(profile, {"link.latency": latency_s})
    for link in (new.h2d, new.d2h):
        assert link.latency_s == latency_s
        assert all(getattr(link, more) >= getattr(link, less) for more, less in LATENCIES)
        assert link.pageable_latency_s >= latency_s


def test_a_command_takes_the_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """And predicts what the library predicts on the changed device."""
    shape = ["--h2d", "1MiB", "--kernel", "20us", "--d2h", "1MiB", "--chunks", "4", "--streams", "2", "--json"]
    setting = ["--set", "link.bandwidth=5GB/s", "--set", "host.copy=9us"]
    schedule = depth_first(Workload(None, (1 << 20,), (1 << 20,), (WorkloadKernel(duration_s=20e-6),)), 4, 2)
    expected = simulate(schedule, device.changed(H200, {"link.bandwidth": 5e9, "host.copy": 9e-6})).makespan_s
    for command in ("predict", "explain"):
        assert main([command, *shape, *setting]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["makespan_s"] == expected
        assert said["inputs"]["set"] == ["link.bandwidth=5GB/s", "host.copy=9us"]
        assert said["link"].startswith("PCIe gen 5 x16 as changed; H2D 5, D2H 5 GB/s assumed (as set); both at once")


# The card's memory, and queues


BIG = Workload(1 << 18, inputs=(4, 2), outputs=(1,), kernels=(WorkloadKernel(duration_s=20e-6),))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(-2, 2))
def test_what_has_room_is_predicted_and_one_byte_more_is_not(chunks: int, buffers: int, spare: int) -> None:
    schedule = ring(BIG, chunks, buffers)
    n_bytes = sum(b.bytes for b in schedule.buffers if b.memory == "device")
    assert schedule.device_bytes == n_bytes
    card = device.with_memory_limit(H200, n_bytes + spare)
    assert card.memory_bytes == n_bytes + spare
    if spare >= 0:
        card.check_room(n_bytes)
    else:
        with pytest.raises(InputError, match=rf"^device buffers of {n_bytes} bytes .*; use a ring"):
            card.check_room(n_bytes)


def test_a_limit_never_gives_a_card_more_than_it_has() -> None:
    assert device.with_memory_limit(A100, 1 << 42) is A100
    assert device.with_memory_limit(A100, None) is A100
    assert device.with_memory_limit(device.load_device("ideal"), 7).memory_bytes == 7


def test_best_leaves_out_what_has_no_room_on_the_card(capsys: pytest.CaptureFixture[str]) -> None:
    """Too large for a T4, it comes in rings; those that do not fit are counted: 64 GiB in n chunks, k at a time."""
    sizes = ["--h2d", "32GiB", "--kernel", "1s", "--d2h", "32GiB", "--elements", "64Ki", "--device", "t4"]
    assert main(["best", *sizes, "--max-chunks", "16", "--max-streams", "1", "--order", "depth-first", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    memory = device.load_device("t4").memory_bytes
    assert memory is not None
    distinct = {(n, k if k is None else min(k, n)) for n in range(1, 17) for k in (None, 2, 3, 4, 8)}
    needs = [64 << 30 if k is None else -(-(1 << 16) // n) * k << 20 for n, k in distinct]
    assert said["left_out"] == sum(n > memory for n in needs)
    assert said["programs"] + said["left_out"] == len(distinct)
    assert said["device_bytes"] <= said["memory_bytes"] == memory
    assert said["best"]["buffers"] is not None


def test_connections_of_every_engine_at_once() -> None:
    profile = make_device(connections=8, copy_connections=4).with_connections(2)
    assert (profile.connections, profile.copy_engines.connections) == (2, 2)


# The link, in words
