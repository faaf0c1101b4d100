"""What recording cost, read off calls that do nothing."""

import msgspec
import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from perfect_profiler import profiled
from strategies import NS, d2h, h2d, kernel, make_device, plan

from streamsim import recorded
from streamsim.model import simulate
from streamsim.program import HostWork

LAUNCH, WORK = 3000, 500  # ticks: of a launch, and of what the host does before it
QUERY = "cudaGetDevice"


def with_queries(
    launches: int, own: int, gap: int, query: str = QUERY, of_work: int = 0, unwritten: int = 0
) -> recorded.Recording:
    """Launches with a query before each, by a recorder that takes ``own`` in every call and ``gap`` behind it.

    Of the query nothing else takes time, and of a launch ``of_work``. The host works behind each launch, and makes
    calls that are not written, which takes ``unwritten``.
    """
    device = make_device(kernel=LAUNCH)
    was = profiled(simulate(plan(*[kernel(1, 5) for _ in range(launches)]), device))
    names = (*was.names, query)
    now, calls = 0, []
    for row in range(launches):
        calls.append((recorded.CallKind.OTHER, len(was.names), now, now + own))
        now += own + gap
        calls.append((recorded.CallKind.LAUNCH, int(was.calls.name[row]), now, now + LAUNCH + own + of_work))
        now += LAUNCH + own + of_work + gap + WORK + unwritten
    n = len(calls)
    kinds, called, starts, ends = (np.array(column) for column in zip(*calls, strict=True))
    columns = {name: np.full(n, recorded.NONE) for name in recorded.HostCalls.__struct_fields__}
    columns |= {"kind": kinds, "name": called, "start_ns": starts, "end_ns": ends, "thread": np.zeros(n)}
    columns |= {"stream": np.where(kinds == recorded.CallKind.LAUNCH, 1, recorded.NONE), "correlation": np.arange(n)}
    launched = ends[1::2]
    work = msgspec.structs.replace(
        was.work, call=(2 * was.work.call + 1), start_ns=launched.astype(np.int64), end_ns=launched + 5
    )
    return msgspec.structs.replace(was, names=names, calls=recorded.HostCalls.of(columns), work=work)


def captured(was: recorded.Recording) -> recorded.Recording:
    """The same, recorded by CUPTI alone, which writes every call."""
    return msgspec.structs.replace(was, format="CUPTI")


@examples(30)
@given(st.integers(recorded.costs.ENOUGH, 30), st.integers(1, 400), st.integers(1, 400))
def test_calls_that_do_nothing_say_what_recording_cost(launches: int, own: int, gap: int) -> None:
    """Without it each launch takes what it takes, and before each but the first the host does its own work alone.

    Of a launch the kernel is recorded as well, which costs four times as much.
    """
    was = captured(with_queries(launches, own, gap, of_work=4 * own))
    cost, _ = recorded.costs.costs_of(was)
    told = cost.call_s, cost.between_s, cost.work_s, cost.share
    assert told == pytest.approx((own * NS, gap * NS, 4 * own * NS, 0.0))
    found = recorded.program_of(was, costs=cost).schedule
    assert [op.call_s for op in found.ops if not isinstance(op, HostWork)] == pytest.approx([LAUNCH * NS] * launches)
    between = [op.duration_s for op in found.ops if isinstance(op, HostWork)]
    assert between == pytest.approx([WORK * NS] * (launches - 1))


