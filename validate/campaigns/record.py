"""Records of pipelines.cu: what it measured, with the profile that was calibrated on the same card just before.

python -m campaigns.record pipelines.json profile.toml 2026-11-22 ../records/programs-h100.json.gz
"""

from __future__ import annotations

import gzip
import statistics
import sys
from itertools import groupby
from pathlib import Path
from typing import Literal

import msgspec

from streamsim.device.files import parse_device
from streamsim.errors import InputError
from streamsim.files.atomic_files import write_bytes
from streamsim.text.shown import one_line

CALLS_OF = (1, 4, 16)  # the streams that the host's calls were probed with

Three = tuple[float, float, float]
Curve = tuple[tuple[int, float], ...]  # elements and us of a launch, ascending
Order = Literal["depth-first", "breadth-first"]


class Program(msgspec.Struct, frozen=True):
    """A program and the quartiles of its rounds, the middle one the median."""

    order: Order
    chunks: int
    streams: int
    wall_us: Three


class Group(msgspec.Struct, frozen=True):
    """The programs of a kernel and a size, measured together.

    ``copies_us``, ``chunk_us``: what the host spent on the calls of a chunk, two copies or copy, kernel and copy, over
    as many streams as ``CALLS_OF`` says.
    """

    kernel: str
    elements: int
    copies_us: Three
    chunk_us: Three
    programs: tuple[Program, ...]


class Record(msgspec.Struct, frozen=True):
    """One run of the program. ``profile``: TOML, calibrated on the same card just before."""

    card: str
    date: str
    rounds: int
    profile: str
    curves: dict[str, Curve]
    groups: tuple[Group, ...]


class _Line(msgspec.Struct, frozen=True):
    kernel: str
    elements: int
    chunks: int
    streams: int
    order: Order
    copies_us: Three
    chunk_us: Three
    wall_us: tuple[float, ...]


class _Output(msgspec.Struct, frozen=True):
    card: str
    rounds: int
    curves: dict[str, Curve]
    programs: tuple[_Line, ...]


def make_record(output: bytes, profile: bytes, date: str) -> Record:
    """A record of the program's ``output``. Raises InputError for output or a profile that is not whole."""
    try:
        run = msgspec.json.decode(output, type=_Output)
    except (ValueError, RecursionError) as error:
        raise InputError(one_line(f"the program's output: {error}; run it again")) from None
    device = parse_device(profile, "the profile")
    if run.card not in device.description:
        raise InputError(f"the profile: {device.description!r} is not of the card that was measured, {run.card}")
    groups = groupby(run.programs, key=lambda line: (line.kernel, line.elements, line.copies_us, line.chunk_us))
    found = tuple(Group(*what, tuple(_program(line, run.rounds) for line in lines)) for what, lines in groups)
    return Record(run.card, date, run.rounds, profile.decode(), run.curves, found)


def write_record(record: Record, path: Path) -> None:
    """The same record gives the same bytes."""
    write_bytes(gzip.compress(msgspec.json.encode(record), 9, mtime=0), path)


def read_record(path: Path) -> Record:
    return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Record)


def _program(line: _Line, rounds: int) -> Program:
    if len(line.wall_us) != rounds or min(line.wall_us, default=0) <= 0:
        what = f"{line.kernel} of {line.elements} elements in {line.chunks} chunks over {line.streams} streams"
        raise InputError(f"the program's output: {what}: expected {rounds} times above 0; run it again")
    quartiles = statistics.quantiles(line.wall_us, method="inclusive")
    low, middle, high = (round(us, 2) for us in quartiles)
    return Program(line.order, line.chunks, line.streams, (low, middle, high))


def main(arguments: list[str]) -> None:
    """Make a record from files."""
    try:
        output, profile, date, path = arguments
    except ValueError:
        raise SystemExit(__doc__) from None
    try:
        record = make_record(Path(output).read_bytes(), Path(profile).read_bytes(), date)
        write_record(record, Path(path))
    except (InputError, OSError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
