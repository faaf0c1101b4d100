"""``streamsim-validate compare``: compares a record with the model. Needs no card."""

from functools import partial
from pathlib import Path

import click

from streamsim.cli.options import FILE, complete_device, format_options, option
from streamsim.cli.printing import emit, fail_if_option, page_option
from streamsim.cli.running import BriefCommand
from streamsim.device import load_device
from streamsim_validate.compare import by_class, compare, comparison_answer, expectations, worst_line
from streamsim_validate.records import read_record

SAMPLES = "Also count the measured medians in their predicted 90 % intervals, from this many draws each, such as 200."


@click.command("compare", cls=BriefCommand)
@click.argument("path", metavar="RECORD", type=FILE)
@option(
    "--device -d",
    "A device profile, by name or file. Default: the record's own calibration.",
    shell_complete=complete_device,
)
@format_options
@fail_if_option
@option("--worst", "Number of worst predicted schedules to list.", click.IntRange(0, 1000), default=10)
@option("--samples", SAMPLES, int)
@option("--seed", "Seed of the draws.", int, default=0)
@page_option
def compare_command(path: Path, device: str | None, worst: int, samples: int | None, seed: int) -> int:
    """Compare the predictions of a record's schedules with the measured times.

    --fail-if also takes median, p95 or worst of a class, pattern, effect or number of connections; choice; unpredicted.

    \b
    Examples:
      streamsim-validate compare quick.json.gz
      streamsim-validate compare r.json.gz --fail-if 'p95 device-bound > 5%' --fail-if 'choice > 5%'
      streamsim-validate compare r.json.gz --samples 200
    """  # noqa: D301 - click wants the backspace itself
    profile, record = None if device is None else load_device(device), read_record(path)
    found = compare(record, profile)
    covered = None if samples is None else by_class(expectations(record, found.rows, samples, seed, profile))
    pictures = partial(worst_line, record, found.worst(worst), profile)
    return emit(comparison_answer(found, covered, worst, pictures), profile, found.figures)
