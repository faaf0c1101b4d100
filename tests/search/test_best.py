"""The best schedule: the optimum is what trying everything gives, and every figure beside it is what it says."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from effort import examples
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from strategies import COST, NS, devices, link, make_device, pipeline_of

import streamsim
from streamsim.cli import main
from streamsim.cli.best import best_command
from streamsim.device.files import read_device, write_device
from streamsim.device.library import load_device
from streamsim.device.profile import KernelCost
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program.config import HOST_MEMORIES, ORDERS, Config
from streamsim.program.files import write_workload
from streamsim.program.patterns import build, serial
from streamsim.program.schedule import LAUNCHES
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.rules.clock import S_PER_TICK
from streamsim.search.best import FASTER, Best
from streamsim.search.evaluate import SLOW, evaluate_ticks, is_fast
from streamsim.search.grid import Grid
from streamsim.search.pruning_bounds import LowerBounds
from streamsim.search.shortest import BLOCKS, MARGINS_PERCENT, _few, cost_ops, search

if TYPE_CHECKING:
    from pathlib import Path

    from streamsim.device.profile import Device

EVALUATORS = [False, pytest.param(True, marks=pytest.mark.skipif(not is_fast(), reason="needs streamsim[fast]"))]
WORK = Workload(16 << 20, (4,), (4,), (WorkloadKernel(duration_s=0.57e-3),))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A few elements, up to two arrays each way and two kernels, of given times or from the cost table."""
    elements = draw(st.integers(1, 24))
    arrays = st.lists(st.sampled_from((1, 2, 4, 8)), max_size=2).map(tuple)
    timed = st.builds(
        lambda ticks, fill: WorkloadKernel(duration_s=ticks * NS * elements, fill=fill),
        st.integers(1, 12),
        st.sampled_from((1.0, 0.5, 0.3)),
    )
    costed = st.just(WorkloadKernel(COST.name, parameter=COST.parameter))
    inputs, outputs, kernels = draw(arrays), draw(arrays), draw(st.lists(timed | costed, max_size=2))
    assume(inputs or outputs or kernels)
    return Workload(elements, inputs, outputs, tuple(kernels))


def some(values: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True).map(tuple)


grids = st.builds(
    Grid,
    chunks=some(range(1, 9)),
    streams=some(range(1, 6)),
    orders=some(ORDERS),
    buffers=some((None, 1, 2, 3, 5)),
    launches=some(LAUNCHES),
    memory=st.sampled_from(HOST_MEMORIES),
)


def everything(workload: Workload, grid: Grid, device: Device) -> dict[Config, int]:
    """Ticks of all combinations as they are written in the grid, straight from the patterns and SimPy."""
    found = {}
    for order, n, s, k, launch in product(grid.orders, grid.chunks, grid.streams, grid.buffers, grid.launches):
        if order == "serial" and k is not None:
            continue  # a ring is issued depth-first
        try:
            schedule = build(workload, order, n, s, k, grid.memory, launch)
        except InputError:
            continue
        if launch == "graph" and grid.memory == "pageable":
            continue  # even without copies
        # The program is the same when there are more streams or buffers than chunks; a serial one has one stream.
        streams = 1 if order == "serial" else min(s, n)
        config = Config(order, n, streams, k and min(k, n), grid.memory, launch)
        ticks = round(simulate(schedule, device).makespan_s / S_PER_TICK)
        assert found.setdefault(config, ticks) == ticks
    return found


def seconds(config: Config, workload: Workload, device: Device) -> float:
    return simulate(config.schedule(workload), device).makespan_s


