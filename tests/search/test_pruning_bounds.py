"""The bounds that a search leaves configurations out by: never above what the model says."""

from typing import Any

import msgspec
import pytest
from effort import examples
from grids import EVALUATORS, grids, workloads
from hypothesis import assume, example, given
from hypothesis import strategies as st
from strategies import NS, devices, link, make_device

import streamsim
from streamsim.device import Device, KernelCost
from streamsim.errors import InputError
from streamsim.program import Config, Order, Workload, WorkloadKernel
from streamsim.search import Grid, LowerBounds, evaluate_ticks

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
    kernels = draw(kernel), *draw(st.lists(kernel, max_size=1))
    load_s = draw(st.sampled_from((0, 0, 40))) * NS
    workload = Workload(elements, draw(arrays), draw(arrays), kernels, host_load_s=load_s)
    ticks, calls = st.sampled_from((0, 0, 1, 5)), st.sampled_from((0, 3, 8))
    host = ("copy", "kernel", "record", "wait", "submit", "graph_launch", "graph_node")
    hand_overs = ("h2d_to_kernel", "kernel_to_d2h", "kernel_to_kernel", "event")
    engines, concurrent = draw(st.sampled_from((2, 2, 1, 0))), draw(st.sampled_from((1, 2, 16)))
    parts: dict[str, Any] = {way: link(draw(ticks), draw(st.sampled_from((1, 2)))) for way in ("h2d", "d2h")}
    parts |= {name: draw(calls) for name in host} | {name: draw(ticks) for name in hand_overs}
    return workload, make_device(copy_engines=engines, concurrent_kernels=concurrent, **parts)


ORDERS: tuple[Order, ...] = ("depth-first", "breadth-first", "prefetch", "relay")
CLOSE = Grid(tuple(range(1, 8)), (1, 2, 3, 5), ORDERS, buffers=(None, 1, 2, 3), launch=("live", "graph"))


@examples(50)
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


@examples(30)
@given(tight())
def test_a_bound_does_not_hang_on_those_worked_out_before(case: tuple[Workload, Device]) -> None:
    """Parts of it are kept from one configuration for the next."""
    kept = LowerBounds(*case)
    configs = CLOSE.configs(case[0])
    assert [kept(config) for config in configs] == [LowerBounds(*case)(config) for config in configs]


@st.composite
def uneven(draw: st.DrawFn) -> Workload:
    """Arrays of bytes, of which the last chunks may have nothing, and arrays that are copied once."""
    sizes = st.lists(st.sampled_from((1, 16, 40, 64)), max_size=2).map(tuple)
    kernels = draw(st.lists(st.builds(WorkloadKernel, duration_s=st.sampled_from((40 * NS, 90 * NS))), max_size=2))
    inputs, outputs, before, behind = (draw(sizes) for _ in range(4))
    assume(inputs or outputs or kernels or before or behind)
    host_s = draw(st.sampled_from((0, 0, 30))) * NS
    return Workload(None, inputs, outputs, tuple(kernels), h2d_once=before, d2h_once=behind, host_work_s=host_s)


@examples(100)
@given(uneven(), devices(), grids)
@example(Workload(None, (16,), (), (WorkloadKernel(duration_s=40 * NS),)), make_device(copy=100), Grid((4,), (4,)))
@example(Workload(None, h2d_once=(16,)), make_device(), Grid((1,), (1,)))
def test_the_bound_holds_where_chunks_lack_an_array_and_where_something_is_copied_once(
    workload: Workload, device: Device, grid: Grid
) -> None:
    """In the first example 16 bytes are one piece: one call of 100 for its copy, and none for the other chunks."""
    assume(workload.most_chunks >= min(grid.chunks))
    bound = LowerBounds(workload, device)
    try:
        configs = grid.configs(workload)
    except InputError:
        assume(False)
    for config, ticks in zip(configs, evaluate_ticks(workload, configs, device), strict=True):
        assert bound(config) <= ticks, config


# Where it is the makespan. A looser bound prunes less, and nothing else notices.


OVERLAPPED: tuple[Order, ...] = ("depth-first", "breadth-first")  # calls of a serial program wait, beyond the bound


def both(workload: Workload, config: Config, device: Device) -> tuple[int, int]:
    """The bound and the makespan, in ticks."""
    (ticks,) = evaluate_ticks(workload, [config], device, fast=False)
    return LowerBounds(workload, device)(config), ticks


@examples(100)
@given(tight(), st.integers(1, 7), st.sampled_from(OVERLAPPED), st.sampled_from((None, 1)), st.integers(1, 3))
def test_one_stream_or_a_ring_of_one_buffer_is_one_chain(
    case: tuple[Workload, Device], chunks: int, order: Order, buffers: int | None, streams: int
) -> None:
    """Where calls cost nothing, and the host does nothing: nothing is left to choose, so the chain is the program."""
    workload, device = msgspec.structs.replace(case[0], host_load_s=0.0), case[1]
    assume(chunks <= workload.most_chunks and (not buffers or order == "depth-first"))
    host = msgspec.structs.replace(device.host, copy_s=0.0, kernel_s=0.0, record_s=0.0, wait_s=0.0, graph_node_s=0.0)
    config = Config(order, chunks, min(chunks, streams) if buffers else 1, buffers)
    bound, ticks = both(workload, config, msgspec.structs.replace(device, host=host))
    assert bound == ticks


