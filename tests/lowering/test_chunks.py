"""Prices of a chunk's ops, of which no schedule is made: those of the ops of its schedule."""

from hypothesis import given
from hypothesis import strategies as st
from strategies import devices, small_workloads

from streamsim.device import Device
from streamsim.lowering import ChunkCosts, call_ticks, lower
from streamsim.program import HOST_MEMORIES, Config, Copy, HostMemory, Kernel, Workload


@given(small_workloads(), devices(), st.integers(1, 12), st.sampled_from(HOST_MEMORIES))
def test_a_chunks_ops_cost_what_those_of_its_schedule_do(
    workload: Workload, device: Device, chunks: int, memory: HostMemory
) -> None:
    config = Config(chunks=min(chunks, workload.work), memory=memory)
    costs = ChunkCosts(workload, device, call_ticks("live", device), config.is_pageable)
    parts = workload.cut(config.chunks)
    found = [cost for part in parts for _ in range(part.many) for cost in costs.chunk(part)]
    schedule = config.schedule(workload)
    lowered = lower(schedule, device)
    works = [i for i, op in enumerate(schedule) if isinstance(op, Copy | Kernel)]
    assert found == [lowered.costs[lowered.cost[i]] for i in works]
