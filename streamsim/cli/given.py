"""A program that a command is given: the file of a schedule, or what a profiler recorded of a program."""

import os
from pathlib import Path
from typing import NamedTuple

from streamsim.device import Device, assumptions_of, known_within, parse_device
from streamsim.errors import InputError
from streamsim.program import RecordedTimes, Schedule, read_program
from streamsim.recorded import (
    Recording,
    Replay,
    Unrecorded,
    busiest_card,
    calls_before,
    kind_given,
    part_of,
    profile_of,
    recorded_times,
    replay,
    warnings_of,
    without_recording,
)
from streamsim.text import format_ratio, one_line

# Suffixes of files that hold a program: told by their content which of the formats it is.
SUFFIXES = (".json", ".gz", ".sqlite", ".sqlite3", ".db", ".nsys-rep", ".qdrep")


WRITTEN_BY = "streamsim code --as schedule -o FILE writes a schedule, streamsim predict --recording FILE a recording"


class Given(NamedTuple):
    """A program. ``recorded``: when its ops ran; ``device``: the profile of its card; both None where it has none.

    ``notes``: what to say of a recording before anything else.
    """

    schedule: Schedule
    recorded: RecordedTimes | None = None
    device: Device | None = None
    notes: tuple[str, ...] = ()


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
        from streamsim.recorded import read_recording

        return _recorded(read_recording(path), path)
    file = read_program(path)
    device = parse_device(file.profile, f"{path}: profile") if file.profile else None
    return Given(file.schedule, file.recorded, device, file.notes)


def _recorded(recording: Recording, path: Path) -> Given:
    """Return the recorded program of the card with most work, without the cost of recording it."""
    card, others = busiest_card(recording)
    recording = part_of(recording, card) if others else recording
    device = profile_of(recording)
    found = without_recording(recording, device, name=path.name)
    notes = notes_on(device, replay(recording, device), found)
    if others:
        left = ", ".join(map(str, others))
        others_by = f"streamsim import --gpu N takes another one (N: {left})"
        notes.insert(0, f"{path.name}: work on {len(others) + 1} cards; this is card {card}; {others_by}")
    times = recorded_times(recording, found.program)
    return Given(found.program.schedule, times, device, tuple(notes))


def notes_on(device: Device, found: Replay, without: Unrecorded) -> list[str]:
    """Return the assumptions on a recording's card, its replay's bad errors, and calls that should be made before."""
    first = calls_before(without.program.schedule, device)
    more = f"{first.words}: {format_ratio(first.gain, known_within(device))} as fast" if first else ""
    return [line for line in (assumptions_of(device), *warnings_of(found, without), more) if line]
