"""The ``streamsim-validate`` command: parse, call, print. Each file beside this one holds a command.

Exit codes: :mod:`streamsim.errors`.
"""

import sys

import click

from streamsim.cli.running import MOST_COLUMNS, LazyGroup, run_app

COMMANDS = {
    name: f"streamsim_validate.cli.{name}:{name}_command" for name in ("capture", "run", "tune", "calibrate", "compare")
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command with ``arguments`` (default: the process's) and return its exit code."""
    resumable = (arguments or sys.argv[1:])[:1] in (["run"], ["tune"])
    resumes = "; the same command goes on from where it stopped" if resumable else ""
    return run_app(app, "streamsim-validate", arguments, f"interrupted{resumes}")


@click.group(
    cls=LazyGroup,
    places=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MOST_COLUMNS},
)
@click.version_option(None, "--version", "-v", package_name="streamsim", message="streamsim-validate %(version)s")
def app() -> None:
    """Measure schedules on a real GPU and see how well they were predicted.

    Exit codes: 0 ok, 1 a tolerance failed, 2 usage or bad input, 3 no usable GPU, 70 an error that nobody expected
    (STREAMSIM_TRACEBACK=1 shows where), 130 interrupted.
    """
