"""Pictures as files: which kinds there are, and the same bytes for the same drawing."""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from streamsim.errors import InputError
from streamsim.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNDATED: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
DPI, SCREEN_DPI = 200, 96
TITLE_PT, LETTER_IN, LEAST_TITLE = 10, 0.068, 20  # of a title: its size, a letter, letters in a line
BACKEND = "MPLBACKEND"


def picture_format(path: str | os.PathLike[str]) -> str:
    """Tell the format by the suffix of ``path``. Raises InputError for one that is not of a picture."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in UNDATED:
        known = ", ".join(f".{form}" for form in UNDATED)
        raise InputError(f"{path}: expected a file name that ends in one of {known}")
    return form


def save_picture(draw: Callable[[], Axes | list[Axes]], path: str | os.PathLike[str]) -> None:
    """Save the figure of what ``draw`` draws: a .png, .svg or .pdf file, whose bytes depend on the drawing alone.

    Raises InputError for another suffix, before anything is drawn, and if the file cannot be written.
    """
    form = picture_format(path)
    if "matplotlib" not in sys.modules:
        _import_matplotlib()
    from matplotlib import rc_context

    drawn = draw()
    picture = io.BytesIO()
    with rc_context({"svg.hashsalt": "streamsim"}):
        figure = root_figure(drawn[0] if isinstance(drawn, list) else drawn)
        figure.savefig(picture, format=form, dpi=DPI, metadata=UNDATED[form])
    write_bytes(picture.getvalue(), path)


def _import_matplotlib() -> None:
    """Import Matplotlib even if the environment names a backend that is not there: files need no backend."""
    backend = os.environ.pop(BACKEND, "")
    try:
        import matplotlib
    finally:
        if backend:
            os.environ[BACKEND] = backend
    if backend:
        with suppress(ValueError):
            matplotlib.rcParams["backend"] = backend


@cache
def displayed_axes() -> type[Axes]:
    """Return the class of Axes whose figure a notebook shows, without pyplot."""
    from matplotlib.axes import Axes

    class DisplayedAxes(Axes):
        def _repr_png_(self) -> bytes:
            return png_of(self)

    return DisplayedAxes


class DisplayedPanels(list["Axes"]):
    """The Axes of one figure, which a notebook shows as that figure."""

    def _repr_png_(self) -> bytes:
        return png_of(self[0])


def png_of(axes: Axes) -> bytes:
    """Return the figure that holds ``axes`` as a PNG."""
    picture = io.BytesIO()
    root_figure(axes).savefig(picture, format="png", dpi=SCREEN_DPI)
    return picture.getvalue()


def set_title(axes: Axes, title: str) -> None:
    """Write ``title`` above the left of ``axes``, in as many lines as its width needs."""
    width_in = axes.get_position().width * root_figure(axes).get_size_inches()[0]
    lines = textwrap.wrap(title, max(LEAST_TITLE, int(width_in / LETTER_IN)), break_on_hyphens=False)
    axes.set_title("\n".join(lines), loc="left", fontsize=TITLE_PT, parse_math=False)


def root_figure(axes: Axes) -> Figure:
    """Return the whole figure that holds ``axes``, also where ``axes`` lie in a part of it (a SubFigure)."""
    from matplotlib.figure import Figure

    figure = axes.figure.figure  # get_figure(root=True) needs Matplotlib 3.10
    assert isinstance(figure, Figure)
    return figure
