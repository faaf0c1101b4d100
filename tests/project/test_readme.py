"""README's lines do what they say: the library's run, and so does every streamsim command."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from documents import ROOT, blocks

from streamsim.cli import main

if TYPE_CHECKING:
    from pathlib import Path

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = [block.text for block in blocks(README, "python")]
SHELL = [line for block in blocks(README, "sh") for line in block.text.splitlines()]
COMMANDS = [line.split("#")[0].strip() for line in SHELL if line.startswith("streamsim ") and "my-gpu" not in line]


def test_the_library_lines_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert PYTHON
    for block in PYTHON:
        exec(compile(block, "README.md", "exec"), {})
    first, *spans = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+\.\d\d ms, \d+\.\d\d times as fast as serial", first)
    assert [span.split()[0] for span in spans] == ["H2D", "kernel", "D2H"]


def test_every_streamsim_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) >= 8
    for command in COMMANDS:
        assert main(shlex.split(command)[1:]) == 0, command


def test_the_main_job_predicts() -> None:
    job = next(line for line in SHELL if "streamsim predict" in line and ".venv" in line)
    assert main(shlex.split(job.rpartition("&&")[2])[1:]) == 0


@pytest.mark.parametrize("picture", re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README))
def test_every_picture_is_there(picture: str) -> None:
    assert (ROOT / picture).is_file()


def test_ci_calls_the_readmes_test_command() -> None:
    tests = next(line for line in SHELL if line.endswith(".venv/bin/pytest"))
    assert tests in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
