"""Lower bounds on what layers take that are streamed to the card: of one way to place them, and of all ways at once.

**Of one way.** Copies are made one after another, in one stream; layers run one after another, in another one. Let r(i)
be the kernels of layer i alone, and c(i) its copy alone. Then, with the host's calls in between,

    a copy ends no earlier than    c(i) after the later of: the copy before it; the layer that used its buffer; its own
                                   call
    a layer ends no earlier than   r(i) after the later of: the layer before it; its copy; its call

Hand-overs are left out, as an op that comes late has none. What a card may do besides, such as crowds or an engine for
both, makes ops end later only. The numbers of many ways are columns of numpy arrays, so that thousands of ways cost
little more than one. Of many passes the first few are gone through, unless it is asked for all; each of the others
takes at least what all layers take, and what all copies do.

**Of all ways.** With M the weights of the largest layer that is streamed over d buffers, all larger ones stay on the
card, and what is left of its memory holds B bytes more. The least that has to be copied is that of a fractional
knapsack: keep the layers first whose copies take longest for a byte (G. Dantzig, Discrete-variable extremum problems,
1957). No way with this M and d takes less than the copies of one pass after the other and the last layer; nor less than
all layers, and the first one's copy, if that one is streamed; nor, with one buffer, less than copies and layers of what
is streamed together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamsim.lowering.costs import (
    BYTE_BITS,
    call_ticks,
    kernel_shape,
    rate_of,
    surcharges_of,
)
from streamsim.program.schedule import Copy, Kernel, RecordEvent, WaitEvent
from streamsim.rules.clock import ticks

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.program.layers import Layers

    Ints = np.ndarray[Any, np.dtype[np.int64]]
    Bools = np.ndarray[Any, np.dtype[np.bool_]]

FEWEST_PASSES = 4  # that are gone through, of many ways


class Room(NamedTuple):
    """Bytes that weights may take: on the card, and pinned on the host (None: any number)."""

    card: int
    pinned: int | None = None


class LayerCosts:
    """What the layers of a model cost on a device, in whole ticks, as the model prices them.

    ``weights``, ``copies``, ``runs``: bytes, ticks of the copy and ticks of the kernels of each step, shape (n,).
    """

    def __init__(self, layers: Layers, device: Device) -> None:
        steps = layers.steps
        calls = call_ticks("live", device)
        self.passes = layers.passes
        self.fetch_call = calls[Copy] + calls[RecordEvent]
        self.copy_call, self.kernel_call = calls[Copy], calls[Kernel]
        self.wait_call, self.record_call = calls[WaitEvent], calls[RecordEvent]
        self.submit, self.enter = ticks(device.host.submit_s), surcharges_of("live", device).enter
        launches = [step.launches() for step in steps]
        self.launches = np.array([len(some) for some in launches], np.int64)
        self.weights = np.array([step.weight_bytes for step in steps], np.int64)
        self.copies = np.array([_copy_ticks(device, step.weight_bytes) for step in steps], np.int64)
        alone = [sum(kernel_shape(device, op).duration for op in some) for some in launches]
        self.runs = np.array(alone, np.int64)

    @property
    def all_runs(self) -> int:
        """Ticks of a pass if nothing were copied, behind another one."""
        return int(self.runs.sum())

    def bounds(self, streamed: Bools, depth: int, most_passes: int = FEWEST_PASSES) -> Ints:
        """Ticks before which no run of these ways can end, shape (ways,).

        ``streamed``: shape (ways, n), at least ``depth`` in each. ``most_passes``: that are gone through.
        """
        found = _Ways(self, streamed, depth)
        gone_through = min(self.passes, most_passes)
        for _ in range(gone_through):
            for step in range(streamed.shape[1]):
                found.run(step)
        more = self.passes - gone_through
        all_copies = streamed @ self.copies
        last_copy: Ints = found.copied + more * all_copies + int(self.runs[-1])
        return np.maximum(found.now + more * self.all_runs, np.where(all_copies > 0, last_copy, 0))

    def resident_bound(self) -> int:
        """The same where every layer stays on the card; and no way takes less."""
        return self.passes * self.all_runs


def _copy_ticks(device: Device, n_bytes: int) -> int:
    return rate_of(device, "h2d", n_bytes, False).duration(n_bytes << BYTE_BITS)


class _Ways:
    """How far the card and the host have come at least, for each of many ways: one number a way in each array."""

    def __init__(self, costs: LayerCosts, streamed: Bools, depth: int) -> None:
        ways = len(streamed)
        self._costs, self._streamed, self._depth = costs, streamed, depth
        self._each = np.arange(ways)
        self._item = np.zeros(ways, np.int64)  # streamed layers so far, over all passes
        self._copies = streamed.sum(axis=1) * costs.passes
        self.now = np.zeros(ways, np.int64)  # the end of the last layer
        self.copied = np.zeros(ways, np.int64)
        # For each buffer when its copy may begin: after the layer that used it, and its call.
        self._free = np.empty((depth, ways), np.int64)
        first = costs.enter + costs.copy_call
        self._free[:] = (first + costs.fetch_call * np.arange(depth) + costs.submit)[:, None]
        self._host = np.where(self._copies > 0, costs.enter + depth * costs.fetch_call, 0)
        self._enter = np.full(ways, costs.enter, np.int64)  # what the next kernel's stream takes to be entered

    def run(self, step: int) -> None:
        """One layer more, and the copy that its end makes room for."""
        costs, own = self._costs, self._streamed[:, step]
        slot = self._item % self._depth
        free = self._free[slot, self._each]
        self.copied = np.where(own, np.maximum(self.copied, free) + costs.copies[step], self.copied)
        issued = self._host + self._enter + costs.kernel_call + costs.wait_call * own
        start = np.maximum(self.now, issued + costs.submit)
        start = np.where(own, np.maximum(start, self.copied), start)
        self.now = start + costs.runs[step]
        self._host = issued + costs.kernel_call * (costs.launches[step] - 1) + costs.record_call * own
        called = self._host + costs.wait_call + costs.enter + costs.copy_call
        freed = np.maximum(self.now, called + costs.submit)
        self._free[slot, self._each] = np.where(own, freed, free)
        fetches = own & (self._item + self._depth < self._copies)
        self._host = np.where(fetches, called + costs.record_call, self._host)
        self._enter = np.where(fetches, costs.enter, 0)
        self._item += own


def floor_ticks(costs: LayerCosts, room: Room, most_depth: int) -> int:
    """Ticks before which no run can end, however its layers are placed; see the top of this file.

    Where nothing fits it is larger than any run's.
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
    """Of all ways to stream layers of up to ``largest`` bytes over so many buffers."""
    may = costs.weights <= largest
    left = room.card - depth * largest - int(costs.weights[~may].sum())
    others = may.copy()
    others[0] = False
    first_stays = _where(costs, room, depth, others, left - int(costs.weights[0]) * int(may[0]))
    if not may[0]:
        return first_stays
    first_is_streamed = _where(costs, room, depth, may, left)
    return min(first_stays, max(first_is_streamed, int(costs.copies[0]) + costs.resident_bound()))


def _where(costs: LayerCosts, room: Room, depth: int, may: Bools, left: int) -> int:
    """The same where only these ``may`` be streamed, with so many bytes left to keep some of them."""
    weights = costs.weights[may]
    if left < 0 or (room.pinned is not None and int(weights.sum()) - left > room.pinned):
        return NEVER
    copies = costs.passes * _least_left(costs.copies[may], weights, left)
    together = _least_left(costs.copies[may] + costs.runs[may], weights, left) if depth == 1 else 0
    return max(copies + int(costs.runs[-1]) * (copies > 0), costs.resident_bound(), costs.passes * together)


def _least_left(values: Ints, weights: Ints, room: int) -> int:
    """The least sum of the values of what has no room, where a part of an item may have some."""
    order = np.argsort(-values / weights, kind="stable")
    used = np.cumsum(weights[order])
    whole = int(np.searchsorted(used, room, side="right"))
    if whole == len(order):
        return 0
    left, first = room - (int(used[whole - 1]) if whole else 0), order[whole]
    return math.floor(int(values[order][whole:].sum()) - int(values[first]) * (left / int(weights[first])))
