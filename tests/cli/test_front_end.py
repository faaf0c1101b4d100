"""The front end of a program: by the option, by the device's name, or by the workload's file, in that order."""

from pathlib import Path
from typing import Any

import pytest
from stamped import figures

CUT = ["--chunks", "8", "--streams", "2"]
COMMANDS = {
    "predict": ["predict", "workload.toml", *CUT],
    "best": ["best", "workload.toml", "--max-chunks", "8", "--max-streams", "2"],
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("cupy")


def write(front_end: str) -> None:
    named = f'front_end = "{front_end}"\n' * bool(front_end)
    Path("workload.toml").write_text(f'inputs = ["1MiB"]\noutputs = ["1MiB"]\nkernels = ["20us"]\n{named}')


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    return {name: value for name, value in figures(capsys, *arguments).items() if name != "inputs"}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_file_says_what_the_option_or_the_devices_name_would_and_both_win_over_it(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    by_file = said(capsys, *command)
    chosen = (["--front-end", "calls"], ["--front-end", "PyTorch"], ["--device", "h200:pytorch"])
    with_file = [said(capsys, *command, *one) for one in chosen]
    write("")
    assert by_file == said(capsys, *command, "--front-end", "cupy") == said(capsys, *command, "--device", "h200:cupy")
    assert by_file != said(capsys, *command)
    assert with_file == [said(capsys, *command, *one) for one in chosen]


def test_a_program_to_be_written_is_in_its_own_language(capsys: pytest.CaptureFixture[str]) -> None:
    of_file = said(capsys, *COMMANDS["best"], "--as", "pytorch", "-o", "one.py")
    write("")
    assert of_file == said(capsys, *COMMANDS["best"], "--as", "pytorch", "-o", "other.py")
    assert of_file == said(capsys, *COMMANDS["best"], "--front-end", "pytorch")
    assert Path("one.py").read_text() == Path("other.py").read_text()
