"""Predict a pipeline or a schedule, and write the schedule of a pipeline."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamsim.cli.options import FILE, Pipeline, chosen_device, device_options, output_options, pipeline_options
from streamsim.cli.printing import print_csv, print_json
from streamsim.device import Device
from streamsim.files import dump_schedule, read_schedule, write_bytes
from streamsim.patterns import serial
from streamsim.schedule import Schedule

if TYPE_CHECKING:
    from streamsim.report import Prediction


@click.command("predict")
@pipeline_options
@device_options
@output_options
def predict_command(
    device: str, connections: int | None, form: str, plot: Path | None, trace: Path | None, **options: Any
) -> None:
    """Predict a pipeline of copies in, kernels and copies out, cut into chunks over streams.

    The workload is a TOML file, or sizes and times: 64MiB is 64 * 1024 * 1024 bytes, 64MB is 64,000,000, a
    bare number is in bytes; 0.57ms, 20us, 1500ns, a bare number is in seconds.

    \b
    Examples:
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --device h200
      streamsim predict --h2d 4MiB --h2d 4MiB --kernel 20us --d2h 4MiB --chunks 8 --streams 2 --order breadth-first
      streamsim predict workload.toml --chunks 32 --streams 4 --buffers 2 --json
      streamsim predict --h2d 1GiB --kernel 20ms --chunks 64 --streams 3 --plot gantt.svg --trace trace.json
    """  # noqa: D301 - click wants the backspace itself
    pipeline = Pipeline(**options)
    workload = pipeline.load()
    inputs = {**pipeline.inputs(workload), "device": device, "connections": connections}
    unchunked = serial(workload, 1, pipeline.memory)
    prediction = _predict(pipeline.schedule(workload), chosen_device(device, connections), unchunked)
    _report(prediction, inputs, form, plot, trace)


@click.command("simulate")
@click.argument("schedule", metavar="SCHEDULE.json", type=FILE)
@device_options
@output_options
def simulate_command(
    schedule: Path, device: str, connections: int | None, form: str, plot: Path | None, trace: Path | None
) -> None:
    """Predict a schedule from a file. Serial is then the same copies and kernels one at a time.

    \b
    Examples:
      streamsim simulate schedule.json --device a100
      streamsim simulate schedule.json --device my-card.toml --connections 32 --json
    """  # noqa: D301 - click wants the backspace itself
    inputs = {"schedule": str(schedule), "device": device, "connections": connections}
    prediction = _predict(read_schedule(schedule), chosen_device(device, connections))
    _report(prediction, inputs, form, plot, trace)


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


def _report(prediction: "Prediction", inputs: dict[str, Any], form: str, plot: Path | None, trace: Path | None) -> None:
    """Write the files, then print: when a file fails, its error is all there is to read."""
    if plot is not None:
        from streamsim.plot import save_gantt

        save_gantt(prediction.timeline, plot, prediction.serial_s)
    if trace is not None:
        from streamsim.trace import write_trace

        write_trace(prediction.timeline, trace)
    if form == "table":
        _print_prediction(prediction)
    elif form == "json":
        print_json(prediction.to_json(inputs))
    else:
        print_csv([{k: v for k, v in prediction.to_json().items() if k != "inputs"}])


def _print_prediction(prediction: "Prediction") -> None:
    from rich.console import Console

    from streamsim.report import gantt, summary

    console = Console(highlight=False)
    console.print(summary(prediction))
    console.print(gantt(prediction.timeline, console.width), markup=False)
    console.print("The stream served most; ':' busy for less than half of the column, '.' idle.", style="dim")
