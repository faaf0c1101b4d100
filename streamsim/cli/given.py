"""Files that a command is given: their kind, the options in them, and the program of a schedule or a recording."""

import os
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import click

from streamsim.device import Device, assumptions_of, parse_device
from streamsim.errors import InputError
from streamsim.files import read_bytes
from streamsim.program import RecordedTimes, Schedule, read_plan, read_program
from streamsim.recorded import (
    Recording,
    Replay,
    Unrecorded,
    busiest_card,
    kind_given,
    part_of,
    profile_of,
    read_recording,
    recorded_times,
    replay,
    untraced_time_s,
    warnings_of,
    without_recording,
)
from streamsim.text import LARGEST_TOML_BYTES, kind_of, shown

# Suffixes of files that hold a program, whatever their content.
SUFFIXES = (".json", ".gz", ".sqlite", ".sqlite3", ".db", ".nsys-rep", ".qdrep")
PROGRAM, LAYERS, LOOP = "program", "layers", "loop"  # kinds of files
WRITTEN_BY = "streamsim code --as schedule -o FILE writes a schedule, streamsim predict --recording FILE a recording"
CUT = ("chunks", "streams", "order", "buffers", "launch")  # what a search looks for itself
PART = "streamsim.part"  # what a click context knows of the part of a recording


def kind_of_file(path: Path) -> str:
    """Return "program" for a schedule or a recording, else what :func:`streamsim.text.kind_of` says of the content."""
    if path.suffix.lower() in SUFFIXES or kind_given(path):
        return PROGRAM
    return kind_of(read_bytes(path, LARGEST_TOML_BYTES)) if path.is_file() else ""


def take_defaults(context: click.Context, param: click.Parameter, path: Path | None) -> Path | None:  # noqa: ARG001
    """Make what the file says the defaults of the other options, so that an option on the command line wins.

    Return the path of the work; None for layers, which have an option. Raises InputError naming the file, the name and
    the value.
    """
    if path is None or context.resilient_parsing or not path.is_file():
        return path
    kind, known = kind_of_file(path), {option.name: option for option in context.command.params}
    if kind == LAYERS and LAYERS in known:
        context.default_map = {LAYERS: path}
        return None
    if kind not in (PROGRAM, LAYERS, LOOP):
        searched = () if "chunks" in known else CUT
        plan = {name: value for name, value in read_plan(path).items() if name in known and name not in searched}
        context.default_map = {name: _value(path, known[name], name, value) for name, value in plan.items()}
    return path


def _value(path: Path, option: click.Parameter, name: str, value: Any) -> Any:
    """Return the value of an option, read as on the command line. Raises InputError naming the file and the name."""
    if name == "measured" and isinstance(value, list):
        value = ",".join(map(str, value))
    named = copy(option)
    named.opts = [name]  # in messages
    try:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise InputError(f"{name} = {shown(value)}: expected one value; several are for streamsim sweep")
        return option.type.convert(str(value), named, None)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except click.UsageError as error:
        raise InputError(f"{path}: {name} = {shown(value)}: {error.message}") from None


# Programs: schedules, and what a profiler recorded


def part_asked() -> dict[str, Any]:
    """Return the options that choose what of a recording is read, with their values; those that are given."""
    asked: dict[str, Any] = click.get_current_context().meta.get(PART, {})
    return asked


def check_no_part() -> None:
    """Raise InputError for options that choose what of a recording is read, where none is."""
    for name in part_asked():
        raise InputError(
            f"--{name.replace('_', '-')}: chooses what of a recording is read; give a recording, or leave it out"
        )


class NotReplayedError(InputError):
    """The reason why a ``recording`` cannot be replayed."""

    def __init__(self, reason: str, recording: Recording) -> None:
        super().__init__(reason)
        self.recording = recording


class Given(NamedTuple):
    """A program in a file.

    - ``recorded``: when its ops ran; ``device``: the profile of its card; both None where it has none.
    - ``notes``: what to say of a recording before anything else; ``replayed``: the recording of all cards, and the
      replays of the busiest one, with the cost of recording and without.
    """

    schedule: Schedule
    recorded: RecordedTimes | None = None
    device: Device | None = None
    notes: tuple[str, ...] = ()
    replayed: tuple[Recording, Replay, Unrecorded] | None = None


def read_given(path: Path) -> Given:
    """Read the program in a file. Raises InputError naming the file, and what to do."""
    try:
        os.stat(path)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):  # of the others the reader says what is wrong
            raise InputError(f"{path}: cannot read it: no such file or directory; {WRITTEN_BY}") from None
    if kind_given(path) == "recording":
        return replayed(path.name, *read_part(path))
    check_no_part()
    file = read_program(path)
    device = parse_device(file.profile, f"{path}: profile") if file.profile else None
    return Given(file.schedule, file.recorded, device, file.notes)


def read_part(path: Path) -> tuple[Recording, float | None]:
    """Return what the options choose of a recording, and the seconds of its program without a profiler if known."""
    part, whole = part_asked(), read_recording(path)
    is_without_first = "skip_first" in part
    recording = part_of(whole, part.get("gpu"), part.get("process"), part.get("window"), is_without_first)
    if "untraced_time" in part or is_without_first:
        return recording, part.get("untraced_time")
    card, _ = busiest_card(recording)
    return recording, untraced_time_s(whole, part.get("window"), None if card < 0 else card)


def replayed(name: str, recording: Recording, untraced_s: float | None, on: Device | None = None) -> Given:
    """Return the program of the card with most work, without the cost of recording it, by the profile of its card.

    ``name``: of the recording's file; ``on``: another device. Raises NotReplayedError.
    """
    card, others = busiest_card(recording)
    part = part_of(recording, card) if others else recording
    try:
        device = profile_of(part, on)
        found, without = replay(part, device), without_recording(part, device, untraced_s, name)
    except InputError as error:
        raise NotReplayedError(str(error), recording) from None
    notes = [line for line in (assumptions_of(device), *warnings_of(found, without)) if line]
    if others:
        left = ", ".join(map(str, others))
        which = f"this is card {card}; --gpu N takes another one (N: {left})"
        notes.insert(0, f"{name}: work on {len(others) + 1} cards; {which}")
    times = recorded_times(part, without.program)
    return Given(without.program.schedule, times, device, tuple(notes), (recording, found, without))
