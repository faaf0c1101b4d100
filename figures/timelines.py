"""Predicted and measured time lines of a schedule that was predicted well and of one that was not.

Needs a record made with ``streamsim-validate run --timelines``. Of its schedules that can be seen as a whole, neither
of few ops nor of many, it takes the best and the worst predicted device-bound one.
"""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from shared import STANDARD, Runs, legend, main

from streamsim.errors import InputError
from streamsim.report import plot_gantt, set_title, spelled_out
from streamsim.timeline import Timeline
from streamsim_validate.compare import DEVICE_BOUND, Row, compare, time_lines
from streamsim_validate.records import Record

SIZE_IN = (9.0, 13.0)
SPANS = range(24, 65)  # copies and kernels of a schedule that can be seen as a whole
GRAPH = "launch=graph"  # the profiler does not tell which op of a graph a span is


def draw(runs: Runs) -> Figure:
    """Draw four time lines: the good schedule's two, then the bad one's."""
    found = sorted(_traced(runs), key=lambda traced: abs(traced[1].error))
    if len(found) < 2:
        raise InputError("the record has fewer than two time lines to draw: measure one with run --timelines")
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    panels = figure.subplots(4)
    for pair, (record, row) in zip((panels[:2], panels[2:]), (found[0], found[-1]), strict=True):
        predicted, measured = time_lines(record, row, runs.device)
        assert measured is not None
        until_s = max(predicted.host_s, measured.makespan_s)
        name = spelled_out(row.key)
        _panel(pair[0], predicted, f"{name}: predicted for {record.card.name}, {row.error:+.1%}", until_s)
        _panel(pair[1], measured, f"{name}: measured by the profiler on {record.card.name}", until_s)
    legend(figure, panels[0], columns=6)
    for axes in panels:
        axes.get_legend().remove()
    return figure


def _traced(runs: Runs) -> list[tuple[Record, Row]]:
    found = []
    for record in runs.records:
        seen = {
            (run.connections, entry.key)
            for run, entry in record.measured()
            if entry.timeline is not None and len(entry.timeline.start_ns) in SPANS and GRAPH not in entry.key
        }
        rows = compare(record, runs.device).rows
        found += [(record, row) for row in rows if row.klass == DEVICE_BOUND and (row.connections, row.key) in seen]
    return found


def _panel(axes: Any, timeline: Timeline, words: str, until_s: float) -> None:
    plot_gantt(timeline, axes, until_s=until_s)
    set_title(axes, words)


if __name__ == "__main__":
    main(__file__, draw, STANDARD)
