"""Sizes, times and rates as people write them."""

import math
from collections.abc import Callable
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsim.errors import InputError
from streamsim.text import (
    format_bytes,
    format_change,
    format_seconds,
    parse_bandwidth,
    parse_bytes,
    parse_count,
    parse_number,
    parse_seconds,
    shown,
)

PREFIXES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
TIMES = {"s": 0, "ms": -3, "us": -6, "\N{MICRO SIGN}s": -6, "\N{GREEK SMALL LETTER MU}s": -6, "ns": -9}
PARSERS = (parse_bytes, parse_count, parse_number, parse_seconds, parse_bandwidth)
spaces = st.sampled_from(("", " ", "  "))


@given(st.integers(1, 8000), st.sampled_from(sorted(PREFIXES)), spaces)
def test_whole_sizes_and_counts_are_exact(number: int, prefix: str, space: str) -> None:
    assert parse_bytes(f"{space}{number}{space}{prefix}B{space}") == number * PREFIXES[prefix]
    assert parse_count(f"{number}{space}{prefix}") == number * PREFIXES[prefix]


@given(st.integers(0, 10**6), st.integers(0, 6), st.sampled_from(sorted(TIMES)), spaces)
def test_times_are_the_nearest_float_or_its_neighbour(digits: int, decimals: int, unit: str, space: str) -> None:
    exact = Fraction(digits, 10**decimals) * Fraction(10) ** TIMES[unit]
    if exact <= 86_400:
        parsed = parse_seconds(f"{digits / 10**decimals:.{decimals}f}{space}{unit}")
        assert abs(Fraction(parsed) - exact) <= Fraction(math.ulp(float(exact)))


def test_changes_are_signed_and_nothing_has_no_minus() -> None:
    assert list(map(format_change, (0.0512, -0.333, 0.0, -0.0004))) == ["+5.1%", "-33.3%", "0.0%", "0.0%"]


@given(st.integers(1, 8000), st.sampled_from("kmgt"), st.randoms(use_true_random=False))
def test_binary_suffixes_mean_the_same_in_any_case(number: int, prefix: str, rng: Random) -> None:
    suffix = "".join(rng.choice((c.lower(), c.upper())) for c in f"{prefix}iB")
    exact = number * 1024 ** ("kmgt".index(prefix) + 1)
    if exact < 2**43:
        assert parse_bytes(f"{number}{suffix}") == parse_count(f"{number}{suffix[:2]}") == exact


@pytest.mark.parametrize("text", ["64M", "64m", "64Mb", "64mb", "64Mi", "64 mi", "64mB"])
def test_a_size_that_nobody_can_tell_is_told_what_it_may_mean(text: str) -> None:
    with pytest.raises(InputError, match=r"did you mean 64MB or 64MiB\?$"):
        parse_bytes(text)


def test_a_rate_that_nobody_can_tell_is_told_what_it_may_mean() -> None:
    with pytest.raises(InputError, match=r"did you mean 25GB/s or 25GiB/s\?$"):
        parse_bandwidth("25Gb/s")


@pytest.mark.parametrize("text", ["1MS", "1msec", "1 mS", "1milliseconds"])
def test_a_time_in_other_letters_is_told_what_it_may_mean(text: str) -> None:
    hint = "" if "milli" in text else r"; did you mean 1ms\?"
    with pytest.raises(InputError, match=rf"\(seconds\){hint}$"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["1-64", "1..64", "1:64", "1 - 64", "1,64"])
def test_a_range_for_one_number_is_told_how_ranges_are_written(text: str) -> None:
    assert parse_number("64", "chunks") == 64
    with pytest.raises(InputError, match=r"^chunks = .*: expected a whole number, or for streamsim sweep .*: 1\.\.64$"):
        parse_number(text, "chunks")


