"""Record files: gzipped JSON. :func:`finish` turns the journal of a run into one."""

import gzip
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from streamsim.errors import InputError
from streamsim.files import check_writable, write_bytes
from streamsim.text import GZIP_MAGIC, LARGEST_TOML_BYTES, WORDS, kind_of, mistaken_for, one_line
from streamsim_validate.records.journal import (
    JOURNAL_SUFFIX,
    check_unused,
    fold,
    journal_path,
    lines_of,
    lock,
    read_journal,
)
from streamsim_validate.records.record import Record
from streamsim_validate.records.stored import check_values, check_version, read_stored, unzipped

GZIP_LEVEL = 9


def write_record(record: Record, path: str | os.PathLike[str]) -> None:
    """Write a record, whole or not at all; the same record gives the same bytes."""
    write_bytes(gzip.compress(msgspec.json.encode(record), GZIP_LEVEL, mtime=0), path)


class _Versioned(msgspec.Struct):
    schema_version: int


def read_record(path: str | os.PathLike[str]) -> Record:
    """Return the record in a file, or in the journal of an unfinished one.

    Raises InputError with one line if it is truncated, damaged or of another schema version.
    """
    where = Path(path)
    journal = journal_path(where)
    if journal.exists() and not where.exists():
        raise InputError(one_line(f"{path}: there is no such record yet; resume its journal, or give that: {journal}"))
    data = read_stored(where)
    kind = kind_of(data)
    is_journal = kind == "journal" or (where.name.endswith(JOURNAL_SUFFIX) and kind != "record")
    if mistaken := mistaken_for("journal" if is_journal else "record", data):
        raise InputError(one_line(f"{path}: {mistaken}"))
    if is_journal:
        lines = lines_of(where, data)
        if not lines:
            raise InputError(f"{path}: is empty; measure again")
        return fold(lines)
    try:
        plain = unzipped(data) if data.startswith(GZIP_MAGIC) or kind != "record" else check_values(data)
        check_version(where, msgspec.json.decode(plain, type=_Versioned).schema_version)
        return msgspec.json.decode(plain, type=Record)
    except EOFError as error:
        resume = f", or resume its journal ({journal.name})" if journal.exists() else ""
        raise InputError(one_line(f"{path}: {error}; copy it again{resume}")) from None
    except InputError as error:
        text = str(error)
        raise InputError(one_line(text if text.startswith(str(path)) else f"{path}: {text}")) from None
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors, and so is bad UTF-8
        raise InputError(one_line(f"{path}: is not a record, or a damaged one ({error}); measure again")) from None


def finish(
    journal: Path, record: str | os.PathLike[str], complete: Callable[[Record], Record] = lambda found: found
) -> Record:
    """Write the record that the journal holds, after ``complete``, and remove the journal.

    Raises InputError if it cannot be written, if another process holds the journal, or if that process has made the
    record already.
    """
    with ExitStack() as held:
        with suppress(OSError):  # reading it says what is wrong
            lock(held.enter_context(open(journal, "rb")), journal)
        check_unused(record)
        found = complete(fold(read_journal(journal)))
        write_record(found, record)
    journal.unlink(missing_ok=True)
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
            what = WORDS[kind].partition(",")[0]
            raise InputError(
                one_line(
                    f"{path}: there is such a file already, and not {what}; move it away, or choose another output"
                )
            )
