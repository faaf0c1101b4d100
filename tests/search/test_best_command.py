"""``streamsim best``: what it prints, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from strategies import pipeline_of

import streamsim
from streamsim.cli import main
from streamsim.cli.best import best_command
from streamsim.device.files import read_device, write_device
from streamsim.device.library import load_device
from streamsim.program.files import write_workload
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.search.evaluate import SLOW, is_fast
from streamsim.search.grid import Grid

if TYPE_CHECKING:
    from pathlib import Path

    from streamsim.search.best import Best


# The command

PIPELINE = ["--h2d", "1MiB", "--kernel", "20us", "--d2h", "1MiB", "--max-chunks", "6", "--max-streams", "3"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["best", *arguments])
    out, err = capsys.readouterr()
    assert code == 0
    assert err == ("" if is_fast() else f"streamsim: {SLOW}, and the optimum of any grid exact\n")
    return out


def test_the_command_says_what_the_library_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    workload = Workload(1 << 18, (4,), (4,), (WorkloadKernel(duration_s=20e-6),))
    grid = Grid(tuple(range(1, 7)), (1, 2, 3), ("depth-first",), (2, 3), ("live", "graph"))
    options = ["--orders", "depth-first", "--buffers", "2..3", "--launch", "both", "--device", "a100"]
    value = json.loads(said(capsys, *PIPELINE, *options, "--json"))
    inputs = value.pop("inputs")
    expected = json.loads(json.dumps(streamsim.best(workload, load_device("a100"), grid).to_json()))
    del expected["inputs"]
    assert value == expected
    assert value["schema_version"] == 1
    assert inputs["grid"]["buffers"] == [2, 3]
    assert (inputs["device"], inputs["h2d_bytes"]) == ("a100", 1 << 20)
    write_device(msgspec.structs.replace(load_device("a100"), connections=1), tmp_path / "one.toml")
    one = json.loads(said(capsys, *PIPELINE, "--device", "a100", "--connections", "1", "--json"))
    file = json.loads(said(capsys, *PIPELINE, "--device", str(tmp_path / "one.toml"), "--json"))
    assert one["best"] == file["best"]
    assert read_device(tmp_path / "one.toml").connections == 1


def test_the_table_names_what_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    best: Best = streamsim.best(
        Workload(1 << 18, (4,), (4,), (WorkloadKernel(duration_s=20e-6),)),
        load_device("h200"),
        Grid(tuple(range(1, 7)), (1, 2, 3)),
    )
    table = " ".join(said(capsys, *PIPELINE).split())
    config = best.simplest.config
    assert f"{config.chunks} chunk{'s' * (config.chunks > 1)} on {config.streams} stream" in table
    assert f"{best.programs} programs: {best.simulated} simulated" in table
    for word in ("serial", "usual", "lower bound", "flatness", "link 1.1x", "kernel 1.1x", "launch 1.1x"):
        assert word in table


def test_the_command_says_what_is_not_known(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("streamsim.search.best.is_fast", lambda: False)
    monkeypatch.setattr("streamsim.search.shortest.BUDGET_OPS", 80)
    value = json.loads(said(capsys, *PIPELINE, "--json"))
    assert (value["exact"], value["simplest_exact"], value["compiled"]) == (False, False, False)
    assert value["share_within"] == {"1%": None, "5%": None, "10%": None}
    assert value["chunks_within"] is None
    assert value["left_open"] > 0
    assert value["left_open_because"] == "SimPy's budget of 80 simulated ops is spent"
    assert value["floor_s"] < value["best"]["makespan_s"]
    table = " ".join(said(capsys, *PIPELINE).split())
    for words in ("best found", "the simplest found within 1 % of the best found", "unknown within 1, 5, 10 %"):
        assert words in table
    assert "Not exact, though no program of the grid is more than" in table
    assert f"{value['left_open']} left open" in table
    assert "streamsim[fast] or --exact leaves nothing open" in table
    exact = json.loads(said(capsys, *PIPELINE, "--exact", "--json"))
    assert (exact["exact"], exact["left_open"], exact["left_open_because"]) == (True, 0, None)
    assert exact["best"]["makespan_s"] == exact["floor_s"] <= value["best"]["makespan_s"]


def test_a_memory_limit_brings_rings(capsys: pytest.CaptureFixture[str]) -> None:
    value = json.loads(said(capsys, *PIPELINE, "--memory-limit", "1MiB", "--json"))
    assert value["best"]["buffers"] in (2, 3, 4, 8)
    assert value["device_bytes"] <= 1 << 20
    assert value["usual_fits"] is False
    assert json.loads(said(capsys, *PIPELINE, "--json"))["usual_fits"] is True


def test_every_example_in_the_help_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write_workload(pipeline_of(1 << 20), tmp_path / "workload.toml")
    text = best_command.get_help(best_command.make_context("streamsim best", list(PIPELINE)))
    examples = [line.split()[2:] for line in text.splitlines() if line.startswith("    streamsim best ")]
    assert len(examples) == 4
    for arguments in examples:
        said(capsys, *arguments)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("", "no workload: give --h2d SIZE"),
        ("--h2d 4KiB --max-chunks 0", "--max-chunks = '0': "),
        ("--h2d 4KiB --max-streams x", "--max-streams = 'x': "),
        (
            "--h2d 4KiB --max-chunks 1000000 --max-streams 1000",
            "chunks, streams = 1000000, 1000 numbers: a grid of 2000000000 programs, more than 1000000; give fewer",
        ),
        ("--h2d 4KiB --orders random", "orders = 'random': expected one of"),
        ("--h2d 4KiB --orders breadth-first --buffers 2", "an empty grid: buffers = 2: a ring"),
        ("--h2d 4KiB --buffers 0", "buffers = '0': "),
        ("--h2d 4KiB --buffers 3..2", "buffers = '3..2': an empty range"),
        ("--h2d 4KiB --memory pageable --launch graph", "an empty grid: launch = 'graph': pageable"),
        ("--h2d 4KiB --memory-limit 8", "memory_limit_bytes = 8: no program of the grid fits"),
        ("--h2d 4KiB --memory-limit much", "--memory-limit = 'much': "),
        ("--h2d 4KiB --device b200", "device = 'b200': "),
        ("--h2d 4KiB --launch later", "Invalid value for '--launch': 'later'"),
        ("none.toml", "none.toml: cannot read it"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any, options: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["best", *options.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.removeprefix("streamsim: error: ").startswith(named)
