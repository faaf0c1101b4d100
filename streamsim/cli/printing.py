"""What commands print and write: answers, lines, JSON, CSV and files; and the conditions of ``--fail-if``.

A condition such as ``speedup < 1.5`` makes a command end with exit code 1: NAME < NUMBER, or NAME > NUMBER. NAME is
that of a number in the command's JSON, with or without its unit: ``makespan`` is ``makespan_s``. NUMBER may have a
unit: 2ms, 8GiB, 5%.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource
from msgspec.structs import replace

from streamsim import __version__
from streamsim.answer import Answer, markdown_of, open_console, show, write_page
from streamsim.cli.options import EVERYTHING, FORM, PAGE, Quantity, all_of, format_options, noted
from streamsim.cli.running import say, verdict
from streamsim.device import Device, digest_of, known_within
from streamsim.errors import FOUND, OK, InputError, as_unicode, shown
from streamsim.report import plot_gantts, save_picture, to_csv, write_traces
from streamsim.text import format_bytes, format_seconds, parse_bytes, parse_seconds
from streamsim.timeline import Timeline

# What a click context knows: the page, a program's own card, what was noted of a recording, and --fail-if.
PAGE_ASKED, OWN_CARD, NOTED, CONDITIONS = (f"streamsim.{name}" for name in ("page", "card", "noted", "conditions"))
CONDITION_FORM = "expected the name of a number, < or >, and a limit, such as 'speedup < 1.5' or 'makespan > 2ms'"
_CONDITION = re.compile(r"\s*([^<>=%]*?)\s*([<>])\s*([0-9]{1,9}(?:\.[0-9]{0,9})?)\s*(%|[A-Za-z]*)\s*", re.ASCII)


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


def parse_condition(text: str) -> Condition:
    """Return the condition in ``"makespan > 2ms"``. Raises InputError, which says what is expected."""
    found, where = _CONDITION.fullmatch(text), f"--fail-if {shown(text)}"
    if found is None:
        raise InputError(f"{where}: {CONDITION_FORM}")
    name, sign, number, unit = found.groups()
    if unit in ("", "%"):
        limit = float(number) / (100 if unit else 1)
    else:
        limit = parse_seconds(number + unit, where) if unit.endswith("s") else parse_bytes(number + unit, where, 0)
    return Condition(text, name, sign, limit, unit)


fail_if_option = noted(
    CONDITIONS,
    "--fail-if",
    "End with exit code 1 if so; NAME is a number of --json: 'speedup < 1.5', 'makespan > 2ms'. Repeatable.",
    Quantity("condition", lambda text, _: parse_condition(text)),
    multiple=True,
    metavar="'NAME < LIMIT'",
)


def judged(conditions: Iterable[Condition], result: Mapping[str, Any]) -> int:
    """Say which conditions hold of the numbers in a ``result``; return the command's exit code.

    Raises InputError for a name that none of them has.
    """
    figures, code = dict(_figures(result)), OK
    for one in conditions:
        name = next((name for name in (one.name, f"{one.name}_s", f"{one.name}_bytes") if name in figures), "")
        if not name:
            near = ", ".join(get_close_matches(one.name, figures, n=5) or list(figures)[:5])
            raise InputError(f"--fail-if {shown(one.text)}: {shown(one.name)} names no number; there is {near}")
        if one.fails(figures[name]):
            say(f"failed: {one.text}: is {_shown(name, figures[name], one)}")
            code = FOUND
    return code


def _figures(result: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, float]]:
    for name, value in result.items():
        if isinstance(value, dict) and name != "inputs":
            yield from _figures(value, f"{place}{name}.")
        elif type(value) in (int, float) and name != "schema_version":
            yield place + name, value


def _shown(name: str, value: float, condition: Condition) -> str:
    if condition.unit == "%":
        return f"{value:.2%}"
    if name.endswith("_s"):
        return format_seconds(value)
    return format_bytes(int(value)) if name.endswith("_bytes") else f"{value:.4g}"


LATER_CONTROLS = re.compile("[\x7f-\x9f]")  # a terminal obeys these as it obeys ESC


page_option = noted(PAGE_ASKED, "--page", "Save all of it as a page for a browser: one .html file.", PAGE)
answer_options = all_of(format_options, page_option, fail_if_option)


def page_asked() -> Path | None:
    """Return the file that --page names; None without it."""
    path: Path | None = click.get_current_context().meta.get(PAGE_ASKED)
    return path


def write_beside(timelines: Mapping[str, Timeline], plot: Path | None, trace: Path | None) -> None:
    """Write what was asked for; ``timelines`` by what they are called, the one before first."""
    if plot is not None:
        save_picture(partial(plot_gantts, timelines), plot)
    if trace is not None:
        write_traces(timelines, trace)


def emit(answer: Answer, device: Device | None = None, figures: Mapping[str, Any] | None = None) -> int:
    """Write the page of ``answer`` if --page asks for it, then print it as --format and --all say.

    Return the exit code by --fail-if. ``device``: what it was worked out for, for JSON; ``figures``: numbers beside
    those of the answer that --fail-if may name. If the page cannot be written, nothing is printed.
    """
    context = click.get_current_context()
    asked, given = context.meta, context.params.get("device")
    is_usual = isinstance(given, str) and context.get_parameter_source("device") is ParameterSource.DEFAULT
    notes = (f"no --device given: {given}",) if is_usual and not asked.get(OWN_CARD) else ()
    answer = replace(answer, notes=(*answer.notes, *notes), command=shlex.join(called()))
    if asked.get(FORM) == "csv" and not answer.rows:
        raise InputError("--format csv: is for the rows of a sweep, or of several programs; give --json")
    page, output = asked.get(PAGE_ASKED), context.params.get("output")
    if page is not None:
        write_page(replace(answer, warnings=(*answer.warnings, *asked.get(NOTED, ()))), page)
    wrote = tuple(f"wrote {file}" for file in (output, page) if file is not None)
    answer = replace(answer, notes=(*answer.notes, *wrote))
    everything = asked.get(EVERYTHING, False)
    with verdict():
        match asked.get(FORM):
            case "json":
                print_object({**_stamp(device), **answer.data})
            case "csv":
                sys.stdout.write(to_csv(answer.rows))
            case "markdown":
                sys.stdout.write(markdown_of(answer, everything))
            case _:
                show(answer, open_console(), everything)
    return judged(asked.get(CONDITIONS, ()), {**answer.data, **(figures or {})})


def called() -> list[str]:
    """Return the program's name and the arguments with which it was called."""
    words: list[str] = click.get_current_context().find_root().obj or []
    return words


