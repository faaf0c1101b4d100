"""Diagnose a measured time: which usual mistake makes the program take so long."""

from typing import Any

import click
from msgspec.structs import replace

from streamsim.answer import diagnosis_answer
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.notes import note, noting_compilation
from streamsim.cli.options import (
    Chosen,
    Pipeline,
    device_options,
    format_options,
    pipeline_options,
    schedule_given,
    taken,
)
from streamsim.cli.page import page_asked, page_option
from streamsim.cli.printing import emit
from streamsim.diagnosis import Measured, diagnose
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Schedule, Workload
from streamsim.text import parse_number, parse_seconds, shown

COPIES = "copies"  # of a measured time: without the kernels
FORM = "a time such as 14.5ms; 4:14.5ms over 4 streams; 9ms:copies without the kernels; several with commas between"


class MeasuredTimes(click.ParamType):  # type: ignore[type-arg]  # generic in new versions of click only
    """One measured time or several, as text."""

    name = "times"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002 - click calls it so
        ctx: click.Context | None,  # noqa: ARG002
    ) -> tuple[Measured, ...]:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        parts = value.split(",")
        if len(parts) > 1 and any(part.strip().isdecimal() for part in parts):
            raise InputError(f"--measured {shown(value)}: a time lacks its unit; write 16.2ms with a point, or {FORM}")
        return tuple(map(_measured, parts))


def _measured(text: str) -> Measured:

    parts = text.strip().split(":")
    without_kernels = parts[-1].strip().lower() == COPIES
    *streams, time = parts[:-1] if without_kernels else parts or [""]
    if len(streams) > 1 or not time or (streams and not streams[0].strip().isdecimal()):
        raise InputError(f"--measured {shown(text)}: expected {FORM}")
    count = parse_number(streams[0], "--measured streams") if streams else None
    return Measured(parse_seconds(time, "--measured", least=1e-9), count, without_kernels)


@click.command("diagnose", cls=BriefCommand)
@pipeline_options
@device_options
@click.option(
    "--measured",
    type=MeasuredTimes(),
    required=True,
    metavar="TIMES",
    help="The measured time, such as 14.5ms. Of several runs: 1:14.4ms,4:14.5ms by number of streams; 9ms:copies for a"
    " run without the kernels.",
)
@format_options
@page_option
@click.pass_context
def diagnose_command(
    context: click.Context,
    /,
    measured: tuple[Measured, ...],
    **options: Any,
) -> None:
    """Say which usual mistake makes a program take the time that you measured.

    Describe the program as you meant it: sizes and times, a workload's file, a schedule's file, or a recording. Its
    time is predicted as it was meant, and with each usual mistake, alone and in pairs. What explains the measured time
    comes first. Several mistakes may explain it equally well; then the last lines name a second measurement that tells
    them apart.

    \b
    Examples:
      streamsim diagnose --h2d 200MB --kernel 4ms --d2h 50MB --chunks 8 --streams 4 --device rtx4090 --measured 14.5ms
      streamsim diagnose --h2d 200MB --kernel 4ms --d2h 50MB --chunks 8 --device a100 --measured 1:14.4ms,4:11.2ms
      streamsim diagnose schedule.json --device t4 --measured 31ms --json
      streamsim diagnose trace.json.gz --measured 31ms

    Exit codes: 0 ok, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    chosen, pipeline = taken(Chosen, options), Pipeline(**options)
    given = schedule_given(context, pipeline)
    program: Workload | Schedule
    if given is not None:
        chosen = chosen.of(context, given)
        device, config = chosen.load(), None
        inputs = {"schedule": str(pipeline.workload), **chosen.inputs()}
        program = meant = given.schedule
    else:
        program, chosen = chosen.written_in(pipeline.load())
        device, config = chosen.load_for(program), pipeline.config()
        inputs = {**pipeline.inputs(program), **chosen.inputs()}
        meant = replace(config, streams=measured[0].streams or config.streams).schedule(program)
        if config.chunks == 1 and config.streams > 1:
            note(f"--streams {config.streams}: one chunk runs in one stream; give --chunks, the number of its pieces")
    with noting_compilation():
        found = diagnose(program, device, measured, config)
    as_meant = simulate(meant, device) if page_asked() else None
    emit(diagnosis_answer(found, as_meant, inputs), device)
