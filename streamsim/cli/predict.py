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
from streamsim.cli.explain import bound_of_work
from streamsim.cli.fail_if import Condition, fail_if_option, judged
from streamsim.cli.given import PROGRAM, kind_of_file
from streamsim.cli.notes import noting_compilation
from streamsim.cli.options import (
    COUNT,
    FILE,
    OUTPUT,
    DeviceOptions,
    Listed,
    all_of,
    device_options,
    output_options,
    part_options,
    picked,
    pipeline_options,
    take_several,
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
from streamsim.cli.work import Work, place_layers, programs_of, work_of
from streamsim.errors import OK, InputError
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
    wanted = picked(_Wanted, options)
    if listed(options) or others:
        return _side_by_side(context, others, wanted)
    work = work_of(context)
    prediction = predict(work.schedule, work.device)
    if (bound := bound_of_work(work)) is not None:
        prediction = prediction.beside(bound)
    if isinstance(work.source, Source) and work.source.config.buffers is not None:
        without = without_ring(work.source.config.without_ring().schedule(work.source.workload), work.device)
        prediction = replace(prediction, without_ring=without)
    return _report(prediction, work, wanted)


def _side_by_side(context: click.Context, others: tuple[Path, ...], wanted: _Wanted) -> int:
    """Predict several configurations, or programs on several devices. Return the exit code."""
    params, asked = context.params, picked(DeviceOptions, context.params)
    single = {name: getattr(wanted, name) for name in ("recording", "explain", "formulas", "samples", "fail_if")}
    single["layers"] = params["layers"]
    check_single(name.replace("_", "-") for name, value in single.items() if value)
    shown, paths = Shown(wanted.plot, wanted.trace), [path for path in (params["workload"], *others) if path]
    if not others and not (paths and kind_of_file(paths[0]) == PROGRAM):
        print_configurations(params, asked, shown)
        return OK
    if isinstance(asked.connections, Listed):
        raise InputError(f"--connections {asked.connections}: a program takes one value at a time; give one")
    print_programs(programs_of(context, paths), asked, shown)
    return OK


take_several(predict_command)


def _report(prediction: Prediction, work: Work, wanted: _Wanted) -> int:
    """Write the files, then print; if a file fails, only its error is printed. Return the exit code."""
    explanation, between = None, None
    with noting_compilation():
        if wanted.samples is not None:
            between = interval(work.schedule, work.device, wanted.samples, wanted.seed)
        if wanted.explain:
            explanation = explain(work.schedule, work.device, work.source)
    if wanted.plot is not None:
        compared = partial(plot_compared, prediction)
        save_picture(partial(plot_remedied, explanation) if explanation else compared, wanted.plot)
    if wanted.trace is not None:
        write_trace(prediction.timeline, wanted.trace)
    if wanted.recording is not None:
        write_recording(prediction.timeline, wanted.recording)
    answer = prediction_answer(prediction, between, explanation, work.assumed, wanted.formulas, work.inputs)
    emit(answer, work.device)
    return judged(wanted.fail_if, answer.data)
