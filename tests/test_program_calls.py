"""What calibrating calls in programs is worth: the table in docs/evidence.md."""

from __future__ import annotations

import pytest
from documents import ROOT
from programs.earlier_records import FOLDER
from programs.program_calls import RECORDS, by_mixes, row

from streamsim_validate.calibrate.program_calls import with_calls
from streamsim_validate.compare.profiles import profiles_of
from streamsim_validate.records import HostCalls
from streamsim_validate.records.files import read_record

EVIDENCE = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")


@pytest.mark.measured
def test_the_evidence_has_what_a_record_says() -> None:
    label, name = next(iter(RECORDS.items()))
    record = read_record(FOLDER / f"{name}.json.gz")
    assert row(f"{label}: mixes", by_mixes(record)) in EVIDENCE
    assert row(f"{label}: programs", record) in EVIDENCE


@pytest.mark.measured
@pytest.mark.parametrize("name", RECORDS.values())
def test_only_the_calls_are_others_and_the_groups_say_how_fast_the_host_was(name: str) -> None:
    (run,) = read_record(FOLDER / f"{name}.json.gz").runs
    (other,) = by_mixes(read_record(FOLDER / f"{name}.json.gz")).runs
    was, now = run.profile("before"), other.profile("before")
    assert was is not None
    assert now is not None
    assert was.host.copy_s != now.host.copy_s
    assert with_calls(now, HostCalls(*(getattr(was.host, call) for call in HostCalls._fields))) == was
    assert profiles_of(run).pace_s > 0
    assert profiles_of(other).pace_s == 0
    assert profiles_of(other).speeds.keys() == profiles_of(run).speeds.keys() == {1, 2, 3, 4}
