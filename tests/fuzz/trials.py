"""One input: run in this process within limits, and judged."""

import atexit
import contextlib
import gc
import gzip
import io
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import reading
from kinds import KINDS, OF_BYTES, Input

from streamsim import Workload, build, checks, compiled
from streamsim.cli import main as streamsim
from streamsim.device import library, load_device, parse_device
from streamsim.program import Config
from streamsim.search import JOURNAL
from streamsim_validate.calibrate import samples
from streamsim_validate.cli import main as validator

LIMIT_S, LIMIT_BYTES = 10, 1 << 30
FOLDER = "streamsim-fuzz-{}-"  # of a process
ADDRESSES = 4  # times as many may be asked for as used: a reader asks for the largest file that there may be
IN_MEMORY, STATUS, CLEAR = "/dev/shm", Path("/proc/self/status"), Path("/proc/self/clear_refs")
CODES = (0, 1, 2, 3)  # ok, a check found something, bad input, no usable GPU
NO_MEMORY, TOO_LARGE = "not enough memory", "takes more than 1 GiB: {} {}"
PROFILES = 32  # that are kept
PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    "streamsim": streamsim,
    "streamsim-validate": validator,
    "read": reading.main,
}


class Hang(BaseException):
    """The time is up; no program catches this."""


def fault_of(made: Input) -> str | None:
    """What is wrong with how the input is taken, as one line that is the same for the same fault; None: nothing."""
    with _folder(), _streams() as said:
        for name, text in made.files.items():
            Path(name).write_bytes(_bytes_of(name, text))
        had = _most_bytes(anew=True)
        try:
            with limits():
                code = PROGRAMS[made.program](list(made.arguments))
        except Hang:
            return f"takes more than {LIMIT_S} s: {made.program} {made.arguments[0]}"
        except Exception as error:  # what else it may be is what is looked for
            return f"{type(error).__name__} in {_place(error)}"
        if _most_bytes() - had > LIMIT_BYTES:
            return TOO_LARGE.format(made.program, made.arguments[0])
        sys.stderr.flush()
        return _misbehaviour(made, code, said.getvalue().decode())


@contextlib.contextmanager
def _folder() -> Iterator[None]:
    """An empty one to be in, of this process; to make and remove one takes as long as to try an input."""
    folder = _own_folder(os.getpid())
    with contextlib.chdir(folder):
        yield
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry)
        else:
            os.unlink(entry)


def in_memory() -> str:
    """Where folders cost nothing; elsewhere such a place may be missing."""
    return IN_MEMORY if os.path.isdir(IN_MEMORY) else tempfile.gettempdir()


@cache
def _own_folder(process: int) -> str:
    """In memory where there is such a place."""
    folder = tempfile.mkdtemp(prefix=FOLDER.format(process), dir=in_memory())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _streams() -> Iterator[io.BytesIO]:
    """Standard output to nowhere, what is said on stderr as bytes; both as a terminal in UTF-8 has them."""
    said = io.BytesIO()
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict", "\n")
    err = io.TextIOWrapper(said, "utf-8", "backslashreplace", "\n")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield said


def _bytes_of(name: str, text: str) -> bytes:
    if name.endswith(OF_BYTES):
        return text.encode("latin-1", "replace")
    data = text.encode("utf-8", "surrogatepass")
    return gzip.compress(data, 1) if name.endswith(".gz") else data


def _misbehaviour(made: Input, code: int, said: str) -> str | None:
    if code not in CODES:
        return f"exit code {code}: {said[-200:]}"
    if NO_MEMORY in said:
        return TOO_LARGE.format(made.program, made.arguments[0])
    complaints = [line for line in said.splitlines() if ": error: " in line or made.program == "read"]
    if len(complaints) != (code in (2, 3)) or "Traceback" in said:
        return f"exit code {code} with {len(complaints)} lines of complaint: {made.program} {made.arguments[0]}"
    goes_on = code == 0 and any(name.endswith(JOURNAL) for name in made.files) and made.program == "streamsim"
    if goes_on and Path(made.arguments[-1]).read_bytes() != _whole(made.arguments):
        return "a sweep that goes on ends up as another file"
    return None


@cache
def _whole(arguments: tuple[str, ...]) -> bytes:
    """The file of a sweep that was never stopped."""
    quiet = contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), quiet[0], quiet[1]:
        assert streamsim(list(arguments)) == 0
        return Path(arguments[-1]).read_bytes()


def _place(error: BaseException) -> str:
    """Where in this project the error came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages/" not in frame.filename]
    frames = [frame for frame in frames if f"{os.sep}fuzz{os.sep}" not in frame.filename] or frames
    own = [frame for frame in frames if "streamsim" in frame.filename or "validate" in frame.filename] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "?"


def _most_bytes(anew: bool = False) -> int:
    """Of memory that the process has had at once, on Linux since this was last asked ``anew``."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if anew:
        CLEAR.write_text("5")
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Time of the processor, not the clock's: the machine may be busy. Memory beyond what this process has.

    Raises Hang when the time is up, and again: in a finaliser, say, where nobody hears of an exception, it is lost.
    """
    late = False

    def time_is_up(*_: object) -> None:
        nonlocal late
        late = True
        raise Hang

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, time_is_up)
    if sys.platform == "linux":
        has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (has + ADDRESSES * LIMIT_BYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S, LIMIT_S / 4)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    if late:
        raise Hang


def prepare() -> None:
    """No card, shipped profiles read once, and no work that is long because asked for: fits, sweeps, programs."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    samples.MOST_STEPS, checks.MOST_CALLS = 1, 50_000
    sys.modules["streamsim.search.sweep"].MOST_COMBINATIONS = 20_000  # type: ignore[attr-defined]
    sys.modules["streamsim.analysis.explain"].MOST_OPS = 20_000  # type: ignore[attr-defined]
    library.parse_device = lru_cache(PROFILES)(parse_device)
    _compile_model()
    gc.collect()
    gc.freeze()  # or a tenth of the time goes into looking at it all again


def check_right(kind: str) -> None:
    """What goes wrong is right to begin with. Raises AssertionError."""
    _compile_model()
    found = {made.arguments: made for made in KINDS[kind].right()}  # reading, once
    for made in found.values():
        fault = fault_of(made)
        assert fault is None, f"{made.arguments}: {fault}"


@cache
def _compile_model() -> None:
    """Once for a machine, which takes longer than an input may: with time lines, and without."""
    workload, device, configs = Workload(1 << 12, (4,)), load_device("ideal"), [Config("depth-first", 2, 2)]
    if compiled.available():
        compiled.simulate(build(workload, "depth-first", 2, 2), device)
        compiled.makespans(workload, configs, device)
