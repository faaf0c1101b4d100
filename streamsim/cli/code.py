"""``streamsim code``: the program that a prediction is of, in a language or as a schedule."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

import click

from streamsim import code
from streamsim.cli.options import OUTPUT, one_of, option
from streamsim.cli.printing import print_data
from streamsim.cli.running import BriefCommand, note
from streamsim.cli.work import Given, Issued, read_issued, work_options
from streamsim.errors import InputError, shown
from streamsim.files import dump_toml, write_text
from streamsim.program import Loop, Schedule, dump_schedule
from streamsim.text import format_seconds
from streamsim.transform import Change, LayersSource, Source, Work, changed_by, has_more, is_recorded, repeated_step

Written = code.Language | Literal["schedule"]
SCHEDULE: Final = "schedule"
# By the ending of -o's file what is written. A program in Python may be in either of two languages.
WRITTEN_AS: dict[str, Written] = {".cu": "cuda-c++", ".cpp": "cuda-c++", ".cc": "cuda-c++", ".json": SCHEDULE}


@click.command("code", cls=BriefCommand)
@work_options
@option(
    "--as language",
    "The language of the program, or schedule: the schedule as JSON. Default: that of the workload file's"
    " front_end; C++ for -o NAME.cu; a schedule for -o NAME.json.",
    one_of((*code.LANGUAGES, SCHEDULE)),
)
@option("--output -o", "File to write. Default: standard output.", OUTPUT)
@click.pass_context
def code_command(context: click.Context, /, language: Written | None, output: Path | None, **_: Any) -> None:
    """Write the program that the options of predict, a schedule or a recording describe.

    It is complete: pinned memory, streams, events, the loop of the pattern, a marked place for your kernels with a
    stand-in that runs as it is. It compares its output with that of the serial program and prints its wall times as
    one line of JSON; it takes --chunks, --streams, --buffers, --repeat and --work (rounds of the stand-in; without it
    the stand-in takes the time of --kernel).
    A schedule is written out call by call; of a recorded program, whose steps repeat, the loop is written. The device
    changes nothing. With --layers, the copies and kernels of all passes are written out.

    With --as schedule, the schedule is written as JSON, which predict, explain, check and streamsim-validate run take.

    \b
    Examples:
      streamsim code --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --as cupy -o pipeline.py
      streamsim code workload.toml --chunks 32 --order prefetch --buffers 2 --as pytorch
      streamsim code schedule.json --as cuda-c++ -o pipeline.cu
      streamsim code program.json --as pytorch -o pipeline.py
      streamsim code --layers layers.toml --depth 3 --resident head --passes 1 --as cupy -o offload.py
      streamsim code --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --as schedule -o schedule.json
    """  # noqa: D301 - click wants the backspace itself
    issued = read_issued(context)
    if language is None and output is not None:
        language = WRITTEN_AS.get(output.suffix)
    front_end = issued.workload.front_end if isinstance(issued, Source) else ""
    language = language or code.language_of(front_end)
    if language is None:
        languages = ("pytorch",) if isinstance(issued, Loop) else code.LANGUAGES
        why = f"the workload's front_end {shown(front_end)} is no language" if front_end else "no language"
        raise InputError(f"--as: {why}; give one of {', '.join(languages)}")
    text = code_of_issued(issued, language)
    if output is None:
        print_data(text.encode())
    else:
        write_text(text, output)


def code_of_issued(issued: Issued, language: Written) -> str:
    """Return the program in a language, or its schedule as JSON. Raises InputError for one that cannot be written.

    The schedule of a program in a file also has the times of its ops, its card's profile and the notes on it.
    """
    match issued:
        case Loop():
            if language != "pytorch":
                raise InputError(f"--as {language}: a training loop is a program of PyTorch; write it --as pytorch")
            return code.training_program(issued, "as it is")
        case Given():
            if language != SCHEDULE:
                write = code_of_steps_noted if is_recorded(issued.schedule) else code.code_of_schedule
                return write(issued.schedule, language)
            for line in issued.notes:
                note(line)
            profile = dump_toml(issued.device) if issued.device else ""
            return dump_schedule(issued.schedule, issued.recorded, profile, issued.notes).decode()
        case Source():
            if language != SCHEDULE:
                return code.code_of(issued.workload, issued.config, language)
            return dump_schedule(issued.config.schedule(issued.workload)).decode()
        case LayersSource():
            schedule = issued.config.schedule(issued.layers)
            if language != SCHEDULE:
                return code.code_of_schedule(schedule, language)
            return dump_schedule(schedule).decode()


def code_of_steps_noted(schedule: Schedule, language: code.Language, depth: int = 0) -> str:
    """Return :func:`code_of_steps`, with notes on the host's work in the schedule, and whether a pipeline has it."""
    text = code.code_of_steps(schedule, language, depth)
    if work_s := repeated_step(schedule)[0].host_work_s:
        own = f"the host's own work for a step, {format_seconds(work_s)},"
        note(f"{own} is before the step's first call in the pipeline")
    if has_more(schedule):
        calls = "what the host does for its calls (work without a name, up to 1 ms at a time)"
        note(f"{calls} is not in the pipeline, nor are its waits, but for copies")
    return text


def code_of_changed(work: Work, changes: Iterable[Change], language: code.Language) -> str:
    """Return the pipeline of a program whose steps repeat, with changes made to it."""
    found = list(changes)
    depth = next((int(change.option.split()[1]) for change in found if change.kind == "--prefetch"), 0)
    others = (change for change in found if change.kind != "--prefetch")
    return code_of_steps_noted(changed_by(others, work).work.schedule, language, depth)
