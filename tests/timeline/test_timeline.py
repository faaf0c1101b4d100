"""Busy time, utilisation, overlap and the critical path on examples worked by hand."""

from array import array

import pytest
import strategies as card
from hypothesis import given
from hypothesis import strategies as st
from strategies import d2h, h2d, kernel, make_device, program

from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import Op, RecordEvent, Schedule, Synchronize, WaitEvent
from streamsim.timeline import Timeline, critical_path

IDEAL = make_device()
ENGINES = ("h2d", "d2h", "compute")


def measured(*spans: tuple[int, int, int]) -> Timeline:
    """A time line made by hand: (engine, start, end) in ticks of each op; -1: no engine."""
    ops: list[Op] = [(h2d(1, 1), d2h(1, 1), kernel(1, 1), Synchronize())[engine] for engine, _, _ in spans]
    engine, start, end = (array("q", column) for column in zip(*spans, strict=True))
    nothing = array("q", [-1]) * len(ops)
    return Timeline(program(*ops), ENGINES, engine, start, end, nothing, start, end)


def path(device: Device, *ops: Op, **more: object) -> list[tuple[int, str]]:
    """(op, because) of each step."""
    timeline = simulate(program(*ops, **more), device)  # type: ignore[arg-type]
    return [(step.op, step.because) for step in critical_path(timeline)]


def test_busy_time_counts_each_moment_once() -> None:
    # H2D 0..10 and 10..14: 14. Kernels 5..12 and 8..20 side by side: 15, and 30..31: 16 in all. No D2H.
    timeline = measured((0, 0, 10), (0, 10, 14), (2, 5, 12), (2, 8, 20), (2, 30, 31))
    assert timeline.busy_s == pytest.approx({"h2d": 14e-9, "d2h": 0, "compute": 16e-9})
    assert timeline.makespan_s == pytest.approx(31e-9)
    assert timeline.utilisation == pytest.approx({"h2d": 14 / 31, "d2h": 0, "compute": 16 / 31})


def test_overlap_is_the_time_with_two_engines_busy() -> None:
    # H2D 0..10, D2H 8..20, kernel 4..9 and 19..25: two or more at 4..10 and 19..20.
    assert measured((0, 0, 10), (1, 8, 20), (2, 4, 9), (2, 19, 25)).overlap_s == pytest.approx(7e-9)
    # One after another, and two kernels side by side on one engine: none.
    assert measured((0, 0, 10), (2, 10, 20), (2, 12, 20), (1, 20, 30)).overlap_s == 0


def test_the_makespan_is_when_the_card_is_done_and_not_the_host() -> None:
    timeline = measured((0, 0, 10), (-1, 10, 17))
    assert timeline.makespan_s == pytest.approx(10e-9)
    assert timeline.host_s == pytest.approx(17e-9)


def test_nothing_on_the_card_takes_no_time() -> None:
    timeline = simulate(program(Synchronize(), RecordEvent(0, 1)), IDEAL)
    assert timeline.makespan_s == timeline.overlap_s == 0
    assert timeline.utilisation == {"h2d": 0, "d2h": 0, "compute": 0}
    assert critical_path(timeline) == []


def test_spans_say_what_ran_where() -> None:
    device = make_device(copy=1, kernel=2, submit=1)
    timeline = simulate(program(h2d(1, 10), kernel(1, 5), RecordEvent(0, 1), d2h(2, 3), Synchronize()), device)
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


def test_the_path_of_a_balanced_pipeline_runs_along_its_slowest_engine() -> None:
    # Kernels of 9 beside copies of 5: H2D1, then all the kernels, then the last D2H.
    chunks = [op for s in (1, 2, 3) for op in (h2d(s, 5), kernel(s, 9), d2h(s, 5))]
    assert path(IDEAL, *chunks) == [(0, "start"), (1, "stream"), (4, "engine"), (7, "engine"), (8, "stream")]


def test_the_path_says_that_it_waited_for_an_event() -> None:
    ops = (kernel(1, 9), RecordEvent(0, 1), WaitEvent(0, 2), d2h(2, 5))
    assert path(IDEAL, *ops) == [(0, "start"), (3, "event")]


def test_the_path_says_that_it_waited_for_the_host() -> None:
    # The kernel of stream 2 is issued when the host has seen the copy: 10. Host cost alone: calls 0..50, 50..100.
    assert path(IDEAL, h2d(1, 10), Synchronize(stream=1), kernel(2, 5)) == [(0, "start"), (2, "host")]
    assert path(IDEAL, h2d(1, 10, blocking=True), kernel(2, 5)) == [(0, "start"), (1, "host")]
    assert path(make_device(copy=50), h2d(1, 10), d2h(2, 10)) == [(1, "host")]


def test_the_path_leads_over_the_op_that_blocked_the_queue() -> None:
    # One connection: stream 2's kernel stands behind stream 1's, which waits for its copy; they start together at 10.
    ops = (h2d(1, 10), kernel(1, 5, fill=0.5), kernel(2, 8, fill=0.5))
    device = make_device(connections=1, concurrent_kernels=16)
    assert path(device, *ops) == [(0, "start"), (1, "stream"), (2, "engine")]
    # A kernel that ended long ago is not the cause.
    longer = (h2d(1, 10), kernel(3, 2, fill=0.5), kernel(1, 5, fill=0.5), kernel(2, 8, fill=0.5))
    assert path(device, *longer) == [(0, "start"), (2, "stream"), (3, "engine")]


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
