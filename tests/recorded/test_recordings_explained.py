"""``streamsim explain`` of a recording: what it prints and writes."""

import json
import re
import shlex
from pathlib import Path

import pytest
from made_recordings import call, kineto, pipeline, span

from streamsim.cli import main


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.json"
    path.write_text(kineto(*pipeline()))
    return path


def rows_of(text: str) -> dict[str, str]:
    """First column to the rest, of a table."""
    cells = [line.strip().split("  ", 1) for line in text.splitlines() if line.strip()]
    return {cell[0]: cell[1].strip() for cell in cells if len(cell) > 1}


def test_the_list_names_what_can_be_chosen_and_each_of_it_can(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_text(kineto(*pipeline(), span("user_annotation", "[bold]ProfilerStep#1[/]", 5, 100)))
    assert main(["explain", str(trace), "--list"]) == 0
    printed = capsys.readouterr().out
    rows = rows_of(printed)
    assert rows["--gpu 0"] == "a card   1 GiB"
    assert "  --process 420\n" in printed
    assert rows["--window 'step'"].split() == ["200", "us", "at", "0", "s"]
    for words in ("--gpu 0", "--process 420", "--window step", "--window [bold]ProfilerStep#1[/]"):
        assert main(["explain", str(trace), *words.split(maxsplit=1), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["cards"]
    assert main(["explain", str(trace), "--list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [window["name"] for window in found["windows"]] == ["step", "[bold]ProfilerStep#1[/]"]
    assert found["devices"][0]["memory_bytes"] == 1 << 30


def test_what_was_recorded_is_drawn_above_the_replay(trace: Path, tmp_path: Path) -> None:
    """A process each; the first has what is in the file: copies and a kernel, from the first call at 10 us on."""
    assert main(["explain", str(trace), "--trace", "both.json", "--plot", "both.svg"]) == 0
    events = json.loads((tmp_path / "both.json").read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {1: "recorded", 2: "replayed"}
    work = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") in ("gpu_memcpy", "kernel")]
    spans = [e for e in events if e["ph"] == "X" and e["pid"] == 1 and "stream" in e["args"]]
    assert sorted((e["ts"], e["dur"]) for e in spans) == sorted((e["ts"] - 10, e["dur"]) for e in work)
    assert (tmp_path / "both.svg").read_text().count('id="h2d: H2D"') == 2


def test_the_command_to_try_reads_the_same_part_of_the_recording(capsys: pytest.CaptureFixture[str]) -> None:
    work = ("--h2d", "64MiB", "--kernel", "5.7ms", "--d2h", "64MiB", "--chunks", "4", "--memory", "pageable")
    assert main(["predict", *work, "--order", "serial", "--recording", "r.json"]) == 0
    capsys.readouterr()
    assert main(["explain", "r.json", "--gpu", "0", "--window", "0ms..9ms"]) == 0
    said = capsys.readouterr().out.splitlines()
    told, command = (next(line for line in said if line.startswith(start)) for start in ("first: ", "try it: "))
    command = command.removeprefix("try it: streamsim ")
    assert {"--gpu", "--window"} <= {*shlex.split(command)}
    assert main([*shlex.split(command), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    gain = found["before"]["makespan_s"] / found["together"]["makespan_s"]
    first = re.search(r": ([\d.]+)x as fast", told)
    assert first is not None
    assert float(first[1]) == pytest.approx(gain, rel=0.01)


def test_what_cannot_be_replayed_is_shown_all_the_same(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_text(kineto(call("cudaDeviceSynchronize", 10, 5, 1)))
    assert main(["explain", str(trace)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("not replayed: ")
    assert any(line.split()[:2] == ["in", "cudaDeviceSynchronize"] for line in lines)
    assert main(["explain", str(trace), "--trace", "t2.json"]) == 2