@pytest.mark.parametrize("fast", EVALUATORS)
def test_the_optimum_is_what_trying_everything_gives(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so are the simplest within 1 %, the shares within 1, 5 and 10 %, and the range of chunks within 5 %.

    Simulated one by one, so that as many as possible are pruned.
    """
    monkeypatch.setitem(BLOCKS, fast, (1, 1))
    pruned = 0

    @examples(120)
    @given(workloads(), devices(), grids)
    def check(workload: Workload, device: Device, grid: Grid) -> None:
        nonlocal pruned
        tried = everything(workload, grid, device) if workload.elements >= min(grid.chunks) else {}
        assume(tried)
        best = streamsim.best(workload, device, grid, fast=fast)
        shortest = min(tried.values())
        # fewest chunks, then streams, then no ring or the smallest, depth-first first, live first
        keys = {c: (c.chunks, c.streams, c.buffers or 0, ORDERS.index(c.order), c.launch == "graph") for c in tried}
        assert best.best.config == min((c for c in tried if tried[c] == shortest), key=keys.__getitem__)
        assert best.best.makespan_s == shortest * S_PER_TICK
        near = [c for c in tried if tried[c] * 100 <= shortest * 101]
        assert best.simplest.config == min(near, key=keys.__getitem__)
        assert best.simplest.makespan_s == tried[best.simplest.config] * S_PER_TICK
        for percent in MARGINS_PERCENT:
            share = sum(t * 100 <= shortest * (100 + percent) for t in tried.values()) / len(tried)
            assert best.flatness.share_within[percent] == share
        assert best.flatness.chunks_within == chunks_within(tried, best.best.config, shortest)
        assert (best.programs, best.simulated <= best.programs) == (len(tried), True)
        pruned += best.programs - best.simulated

    check()
    assert pruned


def chunks_within(tried: dict[Config, int], winner: Config, shortest: int) -> tuple[int, int]:
    """Walk from the winner both ways as long as the slice's next number of chunks is within 5 %."""
    slices = {}
    for config, ticks in tried.items():
        like = (
            config.order == winner.order
            and config.launch == winner.launch
            and config.streams == min(winner.streams, config.chunks)
            and config.buffers == (winner.buffers and min(winner.buffers, config.chunks))
        )
        if like:
            slices[config.chunks] = ticks
    numbers = sorted({config.chunks for config in tried})
    below = [n for n in numbers if n <= winner.chunks][::-1]
    above = [n for n in numbers if n >= winner.chunks]

    def reach(walk: list[int]) -> int:
        last = winner.chunks
        for n in walk:
            if slices.get(n, shortest * 2) * 100 > shortest * 105:
                break
            last = n
        return last

    return reach(below), reach(above)


# Within a budget


@settings(max_examples=40, deadline=None)
@given(workloads(), devices(), grids, st.integers(1, 800))
def test_whatever_the_budget_what_is_said_to_be_known_is_so(
    workload: Workload, device: Device, grid: Grid, budget: int
) -> None:
    tried = everything(workload, grid, device) if workload.elements >= min(grid.chunks) else {}
    assume(tried)
    best = streamsim.best(workload, device, grid, fast=False, budget_ops=budget)
    shortest, optimum = round(best.best.makespan_s / S_PER_TICK), min(tried.values())
    assert tried[best.best.config] == shortest
    assert round(best.floor_s / S_PER_TICK) <= optimum
    if best.exact:
        assert shortest == optimum
        assert best.best.config == min((c for c in tried if tried[c] == optimum), key=lambda config: config.simplicity)
    near = [c for c in tried if tried[c] * 100 <= shortest * 101]
    assert best.simplest.config in near
    assert not best.simplest_exact or best.simplest.config == min(near, key=lambda config: config.simplicity)
    for percent, share in best.flatness.share_within.items():
        count = sum(t * 100 <= shortest * (100 + percent) for t in tried.values())
        assert share is None or share == count / len(tried)
    if best.flatness.chunks_within is not None:
        assert best.flatness.chunks_within == chunks_within(tried, best.best.config, shortest)
    within = sum(t * 100 <= shortest * 110 for t in tried.values())
    assert within <= best.simulated + best.left_open <= best.programs == len(tried)
    nothing_unknown = None not in (*best.flatness.share_within.values(), best.flatness.chunks_within)
    assert (best.left_open == 0) == (best.left_open_because is None) == (nothing_unknown and best.simplest_exact)
    assert best.simplest_exact <= best.exact


@settings(max_examples=40, deadline=None)
@given(workloads(), devices(), grids, st.integers(1, 800))
def test_no_more_is_simulated_than_the_budget_allows(
    workload: Workload, device: Device, grid: Grid, budget: int
) -> None:
    """But for one program, when none is so cheap."""
    assume(workload.elements >= min(grid.chunks))
    bound = LowerBounds(workload, device)
    try:
        queue = sorted(((bound(config), config) for config in grid.configs(workload)), key=lambda item: item[0])
    except InputError:
        assume(False)
    told: list[tuple[int, int]] = []
    found = search(workload, device, queue, False, budget, lambda *done: told.append(done))
    costs = sorted(cost_ops(workload, config) for config in found.ticks)
    assert sum(costs) <= budget or costs == [min(cost_ops(workload, config) for _, config in queue)]
    assert set(found.ticks) | set(found.left) == {config for _, config in queue}
    assert told[-1] == (budget, budget)
    assert told == sorted(told)
    if budget >= sum(cost_ops(workload, config) for _, config in queue):
        assert not found.open_within(max(MARGINS_PERCENT))


@pytest.mark.skipif(not is_fast(), reason="needs streamsim[fast], which stands in for SimPy: the ticks are the same")
@pytest.mark.parametrize("name", ["h200", "c2050"])
@pytest.mark.parametrize("kernels", [1, 2])
def test_a_twentieth_of_the_ops_finds_a_program_within_a_percent(
    name: str, kernels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breadth-first on several hardware queues the good programs are islands: see the picture in choose.md."""
    monkeypatch.setitem(BLOCKS, True, BLOCKS[False])
    workload = Workload(16 << 20, kernels=(WorkloadKernel(duration_s=0.57e-3 / kernels, fill=0.5),) * kernels)
    device, grid = load_device(name), Grid(tuple(range(1, 97)), tuple(range(1, 17)))
    configs, bound = grid.configs(workload), LowerBounds(workload, device)
    queue = sorted(((bound(config), config) for config in configs), key=lambda item: item[0])
    budget = sum(cost_ops(workload, config) for config in configs) // 20
    found = search(workload, device, queue, True, budget)
    assert found.shortest <= 1.01 * min(evaluate_ticks(workload, configs, device, fast=True))


def test_the_few_numbers_of_chunks_and_streams_that_are_tried_first() -> None:
    assert _few(set(range(1, 33))) == {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}
    assert _few({5, 7, 9, 100}) == {5, 7, 9, 100}  # for 1 to 4, 6, 8, and 12 to 96
    assert _few({10**6}) == {10**6}


# The bounds


@examples(100)
@given(workloads(), devices(), grids)
def test_no_program_is_faster_than_its_bound(workload: Workload, device: Device, grid: Grid) -> None:
    assume(workload.elements >= min(grid.chunks))
    bound = LowerBounds(workload, device)
    try:
        configs = grid.configs(workload)
    except InputError:
        assume(False)
    for config, ticks in zip(configs, evaluate_ticks(workload, configs, device, fast=False), strict=True):
        assert bound(config) <= ticks, config


DRAINS = KernelCost("drains", 0, (80, 160), (50 * NS, 90 * NS))  # 40 ticks of work, and 10 in which the card is free
SLIM = WorkloadKernel(duration_s=50 * NS, fill=0.3)


@st.composite
def tight(draw: st.DrawFn) -> tuple[Workload, Device]:
    """Few chunks of unlike sizes on a card where little comes on top of what the bound knows: they are close."""
    elements = draw(st.sampled_from((3, 5, 7)))
    arrays = st.lists(st.sampled_from((1, 3)), max_size=2).map(tuple)
    kernel = st.builds(
        WorkloadKernel, duration_s=st.sampled_from((5 * NS, 20 * NS, 60 * NS)), fill=st.sampled_from((1.0, 0.3))
    )
    workload = Workload(elements, draw(arrays), draw(arrays), (draw(kernel), *draw(st.lists(kernel, max_size=1))))
    ticks, calls = st.sampled_from((0, 0, 1, 5)), st.sampled_from((0, 3, 8))
    host = ("copy", "kernel", "record", "wait", "submit", "graph_launch", "graph_node")
    hand_overs = ("h2d_to_kernel", "kernel_to_d2h", "kernel_to_kernel", "event")
    device = make_device(
        copy_engines=draw(st.sampled_from((2, 2, 1, 0))),
        concurrent_kernels=draw(st.sampled_from((1, 2, 16))),
        **{way: link(draw(ticks), draw(st.sampled_from((1, 2)))) for way in ("h2d", "d2h")},
        **{name: draw(calls) for name in host},
        **{name: draw(ticks) for name in hand_overs},
    )
    return workload, device


CLOSE = Grid(tuple(range(1, 8)), (1, 2, 3, 5), buffers=(None, 2, 3), launches=("live", "graph"))


@settings(max_examples=100, deadline=None)
@given(tight())
@example((Workload(5, (), (1,), (SLIM, SLIM)), make_device(concurrent_kernels=16)))
@example((Workload(2, (8,), (1,), (WorkloadKernel(duration_s=16 * NS),)), make_device(copy=5, kernel=5)))
@example((Workload(3, (), (3,), (WorkloadKernel(duration_s=30 * NS),)), make_device()))
@example((Workload(240, (), (), (WorkloadKernel("drains"),)), make_device(kernels=(DRAINS,), resident_threads=80)))
def test_the_bound_holds_where_it_is_close(case: tuple[Workload, Device]) -> None:
    """By the compiled model, if it is there, for the sake of many examples: the ticks are the same.

    The examples. Of 2, 2 and 1 elements the last chunk's kernels take 10 + 10 ticks and are the first to end, as all
    run side by side: the copies back start at 20, no matter that the first chunk's kernels take 20 + 20. Breadth-first
    the copies in of two chunks are called at 5 and 10, not at 5 and 20: on the card from 5 to 13 and 21, the kernels
    until 23 and 31, the copies back until 26 and 32. Of 2 and 1 elements the last chunk has the shorter way home: its
    kernel ends at 30, its copy at 33. Three kernels that leave the card 10 ticks before they end take 3 x 40 + 10.
    """
    workload, device = case
    bound, configs = LowerBounds(workload, device), CLOSE.configs(workload)
    for config, ticks in zip(configs, evaluate_ticks(workload, configs, device), strict=True):
        assert bound(config) <= ticks, config


@settings(max_examples=30, deadline=None)
@given(tight())
def test_a_bound_does_not_hang_on_those_worked_out_before(case: tuple[Workload, Device]) -> None:
    """Parts of it are kept from one configuration for the next."""
    kept = LowerBounds(*case)
    configs = CLOSE.configs(case[0])
    assert [kept(config) for config in configs] == [LowerBounds(*case)(config) for config in configs]


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 8),
    st.integers(1, 8),
)
def test_the_bound_is_exact_for_the_textbooks_pipeline(h: int, k: int, d: int, chunks: int, streams: int) -> None:
    """On the ideal device the closed form for two copy engines is the larger of two of the bound's lines.

    s + (N - 1) m: the slowest engine, with its head and tail; N s for one stream: the stream's chain.
    """
    device = make_device()
    workload = Workload(chunks, (h,), (d,), (WorkloadKernel(duration_s=k * chunks * NS),))
    total, slowest = h + k + d, max(h, k, d)
    bound = LowerBounds(workload, device)(Config(chunks=chunks, streams=streams))
    rounds = -(-chunks // streams)
    assert bound == max(total + (chunks - 1) * slowest, rounds * total)
    if streams in (1, chunks):
        assert bound == evaluate_ticks(workload, [Config(chunks=chunks, streams=streams)], device, fast=False)[0]


@pytest.mark.parametrize("fast", EVALUATORS)
def test_the_textbooks_pipeline(fast: bool) -> None:
    """12 ticks a stage, cut into N: (N + 2) 12 / N with three streams or more, so 14 at N = 12 against 36 serial.

    More than three streams gain nothing, so the tie goes to three. 4 chunks on 4 streams: 6 x 3 = 18. A copy
    engine 1.1 times as fast on both sides: the kernel (1 tick) still paces, and a byte still takes a tick
    (rounded up): 14. A kernel of 1/1.1 of a tick still takes a tick.
    """
    workload = Workload(12, (1,), (1,), (WorkloadKernel(duration_s=12 * NS),))
    best = streamsim.best(workload, make_device(), Grid(tuple(range(1, 13)), (1, 2, 3, 4)), fast=fast)
    assert best.best.config == Config(chunks=12, streams=3)
    assert best.simplest == best.best
    ticks = (best.best.makespan_s, best.usual.makespan_s, best.serial_s, best.lower_bound_s)
    assert ticks == pytest.approx((14 * NS, 18 * NS, 36 * NS, 12 * NS))
    assert best.usual.config == Config(chunks=4, streams=4)
    assert best.speedup == pytest.approx(36 / 14)
    assert best.gain(best.usual.makespan_s) == pytest.approx(18 / 14)
    assert best.faster_s == pytest.approx({"link": 14 * NS, "kernel": 14 * NS, "launch": 14 * NS})
    assert best.compiled is fast


def test_what_binds_gains_and_what_does_not_does_not() -> None:
    """One copy of 110 ticks: the link 1.1 times as fast takes 100. Kernels, launches: nothing to gain.

    A call of 11 ticks before it takes 10 when launching is 1.1 times as fast.
    """
    workload = Workload(110, (1,), (), ())
    best = streamsim.best(workload, make_device(copy=11), Grid((1,), (1,)), fast=False)
    assert best.best.makespan_s == pytest.approx(121 * NS)
    assert best.faster_s == pytest.approx({"link": 111 * NS, "kernel": 121 * NS, "launch": 120 * NS})
    assert best.bound_by == "H2D copy engine"


def test_what_is_simpler() -> None:
    """Fewest chunks, then streams, then no ring or the smallest, depth-first first, live first."""
    order = [
        Config(chunks=2, streams=8),
        Config(chunks=3, streams=1, buffers=9),
        Config(chunks=3, streams=2),
        Config(chunks=3, streams=2, launch="graph"),
        Config("breadth-first", chunks=3, streams=2),
        Config(chunks=3, streams=2, buffers=1, launch="graph"),
        Config(chunks=3, streams=2, buffers=2),
    ]
    found = order[::-1]
    found.sort(key=lambda config: config.simplicity)
    assert found == order
    grid = Grid((3, 2), (2, 1), ("breadth-first", "depth-first"), launches=("graph", "live"))
    configs = grid.configs(pipeline_of(8))
    assert configs == sorted(configs, key=lambda config: config.simplicity)


@examples(60)
@given(workloads(), devices(connections=1))
def test_ties_go_to_the_simplest(workload: Workload, device: Device) -> None:
    """Nothing is both as fast and simpler; without costs for cutting, many are as fast."""
    grid = Grid(tuple(range(1, min(6, workload.elements) + 1)), (1, 2, 3), ("breadth-first", "depth-first"))
    best = streamsim.best(workload, device, grid, fast=False).best
    for chunks, streams, order in product(grid.chunks, grid.streams, grid.orders):
        if (chunks, streams) < (best.config.chunks, best.config.streams):
            assert seconds(Config(order, chunks, streams), workload, device) > best.makespan_s


@pytest.mark.parametrize("fast", EVALUATORS)
def test_what_it_says_of_a_real_card_is_what_simulating_gives(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The h200 with all effects: everything tried, and each figure worked out anew."""
    monkeypatch.setitem(BLOCKS, fast, (16, 16))
    device = load_device("h200")
    grid = Grid(tuple(range(1, 25)), (1, 2, 3, 4))
    best = streamsim.best(WORK, device, grid, fast=fast)
    tried = everything(WORK, grid, device)
    assert best.best.makespan_s == min(tried.values()) * S_PER_TICK
    assert best.usual.makespan_s == seconds(Config(chunks=4, streams=4), WORK, device)
    assert best.serial_s == simulate(serial(WORK), device).makespan_s
    assert best.simulated < best.programs == len(tried)
    config, host = best.best.config, device.host
    slower_calls = {"synchronize_s", "submit_s", "wake_s"}
    calls = {f: getattr(host, f) / FASTER for f in host.__struct_fields__ if f.endswith("_s") and f not in slower_calls}
    launch = msgspec.structs.replace(device, host=msgspec.structs.replace(host, **calls))
    assert best.faster_s["launch"] == pytest.approx(seconds(config, WORK, launch), abs=2e-9)
    shorter = Workload(WORK.elements, (4,), (4,), (WorkloadKernel(duration_s=0.57e-3 / FASTER),))
    assert best.faster_s["kernel"] == pytest.approx(seconds(config, shorter, device), abs=2e-9)
    assert best.faster_s["link"] < best.best.makespan_s


# The device's memory


@given(workloads(), st.integers(1, 12), st.integers(1, 5), st.none() | st.integers(1, 8))
def test_device_bytes_are_those_of_the_schedules_buffers(workload: Workload, n: int, s: int, k: int | None) -> None:
    assume(n <= workload.elements)
    config = Config(chunks=n, streams=s, buffers=k)
    buffers = config.schedule(workload).buffers
    assert config.device_bytes(workload) == sum(buffer.bytes for buffer in buffers if buffer.memory == "device")


@examples(60)
@given(workloads(), devices(), st.integers(1, 200))
def test_the_memory_limit_holds_and_leaves_the_best_of_what_fits(
    workload: Workload, device: Device, limit: int
) -> None:
    grid = Grid((1, 2, 3, 4), (1, 2, 3), buffers=(None, 1, 2, 3), memory_limit_bytes=limit)
    everywhere = Grid(grid.chunks, grid.streams, buffers=grid.buffers).configs(workload)
    fits = [config for config in everywhere if config.device_bytes(workload) <= limit]
    if not fits:
        with pytest.raises(InputError, match=f"memory_limit_bytes = {limit}: no program of the grid fits"):
            streamsim.best(workload, device, grid, fast=False)
        return
    best = streamsim.best(workload, device, grid, fast=False)
    assert best.device_bytes == best.best.config.device_bytes(workload) <= limit
    assert best.best.makespan_s == min(seconds(config, workload, device) for config in fits)


# What helps


@st.composite
def better(draw: st.DrawFn) -> tuple[Device, Device]:
    """One in-order queue per engine, directions that do not slow each other; and the same with something better."""
    fixed = dict.fromkeys(("h2d_to_kernel", "kernel_to_d2h", "d2h_to_h2d", "kernel_to_h2d"), draw(st.integers(0, 3)))
    engines, latency = draw(st.sampled_from((0, 1, 2))), draw(st.integers(0, 3))
    rates = st.sampled_from((0.25, 0.5, 1, 2))
    ticks = st.integers(0, 4)
    pairs = [sorted((draw(of), draw(of))) for of in (rates, rates, ticks, ticks, ticks, ticks)]
    h2d, d2h, *costs = ([low, high] if i < 2 else [high, low] for i, (low, high) in enumerate(pairs))

    def device(k: int) -> Device:
        names = ("copy", "kernel", "submit")
        host = {name: cost[k] for name, cost in zip(names, costs, strict=False)}
        links = {name: link(latency + costs[3][k], rate[k]) for name, rate in (("h2d", h2d), ("d2h", d2h))}
        return make_device(copy_engines=engines, connections=1, **links, **fixed, **host)

    return device(0), device(1)


@examples(200)
@given(
    workloads(), better(), st.sampled_from(ORDERS), st.integers(1, 8), st.integers(1, 4), st.none() | st.integers(1, 4)
)
def test_on_issue_order_queues_nothing_better_ever_hurts(
    workload: Workload, pair: tuple[Device, Device], order: str, chunks: int, streams: int, buffers: int | None
) -> None:
    """More bandwidth, less latency, cheaper calls: start = max(engine free, stream free, ...) grows with all of them.

    Needs a fixed order (one queue an engine, kernels one by one) and directions that do not slow each other.
    """
    assume(chunks <= workload.elements and not any(kernel.duration_s is None for kernel in workload.kernels))
    config = Config(
        order,  # type: ignore[arg-type]
        chunks,
        1 if order == "serial" else streams,
        buffers if order == "depth-first" else None,
    )
    worse, best = pair
    assert seconds(config, workload, best) <= seconds(config, workload, worse)


@examples(100)
@given(workloads(), devices(), st.integers(1, 5), st.integers(1, 4))
def test_a_larger_grid_is_never_worse(workload: Workload, device: Device, chunks: int, streams: int) -> None:
    def optimum(most_chunks: int, most_streams: int) -> float:
        grid = Grid(tuple(range(1, most_chunks + 1)), tuple(range(1, most_streams + 1)))
        return streamsim.best(workload, device, grid, fast=False).best.makespan_s

    assert optimum(chunks + 2, streams + 1) <= optimum(chunks, streams)


def test_a_faster_link_can_hurt_where_the_engine_may_choose() -> None:
    """Not a law on several queues. One copy engine, latency 1; calls: copy 1, kernel 2 ticks; 2 chunks, 2 streams.

    H2D of 1 byte, kernel 2 ticks, D2H of 3 bytes (4 ticks). On the card: H1 1, K1 3, D1 4, H2 5, K2 7, D2 8.
    At half a byte a tick (H2D 3 ticks): H1 1-4, K1 4-6. At 5 the engine takes H2, as D1 waits for K1: H2 5-8,
    K2 8-10, D1 8-12, D2 12-16. At a byte a tick (2 ticks): H1 1-3, K1 3-5. At 5 D1 and H2 are both ready, and
    D1 was issued first: D1 5-9, H2 9-11, K2 11-13, D2 13-17.
    """
    workload = Workload(2, (1,), (3,), (WorkloadKernel(duration_s=4 * NS),))
    config = Config(chunks=2, streams=2)
    took = [
        seconds(config, workload, make_device(copy_engines=1, h2d=link(1, rate), d2h=link(1), copy=1, kernel=2))
        for rate in (0.5, 1)
    ]
    assert took == pytest.approx([16 * NS, 17 * NS])


def test_a_faster_link_can_hurt_where_directions_share_it() -> None:
    """Nor on one queue an engine when the directions slow each other. Duplex latency 6; 3 bytes in, 5 bytes out.

    Calls: copy 3, kernel 2 ticks; kernel 5 ticks; D2H 2 bytes a tick. On the card: H1 3, K1 5, D1 8, H2 11, K2 13,
    D2 16. At a byte a tick: H1 3-6, K1 6-11; at 11 H2 starts alone, then D1 beside it: H2 11-14, D1 11 + 6 + 3 =
    20, K2 14-19, D2 20-23. At two: H1 3-5, K1 5-10, D1 10-13 alone; H2 at 11 beside it: 11 + 6 + 2 = 19,
    K2 19-24, D2 24-27.
    """
    workload = Workload(2, (3,), (5,), (WorkloadKernel(duration_s=10 * NS),))
    out = link(0, 2, 0.5, duplex_latency=6)
    took = [
        seconds(
            Config(chunks=2, streams=2),
            workload,
            make_device(connections=1, h2d=link(0, rate, duplex_latency=6), d2h=out, copy=3, kernel=2),
        )
        for rate in (1, 2)
    ]
    assert took == pytest.approx([23 * NS, 27 * NS])


# Values


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"order": "random"}, "order = 'random': expected one of"),
        ({"chunks": 0}, "chunks = 0: "),
        ({"streams": True}, "streams = True: "),
        ({"buffers": 0}, "buffers = 0: "),
        ({"buffers": 2, "order": "breadth-first"}, "buffers = 2: a ring of buffers is issued depth-first"),
        ({"order": "serial", "streams": 2}, "streams = 2: a serial program has one stream"),
        ({"order": "serial", "launch": "graph"}, "launch = 'graph': a serial program"),
        ({"memory": "pageable", "launch": "graph"}, "launch = 'graph': pageable copies"),
        ({"memory": "managed"}, "memory = 'managed': "),
        ({"launch": "later"}, "launch = 'later': "),
    ],
)
def test_a_config_checks_itself(bad: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError) as error:
        Config(**bad)
    assert str(error.value).startswith(named)


