"""Programs whose steps repeat, on the command line: ``best``, ``whatif --as``, ``code``, ``--plot`` and ``--trace``."""

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
    workload = repeated_step(program.read_schedule("p.json"))[0]
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
