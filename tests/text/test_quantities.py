"""Sizes, times and rates as people write them, and ranges of them."""

import math
from collections.abc import Callable
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsim.errors import InputError, shown
from streamsim.text import (
    expand,
    format_bytes,
    format_change,
    format_seconds,
    parse_bandwidth,
    parse_bytes,
    parse_count,
    parse_seconds,
)

PREFIXES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
TIMES = {"s": 0, "ms": -3, "us": -6, "\N{MICRO SIGN}s": -6, "\N{GREEK SMALL LETTER MU}s": -6, "ns": -9}
PARSERS = (parse_bytes, parse_count, parse_seconds, parse_bandwidth)
spaces = st.sampled_from(("", " ", "  "))


@given(st.integers(1, 8000), st.sampled_from(sorted(PREFIXES)), spaces)
def test_whole_sizes_counts_and_rates_are_exact(number: int, prefix: str, space: str) -> None:
    exact = number * PREFIXES[prefix]
    assert parse_bytes(f"{space}{number}{space}{prefix}B{space}") == exact
    assert parse_count(f"{number}{space}{prefix}") == exact
    if exact >= 10**6:
        assert parse_bandwidth(f"{number}{prefix}B/s") == exact


@given(st.integers(0, 10**6), st.integers(0, 6), st.sampled_from(sorted(TIMES)), spaces)
def test_times_are_the_nearest_float_or_its_neighbour(digits: int, decimals: int, unit: str, space: str) -> None:
    exact = Fraction(digits, 10**decimals) * Fraction(10) ** TIMES[unit]
    if exact <= 86_400:
        parsed = parse_seconds(f"{digits / 10**decimals:.{decimals}f}{space}{unit}")
        assert abs(Fraction(parsed) - exact) <= Fraction(math.ulp(float(exact)))


@given(st.integers(1, 8000), st.sampled_from("kmgt"), st.randoms(use_true_random=False))
def test_binary_suffixes_mean_the_same_in_any_case(number: int, prefix: str, rng: Random) -> None:
    suffix = "".join(rng.choice((c.lower(), c.upper())) for c in f"{prefix}iB")
    exact = number * 1024 ** ("kmgt".index(prefix) + 1)
    if exact < 2**43:
        assert parse_bytes(f"{number}{suffix}") == parse_count(f"{number}{suffix[:2]}") == exact


def test_a_bare_number_is_in_the_unit() -> None:
    assert (parse_bytes("4096"), parse_seconds("1e-3"), parse_bandwidth("25e9")) == (4096, 0.001, 25e9)
    assert (parse_bytes("1.5KiB"), parse_bytes("1e3"), parse_seconds("0")) == (1536, 1000, 0.0)
    # As a size is printed: the nearest whole number of bytes.
    assert (parse_bytes("14.56GiB"), parse_bytes("1.0001KB")) == (15633680957, 1000)


MEANT = [
    *((parse_bytes, text, "such as 64MiB, 64MB or 4096") for text in ("64M", "64m", "64Mb", "64mb", "64 mi", "64mB")),
    (parse_bandwidth, "25Gb/s", "such as 25GB/s"),
    *((parse_seconds, text, "such as 0.57ms") for text in ("1MS", "1msec", "1 mS", "1milliseconds")),
    *((parse_seconds, text, "lacks its unit; write ") for text in ("570", "0.5", " 45 ")),
    (parse_count, "1..64", "expected a whole number"),
]
SENSELESS = [
    *("", " ", "nan", "inf", "-inf", "-1", "1e999", "1,000", "1_000", "0x10", "\u0663", "abc", "5 parsecs", "1 2"),
    *("--1", "1e", "9" * 5000, "0" * 5000 + "1e6"),
]
REFUSED = [
    *((parse_bytes, text, "") for text in ("64MiB/s", "1ms", "1.5", "0", "16TiB")),
    *((parse_seconds, text, "") for text in ("64MiB", "5m", "1h", "2 days", "-1us", "1e9")),
    *((parse_bandwidth, text, "") for text in ("25GB", "25Gbps", "0", "1B/s")),
    *((parse_count, text, "") for text in ("16MiB", "0.5")),
    *((parse, text, "") for parse in PARSERS for text in SENSELESS),
]


@pytest.mark.parametrize(("parse", "text", "said"), [*MEANT, *REFUSED])
def test_refused_naming_field_and_text(parse: Callable[[str, str], float], text: str, said: str) -> None:
    with pytest.raises(InputError, match=r"^my field = ") as caught:
        parse(text, "my field")
    assert shown(text) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(), st.sampled_from(PARSERS))
