"""Placements of layers that do not all fit on the card, and lower bounds on the time of each.

A placement is a row of booleans, True for each streamed layer, and a depth, the number of buffers over which these
layers take turns. Of few layers, all placements are listed. Otherwise only good ones are: several orders of keeping
layers until the memory is full give the first placements. Then single layers, and pairs of layers, change sides as long
as the bound falls.

**The bound of a placement.** Copies run one after another in one stream, and layers in another one. Let r(i) be the
time of the kernels of turn i alone, and c(i) the time of its copy alone. Then, with the host's calls in between,

    a copy ends no earlier than    c(i) after the later of: the copy before it; the layer that used its buffer; its own
                                   call
    a layer ends no earlier than   r(i) after the later of: the layer before it; its copy; its call

Hand-overs are left out, as an op that comes late has none. Other effects, such as crowds or one engine for both
directions, only make ops end later. The numbers of many placements are columns of numpy arrays, so that thousands cost
little more than one. The bound goes through the first few passes. Each later pass takes at least the time of all its
kernels, and that of all its copies.

**The bound of all placements.** The kernels run one after another. What the card cannot hold of the layers is copied in
each sweep over them, in one direction.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streamsim.device import Device
from streamsim.lowering import BYTE_BITS, call_ticks, kernel_cost, rate_of, surcharges_of
from streamsim.program import Copy, Kernel, Layers, RecordEvent, WaitEvent
from streamsim.rules import ticks

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

FEWEST_PASSES = 4  # that a bound goes through
MOST_LISTED = 14  # layers of which all placements are listed
MOST_NEIGHBOURS = 2000  # pairs of layers of one placement that change sides
MOST_CELLS = 7_000_000  # layers times passes times placements in the search of good ones: some seconds
MOST_STARTS = 12  # placements from which the search goes on
MOST_SIZES = 8  # sizes of the largest streamed layer that are tried
PARTS = 4  # the free memory is filled by a quarter, a half, three quarters and all
GOLDEN = (5**0.5 - 1) / 2
NEAR = 1.0001  # a bound within this factor of the floor ends the search
AT_LEAST = 300  # the fixed cost of a step of the search, in placements
SHAKEN, SHAKEN_LAYERS = 64, 4  # random placements in a step, and the mean number of layers that change in each


class WeightRoom(NamedTuple):
    """Bytes that weights may take: on the card, and pinned on the host (None: any number)."""

    card: int
    pinned: int | None = None


class Placement(NamedTuple):
    """A placement of layers.

    ``bound``: a lower bound on its makespan, in ticks. ``device_bytes``: memory on the card. ``depth``: the number of
    buffers. ``streamed``: the numbers of the layers that do not stay on the card.
    """

    bound: int
    device_bytes: int
    depth: int
    streamed: tuple[int, ...]


class LayerCosts:
    """The costs of a model's layers on a device, in whole ticks, as the model prices them.

    - ``weights``, ``copies``: bytes and ticks of the copy of each layer, shape (layers,).
    - ``runs``, ``launches``: ticks and number of the kernels of each layer, shape (2, layers): forward and backward.
    - ``turns``: the turns of a pass; ``returns``: True if a pass goes forward and then backward.
    """

    def __init__(self, layers: Layers, device: Device) -> None:
        steps = layers.steps
        calls = call_ticks("live", device)
        self.passes, self.turns, self.returns = layers.passes, layers.turns, layers.direction == "both"
        self.fetch_call = calls[Copy] + calls[RecordEvent]
        self.copy_call, self.kernel_call = calls[Copy], calls[Kernel]
        self.wait_call, self.record_call = calls[WaitEvent], calls[RecordEvent]
        self.submit, self.enter = ticks(device.host.submit_s), surcharges_of("live", device).enter
        launches = [[step.launches(is_backward) for step in steps] for is_backward in (False, True)]
        self.launches = np.array([[len(some) for some in side] for side in launches], np.int64)
        self.weights = np.array([step.weight_bytes for step in steps], np.int64)
        self.copies = np.array([_copy_ticks(device, step.weight_bytes) for step in steps], np.int64)
        alone = [[sum(kernel_cost(device, op).duration for op in some) for some in side] for side in launches]
        self.runs = np.array(alone, np.int64)

    @property
    def sides(self) -> list[int]:
        """The rows of ``runs`` and ``launches`` that a pass has: 0 if it goes forward, 1 if it goes backward."""
        return sorted({int(turn.is_backward) for turn in self.turns})

    @property
    def pass_runs(self) -> Ints:
        """Ticks of the kernels of each layer in a pass, shape (layers,)."""
        found: Ints = self.runs[self.sides].sum(axis=0)
        return found

    @property
    def pass_launches(self) -> int:
        """The number of kernels in a pass."""
        return int(self.launches[self.sides].sum())

    @property
    def all_runs(self) -> int:
        """Ticks of the kernels of a pass, without copies."""
        return int(self.pass_runs.sum())

    @property
    def last_run(self) -> int:
        """Ticks of the kernels of the last turn."""
        return int(self.runs[int(self.turns[-1].is_backward), self.turns[-1].number])

    def bounds(self, streamed: Bools, depth: int, most_passes: int = FEWEST_PASSES) -> Ints:
        """Return lower bounds on the makespans of placements in ticks, shape (placements,).

        - ``streamed``: True for streamed layers, at least ``depth`` in each row, shape (placements, layers).
        - ``most_passes``: the number of passes that the bound goes through.
        """
        found = _Progress(self, streamed, depth)
        gone_through = min(self.passes, most_passes)
        for _ in range(gone_through):
            for number, is_backward in self.turns:
                found.run(number, int(is_backward))
        more = self.passes - gone_through
        if not more:
            return found.now
        last_copy: Ints = found.copied + more * self._copied_again(streamed, depth) + self.last_run
        return np.maximum(found.now + more * self.all_runs, last_copy)

    def _copied_again(self, streamed: Bools, depth: int) -> Ints:
        """Return the ticks of all copies of a pass but the first one, shape (placements,)."""
        if not self.returns:
            all_copies: Ints = streamed @ self.copies
            return all_copies
        items = np.cumsum(streamed, axis=1) - 1
        times = 1 * (items >= depth) + (items < items[:, -1:] + 1 - depth)  # forward and backward
        found: Ints = (streamed * times) @ self.copies
        return found

    def floor(self, room: WeightRoom) -> int:
        """Return a lower bound in ticks over all placements; if none fits, it need not be one."""
        kernels, total = self.passes * self.all_runs, int(self.weights.sum())
        if total <= room.card:
            return kernels
        sizes = [size for size in self.weights.tolist() if self._kept_beside(size) <= room.card]
        buffer = (
            0 if self.returns else min(sizes, default=0)
        )  # of passes in one direction, it holds nothing for the next
        per_byte = float((self.copies / self.weights).min())
        copied = math.floor(self.passes * len(self.sides) * (total - room.card + buffer) * per_byte)
        return max(copied + self.last_run, kernels)

    def _kept_beside(self, size: int) -> int:
        """Return the bytes on the card if the largest streamed layer has ``size`` bytes: larger layers and a buffer."""
        return size + int(self.weights[self.weights > size].sum())


def _copy_ticks(device: Device, n_bytes: int) -> int:
    return rate_of(device, "h2d", n_bytes, False).duration(n_bytes << BYTE_BITS)


class _Progress:
    """The earliest progress of the card and the host, for each of many placements: one number each in each array.

    Items are numbered as in :meth:`streamsim.program.offload.Offload.schedule`.
    """

    def __init__(self, costs: LayerCosts, streamed: Bools, depth: int) -> None:
        ways = len(streamed)
        self._costs, self._streamed, self._depth = costs, streamed, depth
        self._each = np.arange(ways)
        self._item = np.zeros(ways, np.int64)
        self._side, self._has_turned = int(costs.turns[0].is_backward), False
        self._items = streamed.sum(axis=1) * (1 if costs.returns else costs.passes)
        self.now = np.zeros(ways, np.int64)  # the end of the last layer
        self.copied = np.zeros(ways, np.int64)
        # For each buffer, the earliest start of its next copy: after the layer that used it, and its call.
        self._free = np.empty((depth, ways), np.int64)
        first = costs.enter + costs.copy_call
        self._free[:] = (first + costs.fetch_call * np.arange(depth) + costs.submit)[:, None]
        self._host = np.where(self._items > 0, costs.enter + depth * costs.fetch_call, 0)
        self._enter = np.full(ways, costs.enter, np.int64)  # what the next kernel's stream takes to be entered

    def run(self, number: int, side: int) -> None:
        """Add the turn of a layer, and the copy into the buffer that it makes free. ``side``: 1 if it is backward."""
        costs, own = self._costs, self._streamed[:, number]
        if side != self._side:
            self._side, self._has_turned = side, True
            self._item -= 2 * side - 1  # the layer of the last turn is the first one again
        comes, fetches = self._copied(own)
        slot = self._item % self._depth
        free = self._free[slot, self._each]
        self.copied = np.where(comes, np.maximum(self.copied, free) + costs.copies[number], self.copied)
        issued = self._host + self._enter + costs.kernel_call + costs.wait_call * comes
        start = np.maximum(self.now, issued + costs.submit)
        start = np.where(own, np.maximum(start, self.copied), start)
        self.now = start + costs.runs[side, number]
        self._host = issued + costs.kernel_call * (costs.launches[side, number] - 1) + costs.record_call * own
        called = self._host + costs.wait_call + costs.enter + costs.copy_call
        freed = np.maximum(self.now, called + costs.submit)
        self._free[slot, self._each] = np.where(fetches, freed, free)
        self._host = np.where(fetches, called + costs.record_call, self._host)
        self._enter = np.where(fetches, costs.enter, 0)
        if self._costs.returns and side:
            self._item -= own
        else:
            self._item += own

    def _copied(self, own: Bools) -> tuple[Bools, Bools]:
        """Return for which placements a turn's layer was copied for it, and a copy into its buffer follows it."""
        after: Bools = own & (self._item + self._depth < self._items)
        if not self._costs.returns:
            return own, after
        before: Bools = own & (self._item >= self._depth)
        if self._side:
            return after, before
        return (before if self._has_turned else own), after


