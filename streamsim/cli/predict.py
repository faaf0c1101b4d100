"""``streamsim predict``: any work, or several configurations, devices or programs side by side."""

from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from streamsim.analysis import Prediction, interval, predict
from streamsim.answer import prediction_answer, rows_answer, scenarios_of
from streamsim.cli.options import (
    COUNT,
    FILE,
    LOOP,
    OUTPUT,
    PROGRAM,
    DeviceOptions,
    Listed,
    device_options,
    kind_of_file,
    option,
    output_options,
    part_options,
    picked,
    pipeline_options,
    take_several,
)
from streamsim.cli.printing import emit, fail_if_option, page_asked, page_option, write_beside
from streamsim.cli.running import BriefCommand, noting_compilation
from streamsim.cli.sweep import rows_for_table, taken_for_granted
from streamsim.cli.work import (
    ALONE,
    Asked,
    Issued,
    place_layers,
    programs_of,
    read_issued,
    refuse,
    work_of,
    work_on,
    workload_asked,
)
from streamsim.device import Device, split_setting, within_words
from streamsim.displayed import attributes
from streamsim.errors import OK, InputError
from streamsim.model import simulate
from streamsim.program import Config
from streamsim.recorded import write_recording
from streamsim.report import plot_compared, save_picture, write_trace
from streamsim.search import WITHIN, sweep
from streamsim.timeline import Timeline

MOST_LINES = 12  # time lines in one picture, trace or page


class _Found(NamedTuple):
    """Rows of predictions, notes on them, and what makes their time lines, by their names."""

    rows: list[dict[str, Any]]
    notes: list[str]
    lines: Callable[[], dict[str, Timeline]]


def predict_several(context: click.Context, others: tuple[Path, ...], plot: Path | None, trace: Path | None) -> None:
    """Predict several configurations, or programs on several devices. Write the files, then print the rows."""
    paths = [path for path in (context.params["workload"], *others) if path]
    layers = context.params["layers"]
    if others:
        rows, notes, lines = _programs(context, programs_of(context, paths))
    elif layers or (paths and kind_of_file(paths[0]) in (PROGRAM, LOOP)):
        rows, notes, lines = _programs(context, [(layers or paths[0], read_issued(context))])
    else:
        rows, notes, lines = _configurations(context.params)
    for name, path in (("--plot", plot), ("--trace", trace), ("--page", page_asked())):
        if path is not None and len(rows) > MOST_LINES:
            most = f"shows {MOST_LINES} time lines at most; give fewer than {len(rows)} values"
            raise InputError(f"{name} {path}: {most}")
    if plot or trace:
        write_beside(lines(), plot, trace)
    emit(rows_answer(rows, notes, lines))


def _configurations(params: dict[str, Any]) -> _Found:
    """Predict every combination of the values of the options that cut a workload, and of the devices."""
    more = {name: params[name] for name in ("connections", "memory_limit", "front_end", *Config.__struct_fields__)}
    asked: dict[str, Any] = {name: str(value) for name, value in more.items() if value is not None}
    if params["settings"]:
        asked["set"] = dict(split_setting(text, "NAME=VALUE such as h2d.latency=1us") for text in params["settings"])
    found = sweep(workload_asked(params), names_of(params["device"]), **asked)
    rows = rows_for_table(found)
    lines = cache(lambda: {words: simulate(*scenario) for words, scenario in scenarios_of(rows, found).items()})
    return _Found(rows, list(taken_for_granted(found)), lines)


def _programs(context: click.Context, programs: Iterable[tuple[Path, Issued]]) -> _Found:
    """Predict programs, each with its file, on every device of the options, by default on the programs' own."""
    rows: list[dict[str, Any]] = []
    lines: dict[str, Timeline] = {}
    links: dict[str, None] = {}
    asked = picked(DeviceOptions, context.params)
    if isinstance(asked.connections, Listed):
        raise InputError(f"--connections {asked.connections}: a program takes one value at a time; give one")
    for path, issued in programs:
        for name in names_of(asked.device):
            work = work_on(context, issued, replace(asked, device=name)).work
            p, card = predict(work.schedule, work.device), work.device
            times = {**attributes(p, "makespan_s", "serial_s", "speedup"), WITHIN: p.known_within or None}
            rows.append({"schedule": str(path), "device": card.name, "connections": card.connections, **times})
            lines[f"{path} on {card.name}"] = p.timeline
            links |= dict.fromkeys((f"{p.device}: {p.link}", *within_words(card)))
    return _Found(rows, list(links), lambda: lines)


