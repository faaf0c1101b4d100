"""Predict a pipeline or a schedule, and write the schedule of a pipeline."""

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from streamsim.analysis import Prediction, interval, predict, without_ring
from streamsim.answer import prediction_answer
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.explain import Asked, asked_for, bound_of_work, explained
from streamsim.cli.fail_if import Condition, fail_if_option, judged
from streamsim.cli.given import holds_program, read_given
from streamsim.cli.layers import (
    LayerOptions,
    layers_given,
    place_layers,
)
from streamsim.cli.notes import noting_compilation
from streamsim.cli.options import (
    COUNT,
    FILE,
    OUTPUT,
    Chosen,
    Listed,
    Pipeline,
    all_of,
    device_options,
    output_options,
    pipeline_options,
    schedule_given,
    take_several,
    taken,
)
from streamsim.cli.page import page_option
from streamsim.cli.printing import emit, print_data
from streamsim.cli.side_by_side import (
    Shown,
    check_single,
    listed,
    print_configurations,
    print_programs,
)
from streamsim.errors import OK, InputError
from streamsim.files import write_bytes
from streamsim.program import Config, dump_schedule
from streamsim.recorded import write_recording
from streamsim.report import save_compared, save_explanation, write_trace
from streamsim.transform import Source

explain_option = click.option(
    "--explain", is_flag=True, help="Also print what each cause loses, as streamsim explain does."
)
formulas_option = click.option(
    "--formulas", is_flag=True, help="Also print the times of published formulas, and what each assumes."
)
interval_options = all_of(
    click.option(
        "--samples",
        type=COUNT,
        help="Also print the interval that holds the time in 90 % of this many draws from the profile's spread, such as"
        " 1000.",
    ),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="Seed of the draws; the same seed gives the same times."
    ),
)


class _Wanted(msgspec.Struct, frozen=True):
    """The options that predict and simulate share: what to report of a prediction."""

    plot: Path | None
    trace: Path | None
    explain: bool
    formulas: bool
    samples: int | None
    seed: int
    fail_if: tuple[Condition, ...]


@click.command("predict", cls=BriefCommand)
@pipeline_options
@place_layers
@device_options
@output_options
@page_option
@explain_option
@formulas_option
@interval_options
@fail_if_option
@click.pass_context
def predict_command(context: click.Context, /, **options: Any) -> int:
    """Predict a pipeline of copies in, kernels and copies out, cut into chunks over streams.

    The workload is a TOML file, the file of a schedule (.json), or sizes and times: 64MiB is 64 * 1024 * 1024 bytes,
    64MB is 64,000,000, a bare number is in bytes; 0.57ms, 20us, 1500ns, a bare number is in seconds. Work that does not
    fit on the card is refused. With --buffers, the table says what the ring costs and what it saves. With --layers, a
    model's layers are streamed to the card one by one over --depth buffers, except those that stay there.

    Several values with commas between them give one table of every combination, relative to the best: of --device,
    --chunks, --streams, --order, --buffers, --memory, --launch and --connections.

    \b
    Examples:
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --device h200
      streamsim predict --h2d 4MiB --h2d 4MiB --kernel 20us --d2h 4MiB --chunks 8 --streams 2 --order breadth-first
      streamsim predict workload.toml --chunks 32 --streams 4 --buffers 2 --json
      streamsim predict workload.toml --chunks 10 --order prefetch --host-work 3ms
      streamsim predict workload.toml --chunks 16 --streams 4 --memory pageable --explain
      streamsim predict workload.toml --chunks 16 --streams 4 --device a100 --set h2d.bandwidth=22GB/s
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --samples 1000
      streamsim predict --h2d 1GiB --kernel 20ms --chunks 64 --streams 3 --plot gantt.svg --trace trace.json
      streamsim predict workload.toml --chunks 1,4,16 --streams 4 --device a100,h200,rtx4090
      streamsim predict --layers layers.toml --depth 2 --resident embedding,head
    """  # noqa: D301 - click wants the backspace itself
    several = listed(options)
    chosen, wanted, of_layers = taken(Chosen, options), taken(_Wanted, options), taken(LayerOptions, options)
    pipeline = Pipeline(**options)
    if several:
        return _side_by_side(context, pipeline, chosen, wanted, of_layers, several)
    asked = asked_for(context, pipeline, chosen, of_layers)
    prediction = predict(asked.schedule, asked.device)
    if isinstance(asked.source, Source):
        workload, config = asked.source.workload, asked.source.config
        prediction = prediction.beside(bound_of_work(workload, config, asked.device))
        if pipeline.buffers is not None:
            without = without_ring(config.without_ring().schedule(workload), asked.device)
            prediction = replace(prediction, without_ring=without)
    return _report(prediction, asked, wanted)


def _side_by_side(
    context: click.Context,
    pipeline: Pipeline,
    chosen: Chosen,
    wanted: _Wanted,
    of_layers: LayerOptions,
    several: Mapping[str, str],
) -> int:
    """Predict several configurations, or a program on several devices. Return the exit code."""
    option, values = next(iter(several.items()))
    if of_layers.layers is not None:
        raise InputError(f"--{option} {values}: --layers takes one value at a time; give one")
    if holds_program(pipeline.workload):
        schedule_given(context, pipeline)  # options beside it that describe a pipeline are an error
        return _programs([pipeline.workload] if pipeline.workload else [], chosen, wanted)
    config = {name: getattr(pipeline, name) for name in Config.__struct_fields__}
    print_configurations(pipeline.load(), chosen, config, _shown(wanted))
    return OK


