"""The rows of a sweep as a picture: two of its columns against each other, the optimum marked.

Where the rows have several issue orders, which are no axis, each order has a map of its own, in the same colours.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from streamsim.displayed import Displayed
from streamsim.errors import InputError
from streamsim.report.pictures import DisplayedPanels, displayed_axes, new_figure, root_figure, save_axes, set_title
from streamsim.search import Sweep
from streamsim.text import format_bytes, format_seconds, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VALUE = "makespan_s"
COLOURS = "viridis_r"  # told apart by the colour-blind and in grey print; the fastest is the brightest
MOST_CELLS = 1_000_000
MOST_TICKS, MOST_LETTERS = 16, 70  # on an axis, below the x axis
WIDTH_IN, HEIGHT_IN, SEVERAL_IN = 7.5, 5.0, 5.0  # of a map; the width of one of several
DARKEST = 1.5  # times the fastest: if slower ones were told apart, all good ones would look alike
VALUE_PT, VALUE_IN, LIGHT_BELOW = 6.0, (0.23, 0.13), 0.55  # of a value in a cell: its size, its room, its ink

Cells = dict[tuple[Any, Any], float]


class HeatMap(Displayed):
    """A heat map of a sweep: the shortest makespan for each pair of values of the columns ``x`` and ``y``."""

    def __init__(self, x: str = "chunks", y: str = "streams") -> None:
        self.x, self.y = x, y
        self.cells: Cells = {}
        self.devices: dict[str, None] = {}

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Take note of rows. Raises InputError when they lack a column, or name more pairs than can be drawn."""
        cells = self.cells
        for row in rows:
            for name in (self.x, self.y):
                if name not in row:
                    raise InputError(f"column {name!r}: the rows have no such column; they have {', '.join(row)}")
            if "device" in row:
                self.devices[row["device"]] = None
            at = (row[self.x], row[self.y])
            cells[at] = min(row[VALUE], cells.get(at, row[VALUE]))
            if len(cells) > MOST_CELLS:
                raise InputError(f"columns {self.x!r} and {self.y!r}: more than {MOST_CELLS} pairs; choose others")

    @property
    def optimum(self) -> tuple[Any, Any]:
        """The pair with the shortest makespan; of equal ones, that with the smallest x, then y."""
        return min(self.cells, key=lambda at: (self.cells[at], value_order(at[0]), value_order(at[1])))


def maps_by_order(rows: Iterable[dict[str, Any]], x: str = "chunks", y: str = "streams") -> dict[str, HeatMap]:
    """Return a map for each issue order of the rows, by its name; if the order is an axis, one map. Raises InputError.

    The maps are those of :meth:`HeatMap.add`.
    """
    found: dict[str, HeatMap] = {}
    for row in rows:
        order = "" if "order" in (x, y) else str(row.get("order", ""))
        found.setdefault(order, HeatMap(x, y)).add([row])
    return found


def save_heatmaps(maps: Mapping[str, HeatMap], path: str | os.PathLike[str]) -> None:
    """Draw maps, by their names, side by side into a .png, .svg or .pdf file. Raises InputError.

    The same rows give the same bytes.
    """
    save_axes(lambda: plot_heatmaps(maps)[0], path)


def plot_heatmaps(maps: Mapping[str, HeatMap]) -> list[Axes]:
    """Draw maps, by their names, side by side into the Axes of a new figure, in the same colours."""
    if not maps:
        raise InputError("an empty sweep: no rows to draw")
    if len(maps) == 1:
        return DisplayedPanels(map(plot_heatmap, maps.values()))
    kind = {"axes_class": displayed_axes()}
    panels = new_figure((SEVERAL_IN * len(maps), HEIGHT_IN)).subplots(1, len(maps), sharey=True, subplot_kw=kind)
    scale_ms = _scale_ms([seconds for heat in maps.values() for seconds in heat.cells.values()])
    for number, (axes, (name, heat)) in enumerate(zip(panels, maps.items(), strict=True), 1):
        _draw(heat, axes, scale_ms, name, has_bar=number == len(maps))
        axes.label_outer()
    return DisplayedPanels(panels)