class Space:
    """The space of placements of the layers of ``costs`` in ``room``, over at most ``most_depth`` buffers."""

    def __init__(self, costs: LayerCosts, room: WeightRoom, most_depth: int) -> None:
        self._costs, self._room = costs, room
        self._n = len(costs.weights)
        self._depths = range(1, min(most_depth, self._n) + 1)
        self._cells = 0  # what is left of MOST_CELLS

    def all_ways(self) -> list[Placement] | None:
        """Return every placement that fits, the lowest bound first; None if there are too many to list."""
        if self._n > MOST_LISTED:
            return None
        sets = (np.arange(1 << self._n)[:, None] >> np.arange(self._n)) & 1 == 1
        return sorted(way for depth in self._depths for way in self._ways(sets, depth))

    def good_ways(self) -> list[Placement]:
        """Return some good placements that fit, the lowest bound first."""
        found: set[Placement] = set()
        for depth in self._depths:
            found.update(self._ways(np.array([*self._starts(depth)]), depth))
        self._cells = MOST_CELLS
        enough = int(self._costs.floor(self._room) * NEAR)
        for way in _unlike(sorted(found)):
            found.update(self._climbed(way, enough))
        random = np.random.default_rng(len(found))
        while found and self._cells > 0 and min(found).bound > enough:
            best = min(found)
            shaken = min(self._ways(self._shaken(best, random), best.depth), default=best)
            found.update(self._climbed(shaken, enough))
        return sorted(found)

    def _climbed(self, way: Placement, enough: int) -> Iterator[Placement]:
        """Yield ever better placements, each the best neighbour of the one before it."""
        while self._cells > 0 and way.bound > enough:
            around = self._neighbours(way)
            self._spend(len(around))
            nearest = min(self._ways(around, way.depth), default=way)
            if nearest[:2] >= way[:2]:
                break
            way = nearest
            yield way

    def _shaken(self, way: Placement, random: np.random.Generator) -> Bools:
        """Return ``SHAKEN`` copies of a placement in which random layers change between kept and streamed."""
        row = self._row(way)
        several: Bools = random.random((SHAKEN, self._n)) < SHAKEN_LAYERS / self._n
        self._spend(SHAKEN)
        found: Bools = row ^ several
        return found

    def _spend(self, ways: int) -> None:
        self._cells -= (ways + AT_LEAST) * len(self._costs.turns) * min(self._costs.passes, FEWEST_PASSES)

    def _row(self, way: Placement) -> Bools:
        found = np.zeros(self._n, dtype=bool)
        found[list(way.streamed)] = True
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

    def _ways(self, streamed: Bools, depth: int) -> Iterator[Placement]:
        """Yield the placements that fit, with their bounds."""
        streamed = streamed[self._fits(streamed, depth)]
        bounds, needed = self._costs.bounds(streamed, depth), self.device_bytes(streamed, depth)
        for bound, n_bytes, row in zip(bounds.tolist(), needed.tolist(), streamed, strict=True):
            yield Placement(bound, n_bytes, depth, tuple(np.flatnonzero(row).tolist()))

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

    def _neighbours(self, way: Placement) -> Bools:
        """Return the neighbours of a placement: one layer changes sides, or a kept and a streamed one trade places.

        Of more than ``MOST_NEIGHBOURS`` pairs, a random choice is taken.
        """
        row = self._row(way)
        one = row ^ np.eye(self._n, dtype=bool)
        kept, gone = np.meshgrid(np.flatnonzero(~row), np.flatnonzero(row), indexing="ij")
        pairs: Any = np.stack([kept.ravel(), gone.ravel()], axis=1)
        if len(pairs) > MOST_NEIGHBOURS:
            pairs = np.random.default_rng(len(pairs)).permutation(pairs)[:MOST_NEIGHBOURS]
        two = np.repeat(row[None], len(pairs), axis=0)
        two[np.arange(len(pairs)), pairs[:, 0]] = True
        two[np.arange(len(pairs)), pairs[:, 1]] = False
        return np.concatenate([one, two])


def _unlike(ways: list[Placement]) -> list[Placement]:
    """Return the best placement of each depth, and the best few of all."""
    first = {way.depth: way for way in reversed(ways)}
    return list(dict.fromkeys([*first.values(), *ways[:MOST_STARTS]]))
