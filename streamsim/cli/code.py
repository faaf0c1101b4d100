"""Write the program that a prediction is of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.layers import LayerOptions, layers_given, place_layers
from streamsim.cli.notes import note
from streamsim.cli.options import OUTPUT, Pipeline, one_of, pipeline_options, schedule_given, taken
from streamsim.cli.predict import take_options_of_predict
from streamsim.cli.printing import print_data
from streamsim.code import LANGUAGES, Language, code_of, code_of_layers, code_of_schedule, code_of_steps, language_of
from streamsim.errors import InputError
from streamsim.files import write_text
from streamsim.program import Schedule
from streamsim.text import format_seconds, one_line, shown
from streamsim.transform import has_more, is_recorded, repeated_step

as_option = click.option(
    "--as",
    "language",
    type=one_of(LANGUAGES),
    help="The language of the program. Default: that of the workload file's front_end; C++ for -o NAME.cu.",
)
output_option = click.option("--output", "-o", type=OUTPUT, help="File to write. Default: standard output.")


@click.command("code", cls=BriefCommand)
@pipeline_options
@place_layers
@as_option
@output_option
@click.pass_context
def code_command(context: click.Context, /, language: Language | None, output: Path | None, **options: Any) -> None:
    """Write the program that the options of predict, or a schedule's file, describe.

    It is complete: pinned memory, streams, events, the loop of the pattern, a marked place for your kernels with a
    stand-in that runs as it is. It compares its output with that of the serial program and prints its wall times as
    one line of JSON; it takes --chunks, --streams, --buffers, --repeat and --work (rounds of the stand-in; without it
    the stand-in takes the time of --kernel).
    A schedule is written out call by call; of a recorded program, whose steps repeat, the loop is written. Takes every
    option of predict; those that say nothing of the program (--device, --json, --plot ...) change nothing. With
    --layers: a PyTorch nn.Sequential whose weights are streamed.

    \b
    Examples:
      streamsim code --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --as cupy -o pipeline.py
      streamsim code workload.toml --chunks 32 --order prefetch --buffers 2 --as pytorch
      streamsim code schedule.json --as cuda-c++ -o pipeline.cu
      streamsim code program.json --as pytorch -o pipeline.py
      streamsim code --layers layers.toml --depth 3 --resident head --as pytorch -o offload.py
    """  # noqa: D301 - click wants the backspace itself
    of_layers, pipeline = taken(LayerOptions, options), Pipeline(**options)
    language = language or language_of_file(output)
    given = layers_given(context, of_layers, pipeline.memory)
    program = schedule_given(context, pipeline)
    schedule = None if program is None else program.schedule
    if given is not None:
        text = code_of_layers(*given, _said(language, output=output, languages=("pytorch",)))
    elif schedule is not None:
        text = (code_of_steps_noted if is_recorded(schedule) else code_of_schedule)(
            schedule, _said(language, output=output)
        )
    else:
        workload = pipeline.load()
        said = _said(language or language_of(workload.front_end), workload.front_end, output)
        text = code_of(workload, pipeline.config(), said)
    if output is None:
        print_data(text.encode())
    else:
        write_text(text, output)


def language_of_file(output: Path | None) -> Language | None:
    """Return the language that a file's name says; None if it says none, or Python, in which there are two."""
    return "cuda-c++" if output is not None and output.suffix in (".cu", ".cpp", ".cc", ".cxx") else None


def _said(
    language: Language | None,
    front_end: str = "",
    output: Path | None = None,
    languages: Sequence[Language] = LANGUAGES,
) -> Language:
    """``front_end``: the workload's, which says in which language it is written; so may the name of ``output``."""
    if language is None and output is not None and output.suffix == ".py" and not front_end and len(languages) > 1:
        raise InputError(
            one_line(f"-o {output}: a program in Python is in CuPy or PyTorch; add --as cupy or --as pytorch")
        )
    if language is None:
        of_it = f"the workload's front_end {shown(front_end)} is none that programs are written in" if front_end else ""
        choice = f"one of {', '.join(languages)}" if len(languages) > 1 else languages[0]
        raise InputError(f"--as: {of_it or 'no language'}; give {choice}")
    return language


def code_of_steps_noted(schedule: Schedule, language: Language, depth: int = 0) -> str:
    """Return :func:`code_of_steps`, with notes on the host's work in the schedule, and whether a pipeline has it."""
    text = code_of_steps(schedule, language, depth)
    work_s = repeated_step(schedule).workload.host_work_s
    if work_s:
        note(
            f"the host's own work for a step, {format_seconds(work_s)}, is before the step's first call in the pipeline"
        )
    if has_more(schedule):
        note(
            "what the host does for its calls (work without a name, up to 1 ms at a time) is not in the pipeline, nor"
            " are its waits, but for copies"
        )
    return text


take_options_of_predict(code_command)
