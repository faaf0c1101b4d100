"""Runs that are stopped, killed, out of room or not alone: what was measured stands, and the same command goes on."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import stand_in
from effort import THOROUGH

from streamsim.program import depth_first, write_schedule
from streamsim_validate.records import Entry, journal_path, read_journal, read_record
from streamsim_validate.suites import sincos

SCHEDULES, REPEATS = 9, 4
HANG_S = 120
TRIALS = 20 if THOROUGH else 1
PROCESSES = Path("/proc/self/task").exists()
pytestmark = [pytest.mark.fault, pytest.mark.skipif(not PROCESSES, reason="needs /proc to find the measuring process")]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Starts ``streamsim-validate run`` into r.json.gz, in a process group of its own; a terminal would."""
    (tmp_path / "site").mkdir()
    environment = stand_in.environment(tmp_path / "site")
    files = []
    for i in range(SCHEDULES):
        files.append(str(tmp_path / f"{i}.json"))
        write_schedule(depth_first(sincos(200 + 10 * i, 1), 2, 2), files[-1])
    options = ["--repeats", str(REPEATS), "--no-calibrate", "-o", str(tmp_path / "r.json.gz")]
    command = [sys.executable, "-m", "streamsim_validate", "run", *files, *options]

    def start(**more: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        return subprocess.Popen(command, text=True, env=environment, start_new_session=True, **pipes)

    return start


def measured(path: Path) -> list[str]:
    """Of a whole record the schedules by their keys, all with every repeat."""
    entries = [entry for _, entry in read_record(path).measured()]
    assert {len(entry.wall_s) for entry in entries} == {REPEATS}
    assert all(entry.verified for entry in entries)
    return sorted(entry.key for entry in entries)


KEYS = [f"{i}: depth-first N=2 S=2" for i in range(1, SCHEDULES + 1)]


def child_of(process: subprocess.Popen[str]) -> int:
    """The measuring process, when there is one."""
    until = time.monotonic() + HANG_S
    while time.monotonic() < until:
        if found := Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError


def stop(process: subprocess.Popen[str], how: str) -> None:
    """As a terminal, a batch system or the system short of memory does."""
    match how:
        case "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)
        case "SIGTERM":
            process.terminate()
        case "kill -9":
            process.kill()
        case "kill -9 to the one that measures":
            os.kill(child_of(process), signal.SIGKILL)


HOWS = {"Ctrl-C": 130, "SIGTERM": -15, "kill -9": -9, "kill -9 to the one that measures": 2}


@pytest.mark.parametrize("seed", range(TRIALS))
def test_a_run_that_is_stopped_at_any_moment_measures_what_one_in_peace_does(
    run: Any, tmp_path: Path, seed: int
) -> None:
    """Each way once, in any order, while the journal grows; what is in it is not measured again."""
    rng = random.Random(seed)
    output, journal = tmp_path / "r.json.gz", journal_path(tmp_path / "r.json.gz")
    moments = sorted(rng.randrange(4000) for _ in HOWS)
    kept: list[Entry] = []
    for how, size in zip(rng.sample(list(HOWS), len(HOWS)), moments, strict=True):
        process = run()
        child_of(process)
        while process.poll() is None and not (journal.exists() and journal.stat().st_size > size):
            time.sleep(0.001)
        if process.poll() is None:
            stop(process, how)
        _, said = process.communicate(timeout=HANG_S)  # and all who can write to it have ended
        if output.exists():  # it was quicker
            break
        assert (process.returncode, "Traceback" in said) == (HOWS[how], False), said
        entries = [line for line in read_journal(journal) if isinstance(line, Entry)] if journal.exists() else []
        assert entries[: len(kept)] == kept
        kept = entries
        if kept and rng.random() < 0.5:  # the disk was slower than the power failure
            os.truncate(journal, journal.stat().st_size - rng.randint(1, 60))
            kept = kept[:-1]
    if not output.exists():
        process = run()
        out, said = process.communicate(timeout=HANG_S)
        assert process.returncode == 0, said
        assert out.splitlines()[-1].endswith(f"{SCHEDULES} schedules measured on Emulated")
    assert measured(output) == KEYS
    assert not journal.exists()


def test_a_run_whose_output_nobody_reads_is_measured(run: Any, tmp_path: Path) -> None:
    """``run 2>&1 | head -1``."""
    out, into = os.pipe()
    process = run(stdout=into, stderr=into)
    os.close(into)
    os.close(out)
    assert process.wait(HANG_S) == 0
    assert measured(tmp_path / "r.json.gz") == KEYS


@pytest.mark.parametrize("limit", [100, 2000])
def test_no_room_for_the_journal_or_the_record_is_one_line_and_the_run_goes_on_later(
    run: Any, tmp_path: Path, limit: int
) -> None:
    """A limit on file sizes stands for a full disk: for the journal's header, and for one of its entries."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = run(preexec_fn=limited)
    _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 2, said
    assert [line for line in said.splitlines() if "group" not in line] == [
        f"streamsim-validate: error: {tmp_path}/r.json.gz.journal: cannot write the journal: File too large"
    ]
    assert not (tmp_path / "r.json.gz").exists()
    process = run()
    _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, said
    assert measured(tmp_path / "r.json.gz") == KEYS
