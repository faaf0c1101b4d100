"""The compiled twin, and how many times SimPy's speed it has: ``python tests/benchmarks/bench_compiled.py``.

Every rate is taken on the same configurations of the default grid (1 to 256 chunks, 1 to 32 streams, both issue
orders, live and as a graph) on the H200's profile, all effects on. Machines differ and neighbours interfere: what is
compared runs in turn, and medians of the ratios count.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from streamsim import Workload, WorkloadKernel, build, load_device
from streamsim.compiled import makespans
from streamsim.compiled.configurations import _CostTable
from streamsim.model import simulate
from streamsim.program import Config
from streamsim.rules import S_PER_TICK

ROUNDS = 9
WORKLOAD = Workload(16 << 20, (4,), (4,), (WorkloadKernel(duration_s=0.57e-3),))
# Its kernels leave the card to each other before they end, as those with a duration do not.
COSTED = Workload(1 << 20, (4,), (4,), (WorkloadKernel("sincos", parameter=176),))
GRID = [
    Config(order, chunks, streams, launch=launch)
    for order in ("depth-first", "breadth-first")
    for launch in ("live", "graph")
    for chunks in range(1, 257)
    for streams in range(1, 33)
]


def ops_of(configs: list[Config]) -> int:
    """Copies and kernels."""
    return sum(3 * config.chunks for config in configs)


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of ``work``: of this process's processors, or of the wall."""
    begin = clock()
    work()
    return clock() - begin


def on_one_core(device: Any) -> None:
    """Print the rate of the loop, and of the whole call."""
    print(f"one core, {len(GRID)} configurations, {ops_of(GRID) / 1e6:.1f} M ops, in M ops/s")
    for kernels, workload in (("of a duration", WORKLOAD), ("that leave the card before they end", COSTED)):
        costs = _CostTable(workload, device)
        configs, tables = costs.rows(GRID), costs.tables()
        rates = []
        for work in (lambda: costs.run(configs, tables), lambda: makespans(workload, GRID, device, threads=1)):  # noqa: B023
            work()  # code and memory are there
            rates.append(ops_of(GRID) / median(seconds(work) for _ in range(ROUNDS)) / 1e6)
        print(f"  kernels {kernels}: {rates[0]:.0f}; from Config to makespan {rates[1]:.0f}")


def against_simpy(device: Any, every: int = 397) -> None:
    """Print how many times SimPy's speed: predicting some of the grid's configurations, schedules ready made."""
    some = GRID[::every]
    schedules = [build(WORKLOAD, c.order, c.chunks, c.streams, c.buffers, c.memory, c.launch) for c in some]
    expected = [round(simulate(schedule, device).makespan_s / S_PER_TICK) for schedule in schedules]
    many = some * 50
    assert list(makespans(WORKLOAD, some, device)) == expected
    ratios = []
    for _ in range(3):
        compiled = seconds(lambda: makespans(WORKLOAD, many, device, threads=1)) / 50
        ratios.append(seconds(lambda: [simulate(schedule, device) for schedule in schedules]) / compiled)
    print(f"times the speed of SimPy, on {len(some)} of them: {median(ratios):.0f}")


def on_two_cores(device: Any) -> None:
    """Print what a second thread brings, by the wall clock; and what it brings to hashing, which shares nothing.

    Where neighbours keep the second core busy it brings little to either.
    """
    data = bytes(200_000_000)

    def hash_in(threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _: hashlib.sha256(data).digest(), range(2)))

    ratios, hashing = [], []
    for _ in range(ROUNDS):
        one, two = (
            seconds(lambda: makespans(WORKLOAD, GRID, device, threads=threads), time.perf_counter)  # noqa: B023
            for threads in (1, 2)
        )
        ratios.append(one / two)
        one, two = (seconds(lambda: hash_in(threads), time.perf_counter) for threads in (1, 2))  # noqa: B023
        hashing.append(one / two)
    print(f"two threads over one: {median(ratios):.2f} (best {max(ratios):.2f});", end=" ")
    print(f"of hashing {median(hashing):.2f} (best {max(hashing):.2f})")


def repeat(times: int, workload: Workload, configs: list[Config], device: Any) -> None:
    """Predict the same again and again."""
    for _ in range(times):
        makespans(workload, configs, device)


def one_prediction(device: Any) -> None:
    """Print how long one configuration takes: 100,000 chunks, and 16."""
    large = Workload(100_000 << 8, (4,), (4,), WORKLOAD.kernels)
    for workload, chunks, times in ((large, 100_000, 3), (WORKLOAD, 16, 500)):
        config = [Config(chunks=chunks, streams=4)]
        took = median(seconds(lambda: repeat(times, workload, config, device)) for _ in range(ROUNDS))  # noqa: B023
        print(f"one prediction of {chunks} chunks: {took / times * 1e3:.3f} ms")


def cold_start() -> None:
    """Print the wall time from a new process to the first makespan, over that of importing numba alone."""
    first = (
        "from streamsim import Workload, load_device; from streamsim.compiled import makespans;"
        "from streamsim.program.config import Config; makespans(Workload(64, (4,)), [Config()], load_device('h200'))"
    )
    walls: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for code, wall in zip((first, "import numba"), walls, strict=True):
            command = [sys.executable, "-c", code]
            wall.append(seconds(lambda: subprocess.run(command, check=True), time.perf_counter))  # noqa: B023
    ratio = median(walls[0]) / median(walls[1])
    print(f"a new process's first prediction, code cached: {ratio:.2f} times `import numba`")


def main() -> None:
    """Print the table."""
    device = load_device("h200")
    on_one_core(device)
    against_simpy(device)
    on_two_cores(device)
    one_prediction(device)
    cold_start()


if __name__ == "__main__":
    main()
