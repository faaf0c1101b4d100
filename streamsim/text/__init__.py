"""Text that people write and read: sizes, times and rates, ranges of them, and the kind of a file from its content.

Sizes, times and rates are written as ``64MiB``, ``0.57ms``, ``25GB/s``. A bare number is in bytes, seconds or bytes per
second. A number with a prefix needs its unit: ``64m`` and ``64M`` are refused, because they are ambiguous. Prefixes are
those of SI (k = 1000, M = 1e6) and of IEC (Ki = 1024, Mi = 1024 ** 2). Prefixes of IEC may be written in any case
(``64mib``), because they have no other meaning. ``64Mb`` is refused, because b is the bit.
"""

import math
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import TypeVar

from streamsim import errors

_NUMBER = r"\s*(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*"
_SI, _IEC = "(?P<prefix>[kKMGT])?", "(?P<iec>[kmgt])i"
_COUNT = re.compile(rf"{_NUMBER}(?:(?i:{_IEC})|{_SI})\s*", re.ASCII)
_BYTES = re.compile(rf"{_NUMBER}(?:(?i:{_IEC}b)|{_SI}B)?\s*", re.ASCII)
_SECONDS = re.compile(rf"{_NUMBER}(?:(?P<prefix>[num\u00b5\u03bc])?s)?\s*", re.ASCII)  # two look like a micro sign
_SHARE = re.compile(rf"{_NUMBER}(?:(?P<prefix>%)|/\s*(?P<below>[0-9]+\.?[0-9]*))?\s*", re.ASCII)
_BANDWIDTH = re.compile(rf"{_NUMBER}(?:(?i:{_IEC}b/s)|{_SI}B/s)?\s*", re.ASCII)
_TIMES = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_PARTS = {"m": 10**3, "u": 10**6, "\u00b5": 10**6, "\u03bc": 10**6, "n": 10**9, "%": 100}  # divisors: they round once

FIGURES = 4  # of a number without a known error
NEAR_ONE = 0.1  # a ratio closer to 1 shows two places
RATE, SIZE, TIME = "_bytes_per_s", "_bytes", "_s"
UNITS = (RATE, SIZE, TIME)  # the longest first, because a rate's name ends in _s, too


@lru_cache
def unit_of(name: str) -> str:
    """Return the unit of a number with this name, one of ``UNITS``, or ``""`` for a count."""
    return next((unit for unit in UNITS if name.endswith(unit)), "")


def parser_for(name: str) -> Callable[[str, str], float]:
    """Return the parser of a number with this name, at least 0, in its unit.

    The parser takes the text, and the field's name for its errors.
    """
    unit = SIZE if name == "bytes" else unit_of(name)
    if unit == RATE:
        return parse_bandwidth
    if unit == TIME:
        return parse_seconds
    return partial(parse_bytes if unit == SIZE else parse_count, least=0)


def parse_bytes(text: str, field: str = "size", least: int = 1, most: int = errors.LARGEST_BYTES) -> int:
    """Return the bytes in a text such as ``"64MiB"``: 67108864. A size with a prefix is rounded to a whole byte.

    Raises InputError naming ``field`` for a size outside ``least..most``, and for a part of a byte without a prefix.
    """
    return _whole(_BYTES, text, field, "a size in bytes such as 64MiB, 64MB or 4096", least, most)


def parse_count(text: str, field: str = "count", least: int = 1, most: int = errors.LARGEST_BYTES) -> int:
    """Return the count in a text such as ``"16Mi"``: 16777216.

    Raises InputError naming ``field`` unless it is a whole number in ``least..most``.
    """
    return _whole(_COUNT, text, field, "a whole number such as 16, 4096 or 16Mi", least, most)


def parse_seconds(text: str, field: str = "time", least: float = 0.0, most: float = errors.LONGEST_S) -> float:
    """Return the seconds in a text such as ``"0.57ms"``. Raises InputError naming ``field`` outside ``least..most``."""
    bare = text.strip()
    if bare.replace(".", "", 1).isdecimal() and bare.strip("0."):
        raise errors.InputError(f"{field} = {errors.shown(text)}: lacks its unit; write {bare}ms, {bare}us or {bare}s")
    return _number(_SECONDS, text, field, "a time such as 0.57ms, 2.7us or 1e-3 (seconds)", least, most)


