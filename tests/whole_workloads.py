"""Workloads with every option that there is, and ways to issue them: what two ways to simulate are held against."""

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import COST, NS, OPERATIONS, small_workloads

from streamsim.program import Config, HostMemory, Launch, Order, Point, Schedule, Workload, WorkloadKernel

FEW_BYTES, TICKS = (1, 2, 3, 4, 8), (1, 10, 40, 100)  # for devices of the tests
MANY_BYTES, LONG_TICKS = (1, 4, 4096, 1 << 18, 3 << 20), (1, 1000, 40_000, 500_000)  # and for cards
LAUNCHES_OF_KERNEL, FILLS = st.sampled_from((1, 1, 1, 2, 5)), st.sampled_from((None, 1.0, 0.5, 0.3))
WHEN_WORKED = st.sampled_from((0, 0, 0.4, 7, 60))
LATENCY, THREADS = st.sampled_from((0, 0, 1)), st.sampled_from((0, 0, 4, 64))


@st.composite
def timed_kernels(draw: st.DrawFn, ticks: tuple[int, ...]) -> WorkloadKernel:
    """One or many launches, of which more may be known than the time of all: a part, the least, the threads."""
    launches, whole = draw(LAUNCHES_OF_KERNEL), draw(st.sampled_from(ticks))
    seconds = launches * whole * NS
    parts = (Point(0.5, 0.75 * seconds),) if draw(st.booleans()) and whole > 1 else ()
    more: dict[str, Any] = {"threads": draw(THREADS), "latency_s": 0.1 * draw(LATENCY) * whole * NS}
    return WorkloadKernel(draw(OPERATIONS), seconds, 0, draw(FILLS), parts, launches=launches, **more)


@st.composite
def whole_workloads(
    draw: st.DrawFn, sizes: tuple[int, ...] = FEW_BYTES, ticks: tuple[int, ...] = TICKS, costed: bool = True
) -> Workload:
    """Any numbers of arrays and kernels, none among them; arrays that are copied once; elements that seldom divide.

    ``sizes``: bytes of arrays, or of an element in each. ``ticks``: of kernels. ``costed``: kernels of the tests'
    devices, too.
    """
    arrays = st.lists(st.sampled_from(sizes), max_size=2).map(tuple)
    once = st.one_of(st.just(()), st.lists(st.sampled_from(sizes), max_size=2).map(tuple))
    elements = draw(st.one_of(st.none(), st.integers(1, 60)))
    inputs, outputs, before, behind = draw(arrays), draw(arrays), draw(once), draw(once)
    if not elements:  # so that an array has more than a piece, or not
        inputs, outputs = (tuple(16 * n for n in some) for some in (inputs, outputs))
    named = [st.just(WorkloadKernel(COST.name, None, COST.parameter))] if costed and (inputs or outputs) else []
    kernels = draw(st.lists(st.one_of(timed_kernels(ticks), *named), max_size=2))
    if not (inputs or outputs or kernels):
        kernels = [draw(timed_kernels(ticks))]
    return Workload(elements, inputs, outputs, tuple(kernels), h2d_once=before, d2h_once=behind)


@st.composite
def ways(draw: st.DrawFn, most_chunks: int) -> Config:
    """Any configuration."""
    order: Order = draw(st.sampled_from(("depth-first", "depth-first", "breadth-first", "serial", "prefetch", "relay")))
    memory: HostMemory = draw(st.sampled_from(("pinned", "pinned", "pageable")))
    launch: Launch = draw(st.sampled_from(("live", "graph"))) if order != "serial" and memory == "pinned" else "live"
    return Config(
        order,
        draw(st.integers(1, min(most_chunks, 16))),
        1 if order in ("serial", "prefetch") else draw(st.integers(1, 8)),
        buffers=draw(st.sampled_from((None, 1, 2, 3, 5))) if order in ("depth-first", "prefetch") else None,
        memory=memory,
        launch=launch,
    )


@st.composite
def whole_programs(draw: st.DrawFn, /, **options: Any) -> tuple[Workload, Config]:
    """A workload and a way to issue it; live the host may work before each chunk."""
    workload = draw(whole_workloads(**options))
    way = draw(ways(workload.most_chunks))
    if way.launch == "live":
        host = {name: draw(WHEN_WORKED) * NS for name in ("host_work_s", "host_load_s")}
        workload = replace(workload, **host)
    return workload, way


@st.composite
def built(draw: st.DrawFn) -> tuple[Workload, Schedule, int]:
    """A small workload, a pattern over it, and its number of chunks, often fewer than streams or buffers."""
    workload = draw(small_workloads())
    way = draw(ways(workload.work).filter(lambda way: way.order != "relay"))
    return workload, way.schedule(workload), way.chunks
