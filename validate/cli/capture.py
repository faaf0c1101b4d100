"""``streamsim-validate capture``: a Python program, recorded by CUPTI, timed without it, and explained."""

from pathlib import Path

import click

from streamsim.cli.explain import explain_command
from streamsim.cli.options import FILE, PART, format_options, gpu_option
from streamsim.cli.running import BriefCommand, note
from streamsim.recorded import times_of, untraced_time_s
from streamsim_validate.run import capture, parse_program


@click.command("capture", cls=BriefCommand, context_settings={"allow_interspersed_args": False})
@click.argument("command", metavar="-- python PROGRAM...", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option("--output", "-o", type=FILE, default="capture.json.gz", show_default=True, help="File for the recording.")
@click.option(
    "--window",
    metavar="NAME|FROM..TO",
    help="Look only at this named range of the program (NVTX or PyTorch's record_function; NAME[2]: the second of that"
    " name), or between these times since the recording began, such as 1ms..5ms. The card is idle at both ends of a"
    " named one.",
)
@gpu_option("Look only at the card with this CUPTI number.")
@click.option(
    "--untraced-runs",
    type=click.IntRange(0, 100),
    default=1,
    show_default=True,
    help="Number of runs before the recorded one, which show what a named window takes when nothing records it.",
)
@format_options
def capture_command(
    command: tuple[str, ...], output: Path, window: str | None, device: int | None, untraced_runs: int
) -> None:
    """Record what a Python program does with the card, time it unrecorded, and say why the card stood still.

    The program runs in its own process, twice unless --untraced-runs says otherwise, and prints its own output. Its
    environment needs cupti-python. streamsim explain reads the recording again, in part or whole.

    \b
    Examples:
      streamsim-validate capture -- python my_program.py --batch 64
      streamsim-validate capture --window step -o before.json.gz -- python -m my_package.train
      streamsim explain before.json.gz --window step --save-profile card.toml

    Exit codes: that of the program where it fails, 2 usage or bad input, 3 no usable GPU, 130 interrupted.
    """  # noqa: D301 - click wants the backspace itself
    if window is not None:
        times_of(window)
    recording = capture(parse_program(command), output, window, untraced_runs)
    if untraced_runs and untraced_time_s(recording, window, device) is None:
        what = "; a named --window is timed" if window is None else f" of --window {window}"
        note(f"what the program takes when nothing records it is not known{what}")
    context = click.get_current_context()
    part = {"window": window, "gpu": device}
    context.meta[PART] = {name: value for name, value in part.items() if value is not None}
    context.invoke(explain_command, workload=output)
