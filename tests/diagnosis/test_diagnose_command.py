"""``explain --measured``: what it prints."""

import json

import pytest

from streamsim.cli import main

PROGRAM = [
    *("--h2d", "200MB", "--kernel", "4ms", "--d2h", "50MB"),
    *("--chunks", "8", "--streams", "4", "--device", "rtx4090"),
]


def test_the_verdict_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *PROGRAM, "--measured", "14.5ms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "diagnosis on rtx4090"
    assert "explanations fit; the likeliest one: " in lines[1]
    assert lines[3].split() == ["measured", "14.5", "ms"]


def test_json_has_every_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *PROGRAM, "--measured", "1:14.4ms,4:14.5ms,12ms:copies", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [time["streams"] for time in said["measured"]] == [1, 4, None]
    assert [time["without_kernels"] for time in said["measured"]] == [False, False, True]
    assert all(len(found["predicted_s"]) == 3 for found in said["explanations"])
    assert said["inputs"]["device"] == "rtx4090"