@examples(100)
@given(tight(), st.sampled_from(OVERLAPPED), st.integers(1, 7), st.integers(1, 3), st.sampled_from((None, 2)))
def test_calls_that_take_longer_than_all_else_leave_the_last_chunk_to_wait_for(
    case: tuple[Workload, Device], order: Order, chunks: int, streams: int, buffers: int | None
) -> None:
    workload, device = case
    assume(chunks <= workload.most_chunks and (not buffers or order == "depth-first"))
    calls = dict.fromkeys(("copy_s", "kernel_s", "record_s", "wait_s"), 1e-6)
    config = Config(order, chunks, min(chunks, streams), buffers)
    device = msgspec.structs.replace(device, host=msgspec.structs.replace(device.host, **calls))
    bound, ticks = both(workload, config, device)
    assert bound == ticks


HALF, SLIMMER = (WorkloadKernel(duration_s=80 * NS, fill=fill) for fill in (0.5, 0.1))
SHORT = WorkloadKernel(duration_s=4 * NS)


@pytest.mark.parametrize(
    ("workload", "device", "bound", "makespan"),
    [
        # 4 chunks: copies in of 2, kernels of 20 one by one, copies back of 1: 2 + 80 + 1
        (Workload(4, (2,), (1,), (HALF,)), make_device(), 83, 83),
        # kernels that fill half of the card, two at a time: 40; the last copy of two back waits for the other
        (Workload(4, (), (), (HALF,)), make_device(concurrent_kernels=16), 40, 40),
        (Workload(4, (), (1,), (HALF,)), make_device(concurrent_kernels=16), 41, 42),
        # kernels that fill a tenth of it, two at a time as the card has no more
        (Workload(4, (), (), (SLIMMER,)), make_device(concurrent_kernels=2), 40, 40),
        # copies in of 10, the last one's kernel and copy back, be kernels one by one or not: 40 + 1 + 1
        (Workload(4, (10,), (1,), (SHORT,)), make_device(), 42, 42),
        (Workload(4, (10,), (1,), (SHORT,)), make_device(concurrent_kernels=16), 42, 42),
        # one copy engine: a copy in of 6, the others while kernels of 1 run; copies back of 5 behind all: 4 x 11
        (Workload(4, (6,), (5,), (SHORT,)), make_device(copy_engines=1), 44, 44),
        # no copy engine: kernels take turns with copies, and with each other: 4 x (2 + 20 + 1)
        (Workload(4, (2,), (1,), (HALF,)), make_device(copy_engines=0, concurrent_kernels=16), 92, 92),
        # a table of 30 first, then copies in of 2; behind them a kernel that the bound, as a table may come last, omits
        (Workload(4, (2,), (), (SHORT,), h2d_once=(30,)), make_device(), 38, 39),
        # copies back of 1, and a table of 30 behind the last of them, at 10, that the bound has anywhere
        (Workload(4, (2,), (1,), (SHORT,), d2h_once=(30,)), make_device(), 34, 40),
    ],
)
def test_the_slowest_engine_by_hand(workload: Workload, device: Device, bound: int, makespan: int) -> None:
    assert both(workload, Config(chunks=4, streams=4), device) == (bound, makespan)


def test_the_launch_of_a_graph_and_the_way_to_the_card_come_first_one_after_the_other() -> None:
    # 3 ticks each, and a copy of 10
    device = make_device(graph_launch=3, submit=3)
    assert both(Workload(1, (10,), (), ()), Config(launch="graph"), device) == (16, 16)


def test_two_directions_that_halve_each_other_by_hand() -> None:
    """Two chunks of 4 bytes each way, a kernel of 1 tick: in until 4, and in and back share the link from 5 on.

    The second copy in has moved 1 byte by 5 and its other 3 by 11, the first copy back 3 by then and its last at 12,
    and so the second kernel is at 12 as well, and the second copy back at 16. Neither of 16 bytes ever moves for
    nothing: 8 + 8 ticks of the link.
    """
    half = link(shared=0.5)
    workload = Workload(2, (4,), (4,), (WorkloadKernel(duration_s=2 * NS),))
    assert both(workload, Config(chunks=2, streams=2), make_device(h2d=half, d2h=half)) == (16, 16)


@pytest.mark.parametrize(("inputs", "outputs"), [((4, 2), (3, 1)), ((1, 3), (2, 4))])
def test_a_link_is_idle_in_each_direction_while_only_the_other_can_have_work(
    inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    """Each three quarters as fast beside the other, from 3 ticks on, which a call takes; three chunks, kernels of 1.

    18 bytes in, none in the last 1 + 3 + 1 ticks, 12 back, none in the first 4 + 2 + 1: side by side for c ticks they
    take at least 5 + 18 + c / 4, 7 + 12 + c / 4 and 18 + 12 - c / 2, the first and the last of which meet at 25 1/3.
    The other way round: 12 in, none in the last 7, 18 back, none in the first 1 + 3 + 1.
    """
    way = link(shared=0.75)
    workload = Workload(3, inputs, outputs, (WorkloadKernel(duration_s=3 * NS),))
    bound, ticks = both(workload, Config(chunks=3, streams=3), make_device(submit=3, h2d=way, d2h=way))
    assert bound == 3 + 25 <= ticks


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
    ticks = (
        best.best.makespan_s,
        best.compared["usual"].makespan_s,
        best.best.serial_s,
        (best.work_bound or best.issued_bound).seconds,
    )
    assert ticks == pytest.approx((14 * NS, 18 * NS, 36 * NS, 14 * NS))
    assert best.compared["usual"].config == Config(chunks=4, streams=4)
    assert best.speedup == pytest.approx(36 / 14)
    assert best.gain(best.compared["usual"].makespan_s) == pytest.approx(18 / 14)
    assert best.faster_s == pytest.approx({"link": 14 * NS, "kernel": 14 * NS, "launch": 14 * NS})
    assert best.compiled is fast