def print_object(value: dict[str, Any]) -> None:
    """Print an object as JSON. Numbers that JSON lacks are an error. File names are text, whatever the locale."""
    print(json.dumps(_as_unicode(value), indent=2, allow_nan=False))


def _stamp(device: Device | None) -> dict[str, Any]:
    """Return what every result begins with: the versions of its keys and of streamsim, and the profile, if any.

    The keys have version 1 unless the result says another. The profile's digest changes with any of its numbers, so
    that results of two profiles of one name can be told apart.
    """
    found: dict[str, Any] = {"schema_version": 1, "streamsim": __version__}
    if device is not None:
        found["profile"] = {"name": device.name, "digest": digest_of(device)}
        found["known_within"] = known_within(device) or None
    return found


def _as_unicode(value: Any) -> Any:
    if isinstance(value, str):
        return as_unicode(value)
    if isinstance(value, dict):
        return {_as_unicode(name): _as_unicode(item) for name, item in value.items()}
    return list(map(_as_unicode, value)) if isinstance(value, list | tuple) else value


def print_data(data: bytes) -> None:
    """Print what belongs into a file: in UTF-8, whatever the terminal can show.

    Writers of JSON and TOML escape the control characters of ASCII in names; the others are escaped here, as both read.
    """
    data = LATER_CONTROLS.sub(lambda found: rf"\u{ord(found[0]):04x}", data.decode()).encode()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    else:  # text kept in memory
        sys.stdout.write(data.decode())
