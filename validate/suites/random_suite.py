"""The suite ``random``: schedules drawn from a seed, so that a run can be of some that nobody has measured before.

The same seed gives the same schedules on every machine and with every Python, and more of them begin with the fewer.
For that only ``random.Random(seed).random()`` is used, the one generator that the standard library promises not to
change ("Notes on Reproducibility"), and arithmetic that IEEE 754 rounds alike everywhere: no logarithms, no powers.

Drawn are the arrays, the kernels, how it all is cut and issued, and at last the elements, as many as keep a schedule
within ``MOST_BYTES`` and ``LONGEST_S``.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

import msgspec

from streamsim.program import Workload, WorkloadKernel
from streamsim_validate.records import Recipe, Value
from streamsim_validate.suites.workloads import KI, LIGHT, MI, SLEEP_CYCLES, SMALL, sincos

FEWEST_ELEMENTS, MOST_ELEMENTS = 256 * KI, 64 * MI - 1  # as in the standard suite
MOST_BYTES = 256 * MI  # of all arrays of a workload: on the host, and again on the card
LONGEST_S = 15e-3  # one op after another on the card below: so no schedule takes much longer, and a run of all is short
MOST_CHUNKS, MOST_STREAMS, MOST_BUFFERS, MOST_KERNELS = 128, 32, 8, 3
SHORTEST_NS, LONGEST_NS = 20_000, 3_000_000  # of a kernel that is given by its time

# What ops cost about, on an H200: only for these limits, so the suite does not change with any profile.
COPY_S_PER_BYTE, PAGEABLE_S_PER_BYTE = 1 / 50e9, 1 / 9e9
PASS_S_PER_BYTE = 1 / 1.5e12  # by the stand-in for a kernel that is given by its time
SLEEP_S, SLEEP_S_PER_ELEMENT = 52e-6, 2e-10  # of a launch at least; the fewest elements of a chunk count
WAVE = 270_336  # threads that fill the card
S_PER_ELEMENT = {2: 7e-12, 10: 2e-11, 40: 6.8e-11, 176: 2.9e-10}  # sincos, by its iterations
MEMORY_S_PER_ELEMENT = 5e-12  # vector_add and copy

T = TypeVar("T")
Weighted = Sequence[tuple[T, int]]

# A profile knows a named kernel by its elements alone, as calibrated: on arrays of 4 bytes an element. On larger ones
# the light kernels, which wait for memory, take longer than it says; those that compute do not.
PLAIN: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (((4,), (4,)), ((4, 4), (4,)))
COMPUTING: Weighted[WorkloadKernel] = [(kernel, 3) for n in (40, 176) for kernel in sincos(1, n).kernels]
SLEEP = WorkloadKernel("sleep", parameter=SLEEP_CYCLES)
LIGHT_KERNELS: dict[tuple[int, ...], Weighted[WorkloadKernel]] = {
    (4,): [*((kernel, 2) for n in (LIGHT, SMALL) for kernel in sincos(1, n).kernels), (WorkloadKernel("copy"), 2)],
    (4, 4): [(WorkloadKernel("vector_add"), 4)],
}
TIMED_NAMES = ("stencil", "filter", "gemm", "reduce")
FILLS: Weighted[float | None] = [(None, 8), (0.5, 1), (0.25, 1)]

FLOATS: Weighted[int] = [(4, 5), (8, 2), (12, 2), (16, 2)]  # bytes per element
PATTERNS: Weighted[str] = [
    ("depth-first", 28),
    ("breadth-first", 20),
    ("ring", 16),
    ("prefetch", 12),
    ("serial", 5),
    ("stages", 5),
    ("relay", 5),
    ("blocking-streams", 3),
    ("legacy", 3),
    ("legacy-kernels", 3),
]
LAUNCHABLE = {"depth-first", "breadth-first", "ring", "prefetch"}  # as a graph, too
IN_ONE_STREAM = {"serial", "legacy"}


def random_recipes(seed: int, count: int) -> list[Recipe]:
    """Return ``count`` recipes with different keys, from the seed alone; they begin with those of any smaller count."""
    return list(islice(_distinct(Draws(seed)), count))


def _distinct(draws: "Draws") -> Iterator[Recipe]:
    seen: set[str] = set()
    while True:
        recipe = _recipe(draws)
        if recipe.key not in seen:
            seen.add(recipe.key)
            yield recipe


class Draws:
    """Random draws. A draw always takes one number, so that its outcome shifts none of those after it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def below(self, n: int) -> int:
        """Return a whole number from 0 on."""
        return int(self._random() * n)

    def happens(self, percent: int) -> bool:
        return self.below(100) < percent

    def one_of(self, weighted: Weighted[T]) -> T:
        left = self.below(sum(weight for _, weight in weighted))
        for value, weight in weighted:
            left -= weight
            if left < 0:
                return value
        raise AssertionError("the weights sum up to more than what is drawn")

    def size(self, least: int, most: int) -> int:
        """Return a size, about log-uniform: each factor of two between ``least`` and ``most`` is as likely."""
        octaves = range(least.bit_length() - 1, most.bit_length())
        position = self._random() * len(octaves)
        octave = octaves[int(position)]
        first, last = max(least, 1 << octave), min(most, (2 << octave) - 1)
        return first + int((position - int(position)) * (last - first + 1))


