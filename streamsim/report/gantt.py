"""A time line as a picture (Gantt chart): the host and the engines above, the streams below.

The colours are told apart by the colour-blind and in grey print: dark, middle and light. A thin line in a
stream's row says that its next op was ready but had to wait for its engine. A row of very many ops shows
for each moment the share of the time that each kind takes, as single bars could not be seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsim.advice import Explanation, Loss, WhatIf
from streamsim.analysis import BUSIEST_ENGINE, Prediction
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.report.kinds import (
    COLOURS,
    HOST_CALL,
    INK,
    KINDS,
    PAGES,
    WAITS,
    engine_place,
    host_kinds,
    host_name,
    kind_of,
    numbers,
    stream_name,
)
from streamsim.report.overlapping_ops import lane_of_each_op
from streamsim.report.pictures import DisplayedPanels, displayed_axes, new_figure, root_figure, save_axes, set_title
from streamsim.report.serial import SERIAL_WORDS, serial_timeline
from streamsim.report.titles import title_of
from streamsim.rules import S_PER_TICK, TICKS_PER_S
from streamsim.text import format_ratio, format_seconds, one_line
from streamsim.timeline import Timeline, Track, critical_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
Ticks = NDArray[np.int64]
Times = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


# Causes of lost time: light enough for a black number, apart in hue from neighbours of their usual size.
CAUSE_COLOURS = {
    "pageable-memory": "#CC3311",
    "legacy-stream": "#997700",
    "host-waits": "#EE6677",
    "issue-order": "#AA88CC",
    "needless-order": "#66CCEE",
    "copied-once": "#DDAA77",
    "connections": "#BBBB33",
    "many-streams": "#7799CC",
    "host-work": "#AAAA00",
    "slow-calls": "#885522",
    "host-issue": "#999999",
    "small-chunks": "#EECC66",
    "duplex": "#44AA99",
    "few-blocks": "#6699CC",
    "few-chunks": "#EE99AA",
}
BOUND_COLOUR, PATH_COLOUR, PATH = "#DDDDDD", "#222222", "critical path"
IDLE_COLOUR, EDGE_COLOUR = "#F3F3F3", "#333333"
UNITS = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (float("inf"), 1.0, "s"))  # below: per second, name

BAR, WAITS_BAR, GAP = 0.8, 0.09, 0.4  # in rows: a bar, the line of a wait, the space between groups of rows
MOST_BARS = 500  # of a kind in a row; beyond, shares
MOMENTS = 500  # at which shares are drawn
MOST_STREAMS = 64
MOST_LANES = 8  # that a row grows with
WIDTH_IN, ROW_IN, ROWS_IN, MARGINS_IN = 9.0, 0.28, 8.5, 1.0  # a row, and the most for all of them
PT_PER_IN, FONT_PT, NUMBER_PT, EDGE_PT = 72, 8.0, 6.5, 0.4
PATH_PT, PATH_AT = 1.8, 0.85  # its width, and how far down a bar
LEGEND_COLUMNS, LEGEND_LINE_IN = 3, 0.17
BELOW_TICKS, BELOW_LABEL = 2.2, 3.6  # from the axis to the legend in font sizes
HANDLE_IN, LEGEND_LETTER_IN, AXIS_NAME_IN = 0.5, 0.065, 0.7  # of a legend: a colour with its spaces, a letter
LEAST_NUMBER = 0.62  # of the usual size of a number
DIGIT_IN, NUMBERED_IN, EDGED_IN = 0.06, 0.02, 0.03  # a digit, the room around a number, the least bar with an edge


def save_gantt(
    timeline: Timeline, path: str | os.PathLike[str], serial_s: float | None = None, serial_program: str = "serial"
) -> None:
    """Draw ``timeline`` into a .png, .svg or .pdf file; the rest as for :func:`plot_gantt`.

    The same time line gives the same bytes. Raises InputError for another suffix, and when the file cannot
    be written.
    """
    save_axes(lambda: plot_gantt(timeline, serial_s=serial_s, serial_program=serial_program), path)


def save_gantts(timelines: Mapping[str, Timeline], path: str | os.PathLike[str]) -> None:
    """Draw several time lines, by what they are called, one above the other over one time axis, into a file."""
    save_axes(lambda: plot_gantts(timelines)[0], path)


def save_compared(prediction: Prediction, path: str | os.PathLike[str]) -> None:
    """Draw a prediction below the program that it is compared with (see :func:`plot_compared`) into a file."""
    save_axes(lambda: plot_compared(prediction)[0], path)


def save_explanation(explanation: Explanation, path: str | os.PathLike[str]) -> None:
    """Draw ``explanation`` into a file, as :func:`save_gantt` does; below it the program with the first change made."""
    save_axes(lambda: plot_remedied(explanation)[0], path)


def plot_gantt(
    timeline: Timeline | Prediction | Explanation | WhatIf,
    ax: Axes | None = None,
    serial_s: float | None = None,
    until_s: float | None = None,
    serial_program: str = "serial",
) -> Axes:
    """Draw ``timeline``, or that of a prediction or another value, into ``ax`` and return it.

    Without ``ax`` it is that of a new figure, which a notebook shows.
    ``serial_s``: what the same work takes without overlap, for the speed-up in the title, and ``serial_program``
    what that is called there. The numbers on bars are chunks (from 1) where every chunk has the same ops, otherwise
    the ops of a kind in issue order.
    ``until_s``: where the time axis ends, to compare time lines (without it: at the last bar's end).
    """
    timeline = timeline_of(timeline)
    rows = _rows(timeline)
    ax = _new_axes([rows])[0] if ax is None else ax
    _Chart(rows, ax, until_s).draw()
    set_title(ax, _title(timeline, serial_s, serial_program))
    return ax


def timeline_of(value: Timeline | Prediction | Explanation | WhatIf) -> Timeline:
    """Return the time line of a value that has one, such as a prediction; a time line is one already."""
    return value if isinstance(value, Timeline) else value.timeline


def plot_gantts(
    timelines: Mapping[str, Timeline | Prediction | Explanation | WhatIf]
    | Iterable[Timeline | Prediction | Explanation | WhatIf],
) -> list[Axes]:
    """Draw several time lines or predictions into the Axes of a new figure, one above the other, on one scale.

    A mapping says what each is called; otherwise it is called what its schedule and its device are. A notebook shows
    what is returned. Raises InputError without any.
    """
    if isinstance(timelines, Mapping):
        named = [(one_line(name), timeline_of(value)) for name, value in timelines.items()]
    else:
        named = [(title_of(timeline), timeline) for timeline in map(timeline_of, timelines)]
    if not named:
        raise InputError("timelines = []: nothing to draw; give at least one")
    titles = [f"{name}: {_makespan_words(timeline)}" for name, timeline in named]
    return _plot_several(titles, [_rows(timeline) for _, timeline in named])


def plot_compared(prediction: Prediction) -> list[Axes]:
    """Draw a prediction below the program that it is compared with, unchunked or serial, on one scale."""
    above, name = serial_timeline(prediction), prediction.serial_program
    what = f"{name} ({SERIAL_WORDS[name]}), on {prediction.device}"
    titles = [
        f"{what}: {_makespan_words(above)}",
        _title(prediction.timeline, above.makespan_s, name),
    ]
    return _plot_several(titles, [_rows(above), _rows(prediction.timeline)])


def _plot_several(titles: Sequence[str], charts: Sequence[Sequence[_Row]]) -> list[Axes]:
    """Draw the rows of each chart one above the other on one scale, with one legend below."""
    until_s = max(_last_s(rows) for rows in charts)
    several = _new_axes(charts)
    for number, (ax, rows, title) in enumerate(zip(several, charts, titles, strict=True), 1):
        chart = _Chart(rows, ax, until_s)
        is_last = number == len(charts)
        chart.draw(legend_of=[row for some in charts for row in some] if is_last else ())
        set_title(ax, title)
    return several


def plot_remedied(explanation: Explanation) -> list[Axes]:
    """Draw ``explanation``, and below it on the same scale the program with the first change made, if there is one.

    The row on top runs from 0 to the makespan: first the busiest engine alone, then what each cause has lost
    (largest first), by colour and number. These are amounts, not moments: a cause loses its time in many
    places. The dark line through the engines is the critical path: what each op on it waited for is the one before.
    """
    timeline, first, lost = explanation.timeline, explanation.first, _lost_row(explanation)
    after = None if first is None else simulate(*first.made.case.scenario)
    rows = _rows(timeline)
    rows[0] = rows[0]._replace(above=GAP)
    charts = [[lost, *rows], *([] if after is None else [_rows(after)])]
    legend_lines = 1 + (len(COLOURS) + len(lost.bars)) // LEGEND_COLUMNS
    panels, until_s = _new_axes(charts, legend_lines), max(map(_last_s, charts))
    _Chart(charts[0], panels[0], until_s, COLOURS | _lost_colours(explanation)).draw(path_of=timeline)
    above = format_seconds(explanation.gap_s, explanation.known_within)
    set_title(panels[0], f"{_title(timeline, None, '')}, of which {above} above the {BUSIEST_ENGINE}")
    if after is not None:
        _Chart(charts[1], panels[1], until_s).draw(legend_of=())
        set_title(panels[1], f"with the first change: {_title(after, None, '')}")
    return panels


def _new_axes(charts: Sequence[Sequence[_Row]], legend_lines: int = 1) -> list[Axes]:
    """Return Axes one above the other in a new figure, with heights for the rows of each chart."""
    heights_in = [min(ROWS_IN / len(charts), ROW_IN * sum(row.height + row.above for row in rows)) for rows in charts]
    legends_in = LEGEND_LINE_IN * (legend_lines - 1)
    size = WIDTH_IN, sum(heights_in) + MARGINS_IN * len(charts) + legends_in
    kind = {"axes_class": displayed_axes()}
    panels = new_figure(size).subplots(len(charts), squeeze=False, height_ratios=heights_in, subplot_kw=kind)
    return DisplayedPanels(panels[:, 0])


def _last_s(rows: Sequence[_Row]) -> float:
    """Return the end of the last bar, in seconds."""
    return max((int(bars.end.max()) for row in rows for bars in row.bars), default=0) / TICKS_PER_S


def _title(timeline: Timeline, serial_s: float | None, serial_program: str) -> str:
    makespan_s, within = timeline.makespan_s, timeline.known_within
    title = f"{title_of(timeline)}: {_makespan_words(timeline)}"
    if serial_s is None:
        return title
    speed_up = f", speed-up {format_ratio(serial_s / makespan_s, within)}" if makespan_s else ""
    return f"{title}, {serial_program} {format_seconds(serial_s, within)}{speed_up}"


def _makespan_words(timeline: Timeline) -> str:
    return f"makespan {format_seconds(timeline.makespan_s, timeline.known_within)}"


# What to draw


class _Bars(NamedTuple):
    """Bars of one kind in a row: from and to (ticks), the lane and the number of each (0: none)."""

    kind: str
    start: Ticks
    end: Ticks
    lane: Ticks
    number: Ticks


class _Row(NamedTuple):
    """A row: its bars, how many lanes it has, a note at its right, and the space above it."""

    name: str
    bars: list[_Bars]
    lanes: int = 1
    note: str = ""
    above: float = 0.0

    @property
    def height(self) -> float:
        """The height of the row, in rows of one lane."""
        return max(1.0, 0.5 * min(self.lanes, MOST_LANES))


class _Spans(NamedTuple):
    """A span of each op: its kind (in KINDS), from and to (ticks), its lane and number."""

    kind: Ticks
    start: Ticks
    end: Ticks
    lane: Ticks
    number: Ticks

    def row(self, name: str, chosen: Mask, note: str = "") -> _Row:
        """Return the row of the ``chosen`` ops."""
        columns = (self.start, self.end, self.lane, self.number)
        kinds = {k: chosen & (self.kind == k) for k in np.unique(self.kind[chosen]).tolist()}
        bars = [_Bars(KINDS[k], *(column[some] for column in columns)) for k, some in kinds.items()]
        return _Row(name, bars, int(self.lane[chosen].max(initial=0)) + 1, note)


def _rows(timeline: Timeline) -> list[_Row]:
    """List the host where its calls took time, the engines, and the streams that have copies or kernels."""
    ops, busy = timeline.schedule.ops, timeline.utilisation if timeline.makespan_s else {}
    start, end, engine = np.array(timeline.start), np.array(timeline.end), np.array(timeline.engine)
    kind, number = np.array(list(map(kind_of, ops))), np.array(numbers(timeline.schedule))
    stream = np.array([-1 if op.stream is None else op.stream for op in ops])
    on_engine, in_stream = (
        _Spans(kind, start, end, np.array(lane_of_each_op(timeline, row.tolist())), number) for row in (engine, stream)
    )
    engines = [
        on_engine.row(name, engine == timeline.engine_names.index(name), f"busy {busy.get(name, 0):.0%}")
        for name in sorted(timeline.engine_names, key=engine_place)
    ]
    engines += [_lane_row(beside) for beside in timeline.tracks]
    streams = _stream_rows(timeline, in_stream, np.where(engine >= 0, stream, -1))
    groups = [group for group in (_host_rows(timeline), engines, streams) if group]
    for group in groups[1:]:
        group[0] = group[0]._replace(above=GAP)
    return [row for group in groups for row in group]


def _lane_row(lane: Track) -> _Row:
    """Make the row of recorded spans that belong to no op."""
    start, end = np.array(lane.start), np.array(lane.end)
    return _Row(lane.name, [_Bars(PAGES, start, end, 0 * start, 0 * start)])


def _stream_rows(timeline: Timeline, spans: _Spans, stream: Ticks) -> list[_Row]:
    """List the rows of streams, with what their ops waited for their engines. ``stream``: -1 for ops on no engine."""
    ready, none = np.array(timeline.ready), 0 * spans.number
    waits = _Spans(none + KINDS.index(WAITS), ready, spans.start, spans.lane, none)
    late = (ready >= 0) & (ready < spans.start)
    rows, used = [], np.unique(stream[stream >= 0]).tolist()
    for one in used[:MOST_STREAMS]:
        row = spans.row(stream_name(one), stream == one)
        rows.append(row._replace(bars=row.bars + waits.row("", late & (stream == one)).bars))
    if len(used) > MOST_STREAMS:
        rows.append(_Row(f"{len(used) - MOST_STREAMS} more streams", []))
    return rows


def _host_rows(timeline: Timeline) -> list[_Row]:
    """List the threads whose calls, waits and work took time; of a captured graph's calls only its launch."""
    kind, thread = np.array(host_kinds(timeline)), np.array([op.thread for op in timeline.schedule.ops])
    spans = _Spans(kind, np.array(timeline.issued), np.array(timeline.returned), 0 * kind, 0 * kind)
    threads = np.unique(thread).tolist()
    rows = [spans.row(host_name(one, len(threads)), (kind > 0) & (thread == one)) for one in threads]
    if timeline.schedule.launch == "graph" and timeline.launched > 0 and rows:
        none = np.array([0])
        rows[0].bars.append(_Bars(HOST_CALL, none, np.array([timeline.launched]), none, none))
    return [row for row in rows if row.bars]


LOST_ROW = "where it goes"


def _lost_row(explanation: Explanation) -> _Row:
    """Return the row with the bound and the losses one after another, in ticks, numbered as in the legend."""
    ends = np.cumsum([round(explanation.bound_s * TICKS_PER_S), *(loss.ticks for loss in _largest_first(explanation))])
    kinds = list(_lost_colours(explanation))
    bars = [
        _Bars(kind, np.array([start]), np.array([end]), np.array([0]), np.array([number]))
        for number, (kind, start, end) in enumerate(zip(kinds, [0, *ends], ends, strict=False))
    ]
    share = explanation.gap_s / explanation.makespan_s if explanation.makespan_s else 0.0
    return _Row(LOST_ROW, bars, note=f"lost {share:.0%}")


def _largest_first(explanation: Explanation) -> list[Loss]:
    """Return the causes that lost time, the largest loss first; equal losses keep the explanation's order."""
    return sorted((loss for loss in explanation.losses if loss.ticks), key=lambda loss: -loss.ticks)


def _lost_colours(explanation: Explanation) -> dict[str, str]:
    """Return the colours of the bound and of each cause that lost time, by their entry in the legend."""
    colours = {BUSIEST_ENGINE: BOUND_COLOUR}
    for number, loss in enumerate(_largest_first(explanation), 1):
        lost = format_seconds(loss.lost_s, explanation.known_within)
        colours[f"{number} {loss.title.partition(' (')[0]}: {lost}"] = CAUSE_COLOURS[loss.cause]
    return colours


# Drawing it


class _Chart:
    """The rows on an Axes: time in ``unit`` from left to right, rows from top to bottom in plain rows."""

    def __init__(
        self, rows: Sequence[_Row], ax: Axes, until_s: float | None, colours: dict[str, str] = COLOURS
    ) -> None:
        self._rows, self._ax, self._colours = rows, ax, colours
        self._tops: dict[str, float] = {}
        last_s = _last_s(rows)
        until_s = until_s or last_s or S_PER_TICK
        scale, self.unit = next((scale, unit) for below, scale, unit in UNITS if until_s < below)
        self._per_tick = scale / TICKS_PER_S
        self._last, self._until = last_s * scale, until_s * scale
        width_in, height_in = ax.get_position().size * root_figure(ax).get_size_inches()
        self._in_per_unit = float(width_in) / self._until
        self._height = sum(row.height + row.above for row in rows)
        self._font = min(FONT_PT, 0.7 * PT_PER_IN * float(height_in) / self._height)

    def draw(self, path_of: Timeline | None = None, legend_of: Sequence[_Row] | None = None) -> None:
        """Draw the rows, with the critical path of ``path_of``, and the legend of ``legend_of`` (None: its own rows).

        Without rows for a legend there is none: it stands below another chart.
        """
        top, ticks = 0.0, []
        for row in self._rows:
            top += row.above
            ticks.append(top + row.height / 2)
            self._draw_row(row, top)
            top += row.height
        ax = self._ax
        ax.set_xlim(0.0, self._until)
        ax.set_ylim(self._height, 0.0)
        ax.set_yticks(ticks, [row.name for row in self._rows], fontsize=self._font, parse_math=False)
        ax.tick_params(axis="x", labelsize=FONT_PT)
        ax.tick_params(axis="y", length=0)
        ax.spines[["top", "right", "left"]].set_visible(False)
        lines = [] if path_of is None else self._draw_path(path_of)
        named = self._rows if legend_of is None else legend_of
        ax.set_xlabel(f"time [{self.unit}]", loc="right", fontsize=FONT_PT)
        if named:
            self._draw_legend(named, lines)

    def _draw_legend(self, rows: Sequence[_Row], lines: list[Line2D]) -> None:
        from matplotlib.patches import Patch

        used = {bars.kind for row in rows for bars in row.bars}
        handles: list[Any] = [
            Patch(facecolor=colour, edgecolor=EDGE_COLOUR, lw=EDGE_PT, label=kind)
            for kind, colour in self._colours.items()
            if kind in used
        ]
        handles += lines
        columns, is_beside = self._legend_columns([str(handle.get_label()) for handle in handles])
        self._ax.legend(
            handles=handles,
            ncols=columns,
            frameon=False,
            fontsize=FONT_PT,
            handlelength=1.2,
            loc="upper left",
            bbox_to_anchor=(0.0, 0.0),
            borderaxespad=BELOW_TICKS if is_beside else BELOW_LABEL,
        )

    def _legend_columns(self, labels: Sequence[str]) -> tuple[int, bool]:
        """Return how many entries a line of the legend has room for, and whether the axis's name stands beside it."""
        width_in = self._in_per_unit * self._until
        widths_in = [HANDLE_IN + LEGEND_LETTER_IN * len(label) for label in labels]
        if sum(widths_in) < width_in - AXIS_NAME_IN:
            return max(1, len(labels)), True
        columns = max(1, int(width_in / max(widths_in)))
        return min(columns, LEGEND_COLUMNS if len(labels) > len(COLOURS) else len(labels)), False

    def _draw_row(self, row: _Row, top: float) -> None:
        margin = (1 - BAR) / 2
        top, height = top + margin, row.height - 2 * margin
        self._tops[row.name] = top
        self._ax.broken_barh([(0.0, self._last)], (top, height), color=IDLE_COLOUR, lw=0, zorder=0.5)
        beside = self._ax.get_yaxis_transform()
        self._ax.text(1.005, top + height / 2, row.note, transform=beside, va="center", fontsize=self._font)
        row = row._replace(bars=[self._seen(bars) for bars in row.bars])
        if any(len(bars.start) > MOST_BARS for bars in row.bars):
            self._draw_shares(row, top, height)
        else:
            for bars in row.bars:
                self._draw_bars(bars, f"{row.name}: {bars.kind}", top, height / row.lanes)

    def _seen(self, bars: _Bars) -> _Bars:
        """Return the bars; those of no length, such as page faults of the host, last a moment, so that they show."""
        moment = self._until / self._per_tick / MOMENTS
        return bars._replace(end=bars.end + moment * (bars.end == bars.start)) if bars.kind == PAGES else bars

    def _draw_bars(self, bars: _Bars, gid: str, top: float, lane_height: float) -> None:
        from matplotlib.collections import PolyCollection

        left, right = bars.start * self._per_tick, bars.end * self._per_tick
        middle = top + (bars.lane + 0.5) * lane_height
        half = (WAITS_BAR if bars.kind == WAITS else lane_height) / 2
        x = np.stack([left, left, right, right], axis=1)
        y = middle[:, None] + half * np.array([-1, 1, 1, -1])
        wide = float(np.median(right - left)) * self._in_per_unit > EDGED_IN and bars.kind != WAITS
        corners: Any = np.stack([x, y], axis=2)
        polygons = PolyCollection(corners, facecolor=self._colours[bars.kind], gid=gid)
        polygons.set(edgecolor=EDGE_COLOUR, linewidth=EDGE_PT if wide else 0.0)
        self._ax.add_collection(polygons, autolim=False)
        self._draw_numbers(bars, left, right, middle)

    def _draw_numbers(self, bars: _Bars, left: Times, right: Times, y: Times) -> None:
        """Write the numbers that have room, small ones in narrow bars."""
        digits = 1 + np.floor(np.log10(np.maximum(bars.number, 1)))
        room = (right - left) * self._in_per_unit / (DIGIT_IN * digits + NUMBERED_IN)
        ink = {"color": INK.get(bars.kind), "ha": "center", "va": "center_baseline"}
        for k in ((bars.number > 0) & (room > LEAST_NUMBER)).nonzero()[0].tolist():
            size = NUMBER_PT * min(1.0, float(room[k]))
            self._ax.text((left[k] + right[k]) / 2, y[k], str(bars.number[k]), ink, fontsize=size)

    def _draw_path(self, timeline: Timeline) -> list[Line2D]:
        """Draw the critical path along the lower edge of its bars in the rows of the engines."""
        heights = {row.name: (row.height - 1 + BAR) / row.lanes for row in self._rows}
        lane = lane_of_each_op(timeline, timeline.engine)
        x, y = list[float](), list[float]()
        for step in critical_path(timeline):
            if timeline.engine[step.op] >= 0:
                name = timeline.engine_names[timeline.engine[step.op]]
                x += [timeline.start[step.op] * self._per_tick, timeline.end[step.op] * self._per_tick]
                y += [self._tops[name] + (lane[step.op] + PATH_AT) * heights[name]] * 2
        self._ax.plot(x, y, color="white", lw=2 * PATH_PT, zorder=3, solid_capstyle="butt")
        return self._ax.plot(x, y, color=PATH_COLOUR, lw=PATH_PT, gid=PATH, label=PATH, zorder=3, solid_capstyle="butt")

    def _draw_shares(self, row: _Row, top: float, height: float) -> None:
        """Stack, from below, the share of each moment that each kind takes."""
        edges = np.linspace(0.0, self._until, MOMENTS + 1)
        base = np.zeros(MOMENTS)
        for bars in row.bars:
            share = busy_share(bars.start * self._per_tick, bars.end * self._per_tick, edges)
            above = np.minimum(base + share, 1.0)
            lower, upper = (top + height * (1 - np.append(level, level[-1])) for level in (base, above))
            area = self._ax.fill_between(edges, lower, upper, step="post", color=self._colours[bars.kind], lw=0)
            area.set_gid(f"{row.name}: {bars.kind} shares")
            base = above


def busy_share(start: Times, end: Times, edges: Times) -> Times:
    """Return the share (0..1) of the time between neighbouring ``edges`` in which at least one of the spans runs."""
    order = np.argsort(start)
    start, end = start[order], np.maximum.accumulate(end[order])
    start[1:] = np.maximum(start[1:], end[:-1])  # only what no earlier span covers

    def passed(since: Times) -> Any:
        """Sum over ``since`` (ascending) of the time that has passed since then, at each edge."""
        count = np.searchsorted(since, edges)
        return count * edges - np.concatenate([[0.0], np.cumsum(since)])[count]

    share: Times = np.diff(passed(start) - passed(end)) / np.diff(edges)
    return np.clip(share, 0.0, 1.0)
