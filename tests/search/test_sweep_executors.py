"""Sweeps on executors: blocks that come back in any order, or not at all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from sweeps import NOTE, small

from streamsim.cli import main
from streamsim.cli.worker import WorkerDiedError, workers
from streamsim.errors import InputError
from streamsim.search import JOURNAL, RETRIES, sweep_blocks, write_sweep
from streamsim.text import parse_bytes

# Executors


class OutOfOrder(Executor):
    """Runs what it is given only when it is asked for the result, in any order; the first ``failures`` tries fail."""

    def __init__(self, failures: int = 0) -> None:
        self._failures = failures
        self.pool = ThreadPoolExecutor(4)
        self.submitted = 0
        self._lock = threading.Lock()

    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        self.submitted += 1
        turn = self.submitted

        def run() -> Any:
            time.sleep(0.02 * (turn % 3 == 1))  # the first of three comes last
            with self._lock:
                fails, self._failures = self._failures > 0, self._failures - 1
            if fails:
                raise RuntimeError("a worker died")
            return function(*arguments, **more)

        return self.pool.submit(run)


def test_the_order_in_which_blocks_come_back_does_not_matter(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_sweep(small(), path, executor=OutOfOrder(), block=2)
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


@pytest.mark.fault
def test_a_block_that_fails_is_tried_again(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    executor = OutOfOrder(failures=RETRIES)
    write_sweep(small(), path, executor=executor, block=2)
    assert executor.submitted == 20 + RETRIES
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


def test_the_same_block_is_tried_once_more_than_it_may_fail() -> None:
    executor = OutOfOrder(failures=RETRIES)
    (rows,) = sweep_blocks(small(), executor=executor, block=40)
    assert (executor.submitted, len(rows.rows)) == (RETRIES + 1, 40)


@pytest.mark.fault
def test_a_block_that_keeps_failing_is_one_line_and_the_sweep_goes_on_later(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    executor = OutOfOrder()
    with pytest.raises(InputError) as error:
        write_sweep(small(), path, executor=executor, block=2, retries=1, progress=lambda *_: executor.__init__(99))  # type: ignore[misc]
    assert "failed 2 times on the executor: RuntimeError: a worker died" in str(error.value)
    write_sweep(small(), path)
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


def test_only_a_few_blocks_are_given_away_at_a_time() -> None:
    executor = OutOfOrder()
    blocks = sweep_blocks(small("1..200"), executor=executor, block=1)
    next(iter(blocks))
    assert executor.submitted <= 16


class Broken(Executor):
    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:  # noqa: ARG002
        raise BrokenProcessPool("a process died")


def test_an_executor_that_is_gone_is_one_line() -> None:
    with pytest.raises(InputError, match="the executor takes no more work: BrokenProcessPool: a process died"):
        list(sweep_blocks(small(), executor=Broken()))


def test_processes_give_the_same_file(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.csv"
    options = ["--h2d", "64KiB", "--kernel", "10us", "--d2h", "64KiB", "--chunks", "1..40", "--workers", "2"]
    assert main(["sweep", *options, "-o", str(path)]) == 0
    assert capsys.readouterr().err == ""
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


HANG_S = 120


@pytest.mark.fault
def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """Whoever holds the other end of its stderr is alive. It takes as long as two processes need to begin."""
    path = tmp_path / "out.csv"
    options = ["--h2d", "1MiB..99MiB+1MiB", "--kernel", "1us..99us+1us", "--chunks", "1..9", "--workers", "1"]
    command = [sys.executable, "-m", "streamsim", "sweep", *options, "-o", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        journal, until = path.with_name(path.name + JOURNAL), time.monotonic() + HANG_S
        while not (journal.exists() and b'"next":0' not in journal.read_bytes()) and time.monotonic() < until:
            time.sleep(0.02)
        process.kill()
        process.communicate(timeout=HANG_S)
    assert process.returncode == -signal.SIGKILL


def started(*command: str) -> subprocess.Popen[str]:
    """In a process group of its own, as a terminal starts it, for Ctrl-C to reach it and its workers."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def control_c(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Press it, and wait until all who can write to its stderr have ended."""
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=HANG_S)
    return process.returncode, said.strip()


