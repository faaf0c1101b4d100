"""How programs are recorded, replayed and predicted in pairs: on a card that is not there, and of made-up records."""

import gzip
import statistics
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from made_captures import of_the_guide

from campaigns.recordings import (
    PROGRAMS,
    Pair,
    Recorded,
    RecordedRounds,
    Replayed,
    Times,
    predictions,
    read_record,
    record,
    replays,
)
from streamsim.compiled import simulate_one_of_many
from streamsim.transform import changes as make

KEPT = Path(__file__).parents[2] / "validate" / "campaigns" / "records"


WALL_S, PACE_S = (4.0, 1.0, 3.0, 2.0, 5.0, 6.0, 7.0, 8.0), tuple(1e-6 * k for k in range(8))


def process(command: Sequence[str]) -> None:
    """What the process of a command does: it writes the times of its programs, and a recording where one is made."""
    if "campaigns.programs.other" in command:
        raise subprocess.SubprocessError("no library")
    is_captured, place = "capture" in command, command.index("campaigns.programs.inference") + 1
    times, *variants = command[place:]
    own, beside = {"wall_s": WALL_S, "pace_s": PACE_S}, {"beside_s": WALL_S, "beside_pace_s": PACE_S}
    with open(times, "ab") as file:
        for again in range(1 + is_captured):
            for variant in variants:
                said = {"program": variant, "by": "", "verified": variant != "pinned", **own}
                file.write(msgspec.json.encode(said | (beside if again else {})) + b"\n")
    if is_captured:
        Path(command[command.index("-o") + 1]).write_bytes(gzip.compress(b"a recording"))


def test_programs_are_captured_and_timed_and_those_that_fail_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the rounds was faster than the one that is replayed: the third of 4, 1, 3, 2 ... s."""
    monkeypatch.setitem(PROGRAMS, "other", "one")
    found = RecordedRounds("a card", "2026-11-23", "")
    record(tmp_path, found, process)
    assert read_record(tmp_path) == found
    variants = PROGRAMS["inference"].split()
    recorded = [(one.program, one.by, one.window, one.pace_s) for one in found.recordings]
    assert recorded == [(f"inference {one}", "CUPTI", f"{one}[3]", PACE_S[2]) for one in variants]
    times = [(one.program, one.by, bool(one.beside_s)) for one in found.times]
    assert times[: 2 * len(variants)] == [
        (f"inference {one}", by, by != "") for by in ("", "CUPTI") for one in variants
    ]
    assert sum(by == "" for _, by, _ in times) == 3 * len(variants)  # captured, before and behind
    assert all(one.wall_s == WALL_S and one.pace_s == PACE_S for one in found.times)
    assert {one.program for one in found.times if not one.verified} == {"inference pinned"}
    assert {(one.program, one.what, one.why) for one in found.failures} == {
        ("other", what, "no library") for what in ("captured", "as it is")
    }
    with zipfile.ZipFile(tmp_path / "recordings-inference.zip") as kept:
        assert {name: kept.read(name) for name in kept.namelist()} == {"inference-CUPTI.json": b"a recording"}


def test_rounds_count_before_which_the_host_was_as_fast_as_before_the_recorded_one() -> None:
    """It runs at two speeds. Those of the process that was recorded come first, but of graphs, which CUPTI changes."""

    def of(program: str) -> RecordedRounds:
        times = [
            Times(program, "CUPTI", (9.0,), True, (1.0, 3.0, 2.0), (1e-5,), (1e-5, 1e-5, 2e-5)),
            Times(program, "", (5.0, 6.0), True, pace_s=(2e-5, 3e-5)),
        ]
        return RecordedRounds("a card", "2026-11-26", "", 1.0, times)

    found, graph = of("inference small"), of("inference small-graph")
    assert [found.measured_s("inference small", pace) for pace in (0.0, 1.05e-5, 2e-5, 3e-5, 4e-5)] == [
        *(2.0, 2.0, 2.0, 6.0, None)
    ]
    assert [graph.measured_s("inference small-graph", pace) for pace in (0.0, 1e-5, 2e-5)] == [5.5, None, 5.0]


# What is made of a record


BEFORE_S, AFTER_S = 5.393e-3, 2.119e-3  # of the guide's programs: docs/my-program-does-not-overlap.md
CHANGED = Pair("guide before", "guide after", (make.ASYNC, make.DROP_SYNC, make.streams(4)))


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RecordedRounds]:
    """A record of the programs of the guide, as if they had been run here."""
    place = tmp_path_factory.mktemp("guide")
    with zipfile.ZipFile(place / "recordings-1.zip", "w") as kept:
        for number, name in enumerate(("before", "after")):
            kept.writestr(f"{name}.json", of_the_guide(bool(number)))
    recordings = [Recorded(f"{name}.json", f"guide {name}", "CUPTI", "all") for name in ("before", "after")]
    walls = {"guide before": BEFORE_S, "guide after": AFTER_S}
    times = [Times(name, "", (wall_s,) * 3, True) for name, wall_s in walls.items()]
    return place, RecordedRounds("a card", "2026-11-23", "", 1.0, times, recordings)


def test_a_replay_is_held_against_what_was_recorded(guide: tuple[Path, RecordedRounds]) -> None:
    """5.535 ms of 5.607, as the guide has it; without what recording cost, the program that was simulated."""
    before, after = replays(*guide)
    assert isinstance(before, Replayed)
    assert isinstance(after, Replayed)
    assert (before.recorded_s, before.replayed_s) == pytest.approx((5.607e-3, 5.535e-3), rel=1e-3)
    assert before.error == pytest.approx(-0.013, abs=1e-3)
    for one, wall_s in ((before, BEFORE_S), (after, AFTER_S)):
        assert simulate_one_of_many(one.timed, one.device).host_s + one.rest_s == pytest.approx(wall_s, rel=0.01)


def test_a_change_is_predicted_from_the_recording_before_it(guide: tuple[Path, RecordedRounds]) -> None:
    """2.13 ms, and it takes 2.119. Were the program slower with it, that would be said."""
    folder, found = guide
    recorded = [one for one in replays(folder, found) if isinstance(one, Replayed)]
    (one,) = predictions(recorded[:1], found, [CHANGED])
    assert one.predicted_s == pytest.approx(AFTER_S, rel=0.01)
    assert one.gain == pytest.approx(BEFORE_S / AFTER_S, rel=0.015)
    assert not one.misleads
    assert one._replace(after_s=1.03 * BEFORE_S).misleads
    assert not one._replace(after_s=1.03 * BEFORE_S, gain=1.0).misleads
    assert not one._replace(after_s=1.01 * BEFORE_S).misleads


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
    folder = KEPT / judged.folder
    found = read_record(folder)
    recorded = [one for one in replays(folder, found) if isinstance(one, Replayed)]
    predicted = list(predictions(recorded, found))
    assert (len(recorded), len(predicted)) == judged.counts
    for errors, (middle, worst) in (
        ([abs(one.error) for one in recorded], judged.replay),
        ([abs(one.error_alone) for one in predicted], judged.pairs),
    ):
        assert statistics.median(errors) < middle
        assert max(errors) < worst
    assert tuple((one.pair.before, one.pair.after) for one in predicted if one.misleads) == judged.slower
