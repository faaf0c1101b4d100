"""The picture: its bars are the time line's spans, its numbers the chunks, its files what their suffix says."""

from __future__ import annotations

import subprocess
import sys
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from strategies import MS_KERNEL, d2h, devices, h2d, kernel, make_device, pipeline_of, program, schedules

from streamsim.analysis import predict
from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import (
    Copy,
    Kernel,
    RecordEvent,
    Schedule,
    Synchronize,
    Workload,
    WorkloadKernel,
    breadth_first,
    depth_first,
    prefetch,
)
from streamsim.report import (
    BAR,
    COLOURS,
    D2H,
    H2D,
    HOST_CALL,
    HOST_WAITS,
    KERNEL,
    MOMENTS,
    MOST_BARS,
    MOST_STREAMS,
    WAITS,
    busy_share,
    numbers,
    plot_compared,
    plot_gantt,
    plot_gantts,
    save_gantt,
    save_gantts,
    spelled_out,
)
from streamsim.report.pictures import new_figure
from streamsim.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bar = tuple[str, float, float]  # "row: kind", from, to in the unit of the axis

# The host spends 2 ns on a copy call, 3 on a launch; 1 byte a ns; 5 ns from a copy to a kernel.
DEVICE = make_device(copy=2, kernel=3, h2d_to_kernel=5)
SCHEDULE = program(
    h2d(1, 20),  # call 0..2, copies 2..22
    kernel(1, 10),  # call 2..5, ready at 22 + 5: 27..37
    d2h(1, 8),  # call 5..7, after the kernel: 37..45
    h2d(2, 20),  # call 7..9, ready at 9, the engine is busy until 22: 22..42
    Synchronize(),  # waits 9..45
)


def bars(ax: Axes) -> list[Bar]:
    """Read the bars that are drawn off the polygons, sorted."""
    found = [
        (str(polygons.get_gid()), float(path.get_extents().x0), float(path.get_extents().x1))
        for polygons in ax.collections
        if isinstance(polygons, PolyCollection) and polygons.get_gid()
        for path in polygons.get_paths()
    ]
    return sorted(found)


def row_names(ax: Axes) -> list[str]:
    """Names of the rows from top to bottom."""
    assert ax.yaxis_inverted()
    return [text.get_text() for text in ax.get_yticklabels()]


def unit_of(ax: Axes) -> str:
    return ax.get_xlabel().removeprefix("time [").removesuffix("]")


def measured(schedule: Schedule, *rows: tuple[int, int, int]) -> Timeline:
    """Make a time line as the validator does: engine, start and end of each op, and nothing else."""
    engine, start, end = (array("q", column) for column in zip(*rows, strict=True))
    unknown = array("q", [-1]) * len(rows)
    return Timeline(schedule, ("h2d", "d2h", "compute"), engine, unknown, unknown, unknown, start, end)


# What is drawn


def test_the_bars_of_a_small_schedule() -> None:
    ax = plot_gantt(simulate(SCHEDULE, DEVICE))
    assert row_names(ax) == ["host", "h2d", "compute", "d2h", "stream 1", "stream 2"]
    assert unit_of(ax) == "ns"
    assert bars(ax) == sorted([
        (f"host: {HOST_CALL}", 0, 2), (f"host: {HOST_CALL}", 2, 5), (f"host: {HOST_CALL}", 5, 7),
        (f"host: {HOST_CALL}", 7, 9), (f"host: {HOST_WAITS}", 9, 45),
        (f"h2d: {H2D}", 2, 22), (f"h2d: {H2D}", 22, 42), (f"compute: {KERNEL}", 27, 37), (f"d2h: {D2H}", 37, 45),
        (f"stream 1: {H2D}", 2, 22), (f"stream 1: {KERNEL}", 27, 37), (f"stream 1: {D2H}", 37, 45),
        (f"stream 2: {WAITS}", 9, 22), (f"stream 2: {H2D}", 22, 42),
    ])  # fmt: skip


def test_the_title_tells_makespan_and_speed_up() -> None:
    timeline = simulate(SCHEDULE, DEVICE)
    assert plot_gantt(timeline).get_title(loc="left") == "schedule, on test: makespan 45 ns"
    # 20 + 10 + 8 + 20 ns without overlap and overheads: 58 / 45 = 1.29
    title = plot_gantt(timeline, serial_s=58e-9).get_title(loc="left")
    assert title == "schedule, on test: makespan 45 ns, serial 58 ns, speed-up 1.29x"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("depth-first N=16 S=4", "depth-first, 16 chunks, 4 streams"),
        ("ring N=8 S=1 K=2", "ring, 8 chunks, 1 stream, 2 buffers"),
        ("step N=x of mine", "step N=x of mine"),
        ("", "schedule"),
    ],
)
def test_a_title_spells_out_chunks_and_streams(name: str, words: str) -> None:
    assert spelled_out(name) == words


