"""The output of a sweep: CSV or JSON lines, written as it goes; a sweep that was stopped goes on.

Beside an unfinished output lies a journal. This small file, replaced in one step, says which combination comes next and
how many bytes of the output belong to those before it. Rows reach the disk before the journal names them. So whenever a
sweep is killed, the rows that the journal knows are whole; what was written after them is cut off, and its combinations
are predicted again. Rows do not depend on when or where they are made, so the file ends up the same, byte for byte.

The process that writes to the file holds a lock on it, and a second process is refused. Before anything is cut off, a
checksum tells whether the rows are those that were written.
"""

from __future__ import annotations

import csv
import io
import os
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args
from zlib import crc32

import msgspec

from streamsim.checks import LARGEST_BYTES, check_whole
from streamsim.errors import InputError
from streamsim.files.atomic_files import file_error, read_bytes, write_bytes
from streamsim.files.locks import this_process, try_lock
from streamsim.search.sweep import RETRIES, Rows, Sweep, sweep_blocks
from streamsim.text.shown import from_cell, one_line, to_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    Progress = Callable[[int, int], None]  # combinations done, of all

Format = Literal["csv", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)
BINARY = getattr(os, "O_BINARY", 0)  # Windows would write other line ends than those that are counted
JOURNAL = ".journal"
COUNTS = ("connections", "elements", "chunks", "streams", "buffers")
LARGEST_JOURNAL_BYTES = BLOCK_BYTES = 1 << 20
TEXT_COLUMNS = ("device", "order", "memory", "launch")


