"""What changes would bring to a program, each alone and all together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from streamsim.advice import what_if
from streamsim.answer import what_if_answer
from streamsim.cli.code import code_of_changed, code_of_issued
from streamsim.cli.options import (
    CHUNKS,
    FILE,
    DeviceOptions,
    all_of,
    complete_device,
    device_options,
    format_options,
    one_of,
    option,
    part_options,
    timeline_options,
)
from streamsim.cli.printing import OWN_CARD, emit, page_option, write_beside
from streamsim.cli.running import BriefCommand
from streamsim.cli.work import Asked, assumed_of, is_given, names_of, work_of, work_options
from streamsim.code import LANGUAGES, Language
from streamsim.device import MOST_CONNECTIONS, load_device
from streamsim.errors import InputError
from streamsim.files import dump_toml, write_text
from streamsim.program import MOST_WORKERS, write_schedule
from streamsim.timeline import recorded_timeline
from streamsim.transform import IN_ROUNDS, ISSUE_ORDERS, Change, LoopSource, in_making_order
from streamsim.transform import changes as make

COUNT = click.IntRange(1, 1024)
FLAGS = {  # changes that take no value
    make.KEEP: "Keep on the card what comes back and goes up again at once.",
    make.PIN: "Pin all host memory.",
    make.ASYNC: "Let no copy hold the host, nor a synchronisation right behind one.",
    make.DROP_SYNC: "Let the host wait at the end only.",
    make.OFF_LEGACY: "Use no legacy default stream; make all streams non-blocking.",
    make.POOL: "Allocate memory once before, or from a pool; free none in between.",
    make.WARM_CALLS: "Make single calls that hold the host for long once before.",
    make.DROP_WAITS: "Drop all waits that the data does not need.",
    make.GRAPH: "Capture the program as a graph, and launch it once.",
    make.STEP_GRAPHS: "Launch what repeats between two waits as a graph.",
    make.LIVE: "Issue op by op, without the graph.",
}
OF_A_VALUE = ("workers", "buffers", "depth", "chunks", "streams", "order", "prefetch")
MAKERS: dict[str, Callable[..., Change]] = {
    **{name: getattr(make, name) for name in OF_A_VALUE},
    "resident": lambda text: make.resident(names_of(text)),
    "set_connections": make.connections,
    "on_device": lambda name: make.on_device(load_device(name)),
    "front_end_cost": lambda text: make.front_end_cost(_factor("--front-end-cost", text), text),
}


@click.command("whatif", cls=BriefCommand)
@click.argument("schedule", metavar="PROGRAM", type=FILE)
@device_options
@part_options
@all_of(*(click.option(change.option, is_flag=True, help=text) for change, text in FLAGS.items()))
@option(
    "--workers",
    "Let this many workers load the data of the steps, which the host loads itself.",
    click.IntRange(1, MOST_WORKERS),
)
@option(
    "--buffers", "Use this many times the device buffers; 0: one a chunk.", click.IntRange(0, 1024), metavar="TIMES"
)
@option("--depth", "Stream layers through this many buffers.", COUNT)
@option("--resident", "Keep the layers of these names, separated by commas, on the card.", metavar="NAMES")
@option("--chunks", "Cut the work into this many chunks in all: a multiple of its chunks now.", CHUNKS)
@option("--streams", "Issue the steps over this many streams in turn.", COUNT)
@option("--order", "Issue chunk by chunk, or stage by stage.", one_of((*sorted(ISSUE_ORDERS), IN_ROUNDS)))
@option("--prefetch", "Copy the data of the next steps beside this step's work.", COUNT, metavar="DEPTH")
@option("--set-connections", "Use this many hardware queues.", click.IntRange(1, MOST_CONNECTIONS))
@option("--front-end-cost", "Let calls, and the short work between them, take this part of their time.", metavar="0.5x")
@option(
    "--kernel",
    "Let kernels of this name (gemm*: several) take this part of their time. Repeatable.",
    multiple=True,
    metavar="NAME=0.8x",
)
@option("--on-device", "Run on another device than --device.", metavar="NAME|FILE", shell_complete=complete_device)
@option("--independent", "Assume that steps need nothing of each other and can be cut.", is_flag=True)
@option("--output -o", "Write the schedule with all of the changes to this file, or with --as its program.", FILE)
@option("--as language", "Write the pipeline with the changes in this language.", one_of(LANGUAGES))
@timeline_options
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
    asked = _asked(click.get_current_context(), schedule)
    work, given = asked.work, asked.given
    changes = _changes(**options)
    if not changes:
        raise InputError("nothing to change; give --pin, --async, --streams 2 or another change of --help")
    found = what_if(work.schedule, work.device, changes, options["independent"], work.source)
    found = replace(found, notes=(*found.notes, *assumed_of(found.work)))
    beside = {"as it is": found.as_it_is, f"with {found.together.change}": found.timeline}
    if given is not None and given.recorded is not None:
        was = recorded_timeline(found.as_it_is, given.recorded)
        beside = {"recorded": was, f"predicted with {found.together.change}": found.timeline}
    text = None
    if language is not None and found.work.source is not None:
        source = found.work.source
        text = code_of_issued(source.loop if isinstance(source, LoopSource) else source, language)
    elif language is not None:
        text = code_of_changed(work, changes, language)
    write_beside(beside, plot, trace)
    if output is not None and text is not None:
        write_text(text, output)
    elif output is not None:
        write_schedule(found.work.schedule, output, profile=dump_toml(given.device) if given and given.device else "")
    emit(what_if_answer(found, f"{schedule.name} on {work.device.name}", beside), work.device)


_of_file = work_options(click.Command("whatif"))  # the options that a file gives


def _asked(context: click.Context, path: Path) -> Asked:
    """Return the work in a file, with the options that it gives; the device's options of the command win."""
    of_file = _of_file.make_context("whatif", [str(path)], context.parent)
    for name in DeviceOptions.__struct_fields__:
        if is_given(context, name):
            of_file.params[name] = context.params[name]
            of_file.set_parameter_source(name, ParameterSource.COMMANDLINE)
    if of_file.get_parameter_source("device") is not ParameterSource.DEFAULT:
        context.meta[OWN_CARD] = True  # the file names the device
    return work_of(of_file)


def _changes(**options: Any) -> tuple[Change, ...]:
    """Return the changes that options ask for, in the order in which they are made."""
    found = [change for change in FLAGS if options[change.option[2:].replace("-", "_")]]
    found += [maker(options[name]) for name, maker in MAKERS.items() if options[name] is not None]
    return in_making_order([*found, *map(_kernels, options["kernel"])])


def _kernels(text: str) -> Change:
    pattern, equals, factor = text.rpartition("=")
    if not equals or not pattern:
        raise InputError(f"--kernel {text!r}: expected a name and a factor, such as 'gemm*=0.8x'")
    return make.kernels(pattern, _factor("--kernel", factor), text)


def _factor(option: str, text: str) -> float:
    """Return a factor from 0 to 1000 in a text such as 0.5x."""
    try:
        factor = float(text.strip().removesuffix("x"))
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= 1000:
        raise InputError(f"{option} = {text!r}: expected a factor from 0x to 1000x, such as 0.5x")
    return factor
