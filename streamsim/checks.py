"""What a number or a word of a value may be: the largest numbers, and checks that name the field."""

import reprlib

from streamsim.errors import InputError

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


def check_tuple(field: str, value: object, *of: type) -> None:
    """Raise InputError unless ``value`` is a tuple (a list would make the value that holds it mutable), of such items.

    Without ``of`` the items are not looked at.
    """
    if type(value) is not tuple:
        expected = f" of {of[0].__name__}" if of else ""
        raise InputError(f"{field} = {type(value).__name__}: expected a tuple{expected}")
    if of and value and not {*map(type, value)}.issubset(of):
        i = next(i for i, item in enumerate(value) if type(item) not in of)
        check_is(f"{field}[{i}]", value[i], of[0])


def check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise InputError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise InputError(f"{field} = {shown(value)}: expected one of {', '.join(choices)}")


def shown(value: object) -> str:
    """Return any ``value`` as a short text for an error message."""
    try:
        return _SHOWN.repr(value)
    except ValueError:  # an int may have more digits than Python writes
        return f"a {type(value).__name__} too long to write"
