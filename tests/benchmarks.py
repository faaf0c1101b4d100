"""How fast the models and sweeps are: ``python tests/benchmarks.py [model compiled sweep]``.

Times differ between machines and from minute to minute: trust the ratios, which are taken in turn and as medians. An op
is a copy or a kernel; a chunk has three.
"""

import gc
import platform
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from itertools import product
from statistics import median

import simpy

from streamsim import (
    Schedule,
    Workload,
    WorkloadKernel,
    compiled,
    depth_first,
    load_device,
)
from streamsim.lowering import lower
from streamsim.model import run, simulate
from streamsim.program import Config

OPS, ROUNDS = 30_000, 9
KERNEL = (WorkloadKernel(duration_s=0.57e-3),)
WORKLOAD = Workload(16 << 20, (4,), (4,), KERNEL)
COSTED = Workload(1 << 20, (4,), (4,), (WorkloadKernel("sincos", parameter=176),))  # leaves the card before it ends
PREDICT = ["--h2d=64MiB", "--kernel=0.57ms", "--d2h=64MiB", "--chunks=16", "--streams=4", "--device=h200"]
SWEEP = "sweep --h2d 16MiB --kernel 1us..{}us+1us --d2h 16MiB --chunks 1..100 --streams 1..10 -o {}"
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The median of the processor's seconds, with garbage collected before."""
    took = []
    for _ in range(rounds):
        gc.collect()
        begin = time.process_time()
        work()
        took.append(time.process_time() - begin)
    return median(took)


def wall_s(*words: str) -> float:
    """Seconds of a Python of its own by the clock, in a folder without the project."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as elsewhere:
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, cwd=elsewhere)
    return time.perf_counter() - begin


def in_simpy(processes: int, delays: tuple[int, ...], engines: int) -> Callable[[], None]:
    """Processes that hold one engine after another, as SimPy's tutorial does it; without engines bare timeouts."""

    def process(env: simpy.Environment, of: list[simpy.Resource]) -> simpy.events.ProcessGenerator:
        for k, delay in enumerate(delays):
            if of:
                with of[k].request() as turn:
                    yield turn
                    yield env.timeout(delay)
            else:
                yield env.timeout(delay)

    def all_of_them() -> None:
        env = simpy.Environment()
        of = [simpy.Resource(env, 1) for _ in range(engines)]
        for _ in range(processes):
            env.process(process(env, of))
        env.run()

    return all_of_them


def pipeline(chunks: int) -> Schedule:
    """1 MiB each way and a 10 us kernel per chunk over four streams."""
    return depth_first(Workload(chunks << 18, (4,), (4,), (WorkloadKernel(duration_s=10e-6 * chunks),)), chunks, 4)


def model() -> None:
    """The model on SimPy, against as many bare timeouts in SimPy."""
    schedule = pipeline(OPS // 3)
    for device in map(load_device, ("ideal", "h200")):
        lowered = lower(schedule, device)
        raw = in_simpy(3, (1,) * (OPS // 3), 0)
        ratios = [seconds(raw) / seconds(work) for work in (lambda: run(lowered), lambda: simulate(schedule, device))]  # noqa: B023
        print(f"{device.name}: of SimPy's rate the event loop has {ratios[0]:.2f}, all of simulate() {ratios[1]:.2f}")
        tracemalloc.start()
        large = pipeline(100_000)
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        simulate(large, device)
        most = tracemalloc.get_traced_memory()[1] - kept
        tracemalloc.stop()
        print(f"  bytes an op: schedule {kept / len(large):.0f}, simulation {most / len(large):.0f}")
        took = [seconds(work, 3) for work in (lambda: pipeline(100_000), lambda: simulate(large, device))]  # noqa: B023
        print(f"  100,000 chunks: schedule {took[0]:.1f} s, simulation {took[1]:.1f} s")
    ours = wall_s("-m", "streamsim", "predict", *PREDICT) / wall_s("-c", "import simpy, numpy")
    print(f"predict from a cold start: {ours:.2f} times `import simpy, numpy`")
    tutorial = 9000 / seconds(in_simpy(3000, (3, 2, 4), 3))
    plain = depth_first(Workload(3000, (4,), (4,), (WorkloadKernel(duration_s=1e-3),)), 3000, 3000)
    ours = 9000 / seconds(lambda: simulate(plain, load_device("ideal")))
    print(f"a plain pipeline of 3,000 chunks: {ours:,.0f} ops/s; as SimPy's tutorial does it: {tutorial:,.0f}")


def rate(configs: list[Config], work: Callable[[], object]) -> float:
    """Millions of ops a second."""
    work()  # code is there
    return sum(3 * config.chunks for config in configs) / seconds(work) / 1e6


def compiled_model() -> None:
    """The compiled model on the default grid, and against the model on SimPy."""
    device, grid = load_device("h200"), []
    for n, s in product(range(1, 257), range(1, 33)):
        grid += [Config("depth-first", n, s), Config("depth-first", n, s, launch="graph")]
        grid += [Config("breadth-first", n, s), Config("breadth-first", n, s, launch="graph")]
    for kernels, workload in (("of a duration", WORKLOAD), ("that leave the card before they end", COSTED)):
        found = rate(grid, lambda: compiled.makespans(workload, grid, device, threads=1))  # noqa: B023
        print(f"one core, {len(grid)} configurations, kernels {kernels}: {found:.0f} M ops/s")
    some = grid[::397]
    schedules = [c.schedule(WORKLOAD) for c in some]
    in_model = seconds(lambda: [simulate(schedule, device) for schedule in schedules], 3)
    times = 50 * in_model / seconds(lambda: compiled.makespans(WORKLOAD, some * 50, device, threads=1))
    print(f"times the speed of SimPy, on {len(some)} of them: {times:.0f}")
    for chunks, repeats in ((100_000, 1), (16, 500)):
        configs = [Config(chunks=chunks, streams=4)] * repeats
        large = Workload(chunks << 8, (4,), (4,), KERNEL)
        took = seconds(lambda: [compiled.makespans(large, [config], device) for config in configs])  # noqa: B023
        print(f"one prediction of {chunks} chunks: {took / repeats * 1e3:.3f} ms")


def sweep() -> None:
    """Sweeps written as CSV, each a process of its own, by the clock."""
    for size in SIZES:
        took = wall_s("-m", "streamsim", *SWEEP.format(size // 1000, "out.csv").split())
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{size:9,} configurations: {took:.1f} s, {size / took:,.0f} a second; none takes over {peak:.0f} MB")


TABLES = {"model": model, "compiled": compiled_model, "sweep": sweep}


if __name__ == "__main__":
    print(f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}")
    for table in (TABLES[name] for name in sys.argv[1:] or TABLES):
        print(f"\n{table.__doc__}\n", flush=True)
        table()
