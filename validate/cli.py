"""The ``streamsim-validate`` command: parse, call, print. Exit codes: :mod:`streamsim.cli.process`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from streamsim.cli import process
from streamsim.cli.notes import steps
from streamsim.cli.options import format_options
from streamsim.device.files import write_device
from streamsim.device.library import load_device
from streamsim.device.profile import MODEL_SPREAD, Device, number_names
from streamsim.errors import InputError
from streamsim.program.files import read_schedule
from streamsim_validate.gpu.card import open_gpu
from streamsim_validate.records.record import Record, journal_path, median_and_spread, read_record
from streamsim_validate.run.campaign import REPEATS, Plan, check_writable, run
from streamsim_validate.suites.suites import RANDOM_COUNT, SUITES

US_PER_S, BYTES_PER_GB = 1e6, 1e9
MOST_CONNECTIONS = 32
LARGEST_SEED = (1 << 63) - 1  # what a record holds


def main(arguments: list[str] | None = None) -> int:
    """Run the command with ``arguments`` (default: those of the process) and return its exit code."""
    resumes = "; the same command goes on from where it stopped" if "run" in (arguments or sys.argv[1:])[:1] else ""
    return process.run(app, "streamsim-validate", arguments, f"interrupted{resumes}")


@click.group(cls=process.Group, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="streamsim", message="streamsim-validate %(version)s")
def app() -> None:
    """Measure schedules on a real GPU and see how well they were predicted.

    Exit codes: 0 ok, 1 a tolerance failed, 2 usage or bad input, 3 no usable GPU, 70 an error that nobody expected
    (STREAMSIM_TRACEBACK=1 shows where), 130 interrupted.
    """


@app.command("run")
@click.argument("schedules", metavar="[SCHEDULE.json]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--suite", type=click.Choice(SUITES), help="Measure a suite. Default without schedules: quick.")
@click.option("--output", "-o", type=click.Path(), default="record.json.gz", show_default=True, help="The record.")
@click.option("--repeats", type=click.IntRange(1, 10_000), default=REPEATS, show_default=True)
@click.option(
    "--seed",
    type=click.IntRange(0, LARGEST_SEED),
    default=0,
    show_default=True,
    help="Of the order of the repeats, and of the schedules of the suite random.",
)
@click.option(
    "--count", type=click.IntRange(1, 10_000), help=f"Schedules of the suite random.  [default: {RANDOM_COUNT}]"
)
@click.option("--device", type=int, default=0, show_default=True, help="The GPU's number.")
@click.option(
    "--connections",
    type=click.IntRange(1, MOST_CONNECTIONS),
    multiple=True,
    help="Hardware queues, a process for each number. Repeatable. Default: what the suite asks for.",
)
@click.option(
    "--kernels", type=click.Path(), multiple=True, help="Kernels of your own: a .cu file, or a .py file. Repeatable."
)
@click.option("--no-calibrate", is_flag=True, help="Do not calibrate before and after.")
@click.option("--allow-races", is_flag=True, help="Measure schedules whose ops race (streamsim check) all the same.")
@click.option("--timelines", is_flag=True, help="Record each schedule's measured time line too (needs cupti-python).")
def run_command(
    schedules: tuple[Path, ...], suite: str | None, no_calibrate: bool, count: int | None, **options: object
) -> None:
    """Measure a suite, or schedules from files, and write a record.

    Interrupted, the same command goes on from where it stopped.

    \b
    Examples:
      streamsim-validate run --suite quick -o quick.json.gz
      streamsim-validate run --suite random --seed 2026 --count 100 -o random.json.gz
      streamsim-validate run my-schedule.json --repeats 25 -o mine.json.gz
    """  # noqa: D301 - click wants the backspace itself
    if schedules and suite:
        raise InputError("--suite: give a suite or schedule files, not both")
    found = tuple(read_schedule(path) for path in schedules)
    plan = Plan(
        suite=suite or "quick",
        schedules=found,
        calibrate=not no_calibrate,
        count=count or 0,
        **options,  # type: ignore[arg-type]
    )
    if journal_path(plan.output).exists():
        click.echo(f"going on from {journal_path(plan.output)}", err=True)
    _summarise(run(plan), plan.output)


@app.command("calibrate")
@click.option("--output", "-o", type=click.Path(), default="my-gpu.toml", show_default=True, help="The profile.")
@click.option("--samples", type=click.Path(), help="Keep the raw samples there, too (gzipped JSON).")
@click.option("--from", "taken", type=click.Path(), help="Fit samples kept earlier; needs no GPU.")
@click.option("--device", type=int, default=0, show_default=True, help="The GPU's number.")
def calibrate_command(output: str, samples: str | None, taken: str | None, device: int) -> None:
    """Measure this GPU, its link and its host, and write their device profile.

    Isolated micro-benchmarks that take half a minute. The environment's CUDA_DEVICE_MAX_CONNECTIONS holds.

    \b
    Examples:
      streamsim-validate calibrate -o my-gpu.toml
      streamsim-validate calibrate -o my-gpu.toml --samples my-gpu.samples.gz
      streamsim-validate calibrate -o again.toml --from my-gpu.samples.gz
    """  # noqa: D301 - click wants the backspace itself
    from streamsim_validate.calibrate.fits import fit
    from streamsim_validate.calibrate.take import read_samples, take, write_samples

    if taken and samples:
        raise InputError("--samples: --from measures nothing that could be kept; leave one of the two out")
    for path in filter(None, (output, samples)):
        check_writable(Path(path))
    if taken:
        found = read_samples(Path(taken))
    else:
        with open_gpu(device) as gpu, steps(sys.stderr) as on_step:
            found = take(gpu, on_step=on_step)
    if samples:
        write_samples(found, Path(samples))
    profile = fit(found)
    write_device(profile, output)
    click.echo("\n".join(_numbers(profile)))
    click.echo(f"{output}: {profile.description}")


def _numbers(profile: Device) -> Iterator[str]:
    """The profile's numbers, one a line, with the spread of the runs behind each; the kernels' tables left out."""
    for name in sorted(number_names(profile) - {"compute.kernels", "connections", "memory_bytes"}):
        part, _, field = name.partition(".")
        value = getattr(getattr(profile, part), field)
        spread = f" +- {profile.spread[name]:.1%}" if name in profile.spread else ""
        yield f"{name:36s} {_with_unit(field, value)}{spread}"
    if MODEL_SPREAD in profile.spread:
        yield f"{MODEL_SPREAD:36s} +- {profile.spread[MODEL_SPREAD]:.1%}"


def _with_unit(field: str, value: float) -> str:
    if field.endswith("_per_s"):
        return f"{value / BYTES_PER_GB:.2f} GB/s"
    return f"{value * US_PER_S:.3f} us" if field.endswith("_s") else str(value)


@app.command("compare")
@click.argument("record", type=click.Path())
@click.option("--device", "-d", help="A device profile, by name or file. Default: the record's own calibration.")
@format_options
@click.option(
    "--fail-if",
    multiple=True,
    metavar="'STAT [GROUP] > X%'",
    help="End with exit code 1 if so; STAT is median, p95, worst, choice or unpredicted. Repeatable.",
)
@click.option(
    "--worst", type=click.IntRange(0, 1000), default=10, show_default=True, help="Worst predicted schedules to list."
)
@click.option("--timelines", is_flag=True, help="Draw the time lines of the worst schedules, too.")
@click.option("--all", "every", is_flag=True, help="List every schedule in the table, however many.")
@click.option(
    "--samples",
    type=int,
    help="Say also how many measured medians lie in their predicted 90 % interval, of so many draws each, such as 200.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draws.")
@click.option(
    "--spread", metavar="PROFILE", help="Draw from the spread of this profile, by name or file, not the record's own."
)
def compare_command(
    record: str,
    device: str | None,
    form: str,
    fail_if: tuple[str, ...],
    worst: int,
    timelines: bool,
    every: bool,
    samples: int | None,
    seed: int,
    spread: str | None,
) -> int:
    """Set the predictions of a record's schedules beside what was measured.

    \b
    Examples:
      streamsim-validate compare quick.json.gz
      streamsim-validate compare r.json.gz --worst 3 --timelines
      streamsim-validate compare r.json.gz --fail-if 'p95 device-bound > 5%' --fail-if 'choice > 5%'
      streamsim-validate compare r.json.gz --samples 200 --spread h200
    """  # noqa: D301 - click wants the backspace itself
    from streamsim_validate.compare import tables
    from streamsim_validate.compare.compare import compare
    from streamsim_validate.compare.coverage import by_class, expectations
    from streamsim_validate.compare.tolerance import judge, parse_tolerance

    tolerances = [parse_tolerance(text) for text in fail_if]
    profile = None if device is None else load_device(device)
    found = read_record(record)
    comparison = compare(found, profile)
    verdicts = [judge(comparison, tolerance) for tolerance in tolerances]
    covered = None
    if samples is not None:
        drawn = None if spread is None else load_device(spread).spread
        covered = by_class(expectations(found, comparison.rows, samples, seed, drawn, profile))
    with process.verdict():
        if form == "json":
            click.echo(json.dumps(tables.to_json(comparison, verdicts, worst, covered), indent=2))
        elif form == "csv":
            click.echo(tables.to_csv(comparison), nl=False)
        else:
            click.echo(tables.to_text(comparison, verdicts, every, covered, worst))
            if timelines and worst:
                click.echo("\n" + tables.time_lines_text(found, comparison, profile, worst))
    failed = [verdict for verdict in verdicts if verdict.failed]
    for verdict in failed:
        click.echo(f"failed: {verdict.text}: is {verdict.value:.2%}", err=True)
    return process.FOUND if failed else process.OK


def _summarise(record: Record, path: str) -> None:
    for session, entry in record.measured():
        device, spread = median_and_spread(entry.device_s)
        wall, _ = median_and_spread(entry.wall_s)
        times = f"{device * US_PER_S:10.1f} us +- {spread * US_PER_S:5.1f}  wall {wall * US_PER_S:10.1f} us"
        click.echo(f"{times}  connections={session.connections}  {entry.key}")
    for session, entry in record.skipped():
        click.echo(f"not measured  connections={session.connections}  {entry.key}: {entry.status}")
    click.echo(f"{path}: {sum(1 for _ in record.measured())} schedules measured on {record.card.name}")


if __name__ == "__main__":
    sys.exit(main())
