"""The rows of a sweep as a picture: two of its columns against each other, the optimum marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamsim.displayed import Displayed
from streamsim.errors import InputError
from streamsim.report.pictures import save_axes
from streamsim.text.quantities import format_bytes, format_seconds, unit_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from matplotlib.axes import Axes

    from streamsim.search.sweep import Sweep

VALUE = "makespan_s"
COLOURS = "viridis_r"  # told apart by the colour-blind and in grey print; the fastest is the brightest
MOST_CELLS = 1_000_000
MOST_TICKS, MOST_LETTERS = 16, 70  # on an axis, below the x axis
WIDTH_IN, HEIGHT_IN = 7.5, 5.0

Cells = dict[tuple[Any, Any], float]


class HeatMap(Displayed):
    """The shortest makespan for each pair of values of the columns ``x`` and ``y``, over all else in the rows."""

    def __init__(self, x: str = "chunks", y: str = "streams") -> None:
        self.x, self.y = x, y
        self.cells: Cells = {}

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Take note of rows. Raises InputError when they lack a column, or name more pairs than can be drawn."""
        cells = self.cells
        for row in rows:
            for name in (self.x, self.y):
                if name not in row:
                    raise InputError(f"column {name!r}: the rows have no such column; they have {', '.join(row)}")
            at = (row[self.x], row[self.y])
            cells[at] = min(row[VALUE], cells.get(at, row[VALUE]))
            if len(cells) > MOST_CELLS:
                raise InputError(f"columns {self.x!r} and {self.y!r}: more than {MOST_CELLS} pairs; choose others")

    @property
    def optimum(self) -> tuple[Any, Any]:
        """The pair with the shortest makespan; of equals the smallest x, then y."""
        return min(self.cells, key=lambda at: (self.cells[at], value_order(at[0]), value_order(at[1])))


def save_heatmap(heat: HeatMap, path: str | os.PathLike[str]) -> None:
    """Draw ``heat`` into a .png, .svg or .pdf file; the same rows give the same bytes. Raises InputError."""
    save_axes(lambda: plot_heatmap(heat), path)


def plot_heatmap(heat: HeatMap | Sweep, ax: Axes | None = None) -> Axes:
    """Draw ``heat`` into ``ax`` (without one: that of a new figure) and return it; pairs without rows stay white.

    Of a sweep, which is predicted for it, the chunks and streams are drawn.
    """
    import numpy as np

    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained").add_subplot()
    if not isinstance(heat, HeatMap):
        rows, heat = heat, HeatMap()
        heat.add(rows)
    if not heat.cells:
        raise InputError("an empty sweep: no rows to draw")
    xs, ys = (sorted({at[k] for at in heat.cells}, key=value_order) for k in (0, 1))
    grid = np.full((len(ys), len(xs)), np.nan)
    at_x, at_y = ({value: k for k, value in enumerate(values)} for values in (xs, ys))
    for (x, y), seconds in heat.cells.items():
        grid[at_y[y], at_x[x]] = seconds * 1e3
    image = ax.imshow(grid, origin="lower", aspect="auto", interpolation="nearest", cmap=COLOURS)
    ax.figure.colorbar(image, ax=ax, label="makespan, ms")
    best_x, best_y = heat.optimum
    ax.plot(
        at_x[best_x], at_y[best_y], marker="*", markersize=14, color="white", markeredgecolor="black", clip_on=False
    )
    widest = max(len(value_words(heat.x, x)) for x in xs)
    _ticks(ax.xaxis, heat.x, xs, min(MOST_TICKS, MOST_LETTERS // (widest + 1)))
    _ticks(ax.yaxis, heat.y, ys, MOST_TICKS)
    seconds = heat.cells[best_x, best_y]
    pair = ((heat.x, best_x), (heat.y, best_y))
    where = ", ".join(f"{column_words(column)} {value_words(column, value)}" for column, value in pair)
    ax.set_title(f"fastest (star): {where}: {format_seconds(seconds)}", loc="left", fontsize=10, parse_math=False)
    return ax


def _ticks(axis: Any, name: str, values: list[Any], most: int) -> None:
    step = -(-len(values) // max(1, most))
    axis.set_ticks(range(0, len(values), step), [value_words(name, value) for value in values[::step]])
    axis.set_label_text(column_words(name), parse_math=False)


def value_order(value: Any) -> tuple[int, Any]:
    """Numbers in order, then words; nothing (no ring of buffers) first."""
    if value is None:
        return 0, 0
    return (2, value) if isinstance(value, str) else (1, value)


def column_words(column: str) -> str:
    """Return the name of a column without its unit."""
    return column.removesuffix(unit_of(column))


def value_words(column: str, value: Any) -> str:
    """Return a value of a column in words, with its unit."""
    if value is None or isinstance(value, str):
        return "all" if value is None else value
    if column.endswith("_per_s"):
        return f"{value / 1e9:.4g} GB/s"
    if column.endswith("_s"):
        return format_seconds(value)
    return format_bytes(value) if "_bytes" in column else f"{value:g}"
