"""Records: files of measured runs, raw samples included, so that a comparison needs no card.

A record is gzipped JSON. While it is being measured it is a journal, one JSON object a line, to which every
settled schedule is appended at once: whatever stops the program, what was measured stands in the journal and
the run can be resumed. :func:`finish` turns the journal into the record.
"""

import contextlib
import gzip
import os
import platform
import statistics
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from streamsim.checks import LONGEST_S
from streamsim.device.files import without_retired
from streamsim.device.profile import Device
from streamsim.errors import InputError
from streamsim.files.atomic_files import write_bytes
from streamsim.files.locks import try_lock
from streamsim.program.schedule import Schedule
from streamsim.text.recognise import kind_of, mistaken_for
from streamsim.text.shown import one_line
from streamsim_validate.gpu.card import Card
from streamsim_validate.suites.suites import Case, digest

SCHEMA_VERSION = 2
# Files of version 1 left these out of a workload where it had them; since then, what is left out is not there.
VERSION_1_WORKLOAD = {"inputs": [4], "outputs": [4], "kernels": [{"duration_s": 1e-3}]}
READABLE = (1, SCHEMA_VERSION)
LONGEST_NS = round(LONGEST_S * 1e9)
LARGEST_RECORD_BYTES = 1 << 28
JOURNAL_SUFFIX = ".journal"
GZIP_LEVEL = 9

Times = tuple[float, ...]
# A probe: kind, size and length of its chain, and of each of its runs device_s, wall_s and issue_s.
Row = tuple[str, int, int, tuple[tuple[float, float, float], ...]]


class Machine(msgspec.Struct, frozen=True):
    """The host that issued the calls."""

    system: str
    processor: str
    processors: int
    python: str


class Spans(msgspec.Struct, frozen=True):
    """A measured time line: when each copy and kernel of a schedule started and ended, in issue order.

    Nanoseconds on the card's clock since the first of them started. Seen by the profiler in a run of its own,
    because tracing slows the host: for order, engines, gaps and durations, not for the whole time.
    """

    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.start_ns) != len(self.end_ns):
            raise InputError("timeline: start_ns and end_ns have different numbers of ops")
        times = (*self.start_ns, *self.end_ns)
        if times and not 0 <= min(times) <= max(times) <= LONGEST_NS:
            raise InputError(f"timeline: expected times from 0 to {LONGEST_NS} ns")


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="line", tag="entry"):
    """A schedule and its samples, in seconds (see :mod:`streamsim_validate.gpu.replay` for what each time is).

    The schedule is a suite's ``case`` or a ``schedule`` given whole. ``status`` is "ok", or says why it was
    skipped or failed. ``verified``: its output was compared; False when it names none. ``timeline``: where
    the run was told to trace. ``group``: number of the :class:`Group` in which it was measured, 0 for none.
    """

    key: str
    digest: str
    status: str = "ok"
    verified: bool = False
    case: Case | None = None
    schedule: Schedule | None = None
    device_s: Times = ()
    wall_s: Times = ()
    issue_s: Times = ()
    timeline: Spans | None = None
    group: int = 0

    def __post_init__(self) -> None:
        if not len(self.device_s) == len(self.wall_s) == len(self.issue_s):
            raise InputError(f"entry {self.key!r}: device_s, wall_s and issue_s have different numbers of samples")

    def build(self) -> Schedule:
        """The schedule that was measured.

        Raises InputError when the pattern builds another one today than when it was measured.
        """
        schedule = self.schedule if self.case is None else self.case.schedule()
        if schedule is None:
            raise InputError(f"entry {self.key!r}: has neither a case nor a schedule; measure it again")
        if digest(schedule) != self.digest:
            raise InputError(f"entry {self.key!r}: its pattern builds another schedule now; measure it again")
        return schedule

    @property
    def effect(self) -> str:
        """The effect that the case is there to show."""
        return "" if self.case is None else self.case.effect


