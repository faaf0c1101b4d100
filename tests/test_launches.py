"""What rules for the threads of kernels are worth.

The table in docs/evidence.md.
"""

from __future__ import annotations

import pytest
from documents import ROOT
from programs import threads

from streamsim import load_device

EVIDENCE = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")


@pytest.mark.measured
@pytest.mark.parametrize("rule", threads.RULES)
def test_the_evidence_has_what_threads_taken_for_granted_are_worth(rule: str) -> None:
    assert threads.row(rule) in EVIDENCE


def test_how_far_off_a_part_is() -> None:
    """Of many threads a part takes its share beyond the floor: of 1 ms its half 0.501, which was measured as 0.25."""
    floor_s = load_device("h100").compute.floor_s
    parts = [1e-3, 0.25e-3, *[floor_s + (1e-3 - floor_s) / 2**k for k in range(2, threads.HALVINGS)]]
    found = threads.factors(threads.Kernel("thread", 64, parts), "h100", "many")
    assert found[0] == pytest.approx((1e-3 + floor_s) / 2 / 0.25e-3)
    assert found[1:] == pytest.approx([1.0] * (threads.HALVINGS - 2))
