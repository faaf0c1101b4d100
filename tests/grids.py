"""Workloads and grids to search."""

from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from strategies import COST, NS, OPERATIONS

from streamsim.program import HOST_MEMORIES, LAUNCHES, ORDERS, Config, Workload, WorkloadKernel
from streamsim.search import Grid, is_fast

EVALUATORS = [False, pytest.param(True, marks=pytest.mark.skipif(not is_fast(), reason="needs numba"))]


HOST_TICKS = st.sampled_from((0, 0, 0, 5, 40))  # that the host works before each chunk, and over all


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A few elements, up to two arrays each way, two kernels, timed or from the cost table, and a host that works."""
    elements = draw(st.integers(1, 24))
    arrays = st.lists(st.sampled_from((1, 2, 4, 8)), max_size=2).map(tuple)
    timed = st.builds(
        lambda name, ticks, fill: WorkloadKernel(name, duration_s=ticks * NS * elements, fill=fill),
        OPERATIONS,
        st.integers(1, 12),
        st.sampled_from((1.0, 0.5, 0.3)),
    )
    costed = st.just(WorkloadKernel(COST.name, parameter=COST.parameter))
    inputs, outputs, kernels = draw(arrays), draw(arrays), draw(st.lists(timed | costed, max_size=2))
    assume(inputs or outputs or kernels)
    work_s, load_s = draw(HOST_TICKS) * NS, draw(HOST_TICKS) * NS
    return Workload(elements, inputs, outputs, tuple(kernels), host_work_s=work_s, host_load_s=load_s)


def some(values: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True).map(tuple)


grids = st.builds(
    Grid,
    chunks=some(range(1, 9)),
    streams=some(range(1, 6)),
    order=some(ORDERS),
    buffers=some((None, 1, 2, 3, 5)),
    launch=some(LAUNCHES),
    memory=st.sampled_from(HOST_MEMORIES),
)


@st.composite
def issued(draw: st.DrawFn) -> tuple[Workload, Config]:
    """A workload, and any way to issue it live."""
    workload = draw(workloads())
    order: Any = draw(st.sampled_from(ORDERS))
    streams = 1 if order in ("serial", "prefetch") else draw(st.integers(1, 4))
    buffers = draw(st.none() | st.integers(1, 4)) if order in ("depth-first", "prefetch") else None
    memory: Any = draw(st.sampled_from(("pinned", "pageable")))
    return workload, Config(order, draw(st.integers(1, min(8, workload.work))), streams, buffers, memory)
