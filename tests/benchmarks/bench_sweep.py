"""Sweeps of a thousand to a million configurations, and the same pipeline in other simulators, in one run.

    python tests/benchmarks/bench_sweep.py          # what the machine does in some minutes
    python tests/benchmarks/bench_sweep.py --all    # every size, also on SimPy, where the largest takes an hour
    pip install salabim ciw asimpy                  # for the peers; those that are not installed are left out

Each sweep is a process of its own that writes CSV, so its peak memory is its own. Absolute times differ between
machines and from minute to minute; the last columns are ratios within the run.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import simpy

from streamsim import Workload, WorkloadKernel, depth_first, load_device
from streamsim.model import simulate
from streamsim.search import is_fast

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SLOW_SIZES = (1_000,)  # on SimPy, unless all are asked for
CHUNKS, STREAMS = 100, 10  # 1 to so many; the rest of a sweep's size comes from kernel times
ROUNDS = 5
WIDTHS, PLACES = (14, 8, 10, 8, 8, 8), (0, 2, 0, 2, 0, 1)

SWEEP = """
import json, resource, sys, time
from streamsim.search.sweep import predict_block
from streamsim.search.sweep_output import write_sweep
from streamsim.search.sweep_text import sweep_of
size, chunks, streams, fast, path = json.loads(sys.argv[1])
kernels = size // (chunks * streams)
sweep = sweep_of({
    "h2d": ["16MiB"], "kernel": [f"1us..{kernels}us+1us"], "d2h": ["16MiB"],
    "chunks": [f"1..{chunks}"], "streams": [f"1..{streams}"],
})
assert len(sweep) == size
if fast:  # compile, or load what was compiled before
    predict_block(sweep, 0, 1, fast)
begin = time.perf_counter()
write_sweep(sweep, path, fast=fast)
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def sweep(size: int, fast: bool) -> tuple[float, float, float]:
    """(seconds, ops per second, peak MB) of a sweep of the h200, all effects on, three ops a chunk."""
    with tempfile.TemporaryDirectory() as directory:
        asked = json.dumps([size, CHUNKS, STREAMS, fast, str(Path(directory) / "out.csv")])
        result = subprocess.run([sys.executable, "-c", SWEEP, asked], capture_output=True, text=True, check=True)
    seconds, peak = map(float, result.stdout.split())
    ops = size // CHUNKS * 3 * CHUNKS * (CHUNKS + 1) // 2
    return seconds, ops / seconds, peak / 1024


def sweeps(every_size: bool) -> None:
    """Print the table of sweeps; the last column against SimPy on a thousand configurations."""
    heads = ("configurations", "seconds", "configs/s", "M ops/s", "peak MB", "x SimPy")
    print(f"{'sweep on':10}", *(f"{head:>{width}}" for head, width in zip(heads, WIDTHS, strict=True)))
    reference = 0.0
    for fast in (False, True):
        if fast and not is_fast():
            print("compiled: not here; pip install 'streamsim[fast]'")
            continue
        for size in SIZES if fast or every_size else SLOW_SIZES:
            seconds, ops, peak = sweep(size, fast)
            reference = reference or ops
            figures = (size, seconds, size / seconds, ops / 1e6, peak, ops / reference)
            cells = (f"{value:{width}.{places}f}" for value, width, places in zip(figures, WIDTHS, PLACES, strict=True))
            print(f"{'compiled' if fast else 'SimPy':10}", *cells, flush=True)


# Peers: a stream for each chunk, three engines that serve in order of arrival, no other effect

N = 3000
STAGES = (3, 2, 4)  # ticks of a chunk's copy in, kernel and copy out; 4 paces


def on_streamsim() -> float:
    """The ideal device."""
    kernel = WorkloadKernel(duration_s=STAGES[1] * N * 1e-9)
    device = load_device("ideal")
    scale = device.h2d.bandwidth_bytes_per_s / 1e9  # bytes a tick
    workload = Workload(N, (round(STAGES[0] * scale),), (round(STAGES[2] * scale),), (kernel,))
    return round(simulate(depth_first(workload, N, N), device).makespan_s * 1e9)


def on_simpy() -> float:
    """A process for each chunk, a Resource for each engine: as SimPy's tutorial does it."""
    env = simpy.Environment()
    engines = [simpy.Resource(env, 1) for _ in STAGES]

    def chunk() -> simpy.events.ProcessGenerator:
        for engine, ticks in zip(engines, STAGES, strict=True):
            with engine.request() as turn:
                yield turn
                yield env.timeout(ticks)

    for _ in range(N):
        env.process(chunk())
    env.run()
    return env.now


def on_asimpy() -> float:
    """The same with async processes."""
    from asimpy import Environment, Process, Resource

    class Chunk(Process):  # type: ignore[misc]  # may not be installed
        def init(self) -> None:
            pass

        async def run(self) -> None:
            for engine, ticks in zip(engines, STAGES, strict=True):
                await engine.acquire()
                await self.timeout(ticks)
                engine.release()

    env = Environment()
    engines = [Resource(env) for _ in STAGES]
    for _ in range(N):
        Chunk(env)
    env.run()
    return float(env.now)


def on_salabim() -> float:
    """The same with components."""
    import salabim

    class Chunk(salabim.Component):  # type: ignore[misc]  # may not be installed
        def process(self) -> Iterator[None]:
            for engine, ticks in zip(engines, STAGES, strict=True):
                yield self.request(engine)
                yield self.hold(ticks)
                self.release(engine)

    env = salabim.Environment(trace=False, yieldless=False)
    engines = [salabim.Resource(name, monitor=False) for name in ("h2d", "compute", "d2h")]
    for _ in range(N):
        Chunk()
    env.run()
    return float(env.now())


def on_ciw() -> float:
    """A tandem of three queues with one server each; all customers arrive at 0."""
    import ciw

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([0.0] * N + [float("inf")]), None, None],
        service_distributions=[ciw.dists.Deterministic(ticks) for ticks in STAGES],
        number_of_servers=[1, 1, 1],
        routing=[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(N, method="Finish")
    return float(max(record.exit_date for record in simulation.get_all_records()))


def peers() -> None:
    """Print ops per second of each, schedule included, against streamsim's; every makespan is s + (N - 1) m."""
    print(f"\n{'pipeline of ' + str(N) + ' chunks':24} {'k ops/s':>8} {'x streamsim':>12}")
    ours = 0.0
    models: dict[str, Callable[[], float]] = {
        "streamsim (SimPy)": on_streamsim,
        "SimPy as its tutorial": on_simpy,
        "asimpy": on_asimpy,
        "salabim": on_salabim,
        "ciw": on_ciw,
    }
    for name, model in models.items():
        try:
            assert model() == sum(STAGES) + (N - 1) * max(STAGES), name
        except ModuleNotFoundError:
            print(f"{name:24} not installed")
            continue
        ops = 3 * N / median(seconds(model) for _ in range(ROUNDS))
        ours = ours or ops
        print(f"{name:24} {ops / 1e3:8.1f} {ops / ours:12.2f}", flush=True)


def seconds(model: Callable[[], float]) -> float:
    """CPU seconds, with garbage collected before."""
    gc.collect()
    begin = time.process_time()
    model()
    return time.process_time() - begin


def main() -> None:
    """Print both tables."""
    sweeps("--all" in sys.argv[1:])
    peers()


if __name__ == "__main__":
    main()
