"""Text of messages: foreign text made safe for one line of a terminal, numbers of things, and lists of words."""

from collections.abc import Sequence

LONGEST_LINE = 500
LONGEST_TEXT = 100
LONGEST_REPR = 199  # of a value with more contents than fit one line


def printable(text: str) -> str:
    """Return ``text`` with unprintable characters escaped, such as ESC, line ends and marks of direction."""
    text = as_unicode(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Return ``text`` fit for one line of a terminal: unprintable characters are escaped, and a long text is cut."""
    safe = printable(text[: longest + 1])
    return safe if len(safe) <= longest else f"{safe[: longest - 3]}..."


def as_unicode(text: str) -> str:
    """Return ``text`` with undecoded bytes of a file's name read as UTF-8.

    If the locale cannot decode bytes (the locale C decodes only ASCII), Python keeps them as surrogates, which JSON and
    UTF-8 cannot hold. Bytes that are not UTF-8 either are escaped.
    """
    try:
        return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a half that stands for no byte
        return text


FORMULA = tuple("=+-@'")  # a spreadsheet takes a text that begins with one for a formula, or drops it


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
    """Return ``text`` fit for the ``repr`` of a large value."""
    return one_line(text, LONGEST_REPR)


def uncapitalised(text: str) -> str:
    """Return ``text`` with a lower-case first letter; a word in capitals, such as ``JSON``, is unchanged."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def counted(count: int, what: str, plural: str = "s") -> str:
    """Return a number of things: ``1 stream``, ``2 streams``, ``1,000 streams``; ``plural``: the ending of several."""
    return f"{count:,} {what}{'' if count == 1 else plural}"


def listed(words: Sequence[str]) -> str:
    """Return words as a sentence lists them: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([*filter(None, [", ".join(words[:-1])]), *words[-1:]])
