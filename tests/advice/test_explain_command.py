"""``streamsim explain`` and the picture of an explanation."""

import json
from pathlib import Path

import pytest
from explained import PLAIN, WORKLOAD
from matplotlib.collections import PolyCollection
from stamped import printed, unstamped
from strategies import h2d, kernel, program

from streamsim.advice import explain
from streamsim.analysis import CAUSES, bound_json, work_bound
from streamsim.device import load_device
from streamsim.program import Synchronize, breadth_first, workload_of_sizes, write_schedule
from streamsim.report import plot_remedied

# The command and the picture

PIPELINE = ["--h2d", "64MiB", "--kernel", "0.57ms", "--d2h", "64MiB", "--chunks", "16", "--streams", "4"]


def test_the_command_says_what_the_library_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    schedule = breadth_first(WORKLOAD, 16, 4)
    expected = json.loads(json.dumps(explain(schedule, load_device("h200")).to_json()))
    said = json.loads(printed(capsys, "explain", *PIPELINE, "--order", "breadth-first", "--json"))
    write_schedule(schedule, tmp_path / "plan.json")
    of_file = json.loads(printed(capsys, "explain", str(tmp_path / "plan.json"), "--json"))
    work = work_bound(workload_of_sizes(["64MiB"], ["0.57ms"], ["64MiB"]), "h200")
    for value, bound in ((said, work), (of_file, None)):
        unstamped(value)
        assert {name: value.pop(name) for name in ("work_bound_s", "work_bound_by")} == bound_json("work", bound)
    inputs = said.pop("inputs")
    assert (inputs["order"], inputs["h2d_bytes"], inputs["device"]) == ("breadth-first", 1 << 26, "h200")
    assert of_file.pop("inputs") == {"schedule": str(tmp_path / "plan.json"), "device": "h200", "connections": None}
    del expected["inputs"]
    assert said == of_file == expected
    assert sum(loss["lost_s"] for loss in said["losses"]) == pytest.approx(said["makespan_s"] - said["bound_s"])


def test_the_picture_shows_bound_and_losses() -> None:
    # Copy 0..10, synchronised, kernel 10..20: bound 10, then 10 lost to the call.
    schedule = program(h2d(1, 10), Synchronize(), kernel(2, 10))
    ax, *_ = panels = plot_remedied(explain(schedule, PLAIN))
    bars = {
        str(c.get_gid()): (c.get_paths()[0].get_extents().x0, c.get_paths()[0].get_extents().x1)
        for c in ax.collections
        if isinstance(c, PolyCollection) and str(c.get_gid()).startswith("where it goes")
    }
    title = CAUSES["host-waits"].title
    assert bars == {
        "where it goes: busiest engine alone": (0, 10),
        f"where it goes: 1 {title}: 10 ns": (10, 20),
    }
    legend = panels[-1].get_legend()
    assert legend is not None
    assert f"1 {title}: 10 ns" in [text.get_text() for text in legend.get_texts()]
