"""README does what it says: its two commands, the lines of output, the library, and a command for each thing."""

import re
import shlex
from pathlib import Path

import pytest
from documents import NO_GPU, ROOT, blocks
from made_captures import of_the_guide

from streamsim.cli import main
from streamsim_validate.cli import main as validate

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = [block.text for block in blocks(README, "python")]
SHELL = [line for block in blocks(README, "sh") for line in block.text.splitlines()]
COMMANDS = re.findall(r"^  `(streamsim[^`]*)`$", README, re.M)
PIPELINE = ("--h2d", "64MiB", "--kernel", "0.57ms", "--d2h", "64MiB")


def test_the_library_lines_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert PYTHON
    for block in PYTHON:
        exec(compile(block, "README.md", "exec"), {})
    first, *spans = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+\.\d\d ms, \d+\.\d\d times as fast as unchunked", first)
    assert [span.split()[0] for span in spans] == ["H2D", "kernel", "D2H"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that somebody has who does what README says: a schedule, a trace, and those of two guides."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["code", *PIPELINE, "--chunks", "16", "--streams", "4", "--as", "schedule", "-o", "plan.json"]) == 0
    Path("trace.json.gz").write_bytes(of_the_guide(changed_program=False))
    for guide in ("training-loop", "layers"):
        for block in blocks((ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8"), "toml"):
            Path(*block.words).write_text(block.text, encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_what_you_have_runs(line: str) -> None:
    for command in line.split(" && "):
        program, *words = shlex.split(command)
        code, expected = (main(words), 0) if program == "streamsim" else (validate(words), NO_GPU)
        assert code == expected, command


def test_the_main_job_predicts_what_readme_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that README shows are among those that it prints, in that order."""
    monkeypatch.setenv("COLUMNS", "80")
    job = next(line for line in SHELL if "streamsim predict" in line and ".venv" in line)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(shlex.split(job.rpartition("&&")[2])[1:]) == 0
    printed = iter(" ".join(line.split()) for line in capsys.readouterr().out.splitlines())
    (shown,) = blocks(README, "text")
    for line in shown.text.splitlines():
        assert " ".join(line.split()) in printed, line


def test_ci_calls_the_readmes_test_command() -> None:
    tests = next(line for line in SHELL if line.endswith(".venv/bin/pytest"))
    assert tests in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
