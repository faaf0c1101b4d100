"""Ranges of numbers as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsim.errors import InputError
from streamsim.text import expand, parse_bytes, parse_count, parse_seconds

# Ranges


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", (7,)),
        ("1..4", (1, 2, 3, 4)),
        ("1..10+4", (1, 5, 9)),
        ("1..64*4", (1, 4, 16, 64)),
        ("1..60*4", (1, 4, 16)),
        ("1..8*1.5", (1, 2, 3, 5, 8)),  # 1, 1.5, 2.25, 3.375, 5.06, 7.59
        ("3,1,2..3,1", (3, 1, 2)),
        ("1Ki..4Ki*2", (1024, 2048, 4096)),
        ("5..5", (5,)),
    ],
)
def test_ranges(text: str, values: tuple[int, ...]) -> None:
    assert expand(text, "chunks", parse_count) == values


@given(st.integers(1, 50), st.integers(0, 100), st.integers(1, 7))
def test_a_range_with_a_step_is_pythons_range(first: int, more: int, step: int) -> None:
    assert expand(f"{first}..{first + more}+{step}", "n", parse_count) == tuple(range(first, first + more + 1, step))


@given(st.floats(1e-6, 1), st.integers(1, 20), st.sampled_from((1.1, 2, 1.5)))
def test_a_range_with_a_factor_ends_at_its_end_if_it_hits_it(first: float, n: int, factor: float) -> None:
    values = expand(f"{first!r}..{first * factor**n!r}*{factor}", "time", lambda text, _: float(text), whole=False)
    assert len(values) == n + 1
    assert (values[0], values[-1]) == (first, first * factor**n)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "chunks = '': expected a count"),
        ("0", "chunks = '0': "),
        ("4..1", "chunks = '4..1': an empty range"),
        ("1..", "chunks = '1..': expected a count"),
        ("..4", "chunks = '..4': expected a count"),
        ("1..4..8", "chunks = '4..8': expected a count"),
        ("1..8*1", "chunks = '...*1': expected a factor above 1"),
        ("1..8*x", "chunks = '...*x': expected a factor above 1"),
        ("1..8*inf", "chunks = '...*inf': expected a factor above 1"),
        ("1..8+0", "chunks = '0': "),
        ("1..8+2*2", "chunks = '1..8+2*2': expected a count"),
        ("1,,2", "chunks = '': expected a count"),
        ("1..5000000", "chunks = '1..5000000': more than 1000000 values"),
    ],
)
def test_bad_ranges_are_refused(text: str, named: str) -> None:
    with pytest.raises(InputError) as error:
        expand(text, "chunks", parse_count)
    assert str(error.value).startswith(named)


def test_a_range_of_sizes_needs_a_step() -> None:
    with pytest.raises(InputError, match=r"h2d = '1MiB\.\.4MiB': a range without a step; add one such as"):
        expand("1MiB..4MiB", "h2d", parse_bytes, step_by_one=False)


def test_what_is_said_of_a_text_of_two_lines_is_one() -> None:
    message = r"^times = '1s\.\.\\n1s': a range without a step; add one such as 1s\.\.1s\*2$"
    with pytest.raises(InputError, match=message):
        expand("1s..\n1s", "times", parse_seconds, whole=False, step_by_one=False)
