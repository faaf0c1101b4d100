"""The output of a sweep: CSV or JSON lines, written block by block; a sweep that was stopped continues.

Beside an unfinished output lies a journal. This small file, replaced in one step, says which combination comes next and
how many bytes of the output belong to those before it. Rows reach the disk before the journal counts them, so that the
counted rows are whole even if a sweep is killed. The bytes after them are cut off, and their combinations are predicted
again. Rows do not depend on when or where they are made. The file therefore ends up the same, byte for byte.

The process that writes to the file holds a lock on it, and a second process is refused. Two checksums show whether the
journal and the rows are those that were written. If either is not, the sweep is refused before anything is cut off.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args
from zlib import crc32

import msgspec

from streamsim.errors import InputError
from streamsim.files import file_error, read_bytes, this_process, try_lock, write_bytes
from streamsim.search.sweep import RETRIES, Rows, Sweep, sweep_blocks
from streamsim.text import from_cell, one_line, to_cell

Progress = Callable[[int, int], None]  # combinations done, of all

Format = Literal["csv", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)
BINARY = getattr(os, "O_BINARY", 0)  # Windows would write other line ends than those that are counted
JOURNAL = ".journal"
LARGEST_JOURNAL_BYTES = BLOCK_BYTES = 1 << 20
TEXT_COLUMNS = ("device", "order", "memory", "launch")


class Journal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The progress of a sweep.

    - ``sweep``: the fingerprint of the sweep and its format.
    - ``next``: the next combination; ``bytes``, ``checksum``: the length of the output before it, and its CRC-32.
    - ``rows``: the number of rows; ``fastest``: the row with the shortest makespan (None: no row yet).
    - ``left_out``: the number of combinations without a row. ``too_large`` of them need more memory than their card
      has, the first one as ``too_large_reason`` says. The others cannot be issued, the first one because of ``reason``.
    - ``writer``: the process that writes.
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


class _Saved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of a journal: the journal's JSON, and the CRC-32 of that JSON."""

    journal: msgspec.Raw
    checksum: int


