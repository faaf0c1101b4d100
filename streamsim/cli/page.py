"""``--page`` of commands whose result can be looked at in a browser."""

import shlex
from collections.abc import Container
from pathlib import Path
from typing import Any

import click

from streamsim.cli import printing
from streamsim.cli.options import Output
from streamsim.errors import InputError
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


def _note_page(context: click.Context, _param: click.Parameter, value: Path | None) -> Path | None:
    context.meta[printing.PAGE] = value
    return value


page_option = click.option(
    "--page",
    type=PAGE,
    expose_value=False,
    callback=_note_page,
    help="Save all of it as a page for a browser: one .html file.",
)


def page_asked() -> Path | None:
    """Return the file that --page names; None without it."""
    path: Path | None = click.get_current_context().meta.get(printing.PAGE)
    return path


def predicting(left_out: Container[str]) -> str:
    """Return the command that predicts the work which the current command is called for, by the same options.

    ``left_out``: options that stay away; of ``--set`` those that name several values do.
    """
    from streamsim.cli.predict import predict_command

    context = click.get_current_context()
    known = {param.opts[0] for param in predict_command.params if param.opts[0] not in left_out} - {*OF_OUTPUT}
    called = printing.called()
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
