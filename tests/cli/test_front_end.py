"""The front end of a program: by the option, by the device's name, or by the workload's file, in that order."""

from pathlib import Path
from typing import Any

import pytest
from stamped import figures, printed

from streamsim.cli import main

CUT = ["--chunks", "8", "--streams", "2"]
COMMANDS = {
    "predict": ["predict", "workload.toml", *CUT],
    "explain": ["explain", "workload.toml", *CUT],
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


def test_a_sweep_has_the_files_front_end(capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*more: str) -> list[str]:
        return printed(capsys, "sweep", "workload.toml", "--chunks", "2,4", *more).splitlines()

    of_file = rows()
    assert of_file[1].startswith("h200:cupy,")
    bare = rows("--front-end", "calls")
    assert bare[1].startswith("h200,")
    write("")
    assert of_file == rows("--front-end", "cupy")
    assert bare == rows()


@pytest.mark.parametrize("arguments", [COMMANDS["best"], ["sweep", "workload.toml", "--chunks", "2"]])
def test_an_unknown_one_is_one_line_with_those_there_are(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    write("jax")
    assert main(arguments) == 2
    there = "calls, cuda-c++, cupy, pytorch, pytorch_eager"
    assert capsys.readouterr() == ("", f"streamsim: error: front end = 'jax': expected one of {there}\n")
