"""The file of a sweep: the same bytes whoever makes the rows, and however often it is stopped."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from sweeps import NOTE, rows_of, small

from streamsim.cli import main
from streamsim.errors import InputError
from streamsim.search import read_rows, write_sweep

FORMS = ("csv", "jsonl")
OPTIONS = ("sweep", "--h2d", "64KiB", "--kernel", "10us", "--d2h", "64KiB", "--chunks", "1..40")
HANG_S = 120
WHOLE = write_sweep(small(), os.devnull)  # a file that has no place to go on from


@pytest.mark.parametrize("form", FORMS)
def test_a_file_holds_the_rows_with_numbers_as_numbers_and_rules_as_text(tmp_path: Path, form: str) -> None:
    sweep = small("1..3", set=["compute.arbitration=ready-order,issue-order", "h2d.latency=1us,2us"], buffers=["all,2"])
    tally = write_sweep(sweep, tmp_path / f"out.{form}")
    rows = list(read_rows(tmp_path / f"out.{form}"))
    assert rows == rows_of(sweep)
    assert {tuple(row) for row in rows} == {sweep.columns}
    assert {type(row["chunks"]) for row in rows} == {int}
    assert {row["compute.arbitration"] for row in rows} == {"ready-order", "issue-order"}
    assert tally.total == len(rows)
    assert tally.fastest == min(rows, key=lambda row: row["makespan_s"])


# Who makes the rows


class OutOfOrder(Executor):
    """Runs what it is given in threads; the first of three comes back last."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(4)
        self.submitted = 0

    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        self.submitted += 1
        late_s = 0.02 * (self.submitted % 3 == 1)

        def run() -> Any:
            time.sleep(late_s)
            return function(*arguments, **more)

        return self.pool.submit(run)


def test_the_rows_are_the_same_whoever_makes_them(whole: Path, tmp_path: Path) -> None:
    expected = (whole / "out.csv").read_bytes()
    write_sweep(small(), tmp_path / "threads.csv", executor=OutOfOrder(), block=3)
    assert (tmp_path / "threads.csv").read_bytes() == expected
    assert main([*OPTIONS, "--workers", "2", "-o", str(tmp_path / "processes.csv")]) == 0
    assert (tmp_path / "processes.csv").read_bytes() == expected


# Stopped, and gone on with


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("end", [0, 1, 60, 300, 1000, 2500, -1000, -1, None])
def test_a_sweep_goes_on_where_its_file_ends(whole: Path, tmp_path: Path, form: str, end: int | None) -> None:
    """Cut at any byte: nothing, half a header, half a row, whole rows, all of them. The summary is that of all rows."""
    path, expected = tmp_path / f"out.{form}", (whole / f"out.{form}").read_bytes()
    path.write_bytes(expected[:end])
    done = list[int]()
    tally = write_sweep(small(), path, block=3, progress=lambda at, _: done.append(at))
    assert path.read_bytes() == expected
    assert tally._replace(rows=()) == WHOLE._replace(rows=())
    rows = max(0, expected[:end].count(b"\n") - (form == "csv"))
    assert done == [*range(min(rows + 3, 40), 40, 3), 40][: None if rows < 40 else 0]


@pytest.mark.parametrize("rows", [1, 3, 7, 8])
def test_combinations_without_a_row_are_counted_wherever_it_was_stopped(tmp_path: Path, rows: int) -> None:
    """Numbers of chunks that cannot be issued, and rings that have no room, between those that can."""
    sweep = small("1..6,30,7,40", elements=["16"], buffers=["all,2,3"], memory_limit=["100KiB"])
    whole = write_sweep(sweep, tmp_path / "whole.csv")
    lines = (tmp_path / "whole.csv").read_bytes().splitlines(keepends=True)
    assert len(lines) - 1 == 9
    (tmp_path / "cut.csv").write_bytes(b"".join(lines[: rows + 1]))
    again = write_sweep(sweep, tmp_path / "cut.csv", block=4)
    assert again._replace(rows=()) == whole._replace(rows=())
    assert (tmp_path / "cut.csv").read_bytes() == b"".join(lines)


