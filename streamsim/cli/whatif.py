"""What changes would bring to a program, each alone and all together."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from streamsim.advice import WhatIf, what_if
from streamsim.analysis import kernel_assumptions
from streamsim.answer import what_if_answer
from streamsim.cli.beside import beside_options, write_beside
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.code import code_of_issued, code_of_steps_noted
from streamsim.cli.options import (
    CHUNKS,
    FILE,
    DeviceOptions,
    complete_device,
    device_options,
    format_options,
    one_of,
    part_options,
    pipeline_options,
)
from streamsim.cli.page import page_option
from streamsim.cli.printing import emit
from streamsim.cli.work import Work, place_layers, work_of
from streamsim.code import LANGUAGES, Language
from streamsim.device import MOST_CONNECTIONS, dump_device, load_device
from streamsim.errors import InputError
from streamsim.files import write_text
from streamsim.program import MOST_WORKERS, RecordedTimes, write_schedule
from streamsim.timeline import Timeline, recorded_timeline
from streamsim.transform import IN_ROUNDS, ISSUE_ORDERS, Case, Change, LoopSource, changed_by, in_making_order, kernels
from streamsim.transform import changes as make

COUNT = click.IntRange(1, 1024)
SAME_NAME = (  # options that are called as what makes their change
    *("keep", "pin", "off_legacy", "drop_sync", "pool", "warm_calls", "workers", "drop_waits", "buffers", "depth"),
    *("chunks", "streams", "order", "prefetch", "graph", "step_graphs", "live"),
)
MAKERS: dict[str, Callable[..., Change]] = {name: getattr(make, name) for name in SAME_NAME}
MAKERS |= {"is_async": make.make_async, "set_connections": make.connections}


@click.command("whatif", cls=BriefCommand)
@click.argument("schedule", metavar="PROGRAM", type=FILE)
@device_options
@part_options
@click.option("--keep", is_flag=True, help="Keep on the card what comes back and goes up again at once.")
@click.option("--pin", is_flag=True, help="Pin all host memory.")
@click.option(
    "--async", "is_async", is_flag=True, help="Let no copy hold the host, nor a synchronisation right behind one."
)
@click.option("--drop-sync", is_flag=True, help="Let the host wait at the end only.")
@click.option("--off-legacy", is_flag=True, help="Use no legacy default stream; make all streams non-blocking.")
@click.option("--pool", is_flag=True, help="Allocate memory once before, or from a pool; free none in between.")
@click.option("--warm-calls", is_flag=True, help="Make single calls that hold the host for long once before.")
@click.option("--drop-waits", is_flag=True, help="Drop all waits that the data does not need.")
@click.option(
    "--workers",
    type=click.IntRange(1, MOST_WORKERS),
    help="Let this many workers load the data of the steps, which the host loads itself.",
)
@click.option(
    "--buffers",
    type=click.IntRange(0, 1024),
    metavar="TIMES",
    help="Use this many times the device buffers; 0: one a chunk.",
)
@click.option("--depth", type=COUNT, help="Stream layers through this many buffers.")
@click.option("--chunks", type=CHUNKS, help="Cut the work into this many chunks in all: a multiple of its chunks now.")
@click.option("--streams", type=COUNT, help="Issue the steps over this many streams in turn.")
@click.option(
    "--order", type=one_of((*sorted(ISSUE_ORDERS), IN_ROUNDS)), help="Issue chunk by chunk, or stage by stage."
)
@click.option(
    "--prefetch", type=COUNT, metavar="DEPTH", help="Copy the data of the next steps beside this step's work."
)
@click.option("--graph", is_flag=True, help="Capture the program as a graph, and launch it once.")
@click.option("--step-graphs", is_flag=True, help="Launch what repeats between two waits as a graph.")
@click.option("--live", is_flag=True, help="Issue op by op, without the graph.")
@click.option("--set-connections", type=click.IntRange(1, MOST_CONNECTIONS), help="Use this many hardware queues.")
@click.option(
    "--front-end-cost", metavar="0.5x", help="Let calls, and the short work between them, take this part of their time."
)
@click.option(
    "--kernel",
    multiple=True,
    metavar="NAME=0.8x",
    help="Let kernels of this name (gemm*: several) take this part of their time. Repeatable.",
)
@click.option(
    "--on-device", metavar="NAME|FILE", shell_complete=complete_device, help="Run on another device than --device."
)
@click.option("--independent", is_flag=True, help="Assume that steps need nothing of each other and can be cut.")
@click.option(
    "--output",
    "-o",
    type=FILE,
    help="Write the schedule with all of the changes to this file, or with --as its program.",
)
@click.option(
    "--as",
    "language",
    type=one_of(LANGUAGES),
    help="Write the pipeline with the changes, in this language, of a program whose steps repeat.",
)
@beside_options
@page_option
@format_options
def whatif_command(
    schedule: Path,
    output: Path | None,
    language: Language | None,
    plot: Path | None,
    trace: Path | None,
    **options: Any,
) -> None:
    """Change a program and see what each change brings: alone, and all of them together.

    PROGRAM is the file of a schedule, a recording, a workload with its chunks and streams, layers, or a training loop.
    A changed workload is what predict makes of the changed options. The time of a loop is that of a steady step. In a
    recording, a step begins with a copy to the card behind a kernel or a copy back. The program decides which ops may
    move; what is assumed beyond that is printed.

    \b
    Examples:
      streamsim whatif trace.json.gz --pin --async
      streamsim code trace.json.gz --as schedule -o program.json
      streamsim whatif program.json --device h200 --pin --async --trace both.json --plot both.png
      streamsim whatif workload.toml --chunks 16 --streams 4
      streamsim whatif loop.toml --pin --workers 8
      streamsim whatif schedule.json --device h200 --prefetch 1 --kernel 'kern*=0.8x'
      streamsim whatif schedule.json --device h200 --streams 4 --independent --as pytorch -o pipeline.py
      streamsim whatif schedule.json --device h200 --chunks 16 --streams 4 --independent --json

    Exit codes: 0 ok, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    if language is not None and output is None:
        raise InputError(f"--as {language}: the program needs its file; give --output too")
    work = _work(click.get_current_context(), schedule)
    case, given = work.case, work.given
    changes = _changes(**options)
    if not changes:
        raise InputError("nothing to change; give --pin, --async, --streams 2 or another change of --help")
    found = what_if(case.schedule, case.device, changes, options["independent"], case.source)
    found = replace(found, notes=(*found.notes, *_assumed(found.case)))
    text = None if language is None else _code(found.case, case, language, options)
    title, beside = f"{schedule.name} on {case.device.name}", _beside(found, given.recorded if given else None)
    write_beside(beside, plot, trace)
    if output is not None and text is not None:
        write_text(text, output)
    elif output is not None:
        write_schedule(found.case.schedule, output, profile=dump_device(given.device) if given and given.device else "")
    emit(what_if_answer(found, title, beside), case.device)


