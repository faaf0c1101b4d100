"""Predicted and measured time lines of a schedule that was predicted well and of one that was not.

Needs a record made with ``streamsim-validate run --timelines``; it takes the best and the worst predicted of its
schedules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from shared import Runs, main

from streamsim.errors import InputError
from streamsim.plot import plot_gantt
from streamsim_validate.compare import compare, time_lines

if TYPE_CHECKING:
    from streamsim.timeline import Timeline
    from streamsim_validate.compare import Row

SIZE_IN = (9.0, 13.0)
Drawn = tuple["Row", "Timeline", "Timeline"]


def draw(runs: Runs) -> Figure:
    """Draw four time lines: the good schedule's two, then the bad one's."""
    found = sorted(_traced(runs), key=lambda drawn: abs(drawn[0].error))
    if len(found) < 2:
        raise InputError("the record has fewer than two time lines: measure one with run --timelines")
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    panels = figure.subplots(4)
    for pair, (row, predicted, measured) in zip((panels[:2], panels[2:]), (found[0], found[-1]), strict=True):
        until_s = max(predicted.host_s, measured.makespan_s)
        _panel(pair[0], predicted, f"{row.key}: predicted, {row.error:+.1%}", until_s)
        _panel(pair[1], measured, "measured by the profiler", until_s)
    return figure


def _traced(runs: Runs) -> list[Drawn]:
    found: list[Drawn] = []
    for record in runs.records:
        for row in compare(record, runs.device).rows:
            predicted, measured = time_lines(record, row, runs.device)
            if measured is not None:
                found.append((row, predicted, measured))
    return found


def _panel(axes: Any, timeline: Timeline, words: str, until_s: float) -> None:
    plot_gantt(timeline, axes, until_s=until_s)
    axes.set_title(words, loc="left", fontsize=9)


if __name__ == "__main__":
    main(__file__, draw, timelines=True)
