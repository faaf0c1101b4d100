"""On a real card: programs of the suite in every language that is here are run, verified and compared."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from streamsim_validate.records import PROGRAMS, read_record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

COUNT = 12  # of each language: some ten workloads less than one


def typed(folder: Path, line: str) -> str:
    """What the command prints; it must succeed."""
    command = [sys.executable, "-m", "streamsim_validate", *line.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs_are_run_verified_and_compared(tmp_path: Path) -> None:
    """Of a language that is not here, all are left out with the reason; of the others, none."""
    said = typed(tmp_path, f"run --suite {PROGRAMS} --seed 2026 --count {COUNT} -o programs.json.gz")
    record = read_record(tmp_path / "programs.json.gz")
    by_language: dict[str, list[str]] = {}
    for run in record.runs:
        for entry in run.entries:
            assert entry.program is not None
            by_language.setdefault(entry.program.language, []).append(entry.status)
            if entry.status == "ok":
                assert entry.verified
                assert len(entry.program.rounds_s) == 2
                assert min(entry.program.rounds_s) > 0
                assert min(entry.program.kernels_s) > 0
    assert by_language["cupy"] == ["ok"] * COUNT, said
    for language, statuses in by_language.items():
        here = set(statuses) == {"ok"}
        assert here or all(status.startswith("skipped: ") for status in statuses), (language, said)
    found = json.loads(typed(tmp_path, "compare programs.json.gz --json"))
    assert found["unpredicted"] == []
    for language, own in found["programs"].items():
        errors = own["errors"]
        assert sum(one["n"] for one in errors.values()) == COUNT
        if "device-bound" in errors:
            assert errors["device-bound"]["median_percent"] < 15, (language, own)
        assert 0.3 < own["host"]["low"] <= own["host"]["high"] < 4
