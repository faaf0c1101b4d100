"""The ``streamsim`` command: parse, call, print. Each file beside this one holds the commands of one theme.

Exit codes: :mod:`streamsim.errors`.
"""

import click

from streamsim.cli.running import MOST_COLUMNS, LazyGroup, run_app

# Where each command is, as ``module:name``.
COMMANDS = {
    "init": "streamsim.cli.files:init_command",
    "predict": "streamsim.cli.predict:predict_command",
    "explain": "streamsim.cli.explain:explain_command",
    "best": "streamsim.cli.best:best_command",
    "code": "streamsim.cli.code:code_command",
    "sweep": "streamsim.cli.predict:sweep_command",
    "devices": "streamsim.cli.files:devices",
    "check": "streamsim.cli.files:check_command",
    "whatif": "streamsim.cli.whatif:whatif_command",
    "loop": "streamsim.cli.best:loop_command",
    "playground": "streamsim.cli.playground:playground_command",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command with ``arguments`` (default: those of the process) and return its exit code."""
    return run_app(app, "streamsim", arguments)


@click.group(
    cls=LazyGroup,
    places=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MOST_COLUMNS},
)
@click.version_option(None, "--version", "-v", package_name="streamsim", message="streamsim %(version)s")
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
