"""Recordings in the place of schedules: every command that takes a program takes what a profiler recorded of one."""

from pathlib import Path
from typing import Any

import pytest
from made_recordings import call, kernel, kineto, pipeline
from stamped import figures

from streamsim.cli import main
from streamsim.device import parse_device
from streamsim.program import read_program

CARD = {"id": 0, "name": "NVIDIA GeForce RTX 3070", "totalGlobalMem": 8 << 30, "numSms": 46}
COMMANDS = {  # and what follows the file
    "predict": ("predict",),
    "explain": ("explain",),
    "whatif": ("whatif", "--async"),
    "check": ("check",),
    "diagnose": ("explain", "--measured", "1ms"),
}


def of_file(name: str, path: str, *more: str) -> tuple[str, ...]:
    command, *options = COMMANDS[name]
    return (command, path, *options, *more)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline on a card that has no profile, t.json, and the program that code makes of it, p.json."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("t.json").write_text(kineto(*pipeline(), deviceProperties=[CARD]))
    assert main(["code", "t.json", "--as", "schedule", "-o", "p.json"]) == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_of_a_recording_what_it_says_of_the_program_that_code_makes_of_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, program = (figures(capsys, *of_file(name, path)) for path in ("t.json", "p.json"))
    names_of_files = {"inputs", "schedule"}
    assert {key: recording[key] for key in program.keys() - names_of_files} == {
        key: program[key] for key in program.keys() - names_of_files
    }
    capsys.readouterr()
    assert main([*of_file(name, "p.json"), "--window", "step"]) == 2
    said = "--window: chooses what of a recording is read; give a recording, or leave it out"
    assert capsys.readouterr().err.endswith(f"{said}\n")


@pytest.mark.parametrize("name", ["predict", "whatif", "explain"])
def test_its_own_card_is_the_device_unless_another_is_named(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    own, other = (figures(capsys, *of_file(name, "p.json", *more)) for more in ((), ("--device", "h200")))
    assert "rtx3070" in own.get("device", own.get("inputs", {}).get("device"))
    assert other.get("device", other.get("inputs", {}).get("device")) == "h200"
    _, file = read_program(Path("p.json"))
    assert parse_device(file.profile).link == "PCIe gen 4 x16"
    assert file.notes == ()


def two_cards() -> list[dict[str, Any]]:
    """A kernel on each of two cards, that of card 1 ten times as long."""
    events = [call("cudaLaunchKernel", 10 * k, 5, k + 1) for k in range(2)]
    for k in range(2):
        event = kernel(20, 50 * 10**k, k + 1, stream=7 + 10 * k)
        event["args"] |= {"device": k, "context": k + 1}
        events.append(event | {"pid": k})
    return events


def test_of_several_cards_the_busiest_is_taken_and_each_can_be(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.json").write_text(kineto(*two_cards(), deviceProperties=[CARD, {**CARD, "id": 1}]))
    found, other = figures(capsys, "explain", "t.json"), figures(capsys, "explain", "t.json", "--gpu", "0")
    assert (found["replay"]["card"], [card["id"] for card in found["cards"]]) == (1, [0, 1])
    assert (other["replay"]["card"], [card["id"] for card in other["cards"]]) == (0, [0])
    for name in COMMANDS:
        assert main([*of_file(name, "t.json")]) in (0, 1)
        other_one = "work on 2 cards; this is card 1; --gpu N takes another one (N: 0)"
        assert (other_one in capsys.readouterr().err) == (name != "check")
        assert main([*of_file(name, "t.json", "--gpu", "0")]) in (0, 1)
        assert "2 cards" not in capsys.readouterr().err
