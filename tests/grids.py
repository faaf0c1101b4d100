"""Workloads and grids to search."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from strategies import COST, NS

from streamsim.program.config import HOST_MEMORIES, ORDERS
from streamsim.program.schedule import LAUNCHES
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.search.evaluate import is_fast
from streamsim.search.grid import Grid

EVALUATORS = [False, pytest.param(True, marks=pytest.mark.skipif(not is_fast(), reason="needs streamsim[fast]"))]


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
