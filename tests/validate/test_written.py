"""A comparison of three schedules as JSON, as CSV and as text, each figure worked out by hand.

A is predicted 30 % too long and B 20 % too short: 25 % at the median, 29.5 % at the 95th percentile. Of two programs
for one workload the model takes B, which is 25 % slower than A. C is of pageable memory, predicted twice as long as it
is. Formula f is 10 and 20 % too long, g is 40 % too short and right.
"""

import csv
import io
import json
from typing import Any

import pytest

from streamsim.report import to_csv
from streamsim_validate.cli.compare import _plain
from streamsim_validate.compare import Comparison, Coverage, Row, Verdict
from streamsim_validate.compare.comparison import Absent, Drift, to_rows

A = Row("A", 8, "device-bound", "ring", "grid", "w", 10.0, 0.01, 13.0, 20.0, 19.0, 1.0, {"f": 11.0, "g": 6.0}, (1,))
B = Row("B", 8, "device-bound", "ring", "grid", "w", 12.5, 0.02, 10.0, 25.0, 30.0, 2.0, {"f": 15.0, "g": 12.5}, (2,))
C = Row("C", 1, "pageable", "serial", "slow", "", 5.0, 0.03, 10.0, 5.0, 5.0, 3.0, {"f": 5.0, "g": 10.0}, (3,))
COMPARISON = Comparison(
    card="a card",
    suite="a suite",
    device="a device",
    rows=(A, B, C),
    unpredicted=(Absent("U", 8, "no cost"),),
    unmeasured=(Absent("M", 1, "skipped"),),
    drift=(Drift(8, {"x": 0.05, "y": -0.2, "z": 0.5}), Drift(1, {})),
)
COVERED = {"device-bound": Coverage(4, 0.5, 0.125, 0.375, 0.1, 0.08)}
VERDICTS = (Verdict("median > 1%", 0.25, 0.01), Verdict("worst > 40%", 0.3, 0.4))


def group(n: int, *percents: float, worst: str) -> dict[str, Any]:
    """Median, 95th percentile, worst, bias and noise, in per cent."""
    names = ("median_percent", "p95_percent", "worst_percent", "bias_percent", "noise_percent")
    found = {name: pytest.approx(value) for name, value in zip(names, percents, strict=True)}
    return {"n": n, **found, "worst_key": worst}


OURS = group(2, 25, 29.5, 30, 5, 1.5, worst="A")
OF_C = group(1, 100, 100, 100, 100, 3, worst="C")
F, G = group(2, 15, 19.5, 20, 15, 1.5, worst="B"), group(2, 20, 38, 40, -20, 1.5, worst="A")


def test_json_by_hand() -> None:
    found = json.loads(json.dumps(_plain(COMPARISON, VERDICTS, 1, COVERED)))
    schedules, drift, verdicts = (found.pop(name) for name in ("schedules", "drift", "tolerances"))
    assert [one["changes_percent"] for one in drift] == [{"x": 5, "y": -20, "z": 50}, {}]
    assert [(one["value_percent"], one["limit_percent"], one["failed"]) for one in verdicts] == [
        (25, 1, True),
        (30, 40, False),
    ]
    assert found == {
        "schema_version": 1,
        "known_within": None,
        "card": "a card",
        "suite": "a suite",
        "device": "a device",
        "summaries": {
            "class": {"device-bound": OURS, "pageable": OF_C, "all but pageable": OURS},
            "connections": {"8 connections": OURS, "8 connections device-bound": OURS},
            "pattern": {"ring": OURS},
            "effect": {"grid": OURS, "slow": OF_C},
        },
        "wall": {
            "device-bound": group(2, 12.5, 19.25, 20, 7.5, 1.5, worst="B"),
            "pageable": group(1, 0, 0, 0, 0, 3, worst="C"),
            "all but pageable": group(2, 12.5, 19.25, 20, 7.5, 1.5, worst="B"),
        },
        "coverage": {
            "device-bound": {"n": 4, "inside_percent": 50, "below_percent": 12.5, "above_percent": 37.5}
            | {"mean_width_percent": 10, "median_width_percent": 8}
        },
        "formulas": {
            "f": {"device-bound": F, "pageable": group(1, 0, 0, 0, 0, 3, worst="C"), "all but pageable": F},
            "g": {"device-bound": G, "pageable": OF_C, "all but pageable": G},
        },
        "margins": {
            "device-bound": {"best_formula": "f", "its_median_over_the_models": pytest.approx(0.6)},
            "pageable": {"best_formula": "f", "its_median_over_the_models": 0},
            "all but pageable": {"best_formula": "f", "its_median_over_the_models": pytest.approx(0.6)},
        },
        "choice": {
            "n": 1,
            "within_1_percent_percent": 0,
            "worst_percent": pytest.approx(25),
            "workloads": [
                {"workload": "w", "connections": 8, "picked": "B", "best": "A"}
                | {"picked_s": 12.5, "best_s": 10, "regret_percent": pytest.approx(25), "noise_percent": 2}
            ],
        },
        "worst": [{"connections": 8, "key": "A"}],
        "unpredicted": [{"key": "U", "connections": 8, "reason": "no cost"}],
        "unmeasured": [{"key": "M", "connections": 1, "reason": "skipped"}],
    }
    words = {"key": "A", "connections": 8, "status": "ok", "class": "device-bound", "pattern": "ring", "effect": "grid"}
    times = {"measured_s": 10, "predicted_s": 13, "wall_s": 20, "wall_predicted_s": 19, "issue_s": 1}
    errors = {"error_percent": pytest.approx(30), "noise_percent": 1, "wall_error_percent": pytest.approx(-5)}
    assert schedules[0] == {**words, **times, **errors, "formulas_s": {"f": 11, "g": 6}}
    first, *others = csv.DictReader(io.StringIO(to_csv(to_rows(COMPARISON))))
    assert {name: first[name] for name in words} == {**words, "connections": "8"}
    assert [float(first[name]) for name in times] == list(times.values())
    assert [row["status"] for row in others] == ["ok"] * 2 + ["not predicted: no cost", "not measured: skipped"]


def test_what_was_not_asked_for_or_is_not_there_is_null() -> None:
    bare = _plain(Comparison("a card", "a suite", "a device", (C,), (), (), ()), (), 10)
    assert bare["coverage"] is None
    assert bare["choice"] == {"n": 0, "within_1_percent_percent": None, "worst_percent": None, "workloads": []}
    exact = Row("E", 8, "device-bound", "ring", "grid", "", 10.0, 0.0, 10.0, 10.0, 10.0, 1.0, {"f": 11.0})
    margins = Comparison("a card", "a suite", "a device", (exact,), (), (), ()).to_json()["margins"]
    assert margins["device-bound"] == {"best_formula": "f", "its_median_over_the_models": None}  # over an error of 0
