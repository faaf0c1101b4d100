"""Schedules as JSON and workloads as TOML.

``streamsim schema schedule|workload`` prints the exact form of each as a JSON Schema. Sizes and times in a workload may
be text with a unit, ``inputs = ["64MiB"]``. A kernel may be text as for ``--kernel``, ``"0.57ms,9us@64Ki"``, or a time
in seconds.

The file of a recorded program may also hold the times of its ops. They belong to the file, because a changed schedule
would have other times. The file of a workload may also say how to cut, issue and predict it (:func:`read_plan`).
"""

import json
import os
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streamsim.errors import InputError
from streamsim.files import (
    Parsers,
    dump_toml,
    explain_json,
    parse_toml,
    read_bytes,
    refuse_duplicates,
    write_bytes,
    write_text,
)
from streamsim.program.recorded_times import RecordedTimes
from streamsim.program.schedule import Schedule
from streamsim.program.workload import Workload
from streamsim.program.workload_text import OF_KERNELS
from streamsim.text import LARGEST_TOML_BYTES, mistaken_for, one_line, parse_bytes, shown

LARGEST_JSON_BYTES = 1 << 30


class ProgramFile(NamedTuple):
    """The content of a schedule's file.

    - ``recorded``: the recorded times of its ops; ``profile``: its card's profile as TOML, or "".
    - ``notes``: sentences to read before use, such as that the replay is far from the recording.
    """

    schedule: Schedule
    recorded: RecordedTimes | None = None
    profile: str = ""
    notes: tuple[str, ...] = ()


class ScheduleFile(Schedule, frozen=True):
    """The fields of a schedule's file: see :class:`ProgramFile`."""

    recorded: RecordedTimes | None = None
    profile: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check nothing: the schedule that is made of the file checks itself."""

    def schedule(self) -> Schedule:
        """Return the schedule. Raises InputError for an impossible one, and for recorded times of other ops."""
        found = Schedule(*(getattr(self, name) for name in Schedule.__struct_fields__))
        if self.recorded is not None and len(self.recorded) != len(found):
            raise InputError(f"recorded: has times of {len(self.recorded)} ops; there are {len(found)}")
        return found


def _size(text: str, path: str) -> int:
    return parse_bytes(text, path, least=0)


class WorkloadFile(Workload, frozen=True):
    """The fields of a workload's file: the workload, and how to cut, issue and predict it unless options say otherwise.

    The names are those of the options. A sweep takes ranges, such as ``chunks = "1..64"``. ``measured`` is for
    ``streamsim diagnose``.
    """

    chunks: int | str | list[int | str] | None = None
    streams: int | str | list[int | str] | None = None
    order: str | list[str] | None = None
    buffers: int | str | list[int | str] | None = None
    memory: str | list[str] | None = None
    launch: str | list[str] | None = None  # type: ignore[assignment]  # a method of workloads, which files have not
    device: str | list[str] | None = None
    measured: str | list[str] | None = None


PLAN = WorkloadFile.__struct_fields__[len(Workload.__struct_fields__) :]

# The parsers of text in a workload: sizes of arrays, and text of kernels.
_PARSERS: Parsers = {**dict.fromkeys(("inputs", "outputs", "h2d_once", "d2h_once"), _size), **OF_KERNELS}


def read_schedule(path: str | os.PathLike[str]) -> Schedule:
    """Return the schedule in a JSON file. Raises InputError naming the file, the field and the value."""
    return read_program(path).schedule


def read_program(path: str | os.PathLike[str]) -> ProgramFile:
    """Return everything in a schedule's JSON file. Raises InputError like :func:`read_schedule`."""
    return _parse_schedule(read_bytes(path, LARGEST_JSON_BYTES), one_line(str(path)))


def read_workload(path: str | os.PathLike[str]) -> Workload:
    """Return the workload in a TOML file. Raises InputError naming the file, the field and the value."""
    return parse_workload(read_bytes(path, LARGEST_TOML_BYTES), one_line(str(path)))


def read_plan(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return how the file of a workload says to cut, issue and predict it, by option name; empty if it is no TOML.

    A device's file may stand beside it. Raises InputError if the file cannot be read.
    """
    try:
        table = tomllib.loads(read_bytes(path, LARGEST_TOML_BYTES).decode())
    except (ValueError, RecursionError):
        return {}  # read_workload says why
    plan = {name: value for name, value in table.items() if name in PLAN}
    if isinstance(device := plan.get("device"), str) and (own := Path(path).parent / device).is_file():
        plan["device"] = str(own)
    return plan


def _without_plan(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in PLAN}


def write_schedule(
    schedule: Schedule,
    path: str | os.PathLike[str],
    recorded: RecordedTimes | None = None,
    profile: str = "",
    notes: tuple[str, ...] = (),
) -> None:
    """Save ``schedule`` as JSON, one op a line, with the ``recorded`` times of its ops if they are given.

    ``profile``, ``notes``: see :class:`ProgramFile`. Raises InputError if the file cannot be written.
    """
    write_bytes(dump_schedule(schedule, recorded, profile, notes), path)


def write_workload(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Save ``workload`` as TOML. Raises InputError if the file cannot be written."""
    write_text(dump_workload(workload), path)


def dump_schedule(
    schedule: Schedule, recorded: RecordedTimes | None = None, profile: str = "", notes: tuple[str, ...] = ()
) -> bytes:
    """Return ``schedule`` as JSON in UTF-8, one op a line.

    The last line holds the unchunked program, the ``recorded`` times, the card's ``profile`` and the ``notes``.
    """
    encode = msgspec.json.Encoder().encode
    head = {
        name: getattr(schedule, name) for name in schedule.__struct_fields__[::-1] if name not in ("ops", "unchunked")
    }
    try:
        ops = b",\n".join(map(encode, schedule.ops))
        tail = b"" if schedule.unchunked is None else b',"unchunked":' + encode(schedule.unchunked)
        tail += b"" if recorded is None else b',"recorded":' + encode(recorded)
        tail += b',"profile":' + encode(profile) if profile else b""
        tail += b',"notes":' + encode(notes) if notes else b""
        return encode(head)[:-1] + b',"ops":[\n' + ops + b"\n]" + tail + b"}\n"
    except UnicodeEncodeError as error:
        raise InputError(f"schedule: {shown(error.object)} is not text that UTF-8 can hold") from None


def dump_workload(workload: Workload) -> str:
    """Return ``workload`` as TOML."""
    return dump_toml(workload)


def parse_schedule(data: bytes, where: str = "schedule") -> Schedule:
    """Return the schedule in the JSON ``data``. Raises InputError that begins with ``where``."""
    return _parse_schedule(data, where).schedule


def _parse_schedule(data: bytes, where: str) -> ProgramFile:
    try:
        file = msgspec.json.decode(data, type=ScheduleFile)
        schedule, said = file.schedule(), (file.recorded, file.profile, file.notes)
        if dump_schedule(schedule, *said) != data:  # a file that we wrote names nothing twice
            json.loads(data, object_pairs_hook=refuse_duplicates)
        return ProgramFile(schedule, *said)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, InputError) else explain_json(error, data, Schedule)
        raise InputError(one_line(f"{where}: {mistaken_for('schedule', data) or reason}")) from None


def parse_workload(text: str | bytes, where: str = "workload") -> Workload:
    """Return the workload in the TOML ``text``. Raises InputError that begins with ``where``."""
    data = text.encode() if isinstance(text, str) else text
    return parse_toml(data, Workload, "workload", where, _PARSERS, _without_plan)
