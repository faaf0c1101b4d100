"""The best way to place layers: what trying every way gives, or no further from it than is said."""

import sys
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest
import strategies as card
from effort import examples
from hypothesis import assume, example, given
from hypothesis import strategies as st
from layered import Times, directions, layers_of, models, names_of, recurrence
from msgspec.structs import replace

from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Layer, Layers, Offload, WorkloadKernel
from streamsim.search import MOST_LEAN, Best, LayerCosts, best_offload

MODULE = sys.modules["streamsim.search.best_offload"]  # whose name in the room is the function's
IDEAL = card.make_device()
NS = 1e-9
Model = tuple[list[Times], frozenset[int], int, int]


def ticks(seconds: float) -> int:
    return round(seconds / NS)


class Asked(NamedTuple):
    layers: Layers
    device: Device
    memory: int
    reserve: int
    pinned: int | None

    def every_way(self) -> dict[Offload, int]:
        """The ticks of every way that has room, by its schedule's own buffers."""
        names, found = [step.name for step in self.layers.steps], {}
        for count in range(len(names) + 1):
            for resident in combinations(names, count):
                for depth in range(1, max(1, len(names) - count) + 1):
                    config = Offload(depth, resident, reserve_bytes=self.reserve)
                    schedule = config.schedule(self.layers)
                    pinned = sum(b.bytes for b in schedule.buffers if b.memory == "pinned")
                    if schedule.device_bytes <= self.memory and (self.pinned is None or pinned <= self.pinned):
                        found[config] = ticks(simulate(schedule, self.device).makespan_s)
        return found

    def best(self, **more: Any) -> Best[Offload]:
        return best_offload(self.layers, self.device, self.memory, self.reserve, self.pinned, **more)


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    """Up to five layers on any device, with room for some of them."""
    times, _, _, passes = draw(models(5, 2))
    whole, largest = sum(copy for copy, _ in times), max(copy for copy, _ in times)
    reserve = draw(st.sampled_from((0, 0, 7)))
    memory = reserve + draw(st.integers(max(1, largest - 1), whole + largest))
    pinned = draw(st.none() | st.integers(0, whole))
    layers = layers_of(*times, passes=passes, direction=draw(directions))
    return Asked(layers, draw(card.devices()), memory, reserve, pinned)


# The optimum


@examples(60)
@given(asked())
def test_the_best_way_is_what_trying_every_way_gives(case: Asked) -> None:
    every = case.every_way()
    if not every:
        with pytest.raises(InputError, match=r"no way to place .* was found that fits into"):
            case.best()
        return
    found = case.best(budget_ops=None)
    fits = case.layers.weight_bytes + case.reserve <= case.memory
    assert found.exact
    assert found.programs == (1 if fits else len(every))
    assert ticks(found.best.makespan_s) == ticks(found.floor_s) == min(every.values())
    assert every[found.best.config] == min(every.values())
    limit = 1.01 * min(every.values())
    near = [config.device_bytes(case.layers) for config, taken in every.items() if taken <= limit]
    assert every[found.simplest.config] == ticks(found.simplest.makespan_s)
    assert every[found.simplest.config] <= limit
    assert found.simplest.device_bytes >= min(near)
    if fits:
        assert found.simplest == found.best
        assert found.best.words == "everything fits: keep all layers"
    elif len(every) <= MOST_LEAN:
        assert found.simplest.device_bytes == min(near)


@examples(60)
@given(asked(), st.booleans())
def test_what_is_not_tried_is_no_faster_than_is_said(case: Asked, is_listed: bool) -> None:
    # Good ways only, or a budget that ends the search after the first: nothing said is wrong, and what is found fits.
    every = case.every_way()
    assume(every)
    with pytest.MonkeyPatch.context() as patch:
        if not is_listed:
            patch.setattr(MODULE, "MOST_LISTED", 0)
            patch.setattr(MODULE, "MOST_CELLS", 30_000)  # of five layers all that there is to be found
        try:
            found = case.best(budget_ops=0 if is_listed else None)
        except InputError as error:
            assert case.pinned is not None and "was found that fits" in str(error)  # noqa: PT018, PT017
            return
    optimum = min(every.values())
    assert ticks(found.floor_s) <= optimum <= ticks(found.best.makespan_s) == every[found.best.config]
    assert ticks(found.simplest.makespan_s) == every[found.simplest.config] <= 1.01 * found.best.makespan_s / NS
    assert found.simplest.device_bytes <= found.best.device_bytes
    assert found.exact is (found.floor_s == found.best.makespan_s)


# What it says besides


def test_more_room_leads_to_no_heavier_choice() -> None:
    """34 layers, as in docs/layers.md: what is within 1 % of the best in 4 GiB is so in 8, with more to try."""
    first, last = (
        Layer(524_000_000, (WorkloadKernel(duration_s=s),), name) for name, s in (("in", 2e-5), ("out", 1e-3))
    )
    block = Layer(436_000_000, (WorkloadKernel(duration_s=4.9e-3), WorkloadKernel(duration_s=2.1e-3)), "block", 32)
    model = Layers((first, block, last), passes=8)
    four, eight = (best_offload(model, "h200", room << 30, 0).simplest.device_bytes for room in (4, 8))
    assert eight <= four


def test_many_layers_are_placed_near_the_bound() -> None:
    # 200 layers whose kernels take 1.2 times as long as their copies, in a third of their memory: the kernels bound it.
    times = [(1_000_000 * (1 + n % 7), 24_000 * (1 + n % 7)) for n in range(200)]
    layers = layers_of(*times)
    found = best_offload(layers, "h200", layers.weight_bytes // 3)
    assert found.floor_s <= found.best.makespan_s < 1.01 * found.floor_s
    assert found.best.device_bytes <= layers.weight_bytes // 3


# The bounds


@examples(200)
@given(models(most_passes=8), directions, card.devices())
@example(([(1, 9), (9, 1)], frozenset(), 1, 8), "forward", IDEAL)
def test_no_way_ends_before_its_bound(model: Model, direction: Any, device: Device) -> None:
    """Without overheads, the bound of a few passes is what they take."""
    times, resident, depth, passes = model
    streamed = np.array([[n not in resident for n in range(len(times))]])
    depth = min(depth, int(streamed.sum())) or 1
    layers = layers_of(*times, passes=passes, direction=direction)
    taken = ticks(simulate(Offload(depth, names_of(resident)).schedule(layers), device).makespan_s)
    costs = LayerCosts(layers, device)
    assert costs.bounds(streamed, depth).tolist()[0] <= taken
    assert costs.floor(layers.weight_bytes) <= taken  # everything fits
    few = min(passes, MODULE.MOST_PASSES)
    (bound,) = LayerCosts(replace(layers, passes=few), IDEAL).bounds(streamed, depth).tolist()
    assert bound == recurrence(times, resident, depth, few, direction)


@examples(60)
@given(asked())
def test_no_way_in_the_room_ends_before_the_floor(case: Asked) -> None:
    floor = LayerCosts(case.layers, case.device).floor(case.memory - case.reserve)
    assert all(floor <= taken for taken in case.every_way().values())
