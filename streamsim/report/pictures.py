"""Time lines as pictures (Gantt charts): the host and the engines above, the streams below; and pictures as files.

The colours are told apart by the colour-blind and in grey print: dark, middle and light. A thin line in a
stream's row says that its next op was ready but had to wait for its engine.
"""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamsim.advice import Explanation
from streamsim.analysis import BUSIEST_ENGINE, Prediction
from streamsim.errors import InputError, one_line
from streamsim.files import write_bytes
from streamsim.model import simulate
from streamsim.report.bars import (
    COLOURS,
    HOST_CALL,
    INK,
    KINDS,
    PAGES,
    SERIAL_WORDS,
    WAITS,
    engine_place,
    host_kinds,
    host_name,
    kind_of,
    lane_of_each_op,
    losses_of,
    numbers,
    serial_timeline,
    stream_name,
)
from streamsim.report.texts import title_of
from streamsim.rules import S_PER_TICK, TICKS_PER_S
from streamsim.text import format_ratio, format_seconds
from streamsim.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
Spans = NDArray[np.int64]  # a row each: kind, from, to (ticks), lane, number (0: none)

UNDATED: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
BACKEND = "MPLBACKEND"
LOST_ROW = "where it goes"
IDLE_COLOUR, EDGE_COLOUR = "#F3F3F3", "#333333"
UNITS = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (float("inf"), 1.0, "s"))  # below: per second, name

BAR, WAITS_BAR, GAP = 0.8, 0.09, 0.4  # in rows: a bar, the line of a wait, the space between groups of rows
MOMENTS = 500  # of the time axis: the least bar of pages lasts one of them
MOST_LANES = 8  # that a row grows with
DPI, WIDTH_IN, ROW_IN, ROWS_IN, MARGINS_IN = 200, 9.0, 0.28, 8.5, 1.0  # a row, and the most for all of them
PT_PER_IN, TITLE_PT, FONT_PT, NUMBER_PT, EDGE_PT = 72, 10, 8.0, 6.5, 0.4
BELOW_TICKS, AXIS_NAME_IN, LEGEND_LINE_IN = 2.2, 0.7, 0.17  # of the legend: its place in font sizes, beside, a line
HANDLE_IN, LETTER_IN, LEAST_TITLE = 0.5, 0.066, 20  # a legend's colour with its spaces, a letter, letters of a line
DIGIT_IN, NUMBERED_IN, EDGED_IN = 0.06, 0.02, 0.03  # a digit, the room around a number, the least bar with an edge


def plot_gantt(timeline: Timeline, ax: Axes | None = None) -> Axes:
    """Draw ``timeline`` into ``ax`` and return it; without ``ax`` into a new figure.

    The numbers on bars are chunks (from 1) where every chunk has the same ops, otherwise the ops of a kind in issue
    order.
    """
    return _draw([(_title(timeline), _rows(timeline))], None if ax is None else [ax])[0]


def plot_gantts(timelines: Mapping[str, Timeline]) -> list[Axes]:
    """Draw several time lines, by their names, into the Axes of a new figure, one above the other, on one scale."""
    return _draw([(_title(timeline, one_line(name)), _rows(timeline)) for name, timeline in timelines.items()])


def plot_compared(prediction: Prediction) -> list[Axes]:
    """Draw a prediction below the program that it is compared with, unchunked or serial, on one scale."""
    above, below, name = serial_timeline(prediction), prediction.timeline, prediction.serial_program
    over = f", {name} {format_seconds(above.makespan_s, below.known_within)}"
    if below.makespan_s:
        over += f", speed-up {format_ratio(above.makespan_s / below.makespan_s, below.known_within)}"
    called = f"{name} ({SERIAL_WORDS[name]}), on {prediction.device}"
    return _draw([(_title(above, called), _rows(above)), (f"{_title(below)}{over}", _rows(below))])


def plot_remedied(explanation: Explanation) -> list[Axes]:
    """Draw ``explanation``, and below it on the same scale the program with the first change made, if there is one.

    The row on top runs from 0 to the makespan: first the busiest engine alone, then what each cause has lost
    (largest first), by colour and number. These are amounts, not moments: a cause loses its time in many places.
    """
    timeline, first, (lost, colours) = explanation.timeline, explanation.first, _lost_row(explanation)
    above, rows = format_seconds(explanation.gap_s, explanation.known_within), _rows(timeline)
    title = f"{_title(timeline)}, of which {above} above the {BUSIEST_ENGINE}"
    charts = [(title, [lost, rows[0]._replace(above=GAP), *rows[1:]])]
    if first is not None:
        after = simulate(*first.work[:2])
        charts.append((f"with the first change: {_title(after)}", _rows(after)))
    return _draw(charts, colours=COLOURS | colours)


