"""The model's speed against raw SimPy, in one run: ``python tests/benchmarks/bench_model.py``.

The ceiling is what SimPy itself can do: three processes that yield bare timeouts. Absolute times differ
between machines and from minute to minute; the ratios, taken in turn and as medians, are what counts. An op is
a copy or a kernel: a chunk has three. What the figures count:

- event loop: ``run(lowered)``, the host's calls included; the schedule made ready for the device before.
- whole simulate(): compile, build the engines, run, and make the time line; the schedule built before.
- schedule: ``depth_first(...)``, with every op made and checked; the bytes that it keeps.
- simulate: ``simulate(schedule, device)``; the most bytes that it has at any one time beyond the schedule, the
  41 an op of the time line and the 26 of the lowered program included.
- cold start: the README's command as a process of its own, against one that imports SimPy and NumPy.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median

import simpy

from streamsim import Device, Schedule, Workload, WorkloadKernel, depth_first, load_device
from streamsim.lowering import lower
from streamsim.model import run, simulate

OPS = 30_000
ROUNDS = 9


def ceiling() -> None:
    """As many bare timeouts as there are ops, from three processes."""
    env = simpy.Environment()

    def process() -> simpy.events.ProcessGenerator:
        for _ in range(OPS // 3):
            yield env.timeout(1)

    for _ in range(3):
        env.process(process())
    env.run()


def pipeline(chunks: int) -> Schedule:
    """1 MiB each way and a 10 us kernel per chunk over four streams."""
    kernel = WorkloadKernel(duration_s=10e-6 * chunks)
    return depth_first(Workload(chunks << 18, (4,), (4,), (kernel,)), chunks, streams=4)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of ``work``, with garbage collected before."""
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def against_ceiling(device: Device) -> tuple[float, float]:
    """(event loop, whole of simulate) as ops per second over the ceiling's timeouts per second."""
    schedule = pipeline(OPS // 3)
    lowered = lower(schedule, device)
    loops, wholes = [], []
    for _ in range(ROUNDS):
        raw = seconds(ceiling)
        loops.append(raw / seconds(lambda: run(lowered)))
        wholes.append(raw / seconds(lambda: simulate(schedule, device)))
    return median(loops), median(wholes)


def large(device: Device, chunks: int = 100_000) -> tuple[float, float, float, float]:
    """(seconds to build the schedule, to simulate it, bytes an op of each) for many chunks."""
    build_s = median(seconds(lambda: pipeline(chunks)) for _ in range(3))
    schedule = pipeline(chunks)
    simulate_s = median(seconds(lambda: simulate(schedule, device)) for _ in range(3))
    tracemalloc.start()
    schedule = pipeline(chunks)
    schedule_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    simulate(schedule, device)
    simulate_bytes = tracemalloc.get_traced_memory()[1] - schedule_bytes
    tracemalloc.stop()
    return build_s, simulate_s, schedule_bytes / len(schedule), simulate_bytes / len(schedule)


def cold_start() -> float:
    """Wall time of the README's command over that of importing SimPy and NumPy, medians of runs in turn."""
    predict = [
        "predict",
        "--h2d",
        "64MiB",
        "--kernel",
        "0.57ms",
        "--d2h",
        "64MiB",
        "--chunks",
        "16",
        "--streams",
        "4",
        "--device",
        "h200",
    ]
    commands = [[sys.executable, "-m", "streamsim", *predict], [sys.executable, "-c", "import simpy, numpy"]]
    walls: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory() as elsewhere:
        for _ in range(ROUNDS):
            for command, wall in zip(commands, walls, strict=True):
                begin = time.perf_counter()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=Path(elsewhere))
                wall.append(time.perf_counter() - begin)
    return median(walls[0]) / median(walls[1])


def main() -> None:
    """Print the table."""
    for name in ("ideal", "h200"):
        loop, whole = against_ceiling(load_device(name))
        print(f"{name:6} {OPS} ops, of the SimPy ceiling: event loop {loop:.2f}, whole simulate() {whole:.2f}")
    for name in ("ideal", "h200"):
        build_s, simulate_s, schedule_bytes, simulate_bytes = large(load_device(name))
        print(
            f"{name:6} 100,000 chunks in {build_s + simulate_s:.2f} s: schedule {build_s:.2f} s and"
            f" {schedule_bytes:.0f} bytes an op, simulate {simulate_s:.2f} s and {simulate_bytes:.0f} bytes an op"
        )
    print(f"predict from a cold start: {cold_start():.2f} times `import simpy, numpy`")


if __name__ == "__main__":
    main()
