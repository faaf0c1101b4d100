"""A program that a command is given: the file of a schedule, or what a profiler recorded of a program."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import click

from streamsim.device import Device, assumptions_of, parse_device
from streamsim.errors import InputError
from streamsim.program import RecordedTimes, Schedule, read_program
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
from streamsim.text import one_line

# Suffixes of files that hold a program: told by their content which of the formats it is.
SUFFIXES = (".json", ".gz", ".sqlite", ".sqlite3", ".db", ".nsys-rep", ".qdrep")


WRITTEN_BY = "streamsim code --as schedule -o FILE writes a schedule, streamsim predict --recording FILE a recording"


PART = "streamsim.part"  # what a click context knows of it


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
    """A program. ``recorded``: when its ops ran; ``device``: the profile of its card; both None where it has none.

    ``notes``: what to say of a recording before anything else; ``replayed``: the recording of all cards, and the
    replays of the busiest one, with the cost of recording and without.
    """

    schedule: Schedule
    recorded: RecordedTimes | None = None
    device: Device | None = None
    notes: tuple[str, ...] = ()
    replayed: tuple[Recording, Replay, Unrecorded] | None = None


def is_program(path: Path) -> bool:
    """Return True if a file is a schedule or a recording, by its name or else by its content, and not a workload."""
    return path.suffix.lower() in SUFFIXES or kind_given(path) != ""


def check_there(path: Path) -> None:
    """Raise InputError if there is no file at ``path``, and say what writes the file of a program."""
    try:
        os.stat(path)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):  # of the others the reader says what is wrong
            raise InputError(one_line(f"{path}: cannot read it: no such file or directory; {WRITTEN_BY}")) from None


def read_given(path: Path) -> Given:
    """Read the program in a file. Raises InputError naming the file, and what to do."""
    check_there(path)
    if kind_given(path) == "recording":
        return replayed(path.name, *read_part(path))
    check_no_part()
    file = read_program(path)
    device = parse_device(file.profile, f"{path}: profile") if file.profile else None
    return Given(file.schedule, file.recorded, device, file.notes)


def read_part(path: Path) -> tuple[Recording, float | None]:
    """Return what the options choose of a recording, and the seconds of its program without a profiler if known."""
    part, whole = part_asked(), read_recording(path)
    window, is_without_first = part.get("window"), "skip_first" in part
    recording = part_of(whole, part.get("gpu"), part.get("process"), window, is_without_first)
    if "untraced_time" in part or is_without_first:
        return recording, part.get("untraced_time")
    card, _ = busiest_card(recording)
    return recording, untraced_time_s(whole, window, None if card < 0 else card)


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
    notes = notes_on(device, found, without)
    if others:
        left = ", ".join(map(str, others))
        which = f"this is card {card}; --gpu N takes another one (N: {left})"
        notes.insert(0, f"{name}: work on {len(others) + 1} cards; {which}")
    times = recorded_times(part, without.program)
    return Given(without.program.schedule, times, device, tuple(notes), (recording, found, without))


def notes_on(device: Device, found: Replay, without: Unrecorded) -> list[str]:
    """Return the assumptions on a recording's card, and its replay's bad errors."""
    return [line for line in (assumptions_of(device), *warnings_of(found, without)) if line]
