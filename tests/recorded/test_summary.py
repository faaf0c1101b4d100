"""What is said of a recording: amounts, how busy engines were, and why they stood still."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from made_recordings import PINNED_IN, call, copy, kernel, pipeline, recording_of, span

from streamsim import recorded
from streamsim.program import HostWork, Synchronize
from streamsim.recorded import summary as idle


def summary(*events: dict[str, Any]) -> recorded.RecordingSummary:
    return recorded.summarise(recording_of(*events))


def us(reasons: Iterable[idle.RecordedReason]) -> dict[str, int]:
    return {reason.why: round(reason.time_s * 1e6) for reason in reasons}


def test_a_pipeline_by_hand() -> None:
    """Calls at 10..15, 20..30, 40..45, 50..150; copy in 20..60, kernel 65..95, copy back 100..140.

    From the first call to the end of the copy back are 130 us, of which 110 busy. Idle 10..20: 5 in the call of the
    copy, 5 on its way. 60..65 and 95..100: the kernel and the copy back had long been asked for. No kernel: the same
    until 20, 40 behind the copy in, 5 on its way, and then 45 in which none comes.
    """
    found = summary(*pipeline())
    (card,) = found.cards
    assert {engine.name: round(engine.busy_s * 1e6) for engine in card.engines} == {"H2D": 40, "D2H": 40, "kernels": 30}
    assert [round(time * 1e6) for time in (card.span_s, card.overlap_s, card.idle_s)] == [130, 0, 20]
    assert us(card.idle) == {idle.IN_CALL.format("cudaMemcpyAsync"): 5, idle.ON_THE_WAY: 15}
    assert round(card.without_kernel_s * 1e6) == 100
    assert us(card.without_kernel) == {
        idle.AFTER: 45,
        idle.BEHIND.format("an H2D copy"): 40,
        idle.ON_THE_WAY: 10,
        idle.IN_CALL.format("cudaMemcpyAsync"): 5,
    }
    assert [(amount.what, amount.count, amount.bytes) for amount in found.work] == [
        ("copies H2D, pinned", 1, 1 << 20),
        ("copies D2H, pinned", 1, 1 << 20),
        ("kernels", 1, 0),
    ]
    assert [(use.name, use.count, round(use.longest_s * 1e6)) for use in found.calls] == [
        ("cudaStreamSynchronize", 1, 100),
        ("cudaMemcpyAsync", 2, 5),
        ("cudaLaunchKernel", 1, 10),
    ]
    assert not found.unread


def test_a_host_that_comes_late_by_hand() -> None:
    """The kernel ends at 10; the next is launched at 60..65, and starts at 70.

    Till then the host waits until 30, allocates from 40 to 50 and is between calls else.
    """
    found = summary(
        call("cudaLaunchKernel", 0, 1, 1),
        kernel(2, 8, 1),
        call("cudaDeviceSynchronize", 3, 27, 2),
        call("cudaMalloc", 40, 10, 3),
        span("cuda_driver", "cuMemAlloc", 42, 6, correlation=4),  # inside
        call("cudaLaunchKernel", 60, 5, 5),
        kernel(70, 5, 5),
    )
    assert us(found.cards[0].idle) == {
        idle.IN_CALL.format("cudaDeviceSynchronize"): 20,
        idle.BETWEEN_CALLS: 20,
        idle.IN_CALL.format("cudaMalloc"): 10,
        idle.IN_CALL.format("cudaLaunchKernel"): 6,
        idle.ON_THE_WAY: 6,
    }


def test_a_wait_for_another_stream_by_hand() -> None:
    """The kernel of stream 14 has been called at 5 and starts at 25, when the copy in stream 13 has ended at 22."""
    found = summary(
        call("cudaMemcpyAsync", 0, 2, 1),
        copy(PINNED_IN, 2, 20, 1, stream=13),
        call("cudaLaunchKernel", 3, 2, 2),
        kernel(25, 5, 2, stream=14),
    )
    assert us(found.cards[0].without_kernel) == {
        idle.OTHERS_BUSY: 17,
        idle.IN_CALL.format("cudaMemcpyAsync"): 2,
        idle.IN_CALL.format("cudaLaunchKernel"): 2,
        idle.ON_THE_WAY: 3,
        idle.BETWEEN_CALLS: 1,
    }


def test_work_that_had_ended_before_the_first_call_is_no_part_of_the_cards_time() -> None:
    """Kernels of before end at 5 and 25; the first call is at 20. The program has the last 5 of that and its own 10."""
    work = (kernel(0, 5, 1), kernel(10, 15, 2), kernel(30, 10, 3))
    (card,) = summary(*work, call("cudaLaunchKernel", 20, 2, 3)).cards
    assert [round(time * 1e6) for time in (card.span_s, card.engines[0].busy_s, card.idle_s)] == [20, 15, 5]


def test_what_a_free_takes_beyond_its_wait_is_the_hosts() -> None:
    """A free waits for a kernel of 100 us and takes 160 more, whatever the kernel then takes."""
    free = call("cudaFree", 10, 270, 2)
    ops = recorded.program_of(recording_of(*launch(0, 1), free, *launch(300, 3))).schedule.ops
    assert [op for op in ops if isinstance(op, Synchronize)] == [Synchronize(name="cudaFree", call_s=0.0)]
    assert [op.duration_s for op in ops if isinstance(op, HostWork) and op.name] == pytest.approx([160e-6])


def launch(at_us: float, correlation: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return call("cudaLaunchKernel", at_us, 10, correlation), kernel(at_us + 20, 100, correlation)


# Any recording


CALLED = (  # a call of each kind
    *("cudaMalloc", "cudaFree", "cudaMemcpy", "cudaMemcpyAsync", "cudaLaunchKernel", "cudaMemset", "cudaEventRecord"),
    *("cudaStreamWaitEvent", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize"),
    *("cudaGraphLaunch", "cudaLaunchHostFunc", "cudaMemPrefetchAsync", "cudaGetDevice"),
)


@st.composite
def recordings(draw: st.DrawFn) -> recorded.Recording:
    """Calls of two threads and work of two cards, at times from a small range so that ties are frequent."""
    builder = recorded.RecordingBuilder("Kineto", "drawn")
    times = st.tuples(st.integers(0, 30), st.integers(0, 12))
    calls = draw(st.lists(st.tuples(times, st.integers(0, 1), st.integers(0, 9), st.sampled_from(CALLED)), max_size=9))
    for (start, took), thread, correlation, name in calls:
        row = {"start_ns": [start], "end_ns": start + took, "process": 1, "correlation": correlation}
        builder.add("calls", {**row, "name": builder.name(name), "pid": 1, "tid": thread})
        mark = {
            "process": [1],
            "correlation": correlation,
            "pid": 1,
            "context": 0,
            "stream_id": draw(st.integers(0, 1)),
        }
        mark |= {"event": draw(st.integers(0, 1)), "recorded": draw(st.integers(-1, 9))}
        builder.add("records" if name == "cudaEventRecord" else "waits", mark)
    kinds = st.sampled_from((recorded.WorkKind.COPY, recorded.WorkKind.KERNEL, recorded.WorkKind.MEMSET))
    work = draw(st.lists(st.tuples(times, st.integers(0, 1), st.integers(0, 9), kinds), min_size=1, max_size=12))
    for (start, took), card, correlation, kind in work:
        direction = (
            draw(st.sampled_from(list(recorded.CopyDirection)[1:]))
            if kind == recorded.WorkKind.COPY
            else recorded.CopyDirection.NONE
        )
        row = {"start_ns": [start], "end_ns": start + took, "process": 1, "correlation": correlation, "kind": kind}
        where = {"device": card, "pid": 1, "context": card, "stream_id": draw(st.integers(0, 1))}
        builder.add("work", {**row, **where, "name": builder.name("w"), "direction": direction})
    return builder.recording()


@examples(50)
@given(recordings())
def test_rows_are_in_order_and_refer_to_what_is_there(recording: recorded.Recording) -> None:
    calls, work = recording.calls, recording.work
    for table in (calls, work, recording.annotations, recording.pages):
        assert (np.diff(table.start_ns) >= 0).all()
        assert (table.end_ns >= table.start_ns).all()
    for column, there in (
        *((work.call, calls), (work.card, recording.cards), (work.stream, recording.streams)),
        *((work.name, recording.names), (calls.name, recording.names), (calls.thread, recording.threads)),
        *((calls.stream, recording.streams), (calls.record, calls)),
    ):
        assert ((column >= recorded.NONE) & (column < len(there))).all()
    assert (np.concatenate([work.card, work.name, calls.name, calls.thread]) >= 0).all()
    assert set(calls.kind[calls.record[calls.record >= 0]].tolist()) <= {recorded.CallKind.RECORD}


def ticks(card: recorded.RecordedCardUse, recording: recorded.Recording) -> list[set[int]]:
    """The engines busy in each nanosecond of the card's span."""
    mine = recording.work.card == [known.id for known in recording.cards].index(card.id)
    here = recording.work.rows(mine)
    first, last = round(card.start_s * 1e9), round(card.end_s * 1e9)
    busy: list[set[int]] = [set() for _ in range(first, last)]
    for engine, start, end in zip(
        idle.engines_of(here).tolist(), here.start_ns.tolist(), here.end_ns.tolist(), strict=True
    ):
        for t in range(max(start, first), end):
            busy[t - first].add(engine)
    return busy


@examples(50)
@given(recordings())
def test_busy_overlap_and_idle_are_those_counted_tick_by_tick_and_the_reasons_add_up(
    recording: recorded.Recording,
) -> None:
    for card in recorded.summarise(recording).cards:
        busy = ticks(card, recording)
        assert round(card.idle_s * 1e9) == sum(not engines for engines in busy)
        assert round(card.overlap_s * 1e9) == sum(len(engines) > 1 for engines in busy)
        assert round(card.without_kernel_s * 1e9) == sum(2 not in engines for engines in busy)
        assert sum(round(reason.time_s * 1e9) for reason in card.idle) == round(card.idle_s * 1e9)
        assert sum(round(reason.time_s * 1e9) for reason in card.without_kernel) == round(card.without_kernel_s * 1e9)
        for engine, name in ((0, "H2D"), (2, "kernels")):
            times = next(((use.busy_s, use.alone_s) for use in card.engines if use.name == name), (0, 0))
            alone = sum(engines == {engine} for engines in busy)
            assert [round(time * 1e9) for time in times] == [sum(engine in engines for engines in busy), alone]
