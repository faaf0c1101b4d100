"""Ways to place layers, those that stay on the card and how many buffers the others take turns over: lists of them.

A way is a row of booleans, which layers are streamed, and a depth. Where they are few, all ways that fit are listed,
each with its lower bound (:mod:`~streamsim.search.offload_bounds`); else good ones: layers are kept on the card until
there is no room for more, spread in several manners, and then single layers, and pairs of them, change places for as
long as the bound falls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamsim.search.offload_bounds import FEWEST_PASSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamsim.search.offload_bounds import Bools, Ints, LayerCosts, Room

MOST_LISTED, MOST_LISTED_CELLS = 1 << 17, 1 << 22  # ways, and layers of all of them: they take a second or so
MOST_NEIGHBOURS = 2000  # pairs of layers that change places, of one way
MOST_CELLS = 7_000_000  # layers times passes times ways that are looked at: some seconds
MOST_STARTS = 12  # from which is searched further
MOST_SIZES = 8  # of the largest streamed layer
PARTS = 4  # of the room that is left, more and more of which is used
GOLDEN = (5**0.5 - 1) / 2
NEAR = 1.0001
AT_LEAST = 300  # ways that one costs as much as
SHAKEN, SHAKEN_LAYERS = 64, 4  # ways that are drawn at random, and how many layers change in each of them


class Way(NamedTuple):
    """``bound``: ticks before which it cannot end. ``streamed``: the numbers of the layers that do not stay."""

    bound: int
    device_bytes: int
    depth: int
    streamed: tuple[int, ...]


class Ways(NamedTuple):
    """A list of them: in a row the bound, bytes on the card, the depth, and which row of ``streamed`` is its own."""

    rows: Ints
    streamed: Bools

    def in_order(self) -> Iterator[Way]:
        """The lowest bound first, of equals the one that needs least memory."""
        return self._sorted(self.rows, (3, 2, 1, 0))

    def leanest(self, most: int) -> Iterator[Way]:
        """Those that may end by the tick ``most``, the one that needs least memory first."""
        return self._sorted(self.rows[self.rows[:, 0] <= most], (3, 2, 0, 1))

    def _sorted(self, rows: Ints, keys: tuple[int, ...]) -> Iterator[Way]:
        order = np.lexsort([rows[:, key] for key in keys])
        for bound, held, depth, at in map(np.ndarray.tolist, rows[order]):
            yield Way(bound, held, depth, tuple(np.flatnonzero(self.streamed[at]).tolist()))


class Space:
    """All ways to place the layers of ``costs`` in ``room``, over ``most_depth`` buffers at most."""

    def __init__(self, costs: LayerCosts, room: Room, most_depth: int) -> None:
        self._costs, self._room = costs, room
        self._n = len(costs.weights)
        self._depths = range(1, min(most_depth, self._n) + 1)
        self._cells = 0  # that may still be looked at

    def all_ways(self) -> Ways | None:
        """Every way that fits; None where they are too many to be listed."""
        rows, sets, total = [np.zeros((0, 4), np.int64)], [np.zeros((0, self._n), bool)], 0
        for depth in self._depths:
            found = self._all_sets(depth, MOST_LISTED - total)
            if found is None:
                return None
            found = found[self._fits(found, depth)]
            bounds, n_bytes = self._costs.bounds(found, depth), self.device_bytes(found, depth)
            numbers = np.arange(total, total + len(found))
            rows.append(np.stack([bounds, n_bytes, np.full(len(found), depth), numbers], axis=1))
            sets.append(found)
            total += len(found)
        return Ways(np.concatenate(rows), np.concatenate(sets))

    def _all_sets(self, depth: int, most: int) -> Bools | None:
        """Every set of layers that can be streamed over so many buffers; None where they are more than ``most``.

        By the largest of them, of equals the first: those before it in this order stay, of those behind it any that the
        room that is left can hold.
        """
        weights = self._costs.weights
        order = np.argsort(-weights, kind="stable")
        found = [np.zeros((1, self._n), bool)] if depth == 1 else []
        total = len(found)
        for k, largest in enumerate(order):
            left = self._room.card - depth * int(weights[largest]) - int(weights[order[:k]].sum())
            streamed = np.zeros((1, self._n), bool)
            streamed[0, order[k:]] = True
            held = np.zeros(1, np.int64)
            for layer in order[:k:-1] if left >= 0 else ():  # the smallest first, so that few sets are made in vain
                more = held + weights[layer] <= left
                kept = streamed[more]
                kept[:, layer] = False
                streamed = np.concatenate([streamed, kept])
                held = np.concatenate([held, held[more] + weights[layer]])
                if total + len(streamed) > most or streamed.size > MOST_LISTED_CELLS:
                    return None
            if left >= 0:
                found.append(streamed)
                total += len(streamed)
            if total > most:
                return None
        return np.concatenate(found) if found else np.zeros((0, self._n), bool)

    def good_ways(self, floor: int) -> Ways:
        """Some ways that fit; none can end before the tick ``floor``, so one near it is good enough."""
        found: set[Way] = set()
        for depth in self._depths:
            found.update(self._ways(np.array([*self._starts(depth)]), depth))
        self._cells = MOST_CELLS
        enough = int(floor * NEAR)
        for way in _unlike(sorted(found)):
            found.update(self._climbed(way, enough))
        random = np.random.default_rng(len(found))
        while found and self._cells > 0 and min(found).bound > enough:
            best = min(found)
            shaken = min(self._ways(self._shaken(best, random), best.depth), default=best)
            found.update(self._climbed(shaken, enough))
        ways = sorted(found)
        rows = [(way.bound, way.device_bytes, way.depth, at) for at, way in enumerate(ways)]
        return Ways(np.array(rows, np.int64).reshape(-1, 4), self._rows([way.streamed for way in ways]))

    def _climbed(self, way: Way, enough: int) -> Iterator[Way]:
        """The ways that single moves lead to, each to the best neighbour."""
        while self._cells > 0 and way.bound > enough:
            around = self._neighbours(way)
            self._spend(len(around))
            nearest = min(self._ways(around, way.depth), default=way)
            if nearest[:2] >= way[:2]:
                break
            way = nearest
            yield way

    def _shaken(self, way: Way, random: np.random.Generator) -> Bools:
        """The way with some layers, drawn at random, kept or streamed in place of the other."""
        (row,) = self._rows([way.streamed])
        several: Bools = random.random((SHAKEN, self._n)) < SHAKEN_LAYERS / self._n
        self._spend(SHAKEN)
        found: Bools = row ^ several
        return found

    def _spend(self, ways: int) -> None:
        self._cells -= (ways + AT_LEAST) * self._n * min(self._costs.passes, FEWEST_PASSES)

    def _rows(self, streamed: Sequence[Sequence[int]]) -> Bools:
        found = np.zeros((len(streamed), self._n), dtype=bool)
        for row, numbers in zip(found, streamed, strict=True):
            row[list(numbers)] = True
        return found

    def device_bytes(self, streamed: Bools, depth: int) -> Ints:
        """What ways hold on the card."""
        weights = self._costs.weights
        largest = np.where(streamed, weights, 0).max(axis=1)
        found: Ints = (~streamed) @ weights + depth * largest
        return found

    def _fits(self, streamed: Bools, depth: int) -> Bools:
        """Which ways fit and can use so many buffers; without anything to stream there is one buffer."""
        count = streamed.sum(axis=1)
        fits = self.device_bytes(streamed, depth) <= self._room.card
        fits &= (count >= depth) | ((count == 0) & (depth == 1))
        if self._room.pinned is not None:
            fits &= streamed @ self._costs.weights <= self._room.pinned
        return fits

    def _ways(self, streamed: Bools, depth: int) -> Iterator[Way]:
        """With their bounds, less what does not fit."""
        streamed = streamed[self._fits(streamed, depth)]
        bounds, needed = self._costs.bounds(streamed, depth), self.device_bytes(streamed, depth)
        for bound, n_bytes, row in zip(bounds.tolist(), needed.tolist(), streamed, strict=True):
            yield Way(bound, n_bytes, depth, tuple(np.flatnonzero(row).tolist()))

    # Good ones

    def _starts(self, depth: int) -> Iterator[Bools]:
        """For some sizes of the largest streamed layer: others kept, in several orders and more and more of them."""
        weights = self._costs.weights
        sizes = np.unique(weights)[::-1]
        for largest in sizes[:: max(1, len(sizes) // MOST_SIZES)]:
            may = weights <= largest
            left = min(self._room.card - depth * int(largest) - int(weights[~may].sum()), int(weights[may].sum()))
            for order in self._orders(np.flatnonzero(may)):
                yield from (self._filled(may, order, left * part // PARTS) for part in range(1, PARTS + 1))
        yield np.zeros(self._n, dtype=bool)

    def _orders(self, layers: Ints) -> Iterator[Ints]:
        """In which order layers are kept: from the first, from the last, the largest first, evenly spread."""
        yield layers
        yield layers[::-1]
        yield layers[np.argsort(-self._costs.weights[layers], kind="stable")]
        yield layers[np.argsort(self._costs.runs[layers] - self._costs.copies[layers], kind="stable")]
        places = np.arange(len(layers)) * GOLDEN % 1  # the first few of them are spread evenly, however few
        yield layers[np.argsort(np.argsort(places))]

    def _filled(self, may: Bools, order: Ints, left: int) -> Bools:
        """What is streamed when those that may be are kept, in this order, as long as so many bytes last."""
        streamed, weights = may.copy(), self._costs.weights
        for layer in order:
            if weights[layer] <= left:
                streamed[layer] = False
                left -= int(weights[layer])
        return streamed

    def _neighbours(self, way: Way) -> Bools:
        """One layer kept or streamed in place of the other, or two that change places; of many pairs some."""
        (row,) = self._rows([way.streamed])
        one = row ^ np.eye(self._n, dtype=bool)
        kept, gone = np.meshgrid(np.flatnonzero(~row), np.flatnonzero(row), indexing="ij")
        pairs: Any = np.stack([kept.ravel(), gone.ravel()], axis=1)
        if len(pairs) > MOST_NEIGHBOURS:
            pairs = np.random.default_rng(len(pairs)).permutation(pairs)[:MOST_NEIGHBOURS]
        two = np.repeat(row[None], len(pairs), axis=0)
        two[np.arange(len(pairs)), pairs[:, 0]] = True
        two[np.arange(len(pairs)), pairs[:, 1]] = False
        return np.concatenate([one, two])


def _unlike(ways: list[Way]) -> list[Way]:
    """The best few, and the best of each depth."""
    first = {way.depth: way for way in reversed(ways)}
    return list(dict.fromkeys([*first.values(), *ways[:MOST_STARTS]]))
