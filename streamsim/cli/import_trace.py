"""``streamsim import``: the contents of a recording, and its replay."""

from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from streamsim.answer import choices_answer, recording_answer, replay_json
from streamsim.checks import SHORTEST_KERNEL_S
from streamsim.cli.beside import beside_options, write_beside
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.fail_if import Condition, fail_if_option, judged
from streamsim.cli.given import check_there, notes_on
from streamsim.cli.options import FILE, OUTPUT, complete_device, format_options
from streamsim.cli.page import page_asked, page_option
from streamsim.cli.printing import emit
from streamsim.device import dump_device, write_device
from streamsim.errors import OK, InputError
from streamsim.program import write_schedule
from streamsim.recorded import (
    Recording,
    RecordingSummary,
    Replay,
    Unrecorded,
    busiest_card,
    named_spans,
    part_of,
    profile_of,
    read_recording,
    recorded_times,
    replay,
    summarise,
    untraced_time_s,
    verdict_of,
    without_recording,
)
from streamsim.text import one_line, parse_seconds


@click.command("import", cls=BriefCommand)
@click.argument("file", metavar="TRACE", type=FILE)
@click.option("--gpu", "device", type=int, metavar="N", help="Only this card, by the profiler's number of it.")
@click.option("--process", type=int, metavar="PID", help="Only this process.")
@click.option(
    "--window",
    metavar="NAME|FROM..TO",
    help="Only calls that begin in this NVTX range, ProfilerStep or user annotation (NAME[2]: the second of that name),"
    " or between these times since the recording began, such as 1ms..5ms; and their work.",
)
@click.option(
    "--skip-first",
    is_flag=True,
    help="Leave out the first copy or launch of each process, which the profiler slows down by 0.4 ms.",
)
@click.option("--output", "-o", type=OUTPUT, help="Write the recorded program, as a schedule, to this file.")
@click.option(
    "--device",
    "profile",
    metavar="NAME|FILE",
    shell_complete=complete_device,
    help="Replay it on this device. Default: the profile of the card's name, shipped or made, with the copy rates of"
    " the recording.",
)
@click.option("--save-profile", type=OUTPUT, help="Write the profile of the replay to this file.")
@click.option(
    "--untraced-time",
    metavar="TIME",
    help="The time of the program when nothing records it. The cost of recording is then chosen so that the prediction"
    " takes this time. Default: the time of a capture's runs without CUPTI, else what profilers are known to cost.",
)
@beside_options
@page_option
@fail_if_option
@click.option("--list", "as_list", is_flag=True, help="Print what --gpu, --process and --window may name.")
@format_options
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
    fail_if: tuple[Condition, ...],
    as_list: bool,
) -> int:
    """Say what a profiler recorded of a program, why the card stood still, and what would help.

    TRACE is a trace of PyTorch's profiler (.json, .json.gz), an SQLite export of Nsight Systems (nsys export --type
    sqlite FILE.nsys-rep), or what streamsim-validate capture wrote. Its content shows its format.

    First comes a verdict: what sets the time, what stands still and why, what to try. Then follow the facts of the
    recording, and its replay by the model, with and without what recording cost. Each card of a file is replayed by
    itself. With -o, the program becomes a schedule like any other, beside the profile of its card. --plot, --page and
    --trace show the recording above its replay.

    \b
    Examples:
      streamsim import trace.json.gz
      streamsim import report.sqlite --gpu 0 --list
      streamsim import trace.json --window 'ProfilerStep#3' --json
      streamsim import trace.json.gz --untraced-time 4.67ms -o program.json --save-profile card.toml

    Exit codes: 0 ok, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    page = page_asked()
    _spare(file, {"--output": output, "--save-profile": save_profile, "--plot": plot, "--trace": trace, "--page": page})
    check_there(file)
    recording = part_of(whole := read_recording(file), device, process, window, skip_first)
    asked = {"trace": str(file), "device": device, "process": process, "window": window, "skip_first": skip_first}
    if as_list:
        emit(choices_answer(recording, named_spans(recording), file.name, asked))
        return OK
    summary = summarise(recording)
    writes = (output, save_profile, plot, trace, page)
    must = bool(fail_if) or any(option is not None for option in (profile, untraced_time, *writes))
    found = []
    for card, part in _each_card(recording, writes=output or save_profile or plot or trace or page):
        untraced_s = _untraced_s(untraced_time, None if skip_first else (whole, window, card))
        found.append(_replayed(part, file, card, profile, untraced_s, must))
    if isinstance(found[0], Replayed):
        _write(found[0], output, save_profile, plot, trace)
    replays = [replayed.to_json() if isinstance(replayed, Replayed) else None for replayed in found]
    told = {**msgspec.to_builtins(summary), "replay": replays[0] if len(replays) == 1 else None, "replays": replays}
    is_whole = not (device is not None or process is not None or window or skip_first or profile)
    program = str(output or (file if is_whole else UNWRITTEN))  # what whatif takes
    said = [_verdict(replayed, summary, program) for replayed in found]
    answer = recording_answer(
        file.name,
        summary,
        [(one.found, one.without) for one in found if isinstance(one, Replayed)],
        [one_line(line) for verdict, _ in said for line in verdict],
        [one_line(line) for _, warnings in said for line in warnings],
        {"inputs": asked, **told},
    )
    emit(answer)
    return _judged(fail_if, replays[0])


UNWRITTEN = "PROGRAM.json"  # the program of a part of a recording, or on another device, that no -o wrote


def _judged(conditions: tuple[Condition, ...], replay: dict[str, Any] | None) -> int:
    """Return the exit code for ``conditions`` on the replay of the busiest card; its error counts without its sign."""
    return judged(conditions, {**replay, "error": abs(replay["error"])}) if replay else OK


class Replayed(NamedTuple):
    """The two replays of a card's part of a recording: with and without the cost of recording."""

    card: int
    found: Replay
    without: Unrecorded

    def to_json(self) -> dict[str, Any]:
        """Return both as plain numbers and strings."""
        return {"card": self.card, **replay_json(self.found, self.without)}


