"""Search for the best placement of layers that do not all fit on the card.

A placement keeps some layers on the card. The other layers take turns over a number of buffers. Placements are
simulated in the order of their lower bounds, until the next bound is no less than the shortest makespan found. If there
are few placements, all of them are listed, and the result is the optimum. If only good ones are listed, or a budget of
simulated ops ends the search, there may be a better placement. None is faster than ``floor_s``, a bound over all.
"""

from collections.abc import Sequence
from heapq import nsmallest
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from streamsim.analysis import predict
from streamsim.checks import LARGEST_BYTES, check_whole
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, as_device, link_words
from streamsim.errors import InputError
from streamsim.program import Layers, Offload, Schedule, check_layers, loading, one_by_one
from streamsim.rules import TICKS_PER_S
from streamsim.search.budgeted import BUDGET_OPS, NEAR_PERCENT, NEVER, Progress, Search
from streamsim.search.evaluate import is_fast
from streamsim.search.placements import LayerCosts, Placement, Space, WeightRoom
from streamsim.search.result import FASTER, Best, SimulatedProgram, with_one_thing_faster
from streamsim.text import format_bytes

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
    check_layers(layers)
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
    space = Space(costs, room, most_depth)
    every = space.all_ways()
    ways = space.good_ways() if every is None else every
    if not ways:
        raise _nothing_fits(layers, room, every is not None)
    placements = _Placements(layers, device, costs, reserve_bytes)
    search = Search(placements.ticks, placements.ops, attrgetter("device_bytes"), budget_ops, progress)
    least_left = NEVER
    for way in ways:
        if way.bound >= search.shortest or (search.took and search.cost_ops([way]) > search.left_ops):
            least_left = way.bound
            break
        search.evaluate([way])
    lean, is_small = _leanest(search, ways), layers.passes * len(layers.turns) <= MOST_AGAIN
    if every is None and is_small:  # with less memory, other placements are good
        less = room._replace(card=lean.device_bytes - 1)
        lean = _leanest(search, Space(costs, less, most_depth).good_ways())
    best, shortest = placements.result(search, search.best()), search.shortest
    floor = min(shortest, costs.floor(room) if every is None else least_left)
    open_bounds, near_bounds = (sum(way.bound <= most for way in ways) for most in (shortest - 1, _near(search)))
    left_open = 0 if floor == shortest else max(0, open_bounds - len(search.took))
    whys = [f"the budget of {budget_ops} simulated ops is spent"] if left_open else []
    if every is None and floor < shortest:
        whys.append("there are too many ways to list them all")
    prediction = predict(best.config.schedule(layers), device)
    return Best(
        best=best,
        simplest=placements.result(search, lean),
        compared=_compared(layers, device, best.config, limit),
        work=layers,
        card=device,
        link=link_words(device, False),
        programs=len(ways),
        simulated=len(search.took),
        lists_all=every is not None,
        left_open=left_open,
        left_open_because="; ".join(whys) or None,
        exact=floor == shortest,
        simplest_exact=every is not None and floor == shortest and near_bounds <= MOST_LEAN,
        floor_s=floor / TICKS_PER_S,
        issued_bound=prediction.issued_bound,
        critical_s=prediction.critical_s,
        faster_s={
            name: _seconds(best.config.schedule(some), card)
            for name, (some, card) in with_one_thing_faster(layers, layers.scaled(1 / FASTER), device).items()
        },
        compiled=is_fast(),
        memory_bytes=limit,
        pinned_limit_bytes=pinned_limit_bytes,
    )


def _check_sizes(layers: Layers, room: WeightRoom, reserve_bytes: int) -> None:
    """Raise InputError if the largest layer does not fit, or if there are too many layers to search."""
    largest = max(layers.steps, key=lambda step: step.weight_bytes)
    if largest.weight_bytes > room.card:
        reserved = f" and {format_bytes(reserve_bytes)} are reserved" if reserve_bytes else ""
        raise InputError(
            f"memory limit = {room.card + reserve_bytes} bytes ({format_bytes(room.card + reserve_bytes)}): the largest"
            f" layer, {largest.name}, has {format_bytes(largest.weight_bytes)} of weights{reserved}; allow more"
            f"{' or reserve less' if reserve_bytes else ''}"
        )
    steps = len(layers.steps)
    if steps > MOST_STEPS or 6 * len(layers.turns) * layers.passes > MOST_OPS:
        most = MOST_OPS * steps // (6 * len(layers.turns))
        raise InputError(
            f"layers, passes: {steps} layers and {layers.passes} passes are too many to search; give at most"
            f" {MOST_STEPS} layers and {most} together: after a few passes each takes as long as the last"
        )