_of_file = pipeline_options(place_layers(device_options(click.Command("whatif"))))  # the options that a file gives


def _work(context: click.Context, path: Path) -> Work:
    """Return the work in a file, with the options that it gives; the device's options of the command win."""
    of_file = _of_file.make_context("whatif", [str(path)], context.parent)
    for name in DeviceOptions.__struct_fields__:
        source = context.get_parameter_source(name)
        if source is ParameterSource.COMMANDLINE:
            of_file.params[name] = context.params[name]
            of_file.set_parameter_source(name, source)
    return work_of(of_file)


def _assumed(case: Case) -> list[str]:
    """Return what is assumed of the kernels of a workload."""
    if case.pipeline is None:
        return []
    workload, config = case.pipeline.workload, case.pipeline.config
    return kernel_assumptions(workload, config.chunks, case.device, config.launch)


def _code(changed: Case, case: Case, language: Language, options: dict[str, Any]) -> str:
    """Return the program of the pipeline with the changes. Raises InputError if the steps of the schedule differ."""
    if changed.source is not None:
        source = changed.source
        return code_of_issued(source.loop if isinstance(source, LoopSource) else source, language)
    issued = changed_by(_changes(**{**options, "prefetch": None}), case).case.schedule
    return code_of_steps_noted(issued, language, options["prefetch"] or 0)


def _beside(found: WhatIf, recorded: RecordedTimes | None) -> dict[str, Timeline]:
    """Return the program as recorded, or else as predicted without the changes; and with the changes."""
    if recorded is None:
        return {"as it is": found.as_it_is, f"with {found.together.change}": found.timeline}
    was = recorded_timeline(found.as_it_is, recorded)
    return {"recorded": was, f"predicted with {found.together.change}": found.timeline}


def _changes(
    kernel: tuple[str, ...], front_end_cost: str | None, on_device: str | None, **options: Any
) -> tuple[Change, ...]:
    """Return the changes in the order in which they are made."""
    found = [*_asked(options), *map(_kernels, kernel)]
    if front_end_cost is not None:
        found.append(make.front_end_cost(_factor("--front-end-cost", front_end_cost), front_end_cost))
    if on_device is not None:
        found.append(make.on_device(load_device(on_device)))
    return in_making_order(found)


def _asked(options: dict[str, Any]) -> Iterator[Change]:
    """Yield the changes that are asked for, by a flag or a value."""
    for name, maker in MAKERS.items():
        value = options[name]
        if value is True:
            yield maker()
        elif value is not None and value is not False:
            yield maker(value)


def _kernels(text: str) -> Change:

    pattern, equals, factor = text.rpartition("=")
    if not equals or not pattern:
        raise InputError(f"--kernel {text!r}: expected a name and a factor, such as 'gemm*=0.8x'")
    return kernels(pattern, _factor("--kernel", factor), text)


def _factor(option: str, text: str) -> float:
    """Return a factor from 0 to 1000 in a text such as 0.5x."""
    try:
        factor = float(text.strip().removesuffix("x"))
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= 1000:
        raise InputError(f"{option} = {text!r}: expected a factor from 0x to 1000x, such as 0.5x")
    return factor