AT_WORK = """
import sys, time
from streamsim.cli.worker import workers
if __name__ == "__main__":
    with workers(2) as pool:
        first = pool.submit(int).result()
        for _ in range(8):
            pool.submit(time.sleep, 3600)
        try:
            print(first, flush=True)
            time.sleep(3600)
        except KeyboardInterrupt:
            sys.exit("interrupted")
"""


@pytest.mark.fault
def test_control_c_ends_workers_whatever_they_are_at() -> None:
    with started(sys.executable, "-P", "-c", AT_WORK) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        assert control_c(process) == (1, "interrupted")


SLOWLY = """
import sys, time
import streamsim.search.sweep as sweep
from streamsim.cli import main
from streamsim.search.sweep_output import _Output
append, sweep.BLOCK_ROWS = _Output.append, 2
_Output.append = lambda *what: (append(*what), time.sleep(0.2))
sys.exit(main(["sweep", *sys.argv[1:]]))
"""


@pytest.mark.fault
@pytest.mark.parametrize("until", ['"next":0', '"next":2'], ids=("while they begin", "at work"))
def test_control_c_leaves_a_journal_and_no_worker(whole: Path, tmp_path: Path, until: str) -> None:
    path = tmp_path / "out.csv"
    options = ["--h2d", "64KiB", "--kernel", "10us", "--d2h", "64KiB", "--chunks", "1..40", "-o", str(path)]
    with started(sys.executable, "-P", "-c", SLOWLY, *options, "--workers", "2") as process:
        journal = path.with_name(path.name + JOURNAL)
        while process.poll() is None and not (journal.exists() and until in journal.read_text()):
            time.sleep(0.01)
        code, said = control_c(process)
    assert (code, said.removeprefix(NOTE)) == (130, "streamsim: stopped; the same command continues from here")
    assert journal.exists()
    assert main(["sweep", *options]) == 0
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


@pytest.mark.fault
def test_a_worker_that_is_killed_is_replaced(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    killed: list[Any] = []

    def kill_one(_done: int, _of_all: int) -> None:
        if not killed:
            killed.append(multiprocessing.active_children()[0])
            killed[0].kill()

    with workers(2) as pool:
        write_sweep(small(), path, executor=pool, block=2, progress=kill_one)
    assert killed[0].exitcode == -signal.SIGKILL
    assert multiprocessing.active_children() == []
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


@pytest.mark.fault
def test_what_a_worker_raises_is_raised_here_and_its_death_is_an_error_of_one_call() -> None:
    with workers(1) as pool:
        with pytest.raises(InputError, match=r"^a = 'x': "):
            pool.submit(parse_bytes, "x", "a").result()
        with pytest.raises(RuntimeError, match="ValueError: <function"):  # that cannot be pickled
            pool.submit(exec, "raise ValueError(lambda: 1)").result()
        with pytest.raises(TypeError, match="missing"):  # that cannot be made again from its pickle
            pool.submit(exec, "import click; raise click.BadOptionUsage('a', 'b')").result()
        with pytest.raises(TypeError, match="pickle"):  # a result
            pool.submit(open, os.devnull).result()
        with pytest.raises(WorkerDiedError, match="a worker ended with exit code 3"):
            pool.submit(os._exit, 3).result()
        assert pool.submit(int, "7").result() == 7


def test_a_million_combinations_take_little_memory() -> None:
    """The first and the last block of a million, in 60 MB more than the imports: nothing is laid out in advance."""
    code = (
        "import resource; from streamsim.search.sweep import predict_block as predict;"
        "from streamsim.search.sweep_text import sweep_of; from streamsim.model import simulate;"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = peak();"
        "s = sweep_of({'kernel': ['1us..1000us+1us'], 'h2d': ['4MiB'], 'chunks': ['1..100'], 'streams': ['1..10']});"
        "assert len(s) == 1000000; predict(s, 0, 100, False); predict(s, len(s) - 10, len(s), False);"
        "print(peak() - before)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 60_000  # KiB
