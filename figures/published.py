"""Published runs against their predictions: one row for each, its signed error and both times.

Every prediction comes from the serial or per-stage times of the same source (``streamsim.analysis.published_cases``).
Writes published.png beside this file.
"""

import io
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from streamsim.analysis import PublishedCase, cases
from streamsim.files import write_bytes

SIZE_IN, DPI, FONT_PT = (7.2, 5.2), 200, 8.0
WITHIN, BEYOND, INK, GRID = "#0072B2", "#E08A00", "#222222", "#999999"
CLOSE, FAR = 5.0, 10.0  # percent
MARGINS = {"left": 0.30, "right": 0.78, "top": 0.99, "bottom": 0.09}  # of the figure; the words stand in them
PUBLISHED_X, PREDICTED_X = 1.17, 1.41  # right edges of the columns, of the axes
TITLES = {
    "blog V1": "Blog program, depth-first (V1)",
    "blog V2": "Blog program, breadth-first (V2)",
    "simpleMultiCopy": "simpleMultiCopy, 4 streams",
    "sleep kernel": "Sleep kernel, 4 streams",
}


def draw() -> Figure:
    """Draw the errors as bars from zero, grouped by program, with the times beside them."""
    figure = Figure(figsize=SIZE_IN)
    axes = figure.subplots(gridspec_kw=MARGINS)
    rows = sorted(cases(), key=lambda case: list(TITLES).index(case.group))
    y = 0.0
    for group, members in groupby(rows, key=lambda case: case.group):
        text(axes, -0.01, y, TITLES[group], ha="right", weight="bold")
        for case in members:
            y += 1
            row(axes, y, case)
        y += 1.3
    for x, heading in ((PUBLISHED_X, "published"), (PREDICTED_X, "predicted")):
        text(axes, x, -0.6, f"{heading}\nms", ha="right", weight="bold")
    _frame(axes, y)
    return figure


def row(axes: Any, y: float, case: PublishedCase) -> None:
    """One case: name, bar, error and times."""
    error = case.error * 100
    axes.barh(y, error, height=0.62, color=WITHIN if abs(error) <= CLOSE else BEYOND)
    axes.annotate(
        f"{error:+.1f} %", (error, y), (4 if error > 0 else -4, 0), textcoords="offset points",
        ha="left" if error > 0 else "right", va="center", fontsize=FONT_PT, color=INK,
        bbox={"color": "white", "pad": 0.8}, zorder=1,
    )  # fmt: skip
    text(axes, -0.01, y, case.name, ha="right")
    for x, seconds in ((PUBLISHED_X, case.published_s), (PREDICTED_X, case.predicted_s)):
        text(axes, x, y, f"{seconds * 1e3:.3f}", ha="right")


def text(axes: Any, x: float, y: float, words: str, **style: Any) -> None:
    """Words at a row, beside the axes."""
    axes.text(x, y, words, transform=axes.get_yaxis_transform(), va="center", fontsize=FONT_PT, color=INK, **style)


def _frame(axes: Any, bottom: float) -> None:
    axes.axvline(0, color=INK, linewidth=0.8)
    for percent in (-FAR, -CLOSE, CLOSE, FAR):
        axes.axvline(percent, color=GRID, linewidth=0.6, linestyle=":" if abs(percent) == CLOSE else "-", zorder=0)
    axes.set(xlim=(-FAR - 1, FAR + 1), ylim=(bottom - 0.6, -1.2), yticks=[])
    axes.set_xticks((-10, -5, 0, 5, 10), ("-10 %", "-5 %", "0", "+5 %", "+10 %"), fontsize=FONT_PT)
    axes.set_xlabel("error of the prediction", fontsize=FONT_PT)
    axes.spines[["left", "right", "top"]].set_visible(False)


if __name__ == "__main__":
    picture = io.BytesIO()
    draw().savefig(picture, format="png", dpi=DPI)
    write_bytes(picture.getvalue(), Path(__file__).with_suffix(".png"))
