"""What a profiler recorded of a real program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streamsim.cli.options import FILE
from streamsim.cli.printing import print_json

if TYPE_CHECKING:
    from pathlib import Path

    from streamsim.recorded.recording import Recording

SCHEMA_VERSION = 1


@click.command("import")
@click.argument("trace", metavar="TRACE", type=FILE)
@click.option("--device", type=int, metavar="N", help="Only this card, by the profiler's number of it.")
@click.option("--process", type=int, metavar="PID", help="Only this process.")
@click.option(
    "--window",
    metavar="NAME|FROM..TO",
    help="Only calls that begin in this NVTX range, ProfilerStep or user annotation (NAME[2]: the second of that name),"
    " or between these times since the recording began, such as 1ms..5ms; and their work.",
)
@click.option("--skip-first", is_flag=True, help="Without the first copy or launch, which the profiler slows down.")
@click.option("--list", "as_list", is_flag=True, help="Print what --device, --process and --window may name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every figure.")
def import_command(
    trace: Path,
    device: int | None,
    process: int | None,
    window: str | None,
    skip_first: bool,
    as_list: bool,
    as_json: bool,
) -> None:
    """Read what a profiler recorded of a program: what the card did when, and why it stood still.

    \b
    TRACE is one of these, told by its content:
      PyTorch profiler (Kineto)   .json, .json.gz
      Nsight Systems              .sqlite: nsys export --type sqlite FILE.nsys-rep

    What could not be understood is counted at the end of the table.

    \b
    Examples:
      streamsim import trace.json.gz
      streamsim import report.sqlite --device 0 --list
      streamsim import trace.json --window 'ProfilerStep#3' --json

    Exit codes: 0 ok, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    from rich.console import Console

    from streamsim.recorded.read import read_recording
    from streamsim.recorded.summary import summarise
    from streamsim.recorded.windows import named_spans, part_of
    from streamsim.report.recording import choices_table, recording_table

    recording = part_of(read_recording(trace), device, process, window, skip_first)
    asked = {"trace": str(trace), "device": device, "process": process, "window": window, "skip_first": skip_first}
    if as_list:
        spans = named_spans(recording)
        if as_json:
            print_json(
                {"schema_version": SCHEMA_VERSION, "inputs": asked, **_choices(recording), "windows": _plain(spans)}
            )
        else:
            Console(highlight=False).print(choices_table(recording, spans, trace.name))
        return
    summary = summarise(recording)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "inputs": asked, **_plain(summary)})
    else:
        Console(highlight=False).print(recording_table(summary, trace.name))


def _choices(recording: Recording) -> dict[str, Any]:
    processes = [{"id": number, "name": name} for number, name in recording.processes]
    return {"devices": _plain(recording.cards), "processes": processes}


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)
