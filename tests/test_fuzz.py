"""What ``python tests/fuzz`` tries, 2,000 of it, and that it finds what it is there to find; CI tries 20,000."""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING

import planted_faults
import pytest
import trials
from effort import THOROUGH, examples
from kinds import KINDS, Input, draw_of
from shrinking import shrink
from trials import check_right, fault_of
from worker import Asked
from workers import gather

from streamsim_validate.calibrate import simulated

if TYPE_CHECKING:
    from collections.abc import Callable

INPUTS = 20 * examples(100).max_examples
PARTS = 2  # each by itself, for whoever has a core free
SEED = Random().randrange(1 << 32) if THOROUGH else 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_wrong_is_right_to_begin_with(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(simulated, "MOST_STEPS", 1)
    check_right(kind)


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_is_wrong_with_an_input_is_a_result_or_one_line(part: int) -> None:
    """4 ms each; ``python tests/fuzz --seed SEED --input NUMBER`` tries one again."""
    assert list(gather(Asked(INPUTS, SEED, PARTS), [part])) == [], f"seed {SEED}"


def test_an_input_is_always_the_same_and_some_are_large() -> None:
    sizes = []
    for kind in KINDS:
        for number in range(300):
            made = draw_of(kind, Random(f"{kind} {number}"))
            if number < 20:
                assert made == draw_of(kind, Random(f"{kind} {number}"))
            sizes.append(sum(map(len, made.files.values())))
    assert 1e5 < max(sizes) < 3e7


# The fuzzer finds what it is there to find.


def raising(text: str) -> int:
    raise ValueError(text)


def for_ever(_: str) -> int:
    while True:
        pass


def greedy(_: str) -> int:
    return 0 * len(bytearray(200 << 20))


def complaining(text: str) -> int:
    for line in text:
        sys.stderr.write(f"streamsim: error: {line}\n")
    return 2


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        (raising, "ValueError in test_fuzz.py:raising"),
        (for_ever, "takes more than 0.5 s: planted x"),
        (greedy, "takes more than 1 GiB: planted x"),
        (complaining, "exit code 2 with 3 lines of complaint: planted x"),
        (lambda _: 70, "exit code 70: "),
        (lambda _: 2, "exit code 2 with 0 lines of complaint: planted x"),
        (lambda _: 1, None),
    ],
    ids=("raises", "hangs", "takes memory", "complains thrice", "another code", "says nothing", "is right"),
)
def test_a_fault_is_found(program: Callable[[str], int], fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LIMIT_S", 0.5)
    monkeypatch.setattr(trials, "LIMIT_BYTES", 100 << 20)
    monkeypatch.setitem(trials.PROGRAMS, "planted", lambda _: program("abc"))
    assert fault_of(Input("planted", ("x",), {})) == fault


def test_memory_is_that_of_one_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither hidden behind one that took more before, nor held against the next one."""
    monkeypatch.setitem(trials.PROGRAMS, "planted", lambda arguments: 0 * len(bytearray(int(arguments[0]) << 20)))
    monkeypatch.setattr(trials, "LIMIT_BYTES", 100 << 20)
    found = [fault_of(Input("planted", (megabytes,), {})) for megabytes in ("300", "10", "200", "10")]
    assert [fault is None for fault in found] == [False, True, False, True]


def test_a_process_that_dies_or_hangs_is_a_fault_and_the_others_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for one that sleeps, 15 s."""
    monkeypatch.setattr(Asked, "input", planted_faults.planted)
    asked = Asked(1 + len(planted_faults.DOES), 0, 2)
    command = (sys.executable, str(planted_faults.__file__))
    found = {report["number"]: report["fault"] for report in gather(asked, (), planted_faults.STUCK_S, command)}
    assert found == {number: fault for number, fault in enumerate(planted_faults.DOES.values()) if fault is not None}


def test_a_process_that_cannot_begin_ends_it() -> None:
    with pytest.raises(RuntimeError, match="ended with 7 before it began"):
        list(gather(Asked(10, 0, 2), (), 60.0, (sys.executable, "-c", "import sys; sys.exit(7)")))


def test_what_is_found_is_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(arguments: list[str]) -> int:
        with open("f.json") as file:
            return raising("both") if "k" in file.read() and "-x" in arguments else 0

    monkeypatch.setitem(trials.PROGRAMS, "planted", program)
    made = Input("planted", ("go", "-y", "3", "-x"), {"f.json": '{"a": [1, 2], "k": {"b": 3}}', "other": "text"})
    assert shrink(made, str(fault_of(made))) == Input("planted", ("go", "-x"), {"f.json": '{"k": {}}'})
