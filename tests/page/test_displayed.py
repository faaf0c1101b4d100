"""Values show themselves: printed as a table, in a notebook as a picture, on disk as a page."""

from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from pages import PIPELINE, WORKLOAD, data_of
from perfect_profiler import profiled

import streamsim
from streamsim.recorded import replay, summarise
from streamsim.text import format_seconds
from streamsim.transform import changes as make

PICTURED = ("Prediction", "Explanation", "Timeline", "WhatIf", "Best", "Advice", "Replay")
TABLED = ("Diagnosis", "Recording", "RecordingSummary")
KINDS = (*PICTURED, *TABLED)


@cache
def values() -> dict[str, Any]:
    device = streamsim.load_device("h200")
    prediction = streamsim.predict(PIPELINE, device)
    loop = streamsim.Loop(batch=256, batch_bytes=1 << 27, step_s=45e-3, load_s=240e-3, workers=8)
    recording = profiled(prediction.timeline)
    found = (
        prediction,
        streamsim.explain(PIPELINE, device),
        prediction.timeline,
        streamsim.what_if(PIPELINE, device, [make.GRAPH]),
        streamsim.best(WORKLOAD, device, streamsim.Grid(chunks=(1, 2, 4), streams=(1, 2))),
        streamsim.diagnose(PIPELINE, device, 2 * prediction.makespan_s),
        streamsim.loop_advice(loop, device),
        recording,
        summarise(recording),
        replay(recording, device),
    )
    return {type(value).__name__: value for value in found}


@pytest.mark.parametrize("name", KINDS)
def test_a_value_prints_as_a_table_and_shows_itself_in_a_notebook_and_on_a_page(name: str, tmp_path: Path) -> None:
    value = values()[name]
    assert str(value) == value.table()
    assert len(value.table().splitlines()) > 2
    assert "\n" not in repr(value)
    assert len(repr(value)) < 200
    value.page(tmp_path / "page.html")
    page, notebook = data_of((tmp_path / "page.html").read_text()), value._repr_html_()
    assert notebook.startswith("<p>")
    assert "<table>" in notebook
    if name in TABLED:
        assert "<iframe" not in notebook
    else:
        frame = notebook.partition('sandbox="allow-scripts"')[2].partition('srcdoc="')[2]
        assert page["lines"] or page["map"]
        assert data_of(unescape(frame.partition('"></')[0])) == page


@pytest.mark.ci
def test_in_a_frame_the_picture_is_drawn(browser: Any, tmp_path: Path) -> None:
    prediction = values()["Prediction"]
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{prediction._repr_html_()}", encoding="utf-8")
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    page.goto(file.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-drawn=yes]").wait_for(state="attached", timeout=10_000)
    assert format_seconds(prediction.makespan_s) in page.locator("table").first.inner_text()
    assert frame.locator("canvas").first.evaluate("canvas => canvas.width") > 500
    page.close()
