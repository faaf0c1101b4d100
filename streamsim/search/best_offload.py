"""The best way to run layers that do not fit: which stay on the card, and how many buffers the others take turns over.

Ways are simulated in the order of their lower bounds, until the bound of the next one is no less than the shortest
makespan found. Where the ways that fit are not too many, all are in the list: then what is found is the optimum. Where
good ones are listed only, or a budget of simulated ops ends the search, a better way may be left out: then none is
faster than ``floor_s``, a bound over all of them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace

from streamsim.analysis.bounds import Bound, bound_json
from streamsim.analysis.predict import Prediction, predict
from streamsim.checks import LARGEST_BYTES, check_whole
from streamsim.compiled import simulate_one_of_many
from streamsim.device.assumptions import link_words
from streamsim.device.library import as_device
from streamsim.device.variations import faster
from streamsim.displayed import Result
from streamsim.errors import InputError
from streamsim.program.offload import Offload, check_layers, loading, one_by_one
from streamsim.rules.clock import TICKS_PER_S
from streamsim.search.best_first import BUDGET_OPS, NEAR_PERCENT, Candidates, Search
from streamsim.search.offload_bounds import FEWEST_PASSES, LayerCosts, Room, floor_ticks
from streamsim.search.placements import Space
from streamsim.text.quantities import format_bytes, format_seconds
from streamsim.text.shown import short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streamsim.device.profile import Device
    from streamsim.program.layers import Layers
    from streamsim.program.schedule import Schedule
    from streamsim.search.best_first import Progress
    from streamsim.search.placements import Way, Ways

MOST_DEPTH = 8
MOST_STEPS = 1000  # whose ways are searched
MOST_OPS = 200_000  # of one way
FASTER = 1.1
MOST_LEAN = 24  # ways that are simulated to find one that needs less memory
MOST_AGAIN = 3000  # layers of all passes, of which the leanest is looked for in less room, too: some seconds
REFINED = 256  # ways at a time whose bounds go through all passes


class Placed(msgspec.Struct, frozen=True):
    """A way to place layers, what it takes, in seconds of all passes, and what it holds.

    ``device_bytes``: on the card, with what is reserved; ``pinned_bytes``: on the host. ``streamed``: the layers that
    do not stay, ``streamed_bytes`` of weights that each pass copies. ``load_s``: to load what stays, once and before.
    """

    config: Offload
    makespan_s: float
    device_bytes: int
    pinned_bytes: int
    streamed: tuple[str, ...]
    streamed_bytes: int
    load_s: float

    @property
    def words(self) -> str:
        """Such as ``depth 2, 3 of 26 layers stay``."""
        stay = len(self.config.resident)
        if not self.streamed:
            return "every layer stays"
        return f"depth {self.config.depth}, {stay} of {stay + len(self.streamed)} layers stay"


class BestOffload(Result, msgspec.Struct, frozen=True):
    """The best way to place layers, and what to make of it. Times in seconds, of all passes.

    ``best``: the fastest way; ``lean``: one within 1 % of it that needs less of the card, or the same: what to use.
    ``serial_s``: every layer copied from pageable memory when it is its turn, nothing beside anything;
    ``one_by_one_s``: the same from pinned memory. ``kernel_first_s``: from pageable memory, with each layer's kernels
    issued before the next copy, in two buffers where they have room; the layers that stay are the best way's.
    ``resident_s``: every layer on the card, which needs
    ``resident_bytes`` there. ``memory_bytes``: what may be held on the card (None: no limit is known), and
    ``pinned_limit_bytes`` pinned on the host. ``issued_bound`` and ``critical_s`` as for a prediction. ``faster_s``:
    the best way's time with one thing 1.1 times as fast. ``exact``: whether it is proved that no way is faster; none
    takes less than ``floor_s``. ``ways``: that were listed, ``simulated`` of them; ``lists_all``: they are all that
    fit.
    """

    schema_version: ClassVar[int] = Prediction.schema_version
    best: Placed
    lean: Placed
    serial_s: float
    one_by_one_s: float
    kernel_first_s: float
    resident_s: float
    resident_bytes: int
    memory_bytes: int | None
    pinned_limit_bytes: int | None
    issued_bound: Bound
    critical_s: dict[str, float]
    faster_s: dict[str, float]
    exact: bool
    floor_s: float
    ways: int
    simulated: int
    lists_all: bool
    passes: int
    device: str
    link: str

    def __repr__(self) -> str:
        took = format_seconds(self.best.makespan_s)
        return short(f"BestOffload({self.best.words}: {took} on {self.device})")

    @property
    def speedup(self) -> float:
        """The time of every layer copied from pageable memory over that of the best way."""
        return self.serial_s / self.best.makespan_s

    @property
    def nearness(self) -> float:
        """How much faster another way may be, as a share of the best one's time; 0 where it is exact."""
        return 1 - self.floor_s / self.best.makespan_s

    def _json(self) -> dict[str, Any]:
        plain = msgspec.structs.asdict(self)
        for name in ("best", "lean"):
            placed = msgspec.structs.asdict(plain[name])
            config = msgspec.structs.asdict(placed.pop("config"))
            plain[name] = config | placed | {"pass_s": placed["makespan_s"] / self.passes}
        critical = {**bound_json("issued", plain.pop("issued_bound")), "critical_path_s": plain.pop("critical_s")}
        more = {"speedup": self.speedup, "faster_by": FASTER, "inputs": {"device": self.device}}
        return {**plain, **critical, **more}


