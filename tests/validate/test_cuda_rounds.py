"""Rounds of compiled programs' calls, on the host in place of CUDA (``emulated_nvcc``)."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from emulated_nvcc import COMPILER, write_nvcc

from streamsim.device import COMPILED
from streamsim.errors import InputError
from streamsim_validate.calibrate.front_ends import KINDS, REPEATS, fit_front_end, measure_front_ends
from streamsim_validate.gpu import compiled_rounds, probes

SLICE = 32 << 10  # bytes

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no g++")


@pytest.fixture
def nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_nvcc(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def rounds_of(kind: str, folder: Path, turns: int) -> list[list[str]]:
    """What the program calls between two looks at the clock, of a run that warms up and of one that counts."""
    source, program = folder / "rounds.cu", folder / "rounds"
    source.write_text(probes())
    subprocess.run(["nvcc", "-o", program, source], check=True)
    done = subprocess.run([program, "rounds", str(turns), kind], capture_output=True, text=True, check=True)
    (seconds,) = json.loads(done.stdout)["rounds_s"]
    assert seconds > 0
    _, *timed = done.stderr.split("clock\n")
    return [between.splitlines() for between in timed[::2]]


@needs_compiler
def test_a_round_of_streams_in_turn_makes_the_calls_of_its_letters(nvcc: Path) -> None:
    """Slices of 8,192 floats, each turn the next; streams 1 to 4 in turn, and with them events 1, 2, 3..."""
    expected = []
    for turn in range(5):
        stream, at = 1 + turn % 4, SLICE * turn
        expected += [f"h2d {SLICE} {at} {at} {stream}", f"kernel {stream}", f"d2h {SLICE} {at} {at} {stream}"]
        expected += [f"record {turn + 1} {stream}", f"wait {turn + 1} {stream}"]
    assert rounds_of("|ikorw", nvcc, 5) == [expected, expected]


@needs_compiler
def test_a_round_in_one_stream_stays_there_but_for_its_events(nvcc: Path) -> None:
    expected = []
    for turn in range(3):
        expected += [f"h2d {SLICE} {SLICE * turn} {SLICE * turn} 1", f"record {turn + 1} {turn + 1}"]
        expected += [f"wait {turn + 1} {turn + 1}", "kernel 1", "synchronise"]
    assert rounds_of("irwks", nvcc, 3) == [expected, expected]


@needs_compiler
@pytest.mark.usefixtures("nvcc")
def test_compiled_programs_are_calibrated_where_there_is_a_compiler() -> None:
    with compiled_rounds() as found:
        assert found is not None
        samples = measure_front_ends([], found)
    assert {kind: len(seconds) for kind, seconds in samples[COMPILED].rounds.items()} == dict.fromkeys(KINDS, REPEATS)
    assert fit_front_end(samples[COMPILED].rounds, "measured: here").spread >= 0


def test_without_a_compiler_or_where_they_are_not_asked_for_they_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with compiled_rounds(wanted=False) as found:
        assert found is None
    monkeypatch.setenv("PATH", str(tmp_path))
    with compiled_rounds() as found:
        assert found is None


def test_a_compiler_that_does_not_work_stops_no_calibration() -> None:
    class Broken:
        name, version = COMPILED, "C++"

        def rounds_s(self, _kinds: Sequence[str], _turns: int) -> list[float]:
            raise InputError("it does not compile: no g++")

    told: list[str] = []
    assert measure_front_ends([], Broken(), lambda what, *_: told.append(what)) == {}
    assert told == [f"calibrating {COMPILED}", f"leaving {COMPILED} out: it does not compile: no g++"]
