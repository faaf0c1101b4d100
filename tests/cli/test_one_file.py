"""A workload's file says how to cut, issue and predict it, options win; init writes one; devices of one's own."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from stamped import unstamped

from streamsim.cli import main
from streamsim.cli.init import WORKLOAD
from streamsim.device.files import write_device
from streamsim.device.library import load_device
from streamsim.program.files import PLAN

if TYPE_CHECKING:
    from pathlib import Path

WORK = 'inputs = ["4MiB"]\noutputs = ["4MiB"]\nkernels = ["80us"]\n'
OPTIONS = ("--h2d", "4MiB", "--kernel", "80us", "--d2h", "4MiB")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = unstamped(json.loads(capsys.readouterr().out))
    del found["inputs"]
    return found


@pytest.mark.parametrize("command", ["predict", "explain", "diagnose"])
def test_what_the_file_says_is_what_the_options_say(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {"chunks": 4, "streams": 2, "order": "breadth-first", "memory": "pageable", "device": "a100"}
    more = 'measured = "900us"\n' if command == "diagnose" else ""
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in plan.items()]
    (folder / "w.toml").write_text(WORK + "".join(lines) + more)
    options = [word for name, value in plan.items() for word in (f"--{name}", str(value))]
    measured = ("--measured", "900us") if command == "diagnose" else ()
    assert figures(capsys, command, "w.toml") == figures(capsys, command, *OPTIONS, *options, *measured)
    wins = ("--chunks", "2", "--device", "h200")
    assert figures(capsys, command, "w.toml", *wins) == figures(
        capsys, command, *OPTIONS, *options[2:-2], *wins, *measured
    )


def test_a_sweep_and_a_prediction_read_the_same_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of a workload and that of a sweep, whose axes have one value each."""
    plan = 'chunks = 4\nstreams = 2\ndevice = "a100"\n'
    (folder / "w.toml").write_text(WORK + plan)
    (folder / "s.toml").write_text('h2d = ["4MiB"]\nd2h = "4MiB"\nkernel = "80us"\nset."host.kernel" = "9us"\n' + plan)
    for file, more in (("w.toml", ()), ("s.toml", ("--set", "host.kernel=9us"))):
        wanted = figures(capsys, "predict", *OPTIONS, "--chunks", "4", "--streams", "2", "--device", "a100", *more)
        assert figures(capsys, "predict", file) == wanted
        assert main(["sweep", "--file", file, "--json"]) == 0
        (row,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert (row["makespan_s"], row["chunks"]) == (wanted["makespan_s"], 4)
    assert main(["sweep", "w.toml", "--chunks", "1..3", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_init_writes_a_file_whose_every_line_is_read_and_never_over_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init"]) == 0
    path = folder / "workload.toml"
    assert main(["predict", "workload.toml"]) == 0
    assert main(["init"]) == 2
    assert "workload.toml: is there already" in capsys.readouterr().err
    settings = re.findall(r"^# (\w+ = .*)$", WORKLOAD, re.MULTILINE)
    for setting in settings:
        path.write_text(re.sub(rf"^# {re.escape(setting)}$", setting, WORKLOAD, flags=re.MULTILINE))
        assert main(["schedule", "workload.toml"]) == 0, setting
    assert {setting.split()[0] for setting in settings} | {"chunks", "streams", "device"} >= set(PLAN)


def test_a_device_of_ones_own_is_found_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = folder / "config" / "streamsim" / "devices"
    own.mkdir(parents=True)
    write_device(load_device("a100"), own / "mine.toml")
    write_device(load_device("a100"), own / "h200.toml")  # a shipped name stays what it is
    assert figures(capsys, "predict", *OPTIONS, "--device", "mine") == figures(
        capsys, "predict", *OPTIONS, "--device", "a100"
    )
    assert main(["devices", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["devices"]][-1] == "mine"
    assert load_device("h200").name == "h200"
