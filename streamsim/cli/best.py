"""``streamsim best`` and ``loop``: the best way to cut and issue a workload, a program or layers; a training loop."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from streamsim.advice import advise
from streamsim.analysis import kernel_assumptions
from streamsim.answer import best_answer, loop_answer
from streamsim.cli.code import code_of_changed, code_of_issued
from streamsim.cli.options import (
    COUNT,
    FILE,
    OUTPUT,
    PROGRAM,
    SIZE,
    TIME,
    WAIT,
    DeviceOptions,
    Quantity,
    device_options,
    format_options,
    grid_options,
    kind_of_file,
    one_of,
    option,
    part_options,
    picked,
    workload_options,
)
from streamsim.cli.predict import predicting
from streamsim.cli.printing import answer_options, emit, page_asked, page_option
from streamsim.cli.running import BriefCommand, note, progress_bar
from streamsim.cli.work import (
    Given,
    bound_layers,
    check_no_part,
    grid_fields,
    on_own_card,
    read_given,
    read_issued,
    refuse,
    timed_alone_noted,
    workload_inputs,
)
from streamsim.code import FRONT_END_OF, LANGUAGES, Language, code_of, code_of_schedule, training_program
from streamsim.collector import collector_off
from streamsim.errors import InputError, one_line
from streamsim.files import write_text
from streamsim.program import Layers, Loop, LoopFile, Workload, parse_sample, read_loop_file
from streamsim.search import BUDGET_OPS, SLOW, Best, Grid, best, best_offload, best_program, is_fast
from streamsim.text import format_bytes, format_seconds
from streamsim.transform import LayersSource, LoopSource, Source, Work, changed_by, loop_of

SEARCHED = {"--chunks", "--streams", "--order", "--buffers", "--launch"}  # options of predict that a search varies


@click.command("best", cls=BriefCommand)
@workload_options
@device_options
@part_options
@grid_options
@option("--exact", "Search large grids to the end, even if this takes long.", is_flag=True)
@answer_options
@option("--as language", "Write the program to use in this language, and count its calls.", one_of(LANGUAGES))
@option("--output -o", "The file for --as.", OUTPUT)
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
    if language is not None and not isinstance(issued, Given):
        code_of_issued(issued, language)  # what cannot be written is an error before a long search
    match issued:
        case LayersSource():
            found = _layers(context.params, issued.layers)
        case Given():
            refuse(context, ("exact", "page"), f"does not go with the program {path}; leave the option out")
            found = _program(context, issued)
        case Loop():
            not_of_loops = ("exact", "independent", "max_chunks", "max_streams", "memory")
            refuse(context, not_of_loops, f"{path} is a training loop, whose steps are not cut; leave the option out")
            asked = picked(DeviceOptions, context.params)
            source = LoopSource(issued, asked.load())
            return _say_of_loop(source.work(), source, output, asked.inputs())
        case Source():
            refuse(context, ("independent",), "needs a program with steps; give a recording or a schedule")
            found = _workload(context.params, issued.workload)
    if language is not None and output is not None:
        write_text(found.text(language), output)
    answer = best_answer(found.best, found.assumed, found.command, found.inputs)
    fastest = {"makespan_s": found.best.best.makespan_s, "speedup": found.best.speedup}
    return emit(answer, found.best.card, fastest)


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
    with collector_off(), progress_bar("searching") as progress:  # looking at what stays takes a tenth of it all
        found = best(workload, card, grid, progress, budget_ops=budget)
    config = found.simplest.config
    most = max(one.config.chunks for one in (found.best, found.simplest, found.compared["usual"]))
    assumed = [*of_events, *kernel_assumptions(workload, most, card, config.launch)]
    command = predicting(SEARCHED) if page_asked() else ""
    return _Found(found, inputs, partial(code_of, workload, config), assumed, command)


def _layers(params: dict[str, Any], layers: Layers) -> _Found:
    """Search the placements of layers."""
    asked, budget = picked(DeviceOptions, params), None if params["exact"] else BUDGET_OPS
    if params["language"]:
        asked = asked.with_calls_of(FRONT_END_OF[params["language"]])  # the choice is of that program
    card = asked.load()
    reserve, on_host = params["reserve"], params["host_memory_limit"]
    with collector_off(), progress_bar("searching") as progress:
        found = best_offload(layers, card, asked.memory_limit, reserve, on_host, progress, budget)
    limits = {"reserve_bytes": reserve, "host_memory_limit_bytes": on_host}
    inputs = {"layers": msgspec.to_builtins(layers), **limits, **asked.inputs()}
    schedule = found.simplest.config.schedule(layers)
    return _Found(found, inputs, partial(code_of_schedule, schedule))


def _program(context: click.Context, given: Given) -> _Found:
    """Search the changes of a program."""
    params = context.params
    asked = on_own_card(context, picked(DeviceOptions, params), given)
    card, independent = asked.load(), params["independent"]
    found = best_program(given.schedule, card, independent, params["max_chunks"], params["max_streams"])
    text = partial(code_of_changed, Work(given.schedule, card), found.simplest.config.changes)
    return _Found(found, {"program": str(params["workload"]), **asked.inputs(), "independent": independent}, text)


@click.command("loop", cls=BriefCommand)
@click.argument("file", metavar="[LOOP.toml|RECORDING]", type=FILE, required=False)
@option("--batch", "Samples of a batch.", COUNT)
@option(
    "--sample",
    "What is copied of a sample: a shape and a type such as 3x224x224:float32. Repeatable.",
    Quantity("sample", parse_sample),
    multiple=True,
)
@option("--batch-bytes", "What is copied of a batch, in place of --sample.", SIZE)
@option("--step", "Time of a step alone on the card: forward, backward and optimizer.", TIME)
@option("--issue", "Time that the host takes to issue a step's calls. Default: not counted.", WAIT)
@option("--load", "Time that one worker takes to load a batch. Default: none.", WAIT)
@option("--workers", "Workers of the data loader. Default: 0.", click.IntRange(0, 256))
@option("--pinned", "The loop as it is has pin_memory=True.", is_flag=True)
@option("--non-blocking", "The loop as it is copies with non_blocking=True.", is_flag=True)
@option("--prefetcher", "The loop as it is has a prefetcher.", is_flag=True)
@option("--item", "The loop as it is calls loss.item() in every step.", is_flag=True)
@device_options
@part_options
@option("--output -o", "Write the best loop as a PyTorch program to this file.", OUTPUT)
@format_options
@page_option
@click.pass_context
def loop_command(
    context: click.Context,
    /,
    file: Path | None,
    output: Path | None,
    **options: Any,
) -> None:
    """Say what a training loop waits for, and what each usual change brings.

    Describe the loop by a batch, a step and the data loader. Each line of the answer is a loop: milliseconds a step,
    samples a second, and how many times as fast it is as the loop as it is. Steps stay in order, since each needs the
    weights of the one before it. A file holds the same names as the options: batch, sample, step, load, workers. A
    recording of some steps, as explain reads it, shows all but the samples of a batch; what the process waited for its
    data is taken for loading, unless --load and --workers say more.

    \b
    Examples:
      streamsim loop --batch 256 --sample 3x224x224:float32 --step 45ms --load 240ms --workers 8 --device a100
      streamsim loop --batch-bytes 154MB --batch 256 --step 45ms --device a100 --item
      streamsim loop loop.toml --device h200 -o loop.py
      streamsim loop program.json --batch 64

    Exit codes: 0 ok, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    loop, work, asked = _loop_asked(context, file, options)
    shown = f"{one_line(file.name)}: {_words(loop)}" if file is not None and kind_of_file(file) == PROGRAM else ""
    _say_of_loop(work, LoopSource(loop, asked.load()), output, asked.inputs(), options["batch"] or 0, shown)


