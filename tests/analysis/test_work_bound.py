"""The bound of the work: nothing in a grid is faster, whatever the work and the device; and numbers worked by hand."""

from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from typing import Any

import pytest
from effort import examples
from grids import grids, workloads
from hypothesis import assume, example, given
from hypothesis import strategies as st
from strategies import NS, devices, link, make_device

from streamsim.analysis.bounds import CHAIN, HOST, LINK, chunk_bounds, lower_bound, work_bound
from streamsim.device import Device, KernelCost, device_names, load_device
from streamsim.errors import InputError
from streamsim.program import Config, Order, Point, Workload, WorkloadKernel, workload_of_sizes
from streamsim.search import Grid, evaluate_ticks

ISSUED: tuple[tuple[Order, int | None], ...] = (
    *(("depth-first", buffers) for buffers in (None, 1, 2, 3)),
    ("breadth-first", None),
    ("prefetch", 2),
    ("prefetch", 1),
)


def ways(workload: Workload, chunks: Sequence[int], streams: Sequence[int], **asked: Any) -> list[Config]:
    """All orders and rings of so many chunks and streams."""
    found = {
        Config(order, n, s if order != "prefetch" else 1, buffers, **asked).fitted()
        for n, s, (order, buffers) in product(chunks, streams, ISSUED)
        if n <= workload.most_chunks
    }
    return sorted(found, key=lambda config: config.simplicity)


def nothing_is_faster(workload: Workload, device: Device, configs: Sequence[Config], **asked: Any) -> None:
    """The clock rounds each launch, by half a tick at most. The bound of so many chunks allows for that itself.

    The fastest of all is no faster than its schedule's own bound.
    """
    bound = work_bound(workload, device, **asked).seconds / NS
    of_chunks = chunk_bounds(workload, device, {config.chunks for config in configs}, **asked)
    times = evaluate_ticks(workload, configs, device)
    for took, fastest in sorted(zip(times, configs, strict=True), key=itemgetter(0))[:1]:
        assert lower_bound(fastest.schedule(workload), device).seconds / NS <= took + 1e-6, fastest
    for config, took in zip(configs, times, strict=True):
        rounded = config.chunks * (sum(workload.launches_in(config.chunks)) + workload.has_host_work) / 2
        assert bound <= took + rounded + 1e-6 * took, config
        assert of_chunks[config.chunks] <= took, config


PINNED = st.just(("pinned", "live")) | st.just(("pinned", "graph")) | st.just(("pageable", "live"))
US = 1e-6


@st.composite
def parts(draw: st.DrawFn) -> WorkloadKernel:
    """A kernel of which a part may take more or less than its share; of one launch or some, small or large."""
    whole_s = draw(st.sampled_from((7, 40, 600, 5000))) * US
    points = []
    if draw(st.booleans()):
        at = draw(st.sampled_from((1 / 2, 1 / 4, 1 / 16, 1 / 64)))
        points = [Point(at, whole_s * draw(st.sampled_from((at / 50, at / 2, at, min(1.0, 4 * at), 1.0))))]
    launches = draw(st.sampled_from((1, 1, 1, 3, 20)))
    latency_s = draw(st.sampled_from((0.0, 0.0, 0.2))) * min([whole_s, *(p.duration_s for p in points)]) / launches
    return WorkloadKernel(
        duration_s=whole_s,
        points=tuple(points),
        fill=draw(st.sampled_from((None, None, 1.0, 0.2))),
        threads=draw(st.sampled_from((0, 0, 4096, 1 << 20))),
        latency_s=latency_s,
        launches=launches,
        per="item" if launches > 1 and not points and not latency_s and draw(st.booleans()) else "chunk",
    )


@st.composite
def real(draw: st.DrawFn) -> Workload:
    """Sizes and times as programs have them; arrays cut by bytes or by elements, or copied once; sums; host work."""
    elements = draw(st.sampled_from((None, None, 100, 4096)))
    sizes = st.sampled_from((4, 1000, 1 << 16, 1 << 20, 50_000_000))
    arrays = st.lists(st.sampled_from((4, 1000, 20_000)) if elements else sizes, max_size=2).map(tuple)
    once = st.lists(sizes, max_size=1).map(tuple)
    kernels = draw(st.lists(parts(), max_size=2))
    inputs, outputs, into, back = draw(arrays), draw(arrays), draw(once), draw(once)
    assume(inputs or outputs or kernels)
    work_s = draw(st.sampled_from((0.0, 0.0, 5 * US)))
    load_s = draw(st.sampled_from((0.0, 0.0, 300 * US)))
    return Workload(elements, inputs, outputs, tuple(kernels), "", into, back, "", work_s, load_s)


