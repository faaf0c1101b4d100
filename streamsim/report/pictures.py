"""Pictures as files: which kinds there are, and the same bytes for the same drawing."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from streamsim.errors import InputError
from streamsim.files.atomic_files import write_bytes
from streamsim.text.shown import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
UNDATED: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
DPI = 200
BACKEND = "MPLBACKEND"


def picture_format(path: str | os.PathLike[str]) -> str:
    """Tell the format by the suffix of ``path``. Raises InputError for one that is not in FORMATS."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in FORMATS:
        known = ", ".join(f".{form}" for form in FORMATS)
        raise InputError(one_line(f"{path}: expected a file name that ends in one of {known}"))
    return form


def save_axes(draw: Callable[[], Axes], path: str | os.PathLike[str]) -> None:
    """Save the figure of what ``draw`` draws. Raises InputError for another suffix, and when it cannot be written."""
    form = picture_format(path)  # before anything is drawn
    if "matplotlib" not in sys.modules:
        _import_matplotlib()
    from matplotlib import rc_context

    figure = root_figure(draw())
    picture = io.BytesIO()
    with rc_context({"svg.hashsalt": "streamsim"}):
        figure.savefig(picture, format=form, dpi=DPI, metadata=UNDATED[form])
    write_bytes(picture.getvalue(), path)


def root_figure(axes: Axes) -> Figure:
    """Return the whole figure that holds ``axes``, also where ``axes`` lie in a part of it (a SubFigure)."""
    from matplotlib.figure import Figure

    figure = axes.figure.figure  # get_figure(root=True) needs Matplotlib 3.10
    assert isinstance(figure, Figure)
    return figure


def _import_matplotlib() -> None:
    """Import Matplotlib even if the environment names a backend that is not installed: files need no backend.

    Jupyter, for example, sets ``MPLBACKEND`` to a package of its own. A backend that is there is set as Matplotlib
    itself would set it.
    """
    backend = os.environ.pop(BACKEND, "")
    try:
        import matplotlib
    finally:
        if backend:
            os.environ[BACKEND] = backend
    if backend:
        with suppress(ValueError):
            matplotlib.rcParams["backend"] = backend
