"""Recordings as schedules: what a perfect profiler recorded of a simulated program is that program."""

import msgspec
import numpy as np
import pytest
import strategies as card
from hypothesis import given
from perfect_profiler import assert_is_that_program, profiled
from strategies import NS, d2h, h2d, kernel, make_device, plan

from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import Copy, HostWork, Kernel, RecordEvent, Schedule, Synchronize, WaitEvent
from streamsim.recorded import (
    CallKind,
    HostCosts,
    RecordedCard,
    program_of,
    replay,
    times,
    warnings_of,
    without_recording,
)


def waits(op: object) -> bool:
    """Whether the call may hold its thread: what it costs without that cannot be read off a recording."""
    return isinstance(op, Synchronize) or (isinstance(op, Copy) and (op.blocking or op.host is not None))


@given(card.schedules(launch="live"), card.devices(concurrent_kernels=1, resident_threads=0, kernel_signal="each"))
def test_what_was_recorded_of_a_program_is_that_program(schedule: Schedule, device: Device) -> None:
    ops = [msgspec.structs.replace(op, call_s=None) if waits(op) else op for op in schedule.ops]
    assert_is_that_program(msgspec.structs.replace(schedule, ops=tuple(ops)), device, profiled)


def test_a_program_by_hand() -> None:
    """One thread: work of 20 before its first call is before the program; 7 between its calls is the host's."""
    device = make_device(copy=2, kernel=3, synchronize=1, wake=4)
    ops = (
        HostWork(20 * NS),
        h2d(1, 10),
        RecordEvent(0, 1),
        WaitEvent(0, 2),
        HostWork(7 * NS),
        kernel(2, 5, name="gemm"),
        Synchronize(stream=2),
        d2h(2, 10, blocking=True),
    )
    found = program_of(profiled(simulate(plan(*ops), device)))
    assert found.schedule.ops == (
        Copy("h2d", 10, 1, call_s=2 * NS),
        RecordEvent(0, 1, call_s=0.0),
        WaitEvent(0, 2, call_s=0.0),
        HostWork(7 * NS),
        Kernel(2, "gemm", duration_s=5 * NS, threads=256, call_s=3 * NS),
        Synchronize(stream=2),
        Copy("d2h", 10, 2, blocking=True, call_s=2 * NS),
    )
    assert found.schedule.streams == ("non-blocking",) * 4
    assert found.first_ns == 20


@pytest.mark.parametrize(
    ("blocks", "threads", "multiprocessors", "fill"),
    [(64, 4, 0, None), (64, 4, 1, 1.0), (64, 4, 132, 256 / (132 * 160)), (1, 1024, 108, 1 / 108), (54, 1024, 108, 0.5)],
)
def test_a_kernel_keeps_as_much_of_its_card_busy_as_its_threads_issue_for(
    blocks: int, threads: int, multiprocessors: int, fill: float | None
) -> None:
    """A multiprocessor issues for no more than five warps; a grid of fewer blocks leaves multiprocessors idle."""
    recording = profiled(simulate(plan(kernel(1, 5)), make_device()))
    grid, block = (np.array([[size, 1, 1]], np.int32) for size in (blocks, threads))
    work = msgspec.structs.replace(recording.work, grid=grid, block=block)
    card = RecordedCard(0, multiprocessors=multiprocessors)
    found = program_of(msgspec.structs.replace(recording, cards=(card,), work=work))
    assert [op.fill for op in found.schedule.ops if isinstance(op, Kernel)] == [fill and pytest.approx(fill)]


def test_of_work_that_was_called_before_only_the_rest_is_replayed() -> None:
    """Two kernels of 40 have no call: one ended before the first call, the other had 15 to go."""
    was = profiled(simulate(plan(kernel(1, 40), kernel(1, 40), kernel(1, 5)), make_device(kernel=1)))
    started, work = int(was.work.start_ns[1]) + 25, was.work
    times = {"start_ns": np.array([started]), "end_ns": np.array([started + 1])}
    calls = msgspec.structs.replace(was.calls.rows(np.array([2])), **times)
    work = msgspec.structs.replace(work, call=np.array([-1, -1, 0]))
    found = program_of(msgspec.structs.replace(was, calls=calls, work=work))
    kernels = [round(op.duration_s / NS) for op in found.schedule.ops if isinstance(op, Kernel) and op.duration_s]
    assert kernels == [15, 5]
    assert {unread.what: unread.count for unread in found.assumed} == {
        "copies and kernels called before": 1,
        "copies and kernels that had ended before": 1,
    }


def test_a_kernel_takes_what_it_took_or_what_its_like_take_alone() -> None:
    """Two kernels of half the card side by side with a third of all of it: that one slows, and its like alone says 8.

    The first alone takes 8 ticks; the second runs beside the wide one and takes longer.
    """
    device = make_device(concurrent_kernels=4, kernel=1)
    ops = kernel(1, 8, name="a"), Synchronize(), kernel(1, 40, name="b", fill=0.75), kernel(2, 8, name="a")
    was = profiled(simulate(plan(*ops), device))
    took = was.work.end_ns - was.work.start_ns
    assert took[2] > 8
    assert times.uncontended_ns(was.work).tolist() == [8, 40, 8]


