"""Some of what ``python tests/fuzz`` tries, and that it finds what it is there to find."""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING

import pytest
import trials
from effort import THOROUGH
from kinds import KINDS, Input, draw_of
from trials import check_right, fault_of, shrink

from streamsim_validate.calibrate import simulated

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 50 if THOROUGH else 2  # for each unit of a kind's weight


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_wrong_with_an_input_is_a_result_or_one_line(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(simulated, "MOST_STEPS", 1)
    check_right(kind)
    for number in range(COUNT * KINDS[kind].weight):
        made = draw_of(kind, Random(f"{kind} {number}"))
        assert fault_of(made) is None, made


def raising(text: str) -> int:
    raise ValueError(text)


def for_ever(_: str) -> int:
    while True:
        pass


def complaining(text: str) -> int:
    for line in text:
        sys.stderr.write(f"streamsim: error: {line}\n")
    return 2


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        (raising, "ValueError in test_fuzz.py:raising"),
        (for_ever, "takes more than 0.05 s: planted x"),
        (complaining, "exit code 2 with 3 lines of complaint: planted x"),
        (lambda _: 70, "exit code 70: "),
        (lambda _: 2, "exit code 2 with 0 lines of complaint: planted x"),
        (lambda _: 1, None),
    ],
    ids=("raises", "hangs", "complains thrice", "another code", "says nothing", "is right"),
)
def test_a_fault_is_found(program: Callable[[str], int], fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LIMIT_S", 0.05)
    monkeypatch.setitem(trials.PROGRAMS, "planted", lambda _: program("abc"))
    assert fault_of(Input("planted", ("x",), {})) == fault


def test_what_is_found_is_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(arguments: list[str]) -> int:
        with open("f.json") as file:
            return raising("both") if "k" in file.read() and "-x" in arguments else 0

    monkeypatch.setitem(trials.PROGRAMS, "planted", program)
    made = Input("planted", ("go", "-y", "3", "-x"), {"f.json": '{"a": [1, 2], "k": {"b": 3}}', "other": "text"})
    assert shrink(made, str(fault_of(made))) == Input("planted", ("go", "-x"), {"f.json": '{"k": {}}'})
