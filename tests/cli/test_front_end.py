"""The front end of a program: by the option, by the device's name, or by the workload's file, in that order."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamsim.cli import main

SIZES = ["--h2d", "1MiB", "--kernel", "20us", "--d2h", "1MiB"]
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
    """What a command prints as JSON, but for what it was asked."""
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    found.pop("inputs", None)
    return found


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_file_says_what_the_option_would(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    by_file = said(capsys, *command)
    write("")
    assert by_file == said(capsys, *command, "--front-end", "cupy") == said(capsys, *command, "--device", "h200:cupy")
    assert by_file != said(capsys, *command)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("chosen", [["--front-end", "calls"], ["--front-end", "PyTorch"], ["--device", "h200:pytorch"]])
def test_the_option_and_the_devices_name_win_over_the_file(
    capsys: pytest.CaptureFixture[str], command: list[str], chosen: list[str]
) -> None:
    with_file = said(capsys, *command, *chosen)
    write("")
    assert with_file == said(capsys, *command, *chosen)


def test_what_calls_cost_wins_over_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Entering streams is the file's still."""
    dear = said(capsys, *COMMANDS["predict"], "--call-cost", "30us")
    assert dear["makespan_s"] > said(capsys, *COMMANDS["predict"])["makespan_s"]
    write("")
    assert dear == said(capsys, *COMMANDS["predict"], "--front-end", "cupy", "--call-cost", "30us")
    without = [*COMMANDS["predict"], "--front-end", "cupy", "--call-cost", "30us", "--set", "host.turn_s=0us"]
    assert dear == said(capsys, *without)


def test_a_sweep_takes_what_calls_cost_too(capsys: pytest.CaptureFixture[str]) -> None:
    dear = said(capsys, *COMMANDS["predict"], "--call-cost", "30us")
    assert main(["sweep", "workload.toml", *CUT, "--call-cost", "30us", "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out)["makespan_s"] == dear["makespan_s"]


def test_a_program_to_be_written_is_in_its_own_language(capsys: pytest.CaptureFixture[str]) -> None:
    of_file = said(capsys, *COMMANDS["best"], "--as", "pytorch", "-o", "one.py")
    write("")
    assert of_file == said(capsys, *COMMANDS["best"], "--as", "pytorch", "-o", "other.py")
    assert of_file == said(capsys, *COMMANDS["best"], "--front-end", "pytorch")
    assert Path("one.py").read_text() == Path("other.py").read_text()


def test_a_sweep_has_the_files_front_end(capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*more: str) -> list[str]:
        assert main(["sweep", "workload.toml", "--chunks", "2,4", *more]) == 0
        return capsys.readouterr().out.splitlines()

    of_file = rows()
    assert of_file[1].startswith("h200:cupy,")
    bare = rows("--front-end", "calls")
    assert bare[1].startswith("h200,")
    write("")
    assert of_file == rows("--front-end", "cupy")
    assert bare == rows()


@pytest.mark.parametrize(
    "arguments", [*COMMANDS.values(), ["sweep", "workload.toml", "--chunks", "2"]], ids=[*COMMANDS, "sweep"]
)
def test_an_unknown_one_is_one_line_with_those_there_are(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    write("jax")
    assert main(arguments) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert (
        found.err
        == "streamsim: error: front end = 'jax': expected one of calls, cuda-c++, cupy, pytorch, pytorch_eager\n"
    )


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_linear_layer_that_was_not_measured_counts_as_any_operation_with_a_note(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    plain = said(capsys, *command)
    text = Path("workload.toml").read_text().replace('"20us"', '{ name = "linear", duration_s = "20us" }')
    Path("workload.toml").write_text(text)
    assert main([*command, "--json"]) == 0
    found = capsys.readouterr()
    assert found.err.count("\n") == 1
    assert "kernel 'linear': h200:cupy has not measured the call of a linear layer" in found.err
    assert json.loads(found.out).get("makespan_s") == plain.get("makespan_s")
    assert main([*command, "--json", "--set", "host.linear=90us"]) == 0
    dearer = capsys.readouterr()
    assert dearer.err == ""
    assert json.loads(dearer.out) != json.loads(found.out)
    assert main([*command, "--json", "--front-end", "calls"]) == 0
    assert capsys.readouterr().err == ""


def test_call_costs_are_those_of_linear_layers_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the profile tells them apart; else they are any operation's."""
    write("")
    text = Path("workload.toml").read_text()
    Path("workload.toml").write_text(text.replace('"20us"', '{ name = "linear", duration_s = "20us" }'))
    assert main(["devices", "show", "h200"]) == 0
    profile = capsys.readouterr().out.replace("linear_s = 0.0", 'linear_s = "50us"')
    Path("card.toml").write_text(profile.replace("[sources]", '[sources]\n"host.linear_s" = "measured: by hand"'))
    layers = said(capsys, *COMMANDS["predict"], "--device", "card.toml", "--call-cost", "9us")
    plain = said(capsys, *COMMANDS["predict"], "--call-cost", "9us")
    assert layers["makespan_s"] == plain["makespan_s"]


def test_the_schema_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "workload"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$defs"]["WorkloadFile"]["properties"]["front_end"] == {"type": "string", "default": ""}
