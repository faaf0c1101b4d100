"""Changes that pay only together are said in the shortest list, which comes within 1 % of what ``best`` finds."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from streamsim.analysis import explain
from streamsim.cli import main
from streamsim.device import load_device
from streamsim.model import simulate
from streamsim.program import Config, Workload, WorkloadKernel, read_schedule
from streamsim.races import check
from streamsim.search import Grid, best, changes, evaluate, together
from streamsim.transform import Case, Source, changed_by

WORKLOAD = Workload(1 << 24, (4,), (4,), (WorkloadKernel("kernel", 0.57e-3),))
K20C = load_device("k20c").with_connections(1)


def test_the_list_comes_within_one_percent_of_the_best_and_no_part_of_it_does() -> None:
    workload, config, device = WORKLOAD, Config("breadth-first", 4, 4), K20C
    source = Source(workload, config)
    found = explain(config.schedule(workload), device, source)
    said = together(source, device, found)
    assert said is not None
    optimum_s = best(workload, device, Grid(tuple(range(1, 65)), tuple(range(1, 9)))).best.makespan_s
    assert said.makespan_s <= 1.01 * optimum_s
    done = said.remedied.schedule
    assert simulate(*said.remedied).makespan_s == pytest.approx(said.makespan_s, abs=1e-12)
    assert not check(done)
    gain_s = found.best.gain_alone_s if found.best else 0.0
    assert found.makespan_s - said.makespan_s > gain_s + 0.03 * found.makespan_s
    fields: list[dict[str, Any]] = [
        *({"chunks": n} for n in range(1, 65)),
        *({"streams": n} for n in range(1, 9)),
        {"order": "depth-first"},
    ]
    alone = [replace(config, **field).fitted() for field in fields]
    assert {len(changes(config, way)) for way in alone if way != config} == {1}
    assert len(said.changes) == 2
    way = Config("depth-first", 51, 4)
    assert changed_by(changes(config, way), Case(config.schedule(workload), device, source)).case.schedule == (
        way.schedule(workload)
    )
    assert min(evaluate(workload, alone, device)) > 1.01 * optimum_s


def test_nothing_is_said_of_changes_together_where_there_is_nothing_to_gain() -> None:
    config = Config("depth-first", 16, 3)
    source, device = Source(WORKLOAD, config), load_device("h200")
    assert together(source, device, explain(config.schedule(WORKLOAD), device, source)) is None


def test_the_command_says_the_list_and_saves_the_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Two changes of which each alone is slower, on a Kepler card with one hardware queue."""
    sizes = ["--h2d", "64MiB", "--kernel", "0.57ms", "--d2h", "64MiB", "--chunks", "4", "--streams", "4"]
    arguments = [*sizes, "--order", "breadth-first", "--device", "k20c", "--connections", "1"]
    better = tmp_path / "better.json"
    assert main(["explain", *arguments, "--json", "--remedied", str(better)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["together"]["changes"]) == 2
    assert said["together"]["changes"][1] == "issue the same ops in another order: depth-first"
    assert said["advice"].startswith("2 changes together: cut into ")
    assert said["advice"].endswith("; no single change helps")
    assert simulate(read_schedule(better), K20C).makespan_s == pytest.approx(said["together"]["makespan_s"])
