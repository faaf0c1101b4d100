"""What launching a graph costs, whatever is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import oracle
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import NS, devices, make_device, schedules, small_workloads

from streamsim.device.variations import with_values, without
from streamsim.model import simulate
from streamsim.program.patterns import breadth_first, depth_first
from streamsim.program.schedule import Copy

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.program.schedule import Schedule
    from streamsim.program.workload import Workload

EDGES = st.sampled_from((1, 7, 60))  # ticks


def launched(schedule: Schedule, device: Device) -> int:
    """The tick at which the launch of a graph has handed over its last op."""
    in_graph = sum(map(oracle.is_in_stream, schedule.ops))  # first; behind it the host waits
    return simulate(schedule, device).returned[in_graph - 1]


def with_edge(device: Device, ticks: int) -> Device:
    return with_values(device, {"host.graph_edge_s": ticks * NS})


@examples(200)
@given(schedules(launch="graph"), devices(), EDGES)
def test_a_launch_takes_its_copies_and_its_edges(schedule: Schedule, device: Device, edge: int) -> None:
    """So it never takes less with more of either, or with dearer ones."""
    copies, edges = sum(isinstance(op, Copy) for op in schedule.ops), sum(oracle.signals_of(schedule, device))
    launch, node = (oracle.in_ticks(seconds) for seconds in (device.host.graph_launch_s, device.host.graph_node_s))
    assert launched(schedule, with_edge(device, edge)) == launch + copies * node + edges * edge


@examples(50)
@given(small_workloads(), st.integers(1, 12), st.integers(1, 6), EDGES)
def test_no_order_is_launched_sooner_than_stage_by_stage(
    workload: Workload, chunks: int, streams: int, edge: int
) -> None:
    """In a stream kinds change the least often where those of a kind stand together."""
    device = with_edge(make_device(graph_node=2), edge)
    depth, breadth = (
        launched(order(workload, min(chunks, workload.work), streams, launch="graph"), device)
        for order in (depth_first, breadth_first)
    )
    assert breadth <= depth


@examples(50)
@given(schedules(launch="live"), devices(), EDGES)
def test_only_graphs_pay_for_edges(schedule: Schedule, device: Device, edge: int) -> None:
    dear, free = simulate(schedule, with_edge(device, edge)), simulate(schedule, without(device, "graph-edges"))
    assert (dear.start, dear.end, dear.returned) == (free.start, free.end, free.returned)


@examples(50)
@given(schedules(launch="graph"), devices())
def test_without_them_kernels_go_with_the_copies(schedule: Schedule, device: Device) -> None:
    """The launch is what it was before edges cost anything, to the tick."""
    free = simulate(schedule, without(device, "graph-edges"))
    node = oracle.in_ticks(device.host.graph_node_s)
    for op, issued, returned in zip(schedule.ops, free.issued, free.returned, strict=True):
        assert returned - issued == node * isinstance(op, Copy) or not oracle.is_in_stream(op)