@given(workloads(), grids)
def test_every_config_of_a_grid_can_be_built(workload: Workload, grid: Grid) -> None:
    try:
        configs = grid.configs(workload)
    except InputError:
        assume(False)
    assert len(set(configs)) == len(configs)
    for config in configs:
        assert len(config.schedule(workload).streams) == config.streams <= config.chunks


# The command

PIPELINE = ["--h2d", "1MiB", "--kernel", "20us", "--d2h", "1MiB", "--max-chunks", "6", "--max-streams", "3"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["best", *arguments])
    out, err = capsys.readouterr()
    assert code == 0
    assert err == ("" if is_fast() else f"streamsim: {SLOW}, and the optimum of any grid exact\n")
    return out


def test_the_command_says_what_the_library_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    workload = Workload(1 << 18, (4,), (4,), (WorkloadKernel(duration_s=20e-6),))
    grid = Grid(tuple(range(1, 7)), (1, 2, 3), ("depth-first",), (2, 3), ("live", "graph"))
    options = ["--orders", "depth-first", "--buffers", "2..3", "--launch", "both", "--device", "a100"]
    value = json.loads(said(capsys, *PIPELINE, *options, "--json"))
    inputs = value.pop("inputs")
    expected = json.loads(json.dumps(streamsim.best(workload, load_device("a100"), grid).to_json()))
    del expected["inputs"]
    assert value == expected
    assert value["schema_version"] == 1
    assert inputs["grid"]["buffers"] == [2, 3]
    assert (inputs["device"], inputs["h2d_bytes"]) == ("a100", 1 << 20)
    write_device(msgspec.structs.replace(load_device("a100"), connections=1), tmp_path / "one.toml")
    one = json.loads(said(capsys, *PIPELINE, "--device", "a100", "--connections", "1", "--json"))
    file = json.loads(said(capsys, *PIPELINE, "--device", str(tmp_path / "one.toml"), "--json"))
    assert one["best"] == file["best"]
    assert read_device(tmp_path / "one.toml").connections == 1