@examples(75)
@given(
    real(),
    st.sampled_from((*device_names(), "h200:cupy", "h200:pytorch")),
    PINNED,
    st.sampled_from(((1, 2, 3, 5), (4, 7, 16, 33), (1, 100))),
)
@example(workload_of_sizes(["200MB"], ["4ms"], ["50MB"]), "rtx4090", ("pinned", "live"), (16, 64, 256))
@example(workload_of_sizes(["1MiB"], ["1ms,1us@1/16"], ["1MiB"]), "h200", ("pinned", "live"), (1, 8, 16, 17))
def test_nothing_in_a_grid_is_faster(
    workload: Workload, name: str, how: tuple[Any, Any], chunks: tuple[int, ...]
) -> None:
    memory, launch = how
    asked = {"memory": memory, "launch": launch}
    assume(launch == "live" or not workload.has_host_work)
    nothing_is_faster(workload, load_device(name), ways(workload, chunks, (1, 2, 3, 8), **asked), **asked)


COSTED = KernelCost("costed", 0, (1000, 5000, 5001, 20000), (20 * US, 30 * US, 50 * US, 100 * US))


@st.composite
def directions(draw: st.DrawFn) -> Any:
    """One direction of a link, which the other may slow down."""
    latency, rate = draw(st.sampled_from((0, 0, 1000, 5000))), draw(st.sampled_from((1, 2)))
    return link(latency, rate, rate * draw(st.sampled_from((1, 0.7, 0.5))), pageable_latency=latency, pageable_rate=0.5)


@st.composite
def made(draw: st.DrawFn) -> tuple[Workload, Device]:
    """Few elements on a card where little comes on top of what the bound knows: all times are 1000 ticks or none."""
    elements = draw(st.sampled_from((None, 3, 7, 24, 10_000)))
    arrays = st.lists(st.sampled_from((16_000, 48_000)), max_size=2).map(tuple)
    timed = st.builds(
        WorkloadKernel, duration_s=st.sampled_from((5 * US, 60 * US)), fill=st.sampled_from((1.0, 0.3, None))
    )
    costed = [st.builds(WorkloadKernel, st.just("costed"))] * (elements == 10_000)
    kernels = draw(st.lists(st.one_of(timed, *costed), min_size=1, max_size=2))
    workload = Workload(elements, draw(arrays), draw(arrays), tuple(kernels))
    calls = st.sampled_from((0, 3000, 8000))
    host = ("copy", "kernel", "record", "wait", "submit", "graph_launch", "graph_node")
    parts: dict[str, Any] = {way: draw(directions()) for way in ("h2d", "d2h")}
    parts |= {name: draw(calls) for name in host}
    parts |= {
        "copy_engines": draw(st.sampled_from((2, 2, 1, 0))),
        "concurrent_kernels": draw(st.sampled_from((1, 2, 16))),
        "resident_threads": draw(st.sampled_from((0, 4096))),
        "floor": draw(st.sampled_from((0, 2000))),
        "kernels": (COSTED,),
    }
    return workload, make_device(**parts)


NO_COPIES = Workload(None, (), (), (WorkloadKernel(duration_s=5 * US),)), make_device(graph_node=8000)
LAST_IS_SMALL = Workload(7, (16_000,), (1600,), (WorkloadKernel(duration_s=11_200 * NS),)), make_device()


@examples(75)
@given(made(), PINNED)
@example(LAST_IS_SMALL, ("pinned", "live"))  # in three chunks of 3, 3 and 1
@example(NO_COPIES, ("pinned", "graph"))
def test_nothing_is_faster_where_the_bound_is_close(case: tuple[Workload, Device], how: tuple[Any, Any]) -> None:
    workload, device = case
    asked = dict(zip(("memory", "launch"), how, strict=True))
    nothing_is_faster(workload, device, ways(workload, (1, 2, 3, 5, 7, 20), (1, 2, 3, 7), **asked), **asked)