def _say_of_loop(
    work: Work, source: LoopSource, output: Path | None, inputs: dict[str, Any], batch: int = 0, shown: str = ""
) -> int:
    """Say what binds a loop and what to change first, and write the loop with that."""
    found = advise(*work[:3])
    if output is not None:
        changes = found.first.changes if found.first else ()
        best = changed_by((change for change in changes if change.of_loop), source.work())
        assert isinstance(best.work.source, LoopSource)
        write_text(training_program(best.work.source.loop, best.text or "as it is"), output)
    return emit(loop_answer(found, batch, inputs, shown), work.device)


def _loop_asked(context: click.Context, file: Path | None, options: dict[str, Any]) -> tuple[Loop, Work, DeviceOptions]:
    """Return the loop that options, a file or a recording describe; its program; and the device.

    The program is the recorded one, unless options say more of the loop.
    """
    asked = picked(DeviceOptions, context.params)
    given = {name: value for name, value in options.items() if value not in (None, ()) and value is not False}
    option_of = dict(zip(LoopFile.__struct_fields__, LoopFile.__struct_encode_fields__, strict=True))
    said = {field: given[name] for field, name in option_of.items() if name in given}
    if file is None or kind_of_file(file) != PROGRAM:
        check_no_part()
        loop = replace(LoopFile() if file is None else read_loop_file(file), **said).loop()
        return loop, LoopSource(loop, asked.load()).work(), asked
    recorded = read_given(file)
    asked = on_own_card(context, asked, recorded)
    device = asked.load()
    for field in said.keys() - {"batch", "step_s", "issue_s", "load_s", "workers"}:
        raise InputError(f"--{option_of[field].replace('_', '-')}: the recording shows it; leave the option out")
    found = loop_of(recorded.schedule, device, said.pop("batch", 1))
    loop = replace(found, **said)
    return loop, Work(recorded.schedule, device) if loop == found else LoopSource(loop, device).work(), asked


def _words(loop: Loop) -> str:
    """Return what a recording shows of a loop, in words."""
    place = "pinned" if loop.is_pinned else "pageable"
    return (
        f"batches of {format_bytes(loop.batch_bytes)} from {place} memory; a step takes {format_seconds(loop.step_s)}"
        f" on the card and {format_seconds(loop.issue_s)} to issue"
    )