def best_offload(
    layers: Layers,
    device: Device | str | Path,
    memory_limit_bytes: int | None = None,
    reserve_bytes: int = 0,
    pinned_limit_bytes: int | None = None,
    most_depth: int = MOST_DEPTH,
    progress: Progress | None = None,
    budget_ops: int | None = BUDGET_OPS,
) -> BestOffload:
    """Find which layers are best kept on the card, and how many buffers the others should take turns over.

    ``memory_limit_bytes``: the most that may be held on the card, ``reserve_bytes`` of which are for activations;
    ``pinned_limit_bytes``: the most that may be pinned on the host. ``most_depth``: buffers at most. ``budget_ops``: of
    what is simulated (None: no limit). ``progress`` is told what is done, of all. Raises InputError when no way fits,
    and for an unknown device.
    """
    check_layers(layers)
    device = as_device(device)
    check_whole("most_depth", most_depth, 1, MOST_STEPS)
    check_whole("reserve_bytes", reserve_bytes, 0, LARGEST_BYTES)
    limits = [n for n in (memory_limit_bytes, device.memory_bytes) if n is not None]
    limit = min(limits, default=None)
    room = Room((LARGEST_BYTES if limit is None else limit) - reserve_bytes, pinned_limit_bytes)
    _check_sizes(layers, room, reserve_bytes)
    costs = LayerCosts(layers, device)
    space, floor = Space(costs, room, most_depth), floor_ticks(costs, room, most_depth)
    every = space.all_ways()
    ways = space.good_ways(floor) if every is None else every
    if not len(ways.rows):
        raise _nothing_fits(layers, room, every is not None)
    placements = _Placements(layers, device, costs, reserve_bytes)
    search = Search(placements.candidates, budget_ops, progress)
    search.finish(placements.in_order(ways), None)
    if not search.took:  # the budget pays for none
        search.evaluate([way for _, way in islice(placements.in_order(ways), 1)])
    lean, is_small = _leanest(search, ways), layers.passes * len(layers.steps) <= MOST_AGAIN
    if every is None and is_small:  # the good ways of less room are others
        less = room._replace(card=lean.device_bytes - 1)
        lean = _leanest(search, Space(costs, less, most_depth).good_ways(floor_ticks(costs, less, most_depth)))
    way, shortest = search.best(), search.shortest
    floor = min(shortest, floor if every is None else search.floor)
    best = placements.placed(way, shortest)
    prediction = predict(best.config.schedule(layers), device)
    return BestOffload(
        best=best,
        lean=placements.placed(lean, search.took[lean]),
        memory_bytes=limit,
        pinned_limit_bytes=pinned_limit_bytes,
        issued_bound=prediction.issued_bound,
        critical_s=prediction.critical_s,
        exact=floor == shortest,
        floor_s=floor / TICKS_PER_S,
        ways=len(ways.rows),
        simulated=len(search.took),
        lists_all=every is not None,
        passes=layers.passes,
        device=device.name,
        link=link_words(device, False),
        **_beside(layers, device, best.config, limit),
    )


def _check_sizes(layers: Layers, room: Room, reserve_bytes: int) -> None:
    """What can be said before a search. Raises InputError."""
    largest = max(layers.steps, key=lambda step: step.weight_bytes)
    if largest.weight_bytes > room.card:
        reserved = f" and {format_bytes(reserve_bytes)} are reserved" if reserve_bytes else ""
        raise InputError(
            f"memory limit = {room.card + reserve_bytes} bytes ({format_bytes(room.card + reserve_bytes)}): the largest"
            f" layer, {largest.name}, has {format_bytes(largest.weight_bytes)} of weights{reserved}; allow more"
            f"{' or reserve less' if reserve_bytes else ''}"
        )
    steps = len(layers.steps)
    if steps > MOST_STEPS or 6 * steps * layers.passes > MOST_OPS:
        raise InputError(
            f"layers, passes: {steps} layers and {layers.passes} passes are too many to search; give at most"
            f" {MOST_STEPS} layers and {MOST_OPS // 6} together: after a few passes each takes as long as the last"
        )


def _nothing_fits(layers: Layers, room: Room, is_certain: bool) -> InputError:
    found = "fits" if is_certain else "was found that fits"
    limits = f"{format_bytes(room.card)} for weights on the card"
    if room.pinned is not None:
        limits += f" and {format_bytes(room.pinned)} pinned on the host"
    return InputError(
        f"no way to place {format_bytes(layers.weight_bytes)} of weights {found} into {limits}; allow more"
    )


