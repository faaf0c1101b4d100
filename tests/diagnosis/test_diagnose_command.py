"""The command diagnose: what it prints, and what it says of bad input."""

import json

import pytest

from streamsim.cli import main

PROGRAM = [
    *("--h2d", "200MB", "--kernel", "4ms", "--d2h", "50MB"),
    *("--chunks", "8", "--streams", "4", "--device", "rtx4090"),
]


def test_the_verdict_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *PROGRAM, "--measured", "14.5ms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "diagnosis on rtx4090"
    assert "explanations fit; the likeliest one: " in lines[1]
    assert lines[3].split() == ["measured", "14.5", "ms"]


def test_json_has_every_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *PROGRAM, "--measured", "1:14.4ms,4:14.5ms,12ms:copies", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [time["streams"] for time in said["measured"]] == [1, 4, None]
    assert [time["without_kernels"] for time in said["measured"]] == [False, False, True]
    assert all(len(found["predicted_s"]) == 3 for found in said["explanations"])
    assert said["inputs"]["device"] == "rtx4090"


@pytest.mark.parametrize(("measured", "clock"), [("9.2ms", False), ("14.5ms", True), ("25ms", True), ("2ms", False)])
def test_what_explains_any_time_has_a_line_of_its_own(
    measured: str, clock: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only where the time is too long and a mistake explains it; what it should take needs no explanation."""
    assert main(["diagnose", *PROGRAM, "--measured", measured]) == 0
    assert ("Or the clock was wrong: a first run was timed;" in capsys.readouterr().out) is clock
