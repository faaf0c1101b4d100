"""Answers, lines, JSON, CSV and files on standard output."""

import json
import re
import shlex
import sys
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from streamsim import __version__
from streamsim.answer import Answer, markdown_of, open_console, show, write_page
from streamsim.cli.process import verdict
from streamsim.device import Device, digest_of, known_within
from streamsim.report import to_csv
from streamsim.text import as_unicode, printable

# What a click context knows: the form of the answer, all of it or the first screen, its page, a program's own card, and
# what was noted of a recording.
FORM, EVERYTHING, PAGE, OWN_CARD, NOTED = (f"streamsim.{name}" for name in ("form", "all", "page", "card", "noted"))
LATER_CONTROLS = re.compile("[\x7f-\x9f]")  # a terminal obeys these as it obeys ESC


def emit(answer: Answer, device: Device | None = None) -> None:
    """Write the page of ``answer`` if --page asks for it, then print it as --format and --all say.

    ``device``: what it was worked out for, for JSON. If the page cannot be written, nothing is printed.
    """
    context = click.get_current_context()
    asked, given = context.meta, context.params.get("device")
    is_usual = isinstance(given, str) and context.get_parameter_source("device") is ParameterSource.DEFAULT
    notes = (f"no --device given: {given}",) if is_usual and not asked.get(OWN_CARD) else ()
    answer = replace(answer, notes=(*answer.notes, *notes), command=shlex.join(called()))
    page, output = asked.get(PAGE), context.params.get("output")
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


def called() -> list[str]:
    """Return the program's name and the arguments with which it was called."""
    words: list[str] = click.get_current_context().find_root().obj or []
    return words


def tell(*lines: str) -> None:
    """Print lines for people. Control characters, which names in files may hold, are escaped."""
    for line in lines:
        print(printable(line))


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
