"""What is said of the programs of lessons on streams, as they are written."""

from typing import Any

import pytest
from explained import lost

from streamsim.advice import explain
from streamsim.device import load_device
from streamsim.model import simulate
from streamsim.program import Buffer, Copy, Kernel, RecordEvent, Region, Schedule, Synchronize
from streamsim.races import check, repaired
from streamsim.transform import Dependences

# The programs of lessons on streams, as they are written. Their kernels' times are not given with them: any that is
# not negligible beside the copies leads to the same statements.

CARDS = ["ideal", "rtx3090", "h200"]
MI = 1 << 20


def blocking_streams(*ops: Any, streams: int, buffers: tuple[Buffer, ...], events: int = 0) -> Schedule:
    """What ``cudaStreamCreate`` makes are streams that the legacy default stream synchronises with."""
    kinds: tuple[Any, ...] = ("blocking",) * streams
    return Schedule(ops, kinds, buffers, events)


def in_place(n_bytes: int) -> tuple[Buffer, Buffer]:
    return Buffer("h_data", n_bytes, "pinned"), Buffer("d_data", n_bytes, "device")


def chunk(stream: int, offset: int, n_bytes: int, kernel_s: float, blocking: bool = False) -> list[Copy | Kernel]:
    """Copy a part of ``h_data`` in, work on it in place, copy it back."""
    host, device = Region("h_data", offset, n_bytes), Region("d_data", offset, n_bytes)
    return [
        Copy("h2d", n_bytes, stream, host, device, blocking),
        Kernel(stream, "sincos", n_bytes // 4, duration_s=kernel_s, reads=(device,), writes=(device,)),
        Copy("d2h", n_bytes, stream, host, device, blocking),
    ]


@pytest.mark.parametrize("name", CARDS)
def test_one_stream_with_asynchronous_copies_takes_what_blocking_copies_take(name: str) -> None:
    """1 Mi floats: ``cudaMemcpy``, kernel, ``cudaMemcpy`` in the default stream, then copies in one stream.

    In both each op needs the one before: nothing can overlap until the array is cut, and that is what is named.
    """
    device, data = load_device(name), in_place(4 * MI)
    blocking = blocking_streams(*chunk(0, 0, 4 * MI, 0.1e-3, blocking=True), streams=0, buffers=data)
    stream = blocking_streams(*chunk(1, 0, 4 * MI, 0.1e-3), Synchronize(stream=1), streams=1, buffers=data)
    both = [explain(schedule, device) for schedule in (blocking, stream)]
    for found in both:
        assert found.timeline.overlap_s == 0
        assert found.losses[0].cause == "few-chunks"
        assert found.losses[0].lost_s > 0.8 * found.gap_s
    assert both[1].makespan_s == pytest.approx(both[0].makespan_s, rel=0.05)


@pytest.mark.parametrize("name", CARDS)
def test_four_streams_depth_first_overlap_and_lose_most_to_filling_and_draining(name: str) -> None:
    """4 Mi floats in 4 streams, a chunk each, against blocking copies of all of it: 4 chunks, one a stream.

    On the ideal card with equal stages it would be half the time; the rest that is lost is 2 of 6 chunk times.
    """
    device, data = load_device(name), in_place(16 * MI)
    size, kernel_s = 4 * MI, 16 * MI / device.h2d.bandwidth_bytes_per_s  # the kernel as long as a copy
    whole = blocking_streams(*chunk(0, 0, 16 * MI, kernel_s, blocking=True), streams=0, buffers=data)
    parts = [op for i in range(4) for op in chunk(1 + i, i * size, size, kernel_s / 4)]
    several = blocking_streams(*parts, Synchronize(), streams=4, buffers=data)
    found = explain(several, device)
    assert found.timeline.overlap_s > 0
    assert 1.5 < simulate(whole, device).makespan_s / found.makespan_s <= 2.0 + 1e-6
    assert not found.is_racy
    assert "few-chunks" in {loss.cause for loss in found.losses[:2]}
    if name == "ideal":
        assert found.gap_s == pytest.approx(found.makespan_s * 2 / 6, rel=1e-3)
        assert set(lost(found)) == {"few-chunks"}


def vector_add(streams: int) -> Schedule:
    """Two inputs of 1 Mi floats and one output in pinned memory, the kernel between two events; all in stream 1."""
    names = ("A", "B", "C")
    host = tuple(Buffer(f"h_{name}", 4 * MI, "pinned") for name in names)
    on_card = tuple(Buffer(f"d_{name}", 4 * MI, "device") for name in names)
    a, b, c = (Region(buffer.name, 0, 4 * MI) for buffer in on_card)
    h_a, h_b, h_c = (Region(buffer.name, 0, 4 * MI) for buffer in host)
    ops = (
        Copy("h2d", 4 * MI, 1, h_a, a),
        Copy("h2d", 4 * MI, 1, h_b, b),
        RecordEvent(0, 1),
        Kernel(1, "add", MI, duration_s=20e-6, reads=(a, b), writes=(c,)),
        RecordEvent(1, 1),
        Synchronize(stream=1),
        Copy("d2h", 4 * MI, 1, h_c, c),
        Synchronize(stream=1),
    )
    return blocking_streams(*ops, streams=streams, buffers=(*host, *on_card), events=2)


@pytest.mark.parametrize("name", CARDS)
def test_a_second_stream_that_nobody_uses_overlaps_nothing(name: str) -> None:
    """The vector addition makes two streams and uses one, and its kernel needs both inputs whole.

    Nothing overlaps; the unused stream changes nothing; asynchronous calls and the events are not what is missing. As
    many streams as one likes would not help either: there is one chunk, and each op needs the one before it.
    """
    device = load_device(name)
    found = explain(vector_add(2), device)
    assert found.timeline.overlap_s == 0
    assert found.makespan_s == simulate(vector_add(1), device).makespan_s
    assert found.losses[0].cause == "few-chunks"
    assert not {"legacy-stream", "issue-order", "connections", "pageable-memory"} & set(lost(found))
    assert lost(found).get("needless-order", 0) == 0


def sleep(streams: int) -> Schedule:
    """4 tasks of 4 MiB in, a kernel that waits, 4 MiB back: every task with the same two buffers."""
    ops: list[Any] = []
    for task in range(4):
        there, kernel_, back = chunk(1 + task % streams, 0, 4 * MI, 0.5e-3)
        ops += (there, Kernel(kernel_.stream, "sleep", MI, duration_s=0.5e-3), back)  # touches no memory
    return blocking_streams(*ops, Synchronize(), streams=streams, buffers=in_place(4 * MI))


@pytest.mark.parametrize("name", CARDS)
def test_tasks_that_share_a_buffer_overlap_only_as_a_race(name: str) -> None:
    """In one stream nothing overlaps. In four they do, but only because nothing keeps a task from another's buffer.

    With the waits that the data needs, the four streams take as long as the one (or longer, by the events).
    """
    device = load_device(name)
    single, several = explain(sleep(1), device), explain(sleep(4), device)
    assert single.timeline.overlap_s == 0
    assert several.timeline.overlap_s > 0
    assert several.makespan_s < 0.95 * single.makespan_s
    assert (single.is_racy, several.is_racy) == (False, True)
    assert [bool(Dependences(sleep(streams)).orders) for streams in (1, 4)] == [
        False,
        True,
    ]  # the data's order, if kept
    assert several.bound_by == "compute engine"  # kernels that fill the card: 2 ms whatever the streams
    assert several.bound_s == pytest.approx(2e-3, rel=2e-3)  # less what the launches leave to others
    ordered = repaired(sleep(4), check(sleep(4)))
    assert simulate(ordered, device).overlap_s == 0
    assert simulate(ordered, device).makespan_s >= single.makespan_s - 1e-9
