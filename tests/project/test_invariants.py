"""INVARIANTS.md is right about itself: each law once, its tests there, and its marks what these tests are."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parents[1]
ROWS = re.compile(r"^\| (?P<law>[A-Z]+\d+[a-z]?) \| (?P<marks>[A-Z ]+) \| (?P<rest>.*) \|$", re.MULTILINE)
NAMED = re.compile(r"`(?:(?P<file>(?:\w+/)?test_\w+)\.py(?:::(?P<test>test_\w+))?|::(?P<next>test_\w+))`")

DRAWN, BY_HAND, FUZZED, FAULTS, MEASURED = ALL = ("P", "H", "F", "X", "R")
MARKED = {"fault": FAULTS, "gpu": MEASURED, "measured": MEASURED}  # by pytest's markers


class Row(NamedTuple):
    """``tests``: by file and name; the name is "" where the whole file is meant."""

    law: str
    marks: tuple[str, ...]
    tests: tuple[tuple[str, str], ...]


@cache
def rows() -> tuple[Row, ...]:
    text = (TESTS / "INVARIANTS.md").read_text(encoding="utf-8")
    found: dict[str, Row] = {}
    for match in ROWS.finditer(text):
        law, rest = match["law"], match["rest"]
        assert law not in found, f"{law}: stands twice"
        named: list[tuple[str, str]] = []
        for name in NAMED.finditer(rest):
            file = name["file"] or named[-1][0]
            named.append((file, name["test"] or name["next"] or ""))
        found[law] = Row(law, tuple(match["marks"].split()), tuple(named))
    return tuple(found.values())


@cache
def path_of(file: str) -> Path:
    (path,) = TESTS.rglob(f"{file}.py")
    return path


@cache
def marked_in(file: str) -> dict[str, frozenset[str]]:
    """Of a file each test with its marks: what pytest's markers say, P where it draws its cases, else H."""
    tree = ast.parse(path_of(file).read_text(encoding="utf-8"))
    of_all = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            decorators = [ast.unparse(decorator) for decorator in (*node.decorator_list, *of_all)]
            text = " ".join(decorators)
            drawn = {DRAWN} if any(decorator.startswith("given(") for decorator in decorators) else set()
            marks = drawn | {MARKED[name] for name in MARKED if f"mark.{name}" in text}
            found[node.name] = frozenset(marks or {BY_HAND})
    return found


def marks_of(row: Row) -> tuple[str, ...]:
    """By what its tests are."""
    found: set[str] = set()
    for file, test in row.tests:
        if file == "test_fuzz":
            found.add(FUZZED)
            continue
        of_file = marked_in(file)
        found |= of_file[test] if test else frozenset().union(*of_file.values())
    return tuple(mark for mark in ALL if mark in found)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.law)
def test_a_laws_tests_are_there_and_its_marks_are_what_they_are(row: Row) -> None:
    assert row.tests
    for file, test in row.tests:
        assert not test or test in marked_in(file), f"{file}.py::{test}"
    assert row.marks == marks_of(row), f"{row.law}: expected {' '.join(marks_of(row))}"


def test_every_row_of_every_table_is_read() -> None:
    """And has as many columns as its head."""
    assert {mark for row in rows() for mark in row.marks} == set(ALL)
    head = ""
    for line in (TESTS / "INVARIANTS.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            head = ""
        elif line.startswith("| # | By | "):
            head = line
        elif head and line.startswith("|") and not line.startswith("|---"):
            assert ROWS.match(line), line[:60]
            assert line.count(" | ") == head.count(" | "), line[:60]
