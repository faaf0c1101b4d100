"""Full disks, folders that take no files, streams that nobody reads, kills: every command that writes a file."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from streamsim.cli import main
from streamsim.program import Workload, WorkloadKernel, depth_first, write_schedule

pytestmark = pytest.mark.fault
SIZES = ("--h2d", "256KiB", "--kernel", "20us", "--d2h", "256KiB")
BEST = ("best", *SIZES, "--max-chunks", "8", "--max-streams", "4", "--as", "cupy")
COMMANDS = {  # each with the option that names the file, and a name: a picture, a text, rows one after another
    "predict --plot": (("predict", *SIZES, "--plot"), "out.svg"),
    "check --fix": (("check", "s.json", "--fix"), "out.json"),
    "sweep": (("sweep", *SIZES, "--chunks", "1..8", "-o"), "out.csv"),
}


@pytest.fixture(scope="module", autouse=True)
def _model_is_compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """So that no command says that it compiles."""
    assert main([*BEST, "-o", str(tmp_path_factory.mktemp("warm") / "warm.py")]) == 0


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a schedule."""
    monkeypatch.chdir(tmp_path)
    write_schedule(depth_first(Workload(1 << 12, (4,), (4,), (WorkloadKernel(duration_s=1e-5),)), 4, 2), Path("s.json"))
    return tmp_path


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """The only one."""
    (line,) = (line for line in capsys.readouterr().err.splitlines() if ": error: " in line)
    return line


@contextmanager
def no_room(limit: int) -> Iterator[None]:
    """A limit on file sizes stands for a full disk."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_room_is_one_line_and_nothing_is_half_there(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (command, out), before = COMMANDS[name], {"s.json"}
    with no_room(60):
        assert main([*command, out]) == 2
    assert "too large" in complaint(capsys)
    left = {path.name for path in here.iterdir()} - before
    if command[0] != "sweep":
        assert left == set()
        Path(out).write_text("what was there")
        with no_room(60):
            assert main([*command, out]) == 2
        assert Path(out).read_text() == "what was there"
    assert main([*command, out]) == 0  # with room again: a sweep goes on
    assert Path(out).stat().st_size > 60
    assert {path.name for path in here.iterdir()} == before | {out}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("where", ["read-only", "s.json", "missing", "/proc"])
def test_a_folder_that_takes_no_file_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, where: str
) -> None:
    """A file in place of the folder, none at all, and a file system that has only what it has."""
    if where == "read-only":
        if os.geteuid() == 0:
            pytest.skip("the superuser may write everywhere")
        (here / where).mkdir(0o555)
    command, out = COMMANDS[name]
    assert main([*command, f"{where}/{out}"]) == 2
    said = complaint(capsys)
    assert f"{where}/{out}: " in said
    assert "cannot write it" in said or f"there is no folder '{where}'" in said
    assert {path.name for path in here.iterdir()} <= {"s.json", where}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_stream_that_nobody_reads_leaves_the_file_whole(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    command, out = COMMANDS[name]
    assert main([*command, f"whole-{out}"]) == 0
    whole = (here / f"whole-{out}").read_bytes()
    for unread in (("stdout",), ("stderr",), ("stdout", "stderr")):
        with ExitStack() as files, monkeypatch.context() as patches:
            for stream in unread:
                ours, into = os.pipe()
                os.close(ours)
                patches.setattr(sys, stream, files.enter_context(open(into, "w")))
            assert main([*command, out]) == 0
        assert (here / out).read_bytes() == whole
        (here / out).unlink()


# Killed

SLOWLY = """
import os, sys, time
import streamsim.files as files
from streamsim.cli import main

class Slow:
    def __init__(self, file):
        self.file = file
    def write(self, data):
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        print("half", flush=True)
        time.sleep(3600)
    def __enter__(self):
        return self
    def __exit__(self, *what):
        self.file.close()

files.open = lambda path, mode: Slow(open(path, mode))
sys.exit(main(sys.argv[1:]))
"""
HANG_S = 120
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@pytest.mark.parametrize("how", SIGNALS, ids=lambda how: how.name)
def test_killed_in_the_middle_of_writing_best_leaves_what_was_there(here: Path, how: signal.Signals) -> None:
    Path("out.py").write_text("what was there")
    command = [sys.executable, "-P", "-c", SLOWLY, *BEST, "-o", "out.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.send_signal(how)
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == (130 if how == signal.SIGINT else -how)
    assert said.strip() == ""
    assert Path("out.py").read_text() == "what was there"
    left = {path.name for path in here.iterdir()} - {"out.py", "s.json"}
    assert all(name.startswith(".streamsim-") for name in left)  # beside it
    assert not left or how != signal.SIGINT
    assert main([*BEST, "-o", "out.py"]) == 0
    assert Path("out.py").read_text().startswith('"""')