def _title(timeline: Timeline, name: str = "") -> str:
    return f"{name or title_of(timeline)}: makespan {format_seconds(timeline.makespan_s, timeline.known_within)}"


# Files


def picture_format(path: str | os.PathLike[str]) -> str:
    """Tell the format by the suffix of ``path``. Raises InputError for one that is not of a picture."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in UNDATED:
        known = ", ".join(f".{form}" for form in UNDATED)
        raise InputError(f"{path}: expected a file name that ends in one of {known}")
    return form


def save_picture(draw: Callable[[], Axes | list[Axes]], path: str | os.PathLike[str]) -> None:
    """Save the figure of what ``draw`` draws: a .png, .svg or .pdf file, whose bytes depend on the drawing alone.

    Raises InputError for another suffix, before anything is drawn, and if the file cannot be written.
    """
    form = picture_format(path)
    if "matplotlib" not in sys.modules:
        _import_matplotlib()
    from matplotlib import rc_context

    drawn, picture = draw(), io.BytesIO()
    with rc_context({"svg.hashsalt": "streamsim"}):
        figure = _root_figure(drawn[0] if isinstance(drawn, list) else drawn)
        figure.savefig(picture, format=form, dpi=DPI, metadata=UNDATED[form])
    write_bytes(picture.getvalue(), path)


def _import_matplotlib() -> None:
    """Import Matplotlib even if the environment names a backend that is not there: files need no backend."""
    backend = os.environ.pop(BACKEND, "")
    try:
        import matplotlib
    finally:
        if backend:
            os.environ[BACKEND] = backend
    if backend:
        with suppress(ValueError):
            matplotlib.rcParams["backend"] = backend


def _root_figure(axes: Axes) -> Figure:
    """Return the whole figure that holds ``axes``, also where ``axes`` lie in a part of it (a SubFigure)."""
    from matplotlib.figure import Figure

    figure = axes.figure.figure  # get_figure(root=True) needs Matplotlib 3.10
    assert isinstance(figure, Figure)
    return figure


def _size_in(axes: Axes) -> tuple[float, float]:
    width, height = axes.get_position().size * _root_figure(axes).get_size_inches()
    return float(width), float(height)


def set_title(axes: Axes, title: str) -> None:
    """Write ``title`` above the left of ``axes``, in as many lines as its width needs."""
    letters = max(LEAST_TITLE, int(_size_in(axes)[0] / LETTER_IN))
    lines = textwrap.wrap(title, letters, break_on_hyphens=False)
    axes.set_title("\n".join(lines), loc="left", fontsize=TITLE_PT, parse_math=False)


# What to draw


class _Row(NamedTuple):
    """A row: its spans, a note at its right, and the space above it."""

    name: str
    spans: Spans
    note: str = ""
    above: float = 0.0

    @property
    def lanes(self) -> int:
        return int(self.spans[3].max(initial=0)) + 1

    @property
    def height(self) -> float:
        """The height of the row, in rows of one lane."""
        return max(1.0, 0.5 * min(self.lanes, MOST_LANES))


def _spans(kind: ArrayLike, start: ArrayLike, end: ArrayLike, lane: ArrayLike = 0, number: ArrayLike = 0) -> Spans:
    """Return spans; a number stands for all of them."""
    return np.stack(np.broadcast_arrays(*(np.asarray(part, np.int64) for part in (kind, start, end, lane, number))))


def _rows(timeline: Timeline) -> list[_Row]:
    """List the host where its calls took time, the engines, and the streams that have copies or kernels."""
    ops, busy = timeline.schedule.ops, timeline.utilisation if timeline.makespan_s else {}
    engine, ready, start = map(np.array, (timeline.engine, timeline.ready, timeline.start))
    stream = np.where(engine >= 0, [-1 if op.stream is None else op.stream for op in ops], -1)
    kinds, number = list(map(kind_of, ops)), numbers(timeline.schedule)
    by_engine, by_stream = (
        _spans(kinds, start, timeline.end, lane_of_each_op(timeline, row.tolist()), number) for row in (engine, stream)
    )
    engines = [
        _Row(name, by_engine[:, engine == timeline.engine_names.index(name)], f"busy {busy.get(name, 0):.0%}")
        for name in sorted(timeline.engine_names, key=engine_place)
    ]
    engines += [_Row(lane.name, _spans(KINDS.index(PAGES), lane.start, lane.end)) for lane in timeline.tracks]
    waits = _spans(KINDS.index(WAITS), ready, start, by_stream[3])
    late, used = (ready >= 0) & (ready < start), np.unique(stream[stream >= 0]).tolist()
    streams = [
        _Row(stream_name(one), np.hstack([by_stream[:, stream == one], waits[:, late & (stream == one)]]))
        for one in used
    ]
    groups = [group for group in (_host_rows(timeline), engines, streams) if group]
    for group in groups[1:]:
        group[0] = group[0]._replace(above=GAP)
    return [row for group in groups for row in group]


def _host_rows(timeline: Timeline) -> list[_Row]:
    """List the threads whose calls, waits and work took time; of a captured graph's calls only its launch."""
    kind, thread = np.array(host_kinds(timeline)), np.array([op.thread for op in timeline.schedule.ops])
    spans, threads = _spans(kind, timeline.issued, timeline.returned), np.unique(thread).tolist()
    rows = [_Row(host_name(one, len(threads)), spans[:, (kind > 0) & (thread == one)]) for one in threads]
    if timeline.schedule.launch == "graph" and timeline.launched > 0 and rows:
        launch = _spans([KINDS.index(HOST_CALL)], 0, timeline.launched)
        rows[0] = rows[0]._replace(spans=np.hstack([rows[0].spans, launch]))
    return [row for row in rows if row.spans.size]


