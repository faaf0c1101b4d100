"""What ``python tests/fuzz`` tries, 240 of it, and that it finds what it is there to find; CI tries 20,000."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import forms
import planted_faults
import pytest
import trials
import worker
from effort import THOROUGH, examples
from forms import JSON, LINES, TOML, Form, gone_wrong
from hypothesis import given
from hypothesis import strategies as st
from kinds import KINDS, Input, draw_of
from shrinking import shrink
from trials import check_right, fault_of
from worker import Asked
from workers import PATIENCE, Patience, gather

from streamsim_validate.calibrate import samples

INPUTS = 6 * examples(100).max_examples
PARTS = 2  # each by itself, for whoever has a core free
SEED = Random().randrange(1 << 32) if THOROUGH else 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_wrong_is_right_to_begin_with(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(samples, "MOST_STEPS", 1)
    check_right(kind)


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_is_wrong_with_an_input_is_a_result_or_one_line(part: int) -> None:
    """4 ms each; ``python tests/fuzz --seed SEED --input NUMBER`` tries one again."""
    assert list(gather(Asked(INPUTS, SEED, PARTS), [part])) == [], f"seed {SEED}"


def test_an_input_is_always_the_same_and_some_are_large() -> None:
    sizes = []
    for kind in KINDS:
        for number in range(60):
            made = draw_of(kind, Random(f"{kind} {number}"))
            if number < 5:
                assert made == draw_of(kind, Random(f"{kind} {number}"))
            sizes.append(sum(map(len, made.files.values())))
    assert 1e5 < max(sizes) < 3e7


def inside(times: int, tree: Any, widely: int = 1) -> Any:
    """A list of as many lists of it, or of the same list, one in another."""
    return reduce(lambda within, _: [within] * widely, range(times), tree)


LARGE = {
    "a list that grows in each of 400 places": inside(2, list(range(1000)), 20),
    "a text in as many": inside(2, "x" * 1000, 20),
    "lists that share all that is in them": inside(40, 0, 2),
    "long names": {"a": [{"x" * 1000: 0}] * 400},
    "long numbers": [10**4000] * 100,
}


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("form", [JSON, TOML, LINES], ids=("JSON", "TOML", "lines"))
def test_what_would_be_written_for_hours_goes_wrong_as_text(form: Form, large: str) -> None:
    """Little memory, as it is shared; 130,000 to 10^12 letters, where 100,000 are the most."""
    planted = form._replace(mutate=lambda found, _: [LARGE[large]] if form is LINES else found | {"a": LARGE[large]})
    with mock.patch.object(forms, "MOST_LETTERS", 100_000):
        with pytest.raises(ValueError, match="more than 100000 letters"):
            form.write(planted.mutate({}, Random()))
        right = "a = 1\n" if form is TOML else '{"a": 1}\n'
        assert len(gone_wrong(right, planted, Random(0))) < 100 * len(right)


def test_what_toml_indents_counts() -> None:
    """5 MB as JSON, 3 GB as TOML: each of a million numbers on a line of its own, behind 400 spaces."""
    tree = {"a": inside(99, [0] * 1_000_000)}
    assert len(JSON.write(tree)) < 4e6
    with pytest.raises(ValueError, match="letters"):
        TOML.write(tree)


trees = st.recursive(
    st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=30)),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=6),
    max_leaves=200,
)


@pytest.mark.parametrize("form", [JSON, TOML], ids=("JSON", "TOML"))
@given(tree=trees)
@examples(100)
def test_what_is_written_is_about_as_large_as_it_was_found_to_be(form: Form, tree: Any) -> None:
    """A letter may take 12, as an escape, and a number 24; a comma and a line are not counted."""
    with mock.patch.object(forms, "MOST_LETTERS", 100):
        try:
            text = form.write({"x": tree})
        except ValueError:
            text = ""
        assert len(text) <= 12 * 100


# The fuzzer finds what it is there to find.


def raising(text: str) -> int:
    raise ValueError(text)


def for_ever(_: str) -> int:
    while True:
        pass


def for_ever_unheard(_: str) -> int:
    for _again in range(2):
        with suppress(BaseException):
            for_ever("")
    return 0


def greedy(_: str) -> int:
    return 0 * len(bytearray(60 << 20))


def complaining(text: str) -> int:
    for line in text:
        sys.stderr.write(f"streamsim: error: {line}\n")
    return 2


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        (raising, "ValueError in test_fuzz.py:raising"),
        (for_ever, "takes more than 0.5 s: planted x"),
        (for_ever_unheard, "takes more than 0.5 s: planted x"),
        (greedy, "takes more than 1 GiB: planted x"),
        (complaining, "exit code 2 with 3 lines of complaint: planted x"),
        (lambda _: 70, "exit code 70: "),
        (lambda _: 2, "exit code 2 with 0 lines of complaint: planted x"),
        (lambda _: 1, None),
    ],
    ids=("raises", "hangs", "hangs on", "takes memory", "complains thrice", "another code", "says nothing", "is right"),
)
def test_a_fault_is_found(program: Callable[[str], int], fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LIMIT_S", 0.5)
    monkeypatch.setattr(trials, "LIMIT_BYTES", 30 << 20)
    monkeypatch.setitem(trials.PROGRAMS, "planted", lambda _: program("abc"))
    assert fault_of(Input("planted", ("x",), {})) == fault


def test_memory_is_that_of_one_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither hidden behind one that took more before, nor held against the next one."""
    monkeypatch.setitem(trials.PROGRAMS, "planted", lambda arguments: 0 * len(bytearray(int(arguments[0]) << 20)))
    monkeypatch.setattr(trials, "LIMIT_BYTES", 100 << 20)
    found = [fault_of(Input("planted", (megabytes,), {})) for megabytes in ("300", "10", "200", "10")]
    assert [fault is None for fault in found] == [False, True, False, True]


