"""Predicted against measured time of every schedule of the committed records, and the error of each."""

from __future__ import annotations

from statistics import median
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from shared import CLASS_STYLE, DARK, INK, RANDOM, Runs, legend, main, tidy, title

from streamsim_validate.compare import Row

SIZE_IN = (7.2, 7.4)
TENTH = 0.1
MS = 1e3


def draw(runs: Runs) -> Figure:
    """Draw times on logarithmic axes above, signed errors below."""
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    above, below = figure.subplots(2, sharex=True, height_ratios=(3, 2))
    rows = runs.rows()
    for klass, (colour, marker) in CLASS_STYLE.items():
        members = [row for row in rows if row.klass == klass]
        if members:
            style = {"color": colour, "marker": marker, "s": 13, "linewidths": 0.3, "edgecolors": "white"}
            measured = [row.measured_s * MS for row in members]
            above.scatter(measured, [row.predicted_s * MS for row in members], label=_name(klass, members), **style)
            below.scatter(measured, [row.error for row in members], **style)
    _frame(above, below, rows)
    title(above, f"{runs.cards}: predicted and measured times; grey: within 10 %")
    legend(figure, above, columns=2)
    return figure


def _name(klass: str, members: list[Row]) -> str:
    error = median(abs(row.error) for row in members)
    return f"{klass}, {len(members)} schedules, median error {error:.1%}"


def _frame(above: Any, below: Any, rows: list[Row]) -> None:
    ends = [scale * f(row.measured_s for row in rows) * MS for scale, f in ((0.8, min), (1.25, max))]
    above.plot(ends, ends, color=INK, linewidth=0.8, zorder=0)
    above.fill_between(ends, *([end * (1 + off) for end in ends] for off in (-TENTH, TENTH)), color=DARK, alpha=0.15)
    above.set(xscale="log", yscale="log", xlim=ends, ylim=ends, ylabel="predicted, ms")
    below.axhspan(-TENTH, TENTH, color=DARK, alpha=0.15, linewidth=0)
    below.axhline(0, color=INK, linewidth=0.8)
    most = max(TENTH, *(abs(row.error) for row in rows)) * 1.08
    below.set(ylim=(-most, most), ylabel="error of the prediction", xlabel="measured, ms")
    below.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for axes in (above, below):
        tidy(axes)
        axes.xaxis.set_major_formatter("{x:g}")
    above.yaxis.set_major_formatter("{x:g}")


if __name__ == "__main__":
    main(__file__, draw, RANDOM)
