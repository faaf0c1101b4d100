"""Search for the best placement of layers that do not all fit on the card.

A placement keeps some layers on the card, the others take turns over a number of buffers, its depth. Of few layers, all
placements are listed, and the result is the optimum. Otherwise only good ones are: several orders of keeping layers
until the memory is full give the first placements. Then single layers, and pairs of layers, change sides as long as
the bound falls. Placements are simulated in the order of their lower bounds, until the next bound is no less than the
shortest makespan found. If only good ones are listed, or a budget of simulated ops ends the search, there may be a
better placement. None is faster than ``floor_s``, a bound over all.

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

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from streamsim.analysis import predict
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, as_device, link_words
from streamsim.errors import LARGEST_BYTES, InputError, check_is, check_whole
from streamsim.lowering import BYTE_BITS, call_ticks, kernel_cost, rate_of, surcharges_of
from streamsim.program import (
    Copy,
    Kernel,
    Layers,
    Offload,
    RecordEvent,
    Schedule,
    WaitEvent,
    loading,
    one_by_one,
)
from streamsim.rules import TICKS_PER_S, ticks
from streamsim.search.grid import is_fast
from streamsim.search.searches import (
    BUDGET_OPS,
    NEAR_PERCENT,
    NEVER,
    Best,
    Progress,
    SimulatedProgram,
    within,
)
from streamsim.text import format_bytes

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
MOST_DEPTH = 8
MOST_STEPS = 1000  # layers of a search
MOST_OPS = 200_000  # ops of one placement
MOST_LEAN = 24  # placements that are simulated to find one that needs less memory
MOST_AGAIN = 3000  # layers times passes up to which a second search looks for less memory; it takes some seconds
RESERVED = 0.1  # the share of the card's memory that is reserved by default
EVERYTHING_FITS = "everything fits: keep all layers"


def best_offload(
    layers: Layers,
    device: Device | str | Path,
    memory_limit_bytes: int | None = None,
    reserve_bytes: int | None = None,
    pinned_limit_bytes: int | None = None,
    most_depth: int = MOST_DEPTH,
    progress: Progress | None = None,
    budget_ops: int | None = BUDGET_OPS,
) -> Best[Offload]:
    """Find the layers to keep on the card, and the number of buffers over which the others take turns.

    If all layers fit, all stay: no other placement is looked at.

    - ``device``: a Device, or the name or file of one.
    - ``memory_limit_bytes``: the most memory to use on the card (None: all of it); ``reserve_bytes`` of it are for the
      CUDA context and activations (None: a tenth).
    - ``pinned_limit_bytes``: the most pinned memory on the host (None: no limit).
    - ``most_depth``: the most buffers.
    - ``progress``: a function that is called with the amount done and the total.
    - ``budget_ops``: the number of ops to simulate (None: no limit).

    Raises InputError if no placement fits, and for an unknown device.
    """
    check_is("layers", layers, Layers)
    device = as_device(device)
    check_whole("most_depth", most_depth, 1, MOST_STEPS)
    limits = [n for n in (memory_limit_bytes, device.memory_bytes) if n is not None]
    limit = min(limits, default=None)
    if reserve_bytes is None:
        reserve_bytes = round(RESERVED * (limit or 0))
    check_whole("reserve_bytes", reserve_bytes, 0, LARGEST_BYTES)
    room = WeightRoom((LARGEST_BYTES if limit is None else limit) - reserve_bytes, pinned_limit_bytes)
    _check_sizes(layers, room, reserve_bytes)
    costs = LayerCosts(layers, device)
    every = Space(costs, room, most_depth).all_ways()
    ways = Space(costs, room, most_depth, progress).good_ways() if every is None else every
    if not ways:
        raise _nothing_fits(layers, room, every is not None)
    search = PlacementSearch(costs, reserve_bytes, budget_ops, progress)
    search.try_in_turn(ways)
    shortest = search.shortest
    search.try_leanest(ways)
    near_ways = sum(within(way.bound, shortest, NEAR_PERCENT) for way in ways)
    if every is None and layers.passes * len(layers.turns) <= MOST_AGAIN:  # with less memory, other ones are good
        less = room._replace(card=search.simplest().device_bytes - 1)
        search.try_leanest(Space(costs, less, most_depth, progress).good_ways())
    best, lean, shortest = search.best(), search.simplest(), search.shortest
    floor = min(shortest, costs.floor(room) if every is None else search.least_left)
    exact = floor == shortest
    left_open = 0 if exact else max(0, sum(way.bound < shortest for way in ways) - len(search.took))
    whys = [f"the budget of {budget_ops} simulated ops is spent"] if left_open else []
    whys += ["there are too many ways to list them all"] if every is None and not exact else []
    schedule = search.config(best).schedule(layers)
    prediction = predict(schedule, device)

    return Best(
        best=search.result(best),
        simplest=search.result(lean),
        compared=_compared(layers, device, search.config(best), limit),
        work=layers,
        card=device,
        link=link_words(device, False),
        programs=len(ways),
        simulated=len(search.took),
        lists_all=every is not None,
        left_open=left_open,
        left_open_because="; ".join(whys) or None,
        exact=exact,
        simplest_exact=every is not None and exact and near_ways <= MOST_LEAN,
        floor_s=floor / TICKS_PER_S,
        issued_bound=prediction.issued_bound,
        compiled=is_fast(),
        memory_bytes=limit,
        pinned_limit_bytes=pinned_limit_bytes,
    )


def _check_sizes(layers: Layers, room: WeightRoom, reserve_bytes: int) -> None:
    """Raise InputError if the largest layer does not fit, or if there are too many layers to search."""
    largest = max(layers.steps, key=attrgetter("weight_bytes"))
    if largest.weight_bytes > room.card:
        limit, less = room.card + reserve_bytes, " or reserve less" if reserve_bytes else ""
        reserved = f" and {format_bytes(reserve_bytes)} are reserved" if reserve_bytes else ""
        raise InputError(
            f"memory limit = {limit} bytes ({format_bytes(limit)}): the largest layer, {largest.name}, has"
            f" {format_bytes(largest.weight_bytes)} of weights{reserved}; allow more{less}"
        )
    steps, turns = len(layers.steps), 6 * len(layers.turns)
    if steps > MOST_STEPS or turns * layers.passes > MOST_OPS:
        raise InputError(
            f"layers, passes: {steps} layers and {layers.passes} passes are too many to search; give at most"
            f" {MOST_STEPS} layers and {MOST_OPS * steps // turns} together: after a few passes each takes as long as"
            " the last"
        )


def _nothing_fits(layers: Layers, room: WeightRoom, is_certain: bool) -> InputError:
    found = "fits" if is_certain else "was found that fits"
    pinned = "" if room.pinned is None else f" and {format_bytes(room.pinned)} pinned on the host"
    return InputError(
        f"no way to place {format_bytes(layers.weight_bytes)} of weights {found} into {format_bytes(room.card)} for"
        f" weights on the card{pinned}; allow more"
    )


def _compared(
    layers: Layers, device: Device, config: Offload, limit_bytes: int | None
) -> dict[str, SimulatedProgram[Any]]:
    """Return the programs that the best placement is compared with, by name."""
    everything = Offload(1, tuple(step.name for step in layers.steps), reserve_bytes=config.reserve_bytes)
    pageable = replace(config, memory="pageable")
    two = replace(pageable, depth=max(2, config.depth))
    if limit_bytes is None or two.device_bytes(layers) <= limit_bytes:
        pageable = two
    schedules = {
        "serial": (one_by_one(layers, "pageable"), "each layer copied from pageable memory in its turn", 0),
        "one_by_one": (one_by_one(layers, "pinned"), "each layer copied from pinned memory in its turn", 0),
        "pageable": (pageable.schedule(layers), "nothing is pinned", 0),
        "resident": (everything.schedule(layers), "every layer on the card", everything.device_bytes(layers)),
    }
    return {
        name: SimulatedProgram(None, words, _seconds(schedule, device), device_bytes=n_bytes)
        for name, (schedule, words, n_bytes) in schedules.items()
    }


def _seconds(schedule: Schedule, device: Device) -> float:
    return simulate_one_of_many(schedule, device).makespan_s


class PlacementSearch:
    """The placements of layers that are simulated.

    - ``took``: their makespans in ticks; ``shortest``: the least of them.
    - ``least_left``: the least bound of those that it did not come to, in turn.
    """

    def __init__(
        self, costs: LayerCosts, reserve_bytes: int, budget_ops: int | None, progress: Progress | None
    ) -> None:
        self._layers, self._device, self._reserve_bytes = costs.layers, costs.device, reserve_bytes
        self._launches, self._sides = int(costs.launches[costs.sides].sum()), len(costs.sides)
        self._progress = progress or (lambda _done, _of_all: None)
        self._budget_ops, self._spent_ops = budget_ops, 0
        self.took: dict[Placement, int] = {}
        self.shortest = self.least_left = NEVER

    def try_in_turn(self, ways: Sequence[Placement]) -> None:
        """Simulate ``ways``, the lowest bound first, until no other can be faster or the budget is spent."""
        for way in ways:
            ends_budget = self._budget_ops is not None and self._spent_ops + self._ops(way) > self._budget_ops
            if way.bound >= self.shortest or (self.took and ends_budget):
                self.least_left = way.bound
                return
            self._simulate(way)

    def try_leanest(self, ways: Sequence[Placement]) -> None:
        """Simulate the ``MOST_LEAN`` of ``ways`` with the least memory whose bounds are near the best."""
        near = (way for way in ways if within(way.bound, self.shortest, NEAR_PERCENT))
        for way in nsmallest(MOST_LEAN, near, key=attrgetter("device_bytes", "depth", "bound")):
            if way not in self.took:
                self._simulate(way)

    def _ops(self, way: Placement) -> int:
        """Return the ops of a placement: kernels, and for each streamed turn a copy, two waits and two records."""
        return self._layers.passes * (self._launches + 5 * len(way.streamed) * self._sides)

    def _simulate(self, way: Placement) -> None:
        took_s = _seconds(self.config(way).schedule(self._layers), self._device)
        self.took[way] = round(took_s * TICKS_PER_S)
        self.shortest = min(self.shortest, self.took[way])
        self._spent_ops += self._ops(way)
        most_ops = max(self._budget_ops or 0, self._spent_ops)
        self._progress(self._spent_ops, most_ops)

    def best(self) -> Placement:
        """Return the fastest simulated placement; of equally fast ones, that of the least memory."""
        return min(self.took, key=lambda way: (self.took[way], way.device_bytes))

    def simplest(self) -> Placement:
        """Return the placement of the least memory near the fastest, the one to use."""
        near = [way for way, ticks in self.took.items() if within(ticks, self.shortest, NEAR_PERCENT)]
        return min(near, key=lambda way: (way.device_bytes, self.took[way]))

    def config(self, way: Placement) -> Offload:
        """Return the placement as parameters of the offload pattern."""
        stay = (step.name for number, step in enumerate(self._layers.steps) if number not in {*way.streamed})
        return Offload(way.depth, tuple(stay), reserve_bytes=self._reserve_bytes)

    def result(self, way: Placement) -> SimulatedProgram[Offload]:
        """Return the result of a placement that was simulated."""
        layers, config, makespan_s = self._layers, self.config(way), self.took[way] / TICKS_PER_S
        load, streamed = loading(layers, config), [layers.steps[number] for number in way.streamed]
        words = f"depth {way.depth}, {len(config.resident)} of {len(layers.steps)} layers stay"
        words = words if streamed else EVERYTHING_FITS
        options = ["--resident", ",".join(config.resident)] if config.resident else []
        options += ["--depth", str(way.depth)] if streamed and way.depth != Offload().depth else []
        gain = _seconds(Offload().schedule(layers), self._device) / makespan_s if makespan_s else 1.0
        more = {
            **{"words": words, "options": options, "gain": gain, "condition": ""},  # as of whatif
            "pinned_bytes": config.pinned_bytes(layers),
            "streamed": tuple(step.name for step in streamed),
            "streamed_bytes": sum(step.weight_bytes for step in streamed),
            "load_s": 0.0 if load is None else _seconds(load, self._device),
            "pass_s": makespan_s / layers.passes,
        }
        return SimulatedProgram(config, words, makespan_s, device_bytes=config.device_bytes(layers), more=more)


# Placements and their bounds


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
    - ``turns``: the turns of a pass; ``returns``: True if a pass goes forward and then backward; ``sides``: the rows of
      ``runs`` that a pass has; ``pass_runs``: ticks of the kernels of each layer in a pass.
    """

    def __init__(self, layers: Layers, device: Device) -> None:
        calls, steps = call_ticks("live", device), layers.steps
        self.layers, self.device = layers, device
        self.passes, self.turns, self.returns = layers.passes, layers.turns, layers.direction == "both"
        self.copy_call, self.kernel_call = calls[Copy], calls[Kernel]
        self.wait_call, self.record_call = calls[WaitEvent], calls[RecordEvent]
        self.submit, self.enter = ticks(device.host.submit_s), surcharges_of("live", device).enter
        kernels = [[step.launches(is_backward) for step in steps] for is_backward in (False, True)]
        alone = [[sum(kernel_cost(device, op).duration for op in some) for some in side] for side in kernels]
        sizes = [step.weight_bytes for step in steps]
        copies = [rate_of(device, "h2d", n_bytes, False).duration(n_bytes << BYTE_BITS) for n_bytes in sizes]
        self.launches = np.array([[len(some) for some in side] for side in kernels], np.int64)
        self.runs, self.weights, self.copies = (np.array(some, np.int64) for some in (alone, sizes, copies))
        self.sides = sorted({int(turn.is_backward) for turn in self.turns})
        self.pass_runs: Ints = self.runs[self.sides].sum(axis=0)
        self.last_run = int(self.runs[int(self.turns[-1].is_backward), self.turns[-1].number])

    def bounds(self, streamed: Bools, depth: int, most_passes: int = FEWEST_PASSES) -> Ints:
        """Return lower bounds on the makespans of placements in ticks, shape (placements,).

        - ``streamed``: True for streamed layers, at least ``depth`` in each row, shape (placements, layers).
        - ``most_passes``: the number of passes that the bound goes through.
        """
        found = _Earliest(self, streamed, depth)
        gone_through = min(self.passes, most_passes)
        for _ in range(gone_through):
            for number, is_backward in self.turns:
                found.run(number, int(is_backward))
        times: Any = streamed  # how often a later pass copies each layer
        if self.returns:
            items = np.cumsum(streamed, axis=1) - 1
            times = streamed * (1 * (items >= depth) + (items < items[:, -1:] + 1 - depth))  # forward and backward
        more = self.passes - gone_through
        last_copy: Ints = found.copied + more * (times @ self.copies) + self.last_run
        return np.maximum(found.now + more * int(self.pass_runs.sum()), last_copy) if more else found.now

    def floor(self, room: WeightRoom) -> int:
        """Return a lower bound in ticks over all placements; if none fits, it need not be one."""
        kernels, total = self.passes * int(self.pass_runs.sum()), int(self.weights.sum())
        if total <= room.card:
            return kernels
        # The largest streamed layer leaves room for itself beside all larger ones. In one direction, its buffer holds
        # nothing for the next pass.
        sizes = (n for n in self.weights.tolist() if n + int(self.weights[self.weights > n].sum()) <= room.card)
        buffer = 0 if self.returns else min(sizes, default=0)
        per_byte = float((self.copies / self.weights).min())
        copied = math.floor(self.passes * len(self.sides) * (total - room.card + buffer) * per_byte)
        return max(copied + self.last_run, kernels)


