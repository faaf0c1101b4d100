"""The suites by their names: which schedules and programs are measured to see how good the model is.

Kernels are named and carry no duration: a prediction takes their time from the device profile.

- ``quick`` touches every effect in a few seconds, and ``standard`` covers them.
- ``random``: schedules drawn from a seed, so that a run can be of some that nobody has measured before. Drawn are the
  arrays, the kernels, how it all is cut and issued, and at last the elements, as many as keep a schedule within
  ``MOST_BYTES`` and ``LONGEST_S``.
- ``programs``: programs as ``streamsim code`` writes them, drawn from a seed. Each drawn workload has several
  configurations, so that a choice among them can be judged. Every language has the same ones, except that only PyTorch
  has linear layers; the other languages have stand-ins instead.

The same seed gives the same suite on every machine and with every Python, and a larger one begins with the smaller.
For that only ``random.Random(seed).random()`` is used, the one generator that the standard library promises not to
change ("Notes on Reproducibility"), and arithmetic that IEEE 754 rounds alike everywhere: no logarithms, no powers.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple, TypeVar

import msgspec

from streamsim.device import LINEAR
from streamsim.errors import InputError
from streamsim.program import Workload, WorkloadKernel
from streamsim_validate.records import STAND_IN, Recipe, Value, workload_key

KI, MI = 1 << 10, 1 << 20
# Iterations of sincos for kernels of about a tenth, a third, one and four times a copy of the same elements
# (on an H200 over PCIe gen 5; elsewhere the shares differ and the suite is as good).
LIGHT, SMALL, EVEN, HEAVY = 2, 10, 40, 176
SLEEP_CYCLES = 100_000


def sincos(elements: int, iterations: int, inputs: tuple[int, ...] = (4,), outputs: tuple[int, ...] = (4,)) -> Workload:
    """Return a workload of one sincos kernel."""
    return Workload(elements, inputs, outputs, (WorkloadKernel("sincos", parameter=iterations),))


GRID = [(1, 1), (4, 1), (4, 4), (8, 2), (16, 4), (16, 16), (32, 8), (64, 4), (64, 32), (128, 16)]
FEW = [(1, 1), (4, 2), (8, 8), (32, 4)]


def _orders(effect: str, workload: Workload, shapes: list[tuple[int, int]], **more: Value) -> Iterator[Recipe]:
    """Yield depth- and breadth-first over (chunks, streams); with one chunk they are the same."""
    for chunks, streams in shapes:
        for pattern in ("depth-first", "breadth-first") if chunks > 1 else ("depth-first",):
            yield Recipe(pattern, {"chunks": chunks, "streams": streams, **more}, workload, effect)


def _standard() -> Iterator[Recipe]:
    for elements, iterations in product((MI, 4 * MI, 16 * MI), (LIGHT, SMALL, EVEN, HEAVY)):
        yield from _orders("grid", sincos(elements, iterations), GRID)
    for elements, iterations in ((256 * KI, EVEN), (64 * MI, EVEN), (64 * MI, HEAVY)):
        yield from _orders("size", sincos(elements, iterations), [(1, 1), (2, 2), (4, 4), (16, 4), (32, 8)])
    yield from _orders("size", sincos(256 * KI, HEAVY), [(16, 16), (64, 32)])
    for elements, iterations in ((1_000_003, SMALL), (10_000_019, EVEN)):
        yield from _orders("uneven", sincos(elements, iterations), [(3, 2), (7, 3), (12, 12), (100, 5)])
    yield from _unequal()
    yield from _buffers()
    yield from _host()
    for elements, iterations in ((MI, SMALL), (4 * MI, EVEN), (16 * MI, EVEN)):
        yield from _orders("graph", sincos(elements, iterations), [(1, 1), (4, 4), (16, 4), (64, 16)], launch="graph")


def _unequal() -> Iterator[Recipe]:
    """Yield inputs and outputs of different sizes."""
    add = (WorkloadKernel("vector_add"),)
    for elements in (MI, 8 * MI):
        yield from _orders("vector add", Workload(elements, (4, 4), (4,), add), FEW)
        yield from _orders("quarter output", sincos(elements // 2, EVEN, (16,), (4,)), FEW)
        yield from _orders("no output", sincos(elements, EVEN, (4,), ()), FEW)
    yield from _orders("copy kernel", Workload(4 * MI, (4,), (4,), (WorkloadKernel("copy"),)), FEW)
    for elements in (256 * KI, 4 * MI):
        sleep = Workload(elements, (4,), (4,), (WorkloadKernel("sleep", parameter=SLEEP_CYCLES),))
        yield from _orders("sleep", sleep, [(1, 1), (4, 4), (16, 8)])


def _buffers() -> Iterator[Recipe]:
    """Yield few buffers, and events between streams."""
    for iterations, chunks, buffers in product((SMALL, HEAVY), (8, 32), (2, 3, 4)):
        yield Recipe("ring", {"chunks": chunks, "buffers": buffers}, sincos(8 * MI, iterations), "ring")
    for buffers, streams in ((2, 3), (3, 2), (4, 3)):
        arguments: dict[str, Value] = {"chunks": 16, "buffers": buffers, "streams": streams}
        yield Recipe("ring", arguments, sincos(8 * MI, EVEN), "ring")
    layer = WorkloadKernel("sincos", parameter=SMALL)
    for layers, chunks, buffers in product((1, 4), (8, 32), (1, 2, 3)):
        network = Workload(8 * MI, (4,), (4,), (layer,) * layers)
        yield Recipe("prefetch", {"chunks": chunks, "buffers": buffers}, network, "prefetch")
    for pattern, name, sizes in (("stages", "lanes", (1, 2, 4)), ("relay", "streams", (2, 4, 8))):
        for chunks, size in product((8, 32), sizes):
            yield Recipe(pattern, {"chunks": chunks, name: size}, sincos(8 * MI, EVEN), "events")


def _host() -> Iterator[Recipe]:
    """Yield calls that hold the host, and streams that synchronise implicitly."""
    for elements, chunks in product((MI, 4 * MI, 16 * MI), (1, 4, 16)):
        yield Recipe("serial", {"chunks": chunks}, sincos(elements, EVEN), "blocking")
    for elements, chunks in product((MI, 4 * MI), (1, 8)):
        pageable: dict[str, Value] = {"chunks": chunks, "memory": "pageable"}
        yield Recipe("serial", pageable, sincos(elements, EVEN), "pageable")
        yield Recipe("depth-first", {"streams": 4, **pageable}, sincos(elements, EVEN), "pageable")
    pageable = {"chunks": 16, "streams": 4, "memory": "pageable"}
    yield Recipe("breadth-first", pageable, sincos(16 * MI, EVEN), "pageable")
    for elements in (MI, 8 * MI):
        for chunks in (1, 4, 16):
            yield Recipe("legacy", {"chunks": chunks}, sincos(elements, EVEN), "legacy")
        for chunks, streams in ((4, 2), (16, 4)):
            yield Recipe("legacy-kernels", {"chunks": chunks, "streams": streams}, sincos(elements, EVEN), "legacy")
            yield Recipe("blocking-streams", {"chunks": chunks, "streams": streams}, sincos(elements, EVEN), "legacy")


def queue_probes() -> Iterator[Recipe]:
    """Yield the part that is measured with other connections too: many streams, both orders."""
    shapes = [(4, 4), (16, 4), (16, 16), (32, 8), (64, 4), (64, 32)]
    for elements, iterations in ((4 * MI, EVEN), (16 * MI, SMALL), (16 * MI, HEAVY)):
        yield from _orders("grid", sincos(elements, iterations), shapes)
    for recipe in _buffers():
        if recipe.arguments["chunks"] != 32:
            yield recipe


def _quick() -> Iterable[Recipe]:
    """Return the last of each effect and pattern of the standard suite: it has many chunks."""
    return {(recipe.effect, recipe.pattern): recipe for recipe in _standard()}.values()


FIXED: dict[str, Callable[[], Iterable[Recipe]]] = {"quick": _quick, "standard": _standard}


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
            name = TIMED_NAMES[draws.below(len(TIMED_NAMES))]
            duration_s = draws.size(SHORTEST_NS, LONGEST_NS) / 1e9
            found.append(WorkloadKernel(name, duration_s, fill=draws.one_of(FILLS)))
        else:  # of kernels that sleep one is enough: they take as long however small the chunk
            found.append(SLEEP if kind < 50 and SLEEP not in found else draws.one_of(named))
    return tuple(found)


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


PROGRAM_COUNT = 150  # of each language
PER_WORKLOAD = 10
HAS_LINEAR = "pytorch"
ELEMENTS = (256 * KI, MI, 4 * MI, 16 * MI)  # floats
ELEMENT_BYTES, LAST = 4, "relu"  # the operation behind linear layers
CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
STREAMS = (1, 2, 3, 4, 6, 8)
BUFFERS = (2, 3, 4)
KERNELS = (1, 1, 2, 3, 6)
WORK = (1, 4, 16, 64)  # rounds of the stand-in
FEATURES = (256, 1024)
LAYERS = (1, 2)
LINEAR_PERCENT = 30
PROGRAM_PATTERNS = (("depth-first", 35), ("breadth-first", 35), ("ring", 15), ("prefetch", 15))


def stand_ins(elements: int, kernels: int, work: int) -> Workload:
    """Return a workload of a float in and out of each element, with ``kernels`` stand-ins of ``work`` rounds."""
    kernel = WorkloadKernel(STAND_IN, parameter=work)
    return Workload(elements, (ELEMENT_BYTES,), (ELEMENT_BYTES,), (kernel,) * kernels)


def linear_layers(rows: int, features: int, layers: int) -> Workload:
    """Return a workload of rows of floats through linear layers of ``features``, and one operation more."""
    kernels = (WorkloadKernel(LINEAR, parameter=features),) * layers
    size = (ELEMENT_BYTES * features,)
    return Workload(rows, size, size, (*kernels, WorkloadKernel(LAST)))


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
    pattern = draws.one_of(PROGRAM_PATTERNS)
    chunks, streams, buffers = _one(draws, CHUNKS), _one(draws, STREAMS), _one(draws, BUFFERS)
    streams, buffers = min(streams, chunks), min(buffers, chunks)
    if pattern == "prefetch":
        return pattern, {"chunks": chunks, "buffers": buffers}
    if pattern == "ring":
        return pattern, {"chunks": chunks, "buffers": buffers, "streams": streams}
    return (pattern if chunks > 1 else "depth-first"), {"chunks": chunks, "streams": streams}


def _one(draws: Draws, values: Sequence[int]) -> int:
    return values[draws.below(len(values))]


CONNECTIONS = (8, 1, 32)
QUEUE_PROBES = (1, 32)  # the connections other than the default, measured on a part of the suite
RANDOM, RANDOM_COUNT = "random", 200
SUITES = (*FIXED, RANDOM)  # of schedules; the programs of :mod:`~streamsim_validate.suites` are no such


def suite(name: str, connections: int = CONNECTIONS[0], seed: int = 0, count: int = RANDOM_COUNT) -> list[Recipe]:
    """Return the recipes of a suite for a process with this number of connections, grouped by workload.

    ``seed`` and ``count`` are those of ``random``. Raises InputError if there is no such suite.
    """
    if name not in SUITES:
        raise InputError(f"suite = {name!r}: expected one of {', '.join(SUITES)}")
    made = queue_probes if name == "standard" and connections in QUEUE_PROBES else FIXED.get(name)
    found = made() if made else random_recipes(seed, count)
    recipes = {recipe.key: recipe for recipe in found}
    return sorted(recipes.values(), key=lambda recipe: (recipe.workload.elements, workload_key(recipe.workload)))


def suite_connections(name: str) -> tuple[int, ...]:
    """Return the numbers of connections a suite is measured with, a process for each."""
    return CONNECTIONS if name == "standard" else CONNECTIONS[:1]
