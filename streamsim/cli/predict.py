"""``streamsim predict``: any work, or several side by side."""

from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from streamsim.advice import explain
from streamsim.analysis import Prediction, interval, predict, without_ring
from streamsim.answer import prediction_answer
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.explain import Asked, asked_for, bound_of_work
from streamsim.cli.fail_if import Condition, fail_if_option, judged
from streamsim.cli.given import is_program
from streamsim.cli.layers import (
    LayerOptions,
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
    part_options,
    pipeline_options,
    programs_given,
    take_several,
    taken,
)
from streamsim.cli.page import page_option
from streamsim.cli.printing import emit
from streamsim.cli.side_by_side import (
    Shown,
    check_single,
    listed,
    print_configurations,
    print_programs,
)
from streamsim.errors import OK, InputError
from streamsim.program import Config
from streamsim.recorded import write_recording
from streamsim.report import plot_compared, plot_remedied, save_picture, write_trace
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
    """What to report of a prediction."""

    plot: Path | None
    trace: Path | None
    recording: Path | None
    explain: bool
    formulas: bool
    samples: int | None
    seed: int
    fail_if: tuple[Condition, ...]


@click.command("predict", cls=BriefCommand)
@pipeline_options
@click.argument("others", metavar="[PROGRAM.json]...", type=FILE, nargs=-1)
@place_layers
@device_options
@part_options
@output_options
@page_option
@click.option(
    "--recording",
    type=OUTPUT,
    help="Save the trace that PyTorch's profiler would record, for streamsim explain: a .json or .json.gz file.",
)
@explain_option
@formulas_option
@interval_options
@fail_if_option
@click.pass_context
def predict_command(context: click.Context, /, others: tuple[Path, ...], **options: Any) -> int:
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
      streamsim predict workload.toml --chunks 16 --streams 4 --memory pageable --explain
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
    several = bool(listed(options) or others)
    chosen, wanted, of_layers = taken(Chosen, options), taken(_Wanted, options), taken(LayerOptions, options)
    pipeline = Pipeline(**options)
    if several:
        return _side_by_side(context, pipeline, others, chosen, wanted, of_layers)
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
    others: tuple[Path, ...],
    chosen: Chosen,
    wanted: _Wanted,
    of_layers: LayerOptions,
) -> int:
    """Predict several configurations, or programs on several devices. Return the exit code."""
    single = {name: getattr(wanted, name) for name in ("recording", "explain", "formulas", "samples", "fail_if")}
    single["layers"] = of_layers.layers
    check_single(name.replace("_", "-") for name, value in single.items() if value)
    shown = Shown(wanted.plot, wanted.trace)
    if not (others or (pipeline.workload and is_program(pipeline.workload))):
        config = {name: getattr(pipeline, name) for name in Config.__struct_fields__}
        print_configurations(pipeline.load(), chosen, config, shown)
        return OK
    if isinstance(chosen.connections, Listed):
        raise InputError(f"--connections {chosen.connections}: a program takes one value at a time; give one")
    print_programs(programs_given(context, pipeline, others), chosen, shown)
    return OK


take_several(predict_command)


def _report(prediction: Prediction, asked: Asked, wanted: _Wanted) -> int:
    """Write the files, then print; if a file fails, only its error is printed. Return the exit code."""
    explanation, between = None, None
    with noting_compilation():
        if wanted.samples is not None:
            between = interval(asked.schedule, asked.device, wanted.samples, wanted.seed)
        if wanted.explain:
            explanation = explain(asked.schedule, asked.device, asked.source)
    if wanted.plot is not None:
        compared = partial(plot_compared, prediction)
        save_picture(partial(plot_remedied, explanation) if explanation else compared, wanted.plot)
    if wanted.trace is not None:
        write_trace(prediction.timeline, wanted.trace)
    if wanted.recording is not None:
        write_recording(prediction.timeline, wanted.recording)
    answer = prediction_answer(prediction, between, explanation, asked.assumed, wanted.formulas, asked.inputs)
    emit(answer, asked.device)
    return judged(wanted.fail_if, answer.data)
