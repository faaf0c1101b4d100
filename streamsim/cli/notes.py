"""What a long command says on stderr, so that its output stays clean."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamsim.files import one_line


def note(text: str) -> None:
    """One line."""
    print(one_line(f"streamsim: {text}"), file=sys.stderr)


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


@contextmanager
def noting_compilation() -> Iterator[None]:
    """Say once if the model is compiled meanwhile, as on a machine that has not done so yet."""
    from streamsim.compiled import COMPILATION, telling

    with telling(lambda: note(f"compiling the model, {COMPILATION}; the next run finds it done")):
        yield
