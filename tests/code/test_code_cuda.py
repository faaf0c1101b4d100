"""Programs in C++ make the calls of their schedules: compiled for the host, against a few lines that stand for CUDA."""

import json
import subprocess
from pathlib import Path

import pytest
from code_calls import Call, assert_are_the_calls_of
from emulated_nvcc import COMPILER, compile_for_the_host, includes_of, on_the_host
from layered import layers_of

from streamsim.code import code_of, code_of_schedule
from streamsim.program import Config, Offload, workload_of_sizes

EVEN = workload_of_sizes([400], ["1us"], [400])
ROWS = workload_of_sizes([280] * 2, ["1us", "2us/3"], [560], elements=70)
EVERY_KIND = workload_of_sizes([400, 800], ["1us", "2us/3"], [400, 164], h2d_once=[64], d2h_once=[40])
CASES = {
    "serial": (EVEN, Config("serial", 5)),
    "depth-first": (EVERY_KIND, Config("depth-first", 6, 4)),
    "breadth-first": (ROWS, Config("breadth-first", 16, 3)),
    "ring": (EVERY_KIND, Config("depth-first", 7, 4, 3)),
    "ring as a graph": (ROWS, Config("depth-first", 7, 2, 3, launch="graph")),
    "prefetch": (EVERY_KIND, Config("prefetch", 5)),
    "prefetch as a graph": (EVEN, Config("prefetch", 5, buffers=1, launch="graph")),
    "host work": (workload_of_sizes([400], ["1us"], [400], host_work="1us", host_load="5us"), Config("prefetch", 5)),
    "no output": (workload_of_sizes([400], ["1us"], h2d_once=[16]), Config("depth-first", 5, 2, 2)),
    "no input": (workload_of_sizes((), ["1us"], [400]), Config("depth-first", 5, 2)),
}
SCHEDULES = {name: config.schedule(workload) for name, (workload, config) in CASES.items()}
LAYERS = layers_of((40, 9), (64, 3), (20, 5), (48, 7), passes=2, direction="both")
SCHEDULES["layers"] = Offload(2, ("layer1",)).schedule(LAYERS)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One program of all, as compiling each would take ten times as long; its first argument says which."""
    if COMPILER is None:
        pytest.skip("no g++")
    folder = tmp_path_factory.mktemp("cuda")
    texts = [code_of(workload, config, "cuda-c++") for workload, config in CASES.values()]
    texts += [code_of_schedule(schedule, "cuda-c++") for schedule in SCHEDULES.values()]
    parts = [on_the_host(text, f"program_{k}") for k, text in enumerate(texts)]
    choice = "".join(f"  if (which == {k}) return program_{k}::Main(argc - 1, argv + 1);\n" for k in range(len(texts)))
    main = f"int main(int argc, char** argv) {{\n  int which = atoi(argv[1]);\n{choice}  return 3;\n}}\n"
    source = folder / "programs.cc"
    source.write_text("\n".join([*includes_of(*texts), *parts, main]))
    done = compile_for_the_host(source, folder / "programs")
    assert done.returncode == 0, done.stderr
    return folder / "programs"


def calls(log: str) -> list[Call]:
    return [
        tuple(int(word) if word.lstrip("-").isdigit() else word for word in line.split()) for line in log.splitlines()
    ]


@pytest.mark.parametrize(("which", "name"), [*enumerate([*CASES, *SCHEDULES])])
def test_a_program_makes_the_calls_of_its_schedule(compiled: Path, which: int, name: str) -> None:
    arguments = [str(compiled), str(which), "--repeat", "2", "--work", "2"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)
    assert (done.returncode, said["verified"], said["repeat"]) == (0, True, 2)
    assert len(said["issue_s"]) == len(said["wall_s"]) == 2
    assert all(0 < issue_s < wall_s for issue_s, wall_s in zip(said["issue_s"], said["wall_s"], strict=True))
    schedule = SCHEDULES[name]
    streams = len(schedule.streams)
    if which < len(CASES):
        assert (said["chunks"], said["streams"]) == (CASES[name][1].chunks, streams)
    assert_are_the_calls_of(schedule, calls(done.stderr), streams, is_forked_once=True)


@pytest.mark.parametrize("arguments", [["--chunks", "26"], ["--streams", "0"], ["--nonsense", "1"], ["--work"]])
def test_a_wrong_argument_is_named_in_one_line(compiled: Path, arguments: list[str]) -> None:
    done = subprocess.run([str(compiled), "6", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{arguments[0]}: unknown or below 1, or over 25 chunks\n"