@pytest.mark.parametrize(("gap", "own"), [(0, 5), (300, 305), (999, 1004), (1000, 5)])
def test_a_kernel_of_a_graph_has_the_card_until_the_next_one_begins(gap: int, own: int) -> None:
    """Up to a microsecond; what is longer it waits for something else. Launched one by one that is the launch's."""
    was = profiled(simulate(plan(*(kernel(1, 5) for _ in range(3))), make_device(kernel=1)))
    starts = np.arange(3) * (5 + gap)
    graph, one_by_one = (
        msgspec.structs.replace(was.work, start_ns=starts, end_ns=starts + 5, call=np.array(calls))
        for calls in ([0, 0, 0], [0, 1, 2])
    )
    assert times.uncontended_ns(graph).tolist() == [own, own, 5]
    assert times.uncontended_ns(one_by_one).tolist() == [5, 5, 5]
    apart = msgspec.structs.replace(graph, stream=np.array([0, 1, 2], np.int32))
    among_copies = msgspec.structs.replace(graph, kind=np.array([1, 0, 1], np.int8))
    assert times.uncontended_ns(apart).tolist() == times.uncontended_ns(among_copies).tolist() == [5, 5, 5]


@pytest.mark.parametrize(("excess_us", "left_us"), [(200, 205), (400, 5), (900, 905), (20_000, 20_005)])
def test_of_a_first_call_only_what_pytorchs_profiler_takes_is_not_the_programs(excess_us: int, left_us: int) -> None:
    """It takes 0.25 to 0.6 ms when a recording begins; what takes other times, as a module, is the program's."""
    first_s = (excess_us + 5) * 1e-6
    ops = kernel(1, 5, call_s=first_s), kernel(1, 5, call_s=5e-6), kernel(1, 5, call_s=5e-6)
    found = program_of(profiled(simulate(plan(*ops), make_device())), costs=HostCosts(first=True))
    assert found.schedule.ops[0].call_s == pytest.approx(left_us * 1e-6)


def test_a_share_of_the_hosts_time_is_no_more_than_its_records_can_have_cost() -> None:
    """A quarter of calls of 8 us and of 20 ms: 2 us, and of the long one 10 us; so of work between calls."""
    ops = (
        kernel(1, 5, call_s=8e-6),
        HostWork(8e-6),
        kernel(1, 5, call_s=20e-3),
        HostWork(20e-3),
        kernel(1, 5, call_s=8e-6),
    )
    found = program_of(profiled(simulate(plan(*ops), make_device())), costs=HostCosts(share=0.25, most_s=10e-6))
    took = [op.duration_s if isinstance(op, HostWork) else op.call_s for op in found.schedule.ops]
    assert took == pytest.approx([6e-6, 6e-6, 19.99e-3, 19.99e-3, 6e-6])


def test_what_tears_a_program_down_is_no_part_of_it() -> None:
    """Behind the last wait for its last work comes nothing; without a wait nothing behind that work."""
    ops = h2d(1, 5), kernel(1, 5), Synchronize(), HostWork(50 * NS), Synchronize(), HostWork(9 * NS), RecordEvent(0, 1)
    waits, alone = (program_of(profiled(simulate(plan(*some), make_device()))) for some in (ops, ops[:2]))
    assert waits.schedule.ops[-1] == Synchronize()
    assert len(waits.schedule.ops) == 5
    assert isinstance(alone.schedule.ops[-1], Kernel)


@pytest.mark.parametrize(("begins", "parts"), [(40, (30, 60)), (10, (90,)), (200, (90,)), (100, (90,))])
def test_a_graph_runs_while_the_call_that_launches_it_does(begins: int, parts: tuple[int, ...]) -> None:
    """A call of 90 ticks; the card has it 10 later. Its first kernel began at 40: so by 30 it had been handed over.

    One that began by 10 was handed over at once, and one behind the call when it returned.
    """
    was = profiled(simulate(plan(kernel(1, 5), kernel(1, 5)), make_device(kernel=90)))
    kinds, starts = np.array([CallKind.GRAPH_LAUNCH], np.int8), np.array([begins, begins + 5])
    calls = msgspec.structs.replace(was.calls.rows(np.array([0])), kind=kinds)
    work = msgspec.structs.replace(was.work, call=np.zeros(2, np.int64), start_ns=starts, end_ns=starts + 5)
    found = program_of(msgspec.structs.replace(was, calls=calls, work=work), device=make_device(submit=10)).schedule
    host = [op.duration_s for op in found.ops if isinstance(op, HostWork)]
    assert host == pytest.approx([t * NS for t in parts])
    kernels = [i for i, op in enumerate(found.ops) if isinstance(op, Kernel)]
    assert [found.ops[i].call_s for i in kernels] == [0, 0]
    assert kernels[0] == (1 if begins > 10 else 0)


@pytest.mark.parametrize("share", [0.9, 0.5])
def test_the_untraced_time_is_what_the_schedule_then_takes(share: float) -> None:
    """Twenty calls of 5,000 ticks, and a kernel of 5 behind the last: as fast as it is told."""
    device = make_device(kernel=5000)
    was = profiled(simulate(plan(*[kernel(1, 5) for _ in range(20)]), device))
    whole_s = (20 * 5000 + 5) * NS
    found = without_recording(was, device, share * whole_s).program
    assert simulate_one_of_many(found.schedule, device).makespan_s == pytest.approx(share * whole_s, rel=0.001)


def test_an_untraced_time_that_no_cost_of_recording_explains_is_named() -> None:
    """A kernel of 10,000 ticks cannot take 5,000, whatever its call cost; nor does recording make a program faster."""
    device = make_device(kernel=50)
    was = profiled(simulate(plan(kernel(1, 10_000), HostWork(90 * NS), Synchronize()), device))
    for said_s, why in (
        (5_000 * NS, "the most that recording can have cost"),
        (20_000 * NS, "with all that recording cost"),
    ):
        found = without_recording(was, device, said_s)
        assert found.program == without_recording(was, device).program
        assert not found.is_reached
        assert why in found.how
        assert any(found.how in line for line in warnings_of(replay(was, device), found))
