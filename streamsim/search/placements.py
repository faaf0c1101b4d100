"""Lists of placements of layers: the layers that stay on the card, and the number of buffers for the others.

A placement is a row of booleans, True for each streamed layer, and a depth, the number of buffers. Each has its lower
bound (:mod:`~streamsim.search.offload_bounds`). If there are few placements, all that fit are listed. Otherwise only
good ones are: several orders of keeping layers until the memory is full give the first placements. Then single layers,
and pairs of layers, change sides as long as the bound falls.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamsim.search.offload_bounds import FEWEST_PASSES, Bools, Ints, LayerCosts, Room

MOST_LISTED, MOST_LISTED_CELLS = 1 << 17, 1 << 22  # placements, and layers times placements: about a second
MOST_NEIGHBOURS = 2000  # pairs of layers of one placement that change sides
MOST_CELLS = 7_000_000  # layers times passes times placements in the search of good ones: some seconds
MOST_STARTS = 12  # placements from which the search goes on
MOST_SIZES = 8  # sizes of the largest streamed layer that are tried
PARTS = 4  # the free memory is filled by a quarter, a half, three quarters and all
GOLDEN = (5**0.5 - 1) / 2
NEAR = 1.0001  # a bound within this factor of the floor ends the search
AT_LEAST = 300  # the fixed cost of a step of the search, in placements
SHAKEN, SHAKEN_LAYERS = 64, 4  # random placements in a step, and the mean number of layers that change in each


class Way(NamedTuple):
    """A placement of layers.

    ``bound``: a lower bound on its makespan, in ticks. ``device_bytes``: memory on the card. ``depth``: the number of
    buffers. ``streamed``: the numbers of the layers that do not stay on the card.
    """

    bound: int
    device_bytes: int
    depth: int
    streamed: tuple[int, ...]


class Ways(NamedTuple):
    """A list of placements.

    ``rows``: shape (placements, 4): the bound in ticks, the bytes on the card, the depth, and the placement's row of
    ``streamed``. ``streamed``: shape (rows, layers), True for streamed layers.
    """

    rows: Ints
    streamed: Bools

    def in_order(self) -> Iterator[Way]:
        """Yield the placements, the lowest bound first; for equal bounds, the least memory first."""
        return self._sorted(self.rows, (3, 2, 1, 0))

    def leanest(self, most: int) -> Iterator[Way]:
        """Yield the placements whose bounds are at most ``most`` ticks, the least memory first."""
        return self._sorted(self.rows[self.rows[:, 0] <= most], (3, 2, 0, 1))

    def _sorted(self, rows: Ints, keys: tuple[int, ...]) -> Iterator[Way]:
        order = np.lexsort([rows[:, key] for key in keys])
        for bound, held, depth, at in map(np.ndarray.tolist, rows[order]):
            yield Way(bound, held, depth, tuple(np.flatnonzero(self.streamed[at]).tolist()))


class Space:
    """The space of placements of the layers of ``costs`` in ``room``, over at most ``most_depth`` buffers."""

    def __init__(self, costs: LayerCosts, room: Room, most_depth: int) -> None:
        self._costs, self._room = costs, room
        self._n = len(costs.weights)
        self._depths = range(1, min(most_depth, self._n) + 1)
        self._cells = 0  # what is left of MOST_CELLS

    def all_ways(self) -> Ways | None:
        """Return every placement that fits; None if there are too many to list."""
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
        """Return every set of layers that can be streamed over ``depth`` buffers; None for more than ``most`` sets.

        The layers are ordered by falling size. For each layer as the largest streamed one, the larger layers stay. Any
        set of the smaller layers may stay as well if it fits into the memory that is left.
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
            for layer in order[:k:-1] if left >= 0 else ():  # the smallest first, so that few sets do not fit
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
        """Return some good placements that fit. The search ends at a bound near ``floor`` ticks, the limit of all."""
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
        """Yield ever better placements, each the best neighbour of the one before it."""
        while self._cells > 0 and way.bound > enough:
            around = self._neighbours(way)
            self._spend(len(around))
            nearest = min(self._ways(around, way.depth), default=way)
            if nearest[:2] >= way[:2]:
                break
            way = nearest
            yield way

    def _shaken(self, way: Way, random: np.random.Generator) -> Bools:
        """Return ``SHAKEN`` copies of a placement in which random layers change between kept and streamed."""
        (row,) = self._rows([way.streamed])
        several: Bools = random.random((SHAKEN, self._n)) < SHAKEN_LAYERS / self._n
        self._spend(SHAKEN)
        found: Bools = row ^ several
        return found

    def _spend(self, ways: int) -> None:
        self._cells -= (ways + AT_LEAST) * len(self._costs.turns) * min(self._costs.passes, FEWEST_PASSES)

    def _rows(self, streamed: Sequence[Sequence[int]]) -> Bools:
        found = np.zeros((len(streamed), self._n), dtype=bool)
        for row, numbers in zip(found, streamed, strict=True):
            row[list(numbers)] = True
        return found

    def device_bytes(self, streamed: Bools, depth: int) -> Ints:
        """Return the bytes that placements hold on the card, shape (placements,)."""
        weights = self._costs.weights
        largest = np.where(streamed, weights, 0).max(axis=1)
        found: Ints = (~streamed) @ weights + depth * largest
        return found

    def _fits(self, streamed: Bools, depth: int) -> Bools:
        """Return True for placements that fit and can use ``depth`` buffers; without streamed layers the depth is 1."""
        count = streamed.sum(axis=1)
        fits = self.device_bytes(streamed, depth) <= self._room.card
        fits &= (count >= depth) | ((count == 0) & (depth == 1))
        if self._room.pinned is not None:
            fits &= streamed @ self._costs.weights <= self._room.pinned
        return fits

    def _ways(self, streamed: Bools, depth: int) -> Iterator[Way]:
        """Yield the placements that fit, with their bounds."""
        streamed = streamed[self._fits(streamed, depth)]
        bounds, needed = self._costs.bounds(streamed, depth), self.device_bytes(streamed, depth)
        for bound, n_bytes, row in zip(bounds.tolist(), needed.tolist(), streamed, strict=True):
            yield Way(bound, n_bytes, depth, tuple(np.flatnonzero(row).tolist()))

    # Good ones

    def _starts(self, depth: int) -> Iterator[Bools]:
        """Yield first placements: for some sizes of the largest streamed layer, keep others in several orders."""
        weights = self._costs.weights
        sizes = np.unique(weights)[::-1]
        for largest in sizes[:: max(1, len(sizes) // MOST_SIZES)]:
            may = weights <= largest
            left = min(self._room.card - depth * int(largest) - int(weights[~may].sum()), int(weights[may].sum()))
            for order in self._orders(np.flatnonzero(may)):
                yield from (self._filled(may, order, left * part // PARTS) for part in range(1, PARTS + 1))
        yield np.zeros(self._n, dtype=bool)

    def _orders(self, layers: Ints) -> Iterator[Ints]:
        """Yield the orders in which layers are kept.

        The orders: the first layer first, the last first, the largest first, the copy that most exceeds its
        kernels first, evenly spread.
        """
        yield layers
        yield layers[::-1]
        yield layers[np.argsort(-self._costs.weights[layers], kind="stable")]
        copies = len(self._costs.sides) * self._costs.copies
        yield layers[np.argsort((self._costs.pass_runs - copies)[layers], kind="stable")]
        places = np.arange(len(layers)) * GOLDEN % 1  # any number of the first places is evenly spread
        yield layers[np.argsort(np.argsort(places))]

    def _filled(self, may: Bools, order: Ints, left: int) -> Bools:
        """Return the streamed layers if layers are kept in this order as long as ``left`` bytes last."""
        streamed, weights = may.copy(), self._costs.weights
        for layer in order:
            if weights[layer] <= left:
                streamed[layer] = False
                left -= int(weights[layer])
        return streamed

    def _neighbours(self, way: Way) -> Bools:
        """Return the neighbours of a placement: one layer changes sides, or a kept and a streamed one trade places.

        Of more than ``MOST_NEIGHBOURS`` pairs, a random choice is taken.
        """
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
    """Return the best placement of each depth, and the best few of all."""
    first = {way.depth: way for way in reversed(ways)}
    return list(dict.fromkeys([*first.values(), *ways[:MOST_STARTS]]))
