"""Workloads and grids to search."""

from typing import Any

import pytest
from hypothesis import strategies as st
from whole_workloads import whole_programs

from streamsim.program import HOST_MEMORIES, LAUNCHES, ORDERS, Workload
from streamsim.search import Grid, is_fast

EVALUATORS = [False, pytest.param(True, marks=pytest.mark.skipif(not is_fast(), reason="needs numba"))]


def workloads() -> st.SearchStrategy[Workload]:
    """Every option that there is."""
    return whole_programs().map(lambda asked: asked[0])


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
