"""How programs are recorded, replayed and predicted in pairs: on a card that is not there, and of made-up records."""

import json
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fake_cupti
import fake_libraries
import pytest
from fake_libraries import PAGEABLE, PINNED
from made_captures import of_the_guide
from msgspec.structs import replace

from campaigns.recorded.rounds import ROUNDS
from campaigns.recordings import HERE, PAIRS, PROGRAMS, record, run
from campaigns.replayed import (
    Pair,
    Predicted,
    Record,
    Recorded,
    Replayed,
    Times,
    lines,
    predictions,
    read_record,
    replays,
)
from streamsim.recorded import read_recording, untraced_time_s
from streamsim.transform import drop_sync, make_async, streams

NAMES = {program.name for program in PROGRAMS}
PROFILED = "inference async"  # which the profiler records as well: it is not there
BESIDE = "inference pinned"  # in one process with it
FAILING = "cpp_pipeline async"  # there is no compiler for its library
ONE_ROUND = """
import importlib, json, sys
import fake_cupti as card

issued, said = [], {}
card.emit = issued.append
for module in sys.argv[1:]:
    program = importlib.import_module(f"campaigns.recorded.{module}")
    program.FLOATS = program.ARRAY_FLOATS = 1024  # values are of no matter
    for variant, made in program.VARIANTS.items():
        work = made()
        work.run()
        issued.clear()
        work.run()
        copies = [one for one in issued if one.kind == card.ActivityKind.MEMCPY]
        said[f"{module} {variant}"] = {
            "copies": len(copies),
            "memories": sorted({one.src_kind if one.copy_kind == 1 else one.dst_kind for one in copies}),
            "streams": len({one.stream_id for one in copies}),
            "waits": sum(one.kind == card.ActivityKind.SYNCHRONIZATION for one in issued),
            "launches": sum(one.kind == card.ActivityKind.RUNTIME for one in issued),
            "verified": bool(work.is_right()),
        }
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """PyTorch, CuPy and CUPTI that are not there, for the processes that are started."""
    place = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in fake_cupti.install(place).items():
            patch.setenv(name, value)
        fake_libraries.install(place)
        yield place


@pytest.fixture(scope="module")
def folder(installed: Path) -> Path:
    """Of a record on that card: two programs, one of which a profiler would record as well, and one that fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")  # no compiler
        record(installed / "found", "", "2026-11-23", 600.0, (PROFILED, BESIDE, FAILING))
    return installed / "found"


def test_every_pair_is_of_programs_that_are_recorded() -> None:
    assert len(NAMES) == len(PROGRAMS) >= 20
    assert len({(pair.before, pair.after) for pair in PAIRS}) == len(PAIRS) >= 12
    for pair in PAIRS:
        assert {pair.before, pair.after} <= NAMES
        assert pair.changes


@pytest.mark.usefixtures("installed")
def test_the_programs_ask_the_card_for_what_their_names_say() -> None:
    """The card's memory, streams, waits and calls of one round of each."""
    modules = ("inference", "perceptron", "training", "layers_streamed", "cupy_pipeline")
    command = [sys.executable, "-c", ONE_ROUND, *modules]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    assert set(found) == {name for name in NAMES if not name.startswith("cpp_pipeline")}
    for name, one in found.items():
        module, _, variant = name.partition(" ")
        kind = variant.removeprefix("small-")
        assert one["verified"], name
        if "pageable" in variant:
            assert one["memories"] == [PAGEABLE]
        elif module == "training":
            assert PINNED in one["memories"]  # and what it asks of the loss
        else:
            assert one["memories"] == [PINNED], name
        if "graph" in variant:
            assert one["launches"] == 2  # and one wait
        if kind in ("async", "small", "streams", "streams-2", "streams-4", "chunked", "graph"):
            assert one["waits"] == 1, name
        if kind in ("synchronised", "pinned", "pageable", "each-loss", "whole"):
            assert one["waits"] >= one["copies"] // 3, name
    used = {name.partition(" ")[2]: one["streams"] for name, one in found.items() if one["streams"] > 1}
    assert used == {
        "streams-2": 2,
        "streams-4": 4,
        "prefetched": 2,
        "streams": 4,
        "graph": 4,
        "chunked": 4,
        "small-streams": 4,
        "small-streams-2": 2,
        "small-streams-4": 4,
    }


