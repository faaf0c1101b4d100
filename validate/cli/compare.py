"""``streamsim-validate compare``: compares records with the model. Needs no card."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from streamsim.cli.options import FILE, complete_device, format_options
from streamsim.cli.printing import emit, page_asked, page_option, report_failures
from streamsim.cli.running import BriefCommand, verdict
from streamsim.device import load_device
from streamsim.errors import InputError
from streamsim_validate.compare import (
    Comparison,
    Coverage,
    Verdict,
    by_class,
    compare,
    comparison_answer,
    comparisons_answer,
    expectations,
    in_percent,
    judge,
    parse_tolerance,
    worst_lines,
)
from streamsim_validate.records import read_record

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
@click.option("--samples", type=int, help=SAMPLES)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draws.")
@page_option
def compare_command(
    records: tuple[Path, ...], device: str | None, fail_if: tuple[str, ...], worst: int, samples: int | None, seed: int
) -> int:
    """Compare the predictions of a record's schedules with the measured times. Show several records side by side.

    \b
    Examples:
      streamsim-validate compare quick.json.gz
      streamsim-validate compare old.json.gz new.json.gz
      streamsim-validate compare r.json.gz --fail-if 'p95 device-bound > 5%' --fail-if 'choice > 5%'
      streamsim-validate compare r.json.gz --samples 200
    """  # noqa: D301 - click wants the backspace itself
    of_one = {"--page": page_asked(), "--samples": samples is not None}
    if len(records) > 1 and (named := [option for option, is_given in of_one.items() if is_given]):
        raise InputError(f"{named[0]}: is of one record, and {len(records)} are given; give one, or leave it out")
    tolerances = [parse_tolerance(text) for text in fail_if]
    profile = None if device is None else load_device(device)
    found = {str(path): read_record(path) for path in records}
    comparisons = {name: compare(record, profile) for name, record in found.items()}
    verdicts = {name: [judge(one, tolerance) for tolerance in tolerances] for name, one in comparisons.items()}
    with verdict():
        if len(found) > 1:
            told = [{"record": n, **_plain(one, verdicts[n], worst)} for n, one in comparisons.items()]
            emit(comparisons_answer(comparisons, worst, {"records": told}), profile)
        else:
            ((name, record),) = found.items()
            comparison = comparisons[name]
            covered = None
            if samples is not None:
                covered = by_class(expectations(record, comparison.rows, samples, seed, profile))
            data = _plain(comparison, verdicts[name], worst, covered)
            pictures = partial(worst_lines, record, comparison.worst(worst), profile)
            emit(comparison_answer(comparison, verdicts[name], covered, worst, pictures, data), profile)
    return _exit_code(verdicts)


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


def _exit_code(verdicts: Mapping[str, Sequence[Verdict]]) -> int:
    """Say which tolerances failed, and return the exit code of the command."""
    several = len(verdicts) > 1
    failed = [(name, verdict) for name, own in verdicts.items() for verdict in own if verdict.failed]
    return report_failures(
        (f"{name}: {verdict.text}" if several else verdict.text, f"{verdict.value:.2%}") for name, verdict in failed
    )
