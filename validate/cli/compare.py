"""``streamsim-validate compare``: compares records with the model. Needs no card."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from streamsim.cli import process
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.fail_if import report_failures
from streamsim.cli.notes import noting_compilation
from streamsim.cli.options import FILE, complete_device, format_options
from streamsim.cli.page import page_option, write_called
from streamsim.device import Device, load_device
from streamsim.errors import InputError
from streamsim_validate.cli.printing import print_result, print_sections
from streamsim_validate.compare import (
    Comparison,
    Coverage,
    Verdict,
    by_class,
    compare,
    comparison_page,
    drawn_time_lines,
    expectations,
    in_percent,
    judge,
    parse_tolerance,
    sections,
    side_by_side,
    to_rows,
)
from streamsim_validate.records import Record, journal_path, read_record

WORST = click.IntRange(0, 1000)
SAMPLES = "Also count the measured medians in their predicted 90 % intervals, from this many draws each, such as 200."


@click.command("compare", cls=BriefCommand)
@click.argument("records", metavar="RECORD...", nargs=-1, type=FILE, required=True)
@click.option(
    "--device",
    "-d",
    shell_complete=complete_device,
    help="A device profile, by name or file. Default: the record's own calibration.",
)
@format_options
@click.option(
    "--fail-if",
    multiple=True,
    metavar="'STAT [GROUP] > X%'",
    help="End with exit code 1 if this holds. STAT is median, p95, worst, choice or unpredicted. Repeatable.",
)
@click.option("--worst", type=WORST, default=10, show_default=True, help="Number of worst predicted schedules to list.")
@click.option("--timelines", is_flag=True, help="Also draw the time lines of the worst schedules.")
@click.option("--all", "every", is_flag=True, help="List every schedule in the table, whatever their number.")
@click.option("--samples", type=int, help=SAMPLES)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draws.")
@click.option(
    "--spread",
    metavar="PROFILE",
    shell_complete=complete_device,
    help="Draw from the spread of this profile, by name or file, instead of the record's own.",
)
@page_option
def compare_command(
    records: tuple[Path, ...],
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
    """Compare the predictions of a record's schedules with the measured times. Show several records side by side.

    \b
    Examples:
      streamsim-validate compare quick.json.gz
      streamsim-validate compare old.json.gz new.json.gz
      streamsim-validate compare r.json.gz --worst 3 --timelines
      streamsim-validate compare r.json.gz --fail-if 'p95 device-bound > 5%' --fail-if 'choice > 5%'
      streamsim-validate compare r.json.gz --samples 200 --spread h200
    """  # noqa: D301 - click wants the backspace itself
    if spread is not None and samples is None:
        raise InputError(f"--spread {spread}: only --samples draws from it; add --samples")
    if timelines and form != "table":
        raise InputError(f"--timelines: draws below the table, not in {form}; leave one of the two out")
    of_one = {"--page": page, "--timelines": timelines, "--all": every, "--samples": samples is not None}
    if len(records) > 1 and (named := [option for option, is_given in of_one.items() if is_given]):
        raise InputError(f"{named[0]}: is of one record, and {len(records)} are given; give one, or leave it out")
    tolerances = [parse_tolerance(text) for text in fail_if]
    profile = None if device is None else load_device(device)
    found = {str(path): _read(path) for path in records}
    with noting_compilation():
        comparisons = {name: compare(record, profile) for name, record in found.items()}
        verdicts = {name: [judge(one, tolerance) for tolerance in tolerances] for name, one in comparisons.items()}
    with process.verdict():
        if len(found) > 1:
            _show_several(comparisons, verdicts, form, worst, profile)
        else:
            ((name, record),) = found.items()
            comparison = comparisons[name]
            covered = None
            if samples is not None:
                drawn = None if spread is None else _spread_of(spread)
                covered = by_class(expectations(record, comparison.rows, samples, seed, drawn, profile))
            if page is not None:
                write_called(comparison_page(comparison, worst, record, profile), page)
            print_result(
                form,
                lambda: sections(comparison, verdicts[name], every, covered, worst),
                lambda: _plain(comparison, verdicts[name], worst, covered),
                lambda: to_rows(comparison),
                profile,
            )
            if timelines:
                print_sections(drawn_time_lines(record, comparison, profile, worst))
    return _exit_code(verdicts)


def _show_several(
    comparisons: Mapping[str, Comparison],
    verdicts: Mapping[str, Sequence[Verdict]],
    form: str,
    worst: int,
    profile: Device | None,
) -> None:
    print_result(
        form,
        lambda: side_by_side(comparisons, worst),
        lambda: {"records": [{"record": n, **_plain(one, verdicts[n], worst)} for n, one in comparisons.items()]},
        lambda: [{"record": n, **row} for n, one in comparisons.items() for row in to_rows(one)],
        profile,
    )


def _plain(
    comparison: Comparison, verdicts: Sequence[Verdict], worst: int, covered: Mapping[str, Coverage] | None = None
) -> dict[str, Any]:
    """Return a comparison and what was asked of it as JSON holds it. ``coverage`` is null unless asked for."""
    return {
        **comparison.to_json(),
        "coverage": None if covered is None else {klass: in_percent(found) for klass, found in covered.items()},
        "tolerances": [in_percent(verdict, "failed") for verdict in verdicts],
        "worst": [{"connections": row.connections, "key": row.key} for row in comparison.worst(worst)],
    }


def _read(path: Path) -> Record:
    """Return the record. Raises InputError; for a missing file it names the folder of the project's own records."""
    try:
        return read_record(path)
    except InputError as error:
        if path.exists() or journal_path(path).exists():
            raise
        raise InputError(
            f"{error}; the project's own records are in the folder validate/campaigns/records/ of its repository"
        ) from None


def _spread_of(name: str) -> dict[str, float]:
    """Return the spread of a profile. Raises InputError if it has none."""
    found = load_device(name).spread
    if not found:
        raise InputError(f"--spread {name}: its profile has no spread; take one that was calibrated, such as h200")
    return found


def _exit_code(verdicts: Mapping[str, Sequence[Verdict]]) -> int:
    """Say which tolerances failed, and return the exit code of the command."""
    several = len(verdicts) > 1
    failed = [(name, verdict) for name, own in verdicts.items() for verdict in own if verdict.failed]
    return report_failures(
        (f"{name}: {verdict.text}" if several else verdict.text, f"{verdict.value:.2%}") for name, verdict in failed
    )
