"""What pictures, traces and tables are refused for: one line, and no file is written or changed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from refusals import refusal
from strategies import h2d, make_device, program

from streamsim.model import simulate
from streamsim.report import plot_gantts, save_gantt, save_picture, write_trace

TIMELINE = simulate(program(h2d(1, 20)), make_device())
SUFFIX = "expected a file name that ends in one of .png, .svg, .pdf"
UNWRITABLE = "cannot write it: "
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "another suffix": (lambda folder: save_gantt(TIMELINE, folder / "gantt.jpg"), SUFFIX),
    "a suffix behind a line end": (lambda folder: save_gantt(TIMELINE, folder / "gantt.png\n.exe"), SUFFIX),
    "no time lines": (
        lambda folder: save_picture(lambda: plot_gantts([]), folder / "none.svg"),
        "timelines = []: nothing to draw; give at least one",
    ),
    "a picture in a file": (lambda folder: save_gantt(TIMELINE, folder / "a-file" / "gantt.svg"), UNWRITABLE),
    "a trace in no folder": (lambda folder: write_trace(TIMELINE, folder / "missing" / "trace.json"), UNWRITABLE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_one_line_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    call, words = REFUSED[name]
    (tmp_path / "a-file").write_text("kept")
    assert words in refusal(partial(call, tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]
    assert (tmp_path / "a-file").read_text() == "kept"
