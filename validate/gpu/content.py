"""The content of a buffer, described by stretches of repeating patterns instead of held.

The host's data repeat, poison repeats, and so do the outputs of kernels that work element by element. So the content of
any buffer of a schedule is known without its bytes, whatever its size. Copies move descriptions, and the card's output
is compared with the pattern row by row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

ROW_BYTES = 1 << 16  # a row that is compared or filled in one go has at least so many


@dataclass(eq=False)
class Pattern:
    """Bytes that repeat. Two patterns are equal only if they are the same object.

    ``tolerance``: how far the card's float32 may be from these; 0 if every byte must agree. ``accepted``: a row of the
    card's output that was within the tolerance. A row that equals it byte for byte is accepted at once, because bytes
    compare much faster.
    """

    values: Bytes
    tolerance: float = 0.0
    accepted: Bytes | None = None

    @cached_property
    def row(self) -> Bytes:
        """The values, repeated until they are worth a call."""
        times = -(-ROW_BYTES // len(self.values))
        return np.tile(self.values, times) if times > 1 else self.values

    def takes(self, got: Bytes, first: int) -> bool:
        """Return whether ``got`` may stand from byte ``first`` of the row on."""
        want = self.row[first : first + len(got)]
        if _same(got, want):
            return True
        if self.accepted is not None and _same(got, self.accepted[first : first + len(got)]):
            return True
        if not self.tolerance or self.far(got, want, first).any():
            return False
        if len(got) == len(self.row):
            self.accepted = got.copy()
        return True

    def far(self, got: Bytes, want: Bytes, first: int) -> NDArray[np.bool_]:
        """Return a mask of the bytes of ``got`` that are too far from ``want``, from byte ``first`` of the row on.

        All four bytes of a float that is too far are marked. The bytes of a float that is cut off must be equal.
        """
        wrong: NDArray[np.bool_] = got != want
        if self.tolerance:
            lead = -first % 4
            floats = slice(lead, lead + (len(got) - lead) // 4 * 4)
            is_far = _far_floats(got[floats].view(np.float32), want[floats].view(np.float32), self.tolerance)
            wrong[floats] = np.repeat(is_far, 4)
        return wrong


class Stretch(NamedTuple):
    """``bytes`` bytes of a pattern, from its byte ``phase`` on."""

    pattern: Pattern
    phase: int
    bytes: int

    def part(self, offset: int, n_bytes: int) -> Stretch:
        """Return ``n_bytes`` of its bytes, from ``offset`` on."""
        return Stretch(self.pattern, (self.phase + offset) % len(self.pattern.values), n_bytes)

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Yield (begin, end, first byte in the pattern's row) of the pieces of it that lie within one row."""
        length = len(self.pattern.row)
        begin, first = 0, self.phase
        while begin < self.bytes:
            end = min(self.bytes, begin + length - first)
            yield begin, end, first
            begin, first = end, 0

    def fill(self, target: Bytes) -> None:
        """Write the bytes to an array of the same size."""
        row = self.pattern.row
        for begin, end, first in self.rows():
            target[begin:end] = row[first : first + end - begin]

    def far(self, got: Bytes) -> NDArray[np.bool_]:
        """Return a mask of the bytes of an array of the same size that are too far from it."""
        return self.pattern.far(got, to_bytes([self]), self.phase)

    def is_in(self, got: Bytes) -> bool:
        """Return whether an array of the same size holds it, within the pattern's tolerance."""
        return all(self.pattern.takes(got[begin:end], first) for begin, end, first in self.rows())


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the same bytes in the fewest stretches."""
    found: list[Stretch] = []
    for stretch in stretches:
        last = found[-1] if found else None
        if last and last.pattern is stretch.pattern and last.part(last.bytes, 0).phase == stretch.phase:
            found[-1] = last._replace(bytes=last.bytes + stretch.bytes)
        else:
            found.append(stretch)
    return found


def first_of(stretches: Iterable[Stretch], n_bytes: int) -> Iterator[Stretch]:
    """Yield the first bytes of the stretches."""
    for stretch in stretches:
        if n_bytes:
            yield stretch.part(0, min(n_bytes, stretch.bytes))
            n_bytes -= min(n_bytes, stretch.bytes)


def to_bytes(stretches: Iterable[Stretch]) -> Bytes:
    """Return the bytes themselves."""
    stretches = list(stretches)
    found = np.empty(sum(stretch.bytes for stretch in stretches), np.uint8)
    begin = 0
    for stretch in stretches:
        stretch.fill(found[begin : begin + stretch.bytes])
        begin += stretch.bytes
    return found


class Content:
    """The content of a buffer of ``n_bytes``: at first one pattern from its beginning."""

    def __init__(self, n_bytes: int, pattern: Pattern) -> None:
        self._starts = [0]
        self._stretches = [Stretch(pattern, 0, n_bytes)]

    def read(self, offset: int, n_bytes: int) -> list[Stretch]:
        """Return the fewest stretches of a region."""
        i, j = self._within(offset, offset + n_bytes)
        found = []
        for start, stretch in zip(self._starts[i:j], self._stretches[i:j], strict=True):
            begin, end = max(offset, start), min(offset + n_bytes, start + stretch.bytes)
            found.append(stretch.part(begin - start, end - begin))
        return joined(found)

    def write(self, offset: int, stretches: Iterable[Stretch]) -> None:
        """Put the stretches there, from byte ``offset`` on."""
        new = list(stretches)
        end = offset + sum(stretch.bytes for stretch in new)
        i, j = self._within(offset, end)
        first, last = self._starts[i], self._starts[j - 1] + self._stretches[j - 1].bytes
        pieces = [*self.read(first, offset - first), *new, *self.read(end, last - end)]
        starts = first + np.cumsum([0, *(stretch.bytes for stretch in pieces[:-1])])
        self._starts[i:j], self._stretches[i:j] = starts.tolist(), pieces

    def _within(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first and the last + 1 of the stretches that have bytes there."""
        return bisect_right(self._starts, begin) - 1, bisect_left(self._starts, end)


def _same(a: Bytes, b: Bytes) -> bool:
    words = len(a) // 8 * 8  # compared eight bytes at a time
    same = np.array_equal(a[:words].view(np.uint64), b[:words].view(np.uint64))
    return same and np.array_equal(a[words:], b[words:])


def _far_floats(got: NDArray[np.float32], want: NDArray[np.float32], tolerance: float) -> NDArray[np.bool_]:
    """Return a mask of the floats that are neither within the tolerance nor the same bits."""
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(got - want) <= tolerance
    far: NDArray[np.bool_] = ~(near | (got.view(np.uint32) == want.view(np.uint32)))
    return far
