"""Readers of Kineto files, block by block: the file is never in memory as a whole, packed or not.

A block is cut behind its last ``}`` before ``, {``, and decoded. If this place is inside an event, the text does not
decode, and the place before it is tried. The text begins with an event, so a text that decodes as a list ends with one.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections.abc import Generator, Iterator
from itertools import islice
from typing import BinaryIO, Generic, TypeVar

import msgspec

from streamsim.errors import InputError
from streamsim.files import file_error
from streamsim.text import GZIP_MAGIC, one_line

BLOCK_BYTES = 1 << 20
LARGEST_HEAD_BYTES = 1 << 24
LARGEST_EVENT_BYTES = 1 << 24
MOST_UNPACKED_BYTES = 1 << 34
MOST_CUTS = 8  # tried in a text before it is read on to twice its length
MOST_BRACES = 256  # looked at for the next of them
MOST_HEADS = 8
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_CUT = re.compile(rb"\}(?=\s{0,999},\s{0,999}\{)")
_AT = re.compile(r"\(byte (\d+)\)$")
_NO_NUMBER = re.compile(rb"(?<=[:,\[])(\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,\]}])", re.IGNORECASE)
_RAW = msgspec.json.Decoder(list[msgspec.Raw])
Event = TypeVar("Event", bound=msgspec.Struct)
Head = TypeVar("Head", bound=msgspec.Struct)


def blocks_of(path: str | os.PathLike[str]) -> Generator[bytes, None, None]:
    """Yield the content of a file in blocks, unpacked if it is packed. Raises InputError of one line."""
    total = 0
    try:
        with open(path, "rb") as file:
            if not (stat.S_ISREG(os.fstat(file.fileno()).st_mode) or stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)):
                raise InputError(one_line(f"{path}: is not a regular file; give a file or a pipe"))
            is_packed = file.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
            content: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=file) if is_packed else file
            while block := content.read(BLOCK_BYTES):
                total += len(block)
                if total > MOST_UNPACKED_BYTES:
                    most = f"{MOST_UNPACKED_BYTES >> 30} GiB"
                    raise InputError(one_line(f"{path}: has over {most} of text; record a shorter part of the program"))
                yield block
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(one_line(f"{path}: its gzip data is damaged or cut short ({error}); copy it again")) from None
    except (OSError, ValueError) as error:
        raise file_error(path, error, "read") from None


class EventFile(Generic[Head, Event]):
    """The ``head`` of a file, before ``traceEvents``, and its events. Iteration yields lists of events, once.

    ``bad``: the number of events that are left out because a field has another type. ``mended``: True if text that is
    not UTF-8, or numbers that JSON lacks (``inf``), were replaced.
    """

    def __init__(
        self, path: str | os.PathLike[str], blocks: Iterator[bytes], head: type[Head], event: type[Event]
    ) -> None:
        self._path, self._blocks = path, blocks
        self._event = msgspec.json.Decoder(event)
        self._events = msgspec.json.Decoder(list[event])  # type: ignore[valid-type]
        self.bad, self.events_read, self.mended = 0, 0, False
        self.head, self._text = self._read_head(msgspec.json.Decoder(head), head())

    def __iter__(self) -> Iterator[list[Event]]:
        text, self._text = self._text, b""
        ended, retry_bytes = False, 0
        for block in self._blocks:
            if ended:
                continue  # read to the end: a damaged file may show only there
            text += block
            if len(text) < retry_bytes:
                continue
            before = len(text)
            events, text, ended = self._cut(text)
            if events:
                yield events
            stuck = not ended and len(text) == before
            if stuck and before > LARGEST_EVENT_BYTES:
                where = f"after {self.events_read:,} events"
                raise self._error(f"{where} {LARGEST_EVENT_BYTES >> 20} MiB follow that are no event; record it again")
            retry_bytes = min(2 * before, LARGEST_EVENT_BYTES + 1) if stuck else 0
        if not ended:
            yield self._last(text)

    def _read_head(self, decoder: msgspec.json.Decoder[Head], default: Head) -> tuple[Head, bytes]:
        text = b""
        for block in self._blocks:
            text += block
            for match in islice(_EVENTS.finditer(text), MOST_HEADS):
                try:
                    return decoder.decode(self._mend(text[: match.end()]) + b"]}"), text[match.end() :]
                except msgspec.ValidationError:
                    return default, text[match.end() :]
                except (msgspec.DecodeError, RecursionError):
                    continue  # inside a string or another object
            if len(text) > LARGEST_HEAD_BYTES:
                break
        raise self._error("has no list traceEvents; expected a trace of the PyTorch profiler")

    def _cut(self, text: bytes) -> tuple[list[Event], bytes, bool]:
        """Return the events of the text up to its last whole one, the rest, and True if the list has ended."""
        end = len(text)
        for _ in range(MOST_CUTS):
            found = _last_cut(text, end)
            if found < 0:
                break
            events, ended, whole = self._decode(text[:found], b"]")
            if whole:
                rest = text[found:].lstrip()[1:] if not ended else b""
                return events, rest, ended
            end = found - 1
        return [], text, False

    def _last(self, text: bytes) -> list[Event]:
        """Return the events up to the end of the file, where the list must end."""
        events, ended, whole = self._decode(text, b"")
        if not (ended or whole):
            read = f"after {self.events_read:,} events"
            raise self._error(f"is cut short {read}; copy it again, or let the profiler finish writing it")
        return events

    def _decode(self, text: bytes, end: bytes) -> tuple[list[Event], bool, bool]:
        """Return the events of the text, True if their list ends in it, and True if all its events are whole."""
        data = b"[" + text + end
        decode, mended, ended = self._all, False, False
        while True:
            try:
                return decode(data), ended, True
            except msgspec.ValidationError:
                decode = self._one_by_one
                continue
            except RecursionError:
                raise self._error("is nested too deeply; record it again") from None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                message = str(error)
            at = _AT.search(message)
            if "trailing characters" in message and at and not ended:
                data, ended = data[: int(at[1]) - 1], True
                continue
            if "truncated" in message or (at and end and int(at[1]) >= len(data) - 1):
                return [], False, False
            if mended:
                raise self._error(f"is malformed after {self.events_read:,} events ({message}); record it again")
            data, mended = self._mend(data), True

    def _all(self, data: bytes) -> list[Event]:
        events: list[Event] = self._events.decode(data)
        self.events_read += len(events)
        return events

    def _one_by_one(self, data: bytes) -> list[Event]:
        found = []
        for raw in _RAW.decode(data):
            try:
                found.append(self._event.decode(raw))
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.bad += 1
        self.events_read += len(found)
        return found

    def _mend(self, data: bytes) -> bytes:
        """Replace numbers and letters that JSON does not have."""
        mended = _NO_NUMBER.sub(rb"\1null", data).decode(errors="replace").encode()
        self.mended |= mended != data
        return mended

    def _error(self, reason: str) -> InputError:
        return InputError(one_line(f"{self._path}: {reason}"))


def _last_cut(text: bytes, end: int) -> int:
    """Return the place behind the last ``}`` before ``end`` that another object follows; -1 if there is none."""
    for _ in range(MOST_BRACES):
        end = text.rfind(b"}", 0, end)
        if end < 0 or _CUT.match(text, end):
            return end + 1 or -1
    return -1
