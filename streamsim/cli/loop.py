"""A training loop: what binds it, and what pinned memory, a prefetcher and workers bring."""

import math
from pathlib import Path
from typing import Any

import click
import msgspec

from streamsim.advice import advise
from streamsim.answer import loop_answer
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.given import is_program, read_given
from streamsim.cli.notes import noting_compilation
from streamsim.cli.options import (
    FILE,
    OUTPUT,
    SIZE,
    TIME,
    WAIT,
    Chosen,
    Quantity,
    device_options,
    format_options,
    part_options,
    taken,
)
from streamsim.cli.page import page_option
from streamsim.cli.printing import emit
from streamsim.errors import InputError
from streamsim.files import Parsers, parse_toml, read_bytes, write_text
from streamsim.program import Loop
from streamsim.text import (
    LARGEST_TOML_BYTES,
    format_bytes,
    format_seconds,
    one_line,
    parse_bytes,
    parse_count,
    parse_number,
    parse_seconds,
    shown,
)
from streamsim.training import loop_of
from streamsim.transform import Case, LoopSource, changed_by

BYTES_OF = {
    **dict.fromkeys(("float64", "int64"), 8),
    **dict.fromkeys(("float32", "int32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16"), 2),
    **dict.fromkeys(("uint8", "int8", "bool"), 1),
}
FORM = f"a shape and a type such as 3x224x224:float32; types are {', '.join(BYTES_OF)}"
COUNT = Quantity("count", parse_count)
SPELLED = {"batch_bytes": "batch-bytes", "non_blocking": "non-blocking", "reads_loss": "item"}


class Sample(msgspec.Struct, frozen=True):
    """An array of a sample: elements, and bytes of each."""

    elements: int
    element_bytes: int


def parse_sample(text: str, field: str = "sample") -> Sample:
    """Return the sample in a text such as ``"3x224x224:float32"``. Raises InputError naming ``field``."""
    shape, _, kind = text.strip().partition(":")
    if kind not in BYTES_OF:
        raise InputError(f"{field} = {shown(text)}: expected {FORM}")
    return Sample(math.prod(parse_number(part, field) for part in shape.split("x")), BYTES_OF[kind])


@click.command("loop", cls=BriefCommand)
@click.argument("file", metavar="[LOOP.toml|RECORDING]", type=FILE, required=False)
@click.option("--batch", type=COUNT, help="Samples of a batch.")
@click.option(
    "--sample",
    type=Quantity("sample", parse_sample),
    multiple=True,
    help=f"What is copied of a sample: {FORM}. Repeatable.",
)
@click.option("--batch-bytes", type=SIZE, help="What is copied of a batch, in place of --sample.")
@click.option("--step", type=TIME, help="Time of a step alone on the card: forward, backward and optimizer.")
@click.option("--issue", type=WAIT, help="Time that the host takes to issue a step's calls. Default: not counted.")
@click.option("--load", type=WAIT, help="Time that one worker takes to load a batch. Default: none.")
@click.option("--workers", type=click.IntRange(0, 256), help="Workers of the data loader. Default: 0.")
@click.option("--pinned", is_flag=True, help="The loop as it is has pin_memory=True.")
@click.option("--non-blocking", is_flag=True, help="The loop as it is copies with non_blocking=True.")
@click.option("--prefetcher", is_flag=True, help="The loop as it is has a prefetcher.")
@click.option("--item", "reads_loss", is_flag=True, help="The loop as it is calls loss.item() in every step.")
@device_options
@part_options
@click.option("--output", "-o", type=OUTPUT, help="Write the best loop as a PyTorch program to this file.")
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
    chosen = taken(Chosen, options)
    loop, case, chosen = _asked(context, file, options, chosen)
    with noting_compilation():
        found = advise(*case[:3])
    if output is not None:
        from streamsim.code import training_program

        changes = found.first.changes if found.first else ()
        best = changed_by((change for change in changes if change.of_loop), LoopSource(loop, chosen.load()).case())
        assert isinstance(best.case.source, LoopSource)
        write_text(training_program(best.case.source.loop, best.text or "as it is"), output)
    shown = f"{one_line(file.name)}: {_words(loop)}" if file is not None and is_program(file) else ""
    emit(loop_answer(found, options["batch"] or 0, chosen.inputs(), shown), case.device)


