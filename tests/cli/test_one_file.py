"""A workload's file says how to cut, issue and predict it, options win; init writes one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from stamped import figures, unstamped

from streamsim.cli import main
from streamsim.cli.files import WORKLOAD
from streamsim.program import Workload, WorkloadFile

WORK = 'inputs = ["4MiB"]\noutputs = ["4MiB"]\nkernels = ["80us"]\n'
OPTIONS = ("--h2d", "4MiB", "--kernel", "80us", "--d2h", "4MiB")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def figures_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What a command prints as JSON, but for what it was asked."""
    return {name: value for name, value in unstamped(figures(capsys, *arguments)).items() if name != "inputs"}


@pytest.mark.parametrize(("command", "time"), [("predict", ""), ("explain", ""), ("explain", "900us")])
def test_what_the_file_says_is_what_the_options_say(
    command: str, time: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {"chunks": 4, "streams": 2, "order": "breadth-first", "memory": "pageable", "device": "a100"}
    more = f'measured = "{time}"\n' if time else ""
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in plan.items()]
    (folder / "w.toml").write_text(WORK + "".join(lines) + more)
    options = [word for name, value in plan.items() for word in (f"--{name}", str(value))]
    measured = ("--measured", time) if time else ()
    assert figures_of(capsys, command, "w.toml") == figures_of(capsys, command, *OPTIONS, *options, *measured)
    wins = ("--chunks", "2", "--device", "h200")
    assert figures_of(capsys, command, "w.toml", *wins) == figures_of(
        capsys, command, *OPTIONS, *options[2:-2], *wins, *measured
    )


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ("--chunks 16", "--chunks 16"),
        ("--chunks 1", "--chunks 1"),
        ("--chunks 4", ""),
        ("--streams 4", "--streams 4"),
        ("--order depth-first", "--order depth-first"),
        ("--pin", "--memory pinned"),
        ("--pin --graph", "--memory pinned --launch graph"),
        ("--pin --prefetch 2", "--memory pinned --order prefetch --streams 1 --buffers 3"),
        ("--chunks 12 --streams 3 --order depth-first", "--chunks 12 --streams 3 --order depth-first"),
        ("--chunks 8 --on-device h200", "--chunks 8 --device h200"),
        ("--chunks 8 --device h200", "--chunks 8 --device h200"),
        ("--pin --buffers 2", "--memory pinned --buffers 4"),
        ("--pin --buffers 0", "--memory pinned"),
    ],
)
def test_changes_of_a_workload_are_what_predict_makes_of_the_options(
    changes: str, options: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the tick: a ring of two buffers has twice as many, or one for each of the 6 chunks."""
    ring = 'order = "depth-first"\nbuffers = 2\n' if "--buffers" in changes else 'order = "breadth-first"\n'
    plan = f'chunks = {6 if "--buffers" in changes else 4}\nstreams = 2\nmemory = "pageable"\ndevice = "a100"\n'
    (folder / "w.toml").write_text(WORK + plan + ring)
    found = figures_of(capsys, "whatif", "w.toml", *changes.split())["together"]["makespan_s"]
    if "--buffers 0" in changes:
        (folder / "w.toml").write_text(WORK + plan)
    assert found == figures_of(capsys, "predict", "w.toml", *options.split())["makespan_s"]


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
        assert main(["code", "workload.toml", "--as", "schedule"]) == 0, setting
    assert {setting.split()[0] for setting in settings} | {"chunks", "streams", "device"} >= {
        *WorkloadFile.__struct_fields__
    } - {*Workload.__struct_fields__}
