"""The readers by themselves, as programs: what a file or a text is read as is a value, which is written and read again.

Most of what goes wrong in a command goes wrong in its reader, which takes a tenth of the time.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamsim.cli.printing import parse_condition
from streamsim.device import changed, dump_device, load_device, parse_device, parse_settings, read_device
from streamsim.errors import InputError, Notice
from streamsim.files import dump_toml
from streamsim.program import (
    dump_schedule,
    parse_kernel,
    parse_schedule,
    parse_workload,
    read_schedule,
    read_workload,
    workload_of_sizes,
)
from streamsim.recorded import read_recording, summarise
from streamsim.search import read_asked, sweep_of
from streamsim.text import expand, parse_bandwidth, parse_buffers, parse_bytes, parse_count, parse_seconds, parse_share
from streamsim_validate.calibrate import read_samples
from streamsim_validate.records import read_record

OK, BAD, OTHER = 0, 2, 99  # OTHER: read again, it is another value


def main(arguments: list[str]) -> int:
    """``arguments``: a name of ``FILES`` or ``TEXTS``, and the file or the text."""
    kind, what = arguments
    try:
        with warnings.catch_warnings(action="ignore", category=Notice):
            return OK if (FILES[kind](Path(what)) if kind in FILES else TEXTS[kind](what)) else OTHER
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


def _kernel(text: str) -> None:
    workload_of_sizes([1 << 20], [parse_kernel(text)], [])


def _setting(text: str) -> None:
    device = load_device("ideal")
    changed(device, parse_settings([text]))


FILES: dict[str, Callable[[Path], bool]] = {
    "schedule": _and_again(read_schedule, dump_schedule, parse_schedule),
    "workload": _and_again(read_workload, dump_toml, parse_workload),
    "device": _and_again(read_device, dump_device, parse_device),
    "sweep": _done(lambda path: sweep_of(read_asked(path))),
    "record": _done(read_record),
    "samples": _done(read_samples),
    "recording": _done(lambda path: summarise(read_recording(path))),
}
TEXTS: dict[str, Callable[[str], bool]] = {
    "bytes": _done(parse_bytes),
    "count": _done(parse_count),
    "seconds": _done(parse_seconds),
    "share": _done(parse_share),
    "bandwidth": _done(parse_bandwidth),
    "kernel": _done(_kernel),
    "setting": _done(_setting),
    "sizes": _done(lambda text: expand(text, "sizes", parse_bytes, step_by_one=False)),
    "counts": _done(lambda text: expand(text, "counts", parse_count)),
    "times": _done(lambda text: expand(text, "times", parse_seconds, whole=False, step_by_one=False)),
    "buffers": _done(parse_buffers),
    "device": _done(load_device),
    "tolerance": _done(parse_condition),
}
