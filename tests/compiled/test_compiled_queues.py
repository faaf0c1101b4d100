"""The compiled twin where streams take hardware queues from each other, and where kernels of a graph stand in none."""

import pytest
from effort import THOROUGH
from strategies import NS, link, make_device
from twins import assert_same, by_simpy, compiled

from streamsim.compiled import makespans
from streamsim.program import LAUNCHES, Config, Order, Workload, WorkloadKernel
from streamsim.rules import MOST_QUEUES

RULES = ("issue-order", "ready-order", "same-queue-first")
CHUNKS = (3, 8, 13, *((31,) if THOROUGH else ()))  # fewer than queues, more, and more than streams


@compiled
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("copy_engines", [2, 1, 0])
@pytest.mark.parametrize(("connections", "copy_connections"), [(2, 2), (3, 2), (5, 3), (1, 4)])
def test_streams_that_take_queues_from_each_other(
    rule: str, copy_engines: int, connections: int, copy_connections: int
) -> None:
    """Patterns over more streams than queues, plain pipelines and others, several copies and kernels a chunk."""
    device = make_device(
        copy_engines=copy_engines,
        connections=connections,
        copy_connections=copy_connections,
        copy_rule=rule,
        kernel_rule=rule,
        concurrent_kernels=2,
        h2d=link(2, shared=0.75),
        d2h=link(3, crowded_latency=7),
        copy=2,
        kernel=2,
        h2d_to_kernel=2,
        kernel_to_d2h=2,
        event=2,
    )
    workload = Workload(97, (1, 1), (2,), (WorkloadKernel(duration_s=211 * NS, fill=0.6),) * 2)
    buffers_of: dict[Order, tuple[int | None, ...]] = {"depth-first": (None, 4, 7), "breadth-first": (None,)}
    ways = [
        Config(order, chunks, streams, buffers=buffers, launch=launch)
        for order, rings in buffers_of.items()
        for buffers in rings
        for chunks in CHUNKS
        for streams in (2, 3, 4, 5, 7, 11)
        for launch in LAUNCHES
    ]
    found = list(makespans(workload, ways, device))
    part = slice((2 * connections + copy_engines + 3 * RULES.index(rule)) % 6, None, 6)  # each way on a sixth of them
    assert found[part] == [by_simpy(workload, way, device) for way in ways[part]]
    if copy_engines:  # it matters: a queue for each stream takes another time
        assert found != list(makespans(workload, ways, device.with_connections(32)))


@compiled
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("connections", [1, 2, 3])
def test_the_events_of_a_ring_end_the_runs_of_a_graph(rule: str, connections: int) -> None:
    """Of kernels alone chunks of a stream are one run, but for a record behind a chunk or a wait before it."""
    device = make_device(connections=connections, kernel_rule=rule, concurrent_kernels=2, kernel_to_kernel=3)
    kernels = (WorkloadKernel(duration_s=400 * NS, fill=0.3), WorkloadKernel(duration_s=900 * NS, fill=0.6))
    workload = Workload(97, (), (), kernels)
    ways = [
        Config("depth-first", chunks, streams, buffers=buffers, launch="graph")
        for chunks in range(2, 20)
        for streams in (2, 3, 4, 5)
        for buffers in (None, 2, 3, 4, 5, 7)
    ]
    part = slice(3 * (connections - 1) + RULES.index(rule), None, 9)  # each way on one of the devices
    assert list(makespans(workload, ways[part], device)) == [by_simpy(workload, way, device) for way in ways[part]]


@compiled
@pytest.mark.parametrize("copy_engines", [2, 1, 0])
@pytest.mark.parametrize("rule", RULES)
def test_runs_of_more_streams_than_an_engine_has_places_for_queues(copy_engines: int, rule: str) -> None:
    """Heads in front of the engine of the kernels are as many as streams, since no run but its first is in a queue."""
    rules = {"copy_rule": rule, "kernel_rule": rule}
    device = make_device(copy_engines=copy_engines, connections=3, copy_connections=2, d2h=link(5), **rules)  # type: ignore[arg-type]
    workload = Workload(600, (1,), (1,), (WorkloadKernel(duration_s=3000 * NS, fill=0.5),) * 2)
    ways = [Config("breadth-first", 300, 3 * MOST_QUEUES, launch="graph"), Config("depth-first", 300, 200)]
    assert list(makespans(workload, ways, device)) == [by_simpy(workload, way, device) for way in ways]
    for way in ways:
        assert_same(way.schedule(workload), device)