def journal_after(
    journal: Journal, rows: Rows, columns: tuple[str, ...], n_bytes: int = 0, checksum: int = 0
) -> Journal:
    """Return the journal after more ``rows``; ``n_bytes`` and ``checksum`` are those of the output with them."""
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
    """Return the format that the suffix of ``path`` names; CSV if it has none. Raises InputError for other suffixes."""
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
    """Write every row of ``sweep`` to ``path``, and continue if a run of the same sweep was stopped there.

    - ``form``: "csv" or "jsonl" (None: as the suffix of ``path`` says).
    - ``executor``, ``retries``, ``block``, ``fast``: as for :func:`sweep_blocks`.
    - ``progress``: a function that is called with the number of combinations done and of all.

    Return the journal of the finished sweep. Raises InputError if ``path`` holds anything else or cannot be written.
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
    """A file of rows and its journal. A pipe or a device, such as /dev/stdout, has no journal."""

    def __init__(self, sweep: Sweep, path: Path, form: Format) -> None:
        self._path, self._form, self._columns = path, form, sweep.columns
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
        """Open the file for the next rows, and cut off the bytes that the journal does not count."""
        if not self._journal_path.exists():
            self._refuse_finished()  # before anything is made
        self._file = self._lock()
        begun = self._read_journal()
        if begun is None:
            self._refuse_finished()  # by another process, since
        else:
            self._check_rows(begun)
            self.journal, self._checksum = begun, begun.checksum
        self.journal = msgspec.structs.replace(self.journal, writer=this_process())
        self._save()
        os.ftruncate(self._file, self.journal.bytes)
        os.lseek(self._file, self.journal.bytes, os.SEEK_SET)

    def _lock(self) -> int:
        """Return the file of rows, open and locked against other processes."""
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
            os.close(file)  # another process has finished and removed it

    def _writer(self) -> str:
        """Return the process that holds the lock, as the journal names it."""
        try:
            return _decoded(read_bytes(self._journal_path, LARGEST_JOURNAL_BYTES)).writer or "another process"
        except (ValueError, RecursionError):  # the sweep has just begun or just finished
            return "another process"

    def _read_journal(self) -> Journal | None:
        if not self._journal_path.exists():
            return None
        try:
            journal = _decoded(read_bytes(self._journal_path, LARGEST_JOURNAL_BYTES))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InputError(
                one_line(f"{self._journal_path}: is no journal of a sweep, or was edited; remove it and its output")
            ) from None
        if journal.sweep != self.journal.sweep:
            raise InputError(
                one_line(
                    f"{self._path}: an unfinished output of another sweep (or of another version of streamsim);"
                    f" choose another name, or remove it and {self._journal_path.name}"
                )
            )
        return journal

    def _check_rows(self, journal: Journal) -> None:
        """Raise InputError unless the file begins with the rows that the journal counts."""
        if os.fstat(self._file).st_size < journal.bytes:
            raise InputError(one_line(f"{self._path}: is shorter than its journal says; remove both, then start again"))
        if _checksum_of(self._path, journal.bytes) != journal.checksum:
            raise InputError(
                one_line(
                    f"{self._path}: is not what its journal {self._journal_path.name} says; remove both, then"
                    " start again"
                )
            )

    def _refuse_finished(self) -> None:
        if self._path.exists() and self._path.stat().st_size:
            raise InputError(
                one_line(f"{self._path}: is there already, and finished; choose another name or remove it")
            )

    def append(self, rows: Rows) -> None:
        """Write the next rows, and then count them in the journal."""
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
        write_bytes(_encoded(self.journal), self._journal_path)

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
        """Close the finished output and remove its journal."""
        if not self._special:
            self._journal_path.unlink(missing_ok=True)
        self.__exit__()


def fingerprint(sweep: Sweep, form: str) -> str:
    """Return a hash of the sweep, the format and the version of streamsim."""
    return sha256(msgspec.json.encode((version("streamsim"), form, sweep.columns, sweep))).hexdigest()


def _encoded(journal: Journal) -> bytes:
    data = msgspec.json.encode(journal)
    return msgspec.json.encode(_Saved(msgspec.Raw(data), crc32(data)))


def _decoded(data: bytes) -> Journal:
    """Return the journal in the bytes of its file. Raises DecodeError if they are not those that were written."""
    saved = msgspec.json.decode(data, type=_Saved)
    if crc32(saved.journal) != saved.checksum:
        raise msgspec.DecodeError("the checksum is that of another journal")
    return msgspec.json.decode(saved.journal, type=Journal)


def _checksum_of(path: Path, n_bytes: int) -> int:
    """Return the CRC-32 of the first ``n_bytes`` of a file."""
    found = 0
    with open(path, "rb") as file:
        while n_bytes > 0 and (data := file.read(min(n_bytes, BLOCK_BYTES))):
            found, n_bytes = crc32(data, found), n_bytes - len(data)
    return found


def _fastest(columns: tuple[str, ...], before: list[Any] | None, rows: list[tuple[Any, ...]]) -> list[Any] | None:
    """Return the row with the shortest makespan, the first one of equal ones."""
    at = columns.index("makespan_s")
    best = min(rows, key=lambda row: row[at], default=None)
    if best is None or (before is not None and before[at] <= best[at]):
        return before
    return list(best)


def encoder(form: Format) -> Callable[[tuple[str, ...], Iterable[tuple[Any, ...]]], bytes]:
    """Return the function that encodes columns and rows as lines of CSV, without a header, or of JSON."""
    return _to_csv if form == "csv" else _to_json_lines


def header(form: Format, columns: tuple[str, ...]) -> bytes:
    """Return the bytes before the first row."""
    return _to_csv((), [columns]) if form == "csv" else b""


def _to_csv(_columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_as_cells(row) for row in rows)
    return text.getvalue().encode()


def _as_cells(row: tuple[Any, ...]) -> list[Any]:
    return [to_cell(value) if type(value) is str else value for value in row]


def _to_json_lines(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> bytes:
    return msgspec.json.Encoder().encode_lines([dict(zip(columns, row, strict=True)) for row in rows])


# Reading: a row is a dict


def read_rows(path: str | os.PathLike[str], form: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a finished output."""
    return read_json_lines(path) if format_of(path, form) == "jsonl" else read_csv(path)


def read_json_lines(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with open(path, "rb") as file:
        yield from map(decode, file)


def read_csv(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file, with numbers as numbers and None for empty cells."""
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
