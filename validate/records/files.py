"""The files of records: a journal while the record is being measured, then gzipped JSON.

A journal has one JSON object a line: a header; for each process :class:`RunBegins`, entries,
:class:`RunEnds`, time lines. Each settled schedule is appended at once. So whatever stops the program, its measurements
stand in the journal, and the run can be resumed. :func:`finish` turns a journal into a record.

A file of some kilobytes can unpack to gigabytes, and a byte of JSON can become forty in memory. So no more is read than
a run could have measured.
"""

import contextlib
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from streamsim.errors import InputError
from streamsim.files import check_writable, read_bytes, write_bytes
from streamsim.text import GZIP_MAGIC, LARGEST_TOML_BYTES, WORDS, kind_of, mistaken_for
from streamsim_validate.records.record import SCHEMA_VERSION, Card, Entry, Machine, Record, Run, this_machine

LARGEST_BYTES = 1 << 27  # packed, and unpacked: forty times the record of the suite standard
MOST_VALUES = 6_000_000  # twenty times those of that record; in memory they take less than a gigabyte


def unzipped(data: bytes) -> bytes:
    """Return the content of gzipped ``data``.

    Raises InputError if it is larger or holds more values than any file of measurements, EOFError if its end is
    missing, and ValueError if it is damaged.
    """
    decompressor = zlib.decompressobj(wbits=31)  # gzip
    try:
        plain = decompressor.decompress(data, LARGEST_BYTES)
    except zlib.error as error:
        raise ValueError(error) from None
    if decompressor.unconsumed_tail:
        raise InputError(f"unpacks to more than {LARGEST_BYTES} bytes; no run measures that much")
    if not decompressor.eof:
        raise EOFError("is truncated")
    return check_values(plain)


def check_values(data: bytes) -> bytes:
    """Return the document unchanged. Raises InputError if it has more values than any run measures."""
    if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:  # one of them stands before every value
        raise InputError(f"holds more than {MOST_VALUES} values; no run measures that many")
    return data


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the file before every message of an InputError that is raised in this context."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def check_version(version: int, known: int = SCHEMA_VERSION) -> None:
    """Raise InputError unless files of that version can be read."""
    if version != known:
        raise InputError(
            f"schema_version = {version}: this streamsim-validate reads {known}; use the version that wrote it, or"
            " measure again"
        )


JOURNAL_SUFFIX = ".journal"


class Header(msgspec.Struct, frozen=True, tag_field="line", tag="header"):
    """The first line of a journal.

    ``kernels``: a fingerprint of the user's files of kernels, "" for none. ``task``: a fingerprint of the tuned
    workload, "" for a suite or schedules.
    """

    card: Card
    machine: Machine
    suite: str
    streamsim: str
    kernels: str = ""
    task: str = ""
    schema_version: int = SCHEMA_VERSION


class RunBegins(msgspec.Struct, frozen=True, tag_field="line", tag="begin"):
    """The line of a process that begins to measure the entries behind it. ``samples``: its first calibration."""

    connections: int
    started: str
    seed: int
    repeats: int
    samples: dict[str, Any] | None = None
    count: int = 0


class RunEnds(msgspec.Struct, frozen=True, tag_field="line", tag="end"):
    """The line of a process that has measured everything. ``samples``: its last calibration."""

    finished: str
    samples: dict[str, Any] | None = None


Line = Header | RunBegins | Entry | RunEnds


def header(card: Card, suite: str, kernels: str = "", task: str = "") -> Header:
    """Return the header of a record measured now, here."""
    try:
        found = version("streamsim")
    except PackageNotFoundError:  # run from a source tree
        found = "unknown"
    return Header(card, this_machine(), suite, found, kernels, task)


def journal_path(record: str | os.PathLike[str]) -> Path:
    """Return the path of the journal of a record."""
    return Path(f"{os.fspath(record)}{JOURNAL_SUFFIX}")


def check_unused(record: str | os.PathLike[str]) -> None:
    """Raise InputError unless a file can be written there, and none is there: it would not be replaced.

    The name of a journal is refused, too.
    """
    check_writable(record)
    if os.fspath(record).endswith(JOURNAL_SUFFIX):
        raise InputError(f"{record}: is the name of an unfinished record; choose one that ends otherwise")
    if os.path.exists(record):
        raise InputError(f"{record}: there is such a file already; move it away, or choose another output")


