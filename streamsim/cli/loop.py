"""A training loop: what binds it, and what pinned memory, a prefetcher and workers bring."""

from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict, replace

from streamsim.advice import Advice, advise
from streamsim.answer import loop_answer
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
    kind_of_file,
    option,
    part_options,
    picked,
)
from streamsim.cli.printing import emit, page_option
from streamsim.cli.running import BriefCommand, noting_compilation
from streamsim.cli.work import check_no_part, on_own_card, read_given
from streamsim.code import training_program
from streamsim.errors import InputError, one_line
from streamsim.files import write_text
from streamsim.program import SAMPLE_FORM, Loop, LoopFile, parse_sample, read_loop_file
from streamsim.text import format_bytes, format_seconds
from streamsim.training import loop_of
from streamsim.transform import LoopSource, Work, changed_by


@click.command("loop", cls=BriefCommand)
@click.argument("file", metavar="[LOOP.toml|RECORDING]", type=FILE, required=False)
@option("--batch", "Samples of a batch.", COUNT)
@option(
    "--sample",
    f"What is copied of a sample: {SAMPLE_FORM}. Repeatable.",
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
    loop, work, asked = _asked(context, file, picked(LoopFile, options))
    with noting_compilation():
        found = advise(*work[:3])
    if output is not None:
        write_text(first_program(found, LoopSource(loop, asked.load())), output)
    shown = f"{one_line(file.name)}: {_words(loop)}" if file is not None and kind_of_file(file) == PROGRAM else ""
    emit(loop_answer(found, options["batch"] or 0, asked.inputs(), shown), work.device)


def first_program(found: Advice, source: LoopSource) -> str:
    """Return the loop with the changes to make first, as a program in PyTorch."""
    changes = found.first.changes if found.first else ()
    best = changed_by((change for change in changes if change.of_loop), source.work())
    assert isinstance(best.work.source, LoopSource)
    return training_program(best.work.source.loop, best.text or "as it is")


def _asked(context: click.Context, file: Path | None, said: LoopFile) -> tuple[Loop, Work, DeviceOptions]:
    """Return the loop that is ``said`` by options, a file or a recording; its program; and the device.

    The program is the recorded one, unless options say more of the loop.
    """
    asked = picked(DeviceOptions, context.params)
    by_options = {name: value for name, value in asdict(said).items() if value not in (None, ()) and value is not False}
    if file is None or kind_of_file(file) != PROGRAM:
        check_no_part()
        loop = (said if file is None else replace(read_loop_file(file), **by_options)).loop()
        return loop, LoopSource(loop, asked.load()).work(), asked
    given = read_given(file)
    asked = on_own_card(context, asked, given)
    device = asked.load()
    found = loop_of(given.schedule, device, said.batch or 1)
    more = {f"{name}_s": by_options.pop(name) for name in ("step", "issue", "load") if name in by_options}
    more |= {name: by_options.pop(name) for name in ("batch", "workers") if name in by_options}
    for name in by_options:
        raise InputError(f"--{name.replace('_', '-')}: the recording shows it; leave the option out")
    loop = replace(found, **more)
    return loop, Work(given.schedule, device) if loop == found else LoopSource(loop, device).work(), asked


def _words(loop: Loop) -> str:
    """Return what a recording shows of a loop, in words."""
    place = "pinned" if loop.is_pinned else "pageable"
    return (
        f"batches of {format_bytes(loop.batch_bytes)} from {place} memory; a step takes {format_seconds(loop.step_s)}"
        f" on the card and {format_seconds(loop.issue_s)} to issue"
    )