class Group(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="line", tag="group"):
    """Schedules whose repeats were interleaved, by number from 1, and the probes measured among them, in seconds.

    They say what the host's calls cost in those seconds (:mod:`streamsim_validate.compare.profiles`).
    """

    number: int
    probes: tuple[Row, ...] = ()


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one process measured, with one number of connections.

    ``before`` and ``after``: the device profile calibrated then, as plain data so that a record outlives
    changes of the profile's form; see :meth:`profile`. ``samples`` and ``samples_after``: what they were fitted to,
    likewise. ``groups``: what was probed meanwhile. ``seed``: of the order of the repeats and, with the number
    ``count`` of them (0 for the other suites), of the schedules of the suite ``random``.
    """

    connections: int
    started: str
    seed: int
    repeats: int
    finished: str = ""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    entries: tuple[Entry, ...] = ()
    samples: dict[str, Any] | None = None
    samples_after: dict[str, Any] | None = None
    groups: tuple[Group, ...] = ()
    count: int = 0

    def profile(self, when: str = "before") -> Device | None:
        """The profile calibrated ``"before"`` or ``"after"``; None when there was no calibration.

        Without numbers that profiles no longer have. Raises InputError when it is of another form for another reason.
        """
        plain = getattr(self, when)
        if plain is None:
            return None
        try:
            return msgspec.convert(without_retired(plain)[0], Device)
        except (msgspec.ValidationError, InputError) as error:
            raise InputError(one_line(f"the record's profile {when} the run: {error}; calibrate again")) from None


class Record(msgspec.Struct, frozen=True):
    """Measured runs of one suite on one card."""

    card: Card
    machine: Machine
    suite: str
    runs: tuple[Run, ...]
    streamsim: str = ""
    schema_version: int = SCHEMA_VERSION

    def measured(self) -> Iterator[tuple[Run, Entry]]:
        """Every entry that has samples, with its run."""
        return ((run, entry) for run in self.runs for entry in run.entries if entry.status == "ok" and entry.wall_s)

    def skipped(self) -> Iterator[tuple[Run, Entry]]:
        """Every entry without, with its run; its ``status`` says why."""
        return ((run, entry) for run in self.runs for entry in run.entries if entry.status != "ok" or not entry.wall_s)


def median_and_spread(samples: Times) -> tuple[float, float]:
    """(median, half the distance between the quartiles), in the samples' unit."""
    if len(samples) < 2:
        return (samples[0] if samples else 0.0), 0.0
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return middle, (high - low) / 2


def to_times(values: Iterable[float]) -> Times:
    """Seconds in whole nanoseconds: no clock here resolves more."""
    return tuple(round(value, 9) for value in values)


def this_machine() -> Machine:
    """The host this runs on; no name of it, so that a record can be published."""
    system = f"{platform.system()} {platform.machine()}"
    return Machine(system, _processor(), os.cpu_count() or 1, platform.python_version())


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# Journal: Header, then for each process RunBegins, entries and their groups, RunEnds, time lines.


class Header(msgspec.Struct, frozen=True, tag_field="line", tag="header"):
    """First line of a journal. ``kernels``: a fingerprint of the files of kernels of one's own, "" for none."""

    card: Card
    machine: Machine
    suite: str
    streamsim: str
    kernels: str = ""
    schema_version: int = SCHEMA_VERSION


class RunBegins(msgspec.Struct, frozen=True, tag_field="line", tag="begin"):
    """A process begins to measure; the entries that follow are its own. ``samples``: what it calibrated first."""

    connections: int
    started: str
    seed: int
    repeats: int
    samples: dict[str, Any] | None = None
    count: int = 0


class Traced(msgspec.Struct, frozen=True, tag_field="line", tag="timeline"):
    """The time line of the entry with that key, traced in a process with so many ``connections``."""

    key: str
    timeline: Spans
    connections: int


class RunEnds(msgspec.Struct, frozen=True, tag_field="line", tag="end"):
    """It has measured everything. ``samples``: what it calibrated last."""

    finished: str
    samples: dict[str, Any] | None = None


