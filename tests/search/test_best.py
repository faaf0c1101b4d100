"""The best schedule: the optimum is what trying everything gives, and every figure beside it is what it says."""

from itertools import product
from typing import Any

import pytest
from effort import examples
from grids import EVALUATORS, grids, workloads
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import devices, link, make_device

import streamsim
from streamsim import search
from streamsim.device import Device, known_within, load_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import ORDERS, Config, Workload, WorkloadKernel, build
from streamsim.rules import TICKS_PER_S

WORK = Workload(16 << 20, (4,), (4,), (WorkloadKernel(duration_s=0.57e-3),))


def everything(workload: Workload, grid: search.Grid, device: Device) -> dict[Config, int]:
    """Ticks of all combinations as they are written in the grid, straight from the patterns and SimPy."""
    found: dict[Config, int] = {}
    for order, n, s, k, launch in product(grid.order, grid.chunks, grid.streams, grid.buffers, grid.launch):
        if order == "serial" and k is not None:
            continue  # a ring is issued depth-first
        streams = 1 if order in ("serial", "prefetch") else s  # of a serial program one, of a prefetching one its own
        try:
            schedule = build(workload, order, n, streams, buffers=k, memory=grid.memory, launch=launch)
        except InputError:
            continue
        # The program is the same when there are more streams or buffers than chunks.
        buffers = k or (2 if order == "prefetch" else None)
        config = Config(order, n, min(streams, n), buffers and min(buffers, n), grid.memory, launch)
        ticks = round(simulate(schedule, device).makespan_s * TICKS_PER_S)
        assert found.setdefault(config, ticks) == ticks
    return found


def seconds(config: Config, workload: Workload, device: Device) -> float:
    return simulate(config.schedule(workload), device).makespan_s


@pytest.mark.parametrize("fast", EVALUATORS)
@examples(60)
@given(workloads(), devices(), grids)
def test_the_optimum_is_what_trying_everything_gives(
    fast: bool, workload: Workload, device: Device, grid: search.Grid
) -> None:
    """And so is the simplest within 1 %."""
    tried = everything(workload, grid, device) if workload.work >= min(grid.chunks) else {}
    assume(tried)
    best = streamsim.best(workload, device, grid, fast=fast)
    shortest = min(tried.values())
    assert best.best.config == min((c for c in tried if tried[c] == shortest), key=simplicity)
    assert best.best.makespan_s == shortest / TICKS_PER_S
    near = [c for c in tried if tried[c] * 100 <= shortest * 101]
    assert best.simplest.config == min(near, key=simplicity)
    assert best.simplest.makespan_s == tried[best.simplest.config] / TICKS_PER_S
    assert (best.programs, best.simulated <= best.programs) == (len(tried), True)


def simplicity(c: Config) -> tuple[int, int, int, int, bool]:
    """Fewest chunks, then streams (three to prefetch), then no ring or the smallest, depth-first first, live first."""
    streams = 3 if c.order == "prefetch" else c.streams
    return c.chunks, streams, c.buffers or 0, ORDERS.index(c.order), c.launch == "graph"


# Within a budget


@examples(40)
@given(workloads(), devices(), grids, st.integers(1, 800))
def test_whatever_the_budget_what_is_said_to_be_known_is_so(
    workload: Workload, device: Device, grid: search.Grid, budget: int
) -> None:
    tried = everything(workload, grid, device) if workload.work >= min(grid.chunks) else {}
    assume(tried)
    best = streamsim.best(workload, device, grid, fast=False, budget_ops=budget)
    shortest, optimum = round(best.best.makespan_s * TICKS_PER_S), min(tried.values())
    assert tried[best.best.config] == shortest
    assert round(best.floor_s * TICKS_PER_S) <= optimum
    near = [c for c in tried if tried[c] * 100 <= shortest * 101]
    assert best.simplest.config in near
    if best.exact:
        assert shortest == optimum == round(best.floor_s * TICKS_PER_S)
        assert best.best.config == min((c for c in tried if tried[c] == optimum), key=simplicity)
        assert best.simplest.config == min(near, key=simplicity)
    assert best.simulated <= best.programs == len(tried)
    assert best.exact or best.simulated < best.programs


def test_on_an_assumed_profile_the_simplest_within_its_error_is_used() -> None:
    """All that the model tells apart there is a difference of more than 10 %."""
    device, grid = load_device("rtx3090"), search.Grid(tuple(range(1, 65)), (1, 2, 3, 4))
    assert known_within(device) == 0.1
    best = streamsim.best(WORK, device, grid)
    configs = grid.within(device.memory_bytes).configs(WORK)
    took = dict(zip(configs, search.evaluate_ticks(WORK, configs, device), strict=True))
    near = [config for config in configs if 100 * took[config] <= 110 * min(took.values())]
    assert best.simplest.config == min(near, key=simplicity)
    assert best.simplest.config.chunks < best.best.config.chunks


@examples(40)
@given(workloads(), devices(), grids, st.integers(1, 800))
def test_no_more_is_simulated_than_the_budget_allows(
    workload: Workload, device: Device, grid: search.Grid, budget: int
) -> None:
    """Except one program, if none of a coarse grid is so cheap."""
    assume(workload.work >= min(grid.chunks))
    try:
        configs = grid.configs(workload)
    except InputError:
        assume(False)
    reported: list[tuple[int, int]] = []
    found = search.GridSearch(workload, device, configs, False, budget, lambda *done: reported.append(done))
    found.run()
    costs = dict(zip(configs, search.simulation_costs(workload, configs, device, False), strict=True))
    assert sum(map(costs.__getitem__, found.took)) <= budget or len(found.took) == 1
    assert set(found.took) <= set(configs)
    assert reported == sorted(reported)
    assert all(done <= of_all == len(configs) for done, of_all in reported)
    if budget >= sum(costs.values()):
        assert not found.open()


