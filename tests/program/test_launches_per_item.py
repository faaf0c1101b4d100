"""Launches that belong to items: a chunk makes its share of them."""

import pytest
from effort import examples
from grids import EVALUATORS
from hypothesis import given
from hypothesis import strategies as st
from strategies import NS

from streamsim.analysis import chunk_bounds
from streamsim.device import load_device
from streamsim.model import simulate
from streamsim.program import Config, Kernel, Workload, WorkloadKernel
from streamsim.search import evaluate_ticks


def launches(workload: Workload, chunks: int) -> list[tuple[int, float, float]]:
    """Stream, ticks and share of every launch of a program of so many chunks in streams of their own."""
    schedule = Config(chunks=chunks, streams=chunks).schedule(workload)
    found = [op for op in schedule.ops if isinstance(op, Kernel)]
    return [(op.stream, round((op.duration_s or 0.0) / NS, 6), op.share) for op in found]


def test_whose_launches_they_are_by_hand() -> None:
    """Six launches take 60 ticks. Per chunk each of two makes six, halves of a launch; per item three, whole ones."""
    per_chunk = Workload(kernels=(WorkloadKernel(duration_s=60 * NS, launches=6),))
    per_item = Workload(kernels=(WorkloadKernel(duration_s=60 * NS, launches=6, per="item"),))
    assert launches(per_chunk, 2) == [(1, 5, 0.5)] * 6 + [(2, 5, 0.5)] * 6
    assert launches(per_item, 2) == [(1, 10, 1)] * 3 + [(2, 10, 1)] * 3
    assert launches(per_item, 1) == launches(per_chunk, 1)


@given(st.integers(1, 40), st.integers(1, 12))
def test_they_take_as_long_together_however_they_are_cut(count: int, chunks: int) -> None:
    """All chunks make equally many, one at least; together they take what all take."""
    workload = Workload(1200, (4,), (), (WorkloadKernel(duration_s=1200 * NS, launches=count, per="item"),))
    found = launches(workload, chunks)
    assert len(found) == chunks * -(-count // chunks)
    assert sum(ticks for _, ticks, _ in found) == pytest.approx(1200)


@pytest.mark.parametrize("fast", EVALUATORS)
@examples(15)
@given(
    st.lists(st.builds(Config, chunks=st.integers(1, 9), streams=st.integers(1, 4)), min_size=1, max_size=6),
    st.sampled_from(("h200", "ideal", "c2050")),
    st.sampled_from((1, 4, 30)),
)
def test_every_way_to_evaluate_says_what_the_schedule_takes(
    fast: bool, configs: list[Config], name: str, count: int
) -> None:
    workload = Workload(None, (1 << 20,), (), (WorkloadKernel(duration_s=1e-4, launches=count, per="item"),))
    device = load_device(name)
    took = [round(simulate(config.schedule(workload), device).makespan_s / NS) for config in configs]
    assert evaluate_ticks(workload, configs, device, fast) == took
    bounds = chunk_bounds(workload, device, {config.chunks for config in configs})
    assert all(bounds[config.chunks] <= ticks for config, ticks in zip(configs, took, strict=True))
