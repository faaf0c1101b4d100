"""What others have written, made fit to be shown in an error message or on one line of a terminal."""

import reprlib

from streamsim.checks import written

LONGEST_LINE = 500
LONGEST_TEXT = 100
LONGEST_REPR = 199  # of a value that holds more than a line can say
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 60


def printable(text: str) -> str:
    """Return ``text`` with what is no printable character escaped, such as ESC, line ends and marks of direction."""
    text = as_unicode(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """``text`` fit for one line of a terminal: what cannot be printed is escaped, what is too long is cut."""
    safe = printable(text[: longest + 1])
    return safe if len(safe) <= longest else f"{safe[: longest - 3]}..."


def as_unicode(text: str) -> str:
    """``text`` with the bytes of a file's name that the locale cannot decode (C: all but ASCII) read as UTF-8.

    Python hands such bytes on as halves of characters, which JSON and UTF-8 cannot hold. Bytes that are no UTF-8 either
    are escaped.
    """
    try:
        return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a half that stands for no byte
        return text


FORMULA = tuple("=+-@'")  # a spreadsheet takes a text that begins so for a formula, or takes the mark away


def to_cell(value: object) -> object:
    """Return ``value`` as a cell of a CSV file: a text without control characters, and never a formula."""
    if not isinstance(value, str):
        return value
    safe = printable(value)
    return f"'{safe}" if safe.startswith(FORMULA) else safe


def from_cell(text: str) -> str:
    """Return the text of a cell that :func:`to_cell` made."""
    return text.removeprefix("'")


def short(text: str) -> str:
    """``text`` fit for the ``repr`` of a value that holds more than a line can say."""
    return one_line(text, LONGEST_REPR)


def shown(value: object) -> str:
    """``value`` as a short text for an error message, whatever it holds and however much of it."""
    return written(value, _SHOWN.repr)


def uncapitalised(text: str) -> str:
    """``text`` without the capital of a sentence; ``JSON`` keeps its own."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
