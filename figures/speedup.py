"""Speed-up over one chunk in one stream, over chunks and streams: predicted and measured, with the best points."""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from shared import BLUE, INK, ORANGE, PURPLE, SMALL_PT, STANDARD, Runs, heading, main, tidy, title

from streamsim.errors import InputError
from streamsim_validate.compare import Row, compare
from streamsim_validate.records import Recipe, Value
from streamsim_validate.suites import CONNECTIONS, EVEN, GRID, HEAVY, LIGHT, MI, SMALL, sincos

SIZE_IN = (9.0, 6.2)
ELEMENTS = 16 * MI
KERNELS = {LIGHT: "a tenth of a copy", SMALL: "a third of a copy", EVEN: "as long as a copy", HEAVY: "of four copies"}
ORDERS = {"depth-first": (BLUE, "o", -0.14), "breadth-first": (ORANGE, "s", 0.14)}
RING_PT = 13.0


class Point(NamedTuple):
    """A configuration: its place on the axis, and its speed-ups."""

    x: float
    order: str
    measured: float
    predicted: float


def draw(runs: Runs) -> Figure:
    """Draw a panel for each weight of the kernel, from the first record."""
    rows = {row.key: row for row in compare(runs.records[0], runs.device).rows if row.connections == CONNECTIONS[0]}
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    panels = figure.subplots(2, 2, sharex=True).flat
    for axes, (iterations, weight) in zip(panels, KERNELS.items(), strict=True):
        best, pick = _panel(axes, points(rows, iterations))
        title(axes, f"Kernel {weight}: best {best.measured:.2f}x, the model's pick {pick.measured:.2f}x")
    heading(figure, f"{runs.records[0].card.name}: speed-up over one chunk in one stream")
    _legend(figure)
    return figure


def points(rows: dict[str, Row], iterations: int) -> list[Point]:
    """The speed-ups of the grid's configurations. Raises InputError when the record lacks them."""
    one = _row(rows, "depth-first", 1, 1, iterations)
    found = []
    for x, (chunks, streams) in enumerate(GRID):
        for order, (_, _, shift) in ORDERS.items():
            if chunks > 1:
                row = _row(rows, order, chunks, streams, iterations)
                speedups = one.measured_s / row.measured_s, one.predicted_s / row.predicted_s
                found.append(Point(x + shift, order, *speedups))
    return found


def _row(rows: dict[str, Row], order: str, chunks: int, streams: int, iterations: int) -> Row:
    arguments: dict[str, Value] = {"chunks": chunks, "streams": streams}
    key = Recipe(order, arguments, sincos(ELEMENTS, iterations), "grid").key
    if key not in rows:
        raise InputError(f"the record has no {key!r}: draw a record of the standard suite")
    return rows[key]


def _panel(axes: Any, found: list[Point]) -> tuple[Point, Point]:
    """Returns the best point and the model's pick."""
    for point in found:
        colour, marker, _ = ORDERS[point.order]
        axes.plot([point.x] * 2, [point.measured, point.predicted], color=colour, linewidth=1)
        axes.plot(point.x, point.measured, marker, color=colour, markersize=5)
        axes.plot(point.x, point.predicted, marker, color=colour, markersize=6.5, fillstyle="none")
    best, pick = max(found, key=lambda p: p.measured), max(found, key=lambda p: p.predicted)
    axes.plot(best.x, best.measured, "*", color=INK, markersize=11, zorder=3)
    axes.plot(pick.x, pick.predicted, "o", color=PURPLE, markersize=RING_PT, fillstyle="none", zorder=3)
    axes.axhline(1, color=INK, linewidth=0.8)
    tidy(axes)
    axes.margins(y=0.1)
    axes.set_xticks(range(1, len(GRID)), [f"{chunks}\n{streams}" for chunks, streams in GRID[1:]])
    axes.set_ylabel("speed-up")
    if axes.get_subplotspec().is_last_row():
        axes.set_xlabel("chunks (above) and streams (below)")
    return best, pick


def _legend(figure: Figure) -> None:
    def mark(marker: str, colour: str, label: str, **style: Any) -> Line2D:
        return Line2D([], [], color=colour, marker=marker, linestyle="", label=label, **style)

    marks = [mark(marker, colour, f"{order}, measured") for order, (colour, marker, _) in ORDERS.items()]
    marks += [mark(m, c, f"{order}, predicted", fillstyle="none") for order, (c, m, _) in ORDERS.items()]
    marks += [
        mark("*", INK, "best measured", markersize=11),
        mark("o", PURPLE, "the model's pick", fillstyle="none", markersize=RING_PT),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=3, fontsize=SMALL_PT, frameon=False)


if __name__ == "__main__":
    main(__file__, draw, STANDARD)
