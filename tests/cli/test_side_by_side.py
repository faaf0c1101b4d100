"""Several configurations, devices or programs in one call: each is predicted as it is alone."""

import csv
import json
from pathlib import Path

import pytest
from pages import SIZES, data_of
from stamped import figures, printed

from streamsim.cli import main


def test_each_configuration_is_predicted_as_it_is_alone(capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--streams", "2", "--set", "host.kernel=4us", "--memory-limit", "8GiB")
    several = ("--device", "h200,a100", "--chunks", "1,4..8*2", "--memory", "pinned,pageable", "--buffers", "all,2")
    rows = list(csv.DictReader(printed(capsys, "predict", *SIZES, *several, *more, "--format", "csv").splitlines()))
    assert [row["device"] for row in rows] == ["h200"] * 12 + ["a100"] * 12
    assert [int(row["chunks"]) for row in rows[:3]] == [1, 4, 8]
    for row in rows[::5]:
        named = [word for name in ("device", "chunks", "memory") for word in (f"--{name}", row[name])]
        ring = ["--buffers", row["buffers"]] if row["buffers"] else []
        found = figures(capsys, "predict", *SIZES, *more, *named, *ring)
        assert [float(row[name]) for name in ("makespan_s", "speedup")] == [found["makespan_s"], found["speedup"]]
    assert printed(capsys, "predict", *SIZES, *several, *more, "--format", "markdown").count("| h200 |") == 12


def test_each_program_is_predicted_as_it_is_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("before.json", "after.json")]
    for chunks, file in zip(("1", "8"), files, strict=True):
        assert main(["code", *SIZES, "--chunks", chunks, "--streams", "2", "--as", "schedule", "-o", file]) == 0
    page, plot, trace = (tmp_path / f"four.{suffix}" for suffix in ("html", "svg", "json"))
    pictures = ("--page", str(page), "--plot", str(plot), "--trace", str(trace))
    rows = figures(capsys, "predict", *files, "--device", "h200,a100", *pictures)["rows"]
    assert [(row["schedule"], row["device"]) for row in rows] == [(f, d) for f in files for d in ("h200", "a100")]
    for row in rows:
        found = figures(capsys, "predict", row["schedule"], "--device", row["device"])
        assert (row["makespan_s"], row["serial_s"]) == (found["makespan_s"], found["serial_s"])
    assert "all with" not in printed(capsys, "predict", *files, "--device", "h200,a100")  # nothing is common
    assert len(data_of(page.read_text())["lines"]) == 4
    assert plot.read_text().startswith("<?xml")
    assert set(json.loads(trace.read_text())["otherData"]["makespan_s"]) == {
        f"{row['schedule']} on {row['device']}" for row in rows
    }