def test_programs_are_captured_and_timed_and_those_that_fail_are_noted(folder: Path) -> None:
    """What nothing records takes what is recorded on this card: recording costs nothing there."""
    found = read_record(folder)
    times = {(one.program, one.by): one for one in found.times}
    both = PROFILED, BESIDE
    assert all(len(one.pace_s) == len(one.wall_s) for one in found.times)
    assert all(one.pace_s in times[one.program, one.by].pace_s for one in found.recordings)
    assert set(times) == {(name, by) for name in both for by in ("", "CUPTI")}
    assert [(one.program, one.by) for one in found.recordings] == [(name, "CUPTI") for name in sorted(both)[::-1]]
    assert all(one.verified for one in found.times)
    assert {(one.by, len(one.beside_s)) for one in found.times} == {("", 0), ("CUPTI", ROUNDS)}
    assert sorted(len(one.wall_s) for one in found.times if not one.by) == [ROUNDS] * 6
    failed = {(one.program, one.what): one.why for one in found.failures}
    assert set(failed) == {(FAILING, "captured"), (FAILING, "as it is"), (PROFILED, "profiled")}
    assert "ProfilerActivity" in failed[PROFILED, "profiled"]
    (archive,) = folder.glob("*.zip")
    with zipfile.ZipFile(archive) as kept:
        kept.extractall(folder / "unpacked")
    (file,) = {recorded.file for recorded in found.recordings}
    recording = read_recording(folder / "unpacked" / file)
    for recorded in found.recordings:
        recorded_s = times[recorded.program, "CUPTI"].wall_s
        variant = recorded.program.partition(" ")[2]
        quarter = recorded_s.index(sorted(recorded_s)[ROUNDS // 4]) + 1  # a quarter of all was faster
        assert recorded.window == f"{variant}[{quarter}]"
        untraced_s = found.untraced_s(recorded.program)
        assert untraced_s == pytest.approx([statistics.median(recorded_s)] * 3)
        assert found.measured_s(recorded.program) == pytest.approx(untraced_s[:1])
        assert untraced_time_s(recording, recorded.window) == pytest.approx(untraced_s[0], rel=0.1)


def test_rounds_count_before_which_the_host_was_as_fast_as_before_the_recorded_one() -> None:
    """It runs at two speeds. Those of the process that was recorded come first, but of graphs, which CUPTI changes."""

    def of(program: str) -> Record:
        times = (
            Times(program, "CUPTI", (9.0,), True, (1.0, 3.0, 2.0), (1e-5,), (1e-5, 1e-5, 2e-5)),
            Times(program, "", (5.0, 6.0), True, pace_s=(2e-5, 3e-5)),
        )
        return Record("a card", "2026-11-26", "", 1.0, times, (), ())

    found, graph = of("inference small"), of("inference small-graph")
    assert [found.measured_s("inference small", pace) for pace in (0.0, 1.05e-5, 2e-5, 3e-5, 4e-5)] == [
        (2.0,),
        (2.0,),
        (2.0,),
        (6.0,),
        (),
    ]
    assert [graph.measured_s("inference small-graph", pace) for pace in (0.0, 1e-5, 2e-5)] == [(5.5,), (), (5.0,)]


def test_the_rounds_of_programs_come_in_turn(folder: Path) -> None:
    """Both in every round, the one that is asked for first first."""
    with zipfile.ZipFile(next(folder.glob("*.zip"))) as kept:
        kept.extractall(folder / "unpacked")
    recording = read_recording(folder / "unpacked" / read_record(folder).recordings[0].file)
    ranges = sorted(zip(recording.annotations.start_ns, recording.annotations.name, strict=True))
    names = [recording.names[name] for _, name in ranges]
    assert names == ["pinned", "async"] * ROUNDS
    assert recording.work.end_ns.max() <= recording.annotations.end_ns.max()  # nothing is recorded behind them


def test_when_time_is_over_no_program_is_begun(tmp_path: Path) -> None:
    found = record(tmp_path / "new", "", "", -1.0, (PROFILED,))
    assert [one.why for one in found.failures] == ["no time was left"] * 4
    assert not found.times
    assert not found.recordings


def test_a_process_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    inner = f"import time; time.sleep(2); open({str(alive)!r}, 'w')"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="took longer than 1 s"):
        run([sys.executable, "-c", outer], 1.0)
    assert time.monotonic() - began < 2
    time.sleep(2)
    assert not alive.exists()


def test_what_a_failed_process_said_is_told() -> None:
    with pytest.raises(RuntimeError, match="exit code 3: no card"):
        run([sys.executable, "-c", "import sys; print('no card'); sys.exit(3)"], 60.0)


# What is made of a record


BEFORE_S, AFTER_S = 5.393e-3, 2.119e-3  # of the guide's programs: docs/my-program-does-not-overlap.md
CHANGED = Pair("guide before", "guide after", (make_async(), drop_sync(), streams(4)))


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record]:
    """A record of the programs of the guide, as if they had been run here."""
    place = tmp_path_factory.mktemp("guide")
    with zipfile.ZipFile(place / "recordings-1.zip", "w") as kept:
        for number, name in enumerate(("before", "after")):
            kept.writestr(f"{name}.json", of_the_guide(bool(number)))
    recordings = tuple(Recorded(f"{name}.json", f"guide {name}", "CUPTI", "all") for name in ("before", "after"))
    walls = {"guide before": BEFORE_S, "guide after": AFTER_S}
    times = tuple(Times(name, "", (wall_s,) * 3, True) for name, wall_s in walls.items())
    return place, Record("a card", "2026-11-23", "", 1.0, times, recordings, ())


