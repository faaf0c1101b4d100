"""Environment variables of other programs: commands work with them, or say in one line what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamsim.cli import main, notes
from streamsim.compiled import available, simulate
from streamsim.device import load_device
from streamsim.errors import InputError
from streamsim.program import Copy, Schedule

SIZES = ("--h2d", "256KiB", "--kernel", "20us", "--d2h", "256KiB")
ABSENT = "module://no_such_package.backend"


def in_a_process(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "streamsim", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


# A plot is a file, which needs no backend.


@pytest.mark.parametrize(("command", "backend"), [("predict", ABSENT), ("explain", "nonsense")])
def test_a_plot_needs_no_backend(tmp_path: Path, command: str, backend: str) -> None:
    done = in_a_process(tmp_path, command, *SIZES, "--plot", "plot.svg", MPLBACKEND=backend)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "plot.svg").read_bytes().startswith(b"<?xml")


def test_a_backend_that_is_there_stays_the_users() -> None:
    code = (
        "import os; from streamsim.report.pictures import _import_matplotlib; _import_matplotlib();"
        " import matplotlib; print(matplotlib.rcParams['backend'], os.environ['MPLBACKEND'])"
    )
    for backend, used in (("svg", "svg"), (ABSENT, "")):
        environment = {**os.environ, "MPLBACKEND": backend}
        said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert said.stdout.split()[-1] == backend
        assert used in said.stdout.split()[0]


# Where numba's compiler is off, SimPy simulates.


@pytest.mark.parametrize("value", ["1", " 1", "2"])
def test_without_numbas_compiler_everything_runs_on_simpy(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", value)
    assert not available()
    with pytest.raises(InputError, match=r"^NUMBA_DISABLE_JIT = '.*': switches numba's compiler off; unset it$"):
        simulate(Schedule((Copy("h2d", 8, 0),)), load_device("ideal"))


def test_the_answer_without_numbas_compiler_is_the_same(tmp_path: Path) -> None:
    best, sweep = (
        ("best", *SIZES, "--max-chunks", "3", "--max-streams", "2", "--json"),
        ("sweep", *SIZES, "--chunks", "1..3"),
    )
    off, on = (
        [in_a_process(tmp_path, *command, NUMBA_DISABLE_JIT=value) for command in (best, sweep)] for value in ("1", "0")
    )
    assert [done.returncode for done in off] == [0, 0]
    assert off[1].stdout == on[1].stdout
    without, with_it = (json.loads(done[0].stdout) for done in (off, on))
    assert [without[name] for name in ("best", "simplest")] == [with_it[name] for name in ("best", "simplest")]


@pytest.mark.parametrize("value", ["", "0"])
def test_numbas_compiler_is_on_unless_it_is_switched_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    was = available()
    monkeypatch.setenv("NUMBA_DISABLE_JIT", value)
    assert available() == was


@pytest.mark.parametrize("keeps", [True, False])
def test_the_next_run_finds_it_done_only_if_it_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], keeps: bool
) -> None:
    monkeypatch.setattr("streamsim.cli.notes.keeps_code", lambda: keeps)
    with notes.noting_compilation():
        from streamsim.compiled import _to_tell

        _to_tell[-1]()
    assert ("next run finds it done" in capsys.readouterr().err) is keeps


# COLUMNS


@pytest.mark.parametrize("columns", ["0", "1", "7", "40", "300", "nonsense"])
@pytest.mark.parametrize("command", ["predict", "explain", "devices"])
def test_however_wide_the_terminal_is_said_to_be_the_table_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main([command, *(SIZES if command != "devices" else ())]) == 0
    assert "h200" in capsys.readouterr().out