def names_of(device: Device | str) -> list[Device | str]:
    """Return the devices that ``--device`` names, in their order."""
    return [name.strip() for name in device.split(",")] if isinstance(device, str) else [device]


@click.command("predict", cls=BriefCommand)
@pipeline_options
@click.argument("others", metavar="[PROGRAM.json]...", type=FILE, nargs=-1)
@place_layers
@device_options
@part_options
@output_options
@page_option
@option(
    "--recording",
    "Save the trace that PyTorch's profiler would record, for streamsim explain: a .json or .json.gz file.",
    OUTPUT,
)
@option("--formulas", "Also print the times of published formulas, and what each assumes.", is_flag=True)
@option(
    "--samples",
    "Also print the interval that holds the time in 90 % of this many draws from the profile's spread, such as 1000.",
    COUNT,
)
@option("--seed", "Seed of the draws; the same seed gives the same times.", int, default=0)
@fail_if_option
@click.pass_context
def predict_command(
    context: click.Context,
    /,
    others: tuple[Path, ...],
    plot: Path | None,
    trace: Path | None,
    recording: Path | None,
    samples: int | None,
    **options: Any,
) -> int:
    """Predict copies in, kernels and copies out, cut into chunks over streams; or a schedule or recording.

    The work is a workload's TOML file, the file of a schedule or a recording, or sizes and times: 64MiB is 64 * 1024 *
    1024 bytes, 64MB is 64,000,000, a bare number is in bytes; 0.57ms, 20us, 1500ns, a bare number is in seconds. Work
    that does not fit on the card is refused. With --buffers, the table says what the ring costs and what it saves. With
    --layers, a model's layers are streamed to the card one by one over --depth buffers, except those that stay there.

    A recorded program is predicted without the cost of recording it. The speed-up is over the unchunked program. If a
    schedule's file does not hold this program, the speed-up is over the same copies and kernels one by one.

    Several files of schedules and recordings give one table, relative to the best. So do several values with commas
    between them, in every combination: of --device, and for a workload of --chunks, --streams, --order, --buffers,
    --memory, --launch and --connections.

    \b
    Examples:
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --device h200
      streamsim predict --h2d 4MiB --h2d 4MiB --kernel 20us --d2h 4MiB --chunks 8 --streams 2 --order breadth-first
      streamsim predict workload.toml --chunks 32 --streams 4 --buffers 2 --json
      streamsim predict workload.toml --chunks 10 --order prefetch --host-work 3ms
      streamsim predict workload.toml --chunks 16 --streams 4 --device a100 --set h2d.bandwidth=22GB/s
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --samples 1000
      streamsim predict --h2d 1GiB --kernel 20ms --chunks 64 --streams 3 --plot gantt.svg --trace trace.json
      streamsim predict workload.toml --chunks 1,4,16 --streams 4 --device a100,h200,rtx4090
      streamsim predict --layers layers.toml --depth 2 --resident embedding,head
      streamsim predict trace.json.gz
      streamsim predict schedule.json program.json --device a100,h200
      streamsim predict schedule.json --recording trace.json.gz
      streamsim predict schedule.json --device my-card.toml --connections 32 --json
    """  # noqa: D301 - click wants the backspace itself
    if others or any(isinstance(value, Listed) for value in options.values()):
        refuse(context, ("recording", "formulas", "samples", "fail_if", *["layers"] * bool(others)), ALONE)
        predict_several(context, others, plot, trace)
        return OK
    asked = work_of(context)
    work = asked.work
    prediction, between = _predicted(asked), None
    if samples is not None:
        with noting_compilation():
            between = interval(work.schedule, work.device, samples, options["seed"])
    if plot is not None:
        save_picture(partial(plot_compared, prediction), plot)
    if trace is not None:
        write_trace(prediction.timeline, trace)
    if recording is not None:
        write_recording(prediction.timeline, recording)
    answer = prediction_answer(prediction, between, asked.assumed, options["formulas"], asked.inputs)
    return emit(answer, work.device)


take_several(predict_command)


def _predicted(asked: Asked) -> Prediction:
    """Return the prediction; of a workload with the bound of the work."""
    prediction = predict(*asked.work[:2])
    return prediction if asked.bound is None else prediction.beside(asked.bound)
