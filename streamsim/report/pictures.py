"""Pictures as files: which kinds there are, and the same bytes for the same drawing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from streamsim.errors import InputError
from streamsim.files.atomic_files import write_bytes
from streamsim.text.shown import one_line

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from matplotlib.axes import Axes

FORMATS = ("png", "svg", "pdf")
UNDATED: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
DPI = 200


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
    from matplotlib import rc_context

    figure = draw().get_figure(root=True)
    assert figure is not None
    picture = io.BytesIO()
    with rc_context({"svg.hashsalt": "streamsim"}):
        figure.savefig(picture, format=form, dpi=DPI, metadata=UNDATED[form])
    write_bytes(picture.getvalue(), path)
