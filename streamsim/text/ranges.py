"""Ranges of numbers as people write them: ``1..64``, ``1..64+3``, ``1MiB..1GiB*2``, ``1,2,4,8..64*2``.

Commas separate values and ranges. ``A..B`` counts from A to B, ``+STEP`` in steps, ``*FACTOR`` multiplying. Both
ends are included; a range that does not hit its end stops before it.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from streamsim.checks import MOST_CHUNKS, check_choice
from streamsim.errors import InputError
from streamsim.text.quantities import parse_number
from streamsim.text.shown import shown

Parse = Callable[[str, str], float]  # the text of a number and the name of its field
MOST_VALUES = 1_000_000
ALL = "all"  # a device buffer for each chunk
Word = TypeVar("Word", bound=str)
SLACK = 1e-9  # the relative error by which rounding may put the last value beyond the end
_RANGE = re.compile(r"(?P<first>.+?)\.\.(?P<last>[^*+]+)(?:\+(?P<step>[^*+]+)|\*(?P<factor>[^*+]+))?")


def expand(text: str, field: str, parse: Parse, whole: bool = True, step_by_one: bool = True) -> tuple[float, ...]:
    """Return every number that ``text`` names, in order, each once.

    - ``whole``: True for integers; fractions that a factor gives are rounded.
    - ``step_by_one``: True if a range without a step or factor counts in ones.

    Raises InputError naming ``field`` for a bad or empty range, and for more than a million values.
    """
    found: dict[float, None] = {}
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        values = _values(match, part, field, parse, step_by_one) if match else (parse(part, field),)
        for value in values:
            found[round(value) if whole else value] = None
            if len(found) > MOST_VALUES:
                raise InputError(f"{field} = {shown(text)}: more than {MOST_VALUES} values; give a larger step")
    return tuple(found)


def _values(match: re.Match[str], text: str, field: str, parse: Parse, step_by_one: bool) -> Iterator[float]:
    first, last = parse(match["first"], field), parse(match["last"], field)
    if last < first:
        raise InputError(f"{field} = {shown(text)}: an empty range; expected the smaller number first")
    if match["factor"]:
        factor = _factor(match["factor"], field)
        if first <= 0:
            hint = "write the 0 apart, in front of a range that begins above it"
            raise InputError(f"{field} = {shown(text)}: no factor leads away from 0; {hint}")
        yield from _until(last, (first * factor**k for k in range(MOST_VALUES + 1)))
        return
    if not match["step"] and not step_by_one:
        stepped = f"{''.join(text.split())}*2"
        raise InputError(f"{field} = {shown(text)}: a range without a step; add one such as {stepped}")
    step = parse(match["step"], field) if match["step"] else 1
    if step <= 0:
        raise InputError(f"{field} = {shown(text)}: expected a step above 0")
    yield from _until(last, (first + step * k for k in range(MOST_VALUES + 1)))


def _until(last: float, values: Iterator[float]) -> Iterator[float]:
    """Yield the values up to ``last``; a value that differs from ``last`` only by rounding becomes ``last``."""
    for value in values:
        if value > last * (1 + SLACK):
            return
        yield last if math.isclose(value, last, rel_tol=SLACK) else value


def _factor(text: str, field: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 1 < factor < math.inf:
        raise InputError(f"{field} = {shown(f'...*{text}')}: expected a factor above 1, such as 2 or 1.5")
    return factor


def parse_buffers(text: str) -> tuple[int | None, ...]:
    """Return the numbers of device buffers in ``"all,2,3"``: (None, 2, 3). None: a buffer for each chunk."""
    count = partial(parse_number, most=MOST_CHUNKS)
    found: list[int | None] = []
    for part in text.split(","):
        found += [None] if part.strip() == ALL else map(int, expand(part, "buffers", count))
    return tuple(dict.fromkeys(found))


def chosen(field: str, text: str, choices: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the ``choices`` in a text such as ``"depth-first,serial"``. Raises InputError naming ``field``."""
    parts = dict.fromkeys(part.strip() for part in text.split(","))
    for part in parts:
        check_choice(field, part, choices)
    return tuple(choice for part in parts for choice in choices if choice == part)
