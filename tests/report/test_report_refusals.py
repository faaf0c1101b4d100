"""What pictures and traces are refused for: one line, and no file is written or changed."""

from functools import partial
from pathlib import Path

import pytest
from refusals import refusal
from strategies import h2d, make_device, program

from streamsim.model import simulate
from streamsim.report import plot_gantt, save_picture, write_trace

TIMELINE = simulate(program(h2d(1, 20)), make_device())
SUFFIX = "expected a file name that ends in one of .png, .svg, .pdf"
UNWRITABLE = "cannot write it: "


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gantt.jpg", SUFFIX),
        ("gantt.png\n.exe", SUFFIX),
        ("a-file/gantt.svg", UNWRITABLE),
        ("missing/trace.json", UNWRITABLE),
    ],
)
def test_what_is_refused_is_one_line_and_leaves_nothing(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("kept")
    trace, picture = partial(write_trace, TIMELINE), partial(save_picture, lambda: plot_gantt(TIMELINE))
    assert words in refusal(partial(trace if name.endswith("json") else picture, tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]
    assert (tmp_path / "a-file").read_text() == "kept"
