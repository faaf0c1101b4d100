"""What a long command says on stderr, so that its output stays clean."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from streamsim.errors import Notice
from streamsim.files import one_line


def note(text: str) -> None:
    """One line."""
    print(one_line(f"streamsim: {text}"), file=sys.stderr)


@contextmanager
def notices_as_notes() -> Iterator[None]:
    """What the library gives notice of meanwhile is a note, each once."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, Notice):
            others(message, category, *rest, **more)
        elif str(message) not in said:
            said.add(str(message))
            note(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        others, warnings.showwarning = warnings.showwarning, show
        yield


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr that is told (done, of all); None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, of_all: progress.update(task, completed=done, total=of_all)
