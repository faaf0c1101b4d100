"""What a prediction says, worked by hand and as laws."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import d2h, devices, h2d, kernel, link, make_device, plan, schedules

from streamsim import program
from streamsim.analysis import Prediction, predict
from streamsim.device import Device
from streamsim.model import simulate
from streamsim.report import gantt

NS = 1e-9
# Two chunks of 10 ticks a stage in two streams on a device without overheads:
#   h2d      0..10 10..20
#   compute        10..20 20..30
#   d2h                   20..30 30..40
TWO_CHUNKS = plan(
    h2d(1, 10), kernel(1, 10), d2h(1, 10), h2d(2, 10), kernel(2, 10), d2h(2, 10), streams=2, name="two [chunks]"
)


def two_chunks() -> Prediction:
    return predict(TWO_CHUNKS, make_device())


def test_figures_worked_by_hand() -> None:
    p = two_chunks()
    # Serial: six ops of 10. Two engines busy in 10..30. Each engine is busy for 20 of 40.
    assert p.makespan_s == pytest.approx(40 * NS)
    assert p.serial_s == pytest.approx(60 * NS)
    assert p.speedup == pytest.approx(1.5)
    assert p.timeline.overlap_s == pytest.approx(20 * NS)
    engines = ("h2d", "d2h", "compute")
    assert p.timeline.busy_s == pytest.approx(dict.fromkeys(engines, 20 * NS))
    assert p.timeline.utilisation == pytest.approx(dict.fromkeys(engines, 0.5))


def test_a_speed_up_is_over_what_the_schedule_was_cut_from() -> None:
    # Copies cost 100 ticks of latency each and a byte a tick: unchunked 2 (100 + 20) + 20, in two chunks
    # 2 (2 (100 + 10) + 10) one by one; by two engines, the copies in end at 110 and 220, the kernel and the copy out
    # of the second follow: 220 + 10 + 110.
    device = make_device(h2d=link(latency=100), d2h=link(latency=100))
    workload = program.Workload(20, (1,), (1,), (program.WorkloadKernel(duration_s=20 * NS),))
    schedule = program.depth_first(workload, 2, 2)
    p = predict(schedule, device)
    assert p.serial_program == "unchunked"
    assert (p.serial_s, p.one_by_one_s, p.makespan_s) == pytest.approx((260 * NS, 460 * NS, 340 * NS))
    assert (p.speedup, p.speedup_over_one_by_one) == pytest.approx((260 / 340, 460 / 340))
    # A schedule that does not say what it was cut from: its own ops one by one.
    own = predict(replace(schedule, unchunked=None), device)
    assert (own.serial_program, own.serial_s, own.speedup) == ("serial", p.one_by_one_s, p.speedup_over_one_by_one)


@given(st.integers(1, 12), st.integers(1, 5), devices())
def test_one_by_one_is_the_serial_program_of_as_many_chunks(chunks: int, streams: int, device: Device) -> None:
    workload = program.Workload(60, (1, 2), (1,), (program.WorkloadKernel(duration_s=60 * NS),) * 2)
    alone = predict(program.serial(workload, chunks), device)
    assert predict(program.depth_first(workload, chunks, streams), device).one_by_one_s == alone.makespan_s
    assert alone.speedup_over_one_by_one == 1
    assert alone.speedup == 1 or chunks > 1
    assert predict(program.breadth_first(workload, chunks, streams), device).serial_s == alone.serial_s


def test_gantt_worked_by_hand() -> None:
    # 20 columns for 40 ticks: two ticks a column, ten ticks are five columns.
    rows = gantt(two_chunks().timeline, width=29).splitlines()
    assert rows == [
        "h2d      1111122222..........",
        "d2h      ..........1111122222",
        "compute  .....1111122222.....",
        "         0              40 ns",
    ]


# One queue: the last kernel waits behind the one before it, and then both run side by side on the critical path.
SIDE_BY_SIDE = plan(*[kernel(0, 4)] * 5, kernel(0, 4, fill=0.5), kernel(1, 4), streams=1)


@given(schedules(), devices())
@example(SIDE_BY_SIDE, make_device(connections=1, concurrent_kernels=2))
def test_laws_of_a_prediction(schedule: program.Schedule, device: Device) -> None:
    p = predict(schedule, device)
    assert p.makespan_s == simulate(schedule, device).makespan_s
    assert p.serial_s == simulate(program.serialized(schedule), device).makespan_s
    assert p.makespan_s >= p.issued_bound.seconds - NS
    assert p.timeline.overlap_s <= p.makespan_s + NS
    assert all(0 <= used <= 1 + 1e-9 for used in p.timeline.utilisation.values())
