"""Runs that are stopped, killed, out of room or not heard: what was measured stands, and the same command goes on."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stand_in
from effort import THOROUGH

from streamsim.program import depth_first, write_schedule
from streamsim_validate.records import Entry, journal_path, read_journal, read_record
from streamsim_validate.suites import sincos

SCHEDULES, REPEATS = 9, 4
KEYS = [f"{i}: depth-first N=2 S=2" for i in range(1, SCHEDULES + 1)]
HANG_S = 120
TRIALS = 20 if THOROUGH else 1
PROCESSES = Path("/proc/self/task").exists()
pytestmark = [pytest.mark.fault, pytest.mark.skipif(not PROCESSES, reason="needs /proc to find the measuring process")]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Starts ``streamsim-validate run`` into r.json.gz, in a process group of its own; a terminal would."""
    (tmp_path / "site").mkdir()
    environment = stand_in.environment(tmp_path / "site")
    files = [str(tmp_path / f"{i}.json") for i in range(SCHEDULES)]
    for i, file in enumerate(files):
        write_schedule(depth_first(sincos(200 + 10 * i, 1), 2, 2), file)
    options = ["--repeats", str(REPEATS), "--no-calibrate", "-o", str(tmp_path / "r.json.gz")]
    command = [sys.executable, "-m", "streamsim_validate", "run", *files, *options]

    def start(**more: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        return subprocess.Popen(command, text=True, env=environment, start_new_session=True, **pipes)

    return start


def is_measured(path: Path) -> bool:
    """Whether a record has every schedule once, each with all its repeats."""
    entries = [entry for _, entry in read_record(path).measured()]
    whole = all(entry.verified and len(entry.wall_s) == REPEATS for entry in entries)
    return whole and sorted(entry.key for entry in entries) == KEYS


def child_of(process: subprocess.Popen[str]) -> int:
    """The measuring process, when there is one."""
    until = time.monotonic() + HANG_S
    while time.monotonic() < until:
        if found := Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError


STOPS: list[tuple[Callable[[subprocess.Popen[str]], None], int]] = [  # and the exit code
    (lambda process: os.killpg(process.pid, signal.SIGINT), 130),  # as a terminal does
    (lambda process: process.terminate(), -15),  # a batch system
    (lambda process: process.kill(), -9),
    (lambda process: os.kill(child_of(process), signal.SIGKILL), 2),  # the system short of memory
]


@pytest.mark.parametrize("seed", range(TRIALS))
def test_a_run_that_is_stopped_at_any_moment_measures_what_one_in_peace_does(
    run: Any, tmp_path: Path, seed: int
) -> None:
    """Each way once, in any order, while the journal grows; what is in it is not measured again."""
    rng = random.Random(seed)
    output, journal = tmp_path / "r.json.gz", journal_path(tmp_path / "r.json.gz")
    moments = sorted(rng.randrange(4000) for _ in STOPS)
    kept: list[Entry] = []
    for (stop, code), size in zip(rng.sample(STOPS, len(STOPS)), moments, strict=True):
        process = run()
        child_of(process)
        while process.poll() is None and not (journal.exists() and journal.stat().st_size > size):
            time.sleep(0.001)
        if process.poll() is None:
            stop(process)
        _, said = process.communicate(timeout=HANG_S)  # and all who can write to it have ended
        if output.exists():  # it was quicker
            break
        assert (process.returncode, "Traceback" in said) == (code, False), said
        entries = [line for line in read_journal(journal) if isinstance(line, Entry)] if journal.exists() else []
        assert entries[: len(kept)] == kept
        kept = entries
        if kept and rng.random() < 0.5:  # the disk was slower than the power failure
            os.truncate(journal, journal.stat().st_size - rng.randint(1, 60))
            kept = kept[:-1]
    if not output.exists():
        goes_on(run())
    assert is_measured(output)
    assert not journal.exists()


def goes_on(process: subprocess.Popen[str]) -> None:
    out, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, said
    assert out.splitlines()[-1].endswith(f"{SCHEDULES} schedules measured on Emulated")


def test_a_run_whose_output_nobody_reads_is_measured(run: Any, tmp_path: Path) -> None:
    """``run 2>&1 | head -1``."""
    out, into = os.pipe()
    process = run(stdout=into, stderr=into)
    os.close(into)
    os.close(out)
    assert process.wait(HANG_S) == 0
    assert is_measured(tmp_path / "r.json.gz")


def test_no_room_for_the_journal_is_one_line_and_the_run_goes_on_later(run: Any, tmp_path: Path) -> None:
    """A limit on file sizes stands for a full disk: the journal's header has room, and not all of its entries."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    process = run(preexec_fn=limited)
    _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 2, said
    assert [line for line in said.splitlines() if "group" not in line] == [
        f"streamsim-validate: error: {tmp_path}/r.json.gz.journal: cannot write the journal: File too large"
    ]
    assert not (tmp_path / "r.json.gz").exists()
    goes_on(run())
    assert is_measured(tmp_path / "r.json.gz")
