"""How the time of one workload depends on chunks, streams and issue order; the fastest of each order is starred.

64 MiB to the card, a kernel of 0.57 ms, 64 MiB back, on the shipped h200 profile: every number of chunks that is a
power of two or halfway between two, with every number of streams up to 16. Writes best.png beside this file.
"""

import io
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from streamsim.files.atomic_files import write_bytes
from streamsim.report.heatmap import HeatMap, plot_heatmap
from streamsim.search.sweep_text import sweep

ASKED: dict[str, Any] = {
    "h2d": "64MiB",
    "kernel": "0.57ms",
    "d2h": "64MiB",
    "device": "h200",
    "chunks": "1,2,3,4,6,8,12,16,24,32,48,64,96,128",
    "streams": "1..16",
}
ORDERS = ("depth-first", "breadth-first")
DARKEST = 1.5  # times the fastest: with slower ones told apart, all good ones would look alike
SIZE_IN, DPI, FONT_PT = (10.0, 4.2), 120, 9.0


def draw() -> Figure:
    """Draw a map for each issue order, both in the same colours."""
    maps = [heat_map(order) for order in ORDERS]
    fastest_ms = min(seconds for heat in maps for seconds in heat.cells.values()) * 1e3
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, order, heat in zip(panels, ORDERS, maps, strict=True):
        plot_heatmap(heat, axes)
        axes.images[0].set_clim(fastest_ms, DARKEST * fastest_ms)
        axes.set_title(f"{order}\n{axes.get_title(loc='left')}", loc="left", fontsize=FONT_PT)
    left, right = (axes.images[0].colorbar for axes in panels)
    left.remove()
    right.set_label("makespan, ms; darkest: that or more")
    return figure


def heat_map(order: str) -> HeatMap:
    """The makespans by chunks and streams."""
    heat = HeatMap("chunks", "streams")
    heat.add(sweep(**ASKED, order=order))
    return heat


if __name__ == "__main__":
    picture = io.BytesIO()
    draw().savefig(picture, format="png", dpi=DPI)
    write_bytes(picture.getvalue(), Path(__file__).with_suffix(".png"))
