"""Recordings in the place of schedules: every command that takes a program takes what a profiler recorded of one."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_recordings import call, kernel, kineto, pipeline
from stamped import figures

from streamsim.cli import main
from streamsim.device import parse_device
from streamsim.program import read_program

CARD = {"id": 0, "name": "NVIDIA GeForce RTX 3070", "totalGlobalMem": 8 << 30, "numSms": 46}


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pipeline on a card that has no profile."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "t.json"
    path.write_text(kineto(*pipeline(), deviceProperties=[CARD]))
    return path


COMMANDS = {
    "predict": ("predict", "{}"),
    "explain": ("explain", "{}"),
    "whatif": ("whatif", "{}", "--async"),
    "check": ("check", "{}"),
    "diagnose": ("explain", "{}", "--measured", "1ms"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_of_a_recording_what_it_says_of_the_program_that_code_makes_of_it(
    command: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["code", str(trace), "--as", "schedule", "-o", "p.json"]) == 0
    capsys.readouterr()
    found = [
        figures(capsys, *(word.format(path) for word in COMMANDS[command]))
        for path in (str(trace), str(trace.parent / "p.json"))
    ]
    for one in found:
        for name in ("inputs", "schedule"):  # which name the files
            one.pop(name, None)
    assert {name: found[0][name] for name in found[1]} == found[1]


@pytest.mark.parametrize("command", ["predict", "whatif", "explain"])
def test_its_own_card_is_the_device_unless_another_is_named(
    command: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["code", str(trace), "--as", "schedule", "-o", "p.json"]) == 0
    capsys.readouterr()
    words = [word.format("p.json") for word in COMMANDS[command]]
    own, other = figures(capsys, *words), figures(capsys, *words, "--device", "h200")
    assert "rtx3070" in own.get("device", own.get("inputs", {}).get("device"))
    assert other.get("device", other.get("inputs", {}).get("device")) == "h200"
    _, file = read_program(trace.parent / "p.json")
    assert parse_device(file.profile).link == "PCIe gen 4 x16"
    assert file.notes == ()


def test_a_report_is_named_with_the_line_that_exports_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.nsys-rep"
    report.write_bytes(b"whatever")
    for command in ("predict", "code", "explain"):
        assert main([command, str(report)]) == 2
        assert f"nsys export --type sqlite {report}" in capsys.readouterr().err


def two_cards() -> list[dict[str, Any]]:
    """A kernel on each of two cards, that of card 1 ten times as long."""
    events = [call("cudaLaunchKernel", 10 * k, 5, k + 1) for k in range(2)]
    events += [kernel(20, 50 * 10**k, k + 1, stream=7 + 10 * k) for k in range(2)]
    for k, event in enumerate(events[2:]):
        event["args"] |= {"device": k, "context": k + 1}
        event["pid"] = k
    return events


def test_of_several_cards_the_busiest_is_taken_and_each_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.json"
    path.write_text(kineto(*two_cards(), deviceProperties=[CARD, {**CARD, "id": 1}]))
    found, other = figures(capsys, "explain", str(path)), figures(capsys, "explain", str(path), "--gpu", "0")
    assert (found["replay"]["card"], [card["id"] for card in found["cards"]]) == (1, [0, 1])
    assert (other["replay"]["card"], [card["id"] for card in other["cards"]]) == (0, [0])
    for command in COMMANDS.values():
        words = [word.format(path) for word in command]
        assert main(words) in (0, 1)
        other_one = "work on 2 cards; this is card 1; --gpu N takes another one (N: 0)"
        assert (other_one in capsys.readouterr().err) == (command[0] != "check")
        assert main([*words, "--gpu", "0"]) in (0, 1)
        assert "2 cards" not in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_what_chooses_a_part_of_a_recording_needs_one(
    command: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["code", str(trace), "--as", "schedule", "-o", "p.json"]) == 0
    capsys.readouterr()
    assert main([*(word.format("p.json") for word in COMMANDS[command]), "--window", "step"]) == 2
    said = "--window: chooses what of a recording is read; give a recording, or leave it out"
    assert capsys.readouterr().err.endswith(f"{said}\n")


def test_what_is_assumed_of_a_card_is_said(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pageable copies tell nothing of pinned ones, whose rate is assumed for the card's link."""
    events = json.loads(trace.read_text())["traceEvents"]
    for event in events:
        event["name"] = event["name"].replace("Pinned", "Pageable")
    trace.write_text(kineto(*events, deviceProperties=[CARD]))
    assert main(["whatif", str(trace), "--pin"]) == 0
    assert "nobody measured its pinned copies" in capsys.readouterr().err
