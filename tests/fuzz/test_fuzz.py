"""Mutated files and options, against every reader and command: a result or one line, soon, and within 1 GiB.

No traceback comes of any, no more than 10 s of the processor, no wait of two minutes. ``.ci/run`` tries 15,000 inputs,
always the same; ``pytest -m ci tests/fuzz --hypothesis-profile=thorough`` ten times as many others. What is found is
cut down by hypothesis; it becomes a test in the folder of its room.
"""

from collections.abc import Iterator

import pytest
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
