"""Explain where the time of a pipeline or a schedule goes."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from click.core import ParameterSource

from streamsim.advice import Explanation, explain
from streamsim.analysis import Bound, work_bound
from streamsim.answer import Answer, diagnosis_answer, explanation_answer, explanations_answer
from streamsim.cli.beside import write_beside
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.fail_if import Condition, fail_if_option, judged
from streamsim.cli.given import Given, NotReplayedError, part_asked, replayed
from streamsim.cli.layers import LayerOptions, inputs_of, layers_given, place_layers, schedule_of_layers
from streamsim.cli.measured import measured_option
from streamsim.cli.notes import note, noting_compilation
from streamsim.cli.options import (
    FILE,
    OUTPUT,
    PICTURE,
    Chosen,
    Pipeline,
    device_options,
    format_options,
    part_options,
    pipeline_options,
    schedule_given,
    taken,
    timed_alone_noted,
)
from streamsim.cli.page import page_asked, page_option
from streamsim.cli.printing import OWN_CARD, emit
from streamsim.cli.recording import choices_of, not_replayed_answer, recorded_answer
from streamsim.cli.side_by_side import check_single
from streamsim.device import Device, within_words, write_device
from streamsim.diagnosis import Measured, diagnose
from streamsim.errors import OK, InputError
from streamsim.model import simulate
from streamsim.program import Config, Schedule, Workload, write_schedule
from streamsim.report import plot_remedied, save_picture
from streamsim.text import one_line
from streamsim.transform import LayersSource, Origin, Source


class Asked(NamedTuple):
    """A schedule to explain on a device, and how it was asked for.

    ``source``: what it is made from, and ``assumed``: of its kernels, where it is a pipeline's.
    """

    schedule: Schedule
    device: "Device"
    inputs: dict[str, Any]
    source: "Origin | None" = None
    assumed: Sequence[str] = ()
    given: Given | None = None


@click.command("explain", cls=BriefCommand)
@pipeline_options
@click.argument("others", metavar="[PROGRAM.json]...", type=FILE, nargs=-1)
@place_layers
@device_options
@format_options
@part_options
@click.option("--list", "as_list", is_flag=True, help="Print what --gpu, --process and --window may name.")
@click.option(
    "--plot",
    type=PICTURE,
    help="Save the Gantt chart with critical path and lost time by cause; of a recording, what was recorded"
    " above its replay.",
)
@click.option("--trace", type=OUTPUT, help="Save the same for Perfetto or chrome://tracing.")
@page_option
@fail_if_option
@measured_option
@click.option("--save-profile", type=OUTPUT, help="Write the profile of a recording's replay to this file.")
@click.option("--remedied", type=OUTPUT, help="Save the schedule with the first remedy made: a .json file.")
@click.pass_context
def explain_command(
    context: click.Context,
    /,
    plot: Path | None,
    trace: Path | None,
    remedied: Path | None,
    save_profile: Path | None,
    fail_if: tuple[Condition, ...],
    others: tuple[Path, ...],
    measured: tuple[Measured, ...] | None,
    as_list: bool,
    **options: Any,
) -> int:
    """Say why a pipeline takes longer than its busiest engine alone: what each cause loses, and what to do first.

    The work is what predict takes: sizes, a workload, layers, or the file of a schedule or recording. The first line of
    advice is the change that gains most: each change is made, and the changed schedule is simulated. If no change
    removes much of the largest cause, the advice is this cause. If no change gains 3 %, the advice is to change
    nothing. The parts of the causes add up to the lost time.

    Of a recording, what was recorded, what binds, what stands still and why, what to try and how good the replay is
    stand above. It is a trace of PyTorch's profiler (.json, .json.gz), an SQLite export of Nsight Systems (nsys export
    --type sqlite FILE.nsys-rep), or what streamsim-validate capture wrote. --plot, --page and --trace show the
    recording above its replay.

    Several schedules or recordings give one table, a row for each file: its time, its largest loss, and the first
    remedy with its gain.

    --measured says which usual mistake makes the program take the time that you measured. Describe the program as you
    meant it: its time is predicted so, and with each usual mistake, alone and in pairs. If several mistakes explain the
    time equally well, the last lines name a second measurement that tells them apart.

    \b
    Examples:
      streamsim explain --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --order breadth-first
      streamsim explain --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --memory pageable --json
      streamsim explain workload.toml --chunks 64 --streams 4 --device a100 --plot why.png
      streamsim explain schedule.json --device k20c --connections 1 --remedied better.json
      streamsim explain before.json after.json --device a100
      streamsim explain trace.json.gz --untraced-time 124us --save-profile card.toml
      streamsim explain report.sqlite --gpu 0 --list
      streamsim explain trace.json --window 'ProfilerStep#3' --json
      streamsim explain --h2d 200MB --kernel 4ms --d2h 50MB --chunks 8 --streams 4 --device rtx4090 --measured 14.5ms
      streamsim explain --h2d 200MB --kernel 4ms --d2h 50MB --chunks 8 --device a100 --measured 1:14.4ms,4:11.2ms
    """  # noqa: D301 - click wants the backspace itself
    chosen, of_layers, pipeline = taken(Chosen, options), taken(LayerOptions, options), Pipeline(**options)
    files = {"plot": plot, "trace": trace, "remedied": remedied, "save-profile": save_profile}
    path, read = pipeline.workload, {**files, "page": page_asked()}
    if others:
        single: dict[str, Any] = {**read, "fail-if": fail_if, "measured": measured, "list": as_list}
        single |= {"layers": of_layers.layers}
        check_single(name for name, value in single.items() if value)
        _explain_several([path for path in (pipeline.workload, *others) if path], context, pipeline, chosen)
        return OK
    if as_list:
        context.meta[OWN_CARD] = True  # no device is asked for
        emit(choices_of(path))
        return OK
    _spare(path, read)
    try:
        asked = asked_for(context, pipeline, chosen, of_layers)
    except NotReplayedError as error:
        if path is None or fail_if or measured or any(read.values()) or "untraced_time" in part_asked():
            raise
        context.meta[OWN_CARD] = True
        emit(not_replayed_answer(path, error))
        return OK
    if measured is not None:
        for name, file in files.items():
            if file is not None:
                raise InputError(one_line(f"--{name} {file}: does not go with --measured; leave one of them out"))
        answer = _diagnosed(asked, measured)
    else:
        answer = _explain(context, path, asked, files)
    emit(answer, asked.device)
    replay = answer.data.get("replay")
    off = {"replay": {**replay, "error": abs(replay["error"])}} if replay else {}
    return judged(fail_if, {**answer.data, **off})


def _explain(context: click.Context, path: Path | None, asked: Asked, files: dict[str, Path | None]) -> Answer:
    """Return why the work takes so long, above it what was recorded of it, and write the files."""
    with noting_compilation():
        explanation = explain(asked.schedule, asked.device, asked.source)
    source, work, given = asked.source, None, asked.given
    if isinstance(source, Source):
        work = bound_of_work(source.workload, source.config, asked.device)
    named = context.get_parameter_source("device") is ParameterSource.COMMANDLINE
    command = whatif_words(context, path) if path is not None else ""
    answer = explanation_answer(explanation, work, asked.assumed, asked.inputs, command)
    plot, trace, remedied, save_profile = files.values()
    if path is not None and given is not None and given.replayed is not None:
        if named:
            whole, _, without = given.replayed
            given = replayed(path.name, whole, without.untraced_s, asked.device)
        answer, found = recorded_answer(given, answer, named)
        write_beside({"recorded": found.recorded, "replayed": found.timeline}, plot, trace)
        if save_profile is not None:
            write_device(found.device, save_profile)
    elif save_profile is not None:
        raise InputError(one_line(f"--save-profile {save_profile}: needs a recording; give its file"))
    else:
        write_beside({"predicted": explanation.timeline}, None, trace)
        if plot is not None:
            save_picture(partial(plot_remedied, explanation), plot)
    if remedied is not None:
        write_schedule(_remedied(explanation, remedied), remedied)
    return answer


def whatif_words(context: click.Context, path: Path) -> str:
    """Return the command that changes the same part of a file's program on the same device."""
    said = ["streamsim", "whatif", str(path)]
    for name, value in part_asked().items():
        said += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    for name in ("device", "connections"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            said += [f"--{name}", str(context.params[name])]
    return one_line(shlex.join(said))


def _spare(path: Path | None, written: dict[str, Path | None]) -> None:
    """Raise InputError if the file that is read would be written over."""
    for option, file in written.items():
        if path is not None and file is not None and file.exists() and path.exists() and file.samefile(path):
            raise InputError(one_line(f"--{option} {file}: is the file that is read; give another name"))


def _explain_several(paths: Sequence[Path], context: click.Context, pipeline: Pipeline, chosen: Chosen) -> None:
    """Explain the programs in several files, and print a row for each."""
    found: list[tuple[str, Explanation]] = []
    notes: dict[str, None] = {}
    for path in paths:
        given = schedule_given(context, msgspec.structs.replace(pipeline, workload=path))
        if given is None:
            raise InputError(one_line(f"{path}: one of several files is a schedule or a recording; explain it alone"))
        device = chosen.of(context, given).load()
        with noting_compilation():
            found.append((str(path), explain(given.schedule, device, None)))
        notes |= dict.fromkeys(within_words(device))
    emit(explanations_answer(found, list(notes)))


def _remedied(explanation: Explanation, path: Path) -> Schedule:
    """Return the schedule with the changes to make first, or else with those that gain most."""
    first = explanation.first or explanation.tried.fastest
    if first is None:
        raise InputError(one_line(f"--remedied {path}: {explanation.advice}; nothing to save"))
    schedule = first.made.case.schedule
    if schedule == explanation.timeline.schedule:
        raise InputError(one_line(f"--remedied {path}: the schedule stays as it is: {first.text}; nothing to save"))
    return schedule


def asked_for(context: click.Context, pipeline: Pipeline, chosen: Chosen, of_layers: LayerOptions) -> Asked:
    """Return what a file, layers, or the options of a pipeline ask for. Raises InputError."""
    if given := layers_given(context, of_layers, pipeline.memory):
        device = chosen.load()
        inputs = {**inputs_of(*given), **chosen.inputs()}
        schedule = schedule_of_layers(*given, device)
        return Asked(schedule, device, inputs, LayersSource(*given), given[0].assumed)
    given_program = schedule_given(context, pipeline)
    if given_program is not None:
        chosen = chosen.of(context, given_program)
        inputs = {"schedule": str(pipeline.workload), **part_asked(), **chosen.inputs()}
        return Asked(given_program.schedule, chosen.load(), inputs, given=given_program)
    workload, chosen = chosen.written_in(pipeline.load())
    device = chosen.load_for(workload)
    inputs = {**pipeline.inputs(workload), **chosen.inputs()}
    workload, of_events = timed_alone_noted(workload, device)
    schedule, assumed = pipeline.on(device, workload)
    return Asked(schedule, device, inputs, Source(workload, pipeline.config()), [*of_events, *assumed])


def _diagnosed(asked: Asked, measured: tuple[Measured, ...]) -> Answer:
    """Return which mistakes explain the measured times of the work that was asked for."""
    program: Workload | Schedule = asked.schedule
    meant, config = asked.schedule, None
    if isinstance(asked.source, Source):
        program, config = asked.source.workload, asked.source.config
        meant = msgspec.structs.replace(config, streams=measured[0].streams or config.streams).schedule(program)
        if config.chunks == 1 and config.streams > 1:
            note(f"--streams {config.streams}: one chunk runs in one stream; give --chunks, the number of its pieces")
    with noting_compilation():
        found = diagnose(program, asked.device, measured, config)
    return diagnosis_answer(found, simulate(meant, asked.device) if page_asked() else None, asked.inputs)


def bound_of_work(workload: Workload, config: Config, device: "Device") -> "Bound":
    """Return the time that no way to cut and issue the workload beats, with the memory and launch of ``config``."""
    return work_bound(workload, device, config.memory, config.launch)
