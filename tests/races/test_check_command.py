"""``streamsim check``: what it prints, and what it refuses."""

import json
from pathlib import Path

import msgspec
import pytest
import strategies as card
from race_oracle import ON_CARD, into, program, work

from streamsim.cli import main
from streamsim.program import Synchronize, WaitEvent, read_schedule, ring, write_schedule
from streamsim.races import Finding, check, repaired

# -- the command ------------------------------------------------------------------------------------------------------


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["check", *arguments])
    return code, *capsys.readouterr()


@pytest.fixture
def racy(tmp_path: Path) -> Path:
    path = tmp_path / "racy.json"
    ops = (into(1), work(2, reads=(ON_CARD,)), card.kernel(2, 8), WaitEvent(0, 1), Synchronize())
    write_schedule(program(*ops, name="racy [one]"), path)
    return path


def test_a_clean_schedule_ends_with_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "clean.json"
    write_schedule(ring(card.pipeline_of(24), 6, 3, 2), path)
    assert command(capsys, str(path)) == (0, "25 ops: 0 errors, 0 warnings\n", "")


def test_what_is_found_is_printed_and_ends_with_1(capsys: pytest.CaptureFixture[str], racy: Path) -> None:
    code, printed, complaint = command(capsys, str(racy))
    assert (code, complaint) == (1, "")
    words = " ".join(printed.split())
    for part in ("error race", "warning unrecorded-event", "5 ops: 1 error, 1 warning", "1 of them do not name all"):
        assert part in words


def test_json_has_every_finding(capsys: pytest.CaptureFixture[str], racy: Path) -> None:
    code, printed, _ = command(capsys, str(racy), "--json")
    said = json.loads(printed)
    findings = check(read_schedule(racy))
    assert code == 1
    assert {k: said[k] for k in ("schema_version", "name", "ops", "ops_with_unnamed_memory", "errors", "warnings")} == {
        "schema_version": 1, "name": "racy [one]", "ops": 5, "ops_with_unnamed_memory": 1, "errors": 1, "warnings": 1,
    }  # fmt: skip
    assert [found.pop("severity") for found in said["findings"]] == ["error", "warning"]
    assert tuple(msgspec.convert(found, Finding) for found in said["findings"]) == findings


def test_the_fixed_schedule_can_be_saved(capsys: pytest.CaptureFixture[str], racy: Path, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.json"
    assert command(capsys, str(racy), "--fix", str(fixed))[0] == 1
    assert read_schedule(fixed) == repaired(read_schedule(racy), check(read_schedule(racy)))
    assert all(finding.severity == "warning" for finding in check(read_schedule(fixed)))
