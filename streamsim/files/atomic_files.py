"""Reading of files up to a size, and atomic writing of files.

A file's size is checked before it is read. A read from a pipe without a writer fails after ten seconds. A file is
written under another name in the same folder and then renamed in one step, so a failed write leaves the old file.
"""

import os
import select
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO

from streamsim.errors import InputError
from streamsim.text import shown, uncapitalised

GZIP_LEVEL = 6
WRITER_S = 10.0  # seconds until a named pipe must have a writer


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file or pipe of at most ``most`` bytes. Raises InputError naming the file."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
                raise InputError(f"{path}: is not a regular file; give a file or a pipe")
            first = _first_byte(path, file.fileno()) if stat.S_ISFIFO(status.st_mode) else b""
            data = b"" if status.st_size > most else first + file.read(most + 1)  # a pipe has no size
    except (OSError, ValueError) as error:
        raise file_error(path, error, "read") from None
    if status.st_size > most or len(data) > most:
        raise InputError(f"{path}: is larger than {most} bytes, the largest file of its kind")
    return data


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting: opening a named pipe otherwise waits for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _first_byte(path: str | os.PathLike[str], pipe: int) -> bytes:
    """Return the bytes read to detect a pipe's writer, and let later reads wait. Raises InputError without a writer."""
    found = b""
    if not select.select([pipe], [], [], WRITER_S)[0]:
        with suppress(BlockingIOError):  # there is a writer, and it has written nothing yet
            found = os.read(pipe, 1)
            if not found:
                raise InputError(f"{path}: is a pipe that nobody writes to")
    os.set_blocking(pipe, True)
    return found


def file_error(path: str | os.PathLike[str], error: OSError | ValueError, verb: str) -> InputError:
    """Return an error of one line for a file that could not be read or written; ``verb``: "read" or "write"."""
    if isinstance(error, InputError):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    remedy = "; name a file in it" if isinstance(error, IsADirectoryError) else ""
    return InputError(f"{path}: cannot {verb} it: {uncapitalised(reason)}{remedy}")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless a file can be written at ``path``; long commands check this before they measure."""
    if "\0" in str(path):
        raise InputError(f"{path}: cannot write it: embedded null byte")
    is_link = os.path.islink(path)  # the file that the link leads to is written
    folder = Path(os.path.realpath(path) if is_link else path).parent
    if not os.path.isdir(folder):
        raise InputError(f"{path}: there is no folder {str(folder)!r}; make it, or choose another output")
    if os.path.isdir(path):
        raise InputError(f"{path}: is a folder; name a file in it")
    is_there = os.path.exists(path)
    is_replaced = os.path.isfile(path) or not is_there  # else it is a pipe or a device
    if (is_replaced and not os.access(folder, os.W_OK)) or (is_there and not os.access(path, os.W_OK)):
        raise InputError(f"{path}: cannot write it: no permission; choose another output")


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write ``text`` as UTF-8, whole or not at all. Raises InputError if the file cannot be written."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{shown(error.object)} is not text that UTF-8 can hold") from None
    write_bytes(data, path)


def write_bytes(data: bytes, path: str | os.PathLike[str]) -> None:
    """Write ``data``, whole or not at all. Raises InputError if the file cannot be written."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a file that replaces ``path`` when the block ends without an error.

    If ``path`` exists and is not a regular file (``/dev/stdout``, a pipe), it is written directly. Raises InputError if
    the file cannot be written.
    """
    try:
        special = Path(path).exists() and not Path(path).is_file()
        target = Path(os.path.realpath(path))  # the file that a link leads to
    except (OSError, ValueError) as error:
        raise file_error(path, error, "write") from None
    try:
        with open(path, "wb") if special else _beside(target) as file:
            yield file
    except OSError as error:
        raise file_error(path, error, "write") from None


@contextmanager
def replacing_packed(path: str | os.PathLike[str]) -> Iterator[BinaryIO | GzipFile]:
    """Yield a file as :func:`replacing` does, packed with gzip if the name ends in ``.gz``.

    Equal content gives equal bytes.
    """
    with replacing(path) as file:
        if Path(path).suffix.lower() != ".gz":
            yield file
            return
        with GzipFile("", "wb", GZIP_LEVEL, file, mtime=0) as packed:
            yield packed


@contextmanager
def _beside(target: Path) -> Iterator[BinaryIO]:
    temporary = target.parent / f".streamsim-{os.urandom(6).hex()}"
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(0, "it is write-protected")
    try:
        with open(temporary, "xb") as file:
            yield file
        if target.exists():
            old = target.stat()
            with suppress(OSError, AttributeError):  # root may give a file away, and Windows has no owners
                os.chown(temporary, old.st_uid, old.st_gid)
            shutil.copymode(target, temporary)  # last: a new owner takes set-uid bits away
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
