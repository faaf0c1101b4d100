"""Tables of an SQLite file as columns, read only.

Views, virtual tables and computed columns would execute parts of the file, and count as missing. A row is left out and
counted if a needed value is not a whole number.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.files import file_error
from streamsim.recorded.recording import NONE
from streamsim.text import GZIP_MAGIC, one_line, uncapitalised

ROWS_AT_ONCE = 20_000
LONGEST_VALUE_BYTES = 1 << 20
CACHE_KIB = 16 << 10
EXPORT_AGAIN = "export it again: nsys export --type sqlite --lazy=false FILE.nsys-rep"


class Tables:
    """The stored tables of a file, and the stored columns of each."""

    def __init__(self, path: str | os.PathLike[str], connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection
        self._columns: dict[str, frozenset[str]] = {}
        self.replaced = 0  # texts that are not UTF-8
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
            if isinstance(name, str) and isinstance(sql, str) and sql[:12].upper() == "CREATE TABLE":
                stored = connection.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,))
                self._columns[name] = frozenset(column for (column,) in stored)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def has(self, table: str, *columns: str) -> bool:
        """Return True if a table has all of these columns."""
        return self._columns.get(table, frozenset()).issuperset(columns)

    def blocks(
        self,
        table: str,
        needed: tuple[str, ...],
        others: tuple[str, ...] = (),
        texts: tuple[str, ...] = (),
        unread: Callable[[int], None] = lambda _: None,
    ) -> Iterator[dict[str, Any]]:
        """Yield columns of whole numbers by name, some rows at a time; nothing for a missing table.

        - ``needed``: columns that must be there. ``unread`` is called with the number of rows that lack one.
        - ``others``: columns that may be missing; -1 stands for a missing number.
        - ``texts``: columns of any type, as lists; None stands for a missing value.

        Raises InputError naming the table and column if a needed column is missing.
        """
        if table not in self._columns:
            return
        for name in needed:
            if not self.has(table, name):
                raise InputError(one_line(f"{self._path}: table {table} has no column {name}; {EXPORT_AGAIN}"))
        names = [name for name in (*needed, *others, *texts) if self.has(table, name)]
        chosen = ", ".join(f'"{name}"' for name in names)
        cursor = self._connection.execute(f'SELECT {chosen} FROM "{table}"')
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            there = dict(zip(names, zip(*rows, strict=True), strict=True))
            numbers = {name: _whole(there[name]) for name in names if name not in texts}
            right = np.logical_and.reduce([numbers[name][1] for name in needed])
            unread(int((~right).sum()))
            block: dict[str, Any] = {name: np.full(int(right.sum()), NONE, np.int64) for name in others}
            block |= {name: column[right] for name, (column, _) in numbers.items()}
            kept = right.tolist()
            for name in texts:
                block[name] = list(compress(there.get(name, (None,) * len(rows)), kept))
            yield block

    def pairs(self, table: str, key: str, value: str) -> Iterator[tuple[Any, Any]]:
        """Yield two columns of any type, row by row; nothing if one is missing."""
        if self.has(table, key, value):
            yield from self._connection.execute(f'SELECT "{key}", "{value}" FROM "{table}"')

    def rows(self, table: str, *columns: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a small table, with those of ``columns`` that it has."""
        there = [name for name in columns if self.has(table, name)]
        if there:
            chosen = ", ".join(f'"{name}"' for name in there)
            for row in self._connection.execute(f'SELECT {chosen} FROM "{table}" LIMIT 100000'):
                yield dict(zip(there, row, strict=True))

    def text(self, data: bytes) -> str:
        """Return a text with a replacement for bytes that are not UTF-8."""
        found = data.decode(errors="replace")
        self.replaced += "\ufffd" in found
        return found


def _whole(column: tuple[Any, ...]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the whole numbers in a column, -1 for other values, and True where there is a whole number."""
    if set(map(type, column)) == {int}:  # SQLite's numbers fit into 64 bits
        return np.array(column, np.int64), np.ones(len(column), bool)
    known = np.fromiter((type(value) is int for value in column), bool, len(column))
    whole = (value if type(value) is int else NONE for value in column)
    return np.fromiter(whole, np.int64, len(column)), known


@contextmanager
def open_tables(path: str | os.PathLike[str]) -> Iterator[Tables]:
    """Yield the tables of a file. Raises InputError of one line, also for faults that show while they are read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(one_line(f"{path}: is not a regular file; an SQLite file has to be one"))
        with open(path, "rb") as file:
            if file.read(2) == GZIP_MAGIC:
                raise InputError(one_line(f"{path}: is a packed SQLite file; unpack it: gunzip FILE"))
        address = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True)
    except (OSError, ValueError) as error:
        raise file_error(path, error, "read") from None
    except sqlite3.Error as error:
        raise InputError(one_line(f"{path}: cannot read it: {uncapitalised(str(error))}")) from None
    try:
        for setting in (
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "query_only = ON",
            f"cache_size = -{CACHE_KIB}",
        ):
            connection.execute(f"PRAGMA {setting}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE_BYTES)
        pages, page_bytes = (connection.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size"))
        if os.stat(path).st_size < pages * page_bytes:  # SQLite itself looks at whole pages only
            raise sqlite3.DatabaseError("its last page is not whole")
        connection.text_factory = lambda data: data.decode(errors="replace")
        tables = Tables(path, connection)
        connection.text_factory = tables.text
        yield tables
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as error:  # also of its own messages
        reason = uncapitalised(str(error))
        raise InputError(one_line(f"{path}: is damaged or cut short ({reason}); copy it, or {EXPORT_AGAIN}")) from None
    finally:
        connection.close()
