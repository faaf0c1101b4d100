"""Predict a pipeline or a schedule, and write the schedule of a pipeline."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamsim.cli.explain import source_of
from streamsim.cli.options import (
    COUNT,
    FILE,
    Pipeline,
    all_of,
    chosen_device,
    device_options,
    output_options,
    pipeline_options,
)
from streamsim.cli.printing import print_csv, print_json
from streamsim.device import Device
from streamsim.files import dump_schedule, read_schedule, write_bytes
from streamsim.patterns import serial
from streamsim.schedule import Schedule

if TYPE_CHECKING:
    from streamsim.explain import Explanation
    from streamsim.remedies import Source
    from streamsim.report import Prediction
    from streamsim.uncertainty import Interval

explain_option = click.option(
    "--explain", is_flag=True, help="Say also what loses how much time, as streamsim explain does."
)
interval_options = all_of(
    click.option(
        "--samples",
        type=COUNT,
        help="Say also between which times it lies in 90 % of so many draws from the profile's spread, such as 1000.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Of the draws: the same seed, the same times."),
)


@click.command("predict")
@pipeline_options
@device_options
@output_options
@explain_option
@interval_options
def predict_command(
    device: str,
    connections: int | None,
    form: str,
    plot: Path | None,
    trace: Path | None,
    explain: bool,
    samples: int | None,
    seed: int,
    **options: Any,
) -> None:
    """Predict a pipeline of copies in, kernels and copies out, cut into chunks over streams.

    The workload is a TOML file, or sizes and times: 64MiB is 64 * 1024 * 1024 bytes, 64MB is 64,000,000, a
    bare number is in bytes; 0.57ms, 20us, 1500ns, a bare number is in seconds.

    \b
    Examples:
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --device h200
      streamsim predict --h2d 4MiB --h2d 4MiB --kernel 20us --d2h 4MiB --chunks 8 --streams 2 --order breadth-first
      streamsim predict workload.toml --chunks 32 --streams 4 --buffers 2 --json
      streamsim predict workload.toml --chunks 16 --streams 4 --memory pageable --explain
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --samples 1000
      streamsim predict --h2d 1GiB --kernel 20ms --chunks 64 --streams 3 --plot gantt.svg --trace trace.json
    """  # noqa: D301 - click wants the backspace itself
    pipeline = Pipeline(**options)
    workload = pipeline.load()
    inputs = {**pipeline.inputs(workload), "device": device, "connections": connections}
    unchunked = serial(workload, 1, pipeline.memory)
    card = chosen_device(device, connections)
    prediction = _predict(pipeline.schedule(workload), card, unchunked)
    likely = _interval(prediction, card, samples, seed)
    explanation = _explanation(prediction, card, source_of(pipeline, workload)) if explain else None
    _report(prediction, inputs, form, plot, trace, explanation, likely)


@click.command("simulate")
@click.argument("schedule", metavar="SCHEDULE.json", type=FILE)
@device_options
@output_options
@explain_option
@interval_options
def simulate_command(
    schedule: Path,
    device: str,
    connections: int | None,
    form: str,
    plot: Path | None,
    trace: Path | None,
    explain: bool,
    samples: int | None,
    seed: int,
) -> None:
    """Predict a schedule from a file. Serial is then the same copies and kernels one at a time.

    \b
    Examples:
      streamsim simulate schedule.json --device a100
      streamsim simulate schedule.json --device my-card.toml --connections 32 --json
      streamsim simulate schedule.json --samples 1000 --seed 7
    """  # noqa: D301 - click wants the backspace itself
    inputs = {"schedule": str(schedule), "device": device, "connections": connections}
    card = chosen_device(device, connections)
    prediction = _predict(read_schedule(schedule), card)
    likely = _interval(prediction, card, samples, seed)
    _report(prediction, inputs, form, plot, trace, _explanation(prediction, card) if explain else None, likely)


@click.command("schedule")
@pipeline_options
@click.option("--output", "-o", type=FILE, help="File to write. Default: standard output.")
def schedule_command(output: Path | None, **options: Any) -> None:
    """Write the schedule that the options of predict describe, as JSON.

    \b
    Example:
      streamsim schedule --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 -o schedule.json
    """  # noqa: D301 - click wants the backspace itself
    pipeline = Pipeline(**options)
    data = dump_schedule(pipeline.schedule(pipeline.load()))
    if output is None:
        sys.stdout.write(data.decode())
    else:
        write_bytes(data, output)


def _predict(schedule: Schedule, device: Device, serial_schedule: Schedule | None = None) -> "Prediction":
    from streamsim.report import predict  # with it comes the model; other commands do without

    return predict(schedule, device, serial_schedule)


def _explanation(prediction: "Prediction", device: Device, source: "Source | None" = None) -> "Explanation":
    from streamsim.explain import explain_schedule

    return explain_schedule(prediction.schedule, device, source)


def _interval(prediction: "Prediction", device: Device, samples: int | None, seed: int) -> "Interval | None":
    if samples is None:
        return None
    from streamsim.uncertainty import interval

    return interval(prediction.schedule, device, samples, seed)


def _report(
    prediction: "Prediction",
    inputs: dict[str, Any],
    form: str,
    plot: Path | None,
    trace: Path | None,
    explanation: "Explanation | None",
    interval: "Interval | None",
) -> None:
    """Write the files, then print: when a file fails, its error is all there is to read."""
    if plot is not None:
        from streamsim.plot import save_explanation, save_gantt

        if explanation is None:
            save_gantt(prediction.timeline, plot, prediction.serial_s)
        else:
            save_explanation(explanation, plot)
    if trace is not None:
        from streamsim.trace import write_trace

        write_trace(prediction.timeline, trace)
    said = prediction.to_json(inputs)
    if explanation is not None:
        parts = {loss.cause: loss.lost_s for loss in explanation.losses}
        said["explanation" if form == "json" else "lost_s"] = explanation.to_json(inputs) if form == "json" else parts
    if interval is not None:
        said["interval"] = interval.to_json()
    if form == "table":
        _print_prediction(prediction, explanation, interval)
    elif form == "json":
        print_json(said)
    else:
        print_csv([{k: v for k, v in said.items() if k != "inputs"}])


def _print_prediction(prediction: "Prediction", explanation: "Explanation | None", interval: "Interval | None") -> None:
    from rich.console import Console

    from streamsim.report import gantt, summary

    console = Console(highlight=False)
    console.print(summary(prediction))
    if interval is not None:
        console.print(f"  {interval}\n", soft_wrap=True)
    console.print(gantt(prediction.timeline, console.width), markup=False)
    console.print("The stream served most; ':' busy for less than half of the column, '.' idle.", style="dim")
    if explanation is not None:
        from streamsim.cli.explain import print_explanation

        print_explanation(explanation)
