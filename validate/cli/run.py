"""``streamsim-validate run``: measure schedules on a card, into a record."""

import os
from pathlib import Path

import click

from streamsim.cli.options import FILE, gpu_option, option
from streamsim.cli.running import BriefCommand, say, tell
from streamsim.errors import InputError
from streamsim.program import read_schedule
from streamsim_validate.records import PROGRAMS, Record, journal_path, median_and_spread
from streamsim_validate.run import REPEATS, Plan, run
from streamsim_validate.suites import PROGRAM_COUNT, RANDOM_COUNT, SUITES

US_PER_S = 1e6
MOST_CONNECTIONS = 32
LARGEST_SEED = (1 << 63) - 1  # what a record holds


@click.command("run", cls=BriefCommand)
@click.argument("schedules", metavar="[SCHEDULE.json]...", nargs=-1, type=FILE)
@option("--suite", "Measure a suite. Default without schedules: quick.", click.Choice((*SUITES, PROGRAMS)))
@option("--output -o", "File for the record.", FILE, default="record.json.gz")
@option("--repeats", "Times that each is measured.", click.IntRange(1, 10_000), default=REPEATS)
@option(
    "--seed",
    "Seed of the order of the repeats, and of what the suites random and programs draw.",
    click.IntRange(0, LARGEST_SEED),
    default=0,
)
@option(
    "--count",
    f"Number of schedules of random, or of programs of a front end.  [default: {RANDOM_COUNT}, {PROGRAM_COUNT}]",
    click.IntRange(1, 10_000),
)
@gpu_option("The GPU's number.", 0)
@option(
    "--connections",
    "Number of hardware queues, in a process for each number. Repeatable. Default: the suite's numbers.",
    click.IntRange(1, MOST_CONNECTIONS),
    multiple=True,
)
@option("--kernels", "A .cu file with your own kernels. Repeatable.", FILE, multiple=True)
@option("--no-calibrate", "Do not calibrate before and after.", is_flag=True)
def run_command(
    schedules: tuple[Path, ...],
    suite: str | None,
    output: Path,
    no_calibrate: bool,
    count: int | None,
    kernels: tuple[Path, ...],
    **options: object,
) -> None:
    """Measure a suite, or schedules from files, and write a record.

    After an interruption, the same command continues where it stopped.

    \b
    Examples:
      streamsim-validate run --suite quick -o quick.json.gz
      streamsim-validate run --suite random --seed 2026 --count 100 -o random.json.gz
      streamsim-validate run --suite programs --seed 2026 -o programs.json.gz
      streamsim-validate run my-schedule.json --repeats 25 -o mine.json.gz
    """  # noqa: D301 - click wants the backspace itself
    if schedules and suite:
        raise InputError("--suite: give a suite or schedule files, not both")
    found = tuple(read_schedule(path) for path in schedules)
    plan = Plan(
        suite=suite or "quick",
        schedules=found,
        output=str(output),
        kernels=tuple(map(str, kernels)),
        calibrate=not no_calibrate,
        count=count or 0,
        **options,  # type: ignore[arg-type]
    )
    if os.path.exists(journal_path(plan.output)):
        say(f"going on from {journal_path(plan.output)}")
    _summarise(run(plan), plan.output)


def _summarise(record: Record, path: str) -> None:
    for session, entry in record.measured():
        wall, wall_spread = median_and_spread(entry.wall_s)
        device, spread = median_and_spread(entry.device_s) if entry.device_s else (wall, wall_spread)
        times = f"{device * US_PER_S:10.1f} us +- {spread * US_PER_S:5.1f}  wall {wall * US_PER_S:10.1f} us"
        tell(f"{times}  connections={session.connections}  {entry.key}")
    for session, entry in record.skipped():
        tell(f"not measured  connections={session.connections}  {entry.key}: {entry.status}")
    what = PROGRAMS if record.suite == PROGRAMS else "schedules"
    tell(f"{path}: {sum(1 for _ in record.measured())} {what} measured on {record.card.name}")
