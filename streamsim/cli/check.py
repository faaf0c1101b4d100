"""Check a schedule for races."""

from pathlib import Path

import click

from streamsim.answer import findings_answer
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.given import read_given
from streamsim.cli.options import FILE, OUTPUT, format_options, part_options
from streamsim.cli.printing import emit
from streamsim.errors import FOUND, OK
from streamsim.program import write_schedule
from streamsim.races import check, repaired


@click.command("check", cls=BriefCommand)
@click.argument("schedule", metavar="SCHEDULE.json", type=FILE)
@format_options
@part_options
@click.option("--errors-only", is_flag=True, help="Leave the warnings out, of the exit code too.")
@click.option("--fix", type=OUTPUT, help="Save the schedule with the waits that its races lack.")
def check_command(schedule: Path, errors_only: bool, fix: Path | None) -> int:
    """Find races in a schedule, and events and waits that do not do what they seem to.

    \b
    Errors: two ops touch the same bytes of a buffer, one of them writes, and nothing orders them.
    Warnings: a wait for an event not recorded before; a copy to the host that the host never waits for;
    a wait that changes nothing.

    Each race comes with the wait that is missing; what only follows from it is not reported again.

    \b
    Examples:
      streamsim check schedule.json
      streamsim check schedule.json --errors-only --json
      streamsim check schedule.json --fix fixed.json

    Exit codes: 0 nothing found, 1 something found, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    program = read_given(schedule).schedule
    findings = [finding for finding in check(program) if not errors_only or finding.severity == "error"]
    if fix is not None:
        write_schedule(repaired(program, findings), fix)
    emit(findings_answer(program, findings, schedule))
    return FOUND if findings else OK
