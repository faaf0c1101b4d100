"""The best number of chunks and streams for a workload."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from streamsim.analysis import kernel_assumptions
from streamsim.answer import best_answer
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.code import code_of_steps_noted
from streamsim.cli.fail_if import Condition, fail_if_option, judged
from streamsim.cli.given import Given
from streamsim.cli.notes import note, noting_compilation, progress_bar
from streamsim.cli.options import (
    OUTPUT,
    DeviceOptions,
    device_options,
    format_options,
    grid_options,
    one_of,
    part_options,
    picked,
    workload_options,
)
from streamsim.cli.page import page_asked, page_option, predicting
from streamsim.cli.printing import emit
from streamsim.cli.work import (
    bound_layers,
    grid_fields,
    on_own_card,
    read_issued,
    refuse,
    timed_alone_noted,
    workload_inputs,
)
from streamsim.code import FRONT_END_OF, LANGUAGES, Language, code_of_layers
from streamsim.collector import collector_off
from streamsim.device import CALLS, COMPILED, Device, front_end_of, names_front_end
from streamsim.errors import InputError
from streamsim.files import write_text
from streamsim.program import Config, Layers, Loop, Offload, Schedule, Workload
from streamsim.search import BUDGET_OPS, MOST_DEPTH, SLOW, Best, Grid, best, best_offload, best_program, is_fast
from streamsim.text import one_line
from streamsim.transform import LayersSource, Scenario, changed_by

SEARCHED = {"--chunks", "--streams", "--order", "--buffers", "--launch"}  # options of predict that a search varies
NOT_TAKEN = ("exact", "page")  # of a workload's options, besides those of a pipeline


@click.command("best", cls=BriefCommand)
@workload_options
@device_options
@part_options
@grid_options
@click.option("--exact", is_flag=True, help="Search large grids to the end, even if this takes long.")
@format_options
@click.option(
    "--as",
    "language",
    type=one_of(LANGUAGES),
    help="Write the program to use in this language, and count its calls.",
)
@click.option("--output", "-o", type=OUTPUT, help="The file for --as.")
@page_option
@fail_if_option
@click.option("--independent", is_flag=True, help="With a recorded program: its steps are independent, and can be cut.")
@bound_layers
@click.pass_context
def best_command(
    context: click.Context,
    /,
    max_chunks: int,
    max_streams: int,
    exact: bool,
    language: Language | None,
    output: Path | None,
    independent: bool,
    fail_if: tuple[Condition, ...],
    **_: Any,
) -> int:
    """Find the best number of chunks and streams, and the issue order: the optimum of the grid by the full model.

    The configuration to use is the simplest within 1 % of the optimum, or within the error of the times if the card's
    latencies are assumed: the fewest chunks, then the fewest streams. With numba the result is exact, except of grids
    that take minutes. These, and without it all large grids, are searched from coarse to fine for some seconds; the
    answer then says how much faster another program may be at most. --as and -o write the program to use.

    With --layers, best finds which layers of a model stay on the card, and over how many buffers the others are
    streamed, within --memory-limit less --reserve. With a program whose steps repeat (a .json file that import -o
    writes), it finds how to cut the steps, over how many streams and how far ahead to issue them.

    \b
    Examples:
      streamsim best --h2d 64MiB --kernel 0.57ms --d2h 64MiB --max-chunks 32 --max-streams 4
      streamsim best workload.toml --device a100 --max-chunks 16 --max-streams 4 --launch both --json
      streamsim best --h2d 1GiB --kernel 20ms --d2h 1GiB --max-chunks 32 --max-streams 4 --memory-limit 512MiB
      streamsim best workload.toml --max-chunks 32 --max-streams 4 --as pytorch -o pipeline.py
      streamsim best --layers layers.toml --memory-limit 8GiB --reserve 2GiB
      streamsim best program.json --device h200 --independent
    """  # noqa: D301 - click wants the backspace itself
    program = _program_asked(language, output)
    issued, asked_of = read_issued(context), picked(DeviceOptions, context.params)
    if isinstance(issued, LayersSource):
        return judged(fail_if, _best_layers(context.params, issued.layers, asked_of, exact, program))
    if isinstance(issued, Given):
        refuse(context, NOT_TAKEN, f"does not go with the program {context.params['workload']}; leave the option out")
        asked_of, most = on_own_card(context, asked_of, issued), (max_chunks, max_streams)
        file = context.params["workload"]
        return judged(fail_if, _best_program(issued.schedule, file, asked_of, independent, most, program))
    if independent:
        raise InputError("--independent: needs a program with steps; give a recording or a schedule")
    if isinstance(issued, Loop):
        what = "is a training loop, whose best `streamsim loop` finds; expected a workload"
        raise InputError(one_line(f"{context.params['workload']}: {what}"))
    workload, asked_of = asked_of.written_in(issued.workload, language)
    card = asked_of.load_for(workload)
    if program is not None:
        _note_calls_of_another(card, program[0])
    grid = Grid(
        chunks=tuple(range(1, max_chunks + 1)),
        streams=tuple(range(1, max_streams + 1)),
        memory_limit_bytes=asked_of.memory_limit,
        **grid_fields(context.params, workload, card),
    )
    return judged(fail_if, _best_of_grid(workload, card, grid, exact, asked_of, program))


def _program_asked(language: Language | None, output: Path | None) -> tuple[Language, Path] | None:
    if (language is None) is not (output is None):
        raise InputError("--as, --output: the program needs a language and a file; give both")
    return None if language is None or output is None else (language, output)


def _best_of_grid(
    workload: Workload,
    card: Device,
    grid: Grid,
    exact: bool,
    asked_of: DeviceOptions,
    program: tuple[Language, Path] | None,
) -> dict[str, Any]:
    workload, of_events = timed_alone_noted(workload, card)
    with collector_off():  # what the search and its imports make stays, and looking at it takes a tenth of it all
        found = _search(workload, card, grid, exact)
    if program is not None:
        from streamsim.code import code_of

        write_text(code_of(workload, found.simplest.config, program[0]), program[1])
    chunks = max(one.config.chunks for one in (found.best, found.simplest, found.compared["usual"]))
    assumed = [*of_events, *kernel_assumptions(workload, chunks, card, found.simplest.config.launch)]
    asked = msgspec.to_builtins(grid) | {
        "chunks": [grid.chunks[0], grid.chunks[-1]],
        "streams": [grid.streams[0], grid.streams[-1]],
    }
    inputs = {**workload_inputs(workload), "grid": asked, **asked_of.inputs()}
    return _report(found, inputs, program, assumed, predicting(SEARCHED) if page_asked() else "")


def _best_layers(
    params: dict[str, Any],
    layers: Layers,
    asked_of: DeviceOptions,
    exact: bool,
    program: tuple[Language, Path] | None,
) -> dict[str, Any]:
    if program and asked_of.front_end is None and not names_front_end(str(asked_of.device)):
        asked_of = replace(asked_of, front_end=FRONT_END_OF[program[0]])  # the choice is of that program
    card, depth, budget = asked_of.load(), params["max_depth"] or MOST_DEPTH, None if exact else BUDGET_OPS
    if program is not None:
        _note_calls_of_another(card, program[0])
        code_of_layers(layers, Offload(), program[0])  # what cannot be written is an error before a long search
    limits = asked_of.memory_limit, params["reserve"], params["host_memory_limit"]
    with collector_off(), progress_bar("searching") as progress, noting_compilation():
        found = best_offload(layers, card, *limits, depth, progress, budget)
    if program is not None:
        write_text(code_of_layers(layers, found.simplest.config, program[0]), program[1])
    inputs = {"layers": msgspec.to_builtins(layers), "max_depth": params["max_depth"], "reserve_bytes": limits[1]}
    return _report(found, {**inputs, "host_memory_limit_bytes": limits[2], **asked_of.inputs()}, program)


def _best_program(
    schedule: Schedule,
    file: Path | None,
    asked_of: DeviceOptions,
    independent: bool,
    most: tuple[int, int],
    program: tuple[Language, Path] | None,
) -> dict[str, Any]:
    """Search the changes of a program, and write the ``program`` to use if that is asked for.

    ``file``: the file of the schedule; ``most``: the most chunks and streams.
    """
    card = asked_of.load()
    with noting_compilation():
        found = best_program(schedule, card, independent, *most)
    if program is not None:
        changes = found.simplest.config.changes
        depth = next((int(change.option.split()[1]) for change in changes if change.kind == "--prefetch"), 0)
        issued = changed_by((c for c in changes if c.kind != "--prefetch"), Scenario(schedule, card)).case.schedule
        write_text(code_of_steps_noted(issued, program[0], depth), program[1])
    return _report(found, {"program": str(file), **asked_of.inputs(), "independent": independent}, program)


def _note_calls_of_another(card: Device, language: Language) -> None:
    """Write a note if the calls counted are not those of the language in which the program is written."""
    front_end = front_end_of(card)
    if front_end != FRONT_END_OF[language] and not (front_end == CALLS and FRONT_END_OF[language] == COMPILED):
        calls = "bare calls" if front_end in (CALLS, COMPILED) else f"those of {front_end}"
        note(f"the counted calls are {calls}, but the program is written for {language}; leave the front end out")


def _search(workload: Workload, card: Device, grid: Grid, exact: bool) -> "Best[Config]":

    if not is_fast():
        grid.within(card.memory_bytes).configs(workload)  # an empty grid is an error before anything else is said
        note(f"{SLOW}, and so searches any grid to its end")
    with progress_bar("searching") as progress, noting_compilation():
        return best(workload, card, grid, progress, budget_ops=None if exact else BUDGET_OPS)


def _report(
    found: "Best[Any]",
    inputs: dict[str, Any],
    program: tuple[Language, Path] | None,
    assumed: Sequence[str] = (),
    command: str = "",
) -> dict[str, Any]:
    """Print the result. Return its JSON, with the time and the speed-up of the fastest program at the top."""
    answer = best_answer(found, assumed, command, inputs)
    wrote = () if program is None else (f"wrote {program[1]}",)
    emit(replace(answer, notes=(*answer.notes, *wrote)), found.card)
    return {**answer.data, "makespan_s": found.best.makespan_s, "speedup": found.speedup}