@examples(30)
@given(st.integers(3, 30), st.integers(1, 50), st.booleans())
def test_so_they_do_where_most_calls_are_not_written(launches: int, half: int, has_operations: bool) -> None:
    """By PyTorch's profiler, which writes other calls that do nothing.

    Of what it takes in a call it takes half behind it, and four times as much for the kernel of a launch. For each
    launch the host makes 3 calls that are not written; 14 where operations are recorded, as of PyTorch.
    """
    own, gap = 2 * half, half
    unwritten = (14 if has_operations else 3) * (own + gap)
    was = with_queries(launches, own, gap, "cudaStreamIsCapturing", 4 * own, unwritten)
    was = msgspec.structs.replace(was, annotations=_noted(int(has_operations)))
    found = recorded.without_recording(was, make_device(kernel=1)).program.schedule
    assert [op.call_s for op in found.ops if not isinstance(op, HostWork)] == pytest.approx([LAUNCH * NS] * launches)
    between = [op.duration_s for op in found.ops if isinstance(op, HostWork)]
    assert between == pytest.approx([WORK * NS] * (launches - 1), abs=2 * NS)  # as each gap is of whole nanoseconds


def test_no_more_is_taken_for_calls_that_are_not_there_than_passed_between_those_that_are() -> None:
    """Of 510 and 10 ticks before each launch but the first 260 are half, and 600 all."""
    was = with_queries(4, 0, 10)
    for unwritten, left in ((260, 260), (600, 0)):
        found = recorded.program_of(was, costs=recorded.HostCosts(unwritten_s=unwritten * NS)).schedule
        between = [op.duration_s for op in found.ops if isinstance(op, HostWork)]
        assert between == pytest.approx([left * NS] * 3 if left else [])


@pytest.mark.parametrize(("threads", "ratio"), [(0, 1.1), (1, 1.32), (2, 1.34)])
def test_of_pytorchs_profiler_a_measured_ratio_of_the_hosts_time_is_taken_off(threads: int, ratio: float) -> None:
    """The shipped ratios: without operations, with them, and with a backward pass, which has a thread of its own.

    Calls that do nothing say nothing there, as few are written.
    """
    was = with_queries(20, 100, 50)
    assert was.format == "Kineto"
    was = msgspec.structs.replace(
        was, threads=(recorded.RecordedThread(1, 1), recorded.RecordedThread(1, 2)), annotations=_noted(threads)
    )
    cost, how = recorded.costs.costs_of(was)
    assert cost.share == pytest.approx(1 - 1 / ratio)
    assert cost == recorded.HostCosts(share=cost.share, first=True)
    assert f"{ratio:g} times" in how


def _noted(threads: int) -> recorded.Annotations:
    """An operation in each thread."""
    row = {"start_ns": 0, "end_ns": 1, "kind": recorded.AnnotationKind.OP, "name": 0}
    columns = {name: [row.get(name, recorded.NONE)] * threads for name in recorded.Annotations.__struct_fields__}
    return recorded.Annotations.of(columns | {"thread": range(threads)})


@examples(20)
@given(st.integers(1, 30), st.integers(1, 10**6), st.integers(1, 10**6))
def test_nothing_is_taken_off_where_it_is_not_known(launches: int, own: int, gap: int) -> None:
    """By nsys, of a program that makes no calls that do nothing."""
    was = with_queries(launches, own, gap, "cudaPointerGetAttributes")
    was, device = msgspec.structs.replace(was, format="Nsight Systems"), make_device(kernel=1)
    found = recorded.without_recording(was, device)
    assert found.program.taken_out_s == 0
    assert "not known" in found.how


def test_while_a_card_is_recorded_engines_hear_of_each_other_a_microsecond_later() -> None:
    """Of two chunks in one stream: copy to kernel, kernel to copy back, copy back to copy; not kernel to kernel.

    That is 5 times, and in the replay they are.
    """
    device = make_device()
    ops = [op for _ in range(2) for op in (h2d(1, 4000), kernel(1, 100), kernel(1, 100), d2h(1, 4000))]
    alone, seen = (simulate(plan(*ops), card) for card in (device, recorded.costs.while_recorded(device)))
    assert seen.makespan_s == pytest.approx(alone.makespan_s + 5e-6)
    found = recorded.replay(profiled(seen), device)
    assert found.recorded_s == found.predicted_s == pytest.approx(seen.makespan_s)