class Journal(contextlib.AbstractContextManager["Journal"]):
    """A writer of a journal. Each line is in the file when :meth:`append` returns."""

    def __init__(self, path: Path, first: Header) -> None:
        """Open or begin the journal. A line that was cut off is dropped.

        Raises InputError if it is of another card or suite, cannot be written, or has become a record.
        """
        self.path = path
        check_unused(path.with_name(path.name.removesuffix(JOURNAL_SUFFIX)))
        data = read_bytes(path, LARGEST_BYTES) if path.exists() else b""
        self.lines = lines_of(path, data)
        if self.lines:
            self._check(first)
        try:
            self._file = open(path, "ab")  # noqa: SIM115  (open for as long as the journal is)
            self._file.truncate(data.rfind(b"\n") + 1)
        except OSError as error:
            raise self._error(error) from None
        if not self.lines:
            self.append(first)

    def _error(self, error: OSError) -> InputError:
        return InputError(f"{self.path}: cannot write the journal: {error.strerror}")

    def _not_resumed(self, why: str) -> InputError:
        return InputError(f"{self.path}: cannot resume: {why}; choose another output")

    def _check(self, first: Header) -> None:
        found = self.lines[0]
        assert isinstance(found, Header), "lines_of checks"
        for what, was, is_now in (
            ("card", found.card.name, first.card.name),
            ("driver", found.card.driver, first.card.driver),
            ("suite", found.suite, first.suite),
        ):
            if was != is_now:
                raise self._not_resumed(f"its {what} is {was!r} and this one {is_now!r}")
        if found.kernels != first.kernels:
            raise self._not_resumed("the files of --kernels are not what they were when it was begun")
        if found.task != first.task:
            raise self._not_resumed("another workload was tuned")

    def append(self, line: Line) -> None:
        """Write one line."""
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()
        except OSError as error:
            raise self._error(error) from None
        self.lines.append(line)

    def check_same(self, entry: Entry, digest: str | None) -> None:
        """Raise InputError unless the schedule of an entry has this digest."""
        if digest != entry.digest:
            raise self._not_resumed(f"it has measured another schedule {entry.key!r} than is asked for now")

    def entries(self, connections: int) -> Iterator[Entry]:
        """Return the entries with this number of connections: for each schedule the last one with most samples."""
        runs = (run for run in fold(self.lines).runs if run.connections == connections)
        return (entry for run in runs for entry in run.entries)

    def complete(self, connections: int, repeats: int) -> set[str]:
        """Return the keys of the entries that need not be measured again.

        What did not fit or broke the context is not measured again, either.
        """
        return {
            entry.key
            for entry in self.entries(connections)
            if (len(entry.wall_s) >= repeats if entry.status == "ok" else entry.status.startswith(("skipped", "lost")))
        }

    @property
    def unended(self) -> int | None:
        """The number of connections of the run that began last, unless it has ended."""
        bounds = [line for line in self.lines if isinstance(line, RunBegins | RunEnds)]
        return bounds[-1].connections if bounds and isinstance(bounds[-1], RunBegins) else None

    @property
    def next_group(self) -> int:
        """The first number that no group has yet."""
        return 1 + max((line.group for line in self.lines if isinstance(line, Entry)), default=0)

    def close(self) -> None:
        """Close the file; what could not be written has been complained of."""
        with contextlib.suppress(OSError):
            self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journal(path: Path) -> list[Line]:
    """Return the whole lines of a journal. Raises InputError naming the line that is damaged."""
    return lines_of(path, read_bytes(path, LARGEST_BYTES))


def lines_of(path: Path, data: bytes) -> list[Line]:
    """Return the whole lines in the ``data`` of the journal ``path``. Raises InputError naming a damaged line."""
    lines: list[Line] = []
    with naming(path):
        check_values(data)
        for number, text in enumerate(data.split(b"\n")[:-1], 1):
            try:
                lines.append(msgspec.json.decode(text, type=Line))
            except (ValueError, RecursionError) as error:
                raise InputError(f"line {number} is damaged ({error}); remove it and resume") from None
        for first in lines[:1]:
            if not isinstance(first, Header):
                raise InputError("is not a journal: its first line is no header; choose another output")
            check_version(first.schema_version)
    return lines


