"""Write the program that a prediction is of."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from streamsim.cli.options import FILE, PLAIN, Pipeline, pipeline_options, schedule_given
from streamsim.cli.predict import take_options_of_predict
from streamsim.cli.printing import print_data
from streamsim.code.programs import code_of, code_of_schedule
from streamsim.code.steps import LANGUAGES, Language
from streamsim.errors import InputError
from streamsim.files.atomic_files import write_text
from streamsim.program.config import ORDERS, ring_config

PREFETCH = "prefetch"
PREFETCH_STREAMS = 3  # one to copy in, one to compute, one to copy back
as_option = click.option("--as", "language", type=click.Choice(LANGUAGES), help="The language of the program.")
output_option = click.option("--output", "-o", type=FILE, help="File to write. Default: standard output.")


@click.command("code")
@pipeline_options
@as_option
@output_option
@click.pass_context
def code_command(
    context: click.Context, /, language: Language | None, output: Path | None, order: str, **options: Any
) -> None:
    """Write the program that the options of predict, or a schedule from a .json file, describe.

    It is complete: pinned memory, streams, events, the loop of the pattern, a marked place for your kernels with a
    stand-in that runs as it is. It compares its output with that of the serial program and prints its wall times as
    one line of JSON; it takes --chunks, --streams, --buffers, --repeat and --work (how much its stand-in computes).
    A schedule is written out call by call. Takes every option of predict; those that say nothing of the program
    (--device, --json, --plot ...) change nothing.

    \b
    Examples:
      streamsim code --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --as cupy -o pipeline.py
      streamsim code workload.toml --chunks 32 --order prefetch --buffers 2 --as pytorch
      streamsim code schedule.json --as cuda-c++ -o pipeline.cu
    """  # noqa: D301 - click wants the backspace itself
    if language is None:
        raise InputError(f"--as: no language; give one of {', '.join(LANGUAGES)}")
    pipeline = Pipeline(**options, order=PLAIN.order if order == PREFETCH else order)  # type: ignore[arg-type]
    schedule = schedule_given(context, pipeline)
    if schedule is not None:
        text = code_of_schedule(schedule, language)
    elif order == PREFETCH:
        is_said = context.get_parameter_source("streams") is ParameterSource.COMMANDLINE
        if is_said and pipeline.streams != PREFETCH_STREAMS:
            raise InputError(f"--streams {pipeline.streams}: --order prefetch has {PREFETCH_STREAMS}; leave it out")
        pipeline = replace(pipeline, buffers=2 if pipeline.buffers is None else pipeline.buffers)
        config = ring_config(pipeline.chunks, pipeline.buffers or 1, PREFETCH_STREAMS, pipeline.memory, pipeline.launch)
        text = code_of(pipeline.load(), config, language, prefetch=True)
    else:
        text = code_of(pipeline.load(), pipeline.config(), language)
    if output is None:
        print_data(text.encode())
    else:
        write_text(text, output)


take_options_of_predict(code_command)
for _option in code_command.params:
    if _option.name == "order":  # the same, and one more
        _option.type = click.Choice((*ORDERS, PREFETCH))
