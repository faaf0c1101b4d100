"""Lower bounds on the time of layers that are streamed to the card: of one placement, and of all placements.

**Of one placement.** Copies run one after another in one stream, and layers in another one. Let r(i) be the time of the
kernels of turn i alone, and c(i) the time of its copy alone. Then, with the host's calls in between,

    a copy ends no earlier than    c(i) after the later of: the copy before it; the layer that used its buffer; its own
                                   call
    a layer ends no earlier than   r(i) after the later of: the layer before it; its copy; its call

Hand-overs are left out, as an op that comes late has none. Other effects, such as crowds or one engine for both
directions, only make ops end later. The numbers of many placements are columns of numpy arrays, so that thousands cost
little more than one. Of many passes, the bound goes through the first few, unless all are asked for. Each later pass
takes at least the time of all its kernels, and that of all its copies.

**Of all placements.** Let M be the weights of the largest layer that is streamed over d buffers. All larger layers stay
on the card, and the rest of its memory holds B bytes of other layers. The least copies of a sweep over the layers, in
one direction, are those of a fractional knapsack that keeps the layers with the longest copies per byte (G. Dantzig,
Discrete-variable extremum problems, 1957). In passes that go forward and backward, each sweep but the first finds at
most d layers in the buffers, which are not copied. No placement with this M and d takes less than

- its copies one after another, and then the last layer;
- all layers, and the copy of the first layer if that one is streamed;
- with one buffer, the copies and the kernels of the streamed layers.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from streamsim.device import Device
from streamsim.lowering import BYTE_BITS, call_ticks, kernel_cost, rate_of, surcharges_of
from streamsim.program import Copy, Kernel, Layers, RecordEvent, WaitEvent
from streamsim.rules import ticks

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

FEWEST_PASSES = 4  # that are gone through, of many ways


class Room(NamedTuple):
    """Bytes that weights may take: on the card, and pinned on the host (None: any number)."""

    card: int
    pinned: int | None = None


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
        found = _Ways(self, streamed, depth)
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

    def resident_bound(self) -> int:
        """Return the bound if every layer stays on the card; no placement takes less."""
        return self.passes * self.all_runs


def _copy_ticks(device: Device, n_bytes: int) -> int:
    return rate_of(device, "h2d", n_bytes, False).duration(n_bytes << BYTE_BITS)


class _Ways:
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


def floor_ticks(costs: LayerCosts, room: Room, most_depth: int) -> int:
    """Return a lower bound in ticks over all placements; see the top of this file.

    If no placement fits, the bound is larger than any makespan.
    """
    found = [
        _relaxed(costs, room, depth, largest)
        for depth in range(1, min(most_depth, len(costs.weights)) + 1)
        for largest in sorted(set(costs.weights.tolist()))
    ]
    if int(costs.weights.sum()) <= room.card:
        found.append(costs.resident_bound())
    return min(found)


NEVER = 1 << 62


def _relaxed(costs: LayerCosts, room: Room, depth: int, largest: int) -> int:
    """Return the bound over all placements that stream layers of up to ``largest`` bytes over ``depth`` buffers."""
    may, first = costs.weights <= largest, costs.turns[0].number
    left = room.card - depth * largest - int(costs.weights[~may].sum())
    others = may.copy()
    others[first] = False
    first_stays = _where(costs, room, depth, others, left - int(costs.weights[first]) * int(may[first]))
    if not may[first]:
        return first_stays
    first_is_streamed = _where(costs, room, depth, may, left)
    return min(first_stays, max(first_is_streamed, int(costs.copies[first]) + costs.resident_bound()))


def _where(costs: LayerCosts, room: Room, depth: int, may: Bools, left: int) -> int:
    """Return the bound if only the layers of ``may`` may be streamed, and ``left`` bytes keep some of them."""
    weights, copies = costs.weights[may], costs.copies[may]
    if left < 0 or (room.pinned is not None and int(weights.sum()) - left > room.pinned):
        return NEVER
    sides = costs.sides
    found_there = (costs.passes * len(sides) - 1) * depth * int(copies.max(initial=0)) if costs.returns else 0
    copied = max(0, costs.passes * len(sides) * _least_left(copies, weights, left) - found_there)
    together = 0
    if depth == 1:
        each = [_least_left(copies + costs.runs[side, may], weights, left) for side in sides]
        together = costs.passes * sum(each) - found_there
    return max(copied + costs.last_run * (copied > 0), costs.resident_bound(), together)


def _least_left(values: Ints, weights: Ints, room: int) -> int:
    """Return the least sum of the values of items without room, if a part of an item may have room."""
    order = np.argsort(-values / weights, kind="stable")
    used = np.cumsum(weights[order])
    whole = int(np.searchsorted(used, room, side="right"))
    if whole == len(order):
        return 0
    left, first = room - (int(used[whole - 1]) if whole else 0), order[whole]
    return math.floor(int(values[order][whole:].sum()) - int(values[first]) * (left / int(weights[first])))
