"""Search for the best placement of layers that do not all fit on the card.

A placement keeps some layers on the card. The others take turns over a number of buffers, its depth. Of few layers, all
placements are listed, and the result is the optimum. Otherwise several ways to fill the memory give the first
placements. Then single layers, and pairs of layers, change sides as long as the bound falls, again and again from
random changes of the best placement. Placements are simulated in the order of their lower bounds, until the next bound
is no less than the shortest makespan found, or a budget of simulated ops is spent. Then those of the least memory near
the best are simulated. None is faster than ``floor_s``, a bound over all.

**The bound of a placement.** Copies run one after another in one stream, and layers in another one. Let r(i) be the
time of the kernels of turn i alone, and c(i) the time of its copy alone:

    a copy ends no earlier than    c(i) after the later of: the copy before it; the layer that used its buffer
    a layer ends no earlier than   r(i) after the later of: the layer before it; its copy; the host's calls until then

Everything else, such as hand-overs or one engine for both directions, only makes ops end later. The numbers of many
placements are columns of numpy arrays, so that thousands cost little more than one. The bound goes through the first
few passes. Each later pass takes at least the time of all its kernels, of all its copies, and of all its calls.

**The bound of all placements.** The kernels run one after another. What the card cannot hold of the layers is copied in
each sweep over them, in one direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import groupby, product
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamsim import program
from streamsim.analysis import predict
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, as_device, with_memory_limit
from streamsim.errors import LARGEST_BYTES, InputError, check_is, check_whole
from streamsim.lowering import BYTE_BITS, call_ticks, kernel_cost, rate_of
from streamsim.rules import TICKS_PER_S, ticks
from streamsim.search import searches
from streamsim.text import format_bytes

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

MOST_PASSES = 4  # that a bound goes through
MOST_DEPTH = 8
MOST_LISTED = 14  # layers of which all placements are listed
MOST_PAIRS = 2000  # pairs of layers of one placement that change sides
MOST_CELLS = 7_000_000  # layers times passes times placements in the search of good ones: some seconds
AT_LEAST = 300  # the fixed cost of a step of the search, in placements
MOST_STARTS = 12  # placements from which the search goes on
MOST_SIZES = 8  # sizes of the largest streamed layer that are tried
PARTS = (1, 0.75, 0.5, 0.25)  # of the free memory that are filled
GOLDEN = (5**0.5 - 1) / 2
NEAR = 1.0001  # a bound within this factor of the floor ends the search
SHAKEN, SHAKEN_LAYERS = 64, 4  # random placements in a step, and the mean number of layers that change in each
MOST_STEPS = 1000  # layers of a search
MOST_OPS = 200_000  # ops of one placement
MOST_LEAN = 24  # placements that are simulated to find one that needs less memory
RESERVED = 0.1  # the share of the card's memory that is reserved by default
EVERYTHING_FITS = "everything fits: keep all layers"


def best_offload(
    layers: program.Layers,
    device: Device | str | Path,
    memory_limit_bytes: int | None = None,
    reserve_bytes: int | None = None,
    pinned_limit_bytes: int | None = None,
    progress: searches.Progress | None = None,
    budget_ops: int | None = searches.BUDGET_OPS,
) -> searches.Best[program.Offload]:
    """Find the layers to keep on the card, and the number of buffers over which the others take turns.

    If all layers fit, all stay: no other placement is looked at.

    - ``device``: a Device, or the name or file of one.
    - ``memory_limit_bytes``: the most memory to use on the card (None: all of it); ``reserve_bytes`` of it are for the
      CUDA context and activations (None: a tenth).
    - ``pinned_limit_bytes``: the most pinned memory on the host (None: no limit).
    - ``progress``: a function that is called with the amount of the search done and the total.
    - ``budget_ops``: the number of ops to simulate (None: no limit).

    Raises InputError if no placement fits, and for an unknown device.
    """
    check_is("layers", layers, program.Layers)
    device = as_device(device)
    limit = with_memory_limit(device, memory_limit_bytes).memory_bytes
    if reserve_bytes is None:
        reserve_bytes = round(RESERVED * (limit or 0))
    check_whole("reserve_bytes", reserve_bytes, 0, LARGEST_BYTES)
    if len(layers.steps) > MOST_STEPS or 6 * len(layers.turns) * layers.passes > MOST_OPS:
        raise InputError(
            f"layers, passes: {len(layers.steps)} layers and {layers.passes} passes are too many to search; give at"
            f" most {MOST_STEPS} layers, and fewer passes: after a few passes each takes as long as the last"
        )
    card_bytes = (LARGEST_BYTES if limit is None else limit) - reserve_bytes
    costs = LayerCosts(layers, device)
    space = Space(costs, card_bytes, pinned_limit_bytes, progress)
    ways = space.ways()
    if not ways:
        pinned = "" if pinned_limit_bytes is None else f" and {format_bytes(pinned_limit_bytes)} pinned on the host"
        largest = max(layers.steps, key=attrgetter("weight_bytes"))
        raise InputError(
            f"no way to place {format_bytes(layers.weight_bytes)} of weights was found that fits into"
            f" {format_bytes(max(0, card_bytes))} for weights on the card{pinned}; allow more, or reserve less: the"
            f" largest layer, {largest.name}, has {format_bytes(largest.weight_bytes)}"
        )
    search = PlacementSearch(costs, reserve_bytes, budget_ops)
    search.simulate(ways)
    least = min((way.bound for way in ways if way not in search.took), default=searches.NEVER)
    if not space.lists_all:  # with less memory, other placements are good
        less = search.simplest().device_bytes - 1
        search.simulate(Space(costs, less, pinned_limit_bytes, progress).ways())
    best, simplest = map(search.result, (search.best(), search.simplest()))
    floor = min(search.shortest, least if space.lists_all else costs.floor(card_bytes))
    return searches.Best(
        best=best,
        simplest=simplest,
        compared=_compared(layers, device, reserve_bytes),
        work=layers,
        card=device,
        programs=len(ways),
        simulated=len(search.took),
        exact=floor == search.shortest,
        floor_s=floor / TICKS_PER_S,
        issued_bound=predict(best.config.schedule(layers), device).issued_bound,
        memory_bytes=limit,
    )


def _compared(layers: program.Layers, device: Device, reserve_bytes: int) -> dict[str, searches.SimulatedProgram[Any]]:
    """Return the programs that the best placement is compared with, by name."""
    everything = program.Offload(1, tuple(step.name for step in layers.steps), reserve_bytes=reserve_bytes)
    schedules = {
        "serial": (program.one_by_one(layers, "pageable"), "each layer copied from pageable memory in its turn", 0),
        "one_by_one": (program.one_by_one(layers, "pinned"), "each layer copied from pinned memory in its turn", 0),
        "resident": (everything.schedule(layers), "every layer on the card", everything.device_bytes(layers)),
    }
    return {
        name: searches.SimulatedProgram(None, words, _seconds(schedule, device), device_bytes=n_bytes)
        for name, (schedule, words, n_bytes) in schedules.items()
    }


def _seconds(schedule: program.Schedule, device: Device) -> float:
    return simulate_one_of_many(schedule, device).makespan_s


class PlacementSearch:
    """The placements of layers that are simulated.

    ``took``: their makespans in ticks; ``shortest``: the least of them.
    """

    def __init__(self, costs: LayerCosts, reserve_bytes: int, budget_ops: int | None) -> None:
        self._layers, self._device, self._reserve_bytes = costs.layers, costs.device, reserve_bytes
        self._left_ops = math.inf if budget_ops is None else budget_ops
        self.took: dict[Placement, int] = {}
        self.shortest = searches.NEVER

    def simulate(self, ways: Sequence[Placement]) -> None:
        """Simulate ``ways``, the lowest bound first, while another may be faster; then the leanest near the best."""
        for way in ways:
            if way.bound >= self.shortest or (self.took and self._left_ops <= 0):
                break
            self._simulate(way)
        near = (way for way in ways if searches.within(way.bound, self.shortest, searches.NEAR_PERCENT))
        for way in nsmallest(MOST_LEAN, near, key=attrgetter("device_bytes", "depth", "bound")):
            self._simulate(way)

    def _simulate(self, way: Placement) -> None:
        if way not in self.took:
            schedule = self.config(way).schedule(self._layers)
            self.took[way] = round(_seconds(schedule, self._device) * TICKS_PER_S)
            self.shortest = min(self.shortest, self.took[way])
            self._left_ops -= len(schedule.ops)

    def best(self) -> Placement:
        """Return the fastest simulated placement; of equally fast ones, that of the least memory."""
        return min(self.took, key=lambda way: (self.took[way], way.device_bytes))

    def simplest(self) -> Placement:
        """Return the placement of the least memory near the fastest, the one to use."""
        near = [way for way, ticks in self.took.items() if searches.within(ticks, self.shortest, searches.NEAR_PERCENT)]
        return min(near, key=lambda way: (way.device_bytes, self.took[way]))

    def config(self, way: Placement) -> program.Offload:
        """Return the placement as parameters of the offload pattern."""
        stay = (step.name for number, step in enumerate(self._layers.steps) if number not in {*way.streamed})
        return program.Offload(way.depth, tuple(stay), reserve_bytes=self._reserve_bytes)

    def result(self, way: Placement) -> searches.SimulatedProgram[program.Offload]:
        """Return the result of a placement that was simulated. Its gain is that of ``whatif`` over the usual one."""
        layers, config, usual = self._layers, self.config(way), program.Offload()
        load, makespan_s = program.loading(layers, config), self.took[way] / TICKS_PER_S
        words = f"depth {way.depth}, {len(config.resident)} of {len(layers.steps)} layers stay"
        stay = ("--resident", ",".join(config.resident)) if config.resident else ()
        depth = ("--depth", str(way.depth)) if way.streamed and way.depth != usual.depth else ()
        return searches.SimulatedProgram(
            config,
            words if way.streamed else EVERYTHING_FITS,
            makespan_s,
            (*stay, *depth),
            gain=_seconds(usual.schedule(layers), self._device) / makespan_s if makespan_s else 1.0,
            device_bytes=config.device_bytes(layers),
            more={
                "pinned_bytes": config.pinned_bytes(layers),
                "streamed": tuple(layers.steps[number].name for number in way.streamed),
                "load_s": 0.0 if load is None else _seconds(load, self._device),
            },
        )


# Placements and their bounds


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
    - ``sweeps``: the sweeps of a pass over all layers: the numbers of the layers in their order, and ticks and number
      of each layer's kernels. A pass that goes forward and then backward has two.
    - ``pass_runs``: ticks of the kernels of each layer in a pass.
    """

    def __init__(self, layers: program.Layers, device: Device) -> None:
        calls, steps = call_ticks("live", device), layers.steps
        self.layers, self.device = layers, device
        self.kernel_call, self.record_call = calls[program.Kernel], calls[program.RecordEvent]
        self.submit = ticks(device.host.submit_s)
        self.fetch_calls = calls[program.WaitEvent] + calls[program.Copy] + calls[program.RecordEvent]
        self.weights: Ints = np.array([step.weight_bytes for step in steps], np.int64)
        rates = [rate_of(device, "h2d", n, False).duration(n << BYTE_BITS) for n in self.weights.tolist()]
        self.copies: Ints = np.array(rates, np.int64)
        self.sweeps: list[tuple[list[int], list[int], list[int]]] = []
        for is_backward, turns in groupby(layers.turns, itemgetter(1)):
            kernels = [step.launches(is_backward) for step in steps]
            runs = [sum(kernel_cost(device, op).duration for op in some) for some in kernels]
            self.sweeps.append(([number for number, _ in turns], runs, [*map(len, kernels)]))
        self.pass_runs: Ints = np.array([runs for _, runs, _ in self.sweeps], np.int64).sum(axis=0)
        numbers, runs, _ = self.sweeps[-1]
        self.last_run = runs[numbers[-1]]

    def bounds(self, streamed: Bools, depth: int) -> Ints:
        """Return lower bounds on the makespans of placements in ticks, shape (placements,).

        ``streamed``: True for streamed layers, at least ``depth`` in each row, shape (placements, layers).
        """
        passes, ways = min(self.layers.passes, MOST_PASSES), np.arange(len(streamed))
        now, copied, host, item = np.zeros((4, len(ways)), np.int64)  # now: the end of the latest layer
        free = np.zeros((depth, len(ways)), np.int64)  # when each buffer is free
        copies, held = np.zeros_like(now), 0  # all copies; layers that the last sweep has left in their buffers
        before = copies, host  # the latest pass
        for sweep, (numbers, runs, launches) in enumerate(self.sweeps * passes):
            if sweep % len(self.sweeps) == 0:
                before = copies, host
            if sweep and len(self.sweeps) == 2:
                item, held = 0 * item, depth
            for number in numbers:
                own, buffer = streamed[:, number], (item % depth, ways)
                comes = own & (item >= held)
                copied = np.where(comes, np.maximum(copied, free[buffer]) + self.copies[number], copied)
                copies = copies + comes * self.copies[number]
                host = host + self.kernel_call + comes * self.fetch_calls
                start = np.maximum(now, host + self.submit)
                now = np.where(own, np.maximum(start, copied), start) + runs[number]
                host = host + self.kernel_call * (launches[number] - 1) + self.record_call * own
                free[buffer] = np.where(own, now, free[buffer])
                item = item + own
        more = self.layers.passes - passes
        later: tuple[Ints, ...] = (
            now + more * int(self.pass_runs.sum()),
            copied + more * (copies - before[0]) + self.last_run * (more > 0),
            host + more * (host - before[1]),
        )
        found: Ints = np.max(later, axis=0)
        return found

    def floor(self, card_bytes: int) -> int:
        """Return a lower bound in ticks over all placements with so much memory for weights."""
        too_many, passes = max(0, int(self.weights.sum()) - card_bytes), self.layers.passes
        copied = math.floor(passes * len(self.sweeps) * too_many * float((self.copies / self.weights).min()))
        return max(copied + self.last_run, passes * int(self.pass_runs.sum()))


