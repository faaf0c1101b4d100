"""Busy time, utilisation, overlap and the critical path on examples worked by hand."""

import pytest
import strategies as card
from hypothesis import given
from hypothesis import strategies as st
from strategies import d2h, h2d, kernel, make_device, plan

from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import Op, RecordEvent, Schedule, Synchronize, WaitEvent
from streamsim.timeline import critical_path

IDEAL = make_device()


def path(device: Device, *ops: Op, **more: object) -> list[tuple[int, str]]:
    """(op, because) of each step."""
    timeline = simulate(plan(*ops, **more), device)  # type: ignore[arg-type]
    return [(step.op, step.because) for step in critical_path(timeline)]


def test_spans_say_what_ran_where() -> None:
    device = make_device(copy=1, kernel=2, submit=1)
    timeline = simulate(plan(h2d(1, 10), kernel(1, 5), RecordEvent(0, 1), d2h(2, 3), Synchronize()), device)
    copy, run, record, _, sync = timeline.spans
    assert (copy.op, copy.label, copy.engine, copy.stream) == (0, "H2D", "h2d", 1)
    assert (run.label, run.engine) == ("kernel", "compute")
    assert (record.label, record.engine) == ("record event 0", None)
    assert (sync.label, sync.engine, sync.stream) == ("synchronise device", None, None)
    # Call 0..1, on the card at 2, runs 2..12; the kernel: call 1..3, on the card at 4, waits for the copy.
    assert (copy.issued_s, copy.returned_s, copy.ready_s, copy.start_s, copy.end_s) == pytest.approx(
        (0, 1e-9, 2e-9, 2e-9, 12e-9)
    )
    assert (run.issued_s, run.returned_s, run.ready_s, run.start_s, run.end_s) == pytest.approx(
        (1e-9, 3e-9, 12e-9, 12e-9, 17e-9)
    )
    assert list(timeline) == timeline.spans


def test_the_path_says_that_it_waited_for_the_host() -> None:
    # The kernel of stream 2 is issued when the host has seen the copy: 10. Host cost alone: calls 0..50, 50..100.
    assert path(IDEAL, h2d(1, 10), Synchronize(stream=1), kernel(2, 5)) == [(0, "start"), (2, "host")]
    assert path(IDEAL, h2d(1, 10, blocking=True), kernel(2, 5)) == [(0, "start"), (1, "host")]
    assert path(make_device(copy=50), h2d(1, 10), d2h(2, 10)) == [(1, "host")]


@given(card.schedules(), card.devices())
def test_busy_and_overlap_agree_with_counting_ticks(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    engines: list[set[int]] = [set() for _ in timeline.engine_names]
    for k, start, end in zip(timeline.engine, timeline.start, timeline.end, strict=True):
        if k >= 0:
            engines[k] |= set(range(start, end))
    assert timeline.busy_s == pytest.approx(
        {name: len(ticks) * 1e-9 for name, ticks in zip(timeline.engine_names, engines, strict=True)}
    )
    every = set().union(*engines)
    twice = [t for t in every if sum(t in ticks for ticks in engines) > 1]
    assert timeline.overlap_s == pytest.approx(len(twice) * 1e-9)
    assert all(0 <= share <= 1 for share in timeline.utilisation.values())


@given(st.integers(1, 40), st.integers(1, 8))
def test_the_path_of_a_chain_is_the_chain(n: int, streams: int) -> None:
    ops: list[Op] = []
    for i in range(n):
        stream = 1 + i % streams
        ops += (WaitEvent(0, stream), kernel(stream, 3), RecordEvent(0, stream))
    steps = path(IDEAL, *ops, streams=streams)
    assert [op for op, _ in steps] == list(range(1, 3 * n, 3))
