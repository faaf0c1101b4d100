"""One input: run in this process within limits, judged, and cut down to what its fault needs."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import resource
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w
from kinds import ARRAYS, BYTES, KINDS, Input

from streamsim.cli import main as streamsim
from streamsim.search.sweep_output import JOURNAL
from streamsim_validate.calibrate import simulated
from streamsim_validate.cli import main as validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT_S, LIMIT_BYTES = 10, 1 << 30
ADDRESSES = 4  # times as many may be asked for as used: a reader asks for the largest file that there may be
MOST_TRIES, SHRINK_S = 2000, 120.0  # to make an input smaller
CODES = (0, 1, 2, 3)  # ok, a check found something, bad input, no usable GPU
NO_MEMORY, TOO_LARGE = "not enough memory", "takes more than 1 GiB: {} {}"
PROGRAMS: dict[str, Callable[[list[str]], int]] = {"streamsim": streamsim, "streamsim-validate": validator}


class Hang(BaseException):
    """The time is up; no program catches this."""


def fault_of(made: Input) -> str | None:
    """What is wrong with how the input is taken, as one line that is the same for the same fault; None: nothing."""
    had = _most_bytes()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in made.files.items():
            Path(name).write_bytes(_bytes_of(name, text))
        said = io.BytesIO()
        out, err = (
            io.TextIOWrapper(io.BytesIO(), "utf-8", "strict", "\n"),
            io.TextIOWrapper(said, "utf-8", "backslashreplace", "\n"),
        )
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _limits():
                code = PROGRAMS[made.program](list(made.arguments))
        except Hang:
            return f"takes more than {LIMIT_S} s: {made.program} {made.arguments[0]}"
        except Exception as error:  # what else it may be is what is looked for
            return f"{type(error).__name__} in {_place(error)}"
        err.flush()
        if _most_bytes() - had > LIMIT_BYTES:
            return TOO_LARGE.format(made.program, made.arguments[0])
        return _misbehaviour(made, code, said.getvalue().decode())


def _bytes_of(name: str, text: str) -> bytes:
    if name.endswith(BYTES):
        return text.encode("latin-1", "replace")
    data = text.encode("utf-8", "surrogatepass")
    return gzip.compress(data, 1) if name.endswith(".gz") else data


def _misbehaviour(made: Input, code: int, said: str) -> str | None:
    if code not in CODES:
        return f"exit code {code}: {said[-200:]}"
    if NO_MEMORY in said:
        return TOO_LARGE.format(made.program, made.arguments[0])
    complaints = [line for line in said.split("\n") if ": error: " in line]
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


def _most_bytes() -> int:
    """Of memory that the process has had at once; Linux counts in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if sys.platform == "linux" else 1)


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Time of the processor, not the clock's: the machine may be busy. Memory beyond what this process has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, _time_is_up)
    if sys.platform == "linux":
        has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (has + ADDRESSES * LIMIT_BYTES, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _time_is_up(*_: object) -> None:
    raise Hang


def shrink(made: Input, fault: str) -> Input:
    """The smallest input found that has the same fault; what could not be left out is tried once more at the end."""
    tries, until = MOST_TRIES, time.monotonic() + SHRINK_S
    needed: set[str] = set()
    while True:
        for what, smaller in _smaller(made):
            if what in needed or _size(smaller) >= _size(made):
                continue
            tries -= 1
            if tries < 0 or time.monotonic() > until:
                return made
            if fault_of(smaller) == fault:
                made = smaller
                break
            needed.add(what)
        else:
            if not needed:
                return made
            before, needed = made, set()
            made = next((s for _, s in _smaller(made) if _size(s) < _size(made) and fault_of(s) == fault), made)
            if made is before:
                return made


def _size(made: Input) -> int:
    return sum(map(len, made.arguments)) + len(made.arguments) + sum(map(len, made.files.values()))


def _smaller(made: Input) -> Iterator[tuple[str, Input]]:
    """Without a file, a part of one, or some words, and what is left out; the largest parts first."""
    for name, text in made.files.items():
        yield name, made._replace(files={other: its for other, its in made.files.items() if other != name})
        for what, less in _less(text):
            yield f"{name} {what}", made._replace(files=made.files | {name: less})
    words = made.arguments
    for n in (2, 1):
        for i in range(1, len(words) - n + 1):
            yield f"{words[i : i + n]}", made._replace(arguments=words[:i] + words[i + n :])
    for i, word in enumerate(words[1:], 1):
        for what, less in _cut(word):
            yield f"{word} {what}", made._replace(arguments=(*words[:i], less, *words[i + 1 :]))


def _less(text: str) -> Iterator[tuple[str, str]]:
    """Of a document the parts of its tree, of another text its pieces."""
    for parse, dump in ((json.loads, json.dumps), (tomllib.loads, tomli_w.dumps)):
        with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
            tree: Any = parse(text)
            for path in sorted(_paths(tree), key=lambda path: -len(str(_at(tree, path)))):
                smaller = parse(text)
                del _at(smaller, path[:-1])[path[-1]]
                yield f"{path}", dump(smaller)
            return
    yield from _cut(text)


def _paths(tree: Any) -> Iterator[tuple[Any, ...]]:
    """Of everything in a tree."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield (key,)
        yield from ((key, *path) for path in _paths(tree[key]))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _cut(text: str) -> Iterator[tuple[str, str]]:
    """Without a half, a quarter, an eighth of it, down to a character."""
    size = len(text) // 2
    while size:
        yield from ((f"{at} {size} {len(text)}", text[:at] + text[at + size :]) for at in range(0, len(text), size))
        size //= 2


def prepare() -> None:
    """No card; one step of each fit, which takes seconds else and finds nothing more; the compiled model in memory."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    simulated.MOST_STEPS = 1
    for kind in KINDS:
        check_right(kind)


def check_right(kind: str) -> None:
    """What goes wrong is right to begin with. Raises AssertionError."""
    _compile_model()
    for made in KINDS[kind].right():
        fault = fault_of(made)
        assert fault is None, f"{made.arguments}: {fault}"


@cache
def _compile_model() -> None:
    """Once for a machine, which takes longer than an input may."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert streamsim(["best", *ARRAYS, "--max-chunks", "2", "--max-streams", "2"]) == 0
