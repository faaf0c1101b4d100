"""``streamsim check``: what it prints, saves and ends with."""

import json
from pathlib import Path

import msgspec
import pytest
import strategies as card
from race_oracle import ON_CARD, into, plan, work

from streamsim.cli import main
from streamsim.program import Synchronize, WaitEvent, read_schedule, write_schedule
from streamsim.races import Finding, check, repaired


def test_findings_are_printed_written_and_mended(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ops = (into(1), work(2, reads=(ON_CARD,)), card.kernel(2, 8), WaitEvent(0, 1), Synchronize())
    racy = plan(*ops, name="racy [one]")
    write_schedule(racy, "racy.json")
    assert main(["check", "racy.json", "--fix", "fixed.json"]) == 1
    words = " ".join(capsys.readouterr().out.split())
    for part in ("error race", "warning unrecorded-event", "5 ops: 1 error, 1 warning", "1 of them do not name all"):
        assert part in words
    assert read_schedule("fixed.json") == repaired(racy, check(racy))
    assert all(finding.severity == "warning" for finding in check(read_schedule("fixed.json")))
    capsys.readouterr()
    assert main(["check", "racy.json", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    findings = [(found.pop("severity"), msgspec.convert(found, Finding)) for found in said.pop("findings")]
    assert findings == [(found.severity, found) for found in check(racy)]
    counts = {"ops": 5, "ops_with_unnamed_memory": 1, "errors": 1, "warnings": 1}
    assert {**said, "schema_version": 1, "name": "racy [one]", **counts} == said