def _lost_row(explanation: Explanation) -> tuple[_Row, dict[str, str]]:
    """Return the row with the bound and the losses one after another, and their colours by their legends' words.

    They are numbered, and their kinds follow those of the ops.
    """
    losses = losses_of(explanation)
    colours = {
        f"{k} {part.title.partition(' (')[0]}: {format_seconds(part.seconds, losses.within)}" if k else part.title: (
            part.colour
        )
        for k, part in enumerate(losses.parts)
    }
    ends, order = np.cumsum([round(part.seconds * TICKS_PER_S) for part in losses.parts]), np.arange(len(colours))
    share = explanation.gap_s / explanation.makespan_s if explanation.makespan_s else 0.0
    spans = _spans(len(KINDS) + order, [0, *ends[:-1]], ends, number=order)
    return _Row(LOST_ROW, spans, f"lost {share:.0%}"), colours


# Drawing it


def _draw(
    charts: Sequence[tuple[str, list[_Row]]],
    panels: list[Axes] | None = None,
    colours: dict[str, str] = COLOURS,
) -> list[Axes]:
    """Draw charts, each a title and its rows, one above the other on one scale, with one legend below.

    ``panels``: Axes to draw into (None: of a new figure).
    """
    rows = [row for _, of_chart in charts for row in of_chart]
    panels = panels or _new_axes([of_chart for _, of_chart in charts], max(1, len(colours) - len(COLOURS)))
    last_s = max((int(row.spans[2].max(initial=0)) for row in rows), default=0) / TICKS_PER_S
    for ax, (title, of_chart) in zip(panels, charts, strict=True):
        chart = _Chart(of_chart, ax, last_s or S_PER_TICK, colours)
        chart.draw()
        if ax is panels[-1]:
            chart.draw_legend(sorted({kind for row in rows for kind in row.spans[0].tolist()}))
        set_title(ax, title)
    return panels


def _new_axes(charts: Sequence[Sequence[_Row]], legend_lines: int) -> list[Axes]:
    """Return Axes one above the other in a new figure, with heights for the rows of each chart."""
    from matplotlib.figure import Figure

    heights_in = [min(ROWS_IN / len(charts), ROW_IN * sum(row.height + row.above for row in rows)) for rows in charts]
    size = WIDTH_IN, sum(heights_in) + MARGINS_IN * len(charts) + LEGEND_LINE_IN * (legend_lines - 1)
    figure = Figure(figsize=size, layout="constrained")
    return list(figure.subplots(len(charts), squeeze=False, height_ratios=heights_in)[:, 0])


