"""The suite ``programs``: programs as ``streamsim code`` writes them, drawn from a seed.

Each drawn workload has several configurations, so that a choice among them can be judged. Every language has the same
ones, except that only PyTorch has linear layers; the other languages have stand-ins instead. A seed gives the same
programs on every machine, and a larger number of programs begins with the smaller one.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from streamsim.device import LINEAR
from streamsim.program import Workload
from streamsim_validate.records import STAND_IN, Recipe, Value, linear_layers, stand_ins
from streamsim_validate.suites.random_suite import Draws
from streamsim_validate.suites.workloads import KI, MI

PROGRAM_COUNT = 150  # of each language
PER_WORKLOAD = 10
HAS_LINEAR = "pytorch"
ELEMENTS = (256 * KI, MI, 4 * MI, 16 * MI)  # floats
CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
STREAMS = (1, 2, 3, 4, 6, 8)
BUFFERS = (2, 3, 4)
KERNELS = (1, 1, 2, 3, 6)
WORK = (1, 4, 16, 64)  # rounds of the stand-in
FEATURES = (256, 1024)
LAYERS = (1, 2)
LINEAR_PERCENT = 30
PATTERNS = (("depth-first", 35), ("breadth-first", 35), ("ring", 15), ("prefetch", 15))


class Drawn(NamedTuple):
    """A program of the suite; ``plain``: what stands in its place in languages without linear layers."""

    recipe: Recipe
    plain: Recipe

    def of(self, language: str) -> Recipe:
        """Return the recipe in a language."""
        return self.recipe if language == HAS_LINEAR else self.plain


def drawn_programs(seed: int, count: int) -> list[Drawn]:
    """Return ``count`` different programs, from the seed alone; they begin with those of any smaller count."""
    return list(islice(_programs(Draws(seed)), count))


def _programs(draws: Draws) -> Iterator[Drawn]:
    seen: set[str] = set()
    while True:
        workload, plain = _workloads(draws)
        found = 0
        while found < PER_WORKLOAD:
            pattern, arguments = _issued(draws)
            drawn = Drawn(
                Recipe(pattern, arguments, workload, LINEAR if workload != plain else STAND_IN),
                Recipe(pattern, arguments, plain, STAND_IN),
            )
            keys = {drawn.recipe.key, drawn.plain.key}
            if not keys & seen:
                seen |= keys
                found += 1
                yield drawn


def _workloads(draws: Draws) -> tuple[Workload, Workload]:
    """Return the drawn workload, and its counterpart with stand-ins."""
    elements, kernels, work = _one(draws, ELEMENTS), _one(draws, KERNELS), _one(draws, WORK)
    is_linear, features, layers = draws.happens(LINEAR_PERCENT), _one(draws, FEATURES), _one(draws, LAYERS)
    plain = stand_ins(elements, kernels, work)
    return (linear_layers(elements // features, features, layers) if is_linear else plain), plain


def _issued(draws: Draws) -> tuple[str, dict[str, Value]]:
    """Return a pattern and its arguments. One chunk is the same program in any order."""
    pattern = draws.one_of(PATTERNS)
    chunks, streams, buffers = _one(draws, CHUNKS), _one(draws, STREAMS), _one(draws, BUFFERS)
    streams, buffers = min(streams, chunks), min(buffers, chunks)
    if pattern == "prefetch":
        return pattern, {"chunks": chunks, "buffers": buffers}
    if pattern == "ring":
        return pattern, {"chunks": chunks, "buffers": buffers, "streams": streams}
    return (pattern if chunks > 1 else "depth-first"), {"chunks": chunks, "streams": streams}


def _one(draws: Draws, values: Sequence[int]) -> int:
    return values[draws.below(len(values))]
