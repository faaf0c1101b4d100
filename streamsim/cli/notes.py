"""Notes and progress of long commands, on stderr to keep stdout clean. If nobody reads them, the command continues."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TextIO

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from streamsim.answer import Terminal
from streamsim.compiled import COMPILATION, telling
from streamsim.text import one_line, printable

SECONDS_A_REFRESH = 0.5


def note(text: str) -> None:
    """Print a line of this program on stderr."""
    say(f"streamsim: {text}")


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a line, on stderr unless another ``stream`` is given."""
    stream = stream or sys.stderr
    try:
        print(one_line(text), file=stream, flush=True)
    except OSError:
        drop_output(stream)


def drop_output(stream: TextIO) -> None:
    """Drop all further output of ``stream``, so that the interpreter does not try to send it when it ends."""
    with suppress(OSError):  # text kept in memory
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on stderr; the caller tells it (done, of all). None if stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with _bar(sys.stderr) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, of_all: progress.update(task, completed=done, total=of_all)


@contextmanager
def steps(stream: TextIO) -> Iterator[Callable[[str, int, int], None]]:
    """Show on ``stream`` what the caller tells (what, done, of all): a bar on a terminal, else a line for each step.

    Nothing runs between two calls and most calls do next to nothing, so that what is timed meanwhile is not disturbed.
    """
    said, shown_at = "", 0.0
    with _bar(stream, auto_refresh=False, disable=not stream.isatty()) as progress:
        task = progress.add_task("", total=None)

        def tell(what: str, done: int, of_all: int) -> None:
            nonlocal said, shown_at
            is_new = what != said
            if is_new and progress.disable:
                say(what, stream)
            elif is_new or monotonic() >= shown_at + SECONDS_A_REFRESH:
                if is_new:
                    progress.reset(task)  # its pace is another
                progress.update(task, description=printable(what), completed=done, total=of_all, refresh=True)
                shown_at = monotonic()
            said = what

        yield tell


def _bar(stream: TextIO, **how: bool) -> Progress:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Terminal(stream), transient=True, **how)  # type: ignore[arg-type]


@contextmanager
def noting_compilation() -> Iterator[None]:
    """Say once if the model is compiled meanwhile, as on a machine that has not done so yet."""

    def begins() -> None:
        note(f"compiling the model, {COMPILATION}")

    with telling(begins):
        yield
