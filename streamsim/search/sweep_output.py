"""The file of a sweep: CSV or JSON lines, written block by block. A sweep that was stopped goes on where its file ends.

Rows do not depend on when or where they are made. If the last whole row of a file is the one that the sweep has in its
place, the sweep goes on behind it, and the file ends up the same, byte for byte.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from streamsim.errors import InputError
from streamsim.files import file_error
from streamsim.search.evaluate import is_fast
from streamsim.search.sweep import Combinations, Rows, Sweep, block_ranges, sweep_blocks
from streamsim.text import from_cell, one_line, to_cell

Format = Literal["csv", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)
TEXT_COLUMNS = ("device", "order", "memory", "launch")
LONGEST_ROW = 1 << 20  # bytes


class Tally:
    """The rows of a sweep so far: their number, the fastest one, and the combinations without a row by why."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._time = itemgetter(columns.index("makespan_s"))
        self.rows = 0
        self.fastest: tuple[Any, ...] | None = None
        self.left_out, self.reasons = Counter[str](), dict[str, str]()

    def counted(self, blocks: Iterable[Rows]) -> Iterator[Rows]:
        """Yield the blocks, each once it is counted."""
        for block in blocks:
            self.add(block.rows)
            self.leave_out(block)
            yield block

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Count more rows."""
        for row in rows:
            self.rows += 1
            if self.fastest is None or self._time(row) < self._time(self.fastest):
                self.fastest = row

    def leave_out(self, some: Rows | Combinations) -> None:
        """Count the combinations of ``some`` that have no row."""
        self.left_out += some.left_out
        self.reasons = {**some.reasons, **self.reasons}


def format_of(path: str | os.PathLike[str], given: str | None = None) -> Format:
    """Return the format that the suffix of ``path`` names; CSV if it has none. Raises InputError for other suffixes."""
    name = given or Path(path).suffix.lower().removeprefix(".") or "csv"
    for form in FORMATS:
        if name == form:
            return form
    known = ", ".join(f".{form}" for form in FORMATS)
    raise InputError(one_line(f"{path}: expected a file name that ends in one of {known}, or --format"))


def encoded(form: Format, columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> bytes:
    """Return rows as lines of CSV, without a header, or of JSON."""
    if form == "jsonl":
        return msgspec.json.Encoder().encode_lines([dict(zip(columns, row, strict=True)) for row in rows])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(to_cell, row) for row in rows)
    return text.getvalue().encode()


def header(form: Format, columns: tuple[str, ...]) -> bytes:
    """Return the bytes before the first row."""
    return encoded(form, columns, [columns]) if form == "csv" else b""


def write_sweep(
    sweep: Sweep,
    path: str | os.PathLike[str],
    form: str | None = None,
    executor: Any = None,
    fast: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
    block: int | None = None,
) -> Tally:
    """Write every row of ``sweep`` to ``path``, and go on where the file ends if a run of the same sweep wrote it.

    - ``form``: "csv" or "jsonl" (None: as the suffix of ``path`` says).
    - ``executor``, ``fast``, ``block``: as for :func:`sweep_blocks`.
    - ``progress``: a function that is called with the number of combinations done and of all.

    Return the count of all rows. Raises InputError if ``path`` holds anything else or cannot be written.
    """
    form, path, tally = format_of(path, form), Path(path), Tally(sweep.columns)
    try:
        start = _resumed(sweep, path, form, tally) if path.is_file() else 0
        with open(path, "ab") as file:
            file.write(b"" if start else header(form, sweep.columns))
            for rows in tally.counted(sweep_blocks(sweep, start, executor, fast, block)):
                file.write(encoded(form, sweep.columns, rows.rows))
                file.flush()
                if progress is not None:
                    progress(rows.stop, len(sweep))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise file_error(path, error, "write") from None
    return tally


def _resumed(sweep: Sweep, path: Path, form: Format, tally: Tally) -> int:
    """Return the combination behind the file's last whole row, with all before it in ``tally``; 0 without a whole row.

    The bytes behind that row are cut off. Raises InputError for a file that this sweep did not write.
    """
    head, last, rows = header(form, sweep.columns), b"", 0
    with open(path, "rb") as file:
        begin = file.read(len(head))
        end = len(head)
        while begin == head and (line := file.readline(LONGEST_ROW)).endswith(b"\n"):
            last, rows, end = line, rows + 1, end + len(line)
        file.seek(0)
        torn = b"" if rows else file.read(LONGEST_ROW)
    number = _number_of(sweep, max(1, rows), tally if rows else Tally(sweep.columns))
    ours: list[tuple[Any, ...]] = []
    if number is not None:
        ours = list(Combinations(sweep, number, number + 1).predict(is_fast()).rows)
    row = encoded(form, sweep.columns, ours)
    is_ours = row == last if rows else (head + row).startswith(torn)
    other = InputError(one_line(f"{path}: holds something else than rows of this sweep; choose another name"))
    if not is_ours:
        raise other
    os.truncate(path, end if rows else 0)
    if not rows or number is None:
        return 0
    for found in read_rows(path, form):
        values = tuple(found.values())
        alike = zip(values, ours[0], strict=False)
        if tuple(found) != sweep.columns or any(isinstance(one, str) != isinstance(our, str) for one, our in alike):
            raise other
        if not isinstance(found["makespan_s"], int | float):
            raise other
        tally.add([values])
    return number + 1


def _number_of(sweep: Sweep, row: int, tally: Tally) -> int | None:
    """Return the combination of the ``row``-th row, from 1, with those left out before it in ``tally``; None: no such.

    Nothing is predicted.
    """
    for start, stop in block_ranges(sweep, 0, is_fast()):
        found = Combinations(sweep, start, stop)
        if row <= len(found.numbers):
            number = found.numbers[row - 1]
            tally.leave_out(Combinations(sweep, start, number + 1))
            return number
        tally.leave_out(found)
        row -= len(found.numbers)
    return None


# Reading: a row is a dict


def read_rows(path: str | os.PathLike[str], form: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, with numbers as numbers and None for empty cells. Raises InputError for other files."""
    try:
        if format_of(path, form) == "jsonl":
            with open(path, "rb") as lines:
                yield from map(msgspec.json.Decoder(dict[str, Any]).decode, lines)
            return
        with open(path, newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            head = next(rows)
            for row in rows:
                yield {name: _value(name, text) for name, text in zip(head, row, strict=True)}
    except (ValueError, csv.Error, msgspec.DecodeError) as error:
        raise InputError(one_line(f"{path}: holds something else than rows of a sweep ({error})")) from None


def _value(name: str, text: str) -> Any:
    if not text or name in TEXT_COLUMNS:
        return from_cell(text) or None
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return from_cell(text)
