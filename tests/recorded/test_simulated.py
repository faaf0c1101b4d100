"""Recordings of simulated programs: what the profiler's file says is what was simulated."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfect_profiler import profiled

from streamsim import build, load_device, simulate, workload_of_sizes
from streamsim.program import HostMemory, Order
from streamsim.recorded import kineto, read_recording, replay, without_recording, write_recording

WORKLOAD = workload_of_sizes(h2d=["64MiB"], kernels=["0.57ms"], d2h=["32MiB"])
ORDERS: tuple[Order, ...] = ("serial", "depth-first", "breadth-first", "prefetch")
MEMORIES: tuple[HostMemory, ...] = ("pinned", "pageable")
COLUMNS = {
    "calls": ("start_ns", "end_ns", "kind", "thread", "record"),
    "work": ("start_ns", "end_ns", "kind", "bytes", "direction", "memory", "call"),
}


@given(
    order=st.sampled_from(ORDERS),
    chunks=st.integers(1, 9),
    streams=st.integers(1, 4),
    memory=st.sampled_from(MEMORIES),
    device=st.sampled_from(["h200", "k20c", "rtx4090"]),
)
def test_the_file_says_what_was_simulated(
    tmp_path_factory: pytest.TempPathFactory, order: Order, chunks: int, streams: int, memory: HostMemory, device: str
) -> None:
    """The second opinion builds the recording in memory from the same time line. Its streams have other numbers."""
    many = order in ("depth-first", "breadth-first")
    timeline = simulate(build(WORKLOAD, order, chunks, streams if many else 1, memory=memory), device)
    path = tmp_path_factory.mktemp("simulated") / "trace.json.gz"
    write_recording(timeline, path)
    found, expected = read_recording(path), profiled(timeline)
    for table, columns in COLUMNS.items():
        for column in columns:
            got, right = (getattr(getattr(one, table), column).tolist() for one in (found, expected))
            assert got == right, (table, column)
    numbers = [[one.streams[row].id for row in one.work.stream.tolist()] for one in (found, expected)]
    assert numbers[0] == [kineto.LEGACY_STREAM + number for number in numbers[1]]


def test_it_replays_in_the_simulated_time_and_nothing_is_taken_off(tmp_path: Path) -> None:
    timeline = simulate(build(WORKLOAD, "serial", 8), "h200")
    write_recording(timeline, tmp_path / "trace.json")
    recording = read_recording(tmp_path / "trace.json")
    assert recording.cards[0].name == "h200"
    assert abs(replay(recording).error) < 1e-3
    found = without_recording(recording, load_device("h200"))
    assert found.predicted_s == pytest.approx(timeline.makespan_s, rel=1e-3)