Line = Header | RunBegins | Entry | Group | Traced | RunEnds


def header(card: Card, suite: str, kernels: str = "") -> Header:
    """The header of a record measured now, here."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("streamsim")
    except PackageNotFoundError:  # run from a source tree
        found = "unknown"
    return Header(card, this_machine(), suite, found, kernels)


def journal_path(record: str | os.PathLike[str]) -> Path:
    """Where the record of that name is while it is being measured."""
    return Path(f"{os.fspath(record)}{JOURNAL_SUFFIX}")


class Journal:
    """Appends lines to a journal; every line is in the file when ``append`` returns."""

    def __init__(self, path: Path, first: Header) -> None:
        """Open or begin the journal. Raises InputError when it is another card's or suite's, or cannot be written."""
        self.path = path
        self.lines = read_journal(path) if path.exists() else []
        self._check(first)
        try:
            if path.exists():
                _drop_torn_line(path)
            self._file = open(path, "ab")  # noqa: SIM115  (open for as long as the journal is)
        except OSError as error:
            raise InputError(one_line(f"{path}: cannot write the journal: {error.strerror}")) from None
        if not try_lock(self._file.fileno()):
            self.close()
            raise InputError(f"{path}: another streamsim-validate writes to it; wait for it, or choose another output")
        if not self.lines:
            self.append(first)

    def _check(self, first: Header) -> None:
        if not self.lines:
            return
        found = self.lines[0]
        assert isinstance(found, Header), "read_journal checks"
        for what, was, now_ in (
            ("card", found.card.name, first.card.name),
            ("driver", found.card.driver, first.card.driver),
            ("suite", found.suite, first.suite),
            ("schema_version", found.schema_version, first.schema_version),
        ):
            if was != now_:
                raise InputError(
                    f"{self.path}: cannot resume: its {what} is {was!r} and this one {now_!r}; choose another output"
                )
        if found.kernels != first.kernels:
            raise InputError(
                f"{self.path}: cannot resume: the files of --kernels are not what they were when it was begun; choose"
                " another output"
            )

    def append(self, line: Line) -> None:
        """Write one line."""
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()
        except OSError as error:
            raise InputError(one_line(f"{self.path}: cannot write the journal: {error.strerror}")) from None
        self.lines.append(line)

    def check_planned(self, connections: int, digests: dict[str, str]) -> None:
        """Raise InputError when other schedules were measured so far than those of these keys and digests."""
        for run in fold(self.lines).runs:
            for entry in run.entries if run.connections == connections else ():
                if digests.get(entry.key) != entry.digest:
                    raise InputError(
                        f"{self.path}: cannot resume: it has measured another schedule {entry.key!r} than is asked for"
                        " now; choose another output"
                    )

    def complete(self, connections: int, repeats: int) -> set[str]:
        """Keys of the entries that need not be measured again."""
        runs = (run for run in fold(self.lines).runs if run.connections == connections)
        return {entry.key for run in runs for entry in run.entries if _is_complete(entry, repeats)}

    def traced(self, connections: int) -> set[str]:
        """Keys of the entries that have a time line."""
        return {key for number, key in _timelines(self.lines) if number == connections}

    @property
    def unended(self) -> int | None:
        """The number of connections of the run that began last, unless it has ended."""
        bounds = [line for line in self.lines if isinstance(line, RunBegins | RunEnds)]
        return bounds[-1].connections if bounds and isinstance(bounds[-1], RunBegins) else None

    @property
    def next_group(self) -> int:
        """The first number that no group has yet."""
        of_entries = (line.group for line in self.lines if isinstance(line, Entry))
        of_groups = (line.number for line in self.lines if isinstance(line, Group))
        return 1 + max((*of_entries, *of_groups), default=0)

    def close(self) -> None:
        """Close the file; what could not be written has been complained of."""
        with contextlib.suppress(OSError):
            self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_complete(entry: Entry, repeats: int) -> bool:
    """What does not fit will not fit; a schedule that broke the card's context would break it again."""
    return len(entry.wall_s) >= repeats if entry.status == "ok" else entry.status.startswith(("skipped", "lost"))


