"""Limits of files of measurements: their bytes, their values and their version.

A file of some kilobytes can unpack to gigabytes, and a byte of JSON can become forty in memory. So no more is read than
a run could have measured.
"""

import os
import zlib
from pathlib import Path

from streamsim.errors import InputError
from streamsim.files import atomic_files
from streamsim_validate.records.record import SCHEMA_VERSION

LARGEST_BYTES = 1 << 27  # packed, and unpacked: forty times the record of the suite standard
MOST_VALUES = 6_000_000  # twenty times those of that record; in memory they take less than a gigabyte
_BEFORE_VALUES = (b",", b"[", b"{")  # one of them stands before every value of a document


def read_stored(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file or pipe. Raises InputError if it cannot be read, or is larger than any record."""
    return atomic_files.read_bytes(path, LARGEST_BYTES)


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
    if sum(map(data.count, _BEFORE_VALUES)) > MOST_VALUES:
        raise InputError(f"holds more than {MOST_VALUES} values; no run measures that many")
    return data


def check_version(path: Path, version: int) -> None:
    """Raise InputError unless files of that version can be read."""
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version = {version}: this streamsim-validate reads {SCHEMA_VERSION};"
            " use the version that wrote it, or measure again"
        )