def fold(lines: list[Line]) -> Record:
    """Return the record of a journal's lines, without the profiles of its calibrations.

    If a schedule was measured several times, the last entry with the most samples stays.
    """
    first = lines[0]
    assert isinstance(first, Header), "read_journal checks"
    runs: list[Run] = []
    for line in lines[1:]:
        if isinstance(line, RunBegins):
            begun = Run(line.connections, line.started, line.seed, line.repeats, samples=line.samples, count=line.count)
            runs.append(begun)
        elif isinstance(line, Entry) and runs:
            runs[-1] = replace(runs[-1], entries=(*runs[-1].entries, line))
        elif isinstance(line, RunEnds) and runs:
            runs[-1] = replace(runs[-1], finished=line.finished, samples_after=line.samples)
    return Record(first.card, first.machine, first.suite, tuple(_without_superseded(runs)), first.streamsim)


def _without_superseded(runs: list[Run]) -> Iterator[Run]:
    best: dict[tuple[int, str], Entry] = {}
    for run in runs:
        for entry in run.entries:
            place = (run.connections, entry.key)
            if place not in best or len(entry.wall_s) >= len(best[place].wall_s):
                best[place] = entry
    for run in runs:
        kept = tuple(entry for entry in run.entries if best[run.connections, entry.key] is entry)
        if kept or not run.entries:
            yield replace(run, entries=kept)


def write_record(record: Record, path: str | os.PathLike[str]) -> None:
    """Write a record, whole or not at all; the same record gives the same bytes."""
    write_bytes(gzip.compress(msgspec.json.encode(record), mtime=0), path)


class _Versioned(msgspec.Struct):
    schema_version: int


def read_record(path: str | os.PathLike[str]) -> Record:
    """Return the record in a file, or in the journal of an unfinished one.

    Raises InputError with one line if it is truncated, damaged or of another schema version.
    """
    where = Path(path)
    journal = journal_path(where)
    if os.path.exists(journal) and not os.path.exists(where):  # no error for a name that is too long
        raise InputError(f"{path}: there is no such record yet; resume its journal, or give that: {journal}")
    data = read_bytes(where, LARGEST_BYTES)
    kind = kind_of(data)
    is_journal = kind == "journal" or (where.name.endswith(JOURNAL_SUFFIX) and kind != "record")
    if mistaken := mistaken_for("journal" if is_journal else "record", data):
        raise InputError(f"{path}: {mistaken}")
    if is_journal:
        lines = lines_of(where, data)
        if not lines:
            raise InputError(f"{path}: is empty; measure again")
        return fold(lines)
    with naming(path):
        try:
            plain = unzipped(data) if data.startswith(GZIP_MAGIC) or kind != "record" else check_values(data)
            check_version(msgspec.json.decode(plain, type=_Versioned).schema_version)
            return msgspec.json.decode(plain, type=Record)
        except EOFError as error:
            resume = f", or resume its journal ({journal.name})" if journal.exists() else ""
            raise InputError(f"{error}; copy it again{resume}") from None
        except InputError:
            raise
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors, and so is bad UTF-8
            raise InputError(f"is not a record, or a damaged one ({error}); measure again") from None


def finish(
    journal: Path, record: str | os.PathLike[str], complete: Callable[[Record], Record] = lambda found: found
) -> Record:
    """Write the record that the journal holds, after ``complete``, and remove the journal.

    Raises InputError if it cannot be written, or if there is a file of its name.
    """
    check_unused(record)
    found = complete(fold(read_journal(journal)))
    write_record(found, record)
    journal.unlink()
    return found


def check_replaceable(path: Path, kind: str) -> None:
    """Raise InputError unless a file of that ``kind`` can be written to ``path``.

    A file of another kind is never replaced. Kinds are recognised by their content.
    """
    check_writable(path)
    if os.path.isfile(path):
        with open(path, "rb") as file:
            data = file.read(LARGEST_TOML_BYTES)
        if data and kind_of(data) != kind:
            why = f"there is such a file already, and not {WORDS[kind].partition(',')[0]}"
            raise InputError(f"{path}: {why}; move it away, or choose another output")