def plot_heatmap(heat: HeatMap | Sweep, ax: Axes | None = None) -> Axes:
    """Draw ``heat`` into ``ax`` (without one: that of a new figure, which a notebook shows) and return it.

    Pairs without rows stay white; cells with room for it show their time. Of a sweep, which is predicted for it, the
    chunks and streams are drawn.
    """
    if ax is None:
        ax = new_figure((WIDTH_IN, HEIGHT_IN)).add_subplot(axes_class=displayed_axes())
    if not isinstance(heat, HeatMap):
        rows, heat = heat, HeatMap()
        heat.add(rows)
    if not heat.cells:
        raise InputError("an empty sweep: no rows to draw")
    _draw(heat, ax, _scale_ms(heat.cells.values()))
    return ax


def _scale_ms(times_s: Iterable[float]) -> tuple[float, float]:
    """Return from which time to which the colours go, in milliseconds."""
    known = sorted(times_s)
    return known[0] * 1e3, min(DARKEST * known[0], known[-1]) * 1e3


def _draw(heat: HeatMap, ax: Axes, scale_ms: tuple[float, float], name: str = "", has_bar: bool = True) -> None:

    xs, ys = (sorted({at[k] for at in heat.cells}, key=value_order) for k in (0, 1))
    grid = np.full((len(ys), len(xs)), np.nan)
    at_x, at_y = ({value: k for k, value in enumerate(values)} for values in (xs, ys))
    for (x, y), seconds in heat.cells.items():
        grid[at_y[y], at_x[x]] = seconds * 1e3
    image = ax.imshow(grid, origin="lower", aspect="auto", interpolation="nearest", cmap=COLOURS)
    image.set_clim(*scale_ms)
    best_x, best_y = heat.optimum
    star = (at_x[best_x], at_y[best_y])
    ax.plot(*star, marker="*", markersize=14, color="white", markeredgecolor="black", clip_on=False)
    _write_values(ax, grid, star, scale_ms)
    widest = max(len(value_words(heat.x, x)) for x in xs)
    _ticks(ax.xaxis, heat.x, xs, min(MOST_TICKS, MOST_LETTERS // (widest + 1)))
    _ticks(ax.yaxis, heat.y, ys, MOST_TICKS)
    pair = ((heat.x, best_x), (heat.y, best_y))
    where = ", ".join(f"{column_words(column)} {value_words(column, value)}" for column, value in pair)
    device = next(iter(heat.devices)) if len(heat.devices) == 1 and "device" not in (heat.x, heat.y) else ""
    what = " on ".join(filter(None, (name, device)))
    took = format_seconds(heat.cells[best_x, best_y])
    set_title(ax, ": ".join(filter(None, (what, f"fastest (star): {where}", took))))
    if has_bar:  # last, as it makes the map narrower
        more = "; darkest: that or more" if scale_ms[1] >= DARKEST * scale_ms[0] else ""
        ax.figure.colorbar(image, ax=ax, label=f"makespan, ms{more}")


def _write_values(ax: Axes, grid: Any, star: tuple[int, int], scale_ms: tuple[float, float]) -> None:
    """Write each cell's milliseconds into it, if the cells have room; the star stands for its own."""
    width_in, height_in = ax.get_position().size * root_figure(ax).get_size_inches()
    rows, columns = grid.shape
    if width_in / columns < VALUE_IN[0] or height_in / rows < VALUE_IN[1]:
        return
    size = min(VALUE_PT * width_in / columns / VALUE_IN[0], 1.3 * VALUE_PT)
    low, high = scale_ms
    for y, x in zip(*(grid == grid).nonzero(), strict=True):  # not NaN
        is_light = grid[y, x] < low + LIGHT_BELOW * (high - low) or low == high
        if (x, y) != star:
            words = f"{grid[y, x]:#.3g}" if grid[y, x] < 1000 else f"{grid[y, x]:.0f}"
            ax.text(x, y, words, color="black" if is_light else "white", fontsize=size, ha="center", va="center")


def _ticks(axis: Any, name: str, values: list[Any], most: int) -> None:
    step = -(-len(values) // max(1, most))
    axis.set_ticks(range(0, len(values), step), [value_words(name, value) for value in values[::step]])
    axis.set_label_text(column_words(name), parse_math=False)


def value_order(value: Any) -> tuple[int, Any]:
    """Return the sort key of a value: None (no ring of buffers) first, then numbers, then words."""
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
