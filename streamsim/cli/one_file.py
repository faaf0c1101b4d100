"""A workload's file that says more than the work: how to cut and issue it, the device, and what was measured.

The values in the file take the place of the options' defaults, so that an option on the command line wins. A sweep's
file is read in the same way if each of its axes has one value.
"""

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

import click

from streamsim.cli.given import is_program
from streamsim.errors import InputError
from streamsim.files import read_bytes
from streamsim.program import read_plan
from streamsim.search import ARRAYS, ONCE, read_asked
from streamsim.text import LARGEST_TOML_BYTES, kind_of, one_line, shown

CUT = ("chunks", "streams", "order", "buffers", "launch")  # what a search looks for itself


def take_defaults(context: click.Context, param: click.Parameter, path: Path | None) -> Path | None:  # noqa: ARG001
    """Make what the file says the defaults of the other options; return the path of the workload, if it is one.

    Raises InputError naming the file, the name and the value.
    """
    if path is None or context.resilient_parsing or is_program(path) or not path.is_file():
        return path
    asked, workload = _asked(path)
    known = {option.name: option for option in context.command.params}
    searches = "chunks" not in known
    context.default_map = {
        name: _value(path, known[name], name, value)
        for name, value in asked.items()
        if name in known and not (searches and name in CUT)
    }
    return workload


def _asked(path: Path) -> tuple[Mapping[str, Any], Path | None]:
    """Return the options in a file, and the file of their workload."""
    if kind_of(read_bytes(path, LARGEST_TOML_BYTES)) != "sweep":
        return read_plan(path), path

    texts = read_asked(path)
    if "scale" in texts:
        raise InputError(one_line(f"{path}: scale = {shown(texts['scale'][0])}: is for streamsim sweep; leave it out"))
    workload = texts.pop("workload", None)
    several = {name: texts.pop(name) for name in (*ARRAYS, *ONCE, "set") if name in texts}
    several["settings"] = several.pop("set", [])
    asked = {**several, **{name: values[0] for name, values in texts.items()}}
    return asked, Path(workload[0]) if workload else None


def _value(path: Path, option: click.Parameter, name: str, value: Any) -> Any:
    """Return the value of an option, read as on the command line. Raises InputError naming the file and the name."""
    if name == "measured" and isinstance(value, list):
        value = ",".join(map(str, value))
    named = copy(option)
    named.opts = [name]  # in messages
    try:
        if option.multiple:
            return tuple(option.type.convert(str(one), named, None) for one in value)
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise InputError(f"{name} = {shown(value)}: expected one value; several are for streamsim sweep")
        return option.type.convert(str(value), named, None)
    except InputError as error:
        raise InputError(one_line(f"{path}: {error}")) from None
    except click.UsageError as error:
        raise InputError(one_line(f"{path}: {name} = {shown(value)}: {error.message}")) from None
