"""``streamsim best``: what it prints, and what it refuses."""

import json
from importlib import import_module
from typing import Any

import pytest
from stamped import unstamped

import streamsim
from streamsim.cli import main
from streamsim.device import load_device
from streamsim.program import workload_of_sizes
from streamsim.search import SLOW, Grid, is_fast

# The command

PIPELINE = ["--h2d", "1MiB", "--kernel", "20us", "--d2h", "1MiB", "--max-chunks", "6", "--max-streams", "3"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["best", *arguments])
    out, err = capsys.readouterr()
    assert code == 0
    assert err == ("" if is_fast() else f"streamsim: {SLOW}, and the optimum of any grid exact\n")
    return out


def test_the_command_says_what_the_library_says(capsys: pytest.CaptureFixture[str]) -> None:
    workload = workload_of_sizes(["1MiB"], ["20us"], ["1MiB"])
    grid = Grid(tuple(range(1, 7)), (1, 2, 3), ("depth-first",), (2, 3), ("live", "graph"))
    options = ["--order", "depth-first", "--buffers", "2..3", "--launch", "both", "--device", "a100"]
    value = json.loads(said(capsys, *PIPELINE, *options, "--json"))
    inputs = unstamped(value).pop("inputs")
    expected = json.loads(json.dumps(streamsim.best(workload, load_device("a100"), grid).to_json()))
    del expected["inputs"]
    del value["assumed"]  # of the kernel in the best program's chunks, as the command notes it
    assert value == expected
    assert value["schema_version"] == 4
    assert inputs["grid"]["buffers"] == [2, 3]
    assert (inputs["device"], inputs["h2d_bytes"]) == ("a100", 1 << 20)
    ring = json.loads(said(capsys, *PIPELINE, "--memory-limit", "1MiB", "--json"))  # without one nothing fits
    assert ring["best"]["buffers"] in (2, 3, 4, 8)
    assert (ring["device_bytes"] <= 1 << 20, ring["usual_fits"]) == (True, False)


def test_what_the_workload_forbids_is_left_out_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    """A host that works between the steps of a graph."""
    options = ("--launch", "both", "--order", "depth-first")
    graphs = "Graphs were left out: the host cannot work between the steps of a graph."
    assert graphs in said(capsys, *PIPELINE, *options, "--host-work", "1us").splitlines()
    assert graphs not in said(capsys, *PIPELINE, *options)


def test_the_command_says_what_is_not_known(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(import_module("streamsim.search.best"), "is_fast", lambda: False)
    monkeypatch.setattr(import_module("streamsim.cli.best"), "BUDGET_OPS", 80)
    value = json.loads(said(capsys, *PIPELINE, "--json"))
    assert (value["exact"], value["simulated"] < value["programs"]) == (False, True)
    assert value["floor_s"] < value["best"]["makespan_s"]
    assert "% faster. The budget of simulated ops is spent; --exact searches to the end." in said(capsys, *PIPELINE)
    exact = json.loads(said(capsys, *PIPELINE, "--exact", "--json"))
    assert exact["exact"]
    assert exact["best"]["makespan_s"] == exact["floor_s"] <= value["best"]["makespan_s"]
