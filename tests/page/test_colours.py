"""The colours of bars: seen on an empty row, told apart in their row by the colour-blind, and those of the pictures."""

import re
from itertools import combinations

import pytest

from streamsim.page import viewer_text
from streamsim.report import BOUND_COLOUR, COLOURS, LOSS_COLOURS

STYLE = viewer_text(["style.css"])
LIGHT = dict(re.findall(r"--([\w-]+): (#\w{6});", STYLE.partition("@media")[0]))
DARK = LIGHT | dict(re.findall(r"--([\w-]+): (#\w{6});", STYLE.partition("@media")[2].partition("* {")[0]))
KINDS = ("h2d", "kernel", "d2h", "call", "held", "work", "pages", "note", "wait")  # in the order of COLOURS
TOGETHER = (("h2d", "kernel", "d2h"), ("call", "held", "work"))  # in one row
# What an eye without M cones sees of linear red, green and blue (Machado, Oliveira and Fernandes, 2009).
DEUTERANOPE = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)
Colour = tuple[float, ...]


def linear(colour: str) -> Colour:
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def times(matrix: tuple[Colour, ...], colour: Colour) -> Colour:
    return tuple(sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours by WCAG 2."""
    low, high = sorted(times(XYZ, linear(colour))[1] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def seen(colour: str) -> Colour:
    """The lightness and hue (CIE Lab) that a deuteranope sees."""
    xyz = times(XYZ, times(DEUTERANOPE, linear(colour)))
    x, y, z = (max(part / white, 0.0) ** (1 / 3) for part, white in zip(xyz, WHITE, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_bars_are_seen_on_an_empty_row_and_told_apart(theme: dict[str, str]) -> None:
    for kind in KINDS:
        assert contrast(theme[kind], theme["idle"]) >= 3, kind
        assert kind == "wait" or contrast(theme[kind], theme[f"on-{kind}"]) >= 4.5, kind
    for kinds in TOGETHER:
        for pair in combinations(kinds, 2):
            one, other = (seen(theme[kind]) for kind in pair)
            assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 > 20, pair
    for colour in (BOUND_COLOUR, *LOSS_COLOURS):
        assert contrast(colour, theme["paper"]) >= 3, colour
        assert contrast(colour, "#000000") >= 4.5, colour  # of their numbers


def test_pictures_have_the_light_colours() -> None:
    assert [LIGHT[kind].upper() for kind in KINDS] == list(COLOURS.values())
