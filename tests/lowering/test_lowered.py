"""A schedule made ready for a device: how much work that is, and what its ops have in common."""

from collections.abc import Callable

import pytest
from counted import growth
from strategies import NS, pipeline_of

from streamsim import program
from streamsim.device import load_device
from streamsim.lowering import lower

LARGE = pipeline_of(1 << 24)


def recorded(steps_of_it: int) -> program.Schedule:
    """As recorded programs are: host work between calls that say what they cost, two threads, an event now and then."""
    ops: list[program.Op] = []
    for k in range(steps_of_it):
        thread = k // 7 % 2
        ops += [
            program.HostWork((1 + k % 5) * NS, thread=thread),
            program.Copy("h2d", 64 + k % 3, 1, call_s=3 * NS, thread=thread),
        ]
        ops.append(program.Kernel(1, "gemm", duration_s=(8 + k % 4) * NS, threads=256, call_s=2 * NS, thread=thread))
        ops += [program.RecordEvent(k, 1, thread=thread), program.WaitEvent(k, 2, thread=thread)] if k % 10 == 0 else []
        ops.append(program.Copy("d2h", 64, 2, blocking=k % 20 == 0, thread=thread))
    return program.Schedule((*ops, program.Synchronize()), ("non-blocking",) * 2, events=steps_of_it)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: program.depth_first(LARGE, n, 4),
        lambda n: program.breadth_first(LARGE, n, 32),
        lambda n: program.breadth_first(LARGE, n, 32, launch="graph"),
        lambda n: program.ring(LARGE, n, 3, 2),
        lambda n: program.depth_first(LARGE, n, 4, memory="pageable"),
        recorded,
    ],
    ids=["depth-first", "more streams than queues", "a graph of them", "events", "blocking", "recorded"],
)
def test_the_work_is_in_proportion_to_the_ops(make: Callable[[int], program.Schedule]) -> None:
    """Twice the chunks, twice the steps."""
    device = load_device("h200")

    def lowering(chunks: int) -> Callable[[], object]:
        schedule = make(chunks)
        return lambda: lower(schedule, device)

    assert growth(lowering, 300) < 2.1


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_equal_ops_share_a_cost(memory: str) -> None:
    """Copies there and back, kernels, and a synchronisation: four, wherever in their buffers the copies are."""
    schedule = program.depth_first(LARGE, 256, 4, memory=memory)
    assert len(lower(schedule, load_device("h200")).costs) == 4