def parse_share(text: str, field: str = "share", least: float = 1e-12) -> float:
    """Return the share in ``"0.25"``, ``"1/4"`` or ``"25%"``. Raises InputError outside ``least..1``."""
    return _number(_SHARE, text, field, "a share such as 0.25, 1/4 or 25%", least, 1.0)


def parse_bandwidth(text: str, field: str = "bandwidth", least: float = 1e6, most: float = 1e15) -> float:
    """Return the bytes per second in a text such as ``"25GB/s"``.

    Raises InputError naming ``field`` outside ``least..most``.
    """
    hint = "a bandwidth such as 25GB/s, 12GiB/s or 25e9 (bytes per second)"
    return _number(_BANDWIDTH, text, field, hint, least, most)


def _number(form: re.Pattern[str], text: str, field: str, hint: str, least: float, most: float) -> float:
    """Return the number in ``text``, a match of ``form``. Raises InputError, whose words are ``hint``, for another."""
    match = form.fullmatch(text) if len(text) <= errors.LONGEST_TEXT else None
    if not match:
        raise errors.InputError(f"{field} = {errors.shown(text)}: expected {hint}")
    found = match.groupdict()
    prefix = f"{found['iec'].upper()}i" if found.get("iec") else found["prefix"]
    value = float(match["number"]) * _TIMES.get(prefix, 1) / (float(found.get("below") or 1) or math.nan)
    value /= _PARTS.get(prefix, 1)
    if not least <= value <= most:
        ends = " to ".join(f"{end:,}" if isinstance(end, int) else f"{end:g}" for end in (least, most))
        raise errors.InputError(f"{field} = {errors.shown(text)}: expected {hint}, from {ends}")
    return value


def _whole(form: re.Pattern[str], text: str, field: str, hint: str, least: int, most: int) -> int:
    """Return the whole number in ``text``; one with a prefix, as sizes are printed, is the nearest."""
    value = _number(form, text, field, hint, least, most)
    has_prefix = text.strip().removesuffix("B").rstrip()[-1:].isalpha()
    if not (has_prefix or value.is_integer()):
        raise errors.InputError(f"{field} = {errors.shown(text)}: is not whole; expected {hint}")
    return round(value)


