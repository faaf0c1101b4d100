"""Environments of other programs, and a terminal of ASCII: commands work, or say in one line what to do."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from streamsim.cli import main
from streamsim.compiled import available, simulate
from streamsim.device import load_device, write_device
from streamsim.errors import InputError
from streamsim.program import Copy, Schedule, Workload, WorkloadKernel, depth_first, write_schedule

SIZES = ("--h2d", "256KiB", "--kernel", "20us", "--d2h", "256KiB")
ABSENT = "module://no_such_package.backend"


def test_a_plot_needs_no_backend_and_one_that_is_there_stays_the_users(tmp_path: Path) -> None:
    code = (
        "import os; from streamsim.cli import main; assert not main('predict --h2d 4KiB --plot plot.svg'.split());"
        " import matplotlib; print(matplotlib.rcParams['backend'], os.environ['MPLBACKEND'])"
    )
    for backend, used in (("svg", "svg"), (ABSENT, ""), ("nonsense", "")):
        environment = {**os.environ, "MPLBACKEND": backend}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.split()[-1] == backend
        assert used in done.stdout.split()[-2]
        assert (tmp_path / "plot.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize("value", ["1", " 1", "2"])
def test_without_numbas_compiler_everything_runs_on_simpy(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", value)
    assert not available()
    with pytest.raises(InputError, match=r"^NUMBA_DISABLE_JIT = '.*': switches numba's compiler off; unset it$"):
        simulate(Schedule((Copy("h2d", 8, 0),)), load_device("ideal"))


@pytest.mark.parametrize("columns", ["0", "1", "7", "300", "nonsense"])
def test_however_wide_the_terminal_is_said_to_be_the_table_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["predict", *SIZES]) == 0
    assert "h200" in capsys.readouterr().out


# A terminal that knows only ASCII, and a device, files and pictures called 卡

NAME, ESCAPED = "卡", rb"\u5361"
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "xterm", "COLUMNS": "100"}
COMMANDS = (
    ("predict", *SIZES, "--device", f"{NAME}.toml", "--plot", f"{NAME}.png"),
    ("explain", f"{NAME}.json", "--device", f"{NAME}.toml", "--plot", f"{NAME}.svg"),
    ("predict", f"{NAME}.json", "--device", f"{NAME}.toml", "--page", f"{NAME}.html"),
)
BEGIN = {".png": b"\x89PNG", ".svg": b"<?xml", ".html": b"<!doctype html>"}
ONE_BY_ONE = """
import sys
from streamsim.cli import main

commands = " ".join(sys.argv[1:]).split(" then ")
sys.exit(max(main(command.split(" ")) for command in commands if not print(end="\\f", flush=True)))
"""


def in_a_terminal(folder: Path, *commands: tuple[str, ...]) -> tuple[int, list[bytes]]:
    """The largest exit code, and what was on the screen of an ASCII terminal for each command, in one process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONIOENCODING"} | PLAIN
    words = " then ".join(" ".join(command) for command in commands).split(" ")
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", ONE_BY_ONE, *words], cwd=folder, env=environment, stdout=its, stderr=its
    ) as process:
        os.close(its)
        screen = b""
        while data := _read(ours):
            screen += data
    os.close(ours)
    return process.returncode, screen.split(b"\f")[1:]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux, when nobody has the other side any more
        return b""


def test_a_terminal_of_ascii_shows_names_escaped_and_files_keep_them(tmp_path: Path) -> None:
    write_device(msgspec.structs.replace(load_device("ideal"), name=NAME), tmp_path / f"{NAME}.toml")
    workload = Workload(1 << 16, (4,), (4,), (WorkloadKernel(duration_s=20e-6),))
    write_schedule(depth_first(workload, 2, 2), tmp_path / f"{NAME}.json")
    code, screens = in_a_terminal(tmp_path, *COMMANDS, (*COMMANDS[0][:-2], "--json"), ("predict", "nö.json"))
    assert code == 2, screens
    *shown, data, complaint = screens
    for screen, command in zip(shown, COMMANDS, strict=True):
        assert screen.isascii()
        assert ESCAPED in screen
        assert rb"\udc" not in screen  # half a letter is no letter
        picture = tmp_path / command[-1]
        assert picture.read_bytes().startswith(BEGIN[picture.suffix])
    assert json.loads(data[data.index(b"{") :])["inputs"]["device"] == f"{NAME}.toml"
    assert complaint.startswith(rb"streamsim: error: n\xf6.json: cannot read it: no such file or directory; ")