def _drop_torn_line(path: Path) -> None:
    """A line without its end was being written when the program died."""
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        with open(path, "r+b") as file:
            file.truncate(data.rfind(b"\n") + 1)


def read_journal(path: Path) -> list[Line]:
    """The whole lines of a journal. Raises InputError naming the line that is damaged."""
    lines: list[Line] = []
    version = SCHEMA_VERSION
    for number, text in enumerate(_read(path).split(b"\n")[:-1], 1):
        try:
            lines.append(_decode(text, Line, version))
            if number == 1 and isinstance(lines[0], Header):
                version = lines[0].schema_version
        except (ValueError, RecursionError) as error:
            raise InputError(one_line(f"{path}: line {number} is damaged ({error}); remove it and resume")) from None
    if lines and not isinstance(lines[0], Header):
        raise InputError(f"{path}: is not a journal: its first line is no header; choose another output")
    if lines and isinstance(lines[0], Header):
        _check_version(path, lines[0].schema_version)
    return lines


def fold(lines: list[Line]) -> Record:
    """The record that a journal's lines make, without the profiles that its calibrations show.

    Of a schedule measured in several sessions of a resumed run, only the entry with the most samples stays.
    """
    first = lines[0]
    assert isinstance(first, Header), "read_journal checks"
    runs: list[Run] = []
    timelines = _timelines(lines)
    for line in lines[1:]:
        if isinstance(line, RunBegins):
            begun = Run(line.connections, line.started, line.seed, line.repeats, samples=line.samples, count=line.count)
            runs.append(begun)
        elif isinstance(line, Entry) and runs:
            entry = msgspec.structs.replace(line, timeline=timelines.get((runs[-1].connections, line.key)))
            runs[-1] = msgspec.structs.replace(runs[-1], entries=(*runs[-1].entries, entry))
        elif isinstance(line, Group) and runs:
            runs[-1] = msgspec.structs.replace(runs[-1], groups=(*runs[-1].groups, line))
        elif isinstance(line, RunEnds) and runs:
            runs[-1] = msgspec.structs.replace(runs[-1], finished=line.finished, samples_after=line.samples)
    return Record(first.card, first.machine, first.suite, tuple(_without_superseded(runs)), first.streamsim)


def _timelines(lines: list[Line]) -> dict[tuple[int, str], Spans]:
    """By number of connections and key of the entry."""
    return {(line.connections, line.key): line.timeline for line in lines if isinstance(line, Traced)}


def _without_superseded(runs: list[Run]) -> Iterator[Run]:
    best: dict[tuple[int, str], Entry] = {}
    for run in runs:
        for entry in run.entries:
            place = (run.connections, entry.key)
            if place not in best or len(entry.wall_s) > len(best[place].wall_s):
                best[place] = entry
    for run in runs:
        kept = tuple(entry for entry in run.entries if best[run.connections, entry.key] is entry)
        if kept or not run.entries:
            yield msgspec.structs.replace(run, entries=kept)


def finish(
    journal: Path, record: str | os.PathLike[str], complete: Callable[[Record], Record] = lambda found: found
) -> Record:
    """Write the record that the journal holds, once it is complete, and remove the journal.

    Raises InputError when it cannot be written.
    """
    found = complete(fold(read_journal(journal)))
    write_record(found, record)
    journal.unlink(missing_ok=True)
    return found


# Record files


def write_record(record: Record, path: str | os.PathLike[str]) -> None:
    """Write a record, whole or not at all; the same record gives the same bytes."""
    write_bytes(gzip.compress(msgspec.json.encode(record), GZIP_LEVEL, mtime=0), path)


class _Versioned(msgspec.Struct):
    schema_version: int


