"""Results on standard output: tables and sentences, JSON, or CSV."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.text import Text

from streamsim.cli.consoles import open_console
from streamsim.cli.printing import print_csv, print_json
from streamsim.device import Device
from streamsim.report import Table


def print_sections(sections: Iterable[Table | Text | str]) -> None:
    """Print tables and sentences. A line of a sentence is never cut."""
    console = open_console()
    for section in sections:
        console.print(section, soft_wrap=not isinstance(section, Table))


def print_result(
    form: str,
    sections: Callable[[], Iterable[Table | str]],
    plain: Callable[[], dict[str, Any]],
    rows: Callable[[], list[dict[str, Any]]],
    device: Device | None = None,
) -> None:
    """Print a result as ``form`` says. Only what is printed is worked out. ``device``: the profile that JSON names."""
    if form == "json":
        print_json(plain(), device)
    elif form == "csv":
        print_csv(rows())
    else:
        print_sections(sections())