def _asked(
    context: click.Context, file: Path | None, options: dict[str, Any], chosen: Chosen
) -> tuple[Loop, Case, Chosen]:
    """Return the loop of the options, a file or a recording; its program; and the device.

    The program is the recorded one, unless options say more of the loop.
    """
    if file is None or not is_program(file):
        loop = _loop(**(options if file is None else {**options, **_from_file(file, options)}))
        return loop, LoopSource(loop, chosen.load()).case(), chosen
    given = read_given(file)
    chosen = chosen.of(context, given)
    device = chosen.load()
    found = loop_of(given.schedule, device, options["batch"] or 1)
    loop = _changed(found, options)
    return loop, Case(given.schedule, device) if loop == found else LoopSource(loop, device).case(), chosen


def _changed(loop: Loop, options: dict[str, Any]) -> Loop:
    """Return a recorded loop, with the options that stand beside the recording."""
    shown_by_it = ("sample", "batch_bytes", "pinned", "non_blocking", "prefetcher", "reads_loss")
    for name in shown_by_it:
        if options[name]:
            raise InputError(f"--{SPELLED.get(name, name)}: the recording shows it; leave the option out")
    more = {"step_s": options["step"], "issue_s": options["issue"], "load_s": options["load"]}
    more["workers"] = options["workers"]
    return msgspec.structs.replace(loop, **{name: value for name, value in more.items() if value is not None})


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a loop's file: the options by their names."""

    batch: int | None = None
    sample: tuple[Sample, ...] = ()
    batch_bytes: int | None = None
    step: float | None = None
    issue: float | None = None
    load: float | None = None
    workers: int | None = None
    pinned: bool = False
    non_blocking: bool = False
    prefetcher: bool = False
    item: bool = False


_PARSERS: Parsers = {
    **dict.fromkeys(("step", "issue", "load"), parse_seconds),
    "batch": parse_count,
    "batch_bytes": parse_bytes,
    Sample: parse_sample,
}


def _from_file(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return what the file says and no option does."""
    data = read_bytes(path, LARGEST_TOML_BYTES)
    said = msgspec.structs.asdict(parse_toml(data, _File, "loop", path.name, _PARSERS, _listed))
    said["reads_loss"] = said.pop("item")
    return {name: value for name, value in said.items() if options[name] in (None, (), False)}


def _listed(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the table with one sample as a list of one."""
    return {name: [value] if name == "sample" and isinstance(value, str) else value for name, value in plain.items()}


def _loop(
    batch: int | None,
    sample: tuple[Sample, ...],
    batch_bytes: int | None,
    step: float | None,
    issue: float | None,
    load: float | None,
    workers: int | None,
    pinned: bool,
    non_blocking: bool,
    prefetcher: bool,
    reads_loss: bool,
    **_: Any,
) -> Loop:
    """Return the loop that the options describe."""
    if batch is None or step is None:
        raise InputError(f"--{'batch' if batch is None else 'step'}: is missing; a loop needs --batch and --step")
    if bool(sample) == (batch_bytes is not None):
        raise InputError("--sample, --batch-bytes: give one of the two")
    return Loop(
        batch=batch,
        batch_bytes=batch_bytes or batch * sum(one.elements * one.element_bytes for one in sample),
        step_s=step,
        load_s=load or 0.0,
        workers=workers or 0,
        issue_s=issue or 0.0,
        is_pinned=pinned,
        non_blocking=non_blocking or prefetcher,
        reads_loss=reads_loss,
        issue="copy first" if prefetcher else "in turn",
    )


def _words(loop: Loop) -> str:
    """Return what a recording shows of a loop, in words."""
    place = "pinned" if loop.is_pinned else "pageable"
    return (
        f"batches of {format_bytes(loop.batch_bytes)} from {place} memory; a step takes {format_seconds(loop.step_s)}"
        f" on the card and {format_seconds(loop.issue_s)} to issue"
    )
