"""How near ``best --layers`` comes to its bound: ``python tests/benchmarks/bench_offload.py [models]``.

Random models of 8 to 80 layers, from their numbers alone: sizes up to ten times apart, kernels half to twice as long as
the copies all in all, one to four passes, the card's memory for weights a fifth to nine tenths of theirs.
"""

from __future__ import annotations

import random
import sys
import time
from statistics import median

from streamsim import Layer, Layers, WorkloadKernel, best_offload, load_device
from streamsim.program import Offload
from streamsim.search import Best

CARDS = ("h200", "a100")
SMALLEST_BYTES = 20_000_000
LAYERS = (8, 16, 24, 32, 48, 80)


def found_for(number: int) -> tuple[Best[Offload], int, float]:
    """What is found for the model of that number, its layers, and the seconds that it took."""
    draw = random.Random(number)
    device = load_device(draw.choice(CARDS))
    count, ratio = draw.choice(LAYERS), draw.uniform(0.5, 2.0)
    sizes = [int(SMALLEST_BYTES * 10 ** draw.random()) for _ in range(count)]
    times = [ratio * n / device.h2d.bandwidth_bytes_per_s * draw.uniform(0.5, 1.5) for n in sizes]
    several = [Layer(n, (WorkloadKernel(duration_s=seconds),)) for n, seconds in zip(sizes, times, strict=True)]
    layers = Layers(tuple(several), draw.randint(1, 4))
    limit = max(int(layers.weight_bytes * draw.uniform(0.2, 0.9)), max(sizes))
    begin = time.perf_counter()
    return best_offload(layers, device, limit), count, time.perf_counter() - begin


def main() -> None:
    """A line for each size of model."""
    models = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 60
    by_count: dict[int, list[tuple[Best[Offload], float]]] = {}
    for number in range(models):
        found, count, seconds = found_for(number)
        by_count.setdefault(count, []).append((found, seconds))
    print("layers  models  proved optimal  above the bound: median, worst  seconds: median, worst")
    for count, some in sorted(by_count.items()):
        gaps = [100 * found.nearness for found, _ in some]
        took = [seconds for _, seconds in some]
        exact = sum(found.exact for found, _ in some)
        gap, worst = f"{median(gaps):.3f} %", f"{max(gaps):.3f} %"
        print(f"{count:6}  {len(some):6}  {exact:14}  {gap:>23}  {worst:>6}  {median(took):>15.2f}  {max(took):.2f}")


if __name__ == "__main__":
    main()
