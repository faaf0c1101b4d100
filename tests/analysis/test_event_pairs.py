"""What a kernel takes of the time between two events around it."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import NS, make_device

from streamsim.analysis import timed_alone
from streamsim.analysis.workloads import shown_s
from streamsim.device import device_names, load_device
from streamsim.errors import InputError
from streamsim.program import Layer, Layers, Point, Workload, WorkloadKernel, depth_first

US = 1e-6


def own_ticks(timed: WorkloadKernel, **card: Any) -> float | None:
    (alone,) = timed_alone(Workload(kernels=(timed,)), make_device(**card)).kernels
    assert alone.timed == "alone"
    return None if alone.duration_s is None else round(alone.duration_s / NS, 6)


def test_a_pair_of_events_shows_the_launch_as_well() -> None:
    """By hand. A call that records takes 1 tick, one that launches 5.

    The first event is on the card at 1, the kernel at 6. It takes 20 and ends at 26: the events show 25.
    """
    kernel = WorkloadKernel(duration_s=25 * NS, timed="events")
    assert own_ticks(kernel, record=1, kernel=5) == 20
    assert shown_s(kernel, 20 * NS, 1, make_device(record=1, kernel=5)) == pytest.approx(25 * NS)


def test_events_that_show_the_calls_alone_do_not_tell_the_kernel() -> None:
    """Three launches are called in 15 ticks. Events that show 16 say of the kernels only that the last takes 1."""
    kernel = WorkloadKernel(duration_s=16 * NS, launches=3, timed="events")
    with pytest.raises(InputError, match="they do not tell its time; give its own time without timed=events"):
        own_ticks(kernel, kernel=5)


def test_parts_were_timed_with_events_too() -> None:
    kernel = WorkloadKernel(duration_s=25 * NS, points=(Point(0.5, 17 * NS),), timed="events")
    (alone,) = timed_alone(Workload(kernels=(kernel,)), make_device(kernel=5)).kernels
    assert alone.duration_s == pytest.approx(20 * NS)
    assert alone.points[0].duration_s == pytest.approx(12 * NS)


@given(st.sampled_from(device_names()), st.floats(3e-6, 1e-3), st.sampled_from((1, 1, 2, 30)))
def test_what_is_found_is_what_the_events_would_show_again(name: str, took_s: float, launches: int) -> None:
    """There and back: a kernel's own time, what events around it show, and its own time again."""
    device = load_device(name)
    kernel = WorkloadKernel(duration_s=took_s, launches=launches, timed="events")
    shown = shown_s(kernel, took_s, launches, device)
    issued_s = launches * (device.host.kernel_s + device.host.record_s)
    assume(took_s / launches > device.compute.floor_s and took_s > issued_s)  # else the calls set what they show
    timed = Workload(kernels=(WorkloadKernel(duration_s=shown, launches=launches, timed="events"),))
    (alone,) = timed_alone(timed, device).kernels
    assert alone.duration_s == pytest.approx(took_s, abs=launches * 1.1e-9)


@pytest.mark.parametrize(("name", "low", "high"), [("h100", 4, 6), ("h200", 3.5, 6), ("ideal", 0, 0)])
def test_on_calibrated_cards_a_pair_adds_what_was_measured(name: str, low: float, high: float) -> None:
    """Measured on an H100 and an H200: 4 to 6 us, the same for small kernels of any length."""
    kernel, device = WorkloadKernel(duration_s=10 * US), load_device(name)
    for took_s in (5 * US, 10 * US, 50 * US):
        assert low - 1e-9 <= (shown_s(kernel, took_s, 1, device) - took_s) / US <= high + 1e-9


def test_no_schedule_is_made_of_times_that_no_device_has_read() -> None:
    workload = Workload(kernels=(WorkloadKernel(duration_s=15 * US, timed="events"),))
    with pytest.raises(InputError, match=r"timed_alone\(workload, device\)"):
        depth_first(workload, 2, 2)
    with pytest.raises(InputError, match="its time is that between two events"):
        Layers((Layer(1 << 20, workload.kernels),)).steps[0].launches()
    depth_first(timed_alone(workload, "h200"), 2, 2)
