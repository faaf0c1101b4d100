"""Programs whose steps repeat, on the command line: ``best``, ``whatif --as``, ``code``, ``--plot`` and ``--trace``."""

import json
from pathlib import Path
from typing import Any

import pytest
from strategies import NS, d2h, h2d, kernel, plan

from streamsim import program
from streamsim.cli import main
from streamsim.code import code_of, code_of_schedule, code_of_steps
from streamsim.transform import repeated_step

MIB = 1 << 20
STEP = h2d(1, 4 * MIB), program.HostWork(2000 * NS), kernel(1, 50_000, name="gemm"), d2h(1, 4 * MIB)


def recorded(*more: Any) -> program.Schedule:
    return plan(*STEP * 8, *more, program.Synchronize(), streams=1, name="p")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    program.write_schedule(recorded(), "p.json")
    program.write_schedule(recorded(kernel(1, 5)), "odd.json")
    program.write_schedule(plan(program.HostWork(1.0)), "none.json")


def events(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(path).read_text())["traceEvents"]
    return found


def test_a_what_ifs_trace_has_what_was_recorded_beside_it() -> None:
    """Two processes with the same tracks; in the first every op when the file says that it was recorded."""
    ops = recorded().ops
    times = tuple(range(0, 10 * len(ops), 10))
    taken = program.RecordedTimes(times, tuple(t + 4 for t in times), times, tuple(t + 9 for t in times))
    Path("t.json").write_bytes(program.dump_schedule(recorded(), taken))
    assert main(["whatif", "t.json", "--front-end-cost", "0.5x", "--trace", "both.json", "--plot", "both.svg"]) == 0
    found = events("both.json")
    names = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
    assert names == {1: "recorded", 2: "predicted with --front-end-cost 0.5x"}
    lanes = [
        sorted(e["args"]["name"] for e in found if e["name"] == "thread_name" and e["pid"] == pid) for pid in names
    ]
    assert lanes[0] == lanes[1] == ["calls", "compute", "d2h", "h2d", "stream 1"]
    works = [e for e in found if e["ph"] == "X" and e["pid"] == 1 and e["cat"] != "host"]
    spans = {(e["args"]["op"], e["ts"], e["dur"]) for e in works}
    on_card = [i for i, op in enumerate(ops) if not isinstance(op, program.HostWork | program.Synchronize)]
    assert spans == {(i, times[i] / 1000, 0.009) for i in on_card}
    drawn = Path("both.svg").read_text()
    assert drawn.count('id="stream 1: kernel') == 2


@pytest.mark.parametrize(
    ("options", "config"),
    [
        (["--streams", "4", "--chunks", "16", "--independent"], program.Config("depth-first", 16, 4, 4)),
        (["--streams", "2", "--independent", "--graph"], program.Config("depth-first", 8, 2, 2, launch="graph")),
        (["--prefetch", "2"], program.Config("prefetch", 8, buffers=3)),
    ],
)
def test_whatif_writes_the_pipeline_with_the_changes(
    options: list[str], config: program.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", "p.json", *options, "--as", "pytorch", "-o", "pipeline.py"]) == 0
    workload = repeated_step(program.read_schedule("p.json")).workload
    assert (sum(workload.input_bytes), sum(workload.output_bytes)) == (32 * MIB, 32 * MIB)
    written = code_of(workload, config, "pytorch")
    assert Path("pipeline.py").read_text() == written
    is_graph = config.launch == "graph"  # then the host does nothing between its calls
    assert (
        "what the host does for its calls (work without a name, up to 1 ms at a time) is not in the pipeline"
        in capsys.readouterr().err
    ) is not is_graph


def test_code_writes_the_loop_of_a_recorded_program_and_others_call_by_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["code", "p.json", "--as", "cuda-c++"]) == 0
    said = capsys.readouterr()
    assert said.out == code_of_steps(program.read_schedule("p.json"), "cuda-c++")
    assert "--chunks 8 --streams 1 --buffers 1" in said.out
    assert said.err.count("\n") == 1
    plain = plan(*(h2d(1, 64), kernel(1, 5), d2h(1, 64)) * 2, streams=1)
    program.write_schedule(plain, "plain.json")
    assert main(["code", "plain.json", "--as", "cuda-c++"]) == 0
    assert capsys.readouterr().out == code_of_schedule(plain, "cuda-c++")


def test_best_says_what_to_change_and_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    """What it says to use takes what whatif says of the same options, and its pipeline is that of whatif."""
    asked = ["best", "p.json", "--device", "ideal", "--independent", "--max-chunks", "8"]
    assert main([*asked, "--json", "--as", "cupy", "-o", "best.py"]) == 0
    found = json.loads(capsys.readouterr().out)
    use = found["simplest"]
    assert found["before"]["chunks"] == 8
    assert use["options"][0] == "--streams"
    assert found["first"] == {name: use[name] for name in ("words", "options", "gain", "condition")}
    assert use["makespan_s"] < found["before"]["makespan_s"]
    assert found["assumed"] == ["your steps are independent"]
    again = ["whatif", "p.json", "--device", "ideal", *use["options"], "--independent", "--json"]
    assert main([*again, "--as", "cupy", "-o", "again.py"]) == 0
    assert json.loads(capsys.readouterr().out)["together"]["makespan_s"] == use["makespan_s"]
    assert Path("best.py").read_text() == Path("again.py").read_text()
    assert main([*asked, "--all"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"{' '.join(use['options'])}: the simplest found within 1 % of the best found" in printed
    assert f"{found['simulated']} programs: {found['simulated']} simulated." in printed
    assert "Not exact:" in printed
