"""The same schedules with 1, 8 and 32 hardware queues: predicted and measured times.

One queue is the hardware of old: a head that waits blocks what is behind it, so issue order decides what overlaps.
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from shared import BLUE, INK, ORANGE, PURPLE, SMALL_PT, STANDARD, Runs, heading, main, tidy, title

from streamsim.errors import InputError
from streamsim_validate.compare import Row, compare
from streamsim_validate.records import Recipe
from streamsim_validate.suites import EVEN, HEAVY, MI, SMALL, sincos

SIZE_IN = (9.0, 5.8)
MS = 1e3
ROOM = 1.06  # above the longest time
SHAPES = ((4, 4), (16, 4), (16, 16), (32, 8), (64, 4), (64, 32))  # chunks, streams
WORKLOADS = {
    (4 * MI, EVEN): "16 MiB, kernel as long as a copy",
    (16 * MI, SMALL): "64 MiB, kernel a third of a copy",
    (16 * MI, HEAVY): "64 MiB, kernel four copies long",
}
STYLE = {1: (PURPLE, "v", -0.2), 8: (BLUE, "o", 0.0), 32: (ORANGE, "s", 0.2)}


def draw(runs: Runs) -> Figure:
    """Draw a column for each workload, a row for each issue order, from the first record."""
    rows = {(row.connections, row.key): row for row in compare(runs.records[0], runs.device).rows}
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    panels = figure.subplots(2, len(WORKLOADS), sharex=True, sharey="col")
    for line, order in zip(panels, ("depth-first", "breadth-first"), strict=True):
        for axes, (workload, name) in zip(line, WORKLOADS.items(), strict=True):
            longest = _panel(axes, rows, order, *workload)
            axes.set_ylim(0, max(axes.get_ylim()[1], longest * ROOM))
            if order == "depth-first":
                title(axes, name)
        line[0].set_ylabel(f"{order}: time, ms")
    for axes in panels[-1]:
        axes.set_xlabel("chunks (above) and streams (below)")
    heading(figure, f"{runs.records[0].card.name}: the same schedules through 1, 8 and 32 hardware queues")
    _legend(figure)
    return figure


def _panel(axes: Any, rows: dict[tuple[int, str], Row], order: str, elements: int, iterations: int) -> float:
    """Returns the longest time drawn."""
    longest = 0.0
    for connections, (colour, marker, shift) in STYLE.items():
        for x, (chunks, streams) in enumerate(SHAPES):
            key = Recipe(order, {"chunks": chunks, "streams": streams}, sincos(elements, iterations), "grid").key
            row = rows.get((connections, key))
            if row is None:
                raise InputError(f"the record has no {key!r} with {connections} connections: draw a standard one")
            times = [row.measured_s * MS, row.predicted_s * MS]
            longest = max(longest, *times)
            axes.plot([x + shift] * 2, times, color=colour, linewidth=1)
            axes.plot(x + shift, times[0], marker, color=colour, markersize=4.5)
            axes.plot(x + shift, times[1], marker, color=colour, markersize=6.5, fillstyle="none")
    tidy(axes)
    axes.set_xticks(range(len(SHAPES)), [f"{chunks}\n{streams}" for chunks, streams in SHAPES])
    return longest


def _legend(figure: Figure) -> None:
    marks = []
    for connections, (colour, marker, _) in STYLE.items():
        name = f"{connections} connection{'s' * (connections > 1)}"
        marks.append(Line2D([], [], color=colour, marker=marker, linestyle="", label=name))
    marks.append(Line2D([], [], color=INK, marker="o", linestyle="", label="filled: measured"))
    marks.append(Line2D([], [], color=INK, marker="o", linestyle="", fillstyle="none", label="open: predicted"))
    figure.legend(handles=marks, loc="outside lower center", ncols=5, fontsize=SMALL_PT, frameon=False)


if __name__ == "__main__":
    main(__file__, draw, STANDARD)
