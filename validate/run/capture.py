"""A Python program, run by its own interpreter: untraced, to time its named ranges, and with CUPTI, to record it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from streamsim.cli.running import note
from streamsim.errors import InputError, install, shown
from streamsim.files import check_writable, replacing_packed
from streamsim.recorded import Recording, names_of, read_recording, times_of
from streamsim_validate.gpu import NoGpuError, runner

PYTHON = re.compile(r"python(?:\d+(?:\.\d+)*)?t?(?:\.exe)?")
TAKE_A_WORD = ("-W", "-X")  # of the interpreter's options
BY_OTHERS = (
    "record it with nsys profile --trace=cuda,nvtx -o report PROGRAM, then nsys export --type sqlite report.nsys-rep,"
    " or with the PyTorch profiler, and give that to streamsim explain"
)


class PythonProgram(NamedTuple):
    """A program and what runs it.

    ``interpreter``: its path; ``options``: the interpreter's; ``words``: a script, or ``-m`` and a module,
    and the arguments of that.
    """

    interpreter: str
    options: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def title(self) -> str:
        """The words as one would say them."""
        return shown(" ".join(self.words))


class ProgramError(InputError):
    """The program itself ended with an error, and with its exit code so does the command."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


def parse_program(command: Sequence[str]) -> PythonProgram:
    """Return the program of a command line. Raises InputError for what is no Python program."""
    first, *rest = command
    if not PYTHON.fullmatch(Path(first).name):
        remedy = f"give its interpreter: -- python {first}" if first.endswith(".py") else f"if it is none, {BY_OTHERS}"
        raise InputError(f"{shown(first)}: only what python runs can be captured; {remedy}")
    interpreter = shutil.which(first)
    if interpreter is None:
        raise InputError(f"{shown(first)}: there is no such program")
    words = list(rest)
    options: list[str] = []
    while words and words[0].startswith("-") and words[0] != "-m":
        taken = 2 if words[0] in TAKE_A_WORD else 1
        options += words[:taken]
        del words[:taken]
    if len(words) < (2 if words[:1] == ["-m"] else 1):
        raise InputError("no program: give one, as in -- python my_program.py or -- python -m my_program")
    if not words[0].startswith("-") and not Path(words[0]).exists():
        raise InputError(f"{shown(words[0])}: there is no such file")
    return PythonProgram(interpreter, tuple(options), tuple(words))


def capture(program: PythonProgram, output: Path, window: str | None = None, untraced_runs: int = 1) -> Recording:
    """Run ``program`` so often untraced and then recorded, and write what was recorded.

    ``window``: one of its named ranges, or times; at both ends of a named one the program waits until the card is idle.
    Raises NoGpuError, InputError, ProgramError when the program fails, and KeyboardInterrupt when it was interrupted.
    """
    check_writable(output)
    if os.path.exists(output) and any(os.path.exists(w) and os.path.samefile(w, output) for w in program.words):
        raise InputError(f"{output}: is a file of the program; choose another output")
    with tempfile.TemporaryDirectory(prefix="streamsim-") as folder:
        _probe(program)
        windows = {} if window is None or times_of(window) else names_of(window)
        timed: list[str] = []
        for run in range(untraced_runs):
            note(f"run {run + 1} of {untraced_runs + 1}: not recorded")
            timed.append(str(Path(folder, f"run {run}")))
            _run(program, "time", timed[-1], {"windows": windows, "timed": []})
            _check_window(timed[-1], window, windows)
        note(f"run {untraced_runs + 1} of {untraced_runs + 1}: recorded")
        found = str(Path(folder, "recorded"))
        _run(program, "record", found, {"windows": windows, "timed": timed})
        return _keep(program, Path(found), output)


def _probe(program: PythonProgram) -> None:
    """Raise NoGpuError or InputError, with the remedy, if nothing can be recorded."""
    command = [program.interpreter, runner.__file__, "probe", "", "{}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    if done.returncode == runner.NO_CARD:
        raise NoGpuError(f"no usable GPU ({reason}): to capture a program needs an NVIDIA card and its driver")
    if done.returncode:
        raise InputError(
            f"{program.interpreter}: cannot import cupti-python ({reason[:60]});"
            f" {install('cupti')} with that Python (for CUDA 13), or {BY_OTHERS}"
        )


def _run(program: PythonProgram, what: str, report: str, asked: Mapping[str, Any]) -> None:
    """Run the program once. Its input and output are ours. Raises as :func:`capture` does."""
    command = [program.interpreter, *program.options, runner.__file__, what, report, json.dumps(asked), *program.words]
    sys.stdout.flush()
    with subprocess.Popen(command) as process, _passing_signals_on(process):
        code = process.wait()
    if code == -signal.SIGINT:
        raise KeyboardInterrupt
    if code == runner.CANNOT_RECORD and (reason := _failed(report)):
        raise InputError(f"CUPTI cannot record here: {reason}; {BY_OTHERS}")
    if code:
        ended = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise ProgramError(f"{program.title}: {ended}; nothing is written", code if code > 0 else 128 - code)
    try:
        for _ in runner.ranges_in(report):
            pass
    except (OSError, ValueError):
        raise InputError(
            f"{program.title}: ended before what it did could be written, by os._exit or so; nothing is written"
        ) from None


def _failed(report: str) -> str:
    try:
        return str(json.loads(Path(report).read_text(encoding="utf-8"))["failed"])
    except (OSError, ValueError, KeyError):
        return ""


@contextmanager
def _passing_signals_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass SIGTERM on to the program, and let it end by Ctrl-C, which the terminal sends to both, in its own way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_window(report: str, window: str | None, windows: Mapping[str, int]) -> None:
    """Raise InputError unless a run has opened the window."""
    opened = [name for *_, name in runner.ranges_in(report)]
    if windows and not any(opened.count(name) >= which for name, which in windows.items()):
        there = ", ".join(map(shown, dict.fromkeys(opened[:10]))) or "none"
        raise InputError(
            f"--window = {shown(window)}: the program opened no range of this name; it opened {there}. Name one with"
            " NVTX, such as torch.cuda.nvtx.range, cupyx.profiler.time_range or nvtx.annotate"
        )


def _keep(program: PythonProgram, found: Path, output: Path) -> Recording:
    """Write what was recorded, packed if the name says so, once it has been read."""
    recording = read_recording(found)
    if not len(recording.work):
        raise InputError(f"{program.title}: put no work on a card, so there is nothing to look at; nothing is written")
    with replacing_packed(output) as file, open(found, "rb") as plain:
        shutil.copyfileobj(plain, file)
    return recording
