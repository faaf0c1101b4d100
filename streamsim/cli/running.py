"""What is around every command of both programs: exit codes, complaints, help, notes and progress.

Exit codes: :mod:`streamsim.errors`. ``STREAMSIM_TRACEBACK=1`` shows where an unexpected error comes from. Notes are on
stderr to keep stdout clean; if nobody reads them, the command continues. ``--help`` fits a screen: it has the options
that most people need, in groups, and ``--help-all`` the rest.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from time import monotonic
from traceback import format_exc
from typing import Any, TextIO

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from streamsim.answer import Terminal
from streamsim.compiled import COMPILATION, telling
from streamsim.errors import BAD_INPUT, INTERRUPTED, OK, UNEXPECTED, InputError, Notice, one_line, printable

TRACEBACK = "STREAMSIM_TRACEBACK"


class LazyGroup(click.Group):
    """Commands of which only the one called is imported. ``places``: each one's ``module:name``, by its name."""

    def __init__(self, *arguments: Any, places: Mapping[str, str], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._places = places
        self.commands = {place: click.Command(place) for place in places}  # Click suggests these names

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        module, _, name = self._places.get(cmd_name, "").partition(":")
        command: click.Command | None = getattr(import_module(module), name) if module else None
        return command


def run_app(app: click.Command, name: str, arguments: list[str] | None, interrupted: str = "") -> int:
    """Run the program ``name`` and return its exit code. ``interrupted``: what to say when it is."""
    _open_closed_streams()
    _show_warnings_as_lines(name)
    try:
        given = sys.argv[1:] if arguments is None else arguments
        called = [name, *given]  # a page says what made it
        with telling(lambda: note(f"compiling the model, {COMPILATION}")):
            code = app.main(given or ["--help"], prog_name=name, standalone_mode=False, obj=called)
        return _flushed(code if isinstance(code, int) else OK, name) if given else _flushed(BAD_INPUT, name)
    except click.ClickException as error:
        return complain(name, _usage(error))
    except InputError as error:
        return complain(name, str(error), error.exit_code)
    except MemoryError:
        return complain(name, "not enough memory for a schedule of this size; use fewer chunks")
    except (BrokenPipeError, SystemExit):  # nobody reads our output (click then exits), or a word was completed
        return _flushed(OK, name)
    except (KeyboardInterrupt, click.Abort):
        return complain(name, interrupted, INTERRUPTED) if interrupted else INTERRUPTED
    except OSError as error:  # no room for our output, say
        return _flushed(complain(name, str(error)), name)
    except Exception as error:
        return complain(name, _unexpected(error), UNEXPECTED)


def complain(name: str, message: str, code: int = BAD_INPUT) -> int:
    """Say on one line of stderr what is wrong."""
    say(f"{name}: error: {message}")
    return code


@contextmanager
def verdict() -> Iterator[None]:
    """Print what a check has found: if its reader goes away meanwhile, the exit code is still that of the finding."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # click and rich exit
        drop_output(sys.stdout)


def _open_closed_streams() -> None:
    """Open streams that are closed (``>&-``), for which Python has None; escape what a terminal cannot show."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _show_warnings_as_lines(name: str) -> None:
    """Print a library's warnings once, as the program's own notes."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"{name}: {message}")

    warnings.showwarning = show
    warnings.simplefilter("default", Notice)  # ours are no errors, whatever PYTHONWARNINGS says


def _flushed(code: int, name: str) -> int:
    """Send what is left of the output."""
    try:
        sys.stdout.flush()
    except OSError as error:
        drop_output(sys.stdout)
        return code if code or isinstance(error, BrokenPipeError) else complain(name, str(error))
    return code


def _usage(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message} Try {context.command_path} --help" if context else message


def _unexpected(error: Exception) -> str:
    if os.environ.get(TRACEBACK, "0") not in ("", "0"):
        for line in format_exc().splitlines():
            say(line)
        return f"unexpected {type(error).__name__}: {error}"
    return f"unexpected {type(error).__name__}: {error}; please report it, with what {TRACEBACK}=1 shows"


MOST_LINES = 40
MOST_COLUMNS = 100
# By heading the options that most people need, of all commands.
GROUPS = {
    "The work": ("h2d", "kernel", "d2h", "layers", "batch", "sample", "step", "load", "workers", "measured"),
    "How it is cut and issued": ("chunks", "streams", "order", "memory", "max_chunks", "max_streams"),
    "What is changed": ("pin", "async", "prefetch", "graph", "independent"),
    "The device": ("device",),
    "What is measured": ("suite", "front_ends", "budget", "kernels", "repeats"),
    "The result": ("format", "all", "output", "language", "page", "fail_if", "fix"),
}
EVERY = "streamsim.help_all"  # what a click context knows


def _show_all(context: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        context.meta[EVERY] = True
        tell(*context.get_help().splitlines())
        context.exit()


def tell(*lines: str) -> None:
    """Print lines for people. Control characters, which names in files may hold, are escaped."""
    for line in lines:
        print(printable(line))


class BriefCommand(click.Command):
    """A command whose ``--help`` fits a screen, and whose ``--help-all`` says everything."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        how: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_all}
        self.params.append(click.Option(["--help-all"], **how, help="Show every option and example."))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. An option given twice is an error: click would take the last, without a word."""
        if not ctx.resilient_parsing:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            options = [param for param in given if isinstance(param, click.Option)]
            once = [param for param in options if not (param.multiple or param.count or param.is_flag)]
            twice = next((param for param in once if once.count(param) > 1), None)
            if twice and not any(param.is_flag and param.is_eager for param in options):  # help is one
                raise click.UsageError(f"{twice.opts[0]}: given twice; give it once", ctx)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole help if it is short, and else what most people need."""
        whole = click.HelpFormatter(width=formatter.width)
        super().format_help(ctx, whole)
        text = whole.getvalue()
        if ctx.meta.get(EVERY) or text.count("\n") <= MOST_LINES:
            formatter.write(text)
            return
        self.format_usage(ctx, formatter)
        words = (self.help or "").strip()
        example = next((line for line in words.splitlines() if line.strip().startswith("streamsim")), "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(words.partition("\n\n")[0])
            formatter.write_paragraph()
            formatter.write_text(f"\b\nExample:\n  {example.strip()}")
        records = {param.name: param.get_help_record(ctx) for param in self.get_params(ctx)}
        clause = re.compile(r"[.;](?=\s|$)")
        rows = {name: (found[0], clause.split(found[1], 1)[0]) for name, found in records.items() if found}
        for heading, names in GROUPS.items():
            if shown := [rows.pop(name) for name in names if name in rows]:
                with formatter.section(heading):
                    formatter.write_dl(shown)
        formatter.write_paragraph()
        formatter.write_text(f"--help-all shows {len(rows)} more options, and more examples.")


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
    with steps(sys.stderr) as told:
        yield lambda done, of_all: told(what, done, of_all)


@contextmanager
def steps(stream: TextIO) -> Iterator[Callable[[str, int, int], None]]:
    """Show on ``stream`` what the caller tells (what, done, of all): a bar on a terminal, else a line for each step.

    Nothing runs between two calls and most calls do next to nothing, so that what is timed meanwhile is not disturbed.
    """
    said, shown_at = "", 0.0
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    how: dict[str, Any] = {"console": Terminal(stream), "auto_refresh": False, "disable": not stream.isatty()}
    with Progress(*columns, transient=True, **how) as progress:
        task = progress.add_task("", total=None)

        def told(what: str, done: int, of_all: int) -> None:
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

        yield told
