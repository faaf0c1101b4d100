"""Closed forms that the ideal device must give exactly. Times in ticks; one byte per tick."""

import pytest
import strategies as card
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from streamsim import program
from streamsim.device import Device, load_device
from streamsim.model import simulate

IDEAL = card.make_device()
STAGE = st.integers(1, 9)


def chunked(h: int, k: int, d: int, chunks: int) -> program.Workload:
    """A workload each of whose ``chunks`` chunks takes h, k and d ticks (a chunk is 10 elements)."""
    kernel = program.WorkloadKernel(duration_s=10 * chunks * k * card.NS)
    return program.Workload(elements=10 * chunks, inputs=(h,), outputs=(d,), kernels=(kernel,))


def makespan(schedule: program.Schedule, device: Device = IDEAL) -> int:
    """In units of 10 ticks: the stages of ``chunked`` are then h, k and d."""
    ticks = round(simulate(schedule, device).makespan_s * 1e9)
    assert ticks % 10 == 0
    return ticks // 10


@given(STAGE, STAGE, STAGE, st.integers(1, 40), st.integers(1, 45))
def test_depth_first_over_streams_on_two_copy_engines(h: int, k: int, d: int, chunks: int, streams: int) -> None:
    # A chunk waits for the chunk N - S before it in its stream (whole chunks of s in J + 1 rounds), or the stages of
    # successive chunks follow at the pace of the slowest one, m.
    s, m = h + k + d, max(h, k, d)
    rounds = (chunks - 1) // streams
    expected = max(s + (chunks - 1) * m, (rounds + 1) * s + (chunks - 1 - rounds * streams) * m)
    assert makespan(program.depth_first(chunked(h, k, d, chunks), chunks, streams)) == expected


@given(STAGE, STAGE, STAGE, st.integers(1, 20), st.integers(1, 20))
def test_depth_first_on_one_copy_engine_in_issue_order_overlaps_nothing(
    h: int, k: int, d: int, chunks: int, streams: int
) -> None:
    # H2D i + 1 stands behind D2H i on the engine, and D2H i waits for kernel i: N s whatever the streams.
    device = card.make_device(copy_engines=1, connections=1)
    assert makespan(program.depth_first(chunked(h, k, d, chunks), chunks, streams), device) == chunks * (h + k + d)


@given(STAGE, STAGE, STAGE, st.integers(1, 20))
def test_breadth_first_with_a_stream_a_chunk_equals_depth_first_on_two_copy_engines(
    h: int, k: int, d: int, chunks: int
) -> None:
    # A flow shop of identical jobs: the same order on every engine, whichever way it was issued.
    workload = chunked(h, k, d, chunks)
    for connections in (1, 32):
        device = card.make_device(connections=connections)
        expected = h + k + d + (chunks - 1) * max(h, k, d)
        assert makespan(program.breadth_first(workload, chunks, chunks), device) == expected
        assert makespan(program.depth_first(workload, chunks, chunks), device) == expected


@given(STAGE, STAGE, STAGE, st.integers(1, 20))
def test_breadth_first_with_a_stream_a_chunk_on_one_copy_engine(h: int, k: int, d: int, chunks: int) -> None:
    # All H2D first, N h; kernel j ends at h + k + (j - 1) max(h, k) for chunk j = 1..N; D2H j follows D2H j - 1.
    end = chunks * h
    for j in range(chunks):
        end = max(end, h + k + j * max(h, k)) + d
    workload = chunked(h, k, d, chunks)
    assert (
        makespan(program.breadth_first(workload, chunks, chunks), card.make_device(copy_engines=1, connections=1))
        == end
    )


@given(STAGE, STAGE, STAGE, st.integers(1, 20))
def test_serial_and_one_stream_take_the_sum(h: int, k: int, d: int, chunks: int) -> None:
    workload = chunked(h, k, d, chunks)
    for copy_engines in (0, 1, 2):
        device = card.make_device(copy_engines=copy_engines)
        assert makespan(program.serial(workload, chunks), device) == chunks * (h + k + d)
        assert makespan(program.depth_first(workload, chunks, 1), device) == chunks * (h + k + d)
        assert makespan(program.serial(workload), device) == chunks * (h + k + d)


@given(STAGE, st.integers(1, 30))
def test_equal_stages_gain_the_textbook_factor(stage: int, chunks: int) -> None:
    # (N + 2) / (3 N) of the serial time; with N = 4 one half.
    workload = chunked(stage, stage, stage, chunks)
    overlapped, alone = makespan(program.depth_first(workload, chunks, chunks)), makespan(program.serial(workload))
    assert overlapped * 3 * chunks == alone * (chunks + 2)
    assert chunks != 4 or overlapped * 2 == alone


@given(STAGE, STAGE, st.integers(1, 20), st.integers(2, 5))
def test_prefetch_hides_the_shorter_of_copy_and_kernel(h: int, k: int, batches: int, buffers: int) -> None:
    # No output. Copies one after another (N h) and the last kernel; or the first copy and kernels back to back (N k).
    workload = program.Workload(
        10 * batches, (h,), (), (program.WorkloadKernel(duration_s=10 * batches * k * card.NS),)
    )
    assert makespan(program.prefetch(workload, batches, buffers)) == max(batches * h + k, h + batches * k)


@given(STAGE, STAGE, STAGE, st.integers(1, 20), st.integers(1, 6))
def test_a_ring_of_k_buffers_equals_k_streams(h: int, k: int, d: int, chunks: int, buffers: int) -> None:
    # Chunk i waits for chunk i - K as a whole, as it does in one of K streams, however many streams there are.
    workload = chunked(h, k, d, chunks)
    expected = makespan(program.depth_first(workload, chunks, buffers))
    assert makespan(program.ring(workload, chunks, buffers)) == expected
    assert makespan(program.ring(workload, chunks, buffers, streams=7 * 11)) == expected


# The schematic of NVIDIA's "How to Overlap Data Transfers in CUDA C/C++": 4 chunks of 3 equal stages, in chunk units,
# on the engines, queues and signals of the shipped profiles. Every latency, cost and loss is off.
SCHEMATIC = {
    # One copy engine, one kernel engine, one in-order queue each. V1: H2D1 D2H1 H2D2 ... leaves nothing to overlap.
    # V2: H2D at 0..4, kernels at 1..5, D2H at 4..8.
    "c1060": (12, 12, 8),
    # Two copy engines; kernels issued back to back signal only when the run of them has ended. V1: 4 + 2. V2: H2D 0..4,
    # kernels 1..5, D2H only from 5 on: 9.
    "c2050": (12, 6, 9),
    # Hyper-Q: the order no longer matters.
    "k20c": (12, 6, 6),
}


@pytest.mark.parametrize("name", SCHEMATIC)
def test_the_blogs_schematic_in_chunk_units(name: str) -> None:
    shipped, workload = load_device(name), chunked(1, 1, 1, 4)
    engines = ("concurrent_kernels", "arbitration", "kernel_signal")
    compute = replace(IDEAL.compute, **{field: getattr(shipped.compute, field) for field in engines})
    device = replace(IDEAL, connections=shipped.connections, copy_engines=shipped.copy_engines, compute=compute)
    schedules = program.serial(workload), program.depth_first(workload, 4, 4), program.breadth_first(workload, 4, 4)
    assert tuple(makespan(schedule, device) for schedule in schedules) == SCHEMATIC[name]
