"""Device profiles as values, and the cost of kernels."""

import copy

import msgspec
import pytest
import strategies as card
from hypothesis import given
from hypothesis import strategies as st

from streamsim.device import Device, KernelCost
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Kernel

COST = KernelCost("table", 7, (10, 20, 40), (5e-6, 7e-6, 17e-6))


@given(card.devices())
def test_a_device_is_frozen_and_comes_back_from_json_as_it_was(device: Device) -> None:
    assert copy.deepcopy(device) == device
    for value in (device, device.h2d, device.compute, device.host, device.hand_over, device.copy_engines):
        for field in value.__struct_fields__:
            with pytest.raises(AttributeError):
                setattr(value, field, None)
    assert msgspec.json.decode(msgspec.json.encode(device), type=Device) == device


def test_kernel_costs_are_linear_between_the_points() -> None:
    # Below the first point as there; half-way between 10 and 20: 6; between 20 and 40: 7 + 5 x 10 / 20; beyond: the
    # last slope, 0.5 us an element.
    found = [COST.at(n) * 1e6 for n in (1, 10, 15, 20, 25, 40, 41, 60)]
    assert found == pytest.approx([5, 5, 6, 7, 9.5, 17, 17.5, 27])
    assert COST.s_per_element == pytest.approx(0.5e-6)


def test_kernel_time_and_share_of_the_card() -> None:
    device = card.make_device(kernels=(COST,), floor=6000, resident_threads=1000)
    # From the table: 10 elements need 10 x 0.5 = 5 of the floor's 6 us. 40: 17 us, all of it.
    assert device.occupancy(Kernel(1, "table", 10, 7))[:2] == pytest.approx((6e-6, 5 / 6))
    assert device.occupancy(Kernel(1, "table", 40, 7))[:2] == pytest.approx((17e-6, 1.0))
    # A sixteenth of a launch of 80 us and 4 waves, of 250 threads. Beyond the floor the launch takes 74 us, a quarter
    # of a wave 74/16 = 4.625; from an eighth of a wave on, 1/32 of the launch, a line: 4.625 + (74 - 4.625) / 31 more.
    # Its work is a sixteenth of the 74 us, or half of that with fill 1/2.
    part, took_us = Kernel(1, duration_s=5e-6, share=1 / 16, threads=250), 6 + 4.625 + 69.375 / 31
    assert device.occupancy(part)[:2] == pytest.approx((took_us * 1e-6, 4.625 / took_us))
    half = msgspec.structs.replace(part, fill=0.5)
    assert device.occupancy(half)[:2] == pytest.approx((took_us * 1e-6, 4.625 / 2 / took_us))
    # A whole launch takes its time; of 250 threads, on a quarter of the card.
    assert device.occupancy(Kernel(1, elements=250, duration_s=8e-6))[:2] == pytest.approx((8e-6, 2 / 4 / 8))
    # The floor is the least, and no work: 3 us given, 30 us given.
    assert device.occupancy(Kernel(1, duration_s=3e-6))[:2] == pytest.approx((6e-6, 0.0))
    assert device.occupancy(Kernel(1, elements=5000, duration_s=30e-6))[:2] == pytest.approx((30e-6, 24 / 30))


def test_what_leaves_the_card_to_others_is_part_of_a_kernels_time() -> None:
    # A card of 20 threads: of the 7 us that 20 elements take, none is beyond their 20 x 0.5 = 10. With a table that
    # starts at 20 us for 20, 10 are: all of the floor's 6, and of the other 4 a half for 10 elements, 2.
    device = card.make_device(kernels=(COST,), floor=6000, resident_threads=20)
    assert device.occupancy(Kernel(1, "table", 20, 7)).drain_s == 0
    slow = KernelCost("table", 7, (20, 40), (20e-6, 30e-6))
    device = card.make_device(kernels=(slow,), floor=6000, resident_threads=20)
    found = [device.occupancy(Kernel(1, "table", n, 7)).drain_s for n in (10, 20, 30)]
    assert found == pytest.approx([8e-6, 10e-6, 10e-6])
    # Work and time alone are what they are: 5, 10 and 15 us of work.
    times = [device.occupancy(Kernel(1, "table", n, 7))[:2] for n in (10, 20, 30)]
    assert times == [pytest.approx(both) for both in ((20e-6, 0.25), (20e-6, 0.5), (25e-6, 0.6))]
    # On a curve that bends, 8 us of 10 threads' 12 us: 4 are left for 5 of work, on all of the card.
    bent = KernelCost("table", 7, (10, 20, 40), (12e-6, 20e-6, 30e-6))
    device = card.make_device(kernels=(bent,), floor=6000, resident_threads=20)
    assert device.occupancy(Kernel(1, "table", 10, 7))[:2] == pytest.approx((12e-6, 1 / 3))


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_elements_never_take_less_time(few: int, more: int) -> None:
    device = card.make_device(kernels=(COST,), floor=5)
    few, more = sorted((few, more))
    assert device.occupancy(Kernel(1, "table", few, 7)).alone_s <= device.occupancy(Kernel(1, "table", more, 7)).alone_s


def test_a_kernel_without_a_cost_is_named() -> None:
    device = card.make_device(kernels=(COST,))
    for kernel in (Kernel(1, "other", 10, 7), Kernel(1, "table", 10, 8)):
        with pytest.raises(InputError, match=rf"kernel '{kernel.name}' with parameter {kernel.parameter}.*table\(7\)"):
            simulate(card.program(kernel), device)


def test_connections_of_every_engine_at_once() -> None:
    device = card.make_device(connections=8, copy_connections=4).with_connections(2)
    assert (device.connections, device.copy_engines.connections) == (2, 2)