def check_listed(field: str, values: object) -> None:
    """Raise InputError unless ``values`` is a list; a text is not a list of letters."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        given = errors.shown(values)
        raise errors.InputError(f"{field} = {given}: expected a list; put it into brackets: [{given}]")


def figures(within: float) -> int:
    """Return the number of figures that a number deserves if it is known ``within`` a relative error.

    Without an error (0) there are four, with an error of 10 % two.
    """
    return min(FIGURES, 1 + math.ceil(-math.log10(within))) if within else FIGURES


def rounded(value: float, within: float = 0.0) -> float:
    """Return ``value`` with the :func:`figures` that it deserves."""
    return float(f"{value:.{figures(within)}g}")


def format_seconds(seconds: float, within: float = 0.0) -> str:
    """Return a time with the figures that it deserves and a prefix: ``1.554 ms``, or ``1.6 ms`` if known to 10 %."""
    if seconds == 0 or seconds >= 1:  # no kiloseconds
        return f"{rounded(seconds, within):g} s"
    return _with_prefix(rounded(seconds, within), "s", 1000, {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0})


def format_between(low_s: float, high_s: float, within: float = 0.0) -> str:
    """Return a range of two times, with a common unit written once: ``1.4 .. 1.7 ms``."""
    low, high = (format_seconds(seconds, within) for seconds in (low_s, high_s))
    if low.split()[1] == high.split()[1]:
        low = low.split()[0]
    return f"{low} .. {high}"


def format_bytes(n_bytes: int) -> str:
    """Return a size with four figures and a binary prefix: ``64 MiB``."""
    return _with_prefix(n_bytes, "B", 1024, {prefix: 1024**k for k, prefix in enumerate(("", *"KMGTPE"))}, "i")


def _with_prefix(value: float, unit: str, most: int, prefixes: Mapping[str, float], binary: str = "") -> str:
    """Return four figures of ``value``, with the least of the ascending ``prefixes`` that leaves less than ``most``."""
    figures = ((prefix, float(f"{value / size:.4g}")) for prefix, size in prefixes.items())
    prefix, figure = next((prefix, figure) for prefix, figure in figures if abs(figure) < most)
    return f"{figure:.10g} {prefix}{binary if prefix else ''}{unit}"


def format_change(relative: float, within: float = 0.0) -> str:
    """Return a relative change in per cent: ``+5.1%`` for 0.051, or ``+5%`` if the times are known ``within`` an error.

    A change that rounds to zero has no sign.
    """
    change = round(relative, 2 if within else 3)
    return ("+" if change > 0 else "") + format_share(change + 0.0, within)


def format_share(share: float, within: float = 0.0) -> str:
    """Return a share in per cent: ``69.3%``, or ``69%`` if the times are known ``within`` an error."""
    return f"{share:.{0 if within else 1}%}"


def format_ratio(ratio: float, within: float = 0.0) -> str:
    """Return one time over another: ``2.14x``, or ``2.1x`` if the times are known ``within`` 10 %.

    Near 1, two places remain: rounding neither hides a gain nor makes one.
    """
    if not within or abs(ratio - 1) < NEAR_ONE:
        return f"{ratio:.2f}x"
    value = rounded(ratio, within)
    places = 2 if value < 1 else max(0, figures(within) - len(str(int(value))))
    return f"{value:.{places}f}x"


# Ranges of numbers as people write them: ``1..64``, ``1..64+3``, ``1MiB..1GiB*2``, ``1,2,4,8..64*2``.
#
# Commas separate values and ranges. ``A..B`` counts from A to B, ``+STEP`` in steps, ``*FACTOR`` multiplying. Both
# ends are included; a range that does not hit its end stops before it.

Parse = Callable[[str, str], float]  # the text of a number and the name of its field
MOST_VALUES = 1_000_000
ALL = "all"  # a device buffer for each chunk
Word = TypeVar("Word", bound=str)
SLACK = 1e-9  # the relative error by which rounding may put the last value beyond the end
_RANGE = re.compile(r"(?P<first>.+?)\.\.(?P<last>[^*+]+)(?:\+(?P<step>[^*+]+)|\*(?P<factor>[0-9]+\.?[0-9]*))?")


def expand(text: str, field: str, parse: Parse, whole: bool = True, step_by_one: bool = True) -> tuple[float, ...]:
    """Return every number that ``text`` names, in order, each once.

    - ``whole``: True for integers; fractions that a factor gives are rounded.
    - ``step_by_one``: True if a range without a step or factor counts in ones.

    Raises InputError naming ``field`` for a bad or empty range, and for more than a million values.
    """
    found: dict[float, None] = {}
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        values = _values(match, part, field, parse, step_by_one) if match else (parse(part, field),)
        for value in values:
            found[round(value) if whole else value] = None
            if len(found) > MOST_VALUES:
                raise errors.InputError(
                    f"{field} = {errors.shown(text)}: more than {MOST_VALUES} values; give a larger step"
                )
    return tuple(found)


def _values(match: re.Match[str], text: str, field: str, parse: Parse, step_by_one: bool) -> Iterator[float]:
    """Yield the values of a range; one that differs from the last only by rounding becomes the last."""
    first, last = parse(match["first"], field), parse(match["last"], field)
    if not (match["step"] or match["factor"] or step_by_one):
        stepped = f"{''.join(text.split())}*2"
        raise errors.InputError(f"{field} = {errors.shown(text)}: a range without a step; add one such as {stepped}")
    step = parse(match["step"], field) if match["step"] else 1
    factor = float(match["factor"]) if match["factor"] else None
    if last < first or step <= 0 or (factor is not None and (factor <= 1 or first <= 0)):
        hint = "a smaller and a larger number, with a step above 0 or, from above 0, a factor above 1"
        raise errors.InputError(f"{field} = {errors.shown(text)}: expected {hint}")
    for k in range(MOST_VALUES + 1):
        value = first + step * k if factor is None else first * factor**k
        if value > last * (1 + SLACK):
            return
        yield last if math.isclose(value, last, rel_tol=SLACK) else value


def parse_buffers(text: str) -> tuple[int | None, ...]:
    """Return the numbers of device buffers in ``"all,2,3"``: (None, 2, 3). None: a buffer for each chunk."""
    count = partial(parse_count, most=errors.MOST_CHUNKS)
    found: list[int | None] = []
    for part in text.split(","):
        found += [None] if part.strip() == ALL else map(int, expand(part, "buffers", count))
    return tuple(dict.fromkeys(found))


def chosen(field: str, text: str, choices: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the ``choices`` in a text such as ``"depth-first,serial"``. Raises InputError naming ``field``."""
    parts = dict.fromkeys(part.strip() for part in text.split(","))
    for part in parts:
        errors.check_choice(field, part, choices)
    return tuple(choice for part in parts for choice in choices if choice == part)