class _Chart:
    """The rows on an Axes: time in ``unit`` from left to right, rows from top to bottom in plain rows."""

    def __init__(self, rows: Sequence[_Row], ax: Axes, until_s: float, colours: dict[str, str]) -> None:
        self._rows, self._ax, self._colours = rows, ax, list(colours.items())
        scale, self._unit = next((scale, unit) for below, scale, unit in UNITS if until_s < below)
        self._per_tick, self._until = scale / TICKS_PER_S, until_s * scale
        self._width_in, height_in = _size_in(ax)
        self._height = sum(row.height + row.above for row in rows)
        self._font = min(FONT_PT, 0.7 * PT_PER_IN * height_in / self._height)

    def draw(self) -> None:
        """Draw the rows and their names, and the axis."""
        top, middles, ax = 0.0, list[float](), self._ax
        last = max((int(row.spans[2].max(initial=0)) for row in self._rows), default=0) * self._per_tick
        for row in self._rows:
            height = row.height - 1 + BAR
            self._draw_row(row, top + row.above + (1 - BAR) / 2, height, last)
            middles.append(top + row.above + row.height / 2)
            top += row.above + row.height
        ax.set_xlim(0.0, self._until)
        ax.set_ylim(self._height, 0.0)
        ax.set_yticks(middles, [row.name for row in self._rows], fontsize=self._font, parse_math=False)
        ax.tick_params(axis="x", labelsize=FONT_PT)
        ax.tick_params(axis="y", length=0)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_xlabel(f"time [{self._unit}]", loc="right", fontsize=FONT_PT)

    def draw_legend(self, used: Sequence[int]) -> None:
        """Draw the legend of kinds below the axis, in as many columns as fit beside the axis's name."""
        from matplotlib.patches import Patch

        named = [self._colours[kind] for kind in used]
        handles = [Patch(facecolor=colour, edgecolor=EDGE_COLOUR, lw=EDGE_PT, label=words) for words, colour in named]
        letters = max((len(words) for words, _ in named), default=1)
        self._ax.legend(
            handles=handles,
            ncols=max(1, int((self._width_in - AXIS_NAME_IN) / (HANDLE_IN + LETTER_IN * letters))),
            frameon=False,
            fontsize=FONT_PT,
            handlelength=1.2,
            loc="upper left",
            bbox_to_anchor=(0.0, 0.0),
            borderaxespad=BELOW_TICKS,
        )

    def _draw_row(self, row: _Row, top: float, height: float, last: float) -> None:
        self._ax.broken_barh([(0.0, last)], (top, height), color=IDLE_COLOUR, lw=0, zorder=0.5)
        beside = self._ax.get_yaxis_transform()
        self._ax.text(1.005, top + height / 2, row.note, transform=beside, va="center", fontsize=self._font)
        for kind in np.unique(row.spans[0]).tolist():
            self._draw_bars(kind, row, top, height / row.lanes)

    def _draw_bars(self, kind: int, row: _Row, top: float, lane_height: float) -> None:
        _, left, right, lanes, number = row.spans[:, row.spans[0] == kind]
        left, right = left * self._per_tick, right * self._per_tick
        if kind == KINDS.index(PAGES):  # such as faults, which take no time
            right = np.maximum(right, left + self._until / MOMENTS)
        name, colour = self._colours[kind]
        in_per_unit, middle = self._width_in / self._until, top + (lanes + 0.5) * lane_height
        height = WAITS_BAR if name == WAITS else lane_height
        is_wide = float(np.median(right - left)) * in_per_unit > EDGED_IN and name != WAITS
        edges: dict[str, Any] = {"edgecolor": EDGE_COLOUR, "linewidth": EDGE_PT if is_wide else 0.0}
        bars: Any = np.stack([left, right - left], axis=1)
        for at in np.unique(middle).tolist():
            place = at - height / 2, height
            self._ax.broken_barh(bars[middle == at], place, facecolor=colour, gid=f"{row.name}: {name}", **edges)
        digits = 1 + np.floor(np.log10(np.maximum(number, 1)))
        has_room = (right - left) * in_per_unit > DIGIT_IN * digits + NUMBERED_IN
        words = {"color": INK.get(name), "ha": "center", "va": "center_baseline", "fontsize": NUMBER_PT}
        for k in ((number > 0) & has_room).nonzero()[0].tolist():
            self._ax.text((left[k] + right[k]) / 2, middle[k], str(number[k]), words)
