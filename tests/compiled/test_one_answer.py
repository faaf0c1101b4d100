"""What is asked gets one answer, with numba and without, in every command."""

import json
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from twins import DEVICES, compiled
from whole_workloads import LONG_TICKS, MANY_BYTES, whole_programs

import streamsim
import streamsim.compiled
from streamsim.cli import main
from streamsim.device import load_device
from streamsim.program import LAUNCHES, ORDERS, Config, Workload
from streamsim.search import Grid

# Short launches behind each other, what is copied once, rings that are handed over, many launches, no and small arrays.
WORK = (
    "--kernel 1us/50",
    "--kernel 130us/50 --h2d 64 --d2h 64",
    "--kernel 30us --h2d-once 1MiB --d2h-once 4",
    "--h2d 3MiB --kernel 90us/3 --kernel 2us --d2h 1MiB",
)
WAYS = (
    "--chunks 1 --streams 1 --launch graph",
    "--chunks 4 --streams 2 --buffers 1 --launch graph",
    "--chunks 6 --streams 3",
)
SEARCHED = "--max-chunks 4 --max-streams 3 --launch both"
# How a search went.
OF_THE_SEARCH = {"simulated"}


def answers(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """What a command prints with numba from the first op on, and without it."""
    found = []
    for is_installed in (True, False):
        with monkeypatch.context() as patched:
            patched.setattr(streamsim.compiled, "LOADING_OPS", 0)
            if not is_installed:
                patched.setattr(streamsim.compiled, "find_spec", lambda _: None)
            assert main(command.split()) in (0, 1)
            found.append(capsys.readouterr().out)
    return found


@compiled
@pytest.mark.parametrize(("work", "way"), [*zip(WORK * 2, WAYS * 3, strict=False)])  # each in two ways
def test_commands_about_one_program(
    work: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "program.json"
    assert main(f"code {work} {way} --as schedule -o {file}".split()) == 0
    capsys.readouterr()
    commands = (
        f"predict {work} {way} --json",
        f"sweep {work} {way}",
        f"predict {file} --samples 20 --json",
        f"explain {file} --json",
        f"whatif {file} --kernel kernel*=2x --json",
    )
    said = {}
    for command in commands:
        said[command], other = answers(command, monkeypatch, capsys)
        assert said[command] == other, command
    predicted, (names, row) = json.loads(said[commands[0]]), map(str.split, said[commands[1]].splitlines(), ",,")
    swept = dict(zip(names, row, strict=True))
    assert float(swept["makespan_s"]) == pytest.approx(predicted["makespan_s"], abs=1e-12)


@compiled
@pytest.mark.parametrize("work", WORK)
def test_best_finds_the_same(work: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = map(json.loads, answers(f"best {work} {SEARCHED} --json", monkeypatch, capsys))
    assert one["exact"]
    assert other["exact"]
    assert {k: v for k, v in one.items() if k not in OF_THE_SEARCH} == {
        k: v for k, v in other.items() if k not in OF_THE_SEARCH
    }


@compiled
@pytest.mark.parametrize("name", DEVICES)
@examples(4)
@given(program=whole_programs(sizes=MANY_BYTES, ticks=LONG_TICKS, costed=False), most=st.integers(1, 4))
def test_the_optimum_is_one_on_every_shipped_device(name: str, program: tuple[Workload, Config], most: int) -> None:
    workload = program[0]
    launches = LAUNCHES if not workload.has_host_work else ("live",)
    chunks = tuple(n for n in (1, 2, 3, 5) if n <= workload.most_chunks)
    grid = Grid(chunks=chunks, streams=(1, most), order=ORDERS, buffers=(None, 1, 2), launch=launches)
    one, other = (streamsim.best(workload, load_device(name), grid, fast=fast) for fast in (True, False))
    assert (one.exact, other.exact) == (True, True)
    assert (one.best, one.simplest, one.compared["usual"]) == (other.best, other.simplest, other.compared["usual"])
