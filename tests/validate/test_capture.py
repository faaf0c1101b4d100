"""``streamsim-validate capture``: programs in processes, on a card and a CUPTI that are not there (``fake_gpu``)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_gpu import cupti

from streamsim.cli import main as streamsim
from streamsim.errors import InputError
from streamsim.recorded import Recording, read_recording, untraced_time_s
from streamsim_validate.cli import main
from streamsim_validate.run import parse_program

PROGRAM = """
import sys
import fake_gpu.cupti as card
from nvtx.nvtx import annotate

def step(stream):
    card.CARD.clock.take(7_000)
    card.copy(1 << 20, stream)
    card.launch("relu", stream)
    card.copy(1 << 20, stream, direction=2)

if __name__ == "__main__":
    stream = card.stream()
    for _ in range(2):
        with annotate("step"):
            step(stream)
    print("done", sys.argv[1:])
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program in it, beside a card and CUPTI."""
    beside = tmp_path / "installed"
    for name, value in cupti.install(beside).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    Path("program.py").write_text(PROGRAM)
    return tmp_path


def capture(*arguments: str, program: tuple[str, ...] = ("program.py",)) -> int:
    return main(["capture", *arguments, "--", sys.executable, *program])


def counts(recording: Recording) -> tuple[int, int]:
    return len(recording.calls), len(recording.work)


def test_a_program_is_recorded_timed_and_imported(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The first step takes 39 us: the host's 7, the first call's 1, the card's 30, and 1 for the wait for it.

    The card is waited for before it as well. The program in it begins with the first call.
    """
    assert capture("--window", "step", "-o", "found.json.gz", program=("program.py", "a", "-o", "b")) == 0
    said = capfd.readouterr()
    assert said.out.startswith("done ['a', '-o', 'b']\ndone ['a', '-o', 'b']\n")  # by the program, twice
    assert "run 1 of 2: not recorded" in said.err
    found = read_recording(place / "found.json.gz")
    assert [found.names[name] for name in found.annotations.name] == ["step", "step"]
    assert counts(found) == (8, 6)
    assert [(stream.id, stream.kind) for stream in found.streams] == [(7, "legacy"), (8, "non-blocking")]
    assert found.cards[0].name == "NVIDIA H200"
    assert "CUPTI" in said.out
    (run,) = found.untraced
    assert (run.end_ns - run.start_ns).tolist()[0] == 39_000
    assert untraced_time_s(found, "step") == pytest.approx(32e-6)
    assert "when nothing records it" in said.out
    assert streamsim(["explain", "found.json.gz", "--window", "step", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["replay"]["untraced_s"] == pytest.approx(32e-6)


def test_a_script_has_the_surroundings_that_python_gives_it(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same words as without us, from the same folders; also of a module."""
    show = "import sys\nfrom fake_gpu.cupti import launch\nlaunch('k')\n"
    show += "print(sys.argv, sys.path[:2], __name__, sorted(globals()))\n"
    (place / "below").mkdir()
    (place / "below" / "show.py").write_text(show)
    (place / "below" / "__main__.py").write_text(show)
    module = ("-B", "-X", "utf8", "-m", "below", "-x")
    for program in (("below/show.py", "1"), ("-P", "below/show.py"), module):
        done = subprocess.run([sys.executable, *program], capture_output=True, text=True, check=True)
        assert capture("--untraced-runs", "0", program=program) == 0
        shown = capfd.readouterr().out.splitlines()[0]
        for extra in ("'__annotations__', ", "'__builtins__', "):
            done.stdout, shown = done.stdout.replace(extra, ""), shown.replace(extra, "")
        assert shown == done.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("ends", "code", "message", "by_program"),
    [
        ("sys.exit('no data')", 1, "ended with exit code 1; nothing is written", "no data\n"),
        ("raise ValueError('x')", 1, "ended with exit code 1; nothing is written", "ValueError: x\n"),
        ("import os; os._exit(0)", 2, "ended before what it did could be written", ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139, "was ended by signal 11", ""),
    ],
)
def test_how_a_program_ends_is_how_the_command_ends(
    ends: str, code: int, message: str, by_program: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (place / "program.py").write_text(f"import sys; from fake_gpu import cupti\ncupti.launch('k')\n{ends}\n")
    assert capture("--untraced-runs", "0") == code
    said = capfd.readouterr().err
    (complaint,) = (line for line in said.splitlines() if line.startswith("streamsim-validate: error: "))
    assert message in complaint
    assert by_program in said
    assert not (place / "capture.json.gz").exists()


def test_what_a_program_does_at_its_end_and_in_its_threads_is_recorded(place: Path) -> None:
    """Its own handlers run before ours; a process that it forks writes nothing."""
    (place / "program.py").write_text(
        "import atexit, os, threading, time\nfrom fake_gpu import cupti\n"
        "atexit.register(cupti.launch, 'at the end')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), cupti.launch('in a thread'))).start()\n"
        "child = os.fork()\nif child == 0:\n    raise SystemExit(0)\nos.waitpid(child, 0)\n"
    )
    assert capture("--untraced-runs", "0") == 0
    found = read_recording(place / "capture.json.gz")
    assert [found.names[name] for name in found.work.name] == ["in a thread", "at the end"]
    assert len(found.threads) == 2


def test_interrupted_the_program_settles_what_it_has_and_the_command_says_so(place: Path) -> None:
    """As a terminal does: SIGINT to both."""
    (place / "program.py").write_text(
        "import time\ntry:\n    open('begun', 'w').close()\n    time.sleep(3600)\n"
        "except KeyboardInterrupt:\n    print('settled')\n    raise\n"
    )

    line = [sys.executable, "-m", "streamsim_validate", "capture", "--", sys.executable, "program.py"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (place / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == "settled\n"
    assert err.splitlines()[-1] == "streamsim-validate: error: interrupted"


@pytest.mark.parametrize(
    ("arguments", "program", "setting", "code", "message"),
    [
        ((), ("program.py",), ("FAKE_CARDS", "0"), 3, "no usable GPU (CUDA's error 100): to capture a program needs"),
        ((), ("program.py",), ("FAKE_CUPTI_FAILS", "a reason"), 2, "CUPTI cannot record here: cuptiError: a reason;"),
        ((), ("program.py",), ("without CUPTI", ""), 2, "pip install '.[cupti]' in streamsim's folder"),
        ((), ("nothing.py",), None, 2, "'nothing.py': put no work on a card, so there is nothing to look at"),
        ((), ("none.py",), None, 2, "'none.py': there is no such file"),
        ((), (), None, 2, "no program: give one, as in -- python my_program.py"),
        (("--window", "stop"), ("program.py",), None, 2, "opened no range of this name; it opened 'step'. Name one"),
        (("-o", "none/x.gz"), ("program.py",), None, 2, "there is no folder"),
        (("-o", "program.py"), ("program.py",), None, 2, "program.py: is a file of the program; choose another output"),
    ],
)
def test_what_cannot_be_captured_gets_one_line(
    arguments: tuple[str, ...],
    program: tuple[str, ...],
    setting: tuple[str, str] | None,
    code: int,
    message: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if setting:
        monkeypatch.setenv(*setting)
        if setting[0] == "without CUPTI":
            shutil.rmtree(place / "installed" / "cupti")
    (place / "nothing.py").write_text("")
    assert capture(*arguments, program=program) == code
    said = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("streamsim: run ")]
    assert len(said) == 1
    assert message in said[0]
    assert not (place / "capture.json.gz").exists()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("./a.out -n 4", r"'\./a\.out': only what python runs can be captured; .* nsys export --type"),
        ("train.py", r"give its interpreter: -- python train\.py"),
    ],
)
def test_a_compiled_program_is_for_nsys(program: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_program(program.split())


def test_records_that_are_lost_are_counted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two by CUPTI, and one that cannot be read; the others are there."""
    monkeypatch.setenv("FAKE_DROPPED", "2")
    broken = "import types\ncupti.emit(types.SimpleNamespace(kind=10))\n"
    (place / "program.py").write_text(f"from fake_gpu import cupti\ncupti.launch('a')\n{broken}cupti.launch('b')\n")
    assert capture("--untraced-runs", "0") == 0
    found = read_recording(place / "capture.json.gz")
    assert {row.what: row.count for row in found.unread} == {"records that CUPTI lost": 3}
    assert [found.names[name] for name in found.work.name] == ["a", "b"]
