"""Mutated files and options, against every reader and command: a result or one line, soon, and within 1 GiB.

No traceback comes of any, no more than 10 s of the processor, no wait of two minutes. ``.ci/run`` tries 15,000 inputs,
always the same; ``pytest -m ci tests/fuzz --hypothesis-profile=thorough`` ten times as many others. What is found is
cut down by hypothesis; it becomes a test in the folder of its room.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import trials
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinds import KINDS, Input, input_of
from trials import check, prepare

pytestmark = pytest.mark.ci
INPUTS, LARGE = 15_000, 8  # of all kinds; of each kind that is a file
WEIGHTS = sum(kind.weight for kind in KINDS.values())
SMALLEST_BYTES, LARGEST_BYTES = 10_000, 10_000_000


@pytest.fixture(scope="module", autouse=True)
def _no_long_work() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch)
        yield


def tried(count: int) -> settings:
    """``examples``, whatever they take to draw."""
    return settings(examples(count), suppress_health_check=list(HealthCheck))


@st.composite
def inputs(draw: st.DrawFn, kind: str, grow: bool = False) -> Input:
    size = draw(st.integers(SMALLEST_BYTES, LARGEST_BYTES)) if grow else 0
    return input_of(kind, draw(st.randoms(use_true_random=False)), size)


@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_wrong_is_right_to_begin_with(kind: str) -> None:
    for made in {made.arguments: made for made in KINDS[kind].right()}.values():
        check(made)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_wrong_with_an_input_is_a_result_or_one_line(kind: str) -> None:
    @tried(INPUTS * KINDS[kind].weight // WEIGHTS)
    @given(inputs(kind))
    def law(made: Input) -> None:
        check(made)

    law()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].form])
def test_so_it_is_however_large_a_file(kind: str) -> None:
    @tried(LARGE)
    @given(inputs(kind, grow=True))
    def law(made: Input) -> None:
        check(made)

    law()


# It finds what it is there to find.


def raising() -> int:
    raise KeyError("planted")


def for_ever() -> int:
    while True:
        pass


def for_ever_unheard() -> int:
    for _again in range(2):
        with suppress(BaseException):
            for_ever()
    return 0


def greedy() -> int:
    return 0 * len(bytearray(60 << 20))


def complaining() -> int:
    return 2 + 0 * sys.stderr.write("streamsim: error: a\nstreamsim: error: b\n")


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        (raising, "planted"),
        (for_ever, r"takes more than 0\.5 s"),
        (for_ever_unheard, r"takes more than 0\.5 s"),
        (greedy, r"takes \d+ bytes"),
        (complaining, "exit code 2 with other than one line"),
        (lambda: 70, "exit code 70"),
        (lambda: 2, "exit code 2 with other than one line"),
    ],
)
def test_a_fault_is_found(program: Callable[[], int], fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LIMIT_S", 0.5)
    monkeypatch.setattr(trials, "LIMIT_BYTES", 30 << 20)
    monkeypatch.setitem(trials.PROGRAMS, "planted", lambda _: program())
    with pytest.raises((AssertionError, KeyError), match=fault):
        check(Input("planted", ("x",), {}))


def test_what_is_wrong_is_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thing wrong, not three."""
    seen: list[str] = []

    def program(arguments: list[str]) -> int:
        seen.append(arguments[1])
        return 70 if "x" in arguments[1] else 0

    monkeypatch.setitem(trials.PROGRAMS, "read", program)

    @tried(200)
    @given(inputs("text"))
    def law(made: Input) -> None:
        check(made)

    with pytest.raises(AssertionError, match="exit code 70"):
        law()
    assert len(seen[-1]) < 12
