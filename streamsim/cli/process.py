"""What is around every command of both programs: its exit code, its complaint of one line, its output's fate.

Exit codes: :mod:`streamsim.errors`. ``STREAMSIM_TRACEBACK=1`` shows where an unexpected error comes from.
"""

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from traceback import format_exc
from typing import Any

import click

from streamsim.cli.notes import drop_output, say
from streamsim.errors import BAD_INPUT, INTERRUPTED, OK, UNEXPECTED, InputError, Notice
from streamsim.text import one_line

TRACEBACK = "STREAMSIM_TRACEBACK"


# Other words for options, by the word that people write.
MEANT = {
    word: option
    for option, words in {
        "h2d": "in input inputs upload",
        "d2h": "out output outputs download",
        "kernel": "time compute kernel-time duration",
        "memory": "pinned pageable pin-memory",
        "device": "gpu card profile",
        "format": "csv jsonl markdown table",
        "step": "step-time forward",
        "batch": "batch-size batch_size",
        "workers": "num-workers num_workers",
    }.items()
    for word in words.split()
}


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


def run(app: click.Command, name: str, arguments: list[str] | None, interrupted: str = "") -> int:
    """Run the program ``name`` and return its exit code. ``interrupted``: what to say when it is."""
    _open_closed_streams()
    _show_warnings_as_lines(name)
    try:
        given = sys.argv[1:] if arguments is None else arguments
        called = [name, *given]  # a page says what made it
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
    say(f"{name}: error: {one_line(message)}")
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
    said = _no_such_option(error) if isinstance(error, click.NoSuchOption) else error.format_message()
    message = " ".join(said.split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message} Try {context.command_path} --help" if context else message


def _no_such_option(error: click.NoSuchOption) -> str:
    """Return a message that suggests the option of the command that the word means, or those with a similar name.

    Click's own suggestions count the dashes, which all options have.
    """
    params = error.ctx.command.params if error.ctx else []
    names = {name.lstrip("-"): name for param in params for name in param.opts if name.startswith("--")}
    asked = error.option_name.lstrip("-")
    near = [MEANT[asked]] if MEANT.get(asked) in names else get_close_matches(asked, names)
    suggested = f" Did you mean {' or '.join(repr(names[name]) for name in near)}?" if near else ""
    return f"No such option {error.option_name!r}.{suggested}"


def _unexpected(error: Exception) -> str:
    if os.environ.get(TRACEBACK, "0") not in ("", "0"):
        for line in format_exc().splitlines():
            say(line)
        return f"unexpected {type(error).__name__}: {error}"
    return f"unexpected {type(error).__name__}: {error}; please report it, with what {TRACEBACK}=1 shows"
