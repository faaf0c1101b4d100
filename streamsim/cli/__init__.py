"""The ``streamsim`` command: parse, call, print. Each file beside this one holds the commands of one theme.

Exit codes: :mod:`streamsim.cli.process`.
"""

from importlib import import_module

import click

from streamsim.cli.process import Group, run

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
    return run(app, "streamsim", arguments)


class _Commands(Group):
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

    Exit codes: 0 ok, 1 a check found something, 2 usage or bad input, 70 an error that nobody expected
    (STREAMSIM_TRACEBACK=1 shows where), 130 interrupted.
    """  # noqa: D301 - click wants the backspace itself
