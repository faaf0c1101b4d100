"""Two copies on a link, one each way, against the closed form of their overlap in exact fractions of a byte."""

from fractions import Fraction
from math import ceil
from typing import NamedTuple

import strategies as card
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from streamsim.device import LinkDirection
from streamsim.model import simulate

PARTS = 1 << 20  # bytes on the link are counted in parts of 2**-20


class Side(NamedTuple):
    """A copy: its direction's latency in ticks, its rates in parts of a byte per tick, its bytes."""

    latency: int
    alone: int
    shared: int
    n_bytes: int

    def link(self) -> LinkDirection:
        return card.link(self.latency, self.alone / PARTS, self.shared / PARTS)


@st.composite
def sides(draw: st.DrawFn) -> Side:
    alone = draw(st.integers(PARTS, 60 * PARTS))
    shared = draw(st.one_of(st.just(alone), st.integers(PARTS // 2, alone)))
    n_bytes = draw(st.one_of(st.integers(1, 100), st.integers(1, 10**9)))
    return Side(draw(st.one_of(st.integers(0, 5), st.integers(0, 10**6))), alone, shared, n_bytes)


def ticks(parts: Fraction | int, rate: int) -> int:
    return ceil(Fraction(parts) / rate)


def ends(first: Side, second: Side) -> tuple[int, int]:
    """When each ends if both are started at 0 and ``first`` begins to flow no later than ``second``."""
    begin = second.latency
    all_first, all_second = first.n_bytes * PARTS, second.n_bytes * PARTS
    alone = first.latency + ticks(all_first, first.alone)
    if alone <= begin:  # no overlap
        return alone, begin + ticks(all_second, second.alone)
    left = all_first - (begin - first.latency) * first.alone
    together = min(ticks(left, first.shared), ticks(all_second, second.shared))
    end_first = end_second = begin + together
    if left > together * first.shared:
        end_first += ticks(left - together * first.shared, first.alone)
    if all_second > together * second.shared:
        end_second += ticks(all_second - together * second.shared, second.alone)
    return end_first, end_second


@examples(300)
@given(sides(), sides())
def test_two_copies_slow_each_other_for_as_long_as_they_overlap(there: Side, back: Side) -> None:
    device = card.make_device(h2d=there.link(), d2h=back.link())
    timeline = simulate(card.plan(card.h2d(1, there.n_bytes), card.d2h(2, back.n_bytes)), device)
    expected = ends(there, back) if there.latency <= back.latency else ends(back, there)[::-1]
    assert tuple(timeline.end) == expected


@given(sides(), sides())
def test_the_directions_are_alike(there: Side, back: Side) -> None:
    one = simulate(
        card.plan(card.h2d(1, there.n_bytes), card.d2h(2, back.n_bytes), card.h2d(3, there.n_bytes)),
        card.make_device(h2d=there.link(), d2h=back.link()),
    )
    other = simulate(
        card.plan(card.d2h(1, there.n_bytes), card.h2d(2, back.n_bytes), card.d2h(3, there.n_bytes)),
        card.make_device(d2h=there.link(), h2d=back.link()),
    )
    assert (one.start, one.end) == (other.start, other.end)


@given(sides(), st.integers(1, 20))
def test_one_direction_alone_is_linear(side: Side, copies: int) -> None:
    """Whatever its rate beside the other direction: the engine is kept back to back."""
    device = card.make_device(h2d=side.link())
    timeline = simulate(card.plan(*(card.h2d(1 + i % 4, side.n_bytes) for i in range(copies))), device)
    each = side.latency + ticks(side.n_bytes * PARTS, side.alone)
    assert sorted(timeline.end) == [each * (i + 1) for i in range(copies)]
