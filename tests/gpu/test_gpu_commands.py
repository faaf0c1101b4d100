"""On a real card: README's own way from a plan to how well it was predicted, by the commands as they are typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streamsim_validate.records import read_record

pytestmark = pytest.mark.gpu


def typed(folder: Path, module: str, line: str) -> str:
    """What the command prints; it must succeed."""
    command = [sys.executable, "-m", module, *line.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plan_is_written_run_and_compared(tmp_path: Path) -> None:
    """Its kernel is given by its time alone: 16 chunks of 36 us beside copies of 76 us each way, so the link binds."""
    plan = "code --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 -o plan.json"
    typed(tmp_path, "streamsim", plan)
    shown = typed(tmp_path, "streamsim_validate", "run plan.json --repeats 25 -o mine.json.gz")
    assert shown.splitlines()[-1].startswith("mine.json.gz: 1 schedules measured on ")
    ((_, entry),) = read_record(tmp_path / "mine.json.gz").measured()
    assert entry.verified
    assert len(entry.wall_s) == 25
    found = json.loads(typed(tmp_path, "streamsim_validate", "compare mine.json.gz --json"))
    (row,) = found["schedules"]
    assert found["unpredicted"] == found["unmeasured"] == []
    assert abs(row["error_percent"]) < 10
    assert 1e-3 < row["measured_s"] < 20e-3
