"""What input can lead to: the one error that bad input raises, the checks that raise it, and safe text for messages.

The commands of both programs turn errors and notices into one line, and end with one of the exit codes that stand here.
"""

import reprlib
from collections.abc import Callable, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

OK = 0
FOUND = 1  # a check found something, or a tolerance failed
BAD_INPUT = 2  # or usage
NO_GPU = 3  # none that can be used
UNEXPECTED = 70  # an error that nobody expected: EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # as shells say it: 128 and the number of the signal


class InputError(ValueError):
    """Bad input: a file, an argument or a schedule.

    The message names the offending thing and the remedy, on one line whatever the input holds.
    """

    exit_code = BAD_INPUT

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class Notice(UserWarning):
    """Input was read, but not all of it counts. The message names the place and what was left out."""


class NoRoomError(InputError):
    """What is asked for needs more memory than the card has."""


def install(extra: str) -> str:
    """Return the command that installs an extra of this package, such as ``fast``."""
    return f"pip install '.[{extra}]' in streamsim's folder"


# Text of messages: foreign text made safe for one line of a terminal, numbers of things, and lists of words.

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


def counted(count: int, what: str) -> str:
    """Return a number of things: ``1 stream``, ``2 streams``, ``1,000 streams``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """Return words as a sentence lists them: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([*filter(None, [", ".join(words[:-1])]), *words[-1:]])


# What a number or a word of a value may be: the largest numbers, and checks that name the field.

# 8 TiB: above any card's memory, and small enough for the model's 64-bit fixed-point bytes (20 fractional bits).
LARGEST_BYTES = (1 << 43) - 1
LARGEST_COUNT = (1 << 31) - 1
MOST_CHUNKS = 1_000_000  # and streams, buffers; a schedule of so many takes some 2 GB; more is a slip of the keyboard
MOST_CALLS = 4_000_000  # of a program, that copy or launch: minutes of simulating, and gigabytes
LONGEST_S = 86_400.0
SHORTEST_KERNEL_S = 1e-9
LEAST_SHARE = 1e-12  # of a launch
LEAST_FILL = 1e-6  # of the card


def check_whole(field: str, value: object, least: int, most: int) -> None:
    """Raise InputError unless ``value`` is an int (not a bool) in ``least..most``."""
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{field} = {shown(value)}: expected a whole number from {least} to {most}")


def check_calls(what: str, calls: int) -> None:
    """Raise InputError, which begins with ``what``, for a program of more copies and launches than are simulated."""
    if calls > MOST_CALLS:
        less = "give fewer of these, or kernels of fewer launches"
        raise InputError(f"{what}: {calls} copies and launches, more than {MOST_CALLS}; {less}")


def check_number(field: str, value: object, least: float, most: float) -> None:
    """Raise InputError unless ``value`` is a finite number in ``least..most``."""
    if type(value) not in (int, float) or not least <= value <= most:  # type: ignore[operator]
        raise InputError(f"{field} = {shown(value)}: expected a number from {least:g} to {most:g}")


_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 60
WORDS = {str: "text", bool: "True or False", dict: "a table"}


def check_is(field: str, value: object, kind: type) -> None:
    """Raise InputError unless ``value`` is a ``kind``, as its annotation says; pass it only where None is none."""
    if not isinstance(value, kind):
        raise InputError(f"{field} = {shown(value)}: expected {WORDS.get(kind) or f'a {kind.__name__}'}")


def check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise InputError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise InputError(f"{field} = {shown(value)}: expected one of {', '.join(map(str, choices))}")


def shown(value: object) -> str:
    """Return any ``value`` as a short text for an error message."""
    try:
        return _SHOWN.repr(value)
    except ValueError:  # an int may have more digits than Python writes
        return f"a {type(value).__name__} too long to write"


# Values that check themselves: a field's type says what its value may be.


class Limits(msgspec.Struct, frozen=True):
    """The limits of a number, in its ``Annotated`` type. None: 0, the largest size, or the longest time."""

    least: float | None = None
    most: float | None = None


def limits_of(kind: Any) -> tuple[Any, Any]:
    """Return the least and the largest value of a number of a declared type."""
    bare, limits = get_args(kind) if get_origin(kind) is Annotated else (kind, Limits())
    most = LARGEST_BYTES if bare is int else LONGEST_S
    return limits.least or 0, most if limits.most is None else limits.most


Bytes = Annotated[int, Limits(least=1)]
Index = Annotated[int, Limits(most=LARGEST_COUNT)]
Share = Annotated[float, Limits(LEAST_SHARE, 1)]
Fill = Annotated[float, Limits(LEAST_FILL, 1)]
KernelTime = Annotated[float, Limits(least=SHORTEST_KERNEL_S)]


class Checked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that raises InputError naming a field whose value is not what the field's type declares."""

    def __post_init__(self) -> None:
        for field, default, kind, least, most, check in _rules_of(type(self)):
            value = getattr(self, field)
            if value is default or (type(value) is kind and (most is None or least <= value <= most)):
                continue  # nearly always, and without a call
            check(field, value)

    def __repr__(self) -> str:
        return short(super().__repr__())


Check = Callable[[str, Any], None]


class Rule(NamedTuple):
    """What a declared type says of values: their class, a number's limits, and a check of a field's name and value."""

    kind: Any
    least: float | None
    most: float | None
    check: Check


@cache
def _rules_of(struct: type[msgspec.Struct]) -> list[tuple[str, Any, Any, Any, Any, Check]]:
    """Return the name, the default and the rule of each field."""
    return [(field.name, field.default, *rule_of(field.type)) for field in msgspec.structs.fields(struct)]


def rule_of(kind: Any) -> Rule:
    """Return the rule of values of a declared type."""
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    origin, of = get_origin(bare), get_args(bare)
    if bare in (int, float):
        (least, most), check = limits_of(kind), check_whole if bare is int else check_number
        return Rule(bare, least, most, lambda field, value: check(field, value, least, most))
    if origin in (UnionType, Union):  # a type, or None
        rule = rule_of(of[0])
        return rule._replace(check=lambda field, value: None if value is None else rule.check(field, value))
    if origin is Literal:
        return Rule(bare, None, None, lambda field, value: check_choice(field, value, of))
    if origin is tuple:
        return Rule(bare, None, None, _tuple_of(of[0]))
    return Rule(bare, None, None, lambda field, value: check_is(field, value, origin or bare))


def _tuple_of(kind: Any) -> Check:
    """Return the check of a tuple of such items; a list would make the value that holds it mutable."""
    kinds = frozenset([kind] if isinstance(kind, type) else [])
    check = rule_of(kind).check if get_origin(kind) in (Annotated, Literal) or kinds else None

    def check_items(field: str, value: Any) -> None:
        if type(value) is not tuple:
            of = "".join(f" of {some.__name__}" for some in kinds)
            raise InputError(f"{field} = {type(value).__name__}: expected a tuple{of}")
        if check is not None and not (kinds and kinds.issuperset(map(type, value))):
            for k, item in enumerate(value):
                check(f"{field}[{k}]", item)

    return check_items