def test_a_replay_is_held_against_what_was_recorded(guide: tuple[Path, Record]) -> None:
    """5.535 ms of 5.607, as the guide has it; without what recording cost, the program that was simulated."""
    before, after = replays(*guide)
    assert isinstance(before, Replayed)
    assert isinstance(after, Replayed)
    assert (before.recorded_s, before.replayed_s) == pytest.approx((5.607e-3, 5.535e-3), rel=1e-3)
    assert before.error == pytest.approx(-0.013, abs=1e-3)
    assert before.predicted_s(before.timed) == pytest.approx(BEFORE_S, rel=0.01)
    assert after.predicted_s(after.timed) == pytest.approx(AFTER_S, rel=0.01)


def test_a_change_is_predicted_from_the_recording_before_it(guide: tuple[Path, Record]) -> None:
    """2.118 ms, and it takes 2.119. Were the program slower with it, that would be said."""
    folder, found = guide
    recorded = [one for one in replays(folder, found) if isinstance(one, Replayed)]
    (one,) = predictions(recorded[:1], found, [CHANGED])
    assert isinstance(one, Predicted)
    assert one.predicted_s == pytest.approx(2.118e-3, rel=5e-3)
    assert one.error == pytest.approx(2.118 / 2.119 - 1, abs=5e-3)
    assert one.gain == pytest.approx(2.56, abs=0.01)
    assert not one.misleads
    assert one._replace(after_s=1.03 * BEFORE_S).misleads
    assert not one._replace(after_s=1.03 * BEFORE_S, gain=1.0).misleads
    assert not one._replace(after_s=1.01 * BEFORE_S).misleads


def test_what_cannot_be_replayed_or_was_not_measured_is_said(guide: tuple[Path, Record]) -> None:
    folder, found = guide
    wrong = tuple(replace(one, window="none") for one in found.recordings[:1])
    said = list(lines(folder, replace(found, recordings=wrong), [CHANGED]))
    assert any("no annotation has this name" in line for line in said)
    assert "guide before -> after --async --drop-sync --streams 4: not recorded" in said
    said = list(lines(folder, replace(found, times=found.times[:1]), [CHANGED]))
    assert any(
        line.startswith("guide before -> after --async --drop-sync --streams 4, by CUPTI: not m") for line in said
    )
    assert "slower" not in "".join(lines(folder, found, [CHANGED]))


# On cards


class Judged(NamedTuple):
    """A record: how many recordings and pairs, bounds of errors, and which recommended change made a program slower."""

    folder: str
    counts: tuple[int, int]
    replay: tuple[float, float]  # median, worst
    pairs: tuple[float, float]
    slower: tuple[tuple[str, str], ...] = ()


RECORDS = (
    Judged("recordings-h100-2", (59, 64), (0.03, 0.10), (0.05, 0.27)),
    Judged("recordings-h200-2", (57, 59), (0.03, 0.11), (0.05, 0.27)),
)


@pytest.mark.measured
@pytest.mark.parametrize("judged", RECORDS, ids=lambda judged: judged.folder)
def test_changes_of_programs_on_a_card_are_predicted_from_the_recordings_before_them(judged: Judged) -> None:
    """Programs in PyTorch, CuPy and CUDA C++ on two cards, from the recording alone: medians to the goals.

    The hosts ran at two speeds, up to twice as slow, changed it within seconds, and shared their link: rounds count
    before which they were as fast, and three of 64 changes and five of 59 are 15 to 27 % off.
    """
    folder = Path(__file__).parents[2] / "validate" / "campaigns" / "records" / judged.folder
    found = read_record(folder)
    recorded = [one for one in replays(folder, found) if isinstance(one, Replayed)]
    predicted = [one for one in predictions(recorded, found, PAIRS) if isinstance(one, Predicted)]
    assert (len(recorded), len(predicted)) == judged.counts
    for errors, (middle, worst) in (
        ([abs(one.error) for one in recorded], judged.replay),
        ([abs(one.error_alone) for one in predicted], judged.pairs),
    ):
        assert statistics.median(errors) < middle
        assert max(errors) < worst
    assert tuple((one.pair.before, one.pair.after) for one in predicted if one.misleads) == judged.slower