class Journal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a sweep has come: the next combination, the bytes of the output that hold those before it.

    ``sweep``: a fingerprint of what is swept, into what. ``checksum``: the CRC-32 of those bytes. ``left_out``
    combinations have no row: they cannot be issued, the first because of ``reason``, or, ``too_large`` of them, need
    more memory than their card has. ``fastest``: the row with the shortest makespan so far. ``writer``: the process
    that wrote it. Raises InputError when the numbers do not go together.
    """

    sweep: str
    next: int = 0
    bytes: int = 0
    checksum: int = 0
    rows: int = 0
    left_out: int = 0
    reason: str = ""
    too_large: int = 0
    too_large_reason: str = ""
    fastest: list[Any] | None = None
    writer: str = ""

    def __post_init__(self) -> None:
        for name in ("next", "bytes", "rows", "left_out"):
            check_whole(name, getattr(self, name), 0, LARGEST_BYTES)
        if self.rows + self.left_out != self.next:
            raise InputError(f"next = {self.next}: expected the {self.rows} rows and the {self.left_out} left out")
        check_whole("too_large", self.too_large, 0, self.left_out)
        for count, reason in ((self.left_out - self.too_large, self.reason), (self.too_large, self.too_large_reason)):
            if bool(count) != bool(reason):
                raise InputError(f"left_out = {self.left_out}: expected a reason where there is one, and only there")


def journal_after(
    journal: Journal, rows: Rows, columns: tuple[str, ...], n_bytes: int = 0, checksum: int = 0
) -> Journal:
    """``journal`` with the next rows, after which the output has ``n_bytes`` of that checksum."""
    return Journal(
        sweep=journal.sweep,
        next=rows.stop,
        bytes=n_bytes,
        checksum=checksum,
        rows=journal.rows + len(rows.rows),
        left_out=journal.left_out + rows.left_out,
        reason=journal.reason or rows.reason,
        too_large=journal.too_large + rows.too_large,
        too_large_reason=journal.too_large_reason or rows.too_large_reason,
        fastest=_fastest(columns, journal.fastest, rows.rows),
        writer=journal.writer,
    )


def format_of(path: str | os.PathLike[str], given: str | None = None) -> Format:
    """The format by the suffix of ``path``, CSV without one. Raises InputError for another suffix."""
    name = given or Path(path).suffix.lower().removeprefix(".") or "csv"
    for form in FORMATS:
        if name == form:
            return form
    known = ", ".join(f".{form}" for form in FORMATS)
    raise InputError(one_line(f"{path}: expected a file name that ends in one of {known}, or --format"))


def write_sweep(
    sweep: Sweep,
    path: str | os.PathLike[str],
    form: str | None = None,
    executor: Executor | None = None,
    retries: int = RETRIES,
    block: int | None = None,
    fast: bool | None = None,
    progress: Progress | None = None,
) -> Journal:
    """Write every row of ``sweep`` to ``path``; go on where a run of the same sweep into it was stopped.

    ``executor``, ``retries``, ``block`` and ``fast`` as for :func:`sweep_blocks`; ``progress`` is told how many
    combinations are done. Raises InputError when ``path`` holds anything else, and when it cannot be written.
    """
    form = format_of(path, form)
    output = _Output(sweep, Path(path), form)
    with output:
        for rows in sweep_blocks(sweep, output.journal.next, executor, retries, block, fast):
            output.append(rows)
            if progress is not None:
                progress(rows.stop, len(sweep))
        output.finish()
    return output.journal


class _Output:
    """A file of rows with its journal; a pipe or a device (/dev/stdout) is written to without one."""

    def __init__(self, sweep: Sweep, path: Path, form: Format) -> None:
        self._path, self._form, self._columns, self._combinations = path, form, sweep.columns, len(sweep)
        try:
            self._special = path.exists() and not path.is_file()
        except (OSError, ValueError) as error:
            raise file_error(path, error, "write") from None
        self._journal_path = path.parent / (path.name + JOURNAL)
        self._encode = encoder(form)
        self.journal = Journal(fingerprint(sweep, form))
        self._checksum = 0  # of all that has been written
        self._file = -1

    def __enter__(self) -> _Output:
        try:
            if self._special:
                self._file = os.open(self._path, os.O_WRONLY | BINARY)
            else:
                self._open()
        except (OSError, ValueError) as error:
            self.__exit__()
            raise file_error(self._path, error, "write") from None
        if not self.journal.bytes:
            self._write(header(self._form, self._columns))
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        """Open the file for what comes next, cut to what the journal knows."""
        if not self._journal_path.exists():
            self._refuse_finished()  # before anything is made
        self._file = self._lock()
        begun = self._read_journal()
        if begun is None:
            self._refuse_finished()  # by another process, since
        else:
            self.journal = self._checked(begun)
            self._checksum = begun.checksum
        self.journal = msgspec.structs.replace(self.journal, writer=this_process())
        self._save()
        os.ftruncate(self._file, self.journal.bytes)
        os.lseek(self._file, self.journal.bytes, os.SEEK_SET)

    def _lock(self) -> int:
        """The file of rows, open and held against other processes."""
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | BINARY, 0o666)
            if not try_lock(file):
                os.close(file)
                writer = self._writer()
                raise InputError(
                    one_line(f"{self._path}: {writer} writes a sweep to it; wait for it, or choose another output")
                )
            if self._path.exists() and os.path.samestat(os.fstat(file), os.stat(self._path)):
                return file
            os.close(file)  # a process that has finished meanwhile took it away

    def _writer(self) -> str:
        """Who holds the lock, as far as the journal tells."""
        try:
            journal = msgspec.json.decode(read_bytes(self._journal_path, LARGEST_JOURNAL_BYTES), type=Journal)
        except (ValueError, RecursionError):  # just begun or just finished
            return "another process"
        return journal.writer or "another process"

    def _read_journal(self) -> Journal | None:
        if not self._journal_path.exists():
            return None
        data = read_bytes(self._journal_path, LARGEST_JOURNAL_BYTES)
        try:
            journal = msgspec.json.decode(data, type=Journal)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InputError(one_line(f"{self._journal_path}: is no journal of a sweep; remove it")) from None
        if journal.sweep != self.journal.sweep:
            raise InputError(
                one_line(
                    f"{self._path}: an unfinished output of another sweep (or of another version of streamsim);"
                    f" choose another name, or remove it and {self._journal_path.name}"
                )
            )
        return journal

    def _checked(self, journal: Journal) -> Journal:
        """Return the journal if the sweep and the rows bear it out. Raises InputError."""
        if os.fstat(self._file).st_size < journal.bytes:
            raise InputError(one_line(f"{self._path}: is shorter than its journal says; remove both, then start again"))
        is_sound = journal.next <= self._combinations and _may_be_row(self._columns, journal.fastest)
        if not is_sound or _checksum_of(self._path, journal.bytes) != journal.checksum:
            raise InputError(
                one_line(
                    f"{self._path}: is not what its journal {self._journal_path.name} says; remove both, then"
                    " start again"
                )
            )
        return journal

    def _refuse_finished(self) -> None:
        if self._path.exists() and self._path.stat().st_size:
            raise InputError(
                one_line(f"{self._path}: is there already, and finished; choose another name or remove it")
            )

    def append(self, rows: Rows) -> None:
        """Write the next rows; then, not before, take note of them."""
        self._write(self._encode(self._columns, rows.rows))
        written = 0 if self._special else os.lseek(self._file, 0, os.SEEK_CUR)
        self.journal = journal_after(self.journal, rows, self._columns, written, self._checksum)
        if not self._special:
            self._save()

    def _save(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as error:
            raise self._error(error) from None
        write_bytes(msgspec.json.encode(self.journal), self._journal_path)

    def _write(self, data: bytes) -> None:
        self._checksum = crc32(data, self._checksum)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._error(error) from None

    def _error(self, error: OSError) -> InputError:
        reason = file_error(self._path, error, "write")
        if self._special:
            return reason
        return InputError(one_line(f"{reason}; make room, and the same command goes on where it stopped"))

    def finish(self) -> None:
        """All rows are there: make it a finished output."""
        if not self._special:
            self._journal_path.unlink(missing_ok=True)
        self.__exit__()


def fingerprint(sweep: Sweep, form: str) -> str:
    """What tells a sweep's output from any other's: what is swept, the format and the version of the model."""
    return sha256(msgspec.json.encode((version("streamsim"), form, sweep.columns, sweep))).hexdigest()


def _checksum_of(path: Path, n_bytes: int) -> int:
    """Of the first ``n_bytes`` of a file."""
    found = 0
    with open(path, "rb") as file:
        while n_bytes > 0 and (data := file.read(min(n_bytes, BLOCK_BYTES))):
            found, n_bytes = crc32(data, found), n_bytes - len(data)
    return found


def _may_be_row(columns: tuple[str, ...], row: list[Any] | None) -> bool:
    """Return whether a row of a journal, which anybody may have edited, has a value of its kind in each column."""
    if row is None:
        return True
    values = dict(zip(columns, row, strict=False))
    numbers = [value for name, value in values.items() if name.endswith(("_s", "_bytes", "speedup")) or name in COUNTS]
    is_sound = all(value is None or type(value) in (int, float) for value in numbers)
    answers = [values.get(name) for name in ("makespan_s", "serial_s", "speedup") if name in columns]
    return len(row) == len(columns) and is_sound and all(isinstance(value, float) for value in answers)


def _fastest(columns: tuple[str, ...], before: list[Any] | None, rows: list[tuple[Any, ...]]) -> list[Any] | None:
    """The row with the shortest makespan; the first of equals."""
    at = columns.index("makespan_s")
    best = min(rows, key=lambda row: row[at], default=None)
    if best is None or (before is not None and before[at] <= best[at]):
        return before
    return list(best)


def encoder(form: Format) -> Callable[[tuple[str, ...], Iterable[tuple[Any, ...]]], bytes]:
    """What makes bytes of columns and rows: lines of CSV (without a header) or of JSON."""
    return _to_csv if form == "csv" else _to_json_lines


def header(form: Format, columns: tuple[str, ...]) -> bytes:
    """What stands before the first row."""
    return _to_csv((), [columns]) if form == "csv" else b""


def _to_csv(_columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_as_cells(row) for row in rows)
    return text.getvalue().encode()


def _as_cells(row: tuple[Any, ...]) -> list[Any]:
    return [to_cell(value) if type(value) is str else value for value in row]


def _to_json_lines(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> bytes:
    return msgspec.json.Encoder().encode_lines([dict(zip(columns, row, strict=True)) for row in rows])


# Reading it back: a row as a dict


def read_rows(path: str | os.PathLike[str], form: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a finished output, one at a time."""
    return read_json_lines(path) if format_of(path, form) == "jsonl" else read_csv(path)


def read_json_lines(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with open(path, "rb") as file:
        yield from map(decode, file)


def read_csv(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The rows of a CSV file, numbers as numbers and None for what is empty."""
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield {name: _value(name, text) for name, text in row.items()}


def _value(name: str, text: str) -> Any:
    if not text or name in TEXT_COLUMNS:
        return from_cell(text) or None
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return from_cell(text)
