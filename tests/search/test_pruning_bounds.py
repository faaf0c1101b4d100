"""The bounds that a search leaves configurations out by: never above what the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from effort import examples
from grids import EVALUATORS, grids, workloads
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from strategies import NS, devices, link, make_device

import streamsim
from streamsim.device.kernel_costs import KernelCost
from streamsim.errors import InputError
from streamsim.program.config import Config
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.search.evaluate import evaluate_ticks
from streamsim.search.grid import Grid
from streamsim.search.pruning_bounds import LowerBounds

if TYPE_CHECKING:
    from streamsim.device.profile import Device


# The bounds


@examples(100)
@given(workloads(), devices(), grids)
def test_no_program_is_faster_than_its_bound(workload: Workload, device: Device, grid: Grid) -> None:
    assume(workload.work >= min(grid.chunks))
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
    engines, concurrent = draw(st.sampled_from((2, 2, 1, 0))), draw(st.sampled_from((1, 2, 16)))
    parts: dict[str, Any] = {way: link(draw(ticks), draw(st.sampled_from((1, 2)))) for way in ("h2d", "d2h")}
    parts |= {name: draw(calls) for name in host} | {name: draw(ticks) for name in hand_overs}
    return workload, make_device(copy_engines=engines, concurrent_kernels=concurrent, **parts)


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
