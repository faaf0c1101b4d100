"""Diagnose a measured time: which usual mistake makes the program take so long."""

from operator import attrgetter
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace
from rich.padding import Padding

from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.consoles import open_console
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
from streamsim.cli.page import page_option, save_page
from streamsim.cli.printing import print_csv, print_json
from streamsim.device import Device
from streamsim.diagnosis import CandidateProgram, Diagnosis, Measured, diagnose
from streamsim.errors import InputError
from streamsim.program import Config, Schedule, Workload
from streamsim.report import apart_table, explaining_table, nearest, other_table
from streamsim.text import format_seconds, parse_number, parse_seconds, shown

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
@click.option("--all", "everything", is_flag=True, help="Show every explanation that was tried.")
@format_options
@page_option
@click.pass_context
def diagnose_command(
    context: click.Context,
    /,
    measured: tuple[Measured, ...],
    everything: bool,
    form: str,
    page: Path | None,
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
    if given is not None:
        chosen = chosen.of(context, given)
        device = chosen.load()
        inputs = {"schedule": str(pipeline.workload), **chosen.inputs()}
        meant = given.schedule
        found = _diagnosed(meant, device, measured, None)
    else:
        workload, chosen = chosen.written_in(pipeline.load())
        device, config = chosen.load_for(workload), pipeline.config()
        inputs = {**pipeline.inputs(workload), **chosen.inputs()}
        meant = replace(config, streams=measured[0].streams or config.streams).schedule(workload)
        if config.chunks == 1 and config.streams > 1:
            note(f"--streams {config.streams}: one chunk runs in one stream; give --chunks, the number of its pieces")
        found = _diagnosed(workload, device, measured, config)
    if page is not None:
        from streamsim.model import simulate

        save_page("diagnosis_page", page, found, simulate(meant, device))
    if form == "json":
        print_json(found.to_json(inputs), device)
    elif form == "csv":
        print_csv(list(map(_row, found.explanations)))
    else:
        print_diagnosis(found, everything)


def _diagnosed(
    program: Workload | Schedule, device: Device, measured: tuple[Measured, ...], config: Config | None
) -> Diagnosis:

    with noting_compilation():
        return diagnose(program, device, measured, config)


def _row(found: CandidateProgram) -> dict[str, Any]:
    """Return an explanation as a row of CSV; several measured times are numbered from 1."""
    numbers = [f"_{k}" for k in range(1, len(found.times_s) + 1)] if len(found.times_s) > 1 else [""]
    times = {
        f"predicted_{name}{number}_s": seconds
        for number, time in zip(numbers, found.times_s, strict=True)
        for name, seconds in (("low", time.low_s), ("high", time.high_s))
    }
    words = {"look": "; ".join(found.look), "remedies": "; ".join(found.remedies)}
    return {"mistakes": found.title, "fits": found.fits, "off": found.off, **times, **words}


def print_diagnosis(found: Diagnosis, everything: bool = False) -> None:
    """Print the verdict, the explanations, and what tells them apart, for people."""
    console = open_console()
    times = ", ".join(" ".join(filter(None, (format_seconds(t.seconds), t.words))) for t in found.measured)
    console.print(f"measured on {found.device}: {times}")
    console.print(found.verdict)
    equal, others = _shown(found, everything)
    if equal:
        console.print(explaining_table(equal, found))
        for row in filter(attrgetter("look"), equal):
            console.print(row.title)
            for words, texts in (("look for", row.look), ("change", row.remedies)):
                console.print(Padding(f"{words}: {'; '.join(texts)}", (0, 0, 0, 2)))
    if found.open_ended and not everything:
        console.print(f"Or the clock was wrong: {'; '.join(one.title for one in found.open_ended)}")
    if others:
        console.print(other_table(others, found, "Nearest of the others" if equal else "Nearest"))
    left = len(found.explanations) - len(equal) - len(others) - (0 if everything else len(found.open_ended))
    if left:
        console.print(f"{left} more {'was' if left == 1 else 'were'} tried: --all or --json has them.", style="dim")
    if found.next is not None:
        console.print(apart_table(found.next, found))


def _shown(found: Diagnosis, everything: bool) -> tuple[list[CandidateProgram], list[CandidateProgram]]:
    """Return the simplest explanations that fit, and the nearest others; or all of them."""
    if everything:
        return list(found.fitting), list(found.explanations[len(found.fitting) :])
    return nearest(found)