def _leanest(search: Search[Way], ways: Ways) -> Way:
    """The way that needs least memory of those near the best: of the few leanest that may be, and of all simulated."""
    most = search.shortest * (100 + NEAR_PERCENT) // 100
    few = (way._replace(bound=0) for way in islice(ways.leanest(most), MOST_LEAN))
    search.evaluate([way for way in few if way not in search.took])
    return search.simplest()


def _beside(layers: Layers, device: Device, config: Offload, limit_bytes: int | None) -> dict[str, Any]:
    """What the best way is compared with, and what would make it faster."""
    everything = Offload(1, tuple(step.name for step in layers.steps), reserve_bytes=config.reserve_bytes)
    cards = {
        "link": (layers, faster(device, "link", FASTER)),
        "kernel": (layers.scaled(1 / FASTER), faster(device, "kernel", FASTER)),
        "launch": (layers, faster(device, "launch", FASTER)),
    }
    return {
        "serial_s": _seconds(one_by_one(layers, "pageable"), device),
        "one_by_one_s": _seconds(one_by_one(layers, "pinned"), device),
        "kernel_first_s": _seconds(_kernel_first(layers, config, limit_bytes).schedule(layers), device),
        "resident_s": _seconds(everything.schedule(layers), device),
        "resident_bytes": everything.device_bytes(layers),
        "faster_s": {name: _seconds(config.schedule(some), card) for name, (some, card) in cards.items()},
    }


def _kernel_first(layers: Layers, config: Offload, limit_bytes: int | None) -> Offload:
    """The way from pageable memory, in as many buffers as have room, two at least if they do."""
    found = replace(config, memory="pageable", kernel_first=True)
    two = replace(found, depth=max(2, config.depth))
    return two if limit_bytes is None or two.device_bytes(layers) <= limit_bytes else found


def _seconds(schedule: Schedule, device: Device) -> float:
    return simulate_one_of_many(schedule, device).makespan_s


class _Placements:
    """The ways to place layers as candidates of a search, and what is said of those that were simulated."""

    def __init__(self, layers: Layers, device: Device, costs: LayerCosts, reserve_bytes: int) -> None:
        self._layers, self._device, self._costs = layers, device, costs
        self._reserve_bytes = reserve_bytes
        self._names = [step.name for step in layers.steps]
        self.candidates = Candidates(lambda block: list(map(self._ticks, block)), self._ops, attrgetter("device_bytes"))

    def _config(self, way: Way) -> Offload:
        """The way as the pattern has it."""
        stay = tuple(name for number, name in enumerate(self._names) if number not in set(way.streamed))
        return Offload(way.depth, stay, reserve_bytes=self._reserve_bytes)

    def _ops(self, way: Way) -> int:
        """Kernels, and for each layer that is streamed a copy with two waits and two records."""
        return self._layers.passes * (int(self._costs.launches.sum()) + 5 * len(way.streamed))

    def _ticks(self, way: Way) -> int:
        schedule = self._config(way).schedule(self._layers)
        return round(_seconds(schedule, self._device) * TICKS_PER_S)

    def placed(self, way: Way, ticks: int) -> Placed:
        """What is said of a way that takes so many ``ticks``."""
        layers, config = self._layers, self._config(way)
        load = loading(layers, config)
        steps = layers.steps
        return Placed(
            config=config,
            makespan_s=ticks / TICKS_PER_S,
            device_bytes=config.device_bytes(layers),
            pinned_bytes=config.pinned_bytes(layers),
            streamed=tuple(steps[number].name for number in way.streamed),
            streamed_bytes=sum(steps[number].weight_bytes for number in way.streamed),
            load_s=0.0 if load is None else _seconds(load, self._device),
        )

    def in_order(self, ways: Ways) -> Iterator[tuple[int, Way]]:
        """The bounds and the ways, the lowest bound first."""
        return ((way.bound, way._replace(bound=0)) for way in self._in_order(ways))

    def _in_order(self, ways: Ways) -> Iterator[Way]:
        """The ways by their bounds, which go through all passes: a block at a time, as far as they are asked for."""
        if self._costs.passes <= FEWEST_PASSES:
            yield from ways.in_order()
            return
        refined: list[Way] = []
        listed = ways.in_order()
        while block := list(islice(listed, REFINED)):
            for way in self._refined(block):
                heappush(refined, way)
            while refined and refined[0].bound <= block[-1].bound:  # what comes later has no lower one
                yield heappop(refined)
        yield from sorted(refined)

    def _refined(self, ways: Sequence[Way]) -> list[Way]:
        """The same ways with bounds that go through all passes."""
        found: list[Way] = []
        for depth in {way.depth for way in ways}:
            own = [way for way in ways if way.depth == depth]
            rows = np.zeros((len(own), len(self._names)), dtype=bool)
            for row, way in zip(rows, own, strict=True):
                row[list(way.streamed)] = True
            bounds = self._costs.bounds(rows, depth, self._costs.passes).tolist()
            found += [way._replace(bound=max(way.bound, bound)) for way, bound in zip(own, bounds, strict=True)]
        return found
