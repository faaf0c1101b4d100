"""``streamsim best``: what it prints, and what it refuses."""

import json
from importlib import import_module
from typing import Any

import msgspec
import pytest
from stamped import unstamped

import streamsim
from streamsim.cli import main
from streamsim.device import load_device
from streamsim.program import (
    Workload,
    WorkloadKernel,
    workload_of_sizes,
)
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
    assert value["schema_version"] == 3
    assert inputs["grid"]["buffers"] == [2, 3]
    assert (inputs["device"], inputs["h2d_bytes"]) == ("a100", 1 << 20)
    ring = json.loads(said(capsys, *PIPELINE, "--memory-limit", "1MiB", "--json"))  # without one nothing fits
    assert ring["best"]["buffers"] in (2, 3, 4, 8)
    assert (ring["device_bytes"] <= 1 << 20, ring["usual_fits"]) == (True, False)


def test_what_the_workload_forbids_is_left_out_with_a_word() -> None:
    """Of 1 to 4 chunks on one stream, live and as a graph: 3 and 4 of two elements, and graphs with host work."""
    grid = Grid(tuple(range(1, 5)), (1,), ("depth-first",), (None,), ("live", "graph"))
    four = Workload(4, (8,), (8,), (WorkloadKernel(duration_s=1e-6),))
    two, busy = (msgspec.structs.replace(four, **change) for change in ({"elements": 2}, {"host_work_s": 1e-6}))
    for workload, most_chunks, graphs in ((four, None, 0), (two, 2, 0), (busy, None, 4)):
        found = streamsim.best(workload, "ideal", grid)
        why = "the host cannot work between the steps of a graph"
        assert (found.most_chunks, found.left_out_whys) == (most_chunks, {why: graphs} if graphs else {})
        assert (found.left_out, found.left_out_why) == (graphs, why if graphs else "")
        assert found.programs == 2 * (most_chunks or 4) - graphs


def test_the_command_says_what_is_not_known(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(import_module("streamsim.search.best"), "is_fast", lambda: False)
    monkeypatch.setattr(import_module("streamsim.cli.best"), "BUDGET_OPS", 80)
    value = json.loads(said(capsys, *PIPELINE, "--json"))
    assert (value["exact"], value["simplest_exact"], value["compiled"]) == (False, False, False)
    assert value["left_open"] > 0
    assert value["left_open_because"] == "the budget of 80 simulated ops is spent"
    assert value["floor_s"] < value["best"]["makespan_s"]
    exact = json.loads(said(capsys, *PIPELINE, "--exact", "--json"))
    assert (exact["exact"], exact["left_open"], exact["left_open_because"]) == (True, 0, None)
    assert exact["best"]["makespan_s"] == exact["floor_s"] <= value["best"]["makespan_s"]
