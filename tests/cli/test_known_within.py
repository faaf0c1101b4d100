"""A profile with assumed latencies: its predictions have the figures that they deserve, and JSON gives their error."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from stamped import printed

from streamsim.cli import main

WORK = ("--h2d", "64MiB", "--kernel", "4ms", "--d2h", "64MiB")
CUT = (*WORK, "--chunks", "8", "--streams", "4")
LOOP = ("--batch", "100", "--batch-bytes", "150MB", "--step", "45ms", "--load", "240ms", "--workers", "8")
LAYERS = """
[[layers]]
name = "block"
weight_bytes = "64MiB"
repeats = 6
kernels = [{ name = "all", duration_s = "4ms" }]
"""
COMMANDS: dict[str, tuple[str, ...]] = {
    "predict": ("predict", *CUT, "--buffers", "2", "--formulas"),
    "predict several": ("predict", *CUT[:-2], "--streams", "1,2,4"),
    "predict layers": ("predict", "--layers", "layers.toml", "--memory", "pageable"),
    "predict a program": ("predict", "program.json"),
    "explain": ("explain", *CUT, "--memory", "pageable"),
    "best": ("best", *WORK, "--max-chunks", "9", "--max-streams", "3"),
    "best of layers": ("best", "--layers", "layers.toml", "--memory-limit", "200MiB"),
    "whatif": ("whatif", "pageable.json", "--pin", "--streams", "2", "--independent"),
    "sweep": ("sweep", *WORK, "--chunks", "1,8", "--streams", "1,4"),
    "diagnose": ("explain", *CUT, "--measured", "14ms"),
    "loop": ("loop", *LOOP),
}
TIME, RATIO, PERCENT = r"(?<![\w.])(\d[\d.,]*) [numk]?s\b", r"(?<![\w.])(\d[\d.]*)x", r"\d\.\d+ ?%"


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layers.toml").write_text(LAYERS, encoding="utf-8")
    assert main(["code", *CUT, "--as", "schedule", "-o", "program.json"]) == 0
    assert main(["code", *CUT, "--memory", "pageable", "--as", "schedule", "-o", "pageable.json"]) == 0


def figures(text: str) -> int:
    """Return the number of figures that a decimal number shows, without zeros in front and behind."""
    return len(text.replace(",", "").replace(".", "").strip("0"))


def errors(said: dict[str, Any]) -> list[Any]:
    """Return the ``known_within`` of an object, or of its rows if it has none itself."""
    return [one["known_within"] for one in ([said] if "known_within" in said else said["rows"])]


@pytest.mark.parametrize("name", COMMANDS)
def test_times_known_to_ten_per_cent_have_two_figures(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = (*COMMANDS[name], "--device", "rtx4090")
    text = printed(capsys, *command, *(["--format", "table"] if name == "sweep" else []))
    assert "10 %" in text or "10%" in text
    times, ratios = re.findall(TIME, text), re.findall(RATIO, text)
    assert times or name == "loop"
    assert not [number for number in times if figures(number) > 2]
    assert not [number for number in ratios if figures(number) > (3 if 0.9 <= float(number) <= 1.1 else 2)]
    assert not re.findall(PERCENT, text)
    said = printed(capsys, *command, *(("--format", "jsonl") if name == "sweep" else ("--json",)))
    objects = list(map(json.loads, said.splitlines())) if name == "sweep" else [json.loads(said)]
    assert {error for one in objects for error in errors(one)} == {0.1}