def _nothing_fits(layers: Layers, room: WeightRoom, is_certain: bool) -> InputError:
    found = "fits" if is_certain else "was found that fits"
    limits = f"{format_bytes(room.card)} for weights on the card"
    if room.pinned is not None:
        limits += f" and {format_bytes(room.pinned)} pinned on the host"
    return InputError(
        f"no way to place {format_bytes(layers.weight_bytes)} of weights {found} into {limits}; allow more"
    )


def _leanest(search: Search[Placement], ways: Sequence[Placement]) -> Placement:
    """Return the placement with the least memory among those near the best.

    It simulates the ``MOST_LEAN`` leanest placements whose bounds are near the best, and considers all simulated ones.
    """
    near = (way for way in ways if way.bound <= _near(search))
    few = nsmallest(MOST_LEAN, near, key=attrgetter("device_bytes", "depth", "bound"))
    search.evaluate([way for way in few if way not in search.took])
    return search.simplest()


def _near(search: Search[Placement]) -> int:
    """Return the most ticks that count as near the shortest makespan found."""
    return search.shortest * (100 + NEAR_PERCENT) // 100


def _compared(
    layers: Layers, device: Device, config: Offload, limit_bytes: int | None
) -> dict[str, SimulatedProgram[Any]]:
    """Return the programs that the best placement is compared with, by name."""
    everything = Offload(1, tuple(step.name for step in layers.steps), reserve_bytes=config.reserve_bytes)
    schedules = {
        "serial": (one_by_one(layers, "pageable"), "each layer copied from pageable memory in its turn"),
        "one_by_one": (one_by_one(layers, "pinned"), "each layer copied from pinned memory in its turn"),
        "pageable": (_pageable(layers, config, limit_bytes).schedule(layers), "nothing is pinned"),
        "resident": (everything.schedule(layers), "every layer on the card"),
    }
    found = {
        name: SimulatedProgram(None, words, _seconds(schedule, device)) for name, (schedule, words) in schedules.items()
    }
    return found | {"resident": replace(found["resident"], device_bytes=everything.device_bytes(layers))}


def _pageable(layers: Layers, config: Offload, limit_bytes: int | None) -> Offload:
    """Return the placement with pageable memory, in at least two buffers if two fit."""
    found = replace(config, memory="pageable")
    two = replace(found, depth=max(2, config.depth))
    return two if limit_bytes is None or two.device_bytes(layers) <= limit_bytes else found


def _seconds(schedule: Schedule, device: Device) -> float:
    return simulate_one_of_many(schedule, device).makespan_s


class _Placements:
    """The placements of layers as candidates of a search, and the results of those that were simulated."""

    def __init__(self, layers: Layers, device: Device, costs: LayerCosts, reserve_bytes: int) -> None:
        self._layers, self._device, self._costs, self._reserve_bytes = layers, device, costs, reserve_bytes

    def _config(self, way: Placement) -> Offload:
        """Return the placement as parameters of the offload pattern."""
        gone = {*way.streamed}
        stay = tuple(step.name for number, step in enumerate(self._layers.steps) if number not in gone)
        return Offload(way.depth, stay, reserve_bytes=self._reserve_bytes)

    def ops(self, way: Placement) -> int:
        """Return the ops of a placement: kernels, and for each streamed turn a copy, two waits and two records."""
        sides = self._costs.sides
        launches = int(self._costs.launches[sides].sum())
        return self._layers.passes * (launches + 5 * len(way.streamed) * len(sides))

    def ticks(self, ways: Sequence[Placement]) -> list[int]:
        """Return the simulated makespans of placements."""
        programs = (self._config(way).schedule(self._layers) for way in ways)
        return [round(_seconds(program, self._device) * TICKS_PER_S) for program in programs]

    def result(self, search: Search[Placement], way: Placement) -> SimulatedProgram[Offload]:
        """Return the result of a placement that was simulated."""
        layers, config = self._layers, self._config(way)
        load, streamed = loading(layers, config), [layers.steps[number] for number in way.streamed]
        words = f"depth {way.depth}, {len(config.resident)} of {len(layers.steps)} layers stay"
        makespan_s = search.took[way] / TICKS_PER_S
        more = {
            "pinned_bytes": config.pinned_bytes(layers),
            "streamed": tuple(step.name for step in streamed),
            "streamed_bytes": sum(step.weight_bytes for step in streamed),
            "load_s": 0.0 if load is None else _seconds(load, self._device),
            "pass_s": makespan_s / layers.passes,
        }
        return SimulatedProgram(
            config,
            words if streamed else EVERYTHING_FITS,
            makespan_s,
            device_bytes=config.device_bytes(layers),
            more=more,
        )
