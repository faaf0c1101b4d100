"""The suites ``quick``, which touches every effect in a few seconds, and ``standard``, which covers them."""

from collections.abc import Callable, Iterator
from itertools import product

from streamsim.program import Workload, WorkloadKernel
from streamsim_validate.records import Recipe, Value
from streamsim_validate.suites.workloads import EVEN, HEAVY, KI, LIGHT, MI, SLEEP_CYCLES, SMALL, sincos

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


def _quick() -> Iterator[Recipe]:
    for iterations in (SMALL, HEAVY):
        yield from _orders("grid", sincos(4 * MI, iterations), [(1, 1), (4, 4), (16, 4), (64, 16)])
    yield from _orders("uneven", sincos(1_000_003, SMALL), [(7, 3)])
    yield from _orders("graph", sincos(4 * MI, SMALL), [(16, 4)], launch="graph")
    effects = ("vector add", "quarter output", "no output", "copy kernel", "sleep")
    wanted = {(effect, "depth-first", 4) for effect in effects}
    yield from (
        recipe for recipe in _unequal() if (recipe.effect, recipe.pattern, recipe.arguments["chunks"]) in wanted
    )
    seen: set[str] = set()
    for recipe in (*_buffers(), *_host()):
        if recipe.pattern + recipe.effect not in seen:
            seen.add(recipe.pattern + recipe.effect)
            yield recipe


FIXED: dict[str, Callable[[], Iterator[Recipe]]] = {"quick": _quick, "standard": _standard}