class Space:
    """The space of placements of the layers of ``costs``.

    - ``card_bytes``, ``pinned_bytes``: the most bytes of weights on the card, and pinned on the host (None: any).
    - ``progress``: a function that is called with the layers, passes and placements looked at, and the most.
    - ``lists_all``: True if all placements are listed. If all layers fit, it is the only one, as nothing is faster
      than no copies.
    """

    def __init__(
        self, costs: LayerCosts, card_bytes: int, pinned_bytes: int | None, progress: searches.Progress | None
    ) -> None:
        self._progress = progress or (lambda _done, _of_all: None)
        self._costs, self._card_bytes, self._pinned_bytes = costs, card_bytes, pinned_bytes
        self._n = len(costs.weights)
        self._fits = int(costs.weights.sum()) <= card_bytes
        self.lists_all = self._fits or self._n <= MOST_LISTED
        self._cells = MOST_CELLS  # what is left of them
        self._enough = int(costs.floor(card_bytes) * NEAR)
        self._random = np.random.default_rng(self._n)

    def ways(self) -> list[Placement]:
        """Return every placement that fits, or some good ones, the lowest bound first."""
        if self._fits:
            return self._ways(np.zeros((1, self._n), dtype=bool), 1)
        depths = range(1, min(MOST_DEPTH, self._n) + 1)
        if self.lists_all:
            sets = (np.arange(1 << self._n)[:, None] >> np.arange(self._n)) & 1 == 1
            return sorted(way for depth in depths for way in self._ways(sets, depth))
        starts = [self._ways(np.array([*self._starts(depth)]), depth) for depth in depths]
        found = {way for ways in starts for way in ways}
        of_depths = sorted(min(ways) for ways in starts if ways)
        for way in dict.fromkeys([*of_depths, *sorted(found)[:MOST_STARTS]]):
            found.update(self._climbed(way))
        while found and self._cells > 0 and (best := min(found)).bound > self._enough:
            several = self._random.random((SHAKEN, self._n)) < SHAKEN_LAYERS / self._n
            found.update(self._climbed(min(self._ways(self._row(best) ^ several, best.depth), default=best)))
        return sorted(found)

    def _ways(self, streamed: Bools, depth: int) -> list[Placement]:
        """Return the placements that fit and use ``depth`` buffers, with their bounds; a depth of 1 without any."""
        weights, count = self._costs.weights, streamed.sum(axis=1)
        needed = (~streamed) @ weights + depth * np.where(streamed, weights, 0).max(axis=1)
        fits = (needed <= self._card_bytes) & (np.maximum(count, 1) >= depth)
        if self._pinned_bytes is not None:
            fits &= streamed @ weights <= self._pinned_bytes
        bounds = self._costs.bounds(streamed[fits], depth)
        rows = zip(bounds.tolist(), needed[fits].tolist(), streamed[fits], strict=True)
        return [Placement(bound, n, depth, tuple(np.flatnonzero(row).tolist())) for bound, n, row in rows]

    def _row(self, way: Placement) -> Bools:
        return np.isin(np.arange(self._n), way.streamed)

    def _starts(self, depth: int) -> Iterator[Bools]:
        """Yield first placements: for some sizes of the largest streamed layer, keep others while there is room.

        The orders in which layers are kept: evenly spread, the copy that most exceeds its kernels first, the largest
        first, the first layer first, the last first.
        """
        weights, numbers = self._costs.weights, np.arange(self._n)
        excess = len(self._costs.sweeps) * self._costs.copies - self._costs.pass_runs
        spread = np.argsort(np.argsort(numbers * GOLDEN % 1))  # any number of the first is evenly spread
        orders = spread, np.argsort(-excess, kind="stable"), np.argsort(-weights, kind="stable"), numbers, numbers[::-1]
        sizes = np.unique(weights)[::-1]
        for largest in sizes[:: max(1, len(sizes) // MOST_SIZES)].tolist():
            may = weights <= largest
            left = self._card_bytes - depth * largest - int(weights[~may].sum())
            for order, part in product(orders, PARTS):
                streamed, free = may.copy(), int(left * part)
                for layer in order.tolist():
                    if may[layer] and (n_bytes := int(weights[layer])) <= free:
                        streamed[layer], free = False, free - n_bytes
                yield streamed
        yield np.ones(self._n, dtype=bool)

    def _climbed(self, way: Placement) -> Iterator[Placement]:
        """Yield ever better placements, each the best neighbour of the one before it."""
        turns = len(self._costs.layers.turns) * min(self._costs.layers.passes, MOST_PASSES)
        while self._cells > 0 and way.bound > self._enough:
            around = self._neighbours(self._row(way))
            self._cells -= (len(around) + AT_LEAST) * turns
            self._progress(MOST_CELLS - max(0, self._cells), MOST_CELLS)
            nearest = min(self._ways(around, way.depth), default=way)
            if nearest[:2] >= way[:2]:
                break
            way = nearest
            yield way

    def _neighbours(self, row: Bools) -> Bools:
        """Return the neighbours of a placement: one layer changes sides, or a kept and a streamed one trade places.

        Of more than ``MOST_PAIRS`` pairs, a random choice is taken.
        """
        one = np.eye(self._n, dtype=bool)
        kept, gone = np.meshgrid(np.flatnonzero(~row), np.flatnonzero(row))
        pairs = np.stack([kept.ravel(), gone.ravel()], axis=1)
        pairs = self._random.permutation(pairs)[:MOST_PAIRS] if len(pairs) > MOST_PAIRS else pairs
        found: Bools = row ^ np.concatenate([one, one[pairs[:, 0]] | one[pairs[:, 1]]])
        return found