@pytest.mark.parametrize("number", ["2e1", "2E1", "20", "20.0", "+.2e2", "2000e-2"])
@pytest.mark.parametrize("space", ["", " "])
def test_a_prefix_scales_a_number_with_an_exponent_too(number: str, space: str) -> None:
    for unit, exponent in TIMES.items():
        assert parse_seconds(f"{number}{space}{unit}") == 20 / 10**-exponent
    for prefix, scale in PREFIXES.items():
        assert parse_bytes(f"{number}{space}{prefix}B") == 20 * scale


@given(st.integers(1, 1000), st.sampled_from(("M", "G", "Mi", "Gi")))
def test_bandwidths(number: int, prefix: str) -> None:
    multiple = {"Mi": 2**20, "Gi": 2**30, **PREFIXES}[prefix]
    assert parse_bandwidth(f"{number}{prefix}B/s") == number * multiple


def test_a_bare_time_is_asked_for_its_unit() -> None:
    for text in ("570", "0.5", " 45 "):
        with pytest.raises(InputError, match=rf"^step = .*: lacks its unit; write {text.strip()}ms"):
            parse_seconds(text, "step")


def test_a_bare_number_is_in_the_unit() -> None:
    assert (parse_bytes("4096"), parse_seconds("1e-3"), parse_bandwidth("25e9")) == (4096, 0.001, 25e9)
    assert (parse_bytes("1.5KiB"), parse_bytes("1e3"), parse_seconds("0")) == (1536, 1000, 0.0)
    # As a size is printed: the nearest whole number of bytes.
    assert (parse_bytes("14.56GiB"), parse_bytes("1.0001KB")) == (15633680957, 1000)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_bytes, "64m"),  # not 0.064 bytes, not 64 MiB: nobody can tell
        (parse_bytes, "64M"),
        (parse_bytes, "64mB"),
        (parse_bytes, "64Mb"),  # bits
        (parse_bytes, "64MiB/s"),
        (parse_bytes, "1ms"),
        (parse_bytes, "1.5"),
        (parse_bytes, "0"),
        (parse_bytes, "16TiB"),
        (parse_seconds, "64MiB"),
        (parse_seconds, "5m"),
        (parse_seconds, "1h"),
        (parse_seconds, "2 days"),
        (parse_seconds, "-1us"),
        (parse_seconds, "1e9"),
        (parse_bandwidth, "25GB"),
        (parse_bandwidth, "25Gb/s"),
        (parse_bandwidth, "25Gbps"),
        (parse_bandwidth, "0"),
        (parse_bandwidth, "1B/s"),
        (parse_count, "16MiB"),
        (parse_count, "0.5"),
        *[
            (p, t)
            for p in PARSERS
            for t in ("", " ", "nan", "inf", "-inf", "-1", "1e999", "1,000", "1_000", "0x10", "\u0663")
        ],
        *[(p, t) for p in PARSERS for t in ("abc", "5 parsecs", "1 2", "--1", "1e", "9" * 5000, "0" * 5000 + "1e6")],
    ],
)
def test_refused_naming_field_and_text(parse: Callable[[str, str], float], text: str) -> None:
    with pytest.raises(InputError, match=r"^my field = ") as caught:
        parse(text, "my field")
    assert shown(text) in str(caught.value)
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
    assert [format_seconds(x) for x in (1.5537e-3, 2.7e-6, 0)] == ["1.554 ms", "2.7 us", "0 s"]
    # What rounds to the next prefix is in it; below the last one there are fewer figures before the point.
    assert [format_seconds(x) for x in (0.99996e-6, 0.9999e-6, 2e-15)] == ["1 us", "999.9 ns", "0.002 ps"]
    assert [format_bytes(x) for x in (0, 1023, 1048575, 3 << 50)] == ["0 B", "1023 B", "1 MiB", "3 PiB"]
    assert [format_bytes(x) for x in (64 << 20, 1000)] == ["64 MiB", "1000 B"]


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, [[]] * 10**5, 10**9999, {"a": {"b": {}}}, "\n\x1b[31m"],
    ids=("text", "list", "int", "dict", "line"),
)
def test_shown_is_short_whatever_the_value(value: object) -> None:
    assert len(shown(value)) < 200
    assert "\n" not in shown(value)
