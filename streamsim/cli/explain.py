"""Explain where the time of a pipeline, a schedule or a recording goes."""

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from streamsim.advice import Explanation, explain
from streamsim.answer import Answer, choices_answer, diagnosis_answer, explanation_answer, recording_answer, replay_json
from streamsim.cli.options import OUTPUT, measured_option, option, timeline_options
from streamsim.cli.printing import OWN_CARD, answer_options, emit, page_asked, write_beside
from streamsim.cli.running import BriefCommand
from streamsim.cli.work import (
    Asked,
    Given,
    NotReplayedError,
    is_given,
    part_asked,
    read_part,
    refuse,
    replayed,
    work_of,
    work_options,
)
from streamsim.diagnosis import Measured, diagnose
from streamsim.errors import OK, InputError, one_line
from streamsim.files import write_toml
from streamsim.model import simulate
from streamsim.program import Schedule, Workload
from streamsim.recorded import Replay, busiest_card, named_spans, pages_to_prefetch, summarise, verdict_of, warnings_of
from streamsim.report import plot_remedied, save_picture
from streamsim.transform import LoopSource, Source


def choices_of(path: Path | None) -> Answer:
    """Return what --gpu, --process and --window may name of a recording."""
    if path is None:
        raise InputError("--list: needs a recording; give its file")
    recording, _ = read_part(path)
    return choices_answer(recording, named_spans(recording), path.name, {"schedule": str(path), **part_asked()})


def recorded_answer(given: Given, explanation: Explanation, why: Answer, is_on_another: bool) -> tuple[Answer, Replay]:
    """Return what was recorded, what binds and how good the replay is, above ``why``, the explanation; and the replay.

    Pages that move while kernels wait come first where prefetching them may save more than the changes that were made.

    ``is_on_another``: True if another device than the recording's own is asked for.
    """
    assert given.replayed is not None
    whole, found, without = given.replayed
    summary, (card, _) = summarise(whole), busiest_card(whole)
    use = next(use for use in summary.cards if use.id == card)
    words, saved_s = pages_to_prefetch(use, found.device)
    first, largest = explanation.first, explanation.losses[:1]
    if saved_s > max(first.saved_s() if first else 0.0, *(loss.lost_s for loss in largest), 0.0):
        then = [line.replace("first:", "then:", 1) for line in why.verdict] if first else []
        why = replace(why, verdict=(f"first: {words}", *then), data={**why.data, "advice": words})
    why = replace(
        why,
        verdict=(*map(one_line, verdict_of(use)), *why.verdict),
        warnings=(*(warnings_of(found, without) if is_on_another else ()), *why.warnings),  # its own card's are noted
        data={**why.data, "replay": {"card": card, **replay_json(found, without)}},
    )
    return recording_answer(why, summary, (found, without)), found


FILES = ("plot", "trace", "save_profile")  # options of files to write


@click.command("explain", cls=BriefCommand)
@work_options
@option("--list as_list", "Print what --gpu, --process and --window may name.", is_flag=True)
@answer_options
@timeline_options
@measured_option
@option("--save-profile", "Write the profile of a recording's replay to this file.", OUTPUT)
@click.pass_context
def explain_command(
    context: click.Context,
    /,
    workload: Path | None,
    measured: tuple[Measured, ...] | None,
    as_list: bool,
    **_: Any,
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

    --measured says which usual mistake makes the program take the time that you measured. Describe the program as you
    meant it: its time is predicted so, and with each usual mistake, alone and in pairs. If several mistakes explain the
    time equally well, the last lines name a second measurement that tells them apart.

    \b
    Examples:
      streamsim explain --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --order breadth-first
      streamsim explain --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --memory pageable --json
      streamsim explain workload.toml --chunks 64 --streams 4 --device a100 --plot why.png
      streamsim explain schedule.json --device k20c --connections 1
      streamsim explain trace.json.gz --untraced-time 124us --save-profile card.toml
      streamsim explain report.sqlite --gpu 0 --list
      streamsim explain trace.json --window 'ProfilerStep#3' --json
      streamsim explain --h2d 200MB --kernel 4ms --d2h 50MB --chunks 8 --streams 4 --device rtx4090 --measured 14.5ms
      streamsim explain --h2d 200MB --kernel 4ms --d2h 50MB --chunks 8 --device a100 --measured 1:14.4ms,4:11.2ms
    """  # noqa: D301 - click wants the backspace itself
    if as_list:
        context.meta[OWN_CARD] = True  # no device is asked for
        emit(choices_of(workload))
        return OK
    try:
        asked = work_of(context)
    except NotReplayedError as error:
        if "untraced_time" in part_asked() or any(is_given(context, name) for name in (*FILES, "measured")):
            raise
        context.meta[OWN_CARD] = True
        data = {"inputs": {"schedule": str(workload), **part_asked()}, "replay": None}
        told = Answer(error.name, (one_line(f"not replayed: {error}"),), data=data)
        emit(recording_answer(told, summarise(error.recording)))
        return OK
    if measured is not None:
        refuse(context, FILES, "does not go with --measured; leave one of them out")
    answer = _explained(context, workload, asked) if measured is None else _diagnosed(asked, measured)
    replay = answer.data.get("replay")
    off = {"replay": {**replay, "error": abs(replay["error"])}} if replay else {}
    return emit(answer, asked.work.device, off)


def _explained(context: click.Context, path: Path | None, asked: Asked) -> Answer:
    """Return why the work takes so long, above it what was recorded of it, and write the files."""
    explanation = explain(*asked.work[:3])
    command = _whatif_words(context, path) if path is not None else ""
    answer = explanation_answer(explanation, asked.bound, asked.assumed, asked.inputs, command)
    plot, trace, save_profile = (context.params[name] for name in FILES)
    given = asked.given
    if path is not None and given is not None and given.replayed is not None:
        is_on_another = is_given(context, "device")
        if is_on_another:
            whole, _, without = given.replayed
            given = replayed(path.name, whole, without.untraced_s, asked.work.device)
        answer, found = recorded_answer(given, explanation, answer, is_on_another)
        write_beside({"recorded": found.recorded, "replayed": found.timeline}, plot, trace)
        if save_profile is not None:
            write_toml(found.device, save_profile)
    else:
        refuse(context, ("save_profile",), "needs a recording; give its file")
        write_beside({"predicted": explanation.timeline}, None, trace)
        if plot is not None:
            save_picture(partial(plot_remedied, explanation), plot)
    return answer


def _whatif_words(context: click.Context, path: Path) -> str:
    """Return the command that changes the same part of a file's program on the same device."""
    said = ["streamsim", "whatif", str(path)]
    for name, value in part_asked().items():
        said += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    for name in ("device", "connections"):
        if is_given(context, name):
            said += [f"--{name}", str(context.params[name])]
    return one_line(shlex.join(said))


def _diagnosed(asked: Asked, measured: tuple[Measured, ...]) -> Answer:
    """Return which mistakes explain the measured times of the work."""
    work = asked.work
    program: Workload | Schedule = work.schedule
    meant, config = work.schedule, None
    if isinstance(work.source, LoopSource):
        raise InputError("--measured: says nothing of a training loop; give a recording of some steps")
    if isinstance(work.source, Source):
        program, config = work.source.workload, work.source.config
        meant = replace(config, streams=measured[0].streams or config.streams).schedule(program)
    found = diagnose(program, work.device, measured, config)
    return diagnosis_answer(found, simulate(meant, work.device) if page_asked() else None, asked.inputs)
