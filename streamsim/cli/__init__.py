"""The ``streamsim`` command: parse, call, print. Each file beside this one holds the commands of one theme.

Exit codes: 0 ok, 1 a check found something or a tolerance failed, 2 usage or bad input (one line on
stderr); 3 is the validator's "no GPU".
"""

import os
import sys
from importlib import import_module

import click

from streamsim.cli.notes import notices_as_notes
from streamsim.errors import InputError
from streamsim.files import one_line

OK, BAD_INPUT, INTERRUPTED = 0, 2, 130
# Where each command is, as ``module:name``: only the one that is called is imported.
COMMANDS = {
    "predict": "predict:predict_command",
    "simulate": "predict:simulate_command",
    "schedule": "predict:schedule_command",
    "explain": "explain:explain_command",
    "best": "best:best_command",
    "sweep": "sweep:sweep_command",
    "devices": "devices:devices",
    "schema": "devices:schema_command",
    "check": "check:check_command",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command with ``arguments`` (default: those of the process) and return its exit code."""
    try:
        with notices_as_notes():
            code = app.main(arguments, prog_name="streamsim", standalone_mode=False)
        return _flushed(code if isinstance(code, int) else OK)
    except click.ClickException as error:
        return _complain(_usage(error))
    except InputError as error:
        return _complain(str(error))
    except MemoryError:
        return _complain("not enough memory for a schedule of this size; use fewer chunks")
    except (BrokenPipeError, SystemExit):  # nobody reads our output (click then exits), or a word was completed
        return _flushed(OK)
    except OSError as error:  # no room for our output, say
        return _flushed(_complain(str(error)))
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED


def _flushed(code: int) -> int:
    """Send what is left of the output; what cannot be sent is dropped, so that the interpreter does not try again."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code if code or isinstance(error, BrokenPipeError) else _complain(str(error))
    return code


def _complain(message: str) -> int:
    print(f"streamsim: error: {one_line(message)}", file=sys.stderr)
    return BAD_INPUT


def _usage(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message} Try {context.command_path} --help" if context else message


class _Commands(click.Group):
    """Imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        module, _, name = COMMANDS.get(cmd_name, "").partition(":")
        command: click.Command | None = getattr(import_module(f"streamsim.cli.{module}"), name) if module else None
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="streamsim", message="streamsim %(version)s")
def app() -> None:
    """Predict how long a chunked GPU pipeline takes, and whether streams pay, with no GPU at hand.

    \b
    Example:
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --device h200

    \b
    Shell completion (bash; zsh_source and fish_source likewise):
      eval "$(_STREAMSIM_COMPLETE=bash_source streamsim)"

    Exit codes: 0 ok, 1 a check found something, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
