"""``--fail-if``: conditions under which a command ends with exit code 1, such as ``speedup < 1.5``.

    NAME < NUMBER, NAME > NUMBER

NAME is that of a number in the command's JSON, with or without its unit: ``makespan`` is ``makespan_s``. NUMBER may
have a unit: 2ms, 8GiB, 5%. The tolerances of ``streamsim-validate compare`` are read and reported here as well.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import click
import msgspec

from streamsim.cli.notes import say
from streamsim.errors import FOUND, OK, InputError
from streamsim.text import format_bytes, format_seconds, parse_bytes, parse_seconds, shown

FORM = "expected the name of a number, < or >, and a limit, such as 'speedup < 1.5' or 'makespan > 2ms'"
_FORM = re.compile(r"\s*([^<>=%]*?)\s*([<>])\s*([0-9]{1,9}(?:\.[0-9]{0,9})?)\s*(%|[A-Za-z]*)\s*", re.ASCII)


class Condition(msgspec.Struct, frozen=True):
    """A limit of the number ``name``; below it ("<") or above it (">") a command fails.

    ``limit``: in seconds or bytes if it has such a ``unit``; a percentage is a share.
    """

    text: str
    name: str
    sign: str
    limit: float
    unit: str = ""

    def fails(self, value: float) -> bool:
        """Return True if a value is on the wrong side of the limit."""
        return value < self.limit if self.sign == "<" else value > self.limit


def parse_condition(text: str, expected: str = FORM) -> Condition:
    """Return the condition in ``"makespan > 2ms"``. Raises InputError, which says what is ``expected``."""
    found, where = _FORM.fullmatch(text), f"--fail-if {shown(text)}"
    if found is None:
        raise InputError(f"{where}: {expected}")
    name, sign, number, unit = found.groups()
    if unit in ("", "%"):
        limit = float(number) / (100 if unit else 1)
    else:
        limit = parse_seconds(number + unit, where) if unit.endswith("s") else parse_bytes(number + unit, where, 0)
    return Condition(text, name, sign, limit, unit)


fail_if_option = click.option(
    "--fail-if",
    callback=lambda _context, _param, texts: tuple(map(parse_condition, texts)),
    multiple=True,
    metavar="'NAME < LIMIT'",
    help="End with exit code 1 if so; NAME is a number of --json: 'speedup < 1.5', 'makespan > 2ms'. Repeatable.",
)


def judged(conditions: Iterable[Condition], result: Mapping[str, Any]) -> int:
    """Say which conditions hold of the numbers in a ``result``; return the command's exit code.

    Raises InputError for a name that none of them has, or several.
    """
    figures = dict(_figures(result))
    values = [(condition, *_figure(condition, figures)) for condition in conditions]
    return report_failures((one.text, _shown(name, value, one)) for one, name, value in values if one.fails(value))


def report_failures(failed: Iterable[tuple[str, str]]) -> int:
    """Say of each condition that holds what the value is; return the command's exit code."""
    code = OK
    for text, value in failed:
        say(f"failed: {text}: is {value}")
        code = FOUND
    return code


def _figures(result: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, float]]:
    for name, value in result.items():
        if isinstance(value, dict) and name != "inputs":
            yield from _figures(value, f"{place}{name}.")
        elif type(value) in (int, float) and name != "schema_version":
            yield place + name, value


def _figure(condition: Condition, figures: Mapping[str, float]) -> tuple[str, float]:
    """Return the number that a condition names, by its whole name or by the last part of a single name."""
    names = [condition.name, f"{condition.name}_s", f"{condition.name}_bytes"]
    ends = [name for name in names if name in figures][:1]
    ends = ends or [name for name in figures if name.rpartition(".")[2] in names]
    if len(ends) == 1:
        return ends[0], figures[ends[0]]
    why = f"may be {', '.join(ends)}; give one of them"
    if not ends:
        near = get_close_matches(condition.name, figures, n=5) or list(figures)[:5]
        why = f"names no number; there is {', '.join(near)}"
    raise InputError(f"--fail-if {shown(condition.text)}: {shown(condition.name)} {why}")


def _shown(name: str, value: float, condition: Condition) -> str:
    if condition.unit == "%":
        return f"{value:.2%}"
    if name.endswith("_s"):
        return format_seconds(value)
    return format_bytes(int(value)) if name.endswith("_bytes") else f"{value:.4g}"