@pytest.mark.skipif(not search.is_fast(), reason="needs numba, which stands in for SimPy: the ticks are the same")
@pytest.mark.parametrize("name", ["h200", "c2050"])
@pytest.mark.parametrize("kernels", [1, 2])
def test_a_twentieth_of_the_ops_finds_a_program_within_a_percent(name: str, kernels: int) -> None:
    """Breadth-first on several hardware queues the good programs are islands: see the picture in choose.md."""
    workload = Workload(16 << 20, kernels=(WorkloadKernel(duration_s=0.57e-3 / kernels, fill=0.5),) * kernels)
    device, grid = load_device(name), search.Grid(tuple(range(1, 65)), tuple(range(1, 13)))
    configs = grid.configs(workload)
    budget = sum(search.simulation_costs(workload, configs, device, True)) / 20
    found = search.GridSearch(workload, device, configs, True, int(budget))
    found.run()
    assert found.shortest <= 1.01 * min(search.evaluate_ticks(workload, configs, device, fast=True))


# The device's memory


@given(workloads(), st.integers(1, 12), st.integers(1, 5), st.none() | st.integers(1, 8))
def test_device_bytes_are_those_of_the_schedules_buffers(workload: Workload, n: int, s: int, k: int | None) -> None:
    assume(n <= workload.most_chunks)
    config = Config(chunks=n, streams=s, buffers=k)
    buffers = config.schedule(workload).buffers
    assert config.device_bytes(workload) == sum(buffer.bytes for buffer in buffers if buffer.memory == "device")


@examples(60)
@given(workloads(), devices(), st.integers(0, 17), st.booleans())
def test_the_memory_limit_holds_and_leaves_the_best_of_what_fits(
    workload: Workload, device: Device, number: int, just_fits: bool
) -> None:
    everywhere = search.Grid((1, 2, 3), (1, 2), buffers=(None, 1, 2)).configs(workload)
    needed = everywhere[number % len(everywhere)].device_bytes(workload)
    limit = max(1, needed if just_fits else needed - 1)
    grid = search.Grid((1, 2, 3), (1, 2), buffers=(None, 1, 2), memory_limit_bytes=limit)
    fits = [config for config in everywhere if config.device_bytes(workload) <= limit]
    if not fits:
        with pytest.raises(InputError, match=rf"memory_limit_bytes = {limit} \(.*\): no program of the grid fits"):
            streamsim.best(workload, device, grid, fast=False)
        return
    best = streamsim.best(workload, device, grid, fast=False)
    assert best.best.device_bytes == best.best.config.device_bytes(workload) <= limit
    assert best.best.makespan_s == min(seconds(config, workload, device) for config in fits)


# What helps


@st.composite
def better(draw: st.DrawFn) -> tuple[Device, Device]:
    """One in-order queue per engine, directions that do not slow each other; and the same with something better."""
    fixed: dict[str, Any] = dict.fromkeys(
        ("h2d_to_kernel", "kernel_to_d2h", "d2h_to_h2d", "kernel_to_h2d"), draw(st.integers(0, 3))
    )
    engines, latency = draw(st.sampled_from((0, 1, 2))), draw(st.integers(0, 3))
    rates = st.sampled_from((0.25, 0.5, 1, 2))
    ticks = st.integers(0, 4)
    pairs = [sorted((draw(of), draw(of))) for of in (rates, rates, ticks, ticks, ticks, ticks)]
    h2d, d2h, *costs = ([low, high] if i < 2 else [high, low] for i, (low, high) in enumerate(pairs))

    def device(k: int) -> Device:
        names = ("copy", "kernel", "submit")
        host: dict[str, Any] = {name: cost[k] for name, cost in zip(names, costs, strict=False)}
        slower = int(costs[3][k])
        links: dict[str, Any] = {name: link(latency + slower, rate[k]) for name, rate in (("h2d", h2d), ("d2h", d2h))}
        return make_device(copy_engines=engines, connections=1, **links, **fixed, **host)

    return device(0), device(1)


@examples(50)
@given(
    workloads(), better(), st.sampled_from(ORDERS), st.integers(1, 8), st.integers(1, 4), st.none() | st.integers(1, 4)
)
def test_on_issue_order_queues_nothing_better_ever_hurts(
    workload: Workload, pair: tuple[Device, Device], order: str, chunks: int, streams: int, buffers: int | None
) -> None:
    """More bandwidth, less latency, cheaper calls: start = max(engine free, stream free, ...) grows with all of them.

    Needs a fixed order (one queue an engine, kernels one by one) and directions that do not slow each other.
    """
    assume(chunks <= workload.most_chunks and not any(kernel.duration_s is None for kernel in workload.kernels))
    config = Config(
        order,  # type: ignore[arg-type]
        chunks,
        1 if order in ("serial", "prefetch") else streams,
        buffers if order in ("depth-first", "prefetch") else None,
    )
    worse, best = pair
    assert seconds(config, workload, best) <= seconds(config, workload, worse)


@examples(50)
@given(workloads(), devices(), st.integers(1, 4), st.integers(1, 3))
def test_a_larger_grid_is_never_worse(workload: Workload, device: Device, chunks: int, streams: int) -> None:
    def optimum(most_chunks: int, most_streams: int) -> float:
        grid = search.Grid(tuple(range(1, most_chunks + 1)), tuple(range(1, most_streams + 1)))
        return streamsim.best(workload, device, grid, fast=False).best.makespan_s

    assert optimum(chunks + 2, streams + 1) <= optimum(chunks, streams)
