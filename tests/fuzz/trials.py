"""One input, run in this process within limits, and judged."""

import contextlib
import gzip
import io
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import reading
from kinds import OF_BYTES, Input

from streamsim import errors
from streamsim.cli import main as streamsim
from streamsim.errors import BAD_INPUT, FOUND, NO_GPU, OK
from streamsim_validate.calibrate import samples
from streamsim_validate.cli import main as validator

LIMIT_S, LIMIT_BYTES = 10.0, 1 << 30
WAIT_S, STUCK_S = 120, 60  # by the clock, for something; of the processor, in code that no signal handler interrupts
ADDRESSES = 4  # times as many may be asked for as used: a reader asks for the largest file that there may be
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where folders cost nothing
PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    "streamsim": streamsim,
    "streamsim-validate": validator,
    "read": reading.main,
}


class Hang(BaseException):
    """The time is up; no program catches this."""


def check(made: Input) -> None:
    """Let a program take an input. Raises what the program raises, or AssertionError that says what else is wrong."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder, contextlib.chdir(folder), _streams() as said:
        for name, text in made.files.items():
            Path(name).write_bytes(_bytes_of(name, text))
        had = _most_bytes(anew=True)
        try:
            with limits():
                code = PROGRAMS[made.program](list(made.arguments))
        except Hang:
            raise AssertionError(f"takes more than {LIMIT_S:g} s") from None
        more = _most_bytes() - had
        sys.stderr.flush()
    text = said.getvalue().decode()
    complaints = [line for line in text.splitlines() if ": error: " in line or made.program == "read"]
    assert more <= LIMIT_BYTES, f"takes {more} bytes"
    assert "not enough memory" not in text, text
    assert code in (OK, FOUND, BAD_INPUT, NO_GPU), f"exit code {code}: {text}"
    assert len(complaints) == (code in (BAD_INPUT, NO_GPU)), f"exit code {code} with other than one line: {text}"
    assert "Traceback" not in text, text


@contextlib.contextmanager
def _streams() -> Iterator[io.BytesIO]:
    """Standard output to nowhere, what is said on stderr as bytes; both as a terminal in UTF-8 has them."""
    said = io.BytesIO()
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict", "\n")
    err = io.TextIOWrapper(said, "utf-8", "backslashreplace", "\n", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield said
    err.detach()


def _bytes_of(name: str, text: str) -> bytes:
    if name.endswith(OF_BYTES):
        return text.encode("latin-1", "replace")
    data = text.encode("utf-8", "surrogatepass")
    return gzip.compress(data, 1) if name.endswith(".gz") else data


def _most_bytes(anew: bool = False) -> int:
    """Of memory that the process has had at once, on Linux since this was last asked ``anew``."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Of the processor's time, because the machine may be busy, and of memory beyond what this process has.

    Raises Hang when the time is up, and again: in a finaliser, say, where nobody hears of an exception, it is lost.
    Code that no signal reaches ends the process, and with it the tests.
    """
    late = False

    def time_is_up(*_: object) -> None:
        nonlocal late
        late = True
        raise Hang

    processor, memory = resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_AS)
    before = [signal.signal(number, time_is_up) for number in (signal.SIGPROF, signal.SIGALRM)]
    if sys.platform == "linux":
        has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (has + ADDRESSES * LIMIT_BYTES, memory[1]))
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + STUCK_S, processor[1]))
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S, LIMIT_S / 4)
    signal.setitimer(signal.ITIMER_REAL, WAIT_S, WAIT_S / 4)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, memory)
        resource.setrlimit(resource.RLIMIT_CPU, processor)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)
    if late:
        raise Hang


def prepare(patch: pytest.MonkeyPatch) -> None:
    """No card, and no work that is long because asked for: fits, sweeps, programs."""
    patch.setenv("CUDA_VISIBLE_DEVICES", "")
    patch.setattr(samples, "MOST_STEPS", 1)
    patch.setattr(errors, "MOST_CALLS", 50_000)
    patch.setattr(sys.modules["streamsim.search.sweep"], "MOST_COMBINATIONS", 1_000)
    patch.setattr(sys.modules["streamsim.advice.explanation"], "MOST_OPS", 20_000)