def test_a_process_that_dies_or_hangs_is_a_fault_and_the_others_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for one that no signal reaches, 5 s."""
    monkeypatch.setattr(Asked, "input", planted_faults.planted)
    asked = Asked(1 + len(planted_faults.DOES), 0, 2)
    command = (sys.executable, str(planted_faults.__file__))
    started: list[int] = []

    def start(*arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
        process = popen(*arguments, **more)
        started.append(process.pid)
        return process

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    found = {report["number"]: report["fault"] for report in gather(asked, (), planted_faults.PATIENCE, command)}
    assert found == {number: fault for number, fault in enumerate(planted_faults.DOES.values()) if fault is not None}
    folders = os.listdir(trials.in_memory())
    assert not [folder for pid in started for folder in folders if folder.startswith(trials.FOLDER.format(pid))]
    assert len(started) > 2


def test_a_process_does_not_outlive_who_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Killed, it closes nothing, and what it started is in a session of its own: it would go on for an hour."""
    parents = iter((70, 70, 70, 70, 1))
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(worker, "prepare", lambda: None)
    monkeypatch.setattr(worker, "fault_of", lambda _: None)
    told, pipe = os.pipe()
    with open(told) as lines, (tmp_path / "place").open("wb+") as place:
        worker.work(Asked(1_000_000, 0, 2, ("text",)), 1, pipe, place.fileno())
        assert lines.read() == "ready\n"
        place.seek(0)
        assert int.from_bytes(place.read(8), "little") == 5


def test_a_process_that_has_no_more_to_tell_and_stays_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for it 2 s; a thread that is never done keeps a process so."""
    monkeypatch.setattr(Asked, "input", planted_faults.planted)
    last = planted_faults.STAYS
    command = (sys.executable, str(planted_faults.__file__))
    (report,) = gather(Asked(last + 1, 0, last + 1), [last], Patience(2.0, 2.0), command)
    assert (report["number"], report["fault"]) == (last, "the process does not end: planted _stay")


def test_a_process_that_cannot_begin_ends_it() -> None:
    with pytest.raises(RuntimeError, match="ended with 7 before it began"):
        list(gather(Asked(10, 0, 2), (), PATIENCE, (sys.executable, "-c", "import sys; sys.exit(7)")))


def test_what_is_found_is_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(arguments: list[str]) -> int:
        with open("f.json") as file:
            return raising("both") if "k" in file.read() and "-x" in arguments else 0

    monkeypatch.setitem(trials.PROGRAMS, "planted", program)
    made = Input("planted", ("go", "-y", "3", "-x"), {"f.json": '{"a": [1, 2], "k": {"b": 3}}', "other": "text"})
    assert shrink(made, str(fault_of(made))) == Input("planted", ("go", "-x"), {"f.json": '{"k": {}}'})
