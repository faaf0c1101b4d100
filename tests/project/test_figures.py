"""The figures of measured runs are drawn from a record, or say in one line why they cannot be."""

import runpy
import sys
from functools import cache
from pathlib import Path

import msgspec
import pytest
from fake_gpu.cuda import CARD

from streamsim.device import KernelCost, load_device
from streamsim_validate.compare import predict_device_s
from streamsim_validate.records import Entry, Machine, Recipe, Record, Run, digest, write_record
from streamsim_validate.suites import EVEN, HEAVY, LIGHT, MI, SMALL, suite

pytestmark = pytest.mark.ci

FIGURES = Path(__file__).parents[2] / "figures"
NAMES = ("accuracy", "formulas", "speedup", "connections", "uncertainty")
# Of the standard suite's grid, the chunks at most. Two figures show the whole grid, the others what there is: one
# predicts each schedule without each effect, one on a hundred devices.
MOST_CHUNKS = dict.fromkeys(NAMES, 16) | {"speedup": 128, "connections": 128, "uncertainty": 4}
IDEAL = load_device("ideal")
COSTS = tuple(
    KernelCost("sincos", iterations, (MI, 16 * MI), (iterations * 1e-6, iterations * 16e-6))
    for iterations in (LIGHT, SMALL, EVEN, HEAVY)
)
DEVICE = msgspec.structs.replace(
    IDEAL,
    compute=msgspec.structs.replace(IDEAL.compute, kernels=COSTS),
    sources={**IDEAL.sources, "compute.kernels": "assumed: for the test"},
    spread={"h2d.bandwidth_bytes_per_s": 0.1},
)


def an_entry(recipe: Recipe) -> Entry:
    """As if measured 10 % above the ideal device."""
    schedule = recipe.schedule()
    samples = (1.1 * predict_device_s(schedule, DEVICE),)
    return Entry(recipe.key, digest(schedule), "ok", True, recipe, None, samples, samples, (1e-9,))


@cache
def a_record(most_chunks: int) -> Record:
    """The standard suite's grid, as far as it has no more chunks than these."""
    profile = msgspec.json.decode(msgspec.json.encode(DEVICE))
    runs = []
    for connections in (8, 1, 32):
        recipes = [
            recipe
            for recipe in suite("standard", connections)
            if recipe.effect == "grid" and recipe.workload.work > MI and int(recipe.arguments["chunks"]) <= most_chunks
        ]
        runs.append(Run(connections, "then", 0, 1, "now", profile, None, tuple(map(an_entry, recipes))))
    return Record(CARD, Machine("Linux", "a processor", 2, "3.12"), "standard", tuple(runs), "0.1")


def draw(name: str, *arguments: str) -> int:
    """The exit code of the program, run in this process."""
    program = FIGURES / f"{name}.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(program), *arguments])
        patch.syspath_prepend(program.parent)
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 1
    return 0


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_drawn_from_a_record(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "p.png"
    write_record(a_record(MOST_CHUNKS[name]), tmp_path / "r.json.gz")
    assert draw(name, str(tmp_path / "r.json.gz"), "--output", str(picture)) == 0
    assert capsys.readouterr().err == ""
    assert picture.read_bytes().startswith(b"\x89PNG")
