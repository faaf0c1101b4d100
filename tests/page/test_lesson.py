"""The lesson for notebooks: every cell runs, what it ends with shows itself, and what its words claim is so."""

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.ci

LESSON = Path(__file__).parents[2] / "docs" / "lesson.ipynb"


@cache
def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(LESSON.read_text(encoding="utf-8"))["cells"]
    return found


@pytest.fixture(scope="module")
def run() -> tuple[dict[str, Any], list[Any]]:
    """What the cells have named, and what each of them ends with, run in order as a notebook runs them."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for number, cell in enumerate(cells()):
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]), f"cell {number}")
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, f"cell {number}", "exec"), names)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names))
    return names, [value for value in shown if value is not None]


def test_what_a_cell_ends_with_shows_itself(run: tuple[dict[str, Any], list[Any]]) -> None:
    assert len(run[1]) > 8
    for value in run[1]:
        assert "<table>" in value._repr_html_()
        assert "<iframe" in value._repr_html_()


def test_what_the_lesson_claims_is_so(run: tuple[dict[str, Any], list[Any]]) -> None:
    names, times = run[0], run[0]["times"]
    serial, one, chunked = names["serial"], names["one_stream"], names["chunked"]
    assert serial.timeline.overlap_s == one.timeline.overlap_s == 0
    assert one.makespan_s == pytest.approx(serial.makespan_s, rel=0.01)
    assert chunked.makespan_s < 0.6 * serial.makespan_s
    assert times["c1060"]["breadth-first"] < 0.8 * times["c1060"]["depth-first"]
    assert times["c2050"]["depth-first"] < 0.8 * times["c2050"]["breadth-first"]
    for device in ("k20c", "h200"):
        assert times[device]["depth-first"] == pytest.approx(times[device]["breadth-first"], rel=0.01)
    assert 1 < names["found"].simplest.config.chunks < 32
    assert names["double_buffered"].makespan_s < names["double_buffered"].serial_s
    assert "--pin" in names["pageable"].first.options
    assert names["findings"][0].rule == "race"
    assert not names["sim"].check(names["mended"])


def test_it_has_no_outputs_and_its_links_lead_somewhere() -> None:
    for cell in cells():
        assert not cell.get("outputs")
        for target in re.findall(r"\]\(([^)#]+)\)", "".join(cell["source"])):
            assert (LESSON.parent / target).exists()
