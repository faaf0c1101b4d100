"""What the first calls of a program take longer: the table in docs/evidence.md."""

from __future__ import annotations

import math

import pytest
from documents import ROOT
from programs.first_calls import RECORDS, WARM_AFTER, Issued, coldness, row

EVIDENCE = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
COPY_S, FIRST = 2e-6, 0.4  # a copy's call, and how much of it the first call takes longer


def issued(calls: int) -> Issued:
    """Calls of 3 us and, of each in turn, what it is longer by: a sum in place of the integral, near enough."""
    longer_s = sum(FIRST * COPY_S * math.exp(-(i + 0.5) / WARM_AFTER) for i in range(calls))
    return Issued(calls, calls * 3e-6 + longer_s, calls * 3e-6, COPY_S)


def test_what_the_first_call_takes_longer_is_found_again() -> None:
    assert coldness([issued(calls) for calls in (3, 40, 500)]) == pytest.approx(FIRST, rel=1e-3)
    assert coldness([issued(40)._replace(took_s=40 * 3e-6)]) == pytest.approx(0)


@pytest.mark.measured
@pytest.mark.parametrize(("label", "name"), RECORDS.items())
def test_the_evidence_has_what_the_records_say(label: str, name: str) -> None:
    assert row(label, name) in EVIDENCE
