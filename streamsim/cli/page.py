"""``--page`` of commands whose result can be looked at in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from streamsim.cli.options import Output
from streamsim.errors import InputError
from streamsim.text.shown import one_line

SUFFIXES = (".html", ".htm")


class Page(Output):
    """A page to save: an HTML file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if Path(value).suffix.lower() not in SUFFIXES:
            raise InputError(one_line(f"--page {value}: expected a file name that ends in .html"))
        return super().convert(value, param, ctx)


page_option = click.option(
    "--page", type=Page(), help="Save a page with all of it, to look at in a browser: one .html file."
)


def save_page(kind: str, path: Path | None, *of: Any) -> None:
    """Write the page that a function of :mod:`streamsim.page.pages`, ``kind``, makes ``of`` something.

    It says which command was called. Without a ``path`` nothing is made, nor loaded.
    """
    if path is None:
        return
    from streamsim.page import pages
    from streamsim.page.document import write_page

    page = getattr(pages, kind)(*of)
    write_page(replace(page, command=click.get_current_context().find_root().obj or ""), path)