def test_titles_and_legends_of_panels_beside_each_other_do_not_overlap() -> None:
    """Two narrow panels: the parts of each stay within its half of the figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    schedule = depth_first(Workload(1 << 20, (4,), (4,), (WorkloadKernel(duration_s=1e-4),)), 8, 4)
    figure = new_figure((9.0, 4.0))
    for ax in figure.subplots(1, 2):
        plot_gantt(simulate(schedule, DEVICE), ax)
    renderer: Any = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    figure.draw(renderer)
    left, right = (ax.get_tightbbox(renderer) for ax in figure.axes)
    assert left is not None
    assert right is not None
    assert left.x1 <= right.x0
    for ax in figure.axes:
        legend = ax.get_legend()
        assert legend is not None
        assert legend.get_window_extent(renderer).y1 <= ax.xaxis.label.get_window_extent(renderer).y0


def test_each_engine_says_how_busy_it_was() -> None:
    # h2d 40 of 45 ns, compute 10, d2h 8
    texts = [text.get_text() for text in plot_gantt(simulate(SCHEDULE, DEVICE)).texts]
    assert [text for text in texts if text.startswith("busy")] == ["busy 89%", "busy 22%", "busy 18%"]


def test_the_legend_names_what_is_drawn_and_nothing_else() -> None:
    legend = plot_gantt(simulate(program(h2d(1, 10)), make_device())).get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [H2D]


def test_kernels_side_by_side_do_not_hide_one_another() -> None:
    # Two of half the card, both 0..10, above one another within the row.
    schedule = program(kernel(1, 10, fill=0.5), kernel(2, 10, fill=0.5))
    ax = plot_gantt(simulate(schedule, make_device(concurrent_kernels=2)))
    (polygons,) = (c for c in ax.collections if c.get_gid() == f"compute: {KERNEL}")
    upper, lower = (path.get_extents() for path in polygons.get_paths())
    assert upper.y1 <= lower.y0 + 1e-9
    assert (upper.x0, upper.x1) == (lower.x0, lower.x1) == (0, 10)


def test_a_graph_shows_its_launch_and_no_calls() -> None:
    # Launch 7 ns and 1 for its copy; then the host waits for the copy of 10 ns.
    timeline = simulate(program(h2d(1, 10), Synchronize(), launch="graph"), make_device(graph_launch=7, graph_node=1))
    host = [bar for bar in bars(plot_gantt(timeline)) if bar[0].startswith("host")]
    assert host == [(f"host: {HOST_CALL}", 0, 8), (f"host: {HOST_WAITS}", 8, 18)]


def test_a_measured_time_line_has_no_host_and_no_waits() -> None:
    schedule = program(h2d(1, 10), kernel(1, 10), Synchronize())
    ax = plot_gantt(measured(schedule, (0, 1000, 3000), (2, 4000, 9000), (-1, -1, -1)))
    assert row_names(ax) == ["h2d", "compute", "d2h", "stream 1"]
    assert unit_of(ax) == "us"
    expected = [("compute: kernel", 4, 9), ("h2d: H2D", 1, 3), ("stream 1: H2D", 1, 3), ("stream 1: kernel", 4, 9)]
    assert [(name, round(a, 9), round(b, 9)) for name, a, b in bars(ax)] == expected


def test_a_time_line_without_work_is_an_empty_chart() -> None:
    ax = plot_gantt(simulate(program(RecordEvent(0, 1)), make_device()), serial_s=0.0)
    assert not bars(ax)
    assert row_names(ax) == ["h2d", "compute", "d2h"]


@given(schedules(), devices())
def test_bars_are_the_spans_of_the_time_line(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    ax = plot_gantt(timeline)
    per_s = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}[unit_of(ax)]
    drawn = [bar for bar in bars(ax) if not bar[0].startswith("host") and WAITS not in bar[0]]
    expected = []
    for span, op in zip(timeline, schedule.ops, strict=True):
        if isinstance(op, Copy | Kernel):
            kind = KERNEL if isinstance(op, Kernel) else op.direction.upper()
            when = span.start_s * per_s, span.end_s * per_s
            expected += [(f"{span.engine}: {kind}", *when), (f"stream {span.stream}: {kind}", *when)]
    assert [name for name, *_ in drawn] == [name for name, *_ in sorted(expected)]
    assert np.allclose([bar[1:] for bar in drawn], [bar[1:] for bar in sorted(expected)])
    assert np.isclose(ax.get_xlim()[1], max(timeline.makespan_s, timeline.host_s, 1e-9) * per_s)


def test_it_draws_into_the_axes_it_is_given_on_the_axis_it_is_told() -> None:
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plot_gantt(simulate(SCHEDULE, DEVICE), ax, until_s=90e-9) is ax
    assert ax.get_xlim() == pytest.approx((0, 90))


# Numbers


@pytest.mark.parametrize("pattern", [depth_first, breadth_first, prefetch])
def test_the_number_of_an_op_is_its_chunk(pattern: object) -> None:
    # Each element is a chunk, and chunk i (from 0) reads byte 4 i and 8 i of the two inputs and writes byte 4 i:
    # the host offsets of its copies tell the chunk.
    workload = Workload(5, (4, 8), (4,), (MS_KERNEL,))
    schedule = pattern(workload, 5, 2)  # type: ignore[operator]
    for op, number in zip(schedule.ops, numbers(schedule), strict=True):
        if isinstance(op, Copy):
            assert op.host is not None
            assert number == op.host.offset // op.bytes + 1
        elif not isinstance(op, Kernel):
            assert number == 0
    kernels = [n for op, n in zip(schedule.ops, numbers(schedule), strict=True) if isinstance(op, Kernel)]
    assert kernels == [1, 2, 3, 4, 5]


def test_without_chunks_ops_are_numbered_by_kind() -> None:
    # Three copies and two kernels are no chunks of the same ops.
    schedule = program(h2d(1, 1), kernel(1, 4), h2d(2, 1), h2d(1, 1), Synchronize(), kernel(1, 4))
    assert numbers(schedule) == [1, 1, 2, 3, 0, 2]


def test_numbers_are_on_bars_with_room_only() -> None:
    # Of 96 copies of 100 ns and one of 50 us only the last one's number has room: 2 digits, 0.14 in, in a bar of
    # 5 in, against 0.01 in.
    ops = [h2d(1, 100) for _ in range(96)] + [h2d(1, 50_000)]
    texts = [text.get_text() for text in plot_gantt(simulate(program(*ops), make_device())).texts]
    assert [text for text in texts if text.isdigit()] == ["97", "97"]  # on the engine and in the stream


# Many ops


def test_a_row_of_very_many_ops_shows_shares() -> None:
    # 2500 copies of 30 ns, the k-th from 40 k on: the last ends at 100,030, so a moment (a 500th) is 200.06 ns.
    # In the first four run, and 0.06 ns of the fifth: 120.06 / 200.06 = 0.60. In any other five: 150 / 200.06 = 0.75.
    assert (MOST_BARS, MOMENTS) == (500, 500)
    ops = [h2d(1, 30) for _ in range(2500)]
    ax = plot_gantt(simulate(program(*ops), make_device(copy=40)))
    (area,) = (c for c in ax.collections if c.get_gid() == f"h2d: {H2D} shares")
    outline = np.asarray(area.get_paths()[0].vertices)
    levels = np.unique(np.round((outline[:, 1].max() - outline[:, 1]) / BAR, 2))
    assert levels.tolist() == [0.0, 0.6, 0.75]
    assert len(ax.texts) < 10
    assert len(ax.collections) < 20


def test_more_streams_than_fit_are_counted() -> None:
    schedule = depth_first(pipeline_of(100), 100, 100)
    names = row_names(plot_gantt(simulate(schedule, make_device())))
    assert names[-2:] == [f"stream {MOST_STREAMS}", f"{100 - MOST_STREAMS} more streams"]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=12))
def test_shares_are_the_covered_part_of_each_moment(spans: list[tuple[int, int]]) -> None:
    edges = np.arange(0.0, 81.0, 8.0)
    covered = [any(start <= t < start + length for start, length in spans) for t in range(80)]
    expected = np.array(covered).reshape(10, 8).mean(axis=1)
    start = np.array([start for start, _ in spans], dtype=float)
    end = start + np.array([length for _, length in spans], dtype=float)
    assert np.allclose(busy_share(start, end, edges), expected)


def test_the_colours_are_told_apart_in_grey_print() -> None:
    # Luma of ITU-R BT.601; neighbours at least a fifth of the scale apart.
    luma = sorted(float(np.dot(to_rgb(COLOURS[kind]), (0.299, 0.587, 0.114))) for kind in (H2D, KERNEL, D2H))
    assert min(luma[1] - luma[0], luma[2] - luma[1]) > 0.2


# Files


MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "PNG"])
def test_the_suffix_decides_the_format_and_the_bytes_are_always_the_same(tmp_path: Path, suffix: str) -> None:
    timeline = simulate(SCHEDULE, DEVICE)
    first, second = tmp_path / f"first.{suffix}", tmp_path / f"second.{suffix}"
    save_gantt(timeline, first, serial_s=58e-9)
    save_gantt(timeline, second, serial_s=58e-9)
    assert first.read_bytes().startswith(MAGIC[suffix.lower()])
    assert first.read_bytes() == second.read_bytes()


def test_a_name_is_text_and_not_a_formula(tmp_path: Path) -> None:
    schedule = program(h2d(1, 10), name=r"$\frac{ \n 100 $")
    ax = plot_gantt(simulate(schedule, make_device()))
    assert ax.get_title(loc="left") == r"$\frac{ \n 100 $, on test: makespan 10 ns"
    save_gantt(simulate(schedule, make_device()), tmp_path / "gantt.svg")


def test_no_pyplot_and_no_matplotlib_until_it_is_needed(tmp_path: Path) -> None:
    code = (
        "import sys; from streamsim.report.gantt import save_gantt; assert 'matplotlib' not in sys.modules;"
        "from streamsim.device.library import load_device; from streamsim.model import simulate;"
        "from streamsim import Workload, serial;"
        f"save_gantt(simulate(serial(Workload(4, (4,))), load_device('ideal')), {str(tmp_path / 'gantt.png')!r});"
        "assert 'matplotlib' in sys.modules; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_unchunked_program_stands_above_on_the_same_time_axis() -> None:
    workload = Workload(16 << 20, (4,), (4,), (WorkloadKernel(duration_s=0.57e-3),))
    above, below = plot_compared(predict(depth_first(workload, 16, 4), "h200"))
    assert above.get_xlim() == below.get_xlim()
    assert above.get_title(loc="left").startswith("unchunked (not cut, blocking copies), on h200: ")
    assert below.get_title(loc="left").startswith("depth-first, 16 chunks, 4 streams, on h200: ")
    assert row_names(below) == ["host", "h2d", "compute", "d2h", *(f"stream {s}" for s in (1, 2, 3, 4))]
    assert above.get_legend() is None  # one below for both
    assert below.get_legend() is not None


def test_what_is_drawn_shows_itself_in_a_notebook() -> None:
    timeline = simulate(SCHEDULE, DEVICE)
    for drawn in (plot_gantt(timeline), plot_gantts(iter([timeline, timeline]))):
        assert drawn._repr_png_().startswith(b"\x89PNG")  # type: ignore[union-attr]


# Several time lines


def test_time_lines_one_above_the_other_have_their_own_bars_over_one_axis() -> None:
    """The second ends long before the first: its bars are as they are, and its axis ends where the first one's does."""
    short = simulate(program(h2d(1, 20), kernel(1, 10)), DEVICE)
    long = simulate(SCHEDULE, DEVICE)
    above, below = plot_gantts({"recorded": long, "predicted with --pin": short})
    for ax, timeline, name in ((above, long, "recorded"), (below, short, "predicted with --pin")):
        assert bars(ax) == bars(plot_gantt(timeline, until_s=45e-9))
        assert ax.get_xlim() == pytest.approx((0, 45))
        assert ax.get_title(loc="left") == f"{name}: makespan {round(timeline.makespan_s * 1e9)} ns"
    assert above.get_position().y0 > below.get_position().y1


def test_several_time_lines_in_a_file(tmp_path: Path) -> None:
    timeline = simulate(SCHEDULE, DEVICE)
    save_gantts({"a": timeline, "b": timeline}, tmp_path / "both.svg")
    drawn = (tmp_path / "both.svg").read_text()
    assert drawn.count('id="h2d: H2D') == 2


def test_a_prediction_is_drawn_as_its_time_line() -> None:
    prediction = predict(SCHEDULE, DEVICE)
    assert bars(plot_gantt(prediction)) == bars(plot_gantt(prediction.timeline))


def test_a_sequence_is_drawn_by_the_names_of_its_schedules() -> None:
    predictions = [predict(program(h2d(1, 10), name=name), DEVICE) for name in ("a", "b", "a")]
    titles = [ax.get_title(loc="left").partition(":")[0] for ax in plot_gantts(predictions)]
    assert titles == ["a, on test", "b, on test", "a, on test"]
