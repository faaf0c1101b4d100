"""``explain --measured``: what it prints, and what a diagnosis is refused for: one line that names it."""

import json
from functools import partial
from pathlib import Path

import pytest
from refusals import refusal, refused

from streamsim.cli import main
from streamsim.diagnosis import Measured, diagnose
from streamsim.program import Config, Schedule, Workload, depth_first, workload_of_sizes

PROGRAM = [
    *("--h2d", "200MB", "--kernel", "4ms", "--d2h", "50MB"),
    *("--chunks", "8", "--streams", "4", "--device", "rtx4090"),
]


def test_json_has_every_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *PROGRAM, "--measured", "1:14.4ms,4:14.5ms,12ms:copies", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [time["streams"] for time in said["measured"]] == [1, 4, None]
    assert [time["without_kernels"] for time in said["measured"]] == [False, False, True]
    assert all(len(found["predicted_s"]) == 3 for found in said["explanations"])
    assert said["inputs"]["device"] == "rtx4090"


# What is refused

WORK = workload_of_sizes(h2d=["200MB"], kernels=["4ms"], d2h=["50MB"])
TIMES = {
    "x": "expected a time",
    "4:": "expected a time",
    "1:2:3ms": "expected a time such as 14.5ms; 4:14.5ms over 4 streams",
    "0:3ms": "streams",
    "3ms:kernels": "expected a time such as 14.5ms; 4:14.5ms over 4 streams; 9ms:copies without the kernels",
    "0s": "expected a time",
    "16,2ms": "--measured '16,2ms': a time lacks its unit; write 16.2ms with a point, or a time such as",
}


@pytest.mark.parametrize(
    ("program", "measured", "words"),
    [
        (WORK, [], "measured = ()"),
        (WORK, -1.0, "seconds = -1.0"),
        (Config(chunks=8, streams=4).schedule(WORK), [Measured(1e-3, 2)], "streams = 2"),
        (depth_first(WORK, 4, 2, launch="graph"), 1e-3, "a graph"),
    ],
)
def test_what_cannot_be_diagnosed_is_named(program: Workload | Schedule, measured: list[Measured], words: str) -> None:
    assert words in refusal(partial(diagnose, program, "h200", measured))


@pytest.mark.parametrize("text", TIMES)
def test_a_time_that_cannot_be_read_is_one_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert TIMES[text] in refused(["explain", *PROGRAM, "--measured", text], capsys)
