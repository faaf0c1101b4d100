"""What ``streamsim-validate compare`` says of a record, and the tolerances that it judges by."""

from __future__ import annotations

import csv
import io
import json
import re
from html import escape
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsim.errors import InputError
from streamsim_validate.cli import main
from streamsim_validate.compare.predictions import compare
from streamsim_validate.compare.tolerance import STATISTICS, judge, parse_tolerance
from streamsim_validate.records.files import write_record

if TYPE_CHECKING:
    from pathlib import Path

from pages import lines_of
from small_record import NOBODY_KNOWS, ONE, RECORD, TWO, a_device, a_recipe, a_record, an_entry


@pytest.mark.parametrize("command", ["calibrate", "capture", "compare", "run", "tune"])
def test_the_help_fits_a_screen(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([command, "--help"]) == 0
    brief = capsys.readouterr().out
    assert main([command, "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert len(brief.splitlines()) <= min(40, len(whole.splitlines()))


# Tolerances


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("median>5%", 0.2),
        ("worst device-bound > 19.5 %", 0.2),
        ("p95 8 connections device-bound>5%", 0.2),
        ("median depth-first > 5%", 0.2),
        ("choice > 1%", 0.0),
        ("p95 choice>1%", 0.0),
        ("unpredicted > 0%", 0.0),
    ],
)
def test_a_tolerance_is_judged_on_its_group(text: str, value: float) -> None:
    verdict = judge(compare(RECORD), parse_tolerance(text))
    assert verdict.value == pytest.approx(value)
    assert verdict.failed is (value > verdict.limit)


def test_what_cannot_be_predicted_counts() -> None:
    lost = an_entry(a_recipe(workload=NOBODY_KNOWS, **ONE), (4.0,))
    found = compare(a_record(*RECORD.runs[0].entries, lost, profile=a_device()))
    assert judge(found, parse_tolerance("unpredicted > 1%")).value == pytest.approx(1 / 3)


@given(st.text(max_size=40) | st.from_regex(r"\A(median|p95|choice)[ a-z]*>[0-9.]*%\Z"))
def test_any_text_is_a_tolerance_or_one_clear_line(text: str) -> None:
    complaint = ""
    try:
        found = parse_tolerance(text)
    except InputError as error:
        complaint = str(error)
    assert "\n" not in complaint
    assert complaint or (found.statistic in (*STATISTICS, "unpredicted") and 0 <= found.limit < 1e9)


# The command


@pytest.fixture
def record_path(tmp_path: Path) -> str:
    write_record(RECORD, tmp_path / "r.json.gz")
    return str(tmp_path / "r.json.gz")


@pytest.mark.parametrize(("tolerance", "code"), [("p95>5%", 1), ("p95>20.1%", 0), ("choice>0%", 0), ("p95 no>1%", 2)])
def test_the_exit_code_says_whether_a_tolerance_failed(
    record_path: str, tolerance: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", record_path, "--fail-if", tolerance]) == code
    assert len(capsys.readouterr().err.splitlines()) == (code != 0)


def test_json_has_numbers_as_numbers(record_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", record_path, "--json", "--fail-if", "worst>19%"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == 1
    assert [row["error_percent"] for row in found["schedules"]] == [pytest.approx(-20), pytest.approx(20)]
    assert found["summaries"]["class"]["device-bound"]["median_percent"] == pytest.approx(20)
    assert found["choice"]["within_1_percent_percent"] == 100
    assert found["tolerances"] == [
        {"text": "worst>19%", "value_percent": pytest.approx(20), "limit_percent": 19.0, "failed": True}
    ]


def test_several_records_are_shown_side_by_side(
    record_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each form; a tolerance is held against each."""
    other = str(tmp_path / "other.json.gz")
    write_record(a_record(RECORD.runs[0].entries[0], profile=a_device()), tmp_path / "other.json.gz")
    both = ["compare", record_path, other]
    assert main([*both, "--fail-if", "worst > 20.1%", "--fail-if", "median > 1%"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"1: {record_path}: Emulated")
    assert err.splitlines() == [f"failed: {path}: median > 1%: is 20.00%" for path in (record_path, other)]
    assert main([*both, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["records"]
    assert [(one["record"], len(one["schedules"])) for one in found] == [(record_path, 2), (other, 1)]
    assert main([*both, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["record"] for row in rows] == [record_path, record_path, other]


FAR = an_entry(a_recipe(**TWO), (2.0,) * 3)  # 3 us predicted: 50 % too much
NEAR = an_entry(a_recipe(**ONE), (5.0,) * 3)  # 4 us predicted: 20 % too little


@pytest.fixture
def far(tmp_path: Path) -> str:
    write_record(a_record(NEAR, FAR, profile=a_device()), tmp_path / "far.json.gz")
    return str(tmp_path / "far.json.gz")


def sections(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    """The lines of each section that the command prints."""
    assert main(["compare", *arguments]) == 0
    return [section.splitlines() for section in capsys.readouterr().out.split("\n\n")]


def test_the_summary_comes_first_then_the_worst_schedules_then_the_details(
    far: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = sections(capsys, far, "--fail-if", "worst > 60%", "--worst", "1")
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


def test_time_lines_are_drawn_when_asked_for_behind_all_tables(far: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = sections(capsys, far)
    printed = sections(capsys, far, "--timelines")
    assert printed[: len(plain) - 1] == plain[:-1]
    drawn = printed[len(plain) :]
    assert [section[0].partition(": connections=8 ")[2] for section in drawn] == [FAR.key, NEAR.key]
    assert [section[0].partition(":")[0] for section in drawn] == ["+50.0%", "-20.0%"]  # neither is noise
    for section in drawn:
        assert section[1] == "predicted"
        assert [line.split()[0] for line in section[2:5]] == ["h2d", "d2h", "compute"]
    assert sections(capsys, far, "--timelines", "--worst", "1")[-1][0] == drawn[0][0]
    none = sections(capsys, far, "--timelines", "--worst", "0")
    assert not any(section[0].startswith("the worst predicted") or "predicted" in section for section in none)


def test_the_compiled_model_and_simpy_say_the_same(
    record_path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte, draws and time lines too: with numba from the first op on, and without it."""
    arguments = ["compare", record_path, "--samples", "20", "--spread", "h200", "--timelines"]
    said = []
    for installed in (True, False):
        monkeypatch.setattr("streamsim.compiled.LOADING_OPS", 0)
        if not installed:
            monkeypatch.setattr("streamsim.compiled.find_spec", lambda _: None)
        assert main(arguments) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "90 %" in said[0]


def test_a_page_has_the_worst_schedules_and_a_time_line(tmp_path: Path) -> None:
    record, path = tmp_path / "r.json.gz", tmp_path / "page.html"
    write_record(RECORD, record)
    assert main(["compare", str(record), "--page", str(path)]) == 0
    html = path.read_text()
    worst = compare(RECORD).worst(10)
    assert [html.count(f">{escape(row.key)}</th>") for row in worst] == [1] * len(worst)
    (line,) = lines_of(html)
    assert line["name"] == f"predicted: {worst[0].key}"
    assert line["makespan"] == pytest.approx(worst[0].predicted_s * 1e9, rel=0.05)
    assert f"streamsim-validate compare {record} --page {path}" in html


def test_a_comparison_shows_itself(tmp_path: Path) -> None:
    comparison = compare(RECORD)
    assert "the worst predicted" in str(comparison)
    assert comparison._repr_html_().startswith("<table><caption>errors</caption>")
    assert repr(comparison).startswith("Comparison(")
    assert len(repr(comparison)) < 200
    comparison.page(tmp_path / "page.html")
    assert "measured and predicted" in (tmp_path / "page.html").read_text()
