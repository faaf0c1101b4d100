"""The schematic of the NVIDIA blog "How to Overlap Data Transfers in CUDA C/C++", to the tick.

Four equal chunks on four streams, one unit of time for every stage of a chunk. Only what the shipped profiles say of
the cards' engines, queues and signals is used; every latency, cost and loss is off, so the times are whole units.
"""

import msgspec
import pytest
from strategies import link, make_device

from streamsim.device import Device, load_device
from streamsim.model import simulate
from streamsim.program import Workload, WorkloadKernel, breadth_first, depth_first, serial
from streamsim.timeline import Timeline

UNIT = 1000  # ticks, and bytes at one byte a tick
CHUNKS = 4
WORKLOAD = Workload(CHUNKS * UNIT, (1,), (1,), (WorkloadKernel(duration_s=CHUNKS * UNIT * 1e-9),))
SEQUENTIAL = serial(WORKLOAD)
V1 = depth_first(WORKLOAD, CHUNKS, streams=4)
V2 = breadth_first(WORKLOAD, CHUNKS, streams=4)


def topology(name: str) -> Device:
    """Take the card's engines, queues and signals, and nothing else of it."""
    card = load_device(name)
    plain = make_device(h2d=link(), d2h=link())
    compute = msgspec.structs.replace(
        plain.compute,
        concurrent_kernels=card.compute.concurrent_kernels,
        arbitration=card.compute.arbitration,
        kernel_signal=card.compute.kernel_signal,
    )
    return msgspec.structs.replace(plain, connections=card.connections, copy_engines=card.copy_engines, compute=compute)


def starts(timeline: Timeline) -> dict[str, list[float]]:
    """When each engine starts its ops, in units, in the order of time."""
    found: dict[str, list[float]] = {name: [] for name in timeline.engine_names}
    for span in timeline:
        if span.engine is not None:
            found[span.engine].append(round(span.start_s * 1e9) / UNIT)
    return {name: sorted(times) for name, times in found.items()}


@pytest.mark.parametrize(
    ("card", "sequential", "v1", "v2"), [("c1060", 12, 12, 8), ("c2050", 12, 6, 9), ("k20c", 12, 6, 6)]
)
def test_makespans_in_chunk_units(card: str, sequential: int, v1: int, v2: int) -> None:
    device = topology(card)
    for schedule, units in ((SEQUENTIAL, sequential), (V1, v1), (V2, v2)):
        timeline = simulate(schedule, device)
        assert max(timeline.end) == units * UNIT, schedule.name


def test_c1060_depth_first_serialises_on_the_one_copy_engine() -> None:
    # issue order on the copy engine: H1 D1 H2 D2 ...; D1 waits for K1, and H2 for D1
    # copy     H1 .  D1 H2 .  D2 H3 .  D3 H4 .  D4
    # compute  .  K1 .  .  K2 .  .  K3 .  .  K4 .
    assert starts(simulate(V1, topology("c1060"))) == {
        "copy": [0, 2, 3, 5, 6, 8, 9, 11],
        "compute": [1, 4, 7, 10],
    }


def test_c1060_breadth_first_overlaps_kernels_with_the_copies_in_front_of_them() -> None:
    # copy     H1 H2 H3 H4 D1 D2 D3 D4
    # compute  .  K1 K2 K3 K4
    assert starts(simulate(V2, topology("c1060"))) == {"copy": [0, 1, 2, 3, 4, 5, 6, 7], "compute": [1, 2, 3, 4]}


def test_c2050_breadth_first_signals_the_kernels_only_when_the_last_has_ended() -> None:
    # h2d      H1 H2 H3 H4
    # compute  .  K1 K2 K3 K4
    # d2h      .  .  .  .  .  D1 D2 D3 D4     all four kernels are one run, which ends at 5
    assert starts(simulate(V2, topology("c2050"))) == {
        "h2d": [0, 1, 2, 3],
        "compute": [1, 2, 3, 4],
        "d2h": [5, 6, 7, 8],
    }


@pytest.mark.parametrize(("card", "schedule"), [("c2050", V1), ("k20c", V1), ("k20c", V2)])
def test_two_copy_engines_overlap_all_three_stages(card: str, schedule: object) -> None:
    # h2d      H1 H2 H3 H4
    # compute  .  K1 K2 K3 K4
    # d2h      .  .  D1 D2 D3 D4
    assert starts(simulate(schedule, topology(card))) == {  # type: ignore[arg-type]
        "h2d": [0, 1, 2, 3],
        "compute": [1, 2, 3, 4],
        "d2h": [2, 3, 4, 5],
    }