def _programs(paths: Sequence[Path], chosen: Chosen, wanted: _Wanted) -> int:
    if isinstance(chosen.connections, Listed):
        raise InputError(f"--connections {chosen.connections}: a program takes one value at a time; give one")
    print_programs(paths, chosen, _shown(wanted))
    return OK


def _shown(wanted: _Wanted) -> Shown:
    """Return what to show of several predictions. Raises InputError for options that need a single prediction."""
    names = ("explain", "formulas", "samples", "fail_if")
    check_single(name.replace("_", "-") for name in names if getattr(wanted, name))
    return Shown(wanted.plot, wanted.trace)


@click.command("simulate", cls=BriefCommand)
@click.argument("schedule", metavar="SCHEDULE.json...", type=FILE, nargs=-1, required=True)
@device_options
@output_options
@page_option
@explain_option
@formulas_option
@interval_options
@fail_if_option
@click.option(
    "--recording",
    type=OUTPUT,
    help="Also write the trace that PyTorch's profiler would record, for streamsim import: a .json or .json.gz file.",
)
def simulate_command(schedule: tuple[Path, ...], recording: Path | None, **options: Any) -> int:
    """Predict the schedule in a file, or a recorded program without the cost of recording it.

    Several files, or several devices with commas between them, give one table, relative to the best. The speed-up is
    over the unchunked program if the file holds one, as files of streamsim schedule do. Otherwise it is over the same
    copies and kernels one by one.

    \b
    Examples:
      streamsim simulate schedule.json --device a100
      streamsim simulate trace.json.gz
      streamsim simulate schedule.json program.json --device a100,h200
      streamsim simulate schedule.json --recording trace.json.gz
      streamsim simulate schedule.json --device my-card.toml --connections 32 --json
      streamsim simulate schedule.json --samples 1000 --seed 7
    """  # noqa: D301 - click wants the backspace itself
    several = listed(options)
    chosen, wanted = taken(Chosen, options), _Wanted(**options)
    if len(schedule) > 1 or several:
        if recording is not None:
            raise InputError(f"--recording {recording}: needs a single program; give one file and one device")
        return _programs(schedule, chosen, wanted)
    given = read_given(schedule[0])
    chosen = chosen.of(click.get_current_context(), given)
    asked = Asked(given.schedule, chosen.load(), {"schedule": str(schedule[0]), **chosen.inputs()})
    prediction = predict(asked.schedule, asked.device)
    if recording is not None:
        write_recording(prediction.timeline, recording)
    return _report(prediction, asked, wanted)


take_several(predict_command)
take_several(simulate_command)


@click.command("schedule", cls=BriefCommand)
@pipeline_options
@place_layers
@click.option("--output", "-o", type=OUTPUT, help="File to write. Default: standard output.")
@click.pass_context
def schedule_command(context: click.Context, /, output: Path | None, **options: Any) -> None:
    """Write the schedule that the options of predict describe, as JSON.

    It takes every option of predict. Options that do not concern the schedule (--device, --json, --plot ...) change
    nothing.

    \b
    Example:
      streamsim schedule --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 -o schedule.json
    """  # noqa: D301 - click wants the backspace itself
    of_layers, pipeline = taken(LayerOptions, options), Pipeline(**options)
    given = layers_given(context, of_layers, pipeline.memory)
    schedule = pipeline.schedule(pipeline.load()) if given is None else given[1].schedule(given[0])
    data = dump_schedule(schedule)
    if output is None:
        print_data(data)
    else:
        write_bytes(data, output)


def _ignored(option: click.Parameter) -> click.Parameter:
    """Return the option, hidden and without effect, so that a command line of predict also makes its schedule."""
    found = copy(option)
    found.expose_value = False
    if isinstance(found, click.Option):
        found.hidden = True
    return found


def take_options_of_predict(command: click.Command) -> None:
    """Let ``command`` accept and ignore the options of predict that it does not have."""
    own = {option.name for option in command.params}
    command.params += [_ignored(option) for option in predict_command.params if option.name not in own]


take_options_of_predict(schedule_command)


def _report(prediction: Prediction, asked: Asked, wanted: _Wanted) -> int:
    """Write the files, then print; if a file fails, only its error is printed. Return the exit code."""
    explanation, between = None, None
    with noting_compilation():
        if wanted.samples is not None:
            between = interval(asked.schedule, asked.device, wanted.samples, wanted.seed)
        if wanted.explain:
            explanation = explained(asked.schedule, asked.device, asked.source)
    if wanted.plot is not None:
        if explanation is None:
            save_compared(prediction, wanted.plot)
        else:
            save_explanation(explanation, wanted.plot)
    if wanted.trace is not None:
        write_trace(prediction.timeline, wanted.trace)
    answer = prediction_answer(prediction, between, explanation, asked.assumed, wanted.formulas, asked.inputs)
    emit(answer, asked.device)
    return judged(wanted.fail_if, answer.data)