def test_the_table_names_what_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    best: Best = streamsim.best(
        Workload(1 << 18, (4,), (4,), (WorkloadKernel(duration_s=20e-6),)),
        load_device("h200"),
        Grid(tuple(range(1, 7)), (1, 2, 3)),
    )
    table = " ".join(said(capsys, *PIPELINE).split())
    config = best.simplest.config
    assert f"{config.chunks} chunk{'s' * (config.chunks > 1)} on {config.streams} stream" in table
    assert f"{best.programs} programs: {best.simulated} simulated" in table
    for word in ("serial", "usual", "lower bound", "flatness", "link 1.1x", "kernel 1.1x", "launch 1.1x"):
        assert word in table


def test_the_command_says_what_is_not_known(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("streamsim.search.best.is_fast", lambda: False)
    monkeypatch.setattr("streamsim.search.shortest.BUDGET_OPS", 80)
    value = json.loads(said(capsys, *PIPELINE, "--json"))
    assert (value["exact"], value["simplest_exact"], value["compiled"]) == (False, False, False)
    assert value["share_within"] == {"1%": None, "5%": None, "10%": None}
    assert value["chunks_within"] is None
    assert value["left_open"] > 0
    assert value["left_open_because"] == "SimPy's budget of 80 simulated ops is spent"
    assert value["floor_s"] < value["best"]["makespan_s"]
    table = " ".join(said(capsys, *PIPELINE).split())
    for words in ("best found", "the simplest found within 1 % of the best found", "unknown within 1, 5, 10 %"):
        assert words in table
    assert "Not exact, though no program of the grid is more than" in table
    assert f"{value['left_open']} left open" in table
    assert "streamsim[fast] or --exact leaves nothing open" in table
    exact = json.loads(said(capsys, *PIPELINE, "--exact", "--json"))
    assert (exact["exact"], exact["left_open"], exact["left_open_because"]) == (True, 0, None)
    assert exact["best"]["makespan_s"] == exact["floor_s"] <= value["best"]["makespan_s"]


def test_a_memory_limit_brings_rings(capsys: pytest.CaptureFixture[str]) -> None:
    value = json.loads(said(capsys, *PIPELINE, "--memory-limit", "1MiB", "--json"))
    assert value["best"]["buffers"] in (2, 3, 4, 8)
    assert value["device_bytes"] <= 1 << 20
    assert value["usual_fits"] is False
    assert json.loads(said(capsys, *PIPELINE, "--json"))["usual_fits"] is True


def test_every_example_in_the_help_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write_workload(pipeline_of(1 << 20), tmp_path / "workload.toml")
    text = best_command.get_help(best_command.make_context("streamsim best", list(PIPELINE)))
    examples = [line.split()[2:] for line in text.splitlines() if line.startswith("    streamsim best ")]
    assert len(examples) == 3
    for arguments in examples:
        said(capsys, *arguments)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("", "no workload: give --h2d SIZE"),
        ("--h2d 4KiB --max-chunks 0", "--max-chunks = '0': "),
        ("--h2d 4KiB --max-streams x", "--max-streams = 'x': "),
        (
            "--h2d 4KiB --max-chunks 1000000 --max-streams 1000",
            "chunks, streams = 1000000, 1000 numbers: a grid of 2000000000 programs, more than 1000000; give fewer",
        ),
        ("--h2d 4KiB --orders random", "orders = 'random': expected one of"),
        ("--h2d 4KiB --orders breadth-first --buffers 2", "an empty grid: buffers = 2: a ring"),
        ("--h2d 4KiB --buffers 0", "buffers = '0': "),
        ("--h2d 4KiB --buffers 3..2", "buffers = '3..2': an empty range"),
        ("--h2d 4KiB --memory pageable --launch graph", "an empty grid: launch = 'graph': pageable"),
        ("--h2d 4KiB --memory-limit 8", "memory_limit_bytes = 8: no program of the grid fits"),
        ("--h2d 4KiB --memory-limit much", "--memory-limit = 'much': "),
        ("--h2d 4KiB --device b200", "device = 'b200': "),
        ("--h2d 4KiB --launch later", "Invalid value for '--launch': 'later'"),
        ("none.toml", "none.toml: cannot read it"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any, options: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["best", *options.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.removeprefix("streamsim: error: ").startswith(named)
