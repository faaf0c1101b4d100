"""The predicted 90 % interval and the measured median of every device-bound schedule, record by record."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from shared import BLUE, DARK, INK, ORANGE, RANDOM, Runs, legend, main, tidy, title

from streamsim.errors import InputError
from streamsim_validate.compare import DEVICE_BOUND, Expected, by_class, compare, expectations
from streamsim_validate.records import Record

WIDTH_IN, HEIGHT_IN = 7.2, 3.4  # of a record
SAMPLES = 100
REACH = 0.2  # of the prediction: what is further off is drawn at the edge


def draw(runs: Runs) -> Figure:
    """Draw a panel for each record: its schedules from the narrowest interval to the widest."""
    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN * len(runs.records)), layout="constrained")
    panels = figure.subplots(len(runs.records), squeeze=False)[:, 0]
    for axes, record in zip(panels, runs.records, strict=True):
        rows = [row for row in compare(record, runs.device).rows if row.klass == DEVICE_BOUND]
        if not rows:
            raise InputError("the record has no device-bound schedules: there is nothing to draw")
        _panel(axes, record, expectations(record, rows, SAMPLES, device=runs.device))
    panels[-1].set_xlabel("schedules, from the narrowest interval to the widest")
    legend(figure, panels[0], columns=4)
    return figure


def _panel(axes: Any, record: Record, found: list[Expected]) -> None:
    found = sorted(found, key=lambda one: one.width)
    places = range(len(found))
    ends = [[end / one.row.predicted_s - 1 for end in (one.interval.low_s, one.interval.high_s)] for one in found]
    lows, highs = zip(*ends, strict=True)
    axes.fill_between(places, lows, highs, step="mid", color=DARK, alpha=0.3, linewidth=0, label="90 % interval")
    cut = [(i, edge) for i in places for edge, end in ((-REACH, -lows[i]), (REACH, highs[i])) if end > REACH]
    axes.scatter(*zip(*cut, strict=True), s=9, color=DARK, marker="x", label="interval goes on") if cut else None
    axes.axhline(0, color=INK, linewidth=0.8)
    for inside, colour, marker, name in ((True, BLUE, "o", "measured, inside"), (False, ORANGE, "D", "outside")):
        members = [i for i in places if found[i].is_inside == inside]
        measured = [max(-REACH, min(found[i].row.measured_s / found[i].row.predicted_s - 1, REACH)) for i in members]
        axes.scatter(
            members, measured, s=9, color=colour, marker=marker, linewidths=0.2, edgecolors="white", label=name
        )
    axes.set(ylim=(-REACH * 1.04, REACH * 1.04), xlim=(-1, len(found)), ylabel="against the prediction; 20 %: or more")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    c = by_class(found)[DEVICE_BOUND]
    begun = record.runs[0].started[:16].replace("T", " ")
    title(axes, f"{record.card.name}, {begun}: {c.inside:.1%} of {c.n} medians inside, mean width {c.mean_width:.1%}")
    tidy(axes)


if __name__ == "__main__":
    main(__file__, draw, RANDOM)
