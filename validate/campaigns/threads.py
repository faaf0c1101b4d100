"""What parts of kernels take that work long on little data, and what is predicted of them by threads taken for granted.

``cd validate; python -m campaigns.threads`` prints the table of docs/evidence.md from the records, and on a card
with CuPy ``python -m campaigns.threads OUT.json`` measures another.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from streamsim.device.kernel_costs import part_s
from streamsim.device.library import load_device
from streamsim.program.workload_text import workload_of_sizes

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[2] / "records"
CARDS = ("h100", "h200")
HALVINGS = 8  # of a launch, from all of it on
WHOLE_S = (0.2e-3, 1e-3, 4e-3)
BLOCK = 256
FLOATS = {  # of the largest array that is cut, by what works on each of them
    "thread": (1 << 14, 1 << 16, 1 << 18, 1 << 20),
    "block": (1 << 8, 1 << 10, 1 << 12, 1 << 14),
}


def by_the_rule(floats: int, whole_s: float) -> float:
    """Threads of a launch of so many floats that takes so many seconds."""
    workload = workload_of_sizes([4 * floats], [whole_s])
    return workload.threads(workload.kernels[0])


RULES: dict[str, Callable[[int, float], float]] = {  # 0: as many as one likes
    "one for each float": lambda floats, _: floats,
    "and one for every 4 ns (the rule)": by_the_rule,
    "and one for each ns": lambda floats, whole_s: max(floats, 1e9 * whole_s),
    "many": lambda *_: 0,
}
SOURCE = """
__device__ float work(float x, int rounds) {
    for (int k = 0; k < rounds; k++) x = sinf(x) + cosf(x * 1.1f);
    return x;
}

extern "C" __global__ void thread(const float* in, float* out, long long floats, int rounds) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < floats) out[i] = work(in[i], rounds);
}

extern "C" __global__ void block(const float* in, float* out, long long floats, int rounds) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, work(in[blockIdx.x] + threadIdx.x, rounds));
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
"""


class Kernel(NamedTuple):
    """Seconds of a launch over so many floats, and of its half, quarter ...; ``kind``: of :data:`FLOATS`."""

    kind: str
    floats: int
    parts_s: list[float]


def factors(kernel: Kernel, card: str, rule: str) -> list[float]:
    """How many times too long or too short each part is predicted, from the time of the whole."""
    compute = load_device(card).compute
    whole_s = kernel.parts_s[0]
    waves = RULES[rule](kernel.floats, whole_s) / compute.resident_threads
    predicted = [part_s(whole_s, 0.5**k, waves, compute.floor_s) for k in range(1, HALVINGS)]
    return [math.exp(abs(math.log(p / m))) for p, m in zip(predicted, kernel.parts_s[1:], strict=True)]


def record_of(card: str) -> list[Kernel]:
    return [Kernel(*row) for row in json.loads((FOLDER / f"threads-{card}.json").read_text())]


def row(rule: str) -> str:
    """By kind of kernel and card the median and the 90th percentile."""
    cells = []
    for kind in FLOATS:
        for card in CARDS:
            found = [f for kernel in record_of(card) if kernel.kind == kind for f in factors(kernel, card, rule)]
            cells.append(f"{median(found):.1f}, {quantiles(found, n=10)[-1]:.1f}")
    return f"| {rule} | {' | '.join(cells)} |"


def measure() -> list[Kernel]:
    """Needs a card and CuPy."""
    import cupy

    module = cupy.RawModule(code=SOURCE)
    source, out = (cupy.zeros(max(map(max, FLOATS.values())), dtype=cupy.float32) for _ in range(2))

    def took_s(kind: str, floats: int, rounds: int, launches: int = 6) -> float:
        function = module.get_function(kind)
        grid = floats if kind == "block" else -(-floats // BLOCK)
        times: list[float] = []
        for _ in range(6):  # the first one warms up
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            for _ in range(launches):
                function((grid,), (BLOCK,), (source, out, floats, rounds))
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end) / launches / 1e3)
        return median(times[1:])

    found = []
    for kind, sizes in FLOATS.items():
        for floats in sizes:
            few, many = took_s(kind, floats, 50), took_s(kind, floats, 150)
            for whole_s in WHOLE_S:
                rounds = max(1, round(50 + 100 * (whole_s - few) / (many - few)))
                parts = [took_s(kind, floats >> k, rounds) for k in range(HALVINGS)]
                found.append(Kernel(kind, floats, [round(seconds, 9) for seconds in parts]))
    return found


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("[\n" + ",\n".join(map(json.dumps, measure())) + "\n]\n")
    else:
        print("\n".join(map(row, RULES)))
