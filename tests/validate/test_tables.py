"""What ``streamsim-validate compare`` prints: the summary first, then the worst schedules, time lines when asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import pytest
from fake_cuda import CARD

from streamsim import Workload, load_device
from streamsim.device.kernel_costs import KernelCost
from streamsim.program.workload import WorkloadKernel
from streamsim_validate.cli import main
from streamsim_validate.records.files import write_record
from streamsim_validate.records.recipe import Recipe, digest
from streamsim_validate.records.record import Entry, Machine, Record, Run

if TYPE_CHECKING:
    from pathlib import Path

WORKLOAD = Workload(16_000, (4,), (4,), (WorkloadKernel("sincos", parameter=2),))
COST = KernelCost("sincos", 2, (8_000, 16_000), (1e-6, 2e-6))


def an_entry(chunks: int, measured_s: float) -> Entry:
    recipe = Recipe("depth-first", {"chunks": chunks, "streams": chunks}, WORKLOAD, "grid")
    times = (measured_s,) * 3
    return Entry(recipe.key, digest(recipe.schedule()), "ok", True, recipe, None, times, times, (1e-7,) * 3)


# On the ideal device one chunk takes 4 us and two chunks take 3 us: 20 % too little, and 50 % too much.
NEAR, FAR = an_entry(1, 5e-6), an_entry(2, 2e-6)


@pytest.fixture
def record(tmp_path: Path) -> str:
    ideal = load_device("ideal")
    device = msgspec.structs.replace(
        ideal,
        compute=msgspec.structs.replace(ideal.compute, kernels=(COST,)),
        sources={**ideal.sources, "compute.kernels": "assumed: for the test"},
    )
    profile = msgspec.json.decode(msgspec.json.encode(device))
    run = Run(8, "then", 0, 1, "now", profile, profile, (NEAR, FAR))
    machine = Machine("Linux x86_64", "a processor", 2, "3.12")
    write_record(Record(CARD, machine, "test", (run,), "0.1"), tmp_path / "r.json.gz")
    return str(tmp_path / "r.json.gz")


def sections(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    """The lines of each section that the command prints."""
    assert main(["compare", *arguments]) == 0
    return [section.splitlines() for section in capsys.readouterr().out.split("\n\n")]


def test_the_summary_comes_first_then_the_worst_schedules_then_the_details(
    record: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = sections(capsys, record, "--fail-if", "worst > 60%", "--worst", "1")
    assert [re.split(r"  | \(", section[0])[0] for section in printed] == [
        "Emulated, test: 2 schedules, profile calibrated with the record",
        "model, by class",
        "choice: within 1% of the best measured for 1 of 1 workloads",
        "ok",
        "the worst predicted, pageable memory left out",
        "median and 95th percentile",
        "drift",
        "every schedule",
    ]
    listed = {section[0]: section[2:] for section in printed}
    assert [line.endswith(FAR.key) for line in listed["the worst predicted, pageable memory left out"]] == [True]
    assert [line.split()[2] for line in listed["every schedule"]] == ["-20.0%", "+50.0%"]


def test_time_lines_are_drawn_when_asked_for_behind_all_tables(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = sections(capsys, record)
    printed = sections(capsys, record, "--timelines")
    assert printed[: len(plain) - 1] == plain[:-1]
    drawn = printed[len(plain) :]
    assert [section[0].partition(": connections=8 ")[2] for section in drawn] == [FAR.key, NEAR.key]
    assert [section[0].partition(":")[0] for section in drawn] == ["+50.0%", "-20.0%"]  # neither is noise
    for section in drawn:
        assert section[1] == "predicted"
        assert [line.split()[0] for line in section[2:5]] == ["h2d", "d2h", "compute"]
    assert sections(capsys, record, "--timelines", "--worst", "1")[-1][0] == drawn[0][0]
    none = sections(capsys, record, "--timelines", "--worst", "0")
    assert not any(section[0].startswith("the worst predicted") or "predicted" in section for section in none)
