"""Unified memory: moves of pages and faults are counted, shown on the recorded time line, and not replayed."""

from pathlib import Path

import pytest
from made_recordings import Export, export, process

from streamsim import recorded
from streamsim.cli import main
from streamsim.device import changed, load_device
from streamsim.program import Kernel, RecordedTrack
from streamsim.timeline import Timeline, recorded_timeline

MIB = 1 << 20
IN, OUT = 11, 12  # kinds of copies in an export
LANES = (  # from the prefetch's call on: what touches is one span, and nothing is later than the last work
    RecordedTrack("pages in, prefetched", (1_000, 4_000), (3_000, 5_000)),
    RecordedTrack("pages in, after faults", (64_000,), (70_000,)),
    RecordedTrack("pages out, ahead of need", (133_000,), (138_000,)),
    RecordedTrack("page faults of the card", (63_500,), (64_500,)),
    RecordedTrack("page faults of the host", (130_000,), (130_000,)),
)


@pytest.fixture
def made() -> Export:
    """The pipeline with a prefetch that holds the host from 2 to 7 us, moves on three causes, and faults."""
    made = export()
    made.call("cudaMemPrefetchAsync_v8000", 2_000, 7_000, 9)
    moves = ((3_000, 4_000, IN, 1), (4_000, 5_000, IN, 1), (6_000, 7_000, IN, 1), (66_000, 72_000, IN, 2))
    for start, end, kind, cause in (*moves, (135_000, 145_000, OUT, 3), (7_000_000, 7_001_000, OUT, 4)):
        where = {"bytes": MIB, "copyKind": kind, "srcKind": 7, "dstKind": 7, "migrationCause": cause}
        made.work("MEMCPY", start, end, 0, **where)
    where = {"globalPid": process(420)}
    made.add("CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=132_000, **where)
    made.add("CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=65_500, end=66_500, deviceId=0, numberOfPageFaults=40, **where)
    return made


@pytest.fixture
def recording(made: Export, tmp_path: Path) -> recorded.Recording:
    return recorded.read_recording(made.write(tmp_path / "t.sqlite"))


@pytest.fixture
def line(recording: recorded.Recording) -> Timeline:
    found = recorded.replay(recording)
    return recorded_timeline(found.timeline, recorded.recorded_times(recording, found.program))


def test_moves_and_faults_are_counted_by_cause_and_one_total_holds(recording: recorded.Recording) -> None:
    """The program begins with the prefetch at 2 us and ends with its last copy at 140 us, everywhere."""
    summary, found = recorded.summarise(recording), recorded.replay(recording)
    assert summary.pages == (
        recorded.RecordedAmount("pages in, prefetched", 3, 3 * MIB, 3e-6),
        recorded.RecordedAmount("pages in, after faults", 1, MIB, 6e-6),
        recorded.RecordedAmount("pages out, ahead of need", 1, MIB, 10e-6),
        recorded.RecordedAmount("pages out, evicted", 1, MIB, 1e-6),
        recorded.RecordedAmount("page faults of the card", 40, 0, 1e-6),
        recorded.RecordedAmount("page faults of the host", 1, 0, 0.0),
    )
    assert not summary.unread
    assert [unread.count for unread in found.program.assumed] == [8]  # all of them, said once
    assert found.recorded_s == summary.cards[0].span_s == pytest.approx(138e-6)
    assert abs(found.error) < 0.1


def test_a_prefetch_that_goes_on_after_its_call_holds_its_stream(tmp_path: Path) -> None:
    """Pages move until 90 us in rows without a stream; the thread's next kernel waits for them and takes 10."""
    made = Export()
    made.call("cudaMemPrefetchAsync", 0, 5_000, 1)
    made.call("cudaLaunchKernel", 5_000, 9_000, 2)
    made.call("cudaDeviceSynchronize", 9_000, 101_000, 3)
    made.work("KERNEL", 90_500, 100_500, 2, gridX=864, gridY=1, gridZ=1, blockX=256, blockY=1, blockZ=1)
    for start, end in ((8_000, 50_000), (52_000, 90_000)):
        where = {"bytes": MIB, "copyKind": IN, "migrationCause": 1, "globalPid": process(420), "deviceId": 0}
        made.add("MEMCPY", start=start, end=end, **where)
    found = recorded.replay(recorded.read_recording(made.write(tmp_path / "t.sqlite")))
    kernels = [(op.name, op.duration_s, op.stream) for op in found.program.schedule.ops if isinstance(op, Kernel)]
    assert kernels[0][0] == "copy of unified memory"
    assert kernels[0][1] == pytest.approx(82e-6)
    assert kernels[0][2] == kernels[1][2]
    assert abs(found.error) < 0.1
    (card,) = recorded.summarise(found.recording).cards
    assert {use.name: round(use.busy_s * 1e6) for use in card.engines} == {"kernels": 10, "unified memory": 82}
    assert card.pages_s == 0
    assert {reason.why for reason in card.without_kernel} >= {"behind a move of pages of its stream"}


def test_pages_that_move_when_they_are_touched_are_prefetched_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel of 90 us, in which pages move for 70 us after faults."""
    made = Export()
    made.call("cudaLaunchKernel", 0, 9_000, 2)
    made.work("KERNEL", 10_000, 100_000, 2, gridX=864, gridY=1, gridZ=1, blockX=256, blockY=1, blockZ=1)
    made.work("MEMCPY", 15_000, 85_000, 0, bytes=MIB, copyKind=IN, srcKind=7, dstKind=7, migrationCause=2)
    (card,) = recorded.summarise(recorded.read_recording(made.write(tmp_path / "t.sqlite"))).cards
    assert round(card.pages_s * 1e6) == 70
    assert card.pages_bytes == MIB
    slow, fast = (changed(load_device("a100"), {"h2d.bandwidth": MIB / (us * 1e-6)}) for us in (95, 20))
    assert recorded.verdict_of(card)[0].startswith(
        "binds: pages of unified memory that nobody prefetched, which move for 70%"
    )
    words, saved_s = recorded.pages_to_prefetch(card, fast)
    assert "up to 3.33x as fast" in words  # 10 us without the kernel, and a prefetch of 20 us
    assert round(saved_s * 1e6) == 70
    assert recorded.pages_to_prefetch(card, slow) == ("", 0.0)  # a prefetch takes as long
    assert main(["explain", str(tmp_path / "t.sqlite"), "--device", "a100"]) == 0
    assert "first: prefetch the pages of unified memory" in " ".join(capsys.readouterr().out.split())


def test_the_recorded_time_line_has_a_lane_for_each_cause(recording: recorded.Recording, line: Timeline) -> None:
    assert recorded.recorded_times(recording, recorded.replay(recording).program).lanes == LANES
    assert [(lane.name, tuple(lane.start), tuple(lane.end)) for lane in line.tracks] == [
        (lane.name, lane.start_ns, lane.end_ns) for lane in LANES
    ]
    assert line.makespan_s == pytest.approx(138e-6)
    assert not recorded.replay(recording).timeline.tracks