OTHERS: dict[str, Callable[[bytes], bytes]] = {
    "a last row that was edited": lambda rows: rows[:-3] + bytes([rows[-3] ^ 1]) + rows[-2:],
    "a row that is there twice": lambda rows: rows + rows.splitlines(keepends=True)[-1],
    "an earlier row cut short": lambda rows: rows.replace(rows.splitlines(keepends=True)[2], b"1\n"),
    "earlier rows with text for times": lambda rows: re.sub(rb"\d+\.\d+(e-\d+)?(?=.*\n.)", b'"x"', rows),
    "somebody's lines": lambda _: b"what was there\nand there\n",
    "a line without end": lambda _: b"[" * 3_000_000,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", [*OTHERS, "1..5 chunks", "a setting", "another device"])
def test_a_file_of_anything_else_is_refused_and_stays(whole: Path, tmp_path: Path, form: str, what: str) -> None:
    path, rows = tmp_path / f"out.{form}", (whole / f"out.{form}").read_bytes()
    others = {"1..5 chunks": small("1..5"), "a setting": small(set=["h2d.latency=1us"])}
    sweep = others.get(what, small(device=["a100"]) if what == "another device" else small())
    content = OTHERS[what](rows) if what in OTHERS else rows
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=f"{form}: holds something else than rows of (this sweep; choose another name|a sweep)"
    ):
        write_sweep(sweep, path)
    assert path.read_bytes() == content


SLOWLY = """
import sys, time
from streamsim.cli import main
sweeping = sys.modules["streamsim.search.sweep"]
encoded, sweeping.BLOCK_ROWS = sweeping.encoded, 2
sweeping.encoded = lambda *what: (time.sleep(0.05), encoded(*what))[1]
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def slowly(tmp_path: Path) -> list[str]:
    """A command that makes two rows at a time, with pauses; a file, which workers can import."""
    (tmp_path / "slowly.py").write_text(SLOWLY)
    return [sys.executable, "-P", str(tmp_path / "slowly.py"), *OPTIONS]


def stopped(command: list[str], path: Path, after: int, how: signal.Signals) -> tuple[int, str]:
    """Send a signal to the command and its workers, as a terminal does, once the file has ``after`` bytes.

    It has ended when nobody is left who can write to its stderr.
    """
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        until = time.monotonic() + HANG_S
        while process.poll() is None and time.monotonic() < until:
            if path.exists() and path.stat().st_size >= after:
                break
            time.sleep(0.002)
        os.killpg(process.pid, how) if how == signal.SIGINT else process.send_signal(how)
        _, said = process.communicate(timeout=HANG_S)
    return process.returncode, said.removeprefix(NOTE).strip()


@pytest.mark.fault
@pytest.mark.parametrize("form", FORMS)
def test_a_killed_sweep_goes_on_to_the_same_file(whole: Path, tmp_path: Path, slowly: list[str], form: str) -> None:
    """SIGTERM, Ctrl-C and SIGKILL, at whatever place it happens to be; then to the end."""
    path = tmp_path / f"out.{form}"
    command = [*slowly, "-o", str(path)]
    said = [stopped(command, path, *at) for at in ((1, signal.SIGTERM), (900, signal.SIGINT), (1800, signal.SIGKILL))]
    assert [code for code, _ in said] == [-signal.SIGTERM, 130, -signal.SIGKILL]
    assert said[1][1] == "streamsim: stopped; the same command goes on from here"
    assert path.read_bytes() != (whole / path.name).read_bytes()
    assert main([*OPTIONS, "-o", str(path)]) == 0
    assert path.read_bytes() == (whole / path.name).read_bytes()


@pytest.mark.fault
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(
    whole: Path, tmp_path: Path, slowly: list[str], how: signal.Signals
) -> None:
    path = tmp_path / "out.csv"
    code, said = stopped([*slowly, "--workers", "2", "-o", str(path)], path, 300, how)
    assert code == (130 if how == signal.SIGINT else -how)
    assert how == signal.SIGKILL or said == "streamsim: stopped; the same command goes on from here"
    assert main([*OPTIONS, "-o", str(path)]) == 0
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


class Dying(ProcessPoolExecutor):
    """Processes, one of which ends instead of making the fifth block."""

    submitted = 0

    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(os._exit, 3) if self.submitted == 5 else super().submit(function, *arguments, **more)


@pytest.mark.fault
def test_faults_are_one_line_and_the_sweep_goes_on_later(whole: Path, tmp_path: Path) -> None:
    """A worker that dies; and a full disk, for which a limit on file sizes stands: a row is written half."""
    path = tmp_path / "out.csv"
    with Dying(1, get_context("spawn")) as pool, pytest.raises(InputError, match=r"^the executor failed: BrokenProc"):
        write_sweep(small(), path, executor=pool, block=2)
    before, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
        with pytest.raises(InputError, match=r"out.csv: cannot write it: file too large"):
            write_sweep(small(), path, block=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert path.stat().st_size == 2000
    write_sweep(small(), path)
    assert path.read_bytes() == (whole / "out.csv").read_bytes()
