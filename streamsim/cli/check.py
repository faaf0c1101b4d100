"""Check a schedule for races."""

from pathlib import Path
from typing import Any

import click
import msgspec

from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.consoles import open_console
from streamsim.cli.given import read_given
from streamsim.cli.options import FILE, OUTPUT, format_options
from streamsim.cli.printing import print_csv, print_json
from streamsim.cli.process import verdict
from streamsim.cli.terminal import Terminal
from streamsim.errors import FOUND, OK
from streamsim.program import Schedule, write_schedule
from streamsim.races import Finding, check, repaired, unnamed_memory
from streamsim.report import Table
from streamsim.text import counted

COLUMNS = ("severity", "rule", "what", "remedy")
MOST_ROWS = 50  # of the table; --json has them all


@click.command("check", cls=BriefCommand)
@click.argument("schedule", metavar="SCHEDULE.json", type=FILE)
@format_options
@click.option("--errors-only", is_flag=True, help="Leave the warnings out, of the exit code too.")
@click.option("--fix", type=OUTPUT, help="Save the schedule with the waits that its races lack.")
def check_command(schedule: Path, form: str, errors_only: bool, fix: Path | None) -> int:
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
    with verdict():
        if form == "json":
            print_json(_to_json(schedule, program, findings))
        elif form == "csv":
            print_csv(
                [{name: getattr(found, name) for name in COLUMNS} for found in findings] or [dict.fromkeys(COLUMNS)]
            )
        else:
            _print_findings(program, findings)
    return FOUND if findings else OK


def _counts(program: Schedule, findings: "list[Finding]") -> dict[str, int]:

    errors = sum(finding.severity == "error" for finding in findings)
    return {
        "ops": len(program),
        "ops_with_unnamed_memory": unnamed_memory(program),
        "errors": errors,
        "warnings": len(findings) - errors,
    }


def _to_json(path: Path, program: Schedule, findings: "list[Finding]") -> dict[str, Any]:

    return {
        "schedule": str(path),
        "name": program.name,
        **_counts(program, findings),
        "findings": [{"severity": found.severity, **msgspec.to_builtins(found)} for found in findings],
    }


def _print_findings(program: Schedule, findings: "list[Finding]") -> None:

    console = open_console()
    if findings:
        rows = tuple((found.severity, found.rule, found.what, found.remedy) for found in findings[:MOST_ROWS])
        console.print(Table("", (rows,), ("", *COLUMNS[1:]), colours={"error": "red", "warning": "yellow"}))
    if len(findings) > MOST_ROWS:
        console.print(f"and {len(findings) - MOST_ROWS} more; --json has them all")
    _print_counts(console, **_counts(program, findings))


def _print_counts(console: "Terminal", ops: int, ops_with_unnamed_memory: int, errors: int, warnings: int) -> None:
    console.print(f"{counted(ops, 'op')}: {counted(errors, 'error')}, {counted(warnings, 'warning')}")
    if ops_with_unnamed_memory:
        unseen = f"{ops_with_unnamed_memory} of them do not name all the memory they touch: no race over it shows"
        console.print(unseen, style="dim")
