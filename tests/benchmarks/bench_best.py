"""How long ``best`` takes, and what it finds on SimPy: ``python tests/benchmarks/bench_best.py [workloads] [timed]``.

First twenty workloads drawn from a seed on the default grid, compiled and warm: one to three inputs, kernels and
outputs, bound by copies, by kernels and by the host's calls in turn. The aim is 1.5 s for the worst. Seconds
are those of the processors, which others that use them too do not lengthen much.

Then the search on SimPy against the compiled optimum. Random workloads, from their numbers alone: up to three inputs,
two outputs and three kernels, half of them with stages about as long as each other, on the default grid of several
cards. SimPy and the compiled twin give the same ticks, so the twin stands in for SimPy where only the outcome counts;
the ``timed`` of them that cost most ops are then searched on SimPy.
"""

from __future__ import annotations

import random
import sys
import time
from statistics import median

import streamsim
from streamsim import Device, Grid, Workload, WorkloadKernel, load_device
from streamsim.search import BLOCKS, BUDGET_OPS, LowerBounds, Searched, cost_ops, evaluate_ticks, is_fast, search

CARDS = ("h200", "a100", "c2050", "rtx3090")
BOUND_BY, SEEDED, AIM_S = ("copies", "kernels", "host"), 20, 1.5
SMALLEST_BYTES, LARGEST_BYTES = 1 << 16, 1 << 28  # of an array
SHORTEST_S, LONGEST_S = 20e-6, 5e-3  # of a kernel


def workload_of(number: int, device: Device) -> Workload:
    """The random workload of that number; the odd ones with stages about as long as each other."""
    draw = random.Random(number)
    elements = draw.randint(1 << 14, 1 << 24)
    arrays, kernels = (draw.randint(1, 3), draw.randint(1, 2)), draw.randint(1, 3)
    alike = draw.uniform(16, 28)

    def size() -> int:
        exponent = alike + draw.uniform(-0.7, 0.7) if number % 2 else draw.uniform(16, 28)
        return max(1, round(min(max(2**exponent, SMALLEST_BYTES), LARGEST_BYTES) / elements))

    inputs, outputs = (tuple(size() for _ in range(count)) for count in arrays)

    def seconds() -> float:
        moved = sum(inputs) * elements / device.h2d.bandwidth_bytes_per_s / kernels
        found = moved * draw.uniform(0.5, 1.5) if number % 2 else SHORTEST_S * (LONGEST_S / SHORTEST_S) ** draw.random()
        return min(max(found, SHORTEST_S), LONGEST_S)

    timed = tuple(WorkloadKernel(duration_s=seconds(), fill=draw.choice((1.0, 1.0, 0.5, 0.25))) for _ in range(kernels))
    return Workload(elements, inputs, outputs, timed)


def seeded_workload(number: int, bound_by: str) -> Workload:
    """The workload of that number, of which copies, kernels or the host's calls take by far the longest."""
    draw = random.Random(number)
    large, seconds = {"copies": (24, 1e-4), "kernels": (20, 1e-2), "host": (12, 2e-6)}[bound_by]

    def sizes() -> tuple[int, ...]:
        return tuple(round(2 ** (large + 3 * draw.random())) for _ in range(draw.randint(1, 3)))

    timed = tuple(WorkloadKernel(duration_s=seconds * (1 + draw.random())) for _ in range(draw.randint(1, 3)))
    return Workload(None, sizes(), sizes(), timed)


def time_compiled() -> None:
    """Time ``best`` on each of the seeded workloads, and print the worst."""
    took = []
    streamsim.best(seeded_workload(0, "copies"), CARDS[0])  # loads what is compiled
    for number in range(SEEDED):
        bound_by = BOUND_BY[number % len(BOUND_BY)]
        card, workload = CARDS[number // 3 % len(CARDS)], seeded_workload(number, bound_by)
        begin = time.process_time()
        found = streamsim.best(workload, card)
        took.append((time.process_time() - begin, f"workload {number}, bound by {bound_by}, on {card}", found))
    worst_s, what, found = max(took, key=lambda row: row[0])
    print(
        f"best on the default grid, compiled, of {SEEDED} workloads (aim {AIM_S:g} s): worst {worst_s:.2f} s, {what},"
    )
    print(f"{found.simulated} of {found.programs} programs simulated; median {median(row[0] for row in took):.2f} s")


def within_budget(workload: Workload, device: Device) -> tuple[Searched, int]:
    """What the search within the budget finds, and the ops that it costs."""
    bound = LowerBounds(workload, device)
    queue = sorted(((bound(config), config) for config in Grid().configs(workload)), key=lambda item: item[0])
    BLOCKS[True] = BLOCKS[False]  # what is pruned hangs on them
    found = search(workload, device, queue, True, BUDGET_OPS)
    return found, sum(cost_ops(workload, config) for config in found.ticks)


def main() -> None:
    """Time the compiled search; then compare the optima of all, and time the dearest on SimPy."""
    if is_fast():
        time_compiled()
    numbers = [int(text) for text in sys.argv[1:] if text.isdigit()]
    count, timed = (*numbers, *(200, 3)[len(numbers) :])
    rows = []
    for number in range(count):
        device = load_device(CARDS[number // 2 % len(CARDS)])
        workload = workload_of(number, device)
        found, ops = within_budget(workload, device)
        best = min(evaluate_ticks(workload, Grid().configs(workload), device, fast=True))
        if found.floor > best or (found.is_exact and found.shortest != best):
            raise AssertionError(f"workload {number}: what is called proved is not")
        rows.append((found.shortest / best - 1, ops, found.is_exact, number, device, workload))
    excess = [row[0] for row in rows]
    print(f"{count} workloads, {BUDGET_OPS} ops at most: worst {max(excess):.2%} above the optimum,")
    print(f"median {median(excess):.2%}, {sum(row[2] for row in rows)} proved optimal")
    for _, ops, _, number, device, workload in sorted(rows, key=lambda row: -row[1])[:timed]:
        begin = time.process_time()
        streamsim.best(workload, device, fast=False)
        took = time.process_time() - begin
        print(f"workload {number} on {device.name}: {ops} ops, {took:.1f} s on SimPy ({ops / took / 1e3:.0f} k ops/s)")


if __name__ == "__main__":
    main()
