"""The picture: its bars are the time line's spans, its numbers the chunks, its files what their suffix says."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from matplotlib.collections import PolyCollection
from strategies import d2h, devices, h2d, kernel, make_device, plan, schedules

from streamsim import program, report
from streamsim.device import Device
from streamsim.model import simulate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bar = tuple[str, float, float]  # "row: kind", from, to in the unit of the axis

# The host spends 2 ns on a copy call, 3 on a launch; 1 byte a ns; 5 ns from a copy to a kernel.
DEVICE = make_device(copy=2, kernel=3, h2d_to_kernel=5)
SCHEDULE = plan(
    h2d(1, 20),  # call 0..2, copies 2..22
    kernel(1, 10),  # call 2..5, ready at 22 + 5: 27..37
    d2h(1, 8),  # call 5..7, after the kernel: 37..45
    h2d(2, 20),  # call 7..9, ready at 9, the engine is busy until 22: 22..42
    program.Synchronize(),  # waits 9..45
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


# What is drawn


def test_the_bars_of_a_small_schedule() -> None:
    ax = report.plot_gantt(simulate(SCHEDULE, DEVICE))
    assert row_names(ax) == ["host", "h2d", "compute", "d2h", "stream 1", "stream 2"]
    assert unit_of(ax) == "ns"
    assert bars(ax) == sorted([
        (f"host: {report.HOST_CALL}", 0, 2), (f"host: {report.HOST_CALL}", 2, 5), (f"host: {report.HOST_CALL}", 5, 7),
        (f"host: {report.HOST_CALL}", 7, 9), (f"host: {report.HOST_WAITS}", 9, 45),
        (f"h2d: {report.H2D}", 2, 22), (f"h2d: {report.H2D}", 22, 42), (f"compute: {report.KERNEL}", 27, 37),
        (f"d2h: {report.D2H}", 37, 45),
        (f"stream 1: {report.H2D}", 2, 22), (f"stream 1: {report.KERNEL}", 27, 37), (f"stream 1: {report.D2H}", 37, 45),
        (f"stream 2: {report.WAITS}", 9, 22), (f"stream 2: {report.H2D}", 22, 42),
    ])  # fmt: skip


@given(schedules(), devices())
def test_bars_are_the_spans_of_the_time_line_and_hide_no_other(schedule: program.Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    ax = report.plot_gantt(timeline)
    per_s = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}[unit_of(ax)]
    drawn = [bar for bar in bars(ax) if not bar[0].startswith("host") and report.WAITS not in bar[0]]
    expected = []
    for span, op in zip(timeline, schedule.ops, strict=True):
        if isinstance(op, program.Copy | program.Kernel) and span.stream is not None:
            kind = report.KERNEL if isinstance(op, program.Kernel) else op.direction.upper()
            rows = span.engine, report.stream_name(span.stream)
            expected += [(f"{row}: {kind}", span.start_s * per_s, span.end_s * per_s) for row in rows]
    assert [name for name, *_ in drawn] == [name for name, *_ in sorted(expected)]
    assert np.allclose([bar[1:] for bar in drawn], [bar[1:] for bar in sorted(expected)])
    assert np.isclose(ax.get_xlim()[1], max(timeline.makespan_s, timeline.host_s, 1e-9) * per_s)
    kernels = [bar for bar in ax.collections if bar.get_gid() == f"compute: {report.KERNEL}"]
    boxes = [path.get_extents() for bar in kernels for path in bar.get_paths()]
    for one, other in combinations(boxes, 2):  # side by side, or one above another
        apart = one.x1 <= other.x0 + 1e-9 or other.x1 <= one.x0 + 1e-9
        assert apart or one.y1 <= other.y0 + 1e-9 or other.y1 <= one.y0 + 1e-9


# Files


MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "PNG"])
def test_the_suffix_decides_the_format_and_the_bytes_are_always_the_same(tmp_path: Path, suffix: str) -> None:
    timeline = simulate(plan(h2d(1, 10), name=r"$\frac{ \n 100 $"), make_device())
    first, second = tmp_path / f"first.{suffix}", tmp_path / f"second.{suffix}"
    for file in (first, second):
        report.save_picture(lambda: report.plot_gantt(timeline), file)
    assert first.read_bytes().startswith(MAGIC[suffix.lower()])
    assert first.read_bytes() == second.read_bytes()
    title = report.plot_gantt(timeline).get_title(loc="left")
    assert title == r"$\frac{ \n 100 $, on test: makespan 10 ns"  # a name is no formula
