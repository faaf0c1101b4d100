"""The readers by themselves, as programs: what a file is read as is a value, which is written and read again.

Most of what goes wrong in a command goes wrong in its reader, which takes a tenth of the time.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamsim import program
from streamsim.device import parse_device, read_device
from streamsim.errors import InputError, Notice
from streamsim.files import dump_toml
from streamsim.recorded import read_recording, summarise
from streamsim.search import read_asked, sweep_of
from streamsim_validate.calibrate import read_samples
from streamsim_validate.records import read_record

OK, BAD, OTHER = 0, 2, 99  # OTHER: read again, it is another value


def main(arguments: list[str]) -> int:
    """``arguments``: a name of ``FILES``, and the file."""
    kind, what = arguments
    try:
        with warnings.catch_warnings(action="ignore", category=Notice):
            return OK if FILES[kind](Path(what)) else OTHER
    except InputError as error:
        sys.stderr.write(f"read: error: {error}\n")
        return BAD


def _and_again(
    read: Callable[[Path], Any], dump: Callable[[Any], Any], parse: Callable[[Any], Any]
) -> Callable[[Path], bool]:
    def same(path: Path) -> bool:
        value = read(path)
        return bool(parse(dump(value)) == value)

    return same


def _done(read: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def done(what: Any) -> bool:
        read(what)
        return True

    return done


FILES: dict[str, Callable[[Path], bool]] = {
    "schedule": _and_again(program.read_schedule, program.dump_schedule, program.parse_schedule),
    "workload": _and_again(program.read_workload, dump_toml, program.parse_workload),
    "device": _and_again(read_device, dump_toml, parse_device),
    "sweep": _done(lambda path: sweep_of(read_asked(path))),
    "record": _done(read_record),
    "samples": _done(read_samples),
    "recording": _done(lambda path: summarise(read_recording(path))),
}