class _Earliest:
    """The earliest progress of the card and the host, for each of many placements: one number each in each array.

    Items are numbered as in :meth:`streamsim.program.layers.Offload.schedule`.
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
        fetch_call = costs.copy_call + costs.record_call
        called = costs.enter + costs.copy_call + fetch_call * np.arange(depth)
        self._free = np.repeat(called[:, None] + costs.submit, ways, axis=1)
        self._host = np.where(self._items > 0, costs.enter + depth * fetch_call, 0)
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
        self.now = np.where(own, np.maximum(start, self.copied), start) + costs.runs[side, number]
        self._host = issued + costs.kernel_call * (costs.launches[side, number] - 1) + costs.record_call * own
        called = self._host + costs.wait_call + costs.enter + costs.copy_call
        self._free[slot, self._each] = np.where(fetches, np.maximum(self.now, called + costs.submit), free)
        self._host = np.where(fetches, called + costs.record_call, self._host)
        self._enter = np.where(fetches, costs.enter, 0)
        self._item += -1 * own if costs.returns and side else own

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
    """The space of placements of the layers of ``costs`` in ``room``, over at most ``most_depth`` buffers.

    ``progress``: a function that is called with the layers, passes and placements looked at, and the most of them.
    """

    def __init__(self, costs: LayerCosts, room: WeightRoom, most_depth: int, progress: Progress | None = None) -> None:
        self._progress = progress or (lambda _done, _of_all: None)
        self._costs, self._room = costs, room
        self._n = len(costs.weights)
        self._depths = range(1, min(most_depth, self._n) + 1)
        self._cells = MOST_CELLS  # what is left of them
        self._enough = int(costs.floor(room) * NEAR)

    def all_ways(self) -> list[Placement] | None:
        """Return every placement that fits, the lowest bound first; None if there are too many to list.

        If all layers fit, it is the only one: nothing is faster than no copies.
        """
        if int(self._costs.weights.sum()) <= self._room.card:
            return self._ways(np.zeros((1, self._n), dtype=bool), 1)
        if self._n > MOST_LISTED:
            return None
        sets = (np.arange(1 << self._n)[:, None] >> np.arange(self._n)) & 1 == 1
        return sorted(way for depth in self._depths for way in self._ways(sets, depth))

    def good_ways(self) -> list[Placement]:
        """Return some good placements that fit, the lowest bound first."""
        starts = sorted(way for depth in self._depths for way in self._ways(np.array([*self._starts(depth)]), depth))
        best_of_depths = {way.depth: way for way in reversed(starts)}.values()
        found = {*starts}
        for way in dict.fromkeys([*best_of_depths, *starts[:MOST_STARTS]]):
            found.update(self._climbed(way))
        random = np.random.default_rng(len(found))
        while found and self._cells > 0 and (best := min(found)).bound > self._enough:
            several = random.random((SHAKEN, self._n)) < SHAKEN_LAYERS / self._n
            shaken = self._ways(self._row(best) ^ several, best.depth)
            found.update(self._climbed(min(shaken, default=best)))
        return sorted(found)

    def _climbed(self, way: Placement) -> Iterator[Placement]:
        """Yield ever better placements, each the best neighbour of the one before it."""
        turns = len(self._costs.turns) * min(self._costs.passes, FEWEST_PASSES)
        while self._cells > 0 and way.bound > self._enough:
            around = self._neighbours(self._row(way))
            self._cells -= (len(around) + AT_LEAST) * turns
            self._progress(MOST_CELLS - max(0, self._cells), MOST_CELLS)
            nearest = min(self._ways(around, way.depth), default=way)
            if nearest[:2] >= way[:2]:
                break
            way = nearest
            yield way

    def _row(self, way: Placement) -> Bools:
        found = np.zeros(self._n, dtype=bool)
        found[list(way.streamed)] = True
        return found

    def _ways(self, streamed: Bools, depth: int) -> list[Placement]:
        """Return the placements that fit and use ``depth`` buffers, with their bounds; a depth of 1 without any."""
        weights, count = self._costs.weights, streamed.sum(axis=1)
        needed = (~streamed) @ weights + depth * np.where(streamed, weights, 0).max(axis=1)
        fits = (needed <= self._room.card) & ((count >= depth) | ((count == 0) & (depth == 1)))
        if self._room.pinned is not None:
            fits &= streamed @ weights <= self._room.pinned
        bounds = self._costs.bounds(streamed[fits], depth)
        rows = zip(bounds.tolist(), needed[fits].tolist(), streamed[fits], strict=True)
        return [Placement(bound, n, depth, tuple(np.flatnonzero(row).tolist())) for bound, n, row in rows]

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
        streamed = may.copy()
        for layer in order:
            if (n_bytes := int(self._costs.weights[layer])) <= left:
                streamed[layer], left = False, left - n_bytes
        return streamed

    def _neighbours(self, row: Bools) -> Bools:
        """Return the neighbours of a placement: one layer changes sides, or a kept and a streamed one trade places.

        Of more than ``MOST_NEIGHBOURS`` pairs, a random choice is taken.
        """
        one = np.eye(self._n, dtype=bool)
        kept, gone = np.meshgrid(np.flatnonzero(~row), np.flatnonzero(row), indexing="ij")
        pairs: Any = np.stack([kept.ravel(), gone.ravel()], axis=1)
        if len(pairs) > MOST_NEIGHBOURS:
            pairs = np.random.default_rng(len(pairs)).permutation(pairs)[:MOST_NEIGHBOURS]
        found: Bools = row ^ np.concatenate([one, one[pairs[:, 0]] | one[pairs[:, 1]]])
        return found
