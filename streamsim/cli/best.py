"""The best number of chunks and streams for a workload."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from streamsim.advice import advise
from streamsim.analysis import kernel_assumptions
from streamsim.answer import best_answer, loop_answer
from streamsim.cli.code import code_of_steps_noted
from streamsim.cli.loop import first_program
from streamsim.cli.options import (
    OUTPUT,
    DeviceOptions,
    device_options,
    format_options,
    grid_options,
    one_of,
    option,
    part_options,
    picked,
    workload_options,
)
from streamsim.cli.printing import emit, fail_if_option, page_asked, page_option, predicting
from streamsim.cli.running import BriefCommand, note, noting_compilation, progress_bar
from streamsim.cli.work import (
    Given,
    bound_layers,
    grid_fields,
    on_own_card,
    read_issued,
    refuse,
    timed_alone_noted,
    workload_inputs,
)
from streamsim.code import FRONT_END_OF, LANGUAGES, Language, code_of, code_of_layers
from streamsim.collector import collector_off
from streamsim.device import names_front_end
from streamsim.errors import InputError
from streamsim.files import write_text
from streamsim.program import Layers, Loop, Offload, Workload
from streamsim.search import BUDGET_OPS, MOST_DEPTH, SLOW, Best, Grid, best, best_offload, best_program, is_fast
from streamsim.transform import LayersSource, LoopSource, Source, Work, changed_by

SEARCHED = {"--chunks", "--streams", "--order", "--buffers", "--launch"}  # options of predict that a search varies


@click.command("best", cls=BriefCommand)
@workload_options
@device_options
@part_options
@grid_options
@option("--exact", "Search large grids to the end, even if this takes long.", is_flag=True)
@format_options
@option("--as language", "Write the program to use in this language, and count its calls.", one_of(LANGUAGES))
@option("--output -o", "The file for --as.", OUTPUT)
@page_option
@fail_if_option
@option("--independent", "With a recorded program: its steps are independent, and can be cut.", is_flag=True)
@bound_layers
@click.pass_context
def best_command(
    context: click.Context,
    /,
    language: Language | None,
    output: Path | None,
    **_: Any,
) -> int:
    """Find the best number of chunks and streams, and the issue order: the optimum of the grid by the full model.

    The configuration to use is the simplest within 1 % of the optimum, or within the error of the times if the card's
    latencies are assumed: the fewest chunks, then the fewest streams. With numba the result is exact, except of grids
    that take minutes. These, and without it all large grids, are searched from coarse to fine for some seconds; the
    answer then says how much faster another program may be at most. --as and -o write the program to use.

    With --layers, best finds which layers of a model stay on the card, and over how many buffers the others are
    streamed, within --memory-limit less --reserve. With a program whose steps repeat (a schedule or a recording), it
    finds how to cut the steps, over how many streams and how far ahead to issue them. Of a training loop's file, it
    says what loop says.

    \b
    Examples:
      streamsim best --h2d 64MiB --kernel 0.57ms --d2h 64MiB --max-chunks 32 --max-streams 4
      streamsim best workload.toml --device a100 --max-chunks 16 --max-streams 4 --launch both --json
      streamsim best --h2d 1GiB --kernel 20ms --d2h 1GiB --max-chunks 32 --max-streams 4 --memory-limit 512MiB
      streamsim best workload.toml --max-chunks 32 --max-streams 4 --as pytorch -o pipeline.py
      streamsim best --layers layers.toml --memory-limit 8GiB --reserve 2GiB
      streamsim best program.json --device h200 --independent
    """  # noqa: D301 - click wants the backspace itself
    if (language is None) is not (output is None):
        raise InputError("--as, --output: the program needs a language and a file; give both")
    issued, path = read_issued(context), context.params["workload"]
    match issued:
        case LayersSource():
            found = _layers(context.params, issued.layers)
        case Given():
            refuse(context, ("exact", "page"), f"does not go with the program {path}; leave the option out")
            found = _program(context, issued)
        case Loop():
            not_of_loops = ("exact", "independent", "max_chunks", "max_streams", "memory")
            refuse(context, not_of_loops, f"{path} is a training loop, whose steps are not cut; leave the option out")
            return _loop(picked(DeviceOptions, context.params), issued, language, output)
        case Source():
            refuse(context, ("independent",), "needs a program with steps; give a recording or a schedule")
            found = _workload(context.params, issued.workload)
    if language is not None and output is not None:
        write_text(found.text(language), output)
    answer = best_answer(found.best, found.assumed, found.command, found.inputs)
    fastest = {"makespan_s": found.best.best.makespan_s, "speedup": found.best.speedup}
    return emit(answer, found.best.card, fastest)


def _loop(asked: DeviceOptions, loop: Loop, language: Language | None, output: Path | None) -> int:
    """Say what the command loop says of a training loop, and write the best one."""
    if language not in (None, "pytorch"):
        raise InputError(f"--as {language}: a training loop is a program of PyTorch; write it --as pytorch")
    source = LoopSource(loop, asked.load())
    with noting_compilation():
        found = advise(*source.work()[:3])
    if output is not None:
        write_text(first_program(found, source), output)
    return emit(loop_answer(found, inputs=asked.inputs()), source.device)


class _Found(NamedTuple):
    """What a search found, what it was asked for, and what writes the program to use in a language.

    ``command``: predicts the workload on the device if the options of a configuration are added; empty if none does.
    """

    best: Best[Any]
    inputs: dict[str, Any]
    text: Callable[[Language], str]
    assumed: Sequence[str] = ()
    command: str = ""


def _workload(params: dict[str, Any], workload: Workload) -> _Found:
    """Search the grid of a workload."""
    language, budget = params["language"], None if params["exact"] else BUDGET_OPS
    workload, asked = picked(DeviceOptions, params).written_in(workload, language)
    card = asked.load()
    chunks, streams = params["max_chunks"], params["max_streams"]
    grid = Grid(
        chunks=tuple(range(1, chunks + 1)),
        streams=tuple(range(1, streams + 1)),
        memory_limit_bytes=asked.memory_limit,
        **grid_fields(params, workload, card),
    )
    inputs = {
        **workload_inputs(workload),
        "grid": msgspec.to_builtins(grid) | {"chunks": [1, chunks], "streams": [1, streams]},
        **asked.inputs(),
    }
    workload, of_events = timed_alone_noted(workload, card)
    if not is_fast():
        grid.within(card.memory_bytes).configs(workload)  # an empty grid is an error before anything else is said
        note(f"{SLOW}, and so searches any grid to its end")
    with _searching() as progress:
        found = best(workload, card, grid, progress, budget_ops=budget)
    config = found.simplest.config
    most = max(one.config.chunks for one in (found.best, found.simplest, found.compared["usual"]))
    assumed = [*of_events, *kernel_assumptions(workload, most, card, config.launch)]
    command = predicting(SEARCHED) if page_asked() else ""
    return _Found(found, inputs, partial(code_of, workload, config), assumed, command)


def _layers(params: dict[str, Any], layers: Layers) -> _Found:
    """Search the placements of layers."""
    language, asked = params["language"], picked(DeviceOptions, params)
    if language and asked.front_end is None and not names_front_end(str(asked.device)):
        asked = replace(asked, front_end=FRONT_END_OF[language])  # the choice is of that program
    card, depth, budget = asked.load(), MOST_DEPTH, None if params["exact"] else BUDGET_OPS
    if language:
        code_of_layers(layers, Offload(), language)  # what cannot be written is an error before a long search
    reserve, on_host = params["reserve"], params["host_memory_limit"]
    with _searching() as progress:
        found = best_offload(layers, card, asked.memory_limit, reserve, on_host, depth, progress, budget)
    limits = {"reserve_bytes": reserve, "host_memory_limit_bytes": on_host}
    inputs = {"layers": msgspec.to_builtins(layers), **limits, **asked.inputs()}
    return _Found(found, inputs, partial(code_of_layers, layers, found.simplest.config))


def _program(context: click.Context, given: Given) -> _Found:
    """Search the changes of a program."""
    params = context.params
    asked = on_own_card(context, picked(DeviceOptions, params), given)
    card, independent = asked.load(), params["independent"]
    with noting_compilation():
        found = best_program(given.schedule, card, independent, params["max_chunks"], params["max_streams"])

    def text(language: Language) -> str:
        changes = found.simplest.config.changes
        depth = next((int(change.option.split()[1]) for change in changes if change.kind == "--prefetch"), 0)
        others = (change for change in changes if change.kind != "--prefetch")
        return code_of_steps_noted(changed_by(others, Work(given.schedule, card)).work.schedule, language, depth)

    return _Found(found, {"program": str(params["workload"]), **asked.inputs(), "independent": independent}, text)


@contextmanager
def _searching() -> Iterator[Callable[[int, int], None] | None]:
    # what the search and its imports make stays, and looking at it takes a tenth of it all
    with collector_off(), progress_bar("searching") as progress, noting_compilation():
        yield progress