def test_any_text_gives_a_number_in_range_or_an_input_error(text: str, parse: Callable[[str], float]) -> None:
    try:
        value = parse(text)
    except InputError:
        return
    assert 0 <= value < math.inf


@given(st.from_regex(r"[-+]?[0-9.]{1,5}([eE][-+]?[0-9]{1,4})? ?(Ki|[kKMGTmun\u00b5])?(B|s|B/s|b)?", fullmatch=True))
def test_what_one_unit_accepts_the_others_refuse(text: str) -> None:
    accepted = set()
    for parse in (parse_bytes, parse_seconds, parse_bandwidth):
        try:
            parse(text)
            accepted.add(parse)
        except InputError:
            pass
    assert len(accepted) <= 1 or text.strip()[-1] in "0123456789."  # a bare number goes with each of them


@given(st.floats(1e-9, 86_000), st.integers(1, 2**43 - 1))
def test_written_figures_keep_four_digits(seconds: float, n_bytes: int) -> None:
    assert parse_seconds(format_seconds(seconds)) == pytest.approx(seconds, rel=5.1e-4)
    number, unit = format_bytes(n_bytes).split()
    scale = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit]
    assert float(number) * scale == pytest.approx(n_bytes, rel=5.1e-4)


def test_written_figures() -> None:
    # What rounds to the next prefix is in it; below the last one there are fewer figures before the point.
    found = [format_seconds(x) for x in (1.5537e-3, 0, 0.99996e-6, 0.9999e-6, 2e-15)]
    assert found == ["1.554 ms", "0 s", "1 us", "999.9 ns", "0.002 ps"]
    assert [format_bytes(x) for x in (0, 1023, 1048575, 3 << 50)] == ["0 B", "1023 B", "1 MiB", "3 PiB"]
    assert list(map(format_change, (0.0512, -0.333, 0.0, -0.0004))) == ["+5.1%", "-33.3%", "0.0%", "0.0%"]


@pytest.mark.parametrize("value", ["x" * 10**6, [[]] * 10**5, 10**9999, {"a": {"b": {}}}, "\n\x1b[31m"], ids=type)
def test_shown_is_short_whatever_the_value(value: object) -> None:
    assert len(shown(value)) < 200
    assert "\n" not in shown(value)


@given(st.text())
def test_bad_input_is_one_line_whatever_it_holds(text: str) -> None:
    assert str(InputError(f"{text}: {text}")).isprintable()


# Ranges


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", (7,)),
        ("1..64*4", (1, 4, 16, 64)),
        ("1..60*4", (1, 4, 16)),
        ("1..8*1.5", (1, 2, 3, 5, 8)),  # 1, 1.5, 2.25, 3.375, 5.06, 7.59
        ("3,1,2..3,1", (3, 1, 2)),
        ("1Ki..4Ki*2", (1024, 2048, 4096)),
    ],
)
def test_ranges(text: str, values: tuple[int, ...]) -> None:
    assert expand(text, "chunks", parse_count) == values


@given(st.integers(1, 50), st.integers(0, 100), st.integers(1, 7))
def test_a_range_with_a_step_is_pythons_range(first: int, more: int, step: int) -> None:
    given_step = f"+{step}" if step > 1 else ""
    values = expand(f"{first}..{first + more}{given_step}", "n", parse_count)
    assert values == tuple(range(first, first + more + 1, step))


@given(st.floats(1e-6, 1), st.integers(1, 20), st.sampled_from((1.1, 2, 1.5)))
def test_a_range_with_a_factor_ends_at_its_end_if_it_hits_it(first: float, n: int, factor: float) -> None:
    values = expand(f"{first!r}..{first * factor**n!r}*{factor}", "time", lambda text, _: float(text), whole=False)
    assert len(values) == n + 1
    assert (values[0], values[-1]) == (first, first * factor**n)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("4..1", "'4..1': expected a smaller and a larger number"),
        ("1..", "'1..': expected a whole number"),
        ("1..4..8", "'4..8': expected a whole number"),
        ("1..8*0.5", "'1..8*0.5': expected a smaller and a larger number"),
        ("1..8*x", "'1..8*x': expected a whole number"),
        ("1..8+0", "'0': "),
        ("1,,2", "'': expected a whole number"),
        ("1..5000000", "'1..5000000': more than 1000000 values"),
    ],
)
def test_bad_ranges_are_refused(text: str, named: str) -> None:
    with pytest.raises(InputError) as error:
        expand(text, "chunks", parse_count)
    assert str(error.value).startswith(f"chunks = {named}")
