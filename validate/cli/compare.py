"""``streamsim-validate compare``: a record against the model. Needs no card."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from streamsim.cli import process
from streamsim.cli.notes import noting_compilation, say
from streamsim.cli.options import FILE, complete_device, plain_format_options
from streamsim.cli.page import page_option, write_called
from streamsim.cli.printing import print_json, tell
from streamsim.device.library import load_device
from streamsim.errors import FOUND, OK, InputError
from streamsim_validate.compare import (
    Verdict,
    by_class,
    compare,
    comparison_page,
    expectations,
    judge,
    parse_tolerance,
    tables,
)
from streamsim_validate.records import Record, journal_path, read_record

WORST = click.IntRange(0, 1000)
SAMPLES = "Say also how many measured medians lie in their predicted 90 % interval, of so many draws each, such as 200."


@click.command("compare")
@click.argument("record", type=FILE)
@click.option(
    "--device",
    "-d",
    shell_complete=complete_device,
    help="A device profile, by name or file. Default: the record's own calibration.",
)
@plain_format_options
@click.option(
    "--fail-if",
    multiple=True,
    metavar="'STAT [GROUP] > X%'",
    help="End with exit code 1 if so; STAT is median, p95, worst, choice or unpredicted. Repeatable.",
)
@click.option("--worst", type=WORST, default=10, show_default=True, help="Worst predicted schedules to list.")
@click.option("--timelines", is_flag=True, help="Draw the time lines of the worst schedules, too.")
@click.option("--all", "every", is_flag=True, help="List every schedule in the table, however many.")
@click.option("--samples", type=int, help=SAMPLES)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draws.")
@click.option(
    "--spread",
    metavar="PROFILE",
    shell_complete=complete_device,
    help="Draw from the spread of this profile, by name or file, not the record's own.",
)
@page_option
def compare_command(
    record: Path,
    device: str | None,
    form: str,
    fail_if: tuple[str, ...],
    worst: int,
    timelines: bool,
    every: bool,
    samples: int | None,
    seed: int,
    spread: str | None,
    page: Path | None,
) -> int:
    """Set the predictions of a record's schedules beside what was measured.

    \b
    Examples:
      streamsim-validate compare quick.json.gz
      streamsim-validate compare r.json.gz --worst 3 --timelines
      streamsim-validate compare r.json.gz --fail-if 'p95 device-bound > 5%' --fail-if 'choice > 5%'
      streamsim-validate compare r.json.gz --samples 200 --spread h200
    """  # noqa: D301 - click wants the backspace itself
    if spread is not None and samples is None:
        raise InputError(f"--spread {spread}: is drawn from by --samples; give that, too")
    if timelines and form != "table":
        raise InputError(f"--timelines: are drawn below the table, not in {form}; leave one of them out")
    tolerances = [parse_tolerance(text) for text in fail_if]
    profile = None if device is None else load_device(device)
    found = _read(record)
    with noting_compilation():
        comparison = compare(found, profile)
        verdicts = [judge(comparison, tolerance) for tolerance in tolerances]
        covered = None
        if samples is not None:
            drawn = None if spread is None else _spread_of(spread)
            covered = by_class(expectations(found, comparison.rows, samples, seed, drawn, profile))
    if page is not None:
        write_called(comparison_page(comparison, worst, found, profile), page)
    with process.verdict():
        if form == "json":
            print_json(tables.to_json(comparison, verdicts, worst, covered), profile)
        elif form == "csv":
            sys.stdout.write(tables.to_csv(comparison))
        else:
            tell(*tables.to_text(comparison, verdicts, every, covered, worst).split("\n"))
            if timelines and worst:
                tell("", *tables.time_lines_text(found, comparison, profile, worst).split("\n"))
    return _exit_code(verdicts)


def _read(path: Path) -> Record:
    """Return the record. Raises InputError, which says where the project's own records are if there is no such file."""
    try:
        return read_record(path)
    except InputError as error:
        if path.exists() or journal_path(path).exists():
            raise
        raise InputError(
            f"{error}; the project's own records are in the folder validate/campaigns/records/ of its repository"
        ) from None


def _spread_of(name: str) -> dict[str, float]:
    """The spread of a profile. Raises InputError for one that has none."""
    found = load_device(name).spread
    if not found:
        raise InputError(f"--spread {name}: its profile has no spread; take one that was calibrated, such as h200")
    return found


def _exit_code(verdicts: Sequence[Verdict]) -> int:
    """Say which tolerances failed; the code with which the command ends."""
    failed = [verdict for verdict in verdicts if verdict.failed]
    for verdict in failed:
        say(f"failed: {verdict.text}: is {verdict.value:.2%}")
    return FOUND if failed else OK