def _recipe(draws: Draws) -> Recipe:
    inputs, outputs = _arrays(draws)
    pattern = draws.one_of(PATTERNS)
    arguments = _arguments(draws, pattern)
    kernels = _kernels(draws, inputs, outputs)
    chunks, bytes_each = int(arguments["chunks"]), sum(inputs) + sum(outputs)
    copy_s = COPY_S_PER_BYTE if arguments.get("memory") is None else PAGEABLE_S_PER_BYTE
    waits_s = sum(kernel.duration_s or (SLEEP_S * chunks if kernel == SLEEP else 0.0) for kernel in kernels)
    element_s = bytes_each * copy_s + sum(map(_element_s, kernels))
    most = min(MOST_ELEMENTS, MOST_BYTES // bytes_each, int(max(0.0, LONGEST_S - waits_s) / element_s))
    elements = draws.size(FEWEST_ELEMENTS, max(most, 2 * FEWEST_ELEMENTS))
    passed = elements * (sum(outputs) or inputs[-1])
    kernels = tuple(_within_limits(kernel, passed, elements, chunks) for kernel in kernels)
    timed = {kernel.duration_s is not None for kernel in kernels}
    effect = "named kernels" if timed == {False} else "timed kernels" if timed == {True} else "named and timed"
    return Recipe(pattern, arguments, _threads_told(Workload(elements, inputs, outputs, kernels)), effect)


def _threads_told(workload: Workload) -> Workload:
    """Return the workload with threads for each timed kernel that names none: one for each float of the largest array.

    Without an array that is cut, there is one for each element.
    """
    threads = workload.floats or workload.elements or 0
    kernels = (
        msgspec.structs.replace(kernel, threads=kernel.threads or threads) if kernel.is_timed else kernel
        for kernel in workload.kernels
    )
    return msgspec.structs.replace(workload, kernels=tuple(kernels))


def _arrays(draws: Draws) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the bytes per element of each input and output."""
    if draws.happens(45):
        return PLAIN[draws.below(len(PLAIN))]
    inputs = tuple(draws.one_of(FLOATS) for _ in range(draws.one_of([(1, 5), (2, 3), (3, 2)])))
    outputs = tuple(draws.one_of(FLOATS) for _ in range(draws.one_of([(0, 2), (1, 5), (2, 3)])))
    return inputs, outputs


def _arguments(draws: Draws, pattern: str) -> dict[str, Value]:
    chunks = _several(draws, MOST_CHUNKS)
    streams = _several(draws, min(chunks, MOST_STREAMS))
    buffers = _several(draws, min(chunks, MOST_BUFFERS))
    lanes = _several(draws, min(chunks, MOST_BUFFERS))
    own_streams = draws.happens(50)
    pageable, graph = draws.happens(4), draws.happens(25)
    found: dict[str, Value] = {"chunks": chunks}
    if pattern == "stages":
        found["lanes"] = lanes
    elif pattern in ("ring", "prefetch"):
        found["buffers"] = buffers
        if pattern == "ring" and own_streams:
            found["streams"] = streams
    elif pattern not in IN_ONE_STREAM:
        found["streams"] = streams
    if pageable and (pattern in LAUNCHABLE or pattern == "serial"):
        found["memory"] = "pageable"
    elif graph and pattern in LAUNCHABLE:
        found["launch"] = "graph"
    return found


def _several(draws: Draws, most: int) -> int:
    """Return several, rarely a single one: without overlap there is little to predict."""
    alone = draws.happens(8)
    found = draws.size(min(2, most), most)
    return 1 if alone else found


def _kernels(draws: Draws, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> tuple[WorkloadKernel, ...]:
    light = LIGHT_KERNELS[inputs] if (inputs, outputs) in PLAIN else []
    named: Weighted[WorkloadKernel] = [*COMPUTING, *light]
    found: list[WorkloadKernel] = []
    for _ in range(draws.one_of([(1, 5), (2, 3), (MOST_KERNELS, 2)])):
        kind = draws.below(100)
        if kind < 45:
            found.append(_timed(draws))
        else:  # of kernels that sleep one is enough: they take as long however small the chunk
            found.append(SLEEP if kind < 50 and SLEEP not in found else draws.one_of(named))
    return tuple(found)


def _timed(draws: Draws) -> WorkloadKernel:
    name = TIMED_NAMES[draws.below(len(TIMED_NAMES))]
    return WorkloadKernel(name, draws.size(SHORTEST_NS, LONGEST_NS) / 1e9, fill=draws.one_of(FILLS))


def _element_s(kernel: WorkloadKernel) -> float:
    if kernel.duration_s is not None:
        return 0.0
    if kernel == SLEEP:
        return SLEEP_S_PER_ELEMENT
    return S_PER_ELEMENT.get(kernel.parameter, MEMORY_S_PER_ELEMENT)


def _within_limits(kernel: WorkloadKernel, passed: int, elements: int, chunks: int) -> WorkloadKernel:
    """Return the kernel with a duration that is within the limits, and long enough to pass these bytes through.

    If a chunk has fewer threads than a wave of the card, it may take a quarter of the time of a wave of the launch.
    """
    if kernel.duration_s is None:
        return kernel
    most_s = LONGEST_S / MOST_KERNELS / max(1.0, min(chunks, chunks * WAVE / 4 / elements))
    least_s = 2 * (2 * passed) * PASS_S_PER_BYTE / (kernel.fill or 1.0)  # twice the time to read them and to write them
    duration_s = max(SHORTEST_NS / 1e9, least_s, min(kernel.duration_s, most_s))
    return msgspec.structs.replace(kernel, duration_s=int(duration_s * 1e9) / 1e9)
