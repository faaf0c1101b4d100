"""What the launches of graphs are paid for, and the threads of kernels, and what rules for it are worth.

The tables in docs/evidence.md.
"""

from __future__ import annotations

import pytest
from documents import ROOT

from campaigns import threads
from campaigns.graph_edges import table, with_edges
from campaigns.launches import FOLDER, RECORDS, Content, Launched, content_of, costs_s, row
from streamsim import Workload, WorkloadKernel, breadth_first, depth_first, load_device, ring
from streamsim_validate.records.files import read_record

EVIDENCE = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
WORKLOAD = Workload(elements=1 << 20, inputs=(4,), outputs=(4,), kernels=(WorkloadKernel(duration_s=1e-3),) * 2)


def test_what_is_in_a_graph() -> None:
    """Four chunks of a copy in, two kernels and a copy back over two streams.

    Depth-first there is an edge into the first kernel and one out of the second, and one from each stream's first chunk
    to its second; breadth-first one into the kernels and one out of them, a stream. In a ring of one buffer the second
    to fourth chunk are behind the copy back of another stream, by an event, and so are two of them in their own.
    """
    device = load_device("ideal")
    assert content_of(depth_first(WORKLOAD, 4, 2, launch="graph"), device) == Content(1, 8, 4 * 2 + 2, 1)
    assert content_of(breadth_first(WORKLOAD, 4, 2, launch="graph"), device) == Content(1, 8, 2 * 2, 1)
    assert content_of(ring(WORKLOAD, 4, 1, streams=2, launch="graph"), device) == Content(1, 8, 4 * 2 + 2 + 3, 1)


def test_costs_that_add_up_are_found_again() -> None:
    paid = [Content(1, 1, 2, 0), Content(1, 8, 10, 1), Content(1, 8, 4, 1), Content(1, 64, 3, 7), Content(1, 9, 0, 0)]
    costs = (10e-6, 2e-6, 0.5e-6, 3e-6)
    took = [sum(n * cost for n, cost in zip(content, costs, strict=True)) for content in paid]
    assert costs_s([*map(Launched, paid, took)]) == pytest.approx(costs)


@pytest.mark.measured
@pytest.mark.parametrize(("label", "name"), RECORDS.items())
def test_the_evidence_has_what_the_records_say(label: str, name: str) -> None:
    assert row(label, name) in EVIDENCE


@pytest.mark.measured
@pytest.mark.parametrize("label", ["H100, 1", "H200, 1"])  # those with the most graphs whose launches set their time
def test_the_evidence_has_what_edges_are_worth_on_the_records(label: str) -> None:
    """Some seconds a record: all of its schedules are predicted twice."""
    for line in table(label, read_record(FOLDER / f"{RECORDS[label]}.json.gz")):
        assert line in EVIDENCE


@pytest.mark.measured
def test_edges_are_fitted_to_the_samples_whatever_the_profiles_say() -> None:
    record = read_record(FOLDER / "random-h200-1.json.gz")
    without = with_edges(record, cost=False)
    (run,), (free,), (again,) = record.runs, without.runs, with_edges(without, cost=True).runs
    for when in ("before", "after"):
        profiles = (one.profile(when) for one in (run, free, again))
        kept_s, none_s, found_s = (profile.host.graph_edge_s for profile in profiles if profile)
        assert kept_s > none_s == 0
        assert found_s == pytest.approx(kept_s)


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
