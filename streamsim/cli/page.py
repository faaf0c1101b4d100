"""``--page`` of commands whose result can be looked at in a browser."""

import shlex
from collections.abc import Container
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from streamsim.cli.options import Output
from streamsim.errors import InputError
from streamsim.page import document
from streamsim.text import one_line

OF_OUTPUT = ("--page", "--plot", "--trace", "--format", "--json", "--explain", "--samples", "--seed")
SUFFIXES = (".html", ".htm")


class Page(Output):
    """A page to save: an HTML file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if Path(value).suffix.lower() not in SUFFIXES:
            name = param.opts[0] if param else "--page"
            raise InputError(one_line(f"{name} {value}: expected a file name that ends in .html"))
        return super().convert(value, param, ctx)


PAGE = Page()
page_option = click.option(
    "--page", type=PAGE, help="Save a page with all of it, to look at in a browser: one .html file."
)


def save_page(kind: str, path: Path | None, *of: Any) -> None:
    """Write the page that a function of :mod:`streamsim.page.pages`, ``kind``, makes ``of`` something.

    It says which command was called. Without a ``path`` nothing is made, nor loaded.
    """
    if path is None:
        return
    from streamsim.page import pages

    write_called(getattr(pages, kind)(*of), path)


def write_called(page: document.Page, path: Path) -> None:
    """Write ``page``, which says which command was called."""
    from streamsim.page import write_page

    write_page(replace(page, command=shlex.join(_called())), path)


def _called() -> list[str]:
    """Return the program's name and the arguments with which it was called."""
    called: list[str] = click.get_current_context().find_root().obj or []
    return called


def predicting(left_out: Container[str]) -> str:
    """Return the command that predicts the work which the current command is called for, by the same options.

    ``left_out``: options that stay away; of ``--set`` those that name several values do.
    """
    from streamsim.cli.predict import predict_command

    context = click.get_current_context()
    known = {param.opts[0] for param in predict_command.params if param.opts[0] not in left_out} - {*OF_OUTPUT}
    called = _called()
    given, _, _ = context.command.make_parser(context).parse_args(called[called.index(context.info_name or "") + 1 :])
    words = ["streamsim", "predict"]
    for param in context.command.params:
        values = given.get(param.name or "")
        for value in values if isinstance(values, list | tuple) else [values]:
            if param.opts[0] in known and isinstance(value, str) and not _is_range(param.opts[0], value):
                words += [param.opts[0], value] if isinstance(param, click.Option) else [value]
    return shlex.join(words)


def _is_range(option: str, value: str) -> bool:
    return option == "--set" and ("," in value or ".." in value)
