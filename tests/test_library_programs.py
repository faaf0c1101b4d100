"""Programs in CuPy and PyTorch as ``streamsim code`` writes them, predicted, against what an H100 and an H200 took.

The profile and its front ends were calibrated on the same card just before; of each kernel the times of the whole and
of a chunk are known. What is promised is the table in docs/evidence.md, which these tests hold to what they find.
"""

from __future__ import annotations

from functools import cache
from statistics import median

import pytest
from documents import ROOT
from msgspec.structs import replace
from programs.libraries import (
    CHUNKS,
    ELEMENTS,
    FRONT_ENDS,
    Error,
    FrontEndName,
    Program,
    at_speed,
    device_of,
    drawn,
    errors,
    predicted_s,
    read_record,
    row,
)

from streamsim.compiled import available

pytestmark = pytest.mark.skipif(not available(), reason="numba is not installed")
CARDS = ("h100", "h200")
EVIDENCE = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")

# Median and 95th percentile in percent, just above what they are. Goals: 2 and 8 device-bound, 8 and 25 host-bound. On
# both cards the host made calls at two speeds meanwhile, up to 1.7 apart, and on the H100's PyTorch was 1.4 times as
# slow in the calibration as in the programs.
BOUNDS = {
    ("h100", "cupy", False): (1.9, 10.9),
    ("h100", "cupy", True): (19.5, 29.6),
    ("h100", "pytorch", False): (10.1, 77.2),
    ("h100", "pytorch", True): (47.7, 71.6),
    ("h200", "cupy", False): (2.5, 29.5),
    ("h200", "cupy", True): (6.9, 38.0),
    ("h200", "pytorch", False): (4.1, 36.8),
    ("h200", "pytorch", True): (11.4, 40.5),
}


@cache
def found(card: str) -> list[Error]:
    return errors(read_record(ROOT / "validate" / "records" / f"libraries-{card}.json.gz"))


def of_class(card: str, front_end: FrontEndName, host_bound: bool) -> list[Error]:
    return [one for one in found(card) if (one.program.front_end, one.host_bound) == (front_end, host_bound)]


@pytest.mark.parametrize(("card", "front_end", "host_bound"), BOUNDS)
def test_the_errors_are_within_their_bounds(card: str, front_end: FrontEndName, host_bound: bool) -> None:
    sizes = sorted(100 * abs(one.error) for one in of_class(card, front_end, host_bound))
    most_median, most_p95 = BOUNDS[card, front_end, host_bound]
    assert median(sizes) <= most_median
    assert sizes[int(0.95 * (len(sizes) - 1))] <= most_p95


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_the_page_says_what_was_found(card: str, front_end: FrontEndName) -> None:
    cells = " | ".join(row(of_class(card, front_end, host_bound)) for host_bound in (False, True))
    assert f"| {card.upper()}, {front_end} | {cells} |" in EVIDENCE


@pytest.mark.parametrize("card", CARDS)
def test_the_programs_are_those_of_the_seed(card: str) -> None:
    record = read_record(ROOT / "validate" / "records" / f"libraries-{card}.json.gz")
    count = len(record.programs) // len(FRONT_ENDS)
    for program, asked in zip(record.programs, drawn(record.seed, count), strict=True):
        assert {name: getattr(program, name) for name in asked} == asked
        assert program.elements in ELEMENTS
        assert program.chunks in CHUNKS
        assert min(program.wall_s) > 0


@pytest.mark.parametrize("card", CARDS)
def test_bare_calls_would_be_further_off(card: str) -> None:
    """What the front ends are worth: the same programs as if they made bare calls, all of them together."""
    record = read_record(ROOT / "validate" / "records" / f"libraries-{card}.json.gz")

    def error(program: Program) -> float:
        bare = predicted_s(program, device_of(record, "calls"))
        return abs(bare / median(program.wall_s) - 1)

    assert median(map(error, record.programs)) > 3 * median(abs(one.error) for one in found(card))


def test_a_slower_host_makes_all_of_its_calls_slower() -> None:
    record = read_record(ROOT / "validate" / "records" / "libraries-h200.json.gz")
    program, device = record.programs[0], device_of(record, record.programs[0].front_end)
    host = device.host
    round_s = 2 * (2 * host.copy_s + host.kernel_s + host.enter_s)
    slower = at_speed(device, replace(program, round_s=round_s))
    assert slower.host.copy_s == pytest.approx(2 * host.copy_s)
    assert slower.host.enter_s == pytest.approx(2 * host.enter_s)
    assert predicted_s(program, slower) > predicted_s(program, device)