# Kinds of files, for errors about a file of the wrong kind

# By kind: its name, and the command or option that takes it.
WORDS = {
    "schedule": "a schedule, for `streamsim predict`",
    "workload": "a workload, for `streamsim predict`",
    "layers": "the layers of a model, for --layers",
    "loop": "a training loop, for `streamsim loop`",
    "device": "a device profile, for --device",
    "sweep": "the options of a sweep, for `streamsim sweep --file`",
    "record": "a record of measured runs, for `streamsim-validate compare`",
    "journal": "the journal of an unfinished record, for `streamsim-validate compare`",
    "samples": "calibration samples, for `streamsim-validate calibrate --from`",
    "trace": "a trace, for https://ui.perfetto.dev",
}
HEAD_BYTES = 1 << 16  # of a file, unpacked: its kind shows in them
LARGEST_TOML_BYTES = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"
# JSON by kind: a pattern that shows the kind. The first one that is found counts.
_JSON = {
    "journal": re.compile(rb'\A\s*\{"line":'),
    "record": re.compile(rb'"machine"\s*:'),
    "samples": re.compile(rb'"timings"\s*:'),
    "trace": re.compile(rb'"traceEvents"\s*:'),
    "schedule": re.compile(rb'"(?:ops|buffers|streams)"\s*:\s*\['),
}
# TOML by kind: names that only this kind has.
_TOML = {"device": {"compute", "host", "copy_engines"}, "workload": {"inputs", "outputs", "kernels"}}
_TOML |= {"layers": {"layers", "passes", "direction"}, "loop": {"batch", "sample", "batch_bytes", "step"}}
_TOML |= {"sweep": {"set", "h2d", "d2h", "kernel", "workload"}}


def mistaken_for(kind: str, data: bytes) -> str:
    """Return words such as ``"is calibration samples, ..."`` if ``data`` is empty or of another kind, else ``""``."""
    expected = WORDS[kind].partition(",")[0]
    if not data.strip() and kind in ("schedule", *_TOML):  # an empty packed file has an error of its own
        return f"is empty; expected {expected}"
    found = kind_of(data)
    if found in ("", kind):
        return f"is JSON; expected {expected}, in TOML" if kind in _TOML and data.lstrip()[:1] == b"{" else ""
    return f"is {WORDS[found]}; expected {expected}"


def kind_of(data: bytes) -> str:
    """Return the kind of a file from its content or its beginning: a key of ``WORDS``, or ``""`` if unknown."""
    head = _head(data)
    if head.lstrip()[:1] == b"{":
        return next((kind for kind, shape in _JSON.items() if shape.search(head)), "")
    try:
        names = set(tomllib.loads(data[:LARGEST_TOML_BYTES].decode()))
    except (ValueError, RecursionError):
        return ""
    return next((kind for kind, own in _TOML.items() if names & own), "workload" if "elements" in names else "")


def _head(data: bytes) -> bytes:
    if not data.startswith(GZIP_MAGIC):
        return data[:HEAD_BYTES]
    try:
        return zlib.decompressobj(wbits=31).decompress(data, HEAD_BYTES)
    except zlib.error:
        return b""
