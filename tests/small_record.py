"""A record small enough to be worked by hand, and what others like it are made of."""

from typing import Any

import msgspec
from fake_gpu.cuda import CARD

from streamsim.device import Device, KernelCost, load_device
from streamsim.program import Workload, WorkloadKernel
from streamsim_validate.records import Entry, Machine, Recipe, Record, Run, digest

US = 1e-6
MACHINE = Machine("Linux x86_64", "a processor", 2, "3.12")
ONE: dict[str, Any] = {"chunks": 1, "streams": 1}
TWO: dict[str, Any] = {"chunks": 2, "streams": 2}

# 16,000 elements of 4 bytes each way on the ideal device's 64 bytes a nanosecond: 1 us to the card, 1 us back.
# The kernel takes 2 us for all of them and 1 us for half. One chunk: 1 + 2 + 1 = 4 us. Two chunks in two
# streams: 0.5 + 1 + 1 + 0.5 = 3 us, paced by the kernels.
WORKLOAD = Workload(16_000, (4,), (4,), (WorkloadKernel("sincos", parameter=2),))
COST = KernelCost("sincos", 2, (8_000, 16_000), (1 * US, 2 * US))
NOBODY_KNOWS = Workload(16_000, (4,), (4,), (WorkloadKernel("sincos", parameter=3),))


def a_device(name: str = "ideal", **host: float) -> Device:
    ideal = load_device("ideal")
    return msgspec.structs.replace(
        ideal,
        name=name,
        compute=msgspec.structs.replace(ideal.compute, kernels=(COST,)),
        host=msgspec.structs.replace(ideal.host, **host),
        sources={**ideal.sources, "compute.kernels": "assumed: for the test"},
    )


def an_entry(recipe: Recipe, device_us: tuple[float, ...], issue_us: float = 0.1, **more: object) -> Entry:
    samples = tuple(us * US for us in device_us)
    issue = (issue_us * US,) * len(samples)
    found = Entry(recipe.key, digest(recipe.schedule()), "ok", True, recipe, None, samples, samples, issue)
    return msgspec.structs.replace(found, **more)


def a_recipe(
    pattern: str = "depth-first", workload: Workload = WORKLOAD, effect: str = "grid", **arguments: object
) -> Recipe:
    return Recipe(pattern, arguments, workload, effect)  # type: ignore[arg-type]


def a_record(*entries: Entry, connections: int = 8, profile: Device | None = None) -> Record:
    before = None if profile is None else msgspec.json.decode(msgspec.json.encode(profile))
    run = Run(connections, "then", 0, 1, "now", before, before, entries)
    return Record(CARD, MACHINE, "test", (run,), "0.1")


# One chunk measured at 5 us (4 predicted: -20 %), two chunks at 2.5 us (3 predicted: +20 %).
RECORD = a_record(
    an_entry(a_recipe(**ONE), (4.0, 5.0, 6.0)), an_entry(a_recipe(**TWO), (2.5, 2.5, 2.5)), profile=a_device()
)
