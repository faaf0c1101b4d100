"""Full disks, streams that nobody reads, kills, too little memory, errors that nobody expected, other environments."""

import io
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from refusals import refused
from strategies import d2h, h2d, plan

from streamsim import program
from streamsim.cli import main, predict
from streamsim.device import load_device
from streamsim.files import write_toml
from streamsim_validate.cli import main as validate_main

SIZES = ("--h2d", "256KiB", "--kernel", "20us", "--d2h", "256KiB")
RECORD = str(Path("validate/campaigns/records/races-h200.json.gz").absolute())
COMPARE = ("compare", "--worst", "0", "--device", "h200", RECORD)
WRITERS = {  # each with the option that names the file, and a name: a picture, a text, rows one after another
    "out.svg": ("predict", *SIZES, "--plot"),
    "out.json": ("check", "s.json", "--fix"),
    "out.csv": ("sweep", *SIZES, "--chunks", "1..8", "-o"),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a schedule, and one in which two copies touch the same bytes and nothing orders them."""
    monkeypatch.chdir(tmp_path)
    program.write_schedule(
        program.depth_first(program.Workload(1 << 12, (4,), (4,), (program.WorkloadKernel(duration_s=1e-5),)), 4, 2),
        "s.json",
    )
    there = program.Region("d", 0, 8)
    ops = (msgspec.structs.replace(op, device=there) for op in (h2d(1, 8), d2h(2, 8)))
    program.write_schedule(plan(*ops, streams=2, buffers=(program.Buffer("d", 8, "device"),)), "racy.json")
    return tmp_path


# Disks and streams


@contextmanager
def no_room(limit: int) -> Iterator[None]:
    """A limit on file sizes stands for a full disk; Python's own files of code are not written meanwhile."""
    before, compiled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
        sys.dont_write_bytecode = compiled


@pytest.mark.fault
@pytest.mark.parametrize("out", WRITERS)
def test_no_room_is_one_line_and_nothing_is_half_there(
    here: Path, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    names = {path.name for path in here.iterdir()}
    command = [*WRITERS[out], out]
    for before in (b"", b"what was there"):
        if before and out != "out.csv":  # a sweep goes on where its file ends
            Path(out).write_bytes(before)
        with no_room(60):
            assert main(command) == 2
        (said,) = (line for line in capsys.readouterr().err.splitlines() if ": error: " in line)
        assert "too large" in said
        if out != "out.csv":
            assert (Path(out).read_bytes() if Path(out).exists() else b"") == before
    assert main(command) == 0  # with room again
    assert Path(out).stat().st_size > 60
    assert {path.name for path in here.iterdir()} == names | {out}


def with_stdout(patch: pytest.MonkeyPatch, file: io.TextIOBase, command: tuple[str, ...]) -> int:
    """The exit code of a command, whose output goes into that file."""
    with patch.context() as patches:
        patches.setattr(sys, "stdout", file)
        code = (validate_main if command[0] == "compare" else main)(list(command))
        file.flush()  # what could not be sent has been dropped
        file.close()
    return code


def nobody_reads() -> io.TextIOBase:
    out, into = os.pipe()
    os.close(out)
    return open(into, "w")


@pytest.mark.fault
def test_a_finding_is_one_though_nobody_reads_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``check | head -1`` says by its code what it found, and nothing but what it found."""
    for command, code in {
        ("check", "racy.json"): 1,
        ("check", "racy.json", "--json"): 1,
        ("check", "s.json"): 0,
        COMPARE: 0,
        ("predict", *SIZES, "--page", "unheard.html"): 0,
        (*COMPARE, "--fail-if", "median > 0.0001%"): 1,
    }.items():
        assert with_stdout(monkeypatch, nobody_reads(), command) == code
    assert capsys.readouterr().err.startswith("failed: median")
    assert Path("unheard.html").read_text().endswith("</html>\n")


@pytest.mark.fault
def test_no_room_for_the_output_is_bad_input_and_no_finding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (("check", "racy.json"), COMPARE):
        assert with_stdout(monkeypatch, open("/dev/full", "w"), command) == 2  # noqa: SIM115 - there
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("error: [Errno 28] No space left on device")


@pytest.mark.fault
def test_closed_output_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    for command in (["predict", *SIZES], ["code", *SIZES, "--as", "schedule"]):
        monkeypatch.setattr(sys, "stdout", None)  # what Python makes of >&-
        assert main(command) == 0
        sys.stdout.close()  # what it opened in place of the closed one
    assert capfd.readouterr() == ("", "")


# Kills, and what nobody expected

SLOWLY = """
import streamsim.files, sys, time
from streamsim.cli import main

def half(path, mode):
    file = open(path, mode, buffering=0)
    file.write(b"half")
    print("half", flush=True)
    time.sleep(3600)

streamsim.files.open = half
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.fault
def test_killed_in_the_middle_of_writing_a_command_leaves_what_was_there(here: Path) -> None:
    Path("out.py").write_text("what was there")
    names, write = {path.name for path in here.iterdir()}, ["code", *SIZES, "--as", "cupy", "-o", "out.py"]
    with subprocess.Popen([sys.executable, "-P", "-c", SLOWLY, *write], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.kill()
    assert Path("out.py").read_text() == "what was there"
    assert all(path.name.startswith(".streamsim-") for path in here.iterdir() if path.name not in names)  # beside it
    assert main(write) == 0
    assert Path("out.py").read_text().startswith('"""')


INTERRUPTS = """
import importlib, os, signal, sys

class Interrupts:
    def find_spec(name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts)
sys.exit(importlib.import_module(sys.argv[1]).main())
"""


@pytest.mark.fault
@pytest.mark.parametrize("module", ["streamsim.__main__", "streamsim_validate.__main__"])
def test_control_c_while_it_is_loaded_is_no_traceback(module: str) -> None:
    """The same module that the installed programs and ``python -m`` begin with."""
    result = subprocess.run([sys.executable, "-c", INTERRUPTS, module], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_an_error_that_nobody_expected_is_one_line_and_70(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(predict, "predict", broken)
    monkeypatch.delenv("STREAMSIM_TRACEBACK", raising=False)
    refused(["predict", *SIZES], capsys, r"unexpected ZeroDivisionError: by\nzero; ...STREAMSIM_TRACEBACK=1", code=70)
    monkeypatch.setenv("STREAMSIM_TRACEBACK", "1")
    assert main(["predict", *SIZES]) == 70
    assert 'raise ZeroDivisionError("by' in capsys.readouterr().err


def test_too_little_memory_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("streamsim.program.patterns.loop_of", no_room)
    said = "not enough memory for a schedule of this size; use fewer chunks"
    refused(["code", *SIZES, "--as", "schedule", "-o", "x.json"], capsys, said)


# Environments


@pytest.mark.parametrize("columns", ["0", "1", "300", "nonsense"])
def test_however_wide_the_terminal_is_said_to_be_the_table_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["predict", *SIZES]) == 0
    assert "h200" in capsys.readouterr().out


def test_a_locale_of_ascii_shows_names_escaped_and_files_keep_them(here: Path) -> None:
    """A device, a picture and a page called 卡, on a machine that knows no such letter and no backend for pictures."""
    write_toml(msgspec.structs.replace(load_device("ideal"), name="卡"), "卡.toml")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "100"}
    ascii_only["MPLBACKEND"] = "module://no_such_package.backend"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONIOENCODING"} | ascii_only
    predicted = ("predict", *SIZES, "--device", "卡.toml")
    pictures = (*predicted, "--plot", "卡.png", "--page", "卡.html")
    said = []
    for words, code in ((pictures, 0), ((*predicted, "--json"), 0), (("predict", "nö.json"), 2)):
        command = [sys.executable, "-P", "-m", "streamsim", *words]
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stdout.isascii()) == (code, True), done.stderr
        said.append(done.stdout or done.stderr)
    assert rb"\u5361" in said[0]
    assert rb"\udc" not in said[0]  # half a letter is no letter
    assert (here / "卡.png").read_bytes().startswith(b"\x89PNG")
    assert (here / "卡.html").read_bytes().startswith(b"<!doctype html>")
    assert json.loads(said[1])["inputs"]["device"] == "卡.toml"
    assert said[2].startswith(rb"streamsim: error: n\xf6.json: cannot read it: no such file or directory")
