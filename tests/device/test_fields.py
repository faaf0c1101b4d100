"""What is declared of a profile's fields, and what follows from it alone: checks, effects switched off, means."""

from operator import attrgetter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import COST, devices, make_device

from streamsim.device import (
    EFFECTS,
    Device,
    Field,
    SameAs,
    changed,
    device_names,
    faster,
    fields_of,
    load_device,
    mean_of,
    multiplied,
    number_names,
    tables_of,
    with_values,
    without,
)

DECLARED: list[tuple[str, Field]] = [
    (name, field) for name, table in tables_of(make_device()).items() for field in fields_of(type(table))
]
IDS = [f"{name}.{field.name}" for name, field in DECLARED]
TIMES = [f"{name}.{field.name}" for name, field in DECLARED if field.is_number and field.unit == "_s"]


# The declarations


@pytest.mark.parametrize(("table", "field"), DECLARED, ids=IDS)
def test_a_field_is_declared_by_fields_of_its_own_table_and_known_effects(table: str, field: Field) -> None:
    names = [other.name for name, other in DECLARED if name == table]
    spec = field.spec
    assert {*spec.at_least, *spec.at_most} <= set(names[: names.index(field.name)])  # declared before it
    assert spec.off.keys() <= EFFECTS.keys()
    assert {value.field for value in spec.off.values() if isinstance(value, SameAs)} <= set(names)
    assert spec.drawn_with in ("", *names)
    assert spec.sped_up_with in ("", "link", "kernel", "launch")
    assert not (spec.at_least and spec.at_most)


def test_every_effect_has_a_field() -> None:
    assert {effect for _, field in DECLARED for effect in field.spec.off} == EFFECTS.keys()


# Switched off


@given(devices())
def test_without_all_effects_nothing_takes_time_but_bytes_and_kernels(device: Device) -> None:
    bare = without(device, *EFFECTS)
    assert {attrgetter(name)(bare) for name in TIMES} == {0.0}
    for link in (bare.h2d, bare.d2h):
        assert link.duplex_bandwidth_bytes_per_s == link.crowded_bandwidth_bytes_per_s == link.bandwidth_bytes_per_s
    assert bare.compute.kernels == device.compute.kernels


@given(devices(), st.sampled_from(sorted(EFFECTS)))
def test_an_effect_goes_once(device: Device, effect: str) -> None:
    bare = without(device, effect)
    assert without(bare, effect) == bare


def test_without_the_other_direction_only_the_crowd_is_felt() -> None:
    link = without(load_device("h200"), "duplex").h2d
    assert link.duplex_latency_s == link.latency_s < link.crowded_latency_s == link.crowded_duplex_latency_s
    assert link.crowded_bandwidth_bytes_per_s < link.duplex_bandwidth_bytes_per_s == link.bandwidth_bytes_per_s


# Other values


@pytest.mark.parametrize("name", [name for name in IDS if not name.startswith("compute.kernels")])
def test_every_field_can_be_set_to_what_it_is(name: str) -> None:
    device = load_device("h200")
    table, _, field = name.partition(".")
    value = getattr(getattr(device, table), field)
    assert with_values(device, {name: value}) == device
    again = changed(device, {name: value})
    assert msgspec.structs.replace(again, sources=device.sources, link=device.link) == device


@pytest.mark.parametrize("name", device_names())
def test_what_is_multiplied_by_one_is_what_it_was(name: str) -> None:
    device = load_device(name)
    assert multiplied(device, dict.fromkeys(number_names(device), 1.0)) == device
    assert mean_of(device, device) == device
    assert all(faster(device, what, 1.0) == device for what in ("link", "kernel", "launch"))


@given(devices(), devices())
def test_a_mean_lies_between_what_was_measured_and_counts_are_the_first_ones(one: Device, other: Device) -> None:
    mean = mean_of(one, other)
    for (name, field), full in zip(DECLARED, IDS, strict=True):
        if field.is_number or field.spec.is_measured:
            middle = (attrgetter(full)(one) + attrgetter(full)(other)) / 2
            assert attrgetter(full)(mean) == (round(middle) if field.spec.is_measured else middle)
        elif full != "compute.kernels":
            assert getattr(getattr(mean, name), field.name) == getattr(getattr(one, name), field.name)
    assert (mean.connections, mean.sources) == (one.connections, one.sources)


def test_twice_as_fast_is_half_the_time() -> None:
    device = make_device(copy=4, synchronize=3, kernels=(COST,))
    launch = faster(device, "launch", 2.0).host
    assert (launch.copy_s, launch.synchronize_s) == (2e-9, device.host.synchronize_s)
    assert faster(device, "link", 2.0).d2h.pageable_bandwidth_bytes_per_s == 2e9
    (cost,) = faster(device, "kernel", 2.0).compute.kernels
    assert cost.duration_s == pytest.approx([seconds / 2 for seconds in COST.duration_s])