@examples(60)
@given(workloads(), devices(), grids)
def test_nothing_is_faster_on_any_device(workload: Workload, device: Device, grid: Grid) -> None:
    """Of whatever crowds, hand-overs, queues and rules."""
    try:
        configs = grid.configs(workload)
    except InputError:
        assume(False)
    for launch in grid.launch:
        own = [config for config in configs if config.launch == launch]
        nothing_is_faster(workload, device, own, memory=grid.memory, launch=launch)


# Numbers by hand


@pytest.mark.parametrize("kernel_s", [1e-3, 2e-3])
def test_on_the_ideal_device_it_is_the_time_of_the_busiest_engine(kernel_s: float) -> None:
    """64 MiB take 1,048,576 ns. With a million chunks next to nothing is left of fill and drain."""
    workload = workload_of_sizes(["64MiB"], [kernel_s], ["64MiB"])
    bound = work_bound(workload, load_device("ideal"))
    assert max(kernel_s, 1.048576e-3) <= bound.seconds * (1 + 1e-12) <= 1.0001 * max(kernel_s, 1.048576e-3)


def test_it_weighs_latencies_against_fill() -> None:
    """N chunks take N * 100 + 40,000 ticks there, and the last one 100 and a tick a byte back.

    20 chunks of 2,000 bytes take 44,100, and that is the best. The bound is that of 20 chunks of 1,920 bytes and one of
    1,600: 2,100 + 40,000 + 100 + 1,600. It leaves out that the last chunk waits for the way back.
    """
    workload = Workload(None, (40_000,), (40_000,))
    device = make_device(h2d=link(100), d2h=link(100))
    assert work_bound(workload, device).seconds / NS == pytest.approx(43_800)
    assert min(evaluate_ticks(workload, ways(workload, range(1, 65), (64,)), device)) == 44_100


def test_it_knows_that_parts_may_take_far_less_than_their_share() -> None:
    """Cut into 16 the kernel takes 16 us, less than one copy of a mebibyte, 16.384 us."""
    bound = work_bound(workload_of_sizes(["1MiB"], ["1ms,1us@1/16"], ["1MiB"]), load_device("ideal"))
    assert 16.384 * US <= bound.seconds <= 16.5 * US


def a_kernel(ticks: float, elements: int | None = 40, **more: Any) -> Workload:
    return Workload(elements, (), (), (WorkloadKernel(duration_s=ticks * NS, **more),))


ONCE = Workload(None, (), (), (WorkloadKernel(duration_s=5000 * NS),), h2d_once=(1600,), d2h_once=(1600,))
COPIES, SHARED, LATE = Workload(None, (32_000,), (32_000,)), link(1, 1, 0.5), link(1000)
SMALL, QUARTERS = Workload(1, (16,), (16,), (WorkloadKernel(duration_s=2000 * NS),)), a_kernel(40_000, fill=0.25)
BOUNDS: dict[str, tuple[Workload, Device, float, str]] = {
    "1,600 in once, 5,000 of the kernel, 1,600 back: nothing overlaps": (ONCE, make_device(), 8200, "H2D copy engine"),
    "one engine makes all copies": (COPIES, make_device(copy_engines=1), 64_000, "copy engine"),
    "a byte a tick alone, half of one beside the other": (COPIES, make_device(h2d=SHARED, d2h=SHARED), 64_000, LINK),
    "quarters of the card one by one": (QUARTERS, make_device(), 40_000, "compute engine"),
    "all four at once": (QUARTERS, make_device(concurrent_kernels=16), 10_000, "compute engine"),
    "two at once": (QUARTERS, make_device(concurrent_kernels=2), 20_000, "compute engine"),
    "ten calls of 3,000 in one chunk": (a_kernel(1000, launches=10), make_device(kernel=3000), 30_000, HOST),
    "16 there, 2,000, 16 back, twice 1,000 of latency": (SMALL, make_device(h2d=LATE, d2h=LATE), 4032, CHAIN),
}


@pytest.mark.parametrize("what", BOUNDS)
def test_what_binds_by_hand(what: str) -> None:
    workload, device, ticks, bound_by = BOUNDS[what]
    bound = work_bound(workload, device)
    assert bound.seconds / NS == pytest.approx(ticks, rel=1e-3)
    assert bound.bound_by == bound_by
