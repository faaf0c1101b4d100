"""What a profiler recorded of a real program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streamsim.cli.beside import beside_options, write_beside
from streamsim.cli.options import FILE, OUTPUT, complete_device
from streamsim.cli.page import page_option, save_page
from streamsim.cli.printing import print_json, tell
from streamsim.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from streamsim.recorded.program import RecordedProgram
    from streamsim.recorded.recording import Recording
    from streamsim.recorded.replay import Replay


@click.command("import")
@click.argument("file", metavar="TRACE", type=FILE)
@click.option("--device", type=int, metavar="N", help="Only this card, by the profiler's number of it.")
@click.option("--process", type=int, metavar="PID", help="Only this process.")
@click.option(
    "--window",
    metavar="NAME|FROM..TO",
    help="Only calls that begin in this NVTX range, ProfilerStep or user annotation (NAME[2]: the second of that name),"
    " or between these times since the recording began, such as 1ms..5ms; and their work.",
)
@click.option("--skip-first", is_flag=True, help="Without the first copy or launch, which the profiler slows down.")
@click.option("--output", "-o", type=OUTPUT, help="Write the program that it is, as a schedule, to this file.")
@click.option(
    "--profile",
    metavar="NAME|FILE",
    shell_complete=complete_device,
    help="Replay it on this device; without it on the one of the card's name, else with the recording's copy rates.",
)
@click.option("--save-profile", type=OUTPUT, help="Write the profile that it is replayed on to this file.")
@click.option(
    "--untraced-time",
    metavar="TIME",
    help="What the program takes when nothing records it: what recording cost is taken out of the schedule until the"
    " prediction is that. Without it that is told from the runs that a capture has timed, else from the profile, if its"
    " host was measured.",
)
@beside_options
@page_option
@click.option("--list", "as_list", is_flag=True, help="Print what --device, --process and --window may name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every figure.")
def import_command(
    file: Path,
    device: int | None,
    process: int | None,
    window: str | None,
    skip_first: bool,
    output: Path | None,
    profile: str | None,
    save_profile: Path | None,
    untraced_time: str | None,
    plot: Path | None,
    trace: Path | None,
    page: Path | None,
    as_list: bool,
    as_json: bool,
) -> None:
    """Read what a profiler recorded of a program: what the card did when, why it stood still, and what program it is.

    \b
    TRACE is one of these, told by its content:
      PyTorch profiler (Kineto)   .json, .json.gz
      Nsight Systems              .sqlite: nsys export --type sqlite FILE.nsys-rep
      streamsim-validate capture  .json.gz

    What could not be understood is counted. At the end the program is replayed by the model, beside what was recorded.
    With -o it becomes a schedule like any other, without what recording it cost. --plot and --trace show both.

    \b
    Examples:
      streamsim import trace.json.gz
      streamsim import report.sqlite --device 0 --list
      streamsim import trace.json --window 'ProfilerStep#3' --json
      streamsim import trace.json.gz --untraced-time 4.67ms -o program.json --save-profile card.toml

    Exit codes: 0 ok, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    from streamsim.cli.consoles import open_console
    from streamsim.recorded.read import read_recording
    from streamsim.recorded.summary import summarise
    from streamsim.recorded.windows import part_of
    from streamsim.report.recording import recording_table
    from streamsim.report.replay import replay_json, replay_table

    _spare(file, {"--output": output, "--save-profile": save_profile, "--plot": plot, "--trace": trace, "--page": page})
    recording = part_of(whole := read_recording(file), device, process, window, skip_first)
    asked = {"trace": str(file), "device": device, "process": process, "window": window, "skip_first": skip_first}
    if as_list:
        return _listed(recording, file.name, asked if as_json else None)
    summary = summarise(recording)
    untraced_s = _untraced_s(untraced_time, None if skip_first else (whole, window, device))
    must = any(option is not None for option in (profile, untraced_time, output, save_profile, plot, trace, page))
    found = _replayed(recording, file.name, profile, untraced_s, must)
    if not isinstance(found, str):
        _write(recording, *found, output, save_profile, plot, trace)
        save_page("recording_page", page, recording, file.name, summary, *found, untraced_s)
    if as_json:
        told = {**_plain(summary), "replay": None if isinstance(found, str) else replay_json(*found, untraced_s)}
        return print_json({"inputs": asked, **told})
    open_console().print(recording_table(summary, file.name))
    if isinstance(found, str):
        return tell(f"not replayed: {found}")
    return open_console().print(replay_table(*found, untraced_s))


def _spare(file: Path, written: dict[str, Path | None]) -> None:
    """Raise InputError where the recording would be written over."""
    for option, path in written.items():
        if path is not None and path.exists() and file.exists() and path.samefile(file):
            raise InputError(f"{option} = {path}: is the recording itself; give another name")


def _untraced_s(said: str | None, timed: tuple[Recording, str | None, int | None] | None) -> float | None:
    """What the program takes when nothing records it: as it is ``said``, or as a capture has ``timed`` it."""
    from streamsim.recorded.wall_times import wall_time_s
    from streamsim.text.quantities import parse_seconds

    if said is not None:
        return parse_seconds(said, "--untraced-time")
    return None if timed is None else wall_time_s(*timed)


def _replayed(
    recording: Recording, title: str, profile: str | None, untraced_s: float | None, must: bool
) -> tuple[Replay, RecordedProgram] | str:
    """The replay, and the program without what recording cost; or why there is none, unless there ``must`` be one.

    ``untraced_s``: what the program takes when nothing records it.
    """
    from streamsim.recorded.card_profile import profile_of
    from streamsim.recorded.replay import replay, untraced

    try:
        device = profile_of(recording, profile)
        return replay(recording, device), untraced(recording, device, untraced_s, title)
    except InputError as error:
        if must:
            raise
        return str(error)  # what it is a recording of is told all the same


def _write(
    recording: Recording,
    found: Replay,
    program: RecordedProgram,
    output: Path | None,
    save_profile: Path | None,
    plot: Path | None,
    trace: Path | None,
) -> None:
    """Write what was asked for: the pictures first, whose names may be wrong."""
    from streamsim.device.files import write_device
    from streamsim.program.files import write_schedule
    from streamsim.recorded.times import recorded_times
    from streamsim.timeline.timeline import recorded_timeline

    if plot is not None or trace is not None:
        was = recorded_timeline(found.timeline, recorded_times(recording, found.program))
        write_beside({"recorded": was, "replayed": found.timeline}, plot, trace)
    if output is not None:
        write_schedule(program.schedule, output, recorded_times(recording, program))
    if save_profile is not None:
        write_device(found.device, save_profile)


def _listed(recording: Recording, title: str, asked: dict[str, Any] | None) -> None:
    """What may be chosen of a recording, for people; as JSON with what was ``asked``."""
    from streamsim.cli.consoles import open_console
    from streamsim.recorded.windows import named_spans
    from streamsim.report.recording import choices_table

    spans = named_spans(recording)
    if asked is None:
        open_console().print(choices_table(recording, spans, title))
    else:
        print_json({"inputs": asked, **_choices(recording), "windows": _plain(spans)})


def _choices(recording: Recording) -> dict[str, Any]:
    processes = [{"id": number, "name": name} for number, name in recording.processes]
    return {"devices": _plain(recording.cards), "processes": processes}


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)