def read_record(path: str | os.PathLike[str]) -> Record:
    """The record in a file, or in the journal of one that was not finished.

    Raises InputError with one line when it is truncated, damaged or of another schema version.
    """
    where = Path(path)
    data = _read(where)
    is_journal = where.name.endswith(JOURNAL_SUFFIX) or kind_of(data) == "journal"
    if mistaken := mistaken_for("journal" if is_journal else "record", data):
        raise InputError(one_line(f"{path}: {mistaken}"))
    if is_journal:
        lines = read_journal(where)
        if not lines:
            raise InputError(f"{path}: is empty; measure again")
        return fold(lines)
    try:
        plain = _unzip(where, data)
        version = msgspec.json.decode(plain, type=_Versioned).schema_version
        _check_version(where, version)
        record: Record = _decode(plain, Record, version)
        return msgspec.structs.replace(record, schema_version=SCHEMA_VERSION)
    except InputError as error:
        text = str(error)
        raise InputError(one_line(text if text.startswith(str(path)) else f"{path}: {text}")) from None
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors, and so is bad UTF-8
        raise InputError(one_line(f"{path}: is not a record, or a damaged one ({error}); measure again")) from None


def _unzip(path: Path, data: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)  # gzip
    try:
        plain = decompressor.decompress(data, LARGEST_RECORD_BYTES)
    except zlib.error as error:
        raise InputError(f"{path}: is not a record, or a damaged one ({error}); measure again") from None
    if decompressor.unconsumed_tail:
        raise InputError(f"{path}: unpacks to more than {LARGEST_RECORD_BYTES} bytes; no record is that large")
    if not decompressor.eof:
        raise InputError(f"{path}: is truncated; copy it again, or resume its journal ({journal_path(path).name})")
    return plain


def _decode(data: bytes, kind: Any, version: int) -> Any:
    """The ``kind`` (a record, or a line of a journal) that the JSON ``data`` of a file of that version holds."""
    if version != 1:
        return msgspec.json.decode(data, type=kind)
    plain = msgspec.json.decode(data)
    with contextlib.suppress(AttributeError, KeyError, TypeError):  # where it is damaged, its types say so below
        for entry in [entry for run in plain["runs"] for entry in run["entries"]] if kind is Record else [plain]:
            if "case" in entry:
                entry["case"]["workload"] = VERSION_1_WORKLOAD | entry["case"]["workload"]
    return msgspec.convert(plain, kind)


def _check_version(path: Path, version: int) -> None:
    if version not in READABLE:
        raise InputError(
            f"{path}: schema_version = {version}: this streamsim-validate reads {' and '.join(map(str, READABLE))};"
            " use the version that wrote it, or measure again"
        )


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > LARGEST_RECORD_BYTES:
            raise InputError(f"{path}: is larger than {LARGEST_RECORD_BYTES} bytes; no record is that large")
        return path.read_bytes()
    except OSError as error:
        raise InputError(one_line(f"{path}: cannot read it: {error.strerror}")) from None


CALIBRATED_ON = "calibrated on "
AFTER_A_NAME = ("", ",", ";")  # what may stand behind a card's name in a description


def _names(text: str, card: str) -> bool:
    """Whether the text begins with the whole name of the card: an "NVIDIA H200 NVL" is no "NVIDIA H200"."""
    return text.startswith(card) and text[len(card) :].lstrip()[:1] in AFTER_A_NAME


def check_card(record: Record, device: Device) -> None:
    """Raise InputError when the profile is not of the record's card.

    A profile that ``calibrate`` wrote names its card in its description; one that does not name any is
    taken as it is.
    """
    named = device.description
    _, calibrated, on = named.rpartition(CALIBRATED_ON)
    if calibrated and not _names(on, record.card.name):
        raise InputError(
            f"device {device.name!r} is another card's profile ({named}); the record is of {record.card.name}:"
            " use the profile in the record or calibrate that card"
        )