def _each_card(recording: Recording, writes: Path | None) -> list[tuple[int | None, Recording]]:
    """Return the part of each card with work, the busiest first. Raises InputError for several if one is written."""
    busiest, others = busiest_card(recording)
    if not others:
        return [(None if busiest < 0 else busiest, recording)]
    if writes is not None:
        numbers = ", ".join(map(str, sorted([busiest, *others])))
        raise InputError(f"the recording has work on {len(others) + 1} cards: choose one with --gpu ({numbers})")
    return [(card, part_of(recording, card)) for card in (busiest, *others)]


def _verdict(replayed: Replayed | str, summary: RecordingSummary, program: str) -> tuple[list[str], list[str]]:
    """Return the verdict's lines, and the assumptions on the card and the warnings about a bad replay."""
    if isinstance(replayed, str):
        return [f"not replayed: {replayed}"], []
    use = next(use for use in summary.cards if use.id == replayed.card)
    lines = list(verdict_of(use, replayed.without.program.schedule, replayed.found.device, program))
    if program == UNWRITTEN and UNWRITTEN in lines[2]:
        lines[2] += f"; -o {UNWRITTEN} writes this file"
    if len(summary.cards) > 1:
        lines = [f"card {use.id}: {line}" for line in lines]
    notes = notes_on(replayed.found.device, replayed.found, replayed.without)
    return lines, [line for line in notes if line.partition(":")[0] not in lines[2]]  # said once


def _spare(file: Path, written: dict[str, Path | None]) -> None:
    """Raise InputError if the recording would be written over."""
    for option, path in written.items():
        if path is not None and path.exists() and file.exists() and path.samefile(file):
            raise InputError(f"{option} = {path}: is the recording itself; give another name")


def _untraced_s(said: str | None, timed: tuple[Recording, str | None, int | None] | None) -> float | None:
    """Return the seconds of the program without a profiler: as ``said``, or as a capture has ``timed`` them."""
    if said is not None:
        return parse_seconds(said, "--untraced-time", least=SHORTEST_KERNEL_S)
    return None if timed is None else untraced_time_s(*timed)


def _replayed(
    recording: Recording, file: Path, card: int | None, profile: str | None, untraced_s: float | None, must: bool
) -> Replayed | str:
    """Return both replays of a recording of one card, or the reason if there are none.

    ``untraced_s``: the seconds without a profiler. Raises InputError with the reason if there ``must`` be replays.
    """
    try:
        device = profile_of(recording, profile)
        found = replay(recording, device)
        without = without_recording(recording, device, untraced_s, file.name)
        return Replayed(-1 if card is None else card, found, without)
    except InputError as error:
        if must:
            raise
        return str(error)  # the recording's facts are printed all the same


def _write(
    replayed: Replayed, output: Path | None, save_profile: Path | None, plot: Path | None, trace: Path | None
) -> None:
    """Write the files: the pictures first, because their names may be wrong."""
    _, found, without = replayed
    if plot is not None or trace is not None:
        write_beside({"recorded": found.recorded, "replayed": found.timeline}, plot, trace)
    if output is not None:
        times = recorded_times(found.recording, without.program)
        notes = tuple(notes_on(found.device, found, without))
        write_schedule(without.program.schedule, output, times, dump_device(found.device), notes)
    if save_profile is not None:
        write_device(found.device, save_profile)
