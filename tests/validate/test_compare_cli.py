"""What ``streamsim-validate compare`` says of a record, and the tolerances that it judges by."""

import csv
import io
import json
from html import escape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pages import lines_of
from small_record import NOBODY_KNOWS, ONE, RECORD, TWO, a_device, a_recipe, a_record, an_entry

from streamsim.errors import InputError
from streamsim_validate.cli import main
from streamsim_validate.compare.coverage import STATISTICS, judge, parse_tolerance
from streamsim_validate.compare.predictions import compare
from streamsim_validate.records.files import write_record


@pytest.mark.parametrize("command", ["calibrate", "capture", "compare", "run", "tune"])
def test_the_help_fits_a_screen(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([command, "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 40


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
    known = (*STATISTICS, "choice", "unpredicted")
    assert complaint or (found.name.split()[0] in known and 0 <= found.limit < 1e9)


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


def test_several_records_are_shown_side_by_side(
    record_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each form; a tolerance is held against each."""
    other = str(tmp_path / "other.json.gz")
    write_record(a_record(RECORD.runs[0].entries[0], profile=a_device()), tmp_path / "other.json.gz")
    both = ["compare", record_path, other]
    assert main([*both, "--fail-if", "worst > 20.1%", "--fail-if", "median > 1%"]) == 1
    out, err = capsys.readouterr()
    assert f"1: {record_path}: Emulated" in out
    assert err.splitlines() == [f"failed: {path}: median > 1%: is 20.00%" for path in (record_path, other)]
    assert main([*both, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["records"]
    assert [(one["record"], len(one["schedules"])) for one in found] == [(record_path, 2), (other, 1)]
    assert main([*both, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["record"] for row in rows] == [record_path, record_path, other]


FAR = an_entry(a_recipe(**TWO), (2.0,) * 3)  # 3 us predicted: 50 % too much
NEAR = an_entry(a_recipe(**ONE), (5.0,) * 3)  # 4 us predicted: 20 % too little


def test_the_compiled_model_and_simpy_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte, draws too: with numba from the first op on, and without it."""
    card = replace(a_device(), spread={"h2d.bandwidth_bytes_per_s": 0.1})
    write_record(a_record(NEAR, FAR, profile=card), tmp_path / "r.json.gz")
    said = []
    for installed in (True, False):
        monkeypatch.setattr("streamsim.compiled.LOADING_OPS", 0)
        if not installed:
            monkeypatch.setattr("streamsim.compiled.find_spec", lambda _: None)
        assert main(["compare", str(tmp_path / "r.json.gz"), "--samples", "20"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "90 %" in said[0]


def test_a_page_has_the_worst_schedules_and_a_time_line(tmp_path: Path) -> None:
    record, path = tmp_path / "r.json.gz", tmp_path / "page.html"
    write_record(RECORD, record)
    assert main(["compare", str(record), "--page", str(path)]) == 0
    html = path.read_text()
    worst = compare(RECORD).worst(10)
    assert all(f">{escape(row.key)}</th>" in html for row in worst)
    (line,) = lines_of(html)
    assert line["name"] == f"predicted: {worst[0].key}"
    assert line["makespan"] == pytest.approx(worst[0].predicted_s * 1e9, rel=0.05)
    assert f"streamsim-validate compare {record} --page {path}" in html
